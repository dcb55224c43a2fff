//! The queue of a shared subscriber.
//!
//! Each event of the log is in one place: ahead of the frontier, left behind, in a claim, in a
//! retry, or settled. The store's clock says when a claim expires and when a retry is due. Only a
//! claim takes back what has expired, so an expired claim can still be acked until another claim
//! takes it over.

mod claim;
mod settle;
mod takes;

pub(super) use self::settle::{HandedBack, claim_lost};
pub(super) use self::takes::Takes;

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use headwater_core::{Attempt, Gaps, RecordedEvent};
use uuid::Uuid;

use super::dead_letters::DeadLetters;
use crate::state::State;

/// The events that nobody has settled yet.
#[derive(Debug)]
pub(super) struct Queue {
    /// The event types that the queue takes. Events of other types are settled when a claim passes
    /// them.
    pub(super) takes: Takes,
    /// Events above this sequence are new.
    pub(super) frontier: u64,
    /// Events up to the frontier that no claim wanted yet because of their type.
    left_behind: Gaps,
    /// Sequences up to the frontier that the log does not have yet.
    pub(super) to_come: Gaps,
    claims: BTreeMap<Uuid, HeldClaim>,
    retries: BTreeMap<u64, Retry>,
    /// The last number that a claim or retry got. Numbers follow the order in which they were made.
    numbers: u64,
}

/// Events that belong to a worker for a time.
#[derive(Debug, Clone)]
struct HeldClaim {
    number: u64,
    worker: String,
    visible_at: DateTime<Utc>,
    /// The first and last event of the claim when it was made.
    range: (u64, u64),
    /// The events that are not settled, in order.
    sequences: Vec<u64>,
    /// Whether the claim was handed out alone with one event. If it expires, that event was begun.
    is_single: bool,
    /// How often an event is delivered before a failure makes it a dead letter.
    max_attempts: u32,
    past: Deliveries,
}

/// Events to deliver again.
#[derive(Debug)]
struct Retry {
    due_at: DateTime<Utc>,
    sequences: Vec<u64>,
    past: Deliveries,
}

/// The earlier deliveries of some events.
#[derive(Debug, Clone, Default)]
struct Deliveries {
    /// The deliveries that count as attempts, including the present one of a claim.
    attempts: u32,
    /// The deliveries that do not count.
    uncounted: u32,
    failures: Vec<Attempt>,
    /// Whether the worker was lost. The event may be the reason.
    is_suspect: bool,
    /// Whether the event belongs to a dead letter that is being redriven.
    is_letter: bool,
}

/// One call to a queue, with everything that it reads and writes.
pub(super) struct QueueCall<'a> {
    pub(super) queue: &'a mut Queue,
    pub(super) letters: &'a mut DeadLetters,
    pub(super) subscriber_id: &'a str,
    /// The subscriber's term, for its dead letters.
    pub(super) term: u64,
    pub(super) log: &'a State,
    pub(super) now: DateTime<Utc>,
}

impl Queue {
    pub(super) fn new(frontier: u64, to_come: Gaps) -> Self {
        Queue {
            takes: Takes::default(),
            frontier,
            left_behind: Gaps::new(),
            to_come,
            claims: BTreeMap::new(),
            retries: BTreeMap::new(),
            numbers: 0,
        }
    }

    /// Starts again just after a position. All claims are lost.
    pub(super) fn reset(&mut self, position: u64, to_come: &Gaps) {
        let mut still_to_come = std::mem::take(&mut self.to_come);
        still_to_come.remove(position.saturating_add(1), u64::MAX);
        to_come.iter().for_each(|(first, last)| still_to_come.insert(first, last));
        let takes = std::mem::take(&mut self.takes);
        *self = Queue { takes, numbers: self.numbers, ..Queue::new(position, still_to_come) };
    }

    /// Lets the queue take these event types too. None: no change.
    pub(super) fn widen(&mut self, event_types: &[String]) {
        if !event_types.is_empty() {
            self.takes.widen(event_types);
        }
    }

    /// Everything at or below this sequence is settled.
    pub(super) fn position(&self) -> u64 {
        let held = self.claims.values().filter(|claim| !claim.past.is_letter).filter_map(|it| it.sequences.first());
        let again = self.retries.values().filter(|retry| !retry.past.is_letter).filter_map(|it| it.sequences.first());
        let unsettled = held.chain(again).copied().chain(self.left_behind.first()).chain(self.to_come.first());
        unsettled.map(|sequence| sequence - 1).min().map_or(self.frontier, |position| position.min(self.frontier))
    }

    fn next_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn retry(&mut self, due_at: DateTime<Utc>, sequences: Vec<u64>, past: Deliveries) {
        if !sequences.is_empty() {
            let number = self.next_number();
            self.retries.insert(number, Retry { due_at, sequences, past });
        }
    }

    /// Whether a letter that is being redriven is in a claim or waits for one.
    fn has_letter(&self, sequence: u64) -> bool {
        let is_it = |past: &Deliveries, sequences: &[u64]| past.is_letter && sequences.contains(&sequence);
        self.claims.values().any(|claim| is_it(&claim.past, &claim.sequences))
            || self.retries.values().any(|retry| is_it(&retry.past, &retry.sequences))
    }
}

impl State {
    fn at(&self, sequence: u64) -> Option<&RecordedEvent> {
        self.events.get(usize::try_from(sequence).ok()?.checked_sub(1)?)
    }
}
