//! An owner: a runner in the term in which its instance owns the partition. It handles events until
//! they are settled.

use std::sync::Arc;
use std::time::Duration;

use headwater_core::{
    Attempt, DeadLetter, DeadLetterState, Fence, HandlerError, OnExhaustion, RecordedEvent, RunnerState,
    SubscriberError, order_key,
};
use headwater_postgres::StateGuard;
use tokio::time::{Instant, sleep};

use crate::node::delivery::executor::answered::until_answered;
use crate::node::delivery::executor::failure::{AfterFailure, after_failure};
use crate::node::delivery::executor::{Executor, Failure, Run};
use crate::node::delivery::handler::Handle;
use crate::node::delivery::plan::SubscriptionPlan;
use crate::node::delivery::runner::{Runner, Stop};

/// A runner, and the proof that its instance owns the partition.
pub(in crate::node) struct Owner {
    pub(in crate::node) runner: Arc<Runner>,
    pub(in crate::node) fence: Fence,
    /// The right by which handlers write states, which nobody else may write. `None`: the log is
    /// not in PostgreSQL.
    guard: Option<StateGuard>,
}

/// An attempt that failed, and the event that failed in it, if that is known.
#[derive(Debug, Clone)]
pub(in crate::node) struct FailedTry {
    pub(in crate::node) at: Option<u64>,
    pub(in crate::node) attempt: Attempt,
}

/// Events were given up. Later events of this key, if any, wait behind them.
pub(in crate::node) struct GivenUp(pub(in crate::node) Option<String>);

/// Tries events that go together, one attempt at a time.
pub(in crate::node) trait Tries {
    /// Hands the events to the handler once. `redeliveries`: how often they were delivered before.
    fn once(&mut self, redeliveries: u32) -> impl Future<Output = Result<Result<(), Failure>, Stop>> + Send;

    /// Waits for the next try.
    fn rest(&mut self, pause: Duration) -> impl Future<Output = Result<(), Stop>> + Send;
}

impl Owner {
    pub(in crate::node) fn new(runner: &Arc<Runner>, fence: &Fence) -> Self {
        Owner { runner: runner.clone(), fence: fence.clone(), guard: runner.guard(fence) }
    }

    pub(in crate::node) fn plan(&self) -> &SubscriptionPlan {
        &self.runner.subscription
    }

    pub(in crate::node) fn id(&self) -> &str {
        self.runner.id()
    }

