//! A running change of the number of partitions: how far it is, and what it waits for.

use headwater::delivery::{GroupInfo, PartitionInfo, SubscriberInfo};
use serde_json::{Value, json};

use super::view::{instances, is_by_hand, live_owner, numbers};
use crate::output::{plural, printable};

/// The most partitions that a line names.
const NAMED: usize = 8;

#[derive(Debug)]
pub(super) struct Change {
    pub(super) to: u32,
    pub(super) barrier: Option<u64>,
    pub(super) waits_for: WaitsFor,
    /// The partitions that the change waits for.
    pub(super) partitions: Vec<u32>,
    /// What the change waits for, as a text for people.
    pub(super) text: String,
    /// What somebody must do so that the change goes on.
    pub(super) needs: Option<&'static str>,
    /// Whether the group has members, which take the steps of the change.
    pub(super) has_members: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitsFor {
    /// Owners have to give up their partitions.
    Owners,
    /// Partitions have not reached the barrier.
    Barrier,
    /// Some partitions have gaps to close that others have closed.
    Gaps,
    /// The next step is due. A member takes it, or the process that asked for the change.
    Step,
}

impl WaitsFor {
    fn name(self) -> &'static str {
        match self {
            WaitsFor::Owners => "owners",
            WaitsFor::Barrier => "barrier",
            WaitsFor::Gaps => "gaps",
            WaitsFor::Step => "step",
        }
    }
}

impl Change {
    /// Returns the running change, if there is one.
    pub(super) fn of(info: &SubscriberInfo, group: &GroupInfo) -> Option<Self> {
        let to = group.resize_to?;
        let all = group.partitions.len();
        let (waits_for, waited, what) = match group.barrier {
            None => {
                let owned: Vec<_> =
                    group.partitions.iter().filter(|partition| live_owner(partition).is_some()).collect();
                (WaitsFor::Owners, owned, "are to be given up by their owners".to_owned())
            }
            Some(barrier) => {
                let behind: Vec<_> = group.partitions.iter().filter(|partition| partition.position < barrier).collect();
                match behind.is_empty() {
                    true => (WaitsFor::Gaps, differing(group), "have gaps to close that others have closed".into()),
                    false => (WaitsFor::Barrier, behind, format!("have not come to the barrier, {barrier}")),
                }
            }
        };
        let (waits_for, text) = match waited.is_empty() {
            true => (WaitsFor::Step, "the next step is due".to_owned()),
            false => {
                let mut list: Vec<_> = waited.iter().take(NAMED).map(|partition| place(partition)).collect();
                list.extend(waited.len().checked_sub(NAMED + 1).map(|more| format!("and {} more", more + 1)));
                (
                    waits_for,
                    format!("{} of {} {what}: {}", waited.len(), plural(all as u64, "partition"), list.join(", ")),
                )
            }
        };
        let needs = match waits_for {
            WaitsFor::Owners if waited.iter().any(|partition| is_by_hand(group, partition)) => {
                Some("a process with --partition-id gives its partitions up when it is stopped, not before")
            }
            WaitsFor::Barrier | WaitsFor::Gaps if info.paused => {
                Some("the subscriber is paused: `headwater subscribers resume` lets it go on")
            }
            WaitsFor::Barrier | WaitsFor::Gaps if instances(group).is_empty() => {
                Some("no process of the group is running: it goes on when one starts")
            }
            WaitsFor::Barrier | WaitsFor::Gaps
                if group.members.is_empty() && waited.iter().any(|partition| live_owner(partition).is_none()) =>
            {
                Some("a partition that is waited for has no owner: start a process that has it")
            }
            _ => None,
        };
        let partitions = waited.iter().map(|partition| partition.partition).collect();
        let has_members = !group.members.is_empty();
        Some(Change { to, barrier: group.barrier, waits_for, partitions, text, needs, has_members })
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "to": self.to,
            "barrier": self.barrier,
            "waits_for": self.waits_for.name(),
            "partitions": self.partitions,
            "text": self.text,
            "needs": self.needs,
        })
    }
}

/// Returns the partitions with pending gaps, unless all partitions have the same pending gaps.
fn differing(group: &GroupInfo) -> Vec<&PartitionInfo> {
    let same = group.partitions.windows(2).all(|pair| pair[0].pending_gaps == pair[1].pending_gaps);
    let open = |partition: &&PartitionInfo| !same && !partition.pending_gaps.is_empty();
    group.partitions.iter().filter(open).collect()
}

