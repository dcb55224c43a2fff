//! The runner: one subscriber of a node, from standing by to handling events and back.
//!
//! Who has authority: the subscriber's row in the database. The keeper tells the runner, through [`Control`], whether this instance
//! owns the subscriber, and in which term; every write carries that term, so that an owner which does not know yet that it was
//! replaced changes nothing. It carries the history as well in which the term was given and the events were read: a server that lost the end of its log refuses
//! what belongs to that. No clock of this process decides anything but when to try again.
//!
//! States: standing by, paused, and owning, in which a [`Turn`] takes segments of the log through the gate to the handler.
//! What failing calls do:
//! - a handler that fails: tried again with growing pauses, then given up as the subscriber's configuration says;
//! - a dead letter or checkpoint that cannot be written: tried again until it is, or until the subscriber is another's; nothing is
//!   skipped meanwhile;
//! - a transaction that fails outside of the handler: its outcome may be unknown, so the turn ends, and the next one begins from the
//!   checkpoint as it is in the database;
//! - an event that ends its process: whoever follows an owner that died writes down which events it begins, one at a time, until some are handled; an event that
//!   was begun too often is given up, as after so many failures;
//! - a write that is fenced: the turn ends, and what was not written is another owner's to deliver;
//! - a server with another history: the turn ends, the tail forgets what it has read, and the next turn begins from the checkpoint as that server has it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use headwater_core::{
    Attempt, DeadLetter, DeadLetterState, Event, Fence, HandlerError, Instance, Loaded, OnExhaustion, RunnerState,
    SubscriberError, SubscriberStore, jittered, order_key, retry_delay,
};
use headwater_postgres::{Delivery, PgSubscribers};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::handler::{Each, guarded};
use super::status::Status;
use super::subscription::Subscription;
use super::tail::Tail;
use super::turn::Turn;

/// Between tries of what the database refused, doubling from the one to the other.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How long to wait for the keeper's word before looking again.
const WORD: Duration = Duration::from_secs(1);

/// What a runner reports whose subscriber was removed.
pub(super) const REMOVED: &str =
    "the subscriber was removed: nothing is delivered until it is registered again, as a restart of this node does";

/// What the keeper tells a runner.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Control {
    /// What proves that this instance owns the subscriber; `None`: it does not.
    pub(super) fence: Option<Fence>,
    pub(super) paused: bool,
    /// The partition is to be given up: the runner ends its turn, and says so in [`Status::yielded`].
    pub(super) giving_up: bool,
    /// The subscriber was removed: there is nothing to own.
    pub(super) removed: bool,
    /// Changes when dead letters wait to be delivered again.
    pub(super) redrives: u64,
    pub(super) stopping: bool,
}

/// Why a turn ended.
#[derive(Debug)]
pub(super) enum Stop {
    /// The keeper said something else: see [`Control`].
    Control,
    /// The subscriber is another's.
    Fenced,
    /// It was paused, by its own doing.
    Paused,
    /// What this process knew of the log counts no more.
    Anew,
    /// It goes on with what it left out.
    Again,
    /// The database failed.
    Failed(SubscriberError),
}

impl From<SubscriberError> for Stop {
    fn from(error: SubscriberError) -> Self {
        match error {
            SubscriberError::Fenced(_) | SubscriberError::NotFound(_) => Stop::Fenced,
            error if error.is_other_history() => Stop::Anew,
            error => Stop::Failed(error),
        }
    }
}

pub(super) struct Runner {
    pub(super) subscription: Arc<Subscription>,
    pub(super) partition: u32,
    pub(super) tail: Arc<Tail>,
    pub(super) store: Arc<dyn SubscriberStore>,
    /// For transactional handlers, and for states.
    pub(super) postgres: Option<PgSubscribers>,
    /// Whether there are notes of events that have changed states.
    pub(super) notes: Arc<AtomicBool>,
    /// By what right it delivers: that of its last fence.
    pub(super) delivery: Mutex<Option<Delivery>>,
    pub(super) instance: Instance,
    pub(super) control: watch::Receiver<Control>,
    pub(super) status: Arc<Status>,
    /// A turn of this process ended, and the database may not know it.
    pub(super) left_open: AtomicBool,
}

