//! The calls by which the owners of partitions read and write progress.

use async_trait::async_trait;
use headwater_core::{Advance, Attempt, Checkpoint, DeadLetter, Fence, Gap, History, LastTurn, ProgressStore};
use uuid::Uuid;

use super::call::calling;
use super::{PgSubscribers, Result, checkpoint, dead_letters, manage, turns};

#[async_trait]
impl ProgressStore for PgSubscribers {
    async fn load(&self, fence: &Fence) -> Result<Checkpoint> {
        calling!(self.inner.database, conn => checkpoint::load(conn, self.id(), fence))
    }

    async fn begin_turn(&self, fence: &Fence, lives: bool) -> Result<LastTurn> {
        calling!(self.inner.database, conn => turns::begin(conn, self.id(), fence, lives))
    }

    async fn begin_event(&self, fence: &Fence, event_id: Uuid) -> Result<u32> {
        calling!(self.inner.database, conn => turns::begin_event(conn, self.id(), fence, event_id))
    }

    async fn end_turn(&self, fence: &Fence) -> Result<()> {
        calling!(self.inner.database, conn => turns::end(conn, self.id(), fence))
    }

    async fn advance(&self, fence: &Fence, advance: &Advance) -> Result<()> {
        calling!(self.inner.database, conn => checkpoint::advance(conn, self.id(), fence, advance))
    }

    async fn bury(&self, fence: &Fence, letters: &[DeadLetter]) -> Result<()> {
        calling!(self.inner.database, conn => dead_letters::bury(conn, self.id(), fence, letters))
    }

    async fn redrives(&self, fence: &Fence, limit: u32) -> Result<Vec<DeadLetter>> {
        calling!(self.inner.database, conn => dead_letters::redrives(conn, self.id(), fence, limit))
    }

    async fn redriven(&self, fence: &Fence, global_sequence: u64, failure: Option<Attempt>) -> Result<()> {
        calling!(self.inner.database, conn =>
            dead_letters::redriven(conn, self.id(), fence, global_sequence, failure.as_ref(), false))
        .map(drop)
    }

    async fn is_parked(&self, fence: &Fence, order_key: &str) -> Result<bool> {
        calling!(self.inner.database, conn => dead_letters::is_parked(conn, self.id(), fence, order_key))
    }

    async fn pause_self(&self, fence: &Fence, reason: &str) -> Result<()> {
        calling!(self.inner.database, conn => manage::pause_self(conn, self.id(), fence, reason))
    }

    async fn record_gaps(&self, history: Option<History>, gaps: &[Gap]) -> Result<()> {
        calling!(self.inner.database, conn => manage::record_gaps(conn, self.id(), history, gaps))
    }
}
