//! How a worker handles claimed events: it hands them to the executor, and notes the outcome of
//! each.
//!
//! In a transaction, the ack is the last statement. It locks the claim, and fails if the claim
//! belongs to another worker by now. So effects happen once. A transaction whose outcome is unknown
//! is tried again: if it was committed, the claim is gone, and the second transaction is rolled
//! back.

use std::sync::Arc;
use std::time::Duration;

use headwater_core::{HandlerError, RecordedEvent, SubscriberError};
use headwater_postgres::PgQueue;
use sqlx::PgConnection;
use tokio::time::Instant;
use uuid::Uuid;

use super::Worker;
use super::in_flight::ClaimedEvent;
use crate::node::delivery::allowance::Permit;
use crate::node::delivery::executor::answered::until_answered;
use crate::node::delivery::executor::split::{Together, Tried, together_or_alone};
use crate::node::delivery::executor::{Executor, Outcome, Run, Settle};

/// Events with their outcomes.
pub(super) struct Done {
    pub(super) events: Vec<(ClaimedEvent, ClaimedOutcome)>,
    pub(super) took: Duration,
}

/// The outcome of a claimed event.
#[derive(Debug)]
pub(super) enum ClaimedOutcome {
    /// Handled: its claim is to be acked.
    Handled,
    /// Handled, and acked in the same transaction.
    Committed,
    Failed(HandlerError),
    /// The outcome is unknown, or the claim is gone: the event comes again, unless it was
    /// committed.
    Lost,
}

/// Claimed events that are handled together, or one by one.
struct ClaimedRun<'a> {
    worker: &'a Worker,
    /// Whether these are all events that are left of their claim: the ack of the last of them ends
    /// it.
    whole: bool,
    /// Whether they failed together: each of them is then tried again.
    failed: bool,
    done: Vec<(ClaimedEvent, ClaimedOutcome)>,
}

/// The settle step of a claim: it acks the whole claim, or these events.
struct SettleClaimed<'a> {
    /// The queue, which only transactional handlers have: no other handler acks in a transaction.
    queue: Option<&'a PgQueue>,
    claim_id: Uuid,
    sequences: Option<Vec<u64>>,
}

impl Settle for SettleClaimed<'_> {
    async fn settle_in(&self, conn: &mut PgConnection) -> Result<(), SubscriberError> {
        match self.queue {
            Some(queue) => queue.ack_handled_in(conn, self.claim_id, self.sequences.as_deref()).await,
            None => Err(SubscriberError::InvalidInput("a transactional handler needs PostgreSQL".into())),
        }
    }
}

impl Worker {
    /// Handles the events. `whole` says whether these are all events that are left of their claim.
    pub(super) async fn work(self: Arc<Self>, jobs: Vec<ClaimedEvent>, whole: bool, permits: Vec<Permit>) -> Done {
        let begun = Instant::now();
        let done = Vec::with_capacity(jobs.len());
        let mut run = ClaimedRun { worker: &self, whole, failed: false, done };
        match together_or_alone(&mut run, jobs).await {
            Ok(()) => {}
            Err(never) => match never {},
        }
        let events = run.done;
        let handled = events.iter().filter(|(_, became)| matches!(became, ClaimedOutcome::Handled)).count();
        // The permits of events that failed are returned.
        permits.into_iter().take(handled).for_each(Permit::use_up);
        Done { events, took: begun.elapsed() }
    }