    pub(in crate::node) fn executor(&self) -> Executor<'_> {
        Executor { plan: self.plan(), postgres: self.runner.postgres.as_ref(), guard: self.guard.as_ref() }
    }

    /// Whether the keeper still says that this instance owns the partition, with this fence, and
    /// should go on.
    pub(in crate::node) fn may_go_on(&self) -> Result<(), Stop> {
        let told = self.runner.control.borrow();
        if told.stopping || told.paused || told.giving_up || told.fence.as_ref() != Some(&self.fence) {
            return Err(Stop::Control);
        }
        Ok(())
    }

    /// Waits, unless the keeper says something that ends the turn.
    pub(in crate::node) async fn rest(&self, duration: Duration) -> Result<(), Stop> {
        self.unless_stopped(sleep(duration)).await
    }

    /// Waits for something that may take long, unless the keeper says something that ends the turn.
    pub(in crate::node) async fn unless_stopped<T>(&self, wait: impl Future<Output = T>) -> Result<T, Stop> {
        let mut control = self.runner.control.clone();
        let told_to_stop = async {
            loop {
                if self.may_go_on().is_err() || control.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            done = wait => Ok(done),
            () = told_to_stop => Err(Stop::Control),
        }
    }

    /// Repeats a call to the store until it is answered, or the turn ends.
    pub(in crate::node) async fn insist<T, F>(&self, call: impl FnMut() -> F) -> Result<T, Stop>
    where
        F: Future<Output = Result<T, SubscriberError>>,
    {
        let answer = until_answered(call, |error, pause| {
            tracing::warn!(subscriber_id = self.id(), %error, "failed to write, trying again");
            self.runner.status.set(RunnerState::Disconnected, Some(error.to_string()));
            self.rest(pause)
        });
        answer.await?.map_err(Stop::from)
    }

    /// Waits until another event may be handled.
    pub(in crate::node) async fn throttle(&self) -> Result<(), Stop> {
        while let Err(at) = self.plan().limiter.take(1) {
            self.rest(at.saturating_duration_since(Instant::now())).await?;
        }
        Ok(())
    }

    /// Handles an event by a plain handler until it is settled: handled, or given up after the last
    /// retry.
    pub(in crate::node) async fn deliver(
        &self,
        handler: &dyn Handle,
        event: &Arc<RecordedEvent>,
        failed: Vec<FailedTry>,
    ) -> Result<Option<GivenUp>, Stop> {
        let events = std::slice::from_ref(event);
        let mut tries = PlainTries { owner: self, handler, events };
        match self.until_settled(events, &mut tries, failed).await? {
            None => Ok(None),
            Some((last, failed)) => self.give_up(events, &last, &failed).await.map(Some),
        }
    }

    /// Tries events that go together until they are handled, or until another try makes no sense.
    /// It then returns the last error, and the event that failed. `failed` are the tries before.
    pub(in crate::node) async fn until_settled(
        &self,
        events: &[Arc<RecordedEvent>],
        tries: &mut impl Tries,
        mut failed: Vec<FailedTry>,
    ) -> Result<Option<(HandlerError, Vec<FailedTry>)>, Stop> {
        loop {
            let Err(failure) = tries.once(failed.len() as u32).await? else { return Ok(None) };
            match self.note_failure(events, &failure, &mut failed) {
                AfterFailure::GiveUp => return Ok(Some((failure.error, failed))),
                AfterFailure::Untouched(pause) => tries.rest(pause).await?,
                AfterFailure::Again(pause) => {
                    tries.rest(pause).await?;
                    self.runner.status.set(RunnerState::Live, None);
                }
            }
        }
    }

    fn note_failure(
        &self,
        events: &[Arc<RecordedEvent>],
        failure: &Failure,
        failed: &mut Vec<FailedTry>,
    ) -> AfterFailure {
        let Failure { at, error } = failure;
        let after = after_failure(&self.plan().config, error, failed.len() as u32, rand::random());
        let status = &self.runner.status;
        if let AfterFailure::Untouched(_) = after {
            status.set(RunnerState::Retrying, Some(error.to_string()));
            return after;
        }
        failed.push(FailedTry { at: *at, attempt: self.attempt(error) });
        if let AfterFailure::Again(_) = after {
            let known = at.and_then(|at| events.iter().find(|event| event.sequence() == at));
            let failing = known.unwrap_or(&events[0]);
            after.log(self.id(), failing, error, failed.len() as u32);
            status.set(RunnerState::Retrying, Some(failed_times(failing, failed.len(), error)));
        }
        after
    }

    /// After the last failure of events that go together: pauses the subscriber if its
    /// configuration says so, or keeps a dead letter of each event.
    pub(in crate::node) async fn give_up(
        &self,
        events: &[Arc<RecordedEvent>],
        last: &HandlerError,
        failed: &[FailedTry],
    ) -> Result<GivenUp, Stop> {
        let first = &events[0];
        AfterFailure::GiveUp.log(self.id(), first, last, failed.len() as u32);
        let on_exhaustion = self.plan().config.on_exhaustion;
        if on_exhaustion == OnExhaustion::Pause {
            self.pause(&failed_times(first, failed.len(), last)).await?;
        }
        let parks = on_exhaustion == OnExhaustion::ParkKey;
        let dead = |event: &Arc<RecordedEvent>| {
            let attempts = failed.iter().map(|failed| failed.as_seen_by(event, events.len())).collect();
            self.letter(event, DeadLetterState::Dead, parks, attempts)
        };
        self.bury(events.iter().map(dead).collect()).await?;
        Ok(GivenUp(parks.then(|| order_key(first))))
    }

    /// Pauses the subscriber. This ends the turn.
    pub(in crate::node) async fn pause(&self, reason: &str) -> Result<(), Stop> {
        self.insist(|| self.runner.store.pause_self(&self.fence, reason)).await?;
        Err(Stop::Paused)
    }

    /// Parks events behind a dead letter of their key.
    pub(in crate::node) async fn park(&self, events: &[Arc<RecordedEvent>]) -> Result<(), Stop> {
        let parked = |event: &Arc<RecordedEvent>| self.letter(event, DeadLetterState::Parked, false, Vec::new());
        self.bury(events.iter().map(parked).collect()).await
    }

    /// Keeps dead letters, all or none. The checkpoint moves past their events only after this.
    async fn bury(&self, letters: Vec<DeadLetter>) -> Result<(), Stop> {
        self.insist(|| self.runner.store.bury(&self.fence, &letters)).await
    }

    pub(in crate::node) fn attempt(&self, error: &HandlerError) -> Attempt {
        Attempt { at: chrono::Utc::now(), node: self.runner.instance.node.clone(), errors: error.chain() }
    }

    fn letter(
        &self,
        event: &RecordedEvent,
        state: DeadLetterState,
        parks_key: bool,
        attempts: Vec<Attempt>,
    ) -> DeadLetter {
        let now = chrono::Utc::now();
        DeadLetter {
            subscriber_id: self.id().to_owned(),
            event: event.clone(),
            order_key: order_key(event),
            state,
            parks_key,
            attempts,
            created_at: now,
            updated_at: now,
            reason: None,
        }
    }
}

