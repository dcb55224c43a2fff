//! Waits until a group has handled the events that were in the log at the start. If partitions are
//! assigned to this process by hand, waits for these only.

use std::time::Duration;

use headwater::Node;
use headwater::delivery::{OperatorStore, PartitionInfo, PgSubscribers};
use headwater::node::SubscriberStatus;

use crate::failure::Failure;

const LOOK: Duration = Duration::from_millis(50);

/// Waits until everything up to `end` is handled in the assigned partitions. If none are assigned,
/// waits for all partitions of the group, no matter which process owns them.
pub(super) async fn caught_up(
    node: &Node,
    subscribers: &PgSubscribers,
    subscriber_id: &str,
    assigned: &[u32],
    end: u64,
) -> Result<(), Failure> {
    loop {
        match subscribers.group(subscriber_id).await {
            Ok(group) => {
                // Read our own progress after the database's answer: a partition that the answer
                // gives to this process was ours before.
                let here = node.status().subscribers;
                let is_done = |partition: &PartitionInfo| {
                    is_settled(partition.position, &partition.pending_gaps, end)
                        || (partition.owner.as_ref() == Some(node.instance())
                            && is_handled(&here, partition.partition, end))
                };
                let mut wanted = group
                    .partitions
                    .iter()
                    .filter(|partition| assigned.is_empty() || assigned.contains(&partition.partition));
                if wanted.all(is_done) {
                    return Ok(());
                }
            }
            Err(error) if error.is_retryable() => {}
            Err(error) => return Err(error.into()),
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Whether this process has handled all events of a partition up to `end`. Its progress may not be
/// written yet, but it is written before the process ends.
fn is_handled(here: &[SubscriberStatus], partition: u32, end: u64) -> bool {
    let seat = here.iter().find(|seat| seat.partition == partition);
    seat.is_some_and(|seat| seat.position.is_some_and(|position| is_settled(position, &seat.pending_gaps, end)))
}

fn is_settled(position: u64, pending_gaps: &[(u64, u64)], end: u64) -> bool {
    position >= end && pending_gaps.first().is_none_or(|(first, _)| *first > end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_that_was_passed_is_not_settled() {
        assert!(is_settled(9, &[], 9) && is_settled(12, &[(10, 11)], 9));
        assert!(!is_settled(8, &[], 9) && !is_settled(12, &[(9, 11)], 9));
    }
}
