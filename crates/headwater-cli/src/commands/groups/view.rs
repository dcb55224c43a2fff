//! How groups and their partitions are shown to people and programs.

use headwater::admin::Holder;
use headwater::delivery::{GroupInfo, GroupSummary, Instance, PartitionInfo, SubscriberInfo};
use serde_json::{Value, json};

use super::change::Change;
use crate::duration::format_age;
use crate::held;
use crate::output::printable;

/// Returns the owner, if its lease still runs.
pub(crate) fn live_owner(partition: &PartitionInfo) -> Option<&Instance> {
    partition.owner.as_ref().filter(|_| partition.lease_left.is_some())
}

/// How many partitions have an owner.
pub(super) fn owned(group: &GroupInfo) -> usize {
    group.partitions.iter().filter(|partition| live_owner(partition).is_some()).count()
}

/// Whether the partition was assigned to its owner by hand: the owner takes no share of the group.
pub(super) fn is_by_hand(group: &GroupInfo, partition: &PartitionInfo) -> bool {
    live_owner(partition).is_some_and(|owner| !group.members.contains(owner))
}

/// The partitions that an instance owns.
pub(crate) fn partitions_of(group: &GroupInfo, instance: &Instance) -> Vec<u32> {
    let its = |partition: &&PartitionInfo| live_owner(partition) == Some(instance);
    group.partitions.iter().filter(its).map(|partition| partition.partition).collect()
}

/// Returns the instances of the group: first its members, then owners with partitions by hand.
pub(super) fn instances(group: &GroupInfo) -> Vec<&Instance> {
    let mut all: Vec<_> = group.members.iter().collect();
    for owner in group.partitions.iter().filter_map(live_owner) {
        if !all.contains(&owner) {
            all.push(owner);
        }
    }
    all
}

/// The state of a partition, in one word.
pub(crate) fn state(info: &SubscriberInfo, partition: &PartitionInfo) -> &'static str {
    match (&partition.report, live_owner(partition)) {
        _ if info.paused => "paused",
        (_, None) => "no_owner",
        (Some(report), Some(_)) => report.state.name(),
        (None, Some(_)) => "starting",
    }
}

/// What holds the partition back, as its owner reports it.
pub(super) fn detail(partition: &PartitionInfo) -> Option<String> {
    let reported = partition.report.as_ref().filter(|_| live_owner(partition).is_some())?;
    reported.detail.as_deref().map(printable)
}

pub(crate) fn owner(partition: &PartitionInfo) -> String {
    partition.owner.as_ref().map_or("-".into(), |owner| printable(&owner.node))
}

pub(super) fn lease(partition: &PartitionInfo) -> String {
    match (&partition.owner, partition.lease_left) {
        (None, _) => "-".into(),
        (Some(_), None) => "over".into(),
        (Some(_), Some(left)) => format_age(left),
    }
}

/// Formats sorted numbers. Numbers that follow each other become a range: `0-3 7`.
pub(crate) fn numbers(numbers: &[u32]) -> String {
    let next_to = |before: &u32, after: &u32| before + 1 == *after;
    let range = |range: &[u32]| match range {
        [first, .., last] => format!("{first}-{last}"),
        numbers => numbers.iter().map(u32::to_string).collect(),
    };
    numbers.chunk_by(next_to).map(range).collect::<Vec<_>>().join(" ")
}

/// A group as JSON, for a line of a list.
pub(super) fn summary(group: &GroupSummary, holders: &[Holder]) -> Value {
    let mut json = json!(group);
    json["lag_seconds"] = group.lag.as_secs_f64().into();
    json["held_by"] = json!(held::of_subscriber(holders, &group.subscriber_id));
    json
}

pub(super) fn to_json(info: &SubscriberInfo, group: &GroupInfo, holders: &[Holder]) -> Value {
    let member = |instance: &&Instance| {
        json!({
            "node": instance.node,
            "incarnation": instance.incarnation,
            "by_hand": !group.members.contains(instance),
            "partitions": partitions_of(group, instance),
        })
    };
    let partition = |partition: &PartitionInfo| {
        json!({
            "partition": partition.partition,
            "state": state(info, partition),
            "detail": detail(partition),
            "owner": partition.owner,
            "term": partition.term,
            "lease_left_seconds": partition.lease_left.map(|left| left.as_secs_f64()),
            "position": partition.position,
            "lag_events": partition.lag_events,
            "pending_gaps": partition.pending_gaps,
        })
    };
    json!({
        "subscriber_id": info.subscriber_id,
        "paused": info.paused,
        "position": info.position,
        "lag_events": info.lag_events,
        "lag_seconds": info.lag.as_secs_f64(),
        "dead_letters": info.dead_letters,
        "members": instances(group).iter().map(member).collect::<Vec<_>>(),
        "partitions": group.partitions.iter().map(partition).collect::<Vec<_>>(),
        "change": Change::of(info, group).map(|change| change.to_json()),
        "held_by": held::of_subscriber(holders, &info.subscriber_id),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_follow_each_other_are_a_range() {
        assert_eq!(numbers(&[]), "");
        assert_eq!(numbers(&[5]), "5");
        assert_eq!(numbers(&[0, 1, 2, 3, 7, 9, 10]), "0-3 7 9-10");
    }
}
