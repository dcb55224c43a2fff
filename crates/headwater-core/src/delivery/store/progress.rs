//! Progress: what the owner of a partition writes while it handles events.

use async_trait::async_trait;
use uuid::Uuid;

use super::Result;
use crate::{Advance, Attempt, Checkpoint, DeadLetter, Fence, Gap, History, LastTurn};

/// What a runner reads and writes. Every call but [`record_gaps`](ProgressStore::record_gaps) names
/// the partition and its owner by a [`Fence`].
///
/// The laws:
///
/// - A checkpoint never moves back, except by [`reset`](crate::OperatorStore::reset), which begins
///   a new term.
/// - The same call a second time, as after a lost answer, changes nothing more.
/// - A dead letter is durable before the checkpoint passes its event.
#[async_trait]
pub trait ProgressStore: Send + Sync {
    /// Returns where the partition stands, with all fields of [`Checkpoint`].
    async fn load(&self, fence: &Fence) -> Result<Checkpoint>;

    /// Notes that the owner begins to handle events. Returns how the last turn ended.
    ///
    /// `still_running`: the last turn was this owner's too and has not ended, so nobody died.
    async fn begin_turn(&self, fence: &Fence, still_running: bool) -> Result<LastTurn>;

    /// Notes durably that the owner begins this event, for the owner that follows if this one dies.
    /// Returns how often the event was begun, this time included.
    async fn begin_event(&self, fence: &Fence, event_id: Uuid) -> Result<u32>;

    /// Notes that the owner stops handling events for now.
    async fn end_turn(&self, fence: &Fence) -> Result<()>;

    /// Moves the checkpoint, and renews the owner's lease. A position below the present one, or
    /// beyond the partition's barrier, is
    /// [`SubscriberError::Fenced`](crate::SubscriberError::Fenced). Where the position stays, the
    /// ledger only shrinks.
    async fn advance(&self, fence: &Fence, advance: &Advance) -> Result<()>;

    /// Keeps dead letters durably. A letter of the same subscriber and event gets the new attempts
    /// and state.
    async fn bury(&self, fence: &Fence, letters: &[DeadLetter]) -> Result<()>;

    /// Returns the partition's dead letters to deliver again, in order of their sequence: letters
    /// that are being redriven, and the first parked letter of each key that no dead letter
    /// precedes.
    async fn redrives(&self, fence: &Fence, limit: u32) -> Result<Vec<DeadLetter>>;

    /// Notes that a letter was delivered again. `None`: it was handled. Otherwise it failed and is
    /// dead again.
    async fn redriven(&self, fence: &Fence, global_sequence: u64, failure: Option<Attempt>) -> Result<()>;

    /// Returns whether the key has unfinished letters, behind which its later events wait.
    async fn is_parked(&self, fence: &Fence, order_key: &str) -> Result<bool>;

    /// Pauses the partition, whose owner could not handle an event.
    async fn pause_self(&self, fence: &Fence, reason: &str) -> Result<()>;

    /// Records gaps that were proved permanent in a history (`None`: any), once for all
    /// subscribers. A gap that is recorded already stays as it is.
    async fn record_gaps(&self, history: Option<History>, gaps: &[Gap]) -> Result<()>;
}
