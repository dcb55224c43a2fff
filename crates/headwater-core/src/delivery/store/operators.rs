//! Operators: what people and their tools look at and change.

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::Result;
use crate::{AuditReport, DeadLetter, DeadLetterQuery, GroupInfo, SubscriberInfo};

/// The calls of an operator. No call here proves ownership: a change takes effect no matter who
/// owns the subscriber.
///
/// The laws:
///
/// - After [`reset`](OperatorStore::reset) or [`remove`](OperatorStore::remove), nothing that an
///   owner had under way is written.
/// - A dead letter is never dropped, except with its subscriber: it ends as redriven or discarded.
/// - An [`audit`](OperatorStore::audit) of honest work finds nothing.
#[async_trait]
pub trait OperatorStore: Send + Sync {
    /// Returns all subscribers, by id.
    async fn subscribers(&self) -> Result<Vec<SubscriberInfo>>;

    /// Returns one subscriber.
    async fn subscriber(&self, subscriber_id: &str) -> Result<SubscriberInfo>;

    /// Returns a subscriber's members and partitions.
    async fn group(&self, subscriber_id: &str) -> Result<GroupInfo>;

    /// Changes the number of partitions of a group, which may be running. The present partitions go
    /// on to where the furthest of them stands; then the new ones begin from there. Returns at
    /// once: members take the next steps, and so does the same call again.
    ///
    /// Another change that is under way is
    /// [`SubscriberError::InUse`](crate::SubscriberError::InUse), and so is a subscriber that is
    /// not partitioned.
    async fn resize(&self, subscriber_id: &str, partitions: u32) -> Result<()>;

    /// Pauses or resumes a subscriber. Its owner finishes the event at hand first.
    async fn set_paused(&self, subscriber_id: &str, paused: bool) -> Result<()>;

    /// Sets which event types a queue takes, as patterns. None: all types. Events of other types are
    /// settled without a worker. An event that a worker handed back or lost becomes a dead letter
    /// if the queue no longer takes its type. Registering only adds types; this call can also take
    /// types away. Returns what the queue took before. `None`: all types.
    ///
    /// A subscriber that is not shared is [`SubscriberError::InUse`](crate::SubscriberError::InUse).
    async fn set_event_types(&self, subscriber_id: &str, event_types: &[String]) -> Result<Option<Vec<String>>>;

    /// Moves a subscriber to just after `position`, forwards or back, in a new term. What its
    /// ledger holds up to the position stays there. The claims of a queue are lost.
    async fn reset(&self, subscriber_id: &str, position: u64) -> Result<()>;

    /// Forgets a subscriber and its dead letters. One that has an owner is
    /// [`SubscriberError::InUse`](crate::SubscriberError::InUse), unless `force`.
    async fn remove(&self, subscriber_id: &str, force: bool) -> Result<()>;

    /// Returns the position before the first event that was recorded at or after `time`.
    async fn position_at(&self, time: DateTime<Utc>) -> Result<u64>;

    /// Returns dead letters, in order of subscriber and sequence.
    async fn dead_letters(&self, query: &DeadLetterQuery) -> Result<Vec<DeadLetter>>;

    /// Asks for dead letters to be delivered again, with those that are parked behind them. Returns
    /// how many.
    async fn redrive(&self, query: &DeadLetterQuery) -> Result<u64>;

    /// Gives dead letters up for good. Returns how many.
    async fn discard(&self, query: &DeadLetterQuery, reason: &str) -> Result<u64>;

    /// Compares what subscribers settled with what the log holds, and recorded gaps with the log.
    /// No ids: all subscribers.
    async fn audit(&self, subscriber_ids: &[String]) -> Result<AuditReport>;
}
