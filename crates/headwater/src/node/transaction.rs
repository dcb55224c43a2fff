//! Transactional handlers: effects, emitted events and checkpoint commit together.
//!
//! The checkpoint is written last, with the owner's term: if another instance has taken over, it matches nothing, and all is rolled back. A
//! process that hangs in the middle is ended by the server (`idle_in_transaction_session_timeout`), so that it cannot hold its locks, nor
//! the horizon, for ever.

use std::sync::Arc;

use headwater_core::{Advance, Attempt, DeadLetter, Event, Fence, HandlerError, SubscriberError};
use headwater_postgres::PgSubscribers;
use sqlx::{Connection, Postgres, Transaction};

use super::handler::{InTransaction, TransactionScope, Work, guarded};
use super::lent::{Lent, ended};
use super::ring::sequence;
use super::runner::{Runner, Stop};
use super::turn::{OneByOne, Turn};

/// Why a transaction was rolled back.
pub(super) struct Failure {
    /// The event whose handling failed; `None`: the commit did.
    pub(super) at: Option<u64>,
    pub(super) error: HandlerError,
}

impl Turn<'_> {
    pub(super) async fn handle_in_transactions(
        &mut self,
        handler: &dyn InTransaction,
        scope: TransactionScope,
        events: Vec<Arc<Event>>,
    ) -> Result<(), Stop> {
        let most = self.runner.subscription.limiter.burst().unwrap_or(events.len()).max(1);
        for events in events.chunks(most) {
            self.handle_some_in_transactions(handler, scope, events).await?;
        }
        Ok(())
    }

    async fn handle_some_in_transactions(
        &mut self,
        handler: &dyn InTransaction,
        scope: TransactionScope,
        events: &[Arc<Event>],
    ) -> Result<(), Stop> {
        if scope == TransactionScope::Batch && events.len() > 1 && !events.iter().any(|event| self.is_parked(event)) {
            match self.try_in_transaction(handler, events).await? {
                Ok(()) => return Ok(()),
                Err(Failure { error, .. }) => {
                    tracing::warn!(subscriber_id = self.runner.id(), %error, "failed to handle a batch: trying its events one by one");
                }
            }
        }
        for event in events {
            self.handle_in_its_transaction(handler, event, Vec::new()).await?;
            self.write_if_due().await?;
            self.runner.may_go_on(self.fence)?;
        }
        Ok(())
    }

    /// Handles an event, which was tried before or not, in a transaction of its own, until it is settled.
    pub(super) async fn handle_in_its_transaction(
        &mut self,
        handler: &dyn InTransaction,
        event: &Arc<Event>,
        mut attempts: Vec<Attempt>,
    ) -> Result<(), Stop> {
        if self.park_behind(event).await? {
            return Ok(());
        }
        while let Err(failure) = self.try_in_transaction(handler, std::slice::from_ref(event)).await? {
            let (runner, fence) = (self.runner, self.fence);
            let failed = runner.failed(fence, event, failure.error, &mut attempts);
            let failed = self.writing_meanwhile(failed).await?;
            // The next transaction moves the checkpoint from where this leaves it.
            self.finish_writing().await?;
            if let Some(given_up) = failed {
                self.park(given_up.0);
                self.done(event);
                break;
            }
        }
        Ok(())
    }

    /// One transaction: every event's effects, then the checkpoint. The handler's failure rolls it back.
    pub(super) async fn try_in_transaction(
        &mut self,
        handler: &dyn InTransaction,
        events: &[Arc<Event>],
    ) -> Result<Result<(), Failure>, Stop> {
        self.granted(|limiter| limiter.charge(events.len())).await?;
        let tx = match self.runner.effects(handler, events).await? {
            Ok(tx) => tx,
            Err(failure) => return Ok(Err(failure)),
        };
        let sequences: Vec<u64> = events.iter().map(|event| sequence(event)).collect();
        if self.ahead {
            return self.settle_ahead(tx, &sequences).await;
        }
        let advance = self.progress.advance_with(&sequences);
        if let Err(error) = self.runner.commit_with(tx, self.fence, &advance).await? {
            return Ok(Err(Failure { at: None, error }));
        }
        self.progress.done_with(&sequences);
        events.iter().for_each(|_| self.note_handled());
        self.wrote();
        self.publish();
        Ok(Ok(()))
    }

    /// Commits a transaction with effects, and with a note that these events are settled. The checkpoint moves later.
    async fn settle_ahead(
        &mut self,
        mut tx: Transaction<'static, Postgres>,
        sequences: &[u64],
    ) -> Result<Result<(), Failure>, Stop> {
        let postgres = self.runner.postgres()?;
        let noted = postgres.settle_ahead_in(&mut tx, self.fence, self.progress.last_written(), sequences).await;
        if let Err(error) = self.runner.commit_if(noted, tx).await? {
            return Ok(Err(Failure { at: None, error }));
        }
        for sequence in sequences {
            self.progress.done(*sequence);
            self.note_handled();
        }
        self.publish();
        Ok(Ok(()))
    }

    /// Delivers a dead letter again. Returns whether it was handled.
    pub(super) async fn redrive(&mut self, letter: &DeadLetter) -> Result<bool, Stop> {
        self.granted(|limiter| limiter.take(1)).await?;
        let event = Arc::new(letter.event.clone());
        let limit = self.runner.subscription.config.handler_timeout;
        let redeliveries = letter.attempts.len() as u32;
        let outcome = match self.runner.subscription.work.clone() {
            Work::Each(handler) => {
                guarded(self.runner.delivering(self.fence, handler.handle(&event, redeliveries)), limit).await
            }
            Work::Batch(handler) => {
                let handler = OneByOne(&*handler);
                let handling = super::handler::Each::handle(&handler, &event, redeliveries);
                guarded(self.runner.delivering(self.fence, handling), limit).await
            }
            Work::Transaction(handler, _) => {
                match self.runner.effects(&*handler, std::slice::from_ref(&event)).await? {
                    Ok(mut tx) => {
                        let postgres = self.runner.postgres()?;
                        postgres.redriven_in(&mut tx, self.fence, letter.global_sequence(), None).await?;
                        postgres.commit(tx).await?;
                        self.runner.status.count(1);
                        return Ok(true);
                    }
                    Err(failure) => Err(failure.error),
                }
            }
        };
        if outcome.as_ref().is_err_and(HandlerError::is_not_handled) {
            return Ok(false);
        }
        let failure = outcome.as_ref().err().map(|error| self.runner.attempt(error));
        let handled = failure.is_none();
        let (store, fence, sequence) = (&self.runner.store, self.fence, letter.global_sequence());
        self.runner.insist(fence, || store.redriven(fence, sequence, failure.clone())).await?;
        if handled {
            self.runner.status.count(1);
        }
        Ok(handled)
    }
}

