//! Partitions of a subscriber: which events are in which, and who owns how many.

use md5::{Digest, Md5};
use uuid::Uuid;

use crate::Event;

/// A partition of a subscriber. A subscriber that is not partitioned has only partition 0.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartitionId {
    /// The subscriber.
    pub subscriber_id: String,
    /// The partition's number, from 0.
    pub partition: u32,
}

impl From<&str> for PartitionId {
    fn from(subscriber_id: &str) -> Self {
        PartitionId { subscriber_id: subscriber_id.to_owned(), partition: 0 }
    }
}

/// The partition of a key: the first four bytes of its MD5, as a number, modulo the number of
/// partitions. In SQL: `headwater.partition_of(key, partitions)`.
///
/// ```
/// use headwater_core::partition_of;
///
/// assert_eq!(partition_of("order-1", 16), 9);
/// ```
pub fn partition_of(key: &str, partitions: u32) -> u32 {
    hash(key) % partitions.max(1)
}

/// The hash of an event's [`order_key`]. [`partition_of`] is this hash modulo the number of
/// partitions. For callers that ask for several partitions.
pub fn order_hash(event: &Event) -> u32 {
    match (&event.key, &event.stream_id) {
        (Some(key), _) => hash(key),
        (None, Some(stream)) => hash(stream),
        (None, None) => hash(&event.id.to_string()),
    }
}

fn hash(key: &str) -> u32 {
    let digest = Md5::digest(key);
    u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]])
}

/// The key that keeps events in order: the event's key, or else its stream, or else its id.
pub fn order_key(event: &Event) -> String {
    let stream = event.stream_id.as_ref().map(|stream| stream.to_string());
    event.key.clone().or(stream).unwrap_or_else(|| event.id.to_string())
}

/// How many of a group's partitions a member may own. All members get the same number, and the
/// first members get one more each if the number does not divide evenly.
///
/// `members` are the living members, sorted. An instance that is not among them has no share.
///
/// ```
/// use headwater_core::share_of;
/// use uuid::Uuid;
///
/// let members = [1, 2, 3].map(Uuid::from_u128);
/// assert_eq!(members.map(|member| share_of(&members, member, 16)), [6, 5, 5]);
/// ```
pub fn share_of(members: &[Uuid], member: Uuid, partitions: u32) -> u32 {
    let Some(place) = members.iter().position(|other| *other == member) else { return 0 };
    let (place, count) = (place as u32, members.len() as u32);
    partitions / count + u32::from(place < partitions % count)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Another test checks the SQL function against the same vectors.
    #[test]
    fn keys_keep_their_partitions() {
        for line in include_str!("../../testdata/partitions.tsv").lines() {
            let (key, partitions) = line.split_once('\t').expect("a key and its partitions");
            let expected: Vec<u32> = partitions.split('\t').map(|number| number.parse().unwrap()).collect();
            assert_eq!([1, 2, 7, 16, 1024].map(|count| partition_of(key, count)).to_vec(), expected, "{key:?}");
        }
    }

    proptest! {
        #[test]
        fn shares_add_up_and_differ_by_one_at_most(count in 1usize..40, partitions in 1u32..1025) {
            let members: Vec<Uuid> = (0..count).map(|member| Uuid::from_u128(member as u128)).collect();
            let shares: Vec<u32> = members.iter().map(|member| share_of(&members, *member, partitions)).collect();
            prop_assert_eq!(shares.iter().sum::<u32>(), partitions);
            prop_assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1);
            prop_assert_eq!(share_of(&members, Uuid::from_u128(99), partitions), 0);
        }
    }
}