    fn executor(&self) -> Executor<'_> {
        Executor {
            plan: &self.subscription,
            postgres: self.transactions.as_ref().map(|transactions| &transactions.postgres),
            guard: None,
        }
    }

    /// Hands events to the handler until their outcome is known: calls that the database does not
    /// answer are tried again.
    async fn attempt(&self, run: Run<'_>, settle: &SettleClaimed<'_>) -> Outcome {
        let call = || async {
            match self.executor().attempt(run, settle).await {
                Outcome::Unknown(error) => Err(error),
                outcome => Ok(outcome),
            }
        };
        let answer = until_answered(call, |error, pause| async move {
            if self.is_stopping() {
                return Err(error);
            }
            tracing::warn!(subscriber_id = self.id(), %error, "a transaction failed, trying again");
            self.rest(pause).await;
            Ok(())
        });
        match answer.await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(error)) | Err(error) => {
                tracing::warn!(subscriber_id = self.id(), %error, "rolled back, or was committed before: what was not comes again");
                Outcome::Unknown(error)
            }
        }
    }

    /// Waits until the rate limit allows another event. Returns false if the node ends first.
    async fn throttle(&self) -> bool {
        while let Err(at) = self.subscription.limiter.take(1) {
            self.rest(at.saturating_duration_since(Instant::now())).await;
            if self.is_stopping() {
                return false;
            }
        }
        true
    }

    /// Waits for a while, or until the node ends.
    async fn rest(&self, duration: Duration) {
        let mut control = self.control.clone();
        tokio::select! {
            () = tokio::time::sleep(duration) => {}
            _ = control.wait_for(|told| told.stopping) => {}
        }
    }
}

impl ClaimedRun<'_> {
    fn settle(&self, jobs: &[ClaimedEvent], whole: bool) -> SettleClaimed<'_> {
        let sequences = || jobs.iter().map(|job| job.event.sequence().get()).collect();
        let sequences = (!whole && self.worker.subscription.is_transactional()).then(sequences);
        let queue = self.worker.transactions.as_ref().map(|transactions| &transactions.queue);
        SettleClaimed { queue, claim_id: jobs[0].claim_id, sequences }
    }

    fn note(&mut self, jobs: impl IntoIterator<Item = ClaimedEvent>, became: impl Fn() -> ClaimedOutcome) {
        self.done.extend(jobs.into_iter().map(|job| (job, became())));
    }
}

impl Together for ClaimedRun<'_> {
    type Event = ClaimedEvent;
    type Stop = std::convert::Infallible;

    fn subscriber_id(&self) -> &str {
        self.worker.id()
    }

    async fn together(&mut self, jobs: Vec<ClaimedEvent>) -> Result<Tried<ClaimedEvent>, Self::Stop> {
        let wanted = jobs.iter().filter(|job| self.worker.subscription.filter.wants(&job.event));
        let (events, redeliveries): (Vec<Arc<RecordedEvent>>, Vec<u32>) =
            wanted.map(|job| (job.event.clone(), job.redelivery_count)).unzip();
        let run = Run { events: &events, redeliveries: &redeliveries };
        let became: fn() -> ClaimedOutcome = match self.worker.attempt(run, &self.settle(&jobs, self.whole)).await {
            Outcome::Handled => || ClaimedOutcome::Handled,
            Outcome::Committed => || ClaimedOutcome::Committed,
            Outcome::Unknown(_) => || ClaimedOutcome::Lost,
            Outcome::Failed(failure) => {
                // Handled one by one, no event is the whole claim.
                (self.whole, self.failed) = (false, true);
                return Ok(Tried::OneByOne(jobs, Some(failure.error)));
            }
        };
        self.note(jobs, became);
        Ok(Tried::Settled)
    }

    async fn alone(&mut self, job: ClaimedEvent) -> Result<(), Self::Stop> {
        // A retry counts towards the rate limit like a first try.
        if self.failed && !self.worker.throttle().await {
            self.done.push((job, ClaimedOutcome::Failed(HandlerError::not_handled("the worker stops"))));
            return Ok(());
        }
        let events = match self.worker.subscription.filter.wants(&job.event) {
            true => std::slice::from_ref(&job.event),
            false => &[],
        };
        let run = Run { events, redeliveries: &[job.redelivery_count] };
        let settle = self.settle(std::slice::from_ref(&job), self.whole);
        let became = match self.worker.attempt(run, &settle).await {
            Outcome::Handled => ClaimedOutcome::Handled,
            Outcome::Committed => ClaimedOutcome::Committed,
            Outcome::Failed(failure) => ClaimedOutcome::Failed(failure.error),
            Outcome::Unknown(_) => ClaimedOutcome::Lost,
        };
        self.done.push((job, became));
        Ok(())
    }
}