impl Runner {
    pub(super) async fn run(self: Arc<Self>) {
        let mut control = self.control.clone();
        let mut pause = FIRST_PAUSE;
        loop {
            let told = control.borrow_and_update().clone();
            if told.stopping {
                return;
            }
            if told.giving_up {
                self.status.yielded.store(true, Ordering::Release);
            }
            let Some(fence) = told.fence.filter(|_| !told.paused && !told.giving_up) else {
                let state = if told.paused { RunnerState::Paused } else { RunnerState::StandingBy };
                self.status.set(state, told.removed.then(|| REMOVED.to_owned()));
                if control.changed().await.is_err() {
                    return;
                }
                continue;
            };
            let stop = self.own(&fence).await;
            self.status.reached.send_replace(None);
            match stop {
                Stop::Control | Stop::Again => pause = FIRST_PAUSE,
                Stop::Anew => {
                    pause = FIRST_PAUSE;
                    self.tail.doubt();
                }
                Stop::Fenced | Stop::Paused => {
                    let state =
                        if matches!(stop, Stop::Paused) { RunnerState::Paused } else { RunnerState::StandingBy };
                    self.status.set(state, control.borrow().removed.then(|| REMOVED.to_owned()));
                    _ = timeout(WORD, control.changed()).await;
                }
                Stop::Failed(error) => {
                    tracing::warn!(subscriber_id = self.id(), %error, "delivery failed, trying again");
                    self.status.set(RunnerState::Disconnected, Some(error.to_string()));
                    _ = timeout(jittered(pause, 0.5, rand::random()), control.changed()).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    async fn own(self: &Arc<Self>, fence: &Fence) -> Stop {
        let mut generations = self.tail.generations();
        let (history, generation) = self.tail.reading();
        if history.is_none() || history != fence.history {
            // The tail has not begun; or it or the keeper is behind; or a server that was replaced still answers.
            if history.is_some() {
                self.status.set(RunnerState::Disconnected, Some("the server has another history".into()));
                self.tail.doubt();
            }
            _ = self.unless_stopped(fence, timeout(WORD, generations.changed())).await;
            return Stop::Control;
        }
        let loaded: Loaded = match self.store.load(fence).await {
            Ok(loaded) if loaded.paused => return Stop::Paused,
            Ok(loaded) => loaded,
            Err(error) => return error.into(),
        };
        let last = match self.store.begin_turn(fence, self.left_open.load(Ordering::Acquire)).await {
            Ok(last) => last,
            Err(error) => return error.into(),
        };
        self.left_open.store(true, Ordering::Release);
        self.tail.forget_before(loaded.repairs).await;
        let (position, partition) = (loaded.position, self.partition);
        tracing::info!(subscriber_id = self.id(), partition, position, term = fence.term, "delivery begins");
        let mut turn = Turn::new(self, fence, loaded, last, generation);
        let stop = turn.run().await;
        turn.end().await;
        if !matches!(stop, Stop::Fenced | Stop::Anew)
            && let Err(Stop::Failed(error)) = turn.write_last().await
        {
            tracing::warn!(subscriber_id = self.id(), %error, "failed to write the last checkpoint: its events will come again");
        }
        if !matches!(stop, Stop::Fenced | Stop::Anew) && self.store.end_turn(fence).await.is_ok() {
            self.left_open.store(false, Ordering::Release);
        }
        stop
    }

    pub(super) fn id(&self) -> &str {
        &self.subscription.subscriber_id
    }

    /// Whether the keeper still says that this instance owns the subscriber, with this fence, and shall go on.
    pub(super) fn may_go_on(&self, fence: &Fence) -> Result<(), Stop> {
        let told = self.control.borrow();
        if told.stopping || told.paused || told.giving_up || told.fence.as_ref() != Some(fence) {
            return Err(Stop::Control);
        }
        Ok(())
    }

    /// Waits, unless the keeper says something that ends the turn.
    pub(super) async fn rest(&self, fence: &Fence, duration: Duration) -> Result<(), Stop> {
        self.unless_stopped(fence, sleep(duration)).await
    }

    /// Waits for something that may take long, unless the keeper says something that ends the turn.
    pub(super) async fn unless_stopped<T>(&self, fence: &Fence, wait: impl Future<Output = T>) -> Result<T, Stop> {
        let mut control = self.control.clone();
        let told_to_stop = async {
            loop {
                if self.may_go_on(fence).is_err() || control.changed().await.is_err() {
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
    pub(super) async fn insist<T, F>(&self, fence: &Fence, mut call: impl FnMut() -> F) -> Result<T, Stop>
    where
        F: Future<Output = Result<T, SubscriberError>>,
    {
        let mut pause = FIRST_PAUSE;
        loop {
            match call().await {
                Err(error) if error.is_retryable() => {
                    tracing::warn!(subscriber_id = self.id(), %error, "failed to write, trying again");
                    self.status.set(RunnerState::Disconnected, Some(error.to_string()));
                    self.rest(fence, jittered(pause, 0.5, rand::random())).await?;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                result => return result.map_err(Stop::from),
            }
        }
    }

    /// Waits until another event may be handled.
    pub(super) async fn throttle(&self, fence: &Fence) -> Result<(), Stop> {
        while let Err(at) = self.subscription.limiter.take(1) {
            self.rest(fence, at.saturating_duration_since(Instant::now())).await?;
        }
        Ok(())
    }

    /// Runs a handler as the owner of the subscriber, whose states nobody else writes.
    pub(super) async fn delivering<T>(&self, fence: &Fence, handling: impl Future<Output = T>) -> T {
        match &self.postgres {
            Some(postgres) => self.delivery(postgres, fence).scope(handling).await,
            None => handling.await,
        }
    }

    fn delivery(&self, postgres: &PgSubscribers, fence: &Fence) -> Delivery {
        let mut kept = self.delivery.lock().expect("no holder of this lock panics");
        match &*kept {
            Some(delivery) if delivery.fence() == fence => delivery.clone(),
            _ => kept.insert(postgres.delivery(fence, &self.notes)).clone(),
        }
    }

    /// Handles an event until it is settled: handled or, after the last retry, given up.
    pub(super) async fn deliver(
        &self,
        handler: &dyn Each,
        fence: &Fence,
        event: &Arc<Event>,
    ) -> Result<Option<GivenUp>, Stop> {
        self.throttle(fence).await?;
        self.deliver_granted(handler, fence, event, Vec::new()).await
    }

    /// The same for an event that may be handled now, and was tried before or not.
    pub(super) async fn deliver_granted(
        &self,
        handler: &dyn Each,
        fence: &Fence,
        event: &Arc<Event>,
        mut attempts: Vec<Attempt>,
    ) -> Result<Option<GivenUp>, Stop> {
        loop {
            let handling = self.delivering(fence, handler.handle(event, attempts.len() as u32));
            match guarded(handling, self.subscription.config.handler_timeout).await {
                Ok(()) => return Ok(None),
                Err(error) => {
                    if let Some(given_up) = self.failed(fence, event, error, &mut attempts).await? {
                        return Ok(Some(given_up));
                    }
                }
            }
            self.throttle(fence).await?;
        }
    }

    /// After a failure: waits for the next try, or gives the event up.
    pub(super) async fn failed(
        &self,
        fence: &Fence,
        event: &Arc<Event>,
        error: HandlerError,
        attempts: &mut Vec<Attempt>,
    ) -> Result<Option<GivenUp>, Stop> {
        if self.try_again(fence, event, &error, attempts).await? {
            return Ok(None);
        }
        let parks = self.give_up(fence, event, &error, attempts.len()).await?;
        self.bury(fence, event, DeadLetterState::Dead, parks, std::mem::take(attempts)).await?;
        Ok(Some(GivenUp(parks.then(|| order_key(event)))))
    }

    /// After a failure: waits for the next try, if there shall be one.
    pub(super) async fn try_again(
        &self,
        fence: &Fence,
        event: &Event,
        error: &HandlerError,
        attempts: &mut Vec<Attempt>,
    ) -> Result<bool, Stop> {
        let config = &self.subscription.config;
        if error.is_not_handled() {
            self.status.set(RunnerState::Retrying, Some(error.to_string()));
            self.rest(fence, config.initial_retry_delay).await?;
            return Ok(true);
        }
        attempts.push(self.attempt(error));
        if error.is_permanent() || attempts.len() > config.max_retries as usize {
            return Ok(false);
        }
        let (subscriber_id, sequence) = (self.id(), event.global_sequence);
        let delay = retry_delay(config, attempts.len() as u32 - 1);
        tracing::warn!(subscriber_id, sequence, %error, attempt = attempts.len(), "failed to handle an event, trying again");
        let detail = format!("event {} failed {} times: {error}", sequence.unwrap_or_default(), attempts.len());
        self.status.set(RunnerState::Retrying, Some(detail));
        self.rest(fence, jittered(delay, config.retry_jitter, rand::random())).await?;
        self.status.set(RunnerState::Live, None);
        Ok(true)
    }

    /// After the last failure: pauses, if that was asked for. Returns whether later events of the key shall wait.
    pub(super) async fn give_up(
        &self,
        fence: &Fence,
        event: &Event,
        error: &HandlerError,
        attempts: usize,
    ) -> Result<bool, Stop> {
        let (subscriber_id, sequence) = (self.id(), event.global_sequence);
        tracing::error!(subscriber_id, sequence, %error, attempts, "gave up on an event");
        let on_exhaustion = self.subscription.config.on_exhaustion;
        if on_exhaustion == OnExhaustion::Pause {
            let reason = format!("event {} failed {attempts} times: {error}", sequence.unwrap_or_default());
            self.insist(fence, || self.store.pause_self(fence, &reason)).await?;
            return Err(Stop::Paused);
        }
        Ok(on_exhaustion == OnExhaustion::ParkKey)
    }

    pub(super) fn attempt(&self, error: &HandlerError) -> Attempt {
        Attempt { at: chrono::Utc::now(), node: self.instance.node.clone(), errors: error.chain() }
    }

    /// Keeps a dead letter. The checkpoint moves past its event only after this.
    pub(super) async fn bury(
        &self,
        fence: &Fence,
        event: &Arc<Event>,
        state: DeadLetterState,
        parks_key: bool,
        attempts: Vec<Attempt>,
    ) -> Result<(), Stop> {
        self.bury_all(fence, &[self.letter(event, state, parks_key, attempts)]).await
    }

    /// Keeps dead letters, all or none.
    pub(super) async fn bury_all(&self, fence: &Fence, letters: &[DeadLetter]) -> Result<(), Stop> {
        self.insist(fence, || self.store.bury(fence, letters)).await
    }

    pub(super) fn letter(
        &self,
        event: &Event,
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

/// An event was given up, and later events of this key, if any, wait behind it.
pub(super) struct GivenUp(pub(super) Option<String>);