fn place(partition: &PartitionInfo) -> String {
    let owner = live_owner(partition).map_or("no owner".into(), |owner| format!("node {}", printable(&owner.node)));
    format!("{} at {} ({owner})", numbers(&[partition.partition]), partition.position)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use headwater::delivery::{Instance, SubscriberMode};

    use super::*;

    fn info() -> SubscriberInfo {
        SubscriberInfo {
            subscriber_id: "g".into(),
            mode: SubscriberMode::Partitioned { partitions: 2 },
            position: 0,
            last_event_id: None,
            pending_gaps: Vec::new(),
            owner: None,
            term: 1,
            lease_left: None,
            report: None,
            paused: false,
            pause_reason: None,
            lag_events: 0,
            lag: Duration::ZERO,
            dead_letters: 0,
            created_at: Default::default(),
            updated_at: Default::default(),
        }
    }

    fn partition(number: u32, position: u64, owner: Option<&Instance>) -> PartitionInfo {
        PartitionInfo {
            partition: number,
            position,
            pending_gaps: Vec::new(),
            owner: owner.cloned(),
            term: 1,
            lease_left: owner.map(|_| Duration::from_secs(5)),
            report: None,
            lag_events: 0,
        }
    }

    fn group(partitions: Vec<PartitionInfo>, members: Vec<Instance>, barrier: Option<u64>) -> GroupInfo {
        GroupInfo { subscriber_id: "g".into(), members, partitions, resize_to: Some(4), barrier }
    }

    #[test]
    fn no_change_is_none() {
        let standing = GroupInfo { resize_to: None, ..group(vec![partition(0, 1, None)], Vec::new(), None) };
        assert!(Change::of(&info(), &standing).is_none());
    }

    #[test]
    fn first_owners_give_up_their_partitions() {
        let a = Instance::new("a");
        let owned = vec![partition(0, 5, Some(&a)), partition(1, 9, None)];
        let change = Change::of(&info(), &group(owned.clone(), vec![a], None)).unwrap();
        assert_eq!((change.waits_for, &change.partitions[..]), (WaitsFor::Owners, &[0][..]));
        assert_eq!(change.text, "1 of 2 partitions are to be given up by their owners: 0 at 5 (node a)");
        assert_eq!(change.needs, None);
        let by_hand = Change::of(&info(), &group(owned, Vec::new(), None)).unwrap();
        assert!(by_hand.needs.unwrap().contains("when it is stopped"));
    }

    #[test]
    fn of_many_partitions_some_are_named() {
        let a = Instance::new("a");
        let owned: Vec<_> = (0..10).map(|number| partition(number, 0, Some(&a))).collect();
        let change = Change::of(&info(), &group(owned, vec![a], None)).unwrap();
        assert_eq!(change.partitions.len(), 10);
        assert!(change.text.ends_with("6 at 0 (node a), 7 at 0 (node a), and 2 more"), "{}", change.text);
    }

    #[test]
    fn then_partitions_come_to_the_barrier() {
        let a = Instance::new("a");
        let behind = vec![partition(0, 5, Some(&a)), partition(1, 9, Some(&a))];
        let change = Change::of(&info(), &group(behind.clone(), vec![a.clone()], Some(9))).unwrap();
        assert_eq!((change.waits_for, &change.partitions[..]), (WaitsFor::Barrier, &[0][..]));
        assert_eq!(change.text, "1 of 2 partitions have not come to the barrier, 9: 0 at 5 (node a)");
        assert_eq!(change.needs, None);
        let paused = SubscriberInfo { paused: true, ..info() };
        assert!(Change::of(&paused, &group(behind, vec![a], Some(9))).unwrap().needs.unwrap().contains("paused"));
        let nobody = vec![partition(0, 5, None), partition(1, 9, None)];
        let change = Change::of(&info(), &group(nobody, Vec::new(), Some(9))).unwrap();
        assert!(change.needs.unwrap().starts_with("no process of the group is running"));
    }

    #[test]
    fn and_close_the_same_gaps() {
        let mut uneven = vec![partition(0, 9, None), partition(1, 9, None)];
        let even = uneven.clone();
        uneven[1].pending_gaps = vec![(3, 4)];
        let change = Change::of(&info(), &group(uneven, vec![Instance::new("a")], Some(9))).unwrap();
        assert_eq!((change.waits_for, &change.partitions[..]), (WaitsFor::Gaps, &[1][..]));
        let change = Change::of(&info(), &group(even, Vec::new(), Some(9))).unwrap();
        assert_eq!((change.waits_for, change.needs), (WaitsFor::Step, None));
    }
}
