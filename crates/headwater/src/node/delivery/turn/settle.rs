//! The settle step of a lease, which runs in the transaction of a handler.

use std::sync::Arc;
use std::time::Duration;

use headwater_core::{Fence, Gaps, Progress, RecordedEvent, SubscriberError};
use headwater_postgres::PgSubscribers;
use sqlx::PgConnection;

use super::Turn;
use crate::node::delivery::executor::{Failure, Outcome, Run, Settle};
use crate::node::delivery::owner::Tries;
use crate::node::delivery::runner::Stop;

/// Writes an owner's progress in the transaction of a handler. The write carries the owner's term:
/// if another instance has taken over, it matches nothing, and everything is rolled back.
pub(super) struct SettleLeased<'a> {
    pub(super) postgres: Option<&'a PgSubscribers>,
    pub(super) fence: &'a Fence,
    pub(super) what: Leased<'a>,
}

pub(super) enum Leased<'a> {
    /// Moves the checkpoint over these events.
    Checkpoint(&'a Progress, &'a [u64]),
    /// Notes these events as settled ahead of the checkpoint, which moves later.
    Ahead((u64, &'a Gaps), &'a [u64]),
    /// Closes a dead letter that was redriven.
    Letter(u64),
}

impl Settle for SettleLeased<'_> {
    async fn settle_in(&self, conn: &mut PgConnection) -> Result<(), SubscriberError> {
        // Without PostgreSQL, no transaction was begun.
        let Some(postgres) = self.postgres else { return Ok(()) };
        match self.what {
            Leased::Checkpoint(progress, sequences) => {
                postgres.advance_in(conn, self.fence, &progress.advance_with(sequences)).await
            }
            Leased::Ahead(from, sequences) => postgres.settle_ahead_in(conn, self.fence, from, sequences).await,
            Leased::Letter(sequence) => postgres.redriven_in(conn, self.fence, sequence, None).await,
        }
    }
}

/// Tries events that one transaction holds.
pub(super) struct TransactionTries<'a> {
    pub(super) turn: &'a mut Turn,
    pub(super) events: &'a [Arc<RecordedEvent>],
}

impl Tries for TransactionTries<'_> {
    async fn once(&mut self, redeliveries: u32) -> Result<Result<(), Failure>, Stop> {
        self.turn.try_in_transaction(self.events, redeliveries).await
    }

    async fn rest(&mut self, pause: Duration) -> Result<(), Stop> {
        let owner = self.turn.owner.clone();
        self.turn.checkpoints.writing_meanwhile(owner.rest(pause)).await?;
        // The next transaction moves the checkpoint from where this leaves it.
        self.turn.checkpoints.finish_writing().await
    }
}

impl Turn {
    /// Runs one transaction with the effects of all these events, which also settles them. After an
    /// unknown outcome, the turn ends, and the next one begins from the state in the database.
    pub(super) async fn try_in_transaction(
        &mut self,
        events: &[Arc<RecordedEvent>],
        redeliveries: u32,
    ) -> Result<Result<(), Failure>, Stop> {
        self.granted(|limiter| limiter.charge(events.len())).await?;
        let sequences: Vec<u64> = events.iter().map(|event| event.sequence().get()).collect();
        let redeliveries = vec![redeliveries; events.len()];
        let (ahead, progress) = (self.bundling.ahead, &self.checkpoints.progress);
        let what = match ahead {
            true => Leased::Ahead(progress.last_written(), &sequences),
            false => Leased::Checkpoint(progress, &sequences),
        };
        let run = Run { events, redeliveries: &redeliveries };
        match self.attempt(run, what).await {
            Outcome::Failed(failure) => return Ok(Err(failure)),
            Outcome::Unknown(error) => return Err(error.into()),
            Outcome::Committed if ahead => self.checkpoints.committed_ahead(&sequences),
            Outcome::Committed => self.checkpoints.committed_with(&sequences),
            // The handler was a plain one: the next checkpoint settles its events.
            Outcome::Handled => events.iter().for_each(|event| self.checkpoints.done(event)),
        }
        Ok(Ok(()))
    }

    /// Hands events to the handler once, in the way that it takes them.
    pub(super) async fn attempt(&self, run: Run<'_>, what: Leased<'_>) -> Outcome {
        let (postgres, fence) = (self.owner.runner.postgres.as_ref(), &self.owner.fence);
        self.owner.executor().attempt(run, &SettleLeased { postgres, fence, what }).await
    }
}
