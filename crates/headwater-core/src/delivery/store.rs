//! What delivery keeps: subscribers, leases, checkpoints, dead letters, gaps.

use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::{
    Advance, Ask, Attempt, AuditReport, DeadLetter, DeadLetterQuery, Fence, GroupInfo, GroupView, Held, Instance,
    LastTurn, Loaded, PartitionId, SubscriberConfig, SubscriberError, SubscriberInfo,
};
use crate::{Gap, History};

type Result<T> = std::result::Result<T, SubscriberError>;

/// The subscribers of one namespace. The laws:
///
/// - A write with a [`Fence`] of a term that is not the present one changes nothing and fails with [`SubscriberError::Fenced`].
/// - A write with another history than the present one changes nothing and fails with [`ReadError::OtherHistory`](crate::ReadError::OtherHistory), and so does
///   a read with a [`Fence`].
/// - A checkpoint never moves back, but by [`reset`](SubscriberStore::reset), which begins a new term.
/// - A term has one owner. Leases end by the store's clock alone.
/// - A position that is no [`Sequence`](crate::Sequence) is [`SubscriberError::InvalidInput`].
#[async_trait]
pub trait SubscriberStore: Send + Sync {
    /// Makes a subscriber, if it is not there; one that is there stays as it is.
    async fn register(&self, config: &SubscriberConfig) -> Result<()>;

    /// Renews the leases that the instance has, and takes those that it may: of subscribers that nobody owns, whose lease is over, or
    /// whose owner's session is gone. A paused subscriber can be owned. Answers in the order of `asks`; a subscriber that was
    /// removed is answered without a term.
    async fn keep(&self, instance: &Instance, asks: &[Ask], lease: Duration) -> Result<Vec<Held>>;

    /// Gives up what the instance owns of these, so that others take over at once.
    async fn release(&self, instance: &Instance, partitions: &[PartitionId]) -> Result<()>;

    /// Makes the instance a member of these groups, as long as it comes back before the lease is over, and tells how they are. Members that do not
    /// come back, or whose session is gone, are members no more.
    async fn join(&self, instance: &Instance, groups: &[String], lease: Duration) -> Result<Vec<GroupView>>;

    /// The instance is a member of these groups no more.
    async fn leave(&self, instance: &Instance, groups: &[String]) -> Result<()>;

    /// Changes the number of partitions of a group, which may be running: its present partitions go on to where the furthest of them has come,
    /// and only then do the new ones begin, from there. Returns at once; asked again for the same number, it takes the next step
    /// if it is time for it, as members do. Another change that is under way is [`SubscriberError::InUse`].
    async fn resize(&self, subscriber_id: &str, partitions: u32) -> Result<()>;

    /// A group and its partitions.
    async fn group(&self, subscriber_id: &str) -> Result<GroupInfo>;

    /// Where the subscriber stands, with all that [`Loaded`] has.
    async fn load(&self, fence: &Fence) -> Result<Loaded>;

    /// The owner begins to handle events. `lives`: it was the last one who did, and has not ended meanwhile. Answers what became of the last one.
    async fn begin_turn(&self, fence: &Fence, lives: bool) -> Result<LastTurn>;

    /// Writes down, durably, that an event is begun; for owners that follow one that died. Answers how often it was, this time included.
    async fn begin_event(&self, fence: &Fence, event_id: Uuid) -> Result<u32>;

    /// The owner handles no more events for now.
    async fn end_turn(&self, fence: &Fence) -> Result<()>;

    /// Moves the checkpoint. The same move again, as after an answer that was lost, counts nothing twice. Never back: a position below the present one is [`SubscriberError::Fenced`].
    async fn advance(&self, fence: &Fence, advance: &Advance) -> Result<()>;

    /// Keeps dead letters durably. One that is there already (same subscriber and event) gets the new attempts and state.
    async fn bury(&self, fence: &Fence, letters: &[DeadLetter]) -> Result<()>;

    /// Dead letters to deliver again, in order of their sequence: those being redriven, and parked ones with no unfinished letter of
    /// their key before them that is not being redriven itself.
    async fn redrives(&self, fence: &Fence, limit: u32) -> Result<Vec<DeadLetter>>;

    /// A letter was delivered again: handled (`None`), or it failed again and is dead again.
    async fn redriven(&self, fence: &Fence, global_sequence: u64, failure: Option<Attempt>) -> Result<()>;

    /// Whether the key still has letters that are not done with.
    async fn is_parked(&self, fence: &Fence, order_key: &str) -> Result<bool>;

    /// Pauses the subscriber by its owner, which could not handle an event.
    async fn pause_self(&self, fence: &Fence, reason: &str) -> Result<()>;

    /// Records gaps that were proved permanent in a history (`None`: any), once for all subscribers; what is recorded already stays as it is.
    async fn record_gaps(&self, history: Option<History>, gaps: &[Gap]) -> Result<()>;

    /// All subscribers, by id.
    async fn subscribers(&self) -> Result<Vec<SubscriberInfo>>;

    /// One subscriber.
    async fn subscriber(&self, subscriber_id: &str) -> Result<SubscriberInfo>;

    /// Its checkpoint's position and ledger, its term, and whether it is paused, cheaply. Of one with several partitions: the lowest
    /// position, and all that is in their ledgers.
    async fn position(&self, subscriber_id: &str) -> Result<Loaded>;

    /// Pauses or resumes a subscriber. Its owner ends the event at hand first.
    async fn set_paused(&self, subscriber_id: &str, paused: bool) -> Result<()>;

    /// Moves a subscriber to just after `position`, forwards or back, in a new term: what its owner had under way is not written.
    async fn reset(&self, subscriber_id: &str, position: u64) -> Result<()>;

    /// Forgets a subscriber, its dead letters included. One that has an owner is [`SubscriberError::InUse`], unless `force`.
    async fn remove(&self, subscriber_id: &str, force: bool) -> Result<()>;

    /// The position before the first event recorded at or after `time`.
    async fn position_at(&self, time: DateTime<Utc>) -> Result<u64>;

    /// Dead letters, in order of subscriber and sequence.
    async fn dead_letters(&self, query: &DeadLetterQuery) -> Result<Vec<DeadLetter>>;

    /// Asks for dead letters to be delivered again; those parked behind one go with it. Returns how many.
    async fn redrive(&self, query: &DeadLetterQuery) -> Result<u64>;

    /// Gives dead letters up for good. Returns how many.
    async fn discard(&self, query: &DeadLetterQuery, reason: &str) -> Result<u64>;

    /// Compares what subscribers settled with what the log holds, and recorded gaps with the log.
    async fn audit(&self, subscriber_ids: &[String]) -> Result<AuditReport>;
}
