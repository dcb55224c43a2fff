//! Logs what a process of a group does: which partitions it owns, and what holds them back.

use std::time::Duration;

use headwater::Node;
use headwater::delivery::{GroupInfo, Instance, OperatorStore, PgSubscribers, RunnerState, SubscriberError};
use headwater::node::SubscriberStatus;

use super::narrate::GONE;
use crate::commands::groups::view::{live_owner, numbers};
use crate::failure::Failure;
use crate::logging::CONSUME;
use crate::output::{plural, printable};

const LOOK: Duration = Duration::from_millis(250);
/// While this process owns no partition, the database is asked once per this many looks.
const ASK_EVERY: u32 = 8;

/// Runs until the subscriber is removed.
pub(super) async fn narrate(
    node: &Node,
    subscribers: &PgSubscribers,
    subscriber_id: &str,
    assigned: &[u32],
) -> Failure {
    let mut look = 0_u32;
    let mut before = None;
    let mut asked_with = None;
    let mut said = String::new();
    let mut was_held = false;
    let mut gone = 0;
    loop {
        look = look.wrapping_add(1);
        tokio::time::sleep(LOOK).await;
        let seats = node.status().subscribers;
        let held = held(&seats);
        if let Some(held) = held.as_ref().filter(|_| !was_held) {
            tracing::info!(target: CONSUME, "{held}");
        }
        was_held = held.is_some();

        let owned: Vec<u32> = sorted(seats.iter().filter(|seat| seat.owned));
        // Partitions come and go one by one: log only a set that stays the same for two looks.
        let stays = before.replace(owned.clone()) == Some(owned.clone());
        let asks = asked_with.as_ref() != Some(&owned) || (owned.is_empty() && look.is_multiple_of(ASK_EVERY));
        if !stays || !asks {
            continue;
        }
        let group = match subscribers.group(subscriber_id).await {
            Ok(group) => group,
            Err(error @ SubscriberError::NotFound(_)) => return Failure::from(error).at("it was removed"),
            Err(error @ SubscriberError::NamespaceNotFound(_)) => {
                gone += 1;
                asked_with = Some(owned);
                match gone < GONE {
                    true => continue,
                    false => return Failure::from(error).at("it was removed, or is not granted any more"),
                }
            }
            // The node logs this itself.
            Err(_) => continue,
        };
        gone = 0;
        let is_paused = owned.is_empty() && seats.iter().any(|seat| seat.report.state == RunnerState::Paused);
        let line = match is_paused {
            true => "paused: `headwater subscribers resume` lets it go on".into(),
            false => line(&group, node.instance(), &owned, assigned),
        };
        asked_with = Some(owned);
        if line != said {
            tracing::info!(target: CONSUME, "{line}");
            said = line;
        }
    }
}

fn sorted<'s>(seats: impl Iterator<Item = &'s SubscriberStatus>) -> Vec<u32> {
    let mut partitions: Vec<u32> = seats.map(|seat| seat.partition).collect();
    partitions.sort_unstable();
    partitions
}

/// Describes the partitions that are held back, mostly by the same gap.
fn held(seats: &[SubscriberStatus]) -> Option<String> {
    let held: Vec<_> = seats.iter().filter(|seat| seat.report.state == RunnerState::Held).collect();
    let detail = held.first()?.report.detail.as_deref().unwrap_or_default();
    Some(format!("held: {detail} (partitions {})", numbers(&sorted(held.iter().copied()))))
}

fn line(group: &GroupInfo, me: &Instance, owned: &[u32], assigned: &[u32]) -> String {
    let all = plural(group.partitions.len() as u64, "partition");
    let mut line = match owned {
        [] => format!("standing by: has none of {all}"),
        owned => format!("has {} of {all}: {}", owned.len(), numbers(owned)),
    };
    if assigned.is_empty() {
        line += &format!("; {} in the group", plural(group.members.len() as u64, "member"));
    }
    for partition in group.partitions.iter().filter(|partition| assigned.contains(&partition.partition)) {
        if let Some(owner) = live_owner(partition).filter(|owner| *owner != me) {
            line += &format!("; node {} has {}", printable(&owner.node), partition.partition);
        }
    }
    match (group.resize_to, group.barrier) {
        (Some(to), None) => line += &format!("; owners give up all partitions, then there will be {to}"),
        (Some(to), Some(barrier)) => line += &format!("; there will be {to} when all have reached {barrier}"),
        (None, _) => {}
    }
    line
}

#[cfg(test)]
mod tests {
    use headwater::delivery::PartitionInfo;

    use super::*;

    fn group(owners: &[Option<&Instance>]) -> GroupInfo {
        let partition = |(partition, owner): (u32, &Option<&Instance>)| PartitionInfo {
            partition,
            position: 0,
            pending_gaps: Vec::new(),
            owner: owner.cloned(),
            term: 1,
            lease_left: owner.map(|_| Duration::from_secs(5)),
            report: None,
            lag_events: 0,
        };
        GroupInfo {
            subscriber_id: "g".into(),
            members: Vec::new(),
            partitions: (0..).zip(owners).map(partition).collect(),
            resize_to: None,
            barrier: None,
        }
    }

    #[test]
    fn a_line_says_what_it_has_and_what_changes() {
        let (me, other) = (Instance::new("a"), Instance::new("b"));
        let mut shared = group(&[Some(&me), Some(&me), Some(&other)]);
        shared.members = vec![me.clone(), other.clone()];
        assert_eq!(line(&shared, &me, &[0, 1], &[]), "has 2 of 3 partitions: 0-1; 2 members in the group");
        shared.resize_to = Some(8);
        let halted = "standing by: has none of 3 partitions; 2 members in the group; owners give up all partitions, \
                      then there will be 8";
        assert_eq!(line(&shared, &me, &[], &[]), halted);
        shared.barrier = Some(17);
        assert!(line(&shared, &me, &[0, 1], &[]).ends_with("; there will be 8 when all have reached 17"));
        let by_hand = group(&[Some(&me), None, Some(&other)]);
        assert_eq!(line(&by_hand, &me, &[0], &[0, 2]), "has 1 of 3 partitions: 0; node b has 2");
    }
}