/// The tries of an event with a plain handler, which may be under way in a task of its own.
struct PlainTries<'a> {
    owner: &'a Owner,
    handler: &'a dyn Handle,
    events: &'a [Arc<RecordedEvent>],
}

impl Tries for PlainTries<'_> {
    async fn once(&mut self, redeliveries: u32) -> Result<Result<(), Failure>, Stop> {
        let run = Run { events: self.events, redeliveries: &[redeliveries] };
        let handled = self.owner.executor().plain(self.handler, run).await;
        Ok(handled.map_err(|error| Failure { at: None, error }))
    }

    async fn rest(&mut self, pause: Duration) -> Result<(), Stop> {
        self.owner.rest(pause).await?;
        // A retry counts towards the rate limit like a first try.
        self.owner.throttle().await
    }
}

impl FailedTry {
    /// The attempt as recorded for one of `together` events: either this event failed, or it was
    /// rolled back with another.
    fn as_seen_by(&self, event: &RecordedEvent, together: usize) -> Attempt {
        let mut attempt = self.attempt.clone();
        if together > 1 && self.at != Some(event.sequence().get()) {
            let whose = self.at.map_or("its handler or its commit".to_owned(), |at| format!("event {at}"));
            let cause = attempt.errors.first().cloned().unwrap_or_default();
            let reason = format!("rolled back with its bundle of {together} events: {whose} failed: {cause}");
            attempt.errors.insert(0, reason);
        }
        attempt
    }
}

fn failed_times(event: &RecordedEvent, times: usize, error: &HandlerError) -> String {
    format!("event {} failed {times} times: {error}", event.sequence())
}

/// The error of an event whose handler's process ended.
pub(in crate::node) fn died() -> HandlerError {
    HandlerError::message("the process that handled it ended before it was done")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::delivery::test_events::event;

    #[test]
    fn an_attempt_of_a_bundle_is_told_to_each_of_its_events() {
        let seen = |at: Option<u64>, sequence, together| {
            let attempt = Attempt { at: chrono::Utc::now(), node: "n".into(), errors: vec!["bad".into()] };
            FailedTry { at, attempt }.as_seen_by(&event(sequence), together).errors
        };
        assert_eq!(seen(Some(2), 2, 3), ["bad"]);
        assert_eq!(seen(Some(2), 1, 3), ["rolled back with its bundle of 3 events: event 2 failed: bad", "bad"]);
        let whole = "rolled back with its bundle of 3 events: its handler or its commit failed: bad";
        assert_eq!(seen(None, 1, 3), [whole, "bad"]);
        assert_eq!(seen(None, 1, 1), ["bad"], "an event without others failed itself");
    }
}
