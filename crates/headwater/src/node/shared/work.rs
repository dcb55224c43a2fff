//! What a worker does with events: one by one, in batches, or in transactions.
//!
//! In a transaction, the ack is the last statement: it locks the claim, and fails if that is another's by now, so effects are there once.
//! A commit whose outcome is unknown is tried again: if it had been made, the claim is gone, and the second is rolled back.

use std::sync::Arc;
use std::time::Duration;

use headwater_core::{Event, HandlerError, SubscriberError, jittered};
use tokio::time::Instant;

use super::hand::Job;
use super::{FIRST_PAUSE, LONGEST_PAUSE, Shared};
use crate::node::handler::{Batch, Each, InTransaction, Work, guarded};
use crate::node::lent::{Lent, ended};
use crate::node::places::Place;
use crate::node::turn::OneByOne;

/// What became of events.
pub(super) struct Done {
    pub(super) events: Vec<(Job, Outcome)>,
    pub(super) took: Duration,
}

#[derive(Debug)]
pub(super) enum Outcome {
    /// Handled: its claim is to be acked.
    Handled,
    /// Handled, and acked in the same transaction.
    Committed,
    Failed(HandlerError),
    /// Nobody knows, or its claim is gone: it comes again, unless it was committed.
    Lost,
}

/// Why a transaction was not committed.
enum RolledBack {
    Failed(HandlerError),
    Lost,
}

impl Shared {
    /// `whole`: nothing else of their claim is to be done.
    pub(super) async fn work(self: Arc<Self>, jobs: Vec<Job>, whole: bool, places: Vec<Place>) -> Done {
        let begun = Instant::now();
        let events = match &self.subscription.work {
            Work::Each(handler) => self.one_by_one(&**handler, jobs).await,
            Work::Batch(handler) => self.batch(&**handler, jobs).await,
            Work::Transaction(handler, _) => self.transactions(&**handler, jobs, whole).await,
        };
        let handled = events.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Handled)).count();
        // The places of events that failed are given back.
        places.into_iter().take(handled).for_each(Place::use_up);
        Done { events, took: begun.elapsed() }
    }

    async fn one_by_one(&self, handler: &dyn Each, jobs: Vec<Job>) -> Vec<(Job, Outcome)> {
        let limit = self.subscription.config.handler_timeout;
        let mut events = Vec::with_capacity(jobs.len());
        for job in jobs {
            let handled = match self.subscription.filter.wants(&job.event) {
                true => guarded(handler.handle(&job.event, job.redelivery_count), limit).await,
                false => Ok(()),
            };
            events.push((job, handled.map_or_else(Outcome::Failed, |()| Outcome::Handled)));
        }
        events
    }

    /// A batch that fails is tried again one by one, so that only the events that fail are handed back.
    async fn batch(&self, handler: &dyn Batch, jobs: Vec<Job>) -> Vec<(Job, Outcome)> {
        let events: Vec<Arc<Event>> = jobs.iter().map(|job| job.event.clone()).collect();
        let redeliveries: Vec<u32> = jobs.iter().map(|job| job.redelivery_count).collect();
        match guarded(handler.handle(&events, &redeliveries), self.subscription.config.handler_timeout).await {
            Ok(()) => jobs.into_iter().map(|job| (job, Outcome::Handled)).collect(),
            Err(error) if jobs.len() == 1 => jobs.into_iter().zip([Outcome::Failed(error)]).collect(),
            Err(error) => {
                if !error.is_not_handled() {
                    tracing::warn!(subscriber_id = self.id(), %error, "failed to handle a batch: trying its events one by one");
                }
                self.one_by_one(&OneByOne(handler), jobs).await
            }
        }
    }

    /// The events of a claim: all in one transaction if that goes well, else each in its own.
    async fn transactions(&self, handler: &dyn InTransaction, jobs: Vec<Job>, whole: bool) -> Vec<(Job, Outcome)> {
        if jobs.len() > 1 {
            match self.transaction(handler, &jobs, whole).await {
                Ok(()) => return jobs.into_iter().map(|job| (job, Outcome::Committed)).collect(),
                Err(RolledBack::Lost) => return jobs.into_iter().map(|job| (job, Outcome::Lost)).collect(),
                Err(RolledBack::Failed(error)) => {
                    tracing::warn!(subscriber_id = self.id(), %error, "failed to handle a batch: trying its events one by one");
                }
            }
        }
        let whole = whole && jobs.len() == 1;
        let mut events = Vec::with_capacity(jobs.len());
        for job in jobs {
            let outcome = match self.transaction(handler, std::slice::from_ref(&job), whole).await {
                Ok(()) => Outcome::Committed,
                Err(RolledBack::Failed(error)) => Outcome::Failed(error),
                Err(RolledBack::Lost) => Outcome::Lost,
            };
            events.push((job, outcome));
        }
        events
    }

    /// Until it is known what became of it: what the database does not answer is tried again.
    async fn transaction(&self, handler: &dyn InTransaction, jobs: &[Job], whole: bool) -> Result<(), RolledBack> {
        let mut pause = FIRST_PAUSE;
        loop {
            let error = match self.try_transaction(handler, jobs, whole).await {
                Ok(outcome) => return outcome.map_err(RolledBack::Failed),
                Err(error) => error,
            };
            match error {
                error if error.is_retryable() && !self.is_stopping() => {
                    tracing::warn!(subscriber_id = self.id(), %error, "a transaction failed, trying again");
                    self.rest(jittered(pause, 0.5, rand::random())).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                error if error.is_retryable() || matches!(error, SubscriberError::ClaimLost(_)) => {
                    tracing::warn!(subscriber_id = self.id(), %error, "rolled back, or was committed before: what was not comes again");
                    return Err(RolledBack::Lost);
                }
                // The server refused what the handler did.
                error => return Err(RolledBack::Failed(error.into())),
            }
        }
    }

    /// One transaction: every event's effects, then the ack. The handler's failure rolls it back.
    async fn try_transaction(
        &self,
        handler: &dyn InTransaction,
        jobs: &[Job],
        whole: bool,
    ) -> Result<Result<(), HandlerError>, SubscriberError> {
        let limit = self.subscription.config.handler_timeout;
        let mut lent = Lent::new(self.postgres.begin(limit).await?);
        for job in jobs.iter().filter(|job| self.subscription.filter.wants(&job.event)) {
            lent.redelivery_count = job.redelivery_count;
            if let Err(error) = guarded(handler.handle(&job.event, &mut lent), limit).await {
                if let Some(tx) = lent.into_inner() {
                    self.postgres.rollback(tx).await;
                }
                return Ok(Err(error));
            }
        }
        let Some(mut tx) = lent.into_inner() else {
            return Ok(Err(HandlerError::message("the handler kept its transaction")));
        };
        if !self.postgres.is_open(&mut tx).await? {
            self.postgres.rollback(tx).await;
            return Ok(Err(ended()));
        }
        let sequences: Vec<u64> = jobs.iter().filter_map(|job| job.event.global_sequence).collect();
        let sequences = (!whole).then_some(&sequences[..]);
        if let Err(error) = self.queue.ack_in(&mut tx, jobs[0].claim_id, sequences).await {
            self.postgres.rollback(tx).await;
            return Err(error);
        }
        self.postgres.commit(tx).await.map(Ok)
    }

    /// Waits, unless the node ends.
    async fn rest(&self, duration: Duration) {
        let mut control = self.control.clone();
        tokio::select! {
            () = tokio::time::sleep(duration) => {}
            _ = control.wait_for(|told| told.stopping) => {}
        }
    }
}
