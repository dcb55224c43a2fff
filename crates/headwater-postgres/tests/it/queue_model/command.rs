//! Commands as values that can be shrunk: whatever they refer to is a small number, given its
//! meaning when they run.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

pub(crate) const TYPES: [&str; 3] = ["order.placed", "order.paid", "user.created"];
/// What workers ask for. Nothing: all types.
pub(crate) const WANTED: [&[&str]; 5] = [&[], &[], &["order.placed"], &["order.*"], &["user.created", "order.paid"]];

/// One of the claims that were made before, held or not; taken modulo their number.
pub(crate) type Earlier = usize;
/// Some events of a claim, by their places in it, each modulo their number. `None`: all.
pub(crate) type Some_ = Option<Vec<usize>>;
/// In hours, so that what happens between two commands takes no time.
pub(crate) type Hours = u64;

#[derive(Debug, Clone)]
pub(crate) enum Command {
    Append(Vec<usize>),
    Claim {
        worker: usize,
        max_events: u32,
        per_claim: Option<u32>,
        wanted: usize,
        max_attempts: u32,
        visibility: Hours,
        acks: Vec<Earlier>,
    },
    Ack(Earlier, Some_),
    Nack(Earlier, Some_, Hours),
    Reject(Earlier, Some_),
    Release(Earlier, Some_),
    Extend(Earlier, Hours),
    Pass(Hours),
    Pause(bool),
    Redrive,
    Discard(u64),
    Reset(u64),
}

fn some() -> impl Strategy<Value = Some_> {
    option::of(vec(0..6usize, 1..3))
}

fn claim() -> impl Strategy<Value = Command> {
    let acks = prop_oneof![4 => Just(Vec::new()), 1 => vec(0..50usize, 1..3)];
    (0..3usize, 1..7u32, option::of(1..4u32), 0..WANTED.len(), 1..4u32, 1..5u64, acks).prop_map(
        |(worker, max_events, per_claim, wanted, max_attempts, visibility, acks)| Command::Claim {
            worker,
            max_events,
            per_claim,
            wanted,
            max_attempts,
            visibility,
            acks,
        },
    )
}

pub(crate) fn command() -> impl Strategy<Value = Command> {
    let earlier = 0..50usize;
    prop_oneof![
        4 => vec(0..TYPES.len(), 1..6).prop_map(Command::Append),
        8 => claim(),
        4 => (earlier.clone(), some()).prop_map(|(claim, some)| Command::Ack(claim, some)),
        3 => (earlier.clone(), some(), 0..4u64).prop_map(|(claim, some, delay)| Command::Nack(claim, some, delay)),
        1 => (earlier.clone(), some()).prop_map(|(claim, some)| Command::Reject(claim, some)),
        2 => (earlier.clone(), some()).prop_map(|(claim, some)| Command::Release(claim, some)),
        1 => (earlier, 1..6u64).prop_map(|(claim, hours)| Command::Extend(claim, hours)),
        4 => (1..4u64).prop_map(Command::Pass),
        1 => any::<bool>().prop_map(Command::Pause),
        1 => Just(Command::Redrive),
        1 => (1..20u64).prop_map(Command::Discard),
        1 => (0..10u64).prop_map(Command::Reset),
    ]
}
