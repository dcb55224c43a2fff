//! Groups: which subscribers there are, and which instance owns which of their partitions.

use std::time::Duration;

use async_trait::async_trait;

use super::Result;
use crate::{Checkpoint, GroupView, Instance, LeaseReply, LeaseRequest, PartitionId, Report, SubscriberConfig};

/// What a node needs to take its share of the work.
///
/// The laws:
///
/// - A term has one owner, and no term is given twice, also not to a subscriber that was removed
///   and registered again.
/// - A lease ends when its time is over, when its owner releases it, or when its owner's session
///   ends.
/// - An instance never takes more partitions of a subscriber than its share.
/// - While a group changes its number of partitions, the events of a key stay in order: an old
///   partition ends at the barrier, and a new one begins there only when all old ones have come to
///   it.
#[async_trait]
pub trait GroupStore: Send + Sync {
    /// Makes a subscriber. One that exists stays where it stands, with the partitions that it has.
    /// One that exists in another mode is
    /// [`SubscriberError::InUse`](crate::SubscriberError::InUse).
    async fn register(&self, config: &SubscriberConfig) -> Result<()>;

    /// Renews the leases that the instance has, and takes those that it may: of partitions that
    /// nobody owns, whose lease is over, or whose owner's session is gone. A paused subscriber can
    /// be owned.
    ///
    /// Replies in the order of the requests. The reply for a partition that does not exist has no
    /// term.
    async fn keep(&self, instance: &Instance, requests: &[LeaseRequest], lease: Duration) -> Result<Vec<LeaseReply>>;

    /// Gives up what the instance owns of these partitions, so that others take over at once.
    async fn release(&self, instance: &Instance, partitions: &[PartitionId]) -> Result<()>;

    /// Makes the instance a member of these groups until the lease is over, and returns the groups.
    /// Members whose lease is over, or whose session is gone, are removed. Takes the next step of a
    /// change of the number of partitions.
    async fn join(&self, instance: &Instance, groups: &[String], lease: Duration) -> Result<Vec<GroupView>>;

    /// Ends the instance's membership in these groups. It keeps the partitions that it owns.
    async fn leave(&self, instance: &Instance, groups: &[String]) -> Result<()>;

    /// Returns a subscriber's position, ledger and term, and whether it is paused. Cheap. Of
    /// several partitions: the lowest position, and all that their ledgers hold.
    async fn position(&self, subscriber_id: &str) -> Result<Checkpoint>;

    /// Notes that an instance works on these queues, and how many events of each it handles per
    /// second. It counts as a worker of them for as long as `lease`. Returns which of them are
    /// paused.
    async fn attend_queues(
        &self,
        instance: &Instance,
        queues: &[(String, f64)],
        lease: Duration,
    ) -> Result<Vec<String>>;

    /// Notes that a node handles the events of these subscribers without owning them, as their only
    /// instance. They count as active for as long as `lease`; a zero lease ends that. A subscriber
    /// that has an owner stays as it is.
    async fn attend_alone(&self, subscribers: &[(String, Report)], lease: Duration) -> Result<()>;
}
