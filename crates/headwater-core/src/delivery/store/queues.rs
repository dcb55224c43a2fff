//! Queues: events of a shared subscriber, each claimed by one worker at a time.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::Result;
use crate::{Claim, ClaimRequest};

/// Gives access to the queues of a namespace.
pub trait Queues: Send + Sync {
    /// Returns the queue of a shared subscriber. Whether it exists is told by the calls to it.
    fn queue(&self, subscriber_id: &str) -> Arc<dyn QueueStore>;
}

/// The queue of one shared subscriber, as its workers use it.
///
/// The laws:
///
/// - While a claim is held, nobody else gets its events. It is held until it is acked, handed back,
///   or taken back by another worker's claim after its visibility timeout.
/// - Every event is delivered until it is acked or becomes a dead letter. Nothing is skipped.
/// - Events that are due again come first, then events that other workers left behind because of
///   their type, then new events; each in the order of the log.
/// - An event that failed `max_attempts` times becomes a dead letter. A claim that expires counts
///   as an attempt only if it had one event: of several, nobody knows which one the worker had
///   begun. These come again one by one, at most one to a worker.
/// - A claim that is not held any more is
///   [`SubscriberError::ClaimLost`](crate::SubscriberError::ClaimLost). Sequences outside of a
///   claim are [`SubscriberError::InvalidInput`](crate::SubscriberError::InvalidInput); those that
///   it settled before are ignored.
/// - A subscriber that is not shared is [`SubscriberError::InUse`](crate::SubscriberError::InUse).
///
/// `sequences` names some events of a claim; `None` means all that are left.
#[async_trait]
pub trait QueueStore: Send + Sync {
    /// The subscriber.
    fn subscriber_id(&self) -> &str;

    /// Claims events. Empty: there is nothing to do now, up to the end of the log. A paused
    /// subscriber gives nothing out, but its acks are taken.
    async fn claim(&self, request: &ClaimRequest) -> Result<Vec<Claim>>;

    /// Finishes a claim, or some of its events: they are not delivered again.
    async fn ack(&self, claim_id: Uuid, sequences: Option<&[u64]>) -> Result<()>;

    /// Hands a claim back after a failure: its events are delivered again after the delay, or
    /// become dead letters if that was the last attempt.
    async fn nack(&self, claim_id: Uuid, sequences: Option<&[u64]>, delay: Duration, error: &str) -> Result<()>;

    /// Gives a claim up: its events become dead letters at once.
    async fn reject(&self, claim_id: Uuid, sequences: Option<&[u64]>, error: &str) -> Result<()>;

    /// Hands a claim back untouched: its events are delivered again at once, and this delivery does
    /// not count.
    async fn release(&self, claim_id: Uuid, sequences: Option<&[u64]>) -> Result<()>;

    /// Keeps a claim for `visibility` from now on, never shorter than it is. Returns when it
    /// expires, by the store's clock.
    async fn extend(&self, claim_id: Uuid, visibility: Duration) -> Result<DateTime<Utc>>;
}