impl Runner {
    /// A transaction with the effects of events in it, not committed; or the handler's error, rolled back.
    async fn effects(
        &self,
        handler: &dyn InTransaction,
        events: &[Arc<Event>],
    ) -> Result<Result<Transaction<'static, Postgres>, Failure>, Stop> {
        let limit = self.subscription.config.handler_timeout;
        let mut lent = Lent::new(self.postgres()?.begin(limit).await?);
        for event in events {
            if let Err(error) = guarded(handler.handle(event, &mut lent), limit).await {
                if let Some(tx) = lent.into_inner() {
                    self.postgres()?.rollback(tx).await;
                }
                return Ok(Err(Failure { at: event.global_sequence, error }));
            }
        }
        let failure = |error| Failure { at: None, error };
        let Some(mut tx) = lent.into_inner() else {
            return Ok(Err(failure(HandlerError::message("the handler kept its transaction"))));
        };
        // The driver ended it: a savepoint was about to be made when the handler dropped its future.
        if !tx.is_in_transaction() {
            self.postgres()?.rollback(tx).await;
            return Ok(Err(failure(ended())));
        }
        // Alone, a handler harms nobody but itself.
        if events.len() > 1 {
            match self.postgres()?.is_open(&mut tx).await {
                Ok(true) => {}
                Ok(false) => {
                    self.postgres()?.rollback(tx).await;
                    return Ok(Err(failure(ended())));
                }
                Err(error @ SubscriberError::Unavailable(_)) if !error.is_retryable() => {
                    self.postgres()?.rollback(tx).await;
                    return Ok(Err(failure(error.into())));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Ok(tx))
    }

    /// Moves the checkpoint in the transaction, and commits it. An error that the server raised is the handler's failure: nothing was
    /// committed. After any other, the outcome is unknown: the turn ends, and the next one begins with what the database says.
    async fn commit_with(
        &self,
        mut tx: Transaction<'static, Postgres>,
        fence: &Fence,
        advance: &Advance,
    ) -> Result<Result<(), HandlerError>, Stop> {
        let moved = self.postgres()?.advance_in(&mut tx, fence, advance).await;
        self.commit_if(moved, tx).await
    }

    /// Commits if the last step was done, as above.
    async fn commit_if(
        &self,
        done: Result<(), SubscriberError>,
        tx: Transaction<'static, Postgres>,
    ) -> Result<Result<(), HandlerError>, Stop> {
        let postgres = self.postgres()?;
        let outcome = match done {
            Ok(()) => postgres.commit(tx).await,
            Err(error) => {
                postgres.rollback(tx).await;
                Err(error)
            }
        };
        match outcome {
            Ok(()) => Ok(Ok(())),
            Err(error @ SubscriberError::Unavailable(_)) if !error.is_retryable() => Ok(Err(error.into())),
            Err(error) => Err(error.into()),
        }
    }

    /// Forgets notes of groups that the checkpoint has passed. What is left of them does no harm.
    pub(super) async fn forget_ahead(&self, fence: &Fence) -> Result<(), Stop> {
        if let Err(error) = self.postgres()?.forget_ahead(fence).await {
            tracing::warn!(subscriber_id = self.id(), %error, "failed to delete notes of groups: the next batch does");
        }
        Ok(())
    }

    fn postgres(&self) -> Result<&PgSubscribers, Stop> {
        self.postgres.as_ref().ok_or_else(|| {
            let message = "transactional handlers need PostgreSQL: this node has another log".into();
            Stop::Failed(SubscriberError::InvalidInput(message))
        })
    }
}
