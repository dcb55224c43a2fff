//! A worker of a queue: claims events, handles several at once, and settles each by itself.
//!
//! Who has authority: the claims in the database, and its clock. A claim belongs to this worker
//! until it expires. While its events are being handled, it is extended each time half of its
//! timeout has passed. A claim can be lost all the same, if this process hung or could not reach
//! the database. It then belongs to another worker: its events are dropped here, and the database
//! refuses to settle them for this worker.
//!
//! States: waiting (for new events, for a retry that is due, or for the poll that finds what other
//! workers left), working, and paused. A paused worker hands back the events that have not begun,
//! and finishes those that have. One loop decides. Handlers (`work.rs`) and calls to the database
//! (`calls.rs`) are tasks, so that none waits for another; `answers.rs` takes their results. When
//! something fails:
//! - a handler: its event is handed back, to be delivered again after a pause, to any worker, or to
//!   become a dead letter;
//! - a transaction: it is rolled back, with its ack; then each of its events gets a transaction of
//!   its own;
//! - a claim, an ack or an extension that the database did not answer: it is tried again with
//!   growing pauses; claims that expire meanwhile come again.

mod answers;
mod calls;
mod in_flight;
mod pace;
mod room;
mod work;

use std::sync::Arc;
use std::time::Duration;

use headwater_core::{Backoff, QueueStore, RunnerState, SubscriberStore};
use headwater_postgres::{PgQueue, PgSubscribers};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep_until};

pub(in crate::node) use self::calls::Refused;
use self::in_flight::InFlight;
use self::room::Room;
use crate::node::delivery::plan::SubscriptionPlan;
use crate::node::delivery::runner::Control;
use crate::node::delivery::status::Status;
use crate::node::reading::tail::Tail;

/// Pause between looks for what other workers left, while nothing else happens.
const POLL: Duration = Duration::from_secs(1);
/// The most events of one claim: more would not save anything.
const MOST_AT_ONCE: usize = 500;
/// Claim calls at once, if there are more events than one claim takes: while the events of one are
/// read, another is made.
const CLAIMS: usize = 2;
/// The most calls of one kind at once.
const CALLS: usize = 2;

pub(in crate::node) struct Worker {
    pub(in crate::node) subscription: Arc<SubscriptionPlan>,
    pub(in crate::node) queue: Arc<dyn QueueStore>,
    pub(in crate::node) store: Arc<dyn SubscriberStore>,
    /// The parts for transactional handlers, which only PostgreSQL has.
    pub(in crate::node) transactions: Option<Transactions>,
    pub(in crate::node) tail: Arc<Tail>,
    pub(in crate::node) worker: String,
    pub(in crate::node) control: watch::Receiver<Control>,
    pub(in crate::node) status: Arc<Status>,
    pub(in crate::node) calls: Calls,
    pub(in crate::node) refused: Refused,
}

/// What transactional handlers need in addition to the queue.
pub(in crate::node) struct Transactions {
    postgres: PgSubscribers,
    queue: PgQueue,
}

impl Transactions {
    pub(in crate::node) fn new(postgres: &PgSubscribers, subscription: &SubscriptionPlan) -> Self {
        let (database, info) = (postgres.database().clone(), postgres.info().clone());
        let queue = PgQueue::new(database, info, &subscription.subscriber_id);
        Transactions { postgres: postgres.clone(), queue }
    }
}

/// Keeps the calls of one kind from taking all connections of the pool, which others need too.
pub(in crate::node) struct Calls {
    extensions: Semaphore,
    acks: Semaphore,
}

impl Default for Calls {
    fn default() -> Self {
        let some = || Semaphore::new(CALLS);
        Calls { extensions: some(), acks: some() }
    }
}

/// When to claim again.
struct NextClaim {
    /// When to claim. `None`: as soon as there is room.
    at: Option<Instant>,
    /// Whether something is new: there may be events with priority, for which there is always room.
    for_urgent: bool,
    /// Pauses between tries while the database cannot be reached.
    pauses: Backoff,
}

impl NextClaim {
    /// Whether to claim events now, if there is room.
    fn wants(&self, room: &Room) -> bool {
        let asks = room.events > 0 && self.at.is_none_or(|at| at <= Instant::now());
        asks || room.urgent > 0 && self.for_urgent
    }
}

impl Worker {
    pub(in crate::node) async fn run(self: Arc<Self>) {
        let mut in_flight = InFlight::default();
        let mut next_claim = NextClaim { at: None, for_urgent: false, pauses: Backoff::for_database() };
        let mut control = self.control.clone();
        let mut changes = self.tail.changes();
        let mut handlers = self.subscription.filter.handlers.as_ref().map(|handlers| handlers.changes());
        self.status.set(RunnerState::Live, None);
        loop {
            let (stopping, paused) = {
                let told = control.borrow_and_update();
                (told.stopping, told.paused)
            };
            if paused {
                self.status.set(RunnerState::Paused, None);
            }
            let granted_at = self.start_or_hand_back(&mut in_flight, stopping || paused);
            let room = self.room_of(&in_flight, stopping || paused);
            if room.is_there() && next_claim.wants(&room) {
                changes.borrow_and_update();
                next_claim.for_urgent = false;
                self.begin_claim(&mut in_flight, room.events, room.urgent);
                continue;
            }
            self.begin_ack(&mut in_flight);
            if stopping && in_flight.is_empty() {
                return;
            }
            let ask = in_flight.retries.iter().copied().chain(next_claim.at).filter(|_| room.events > 0).min();
            let alarm = [ask, in_flight.next_due(), granted_at].into_iter().flatten().min();
            tokio::select! {
                Some(ended) = in_flight.running.join_next_with_id() => match ended {
                    Ok((task, done)) => self.take_done(&mut in_flight, &mut next_claim, task, done),
                    // The task was aborted, since its claim was lost.
                    Err(aborted) => in_flight.ended(aborted.id()),
                },
                Some(answer) = in_flight.calls.join_next() => match answer {
                    Ok(answer) => self.take_answer(&mut in_flight, &mut next_claim, answer),
                    Err(error) => self.call_ended(&mut in_flight, &mut next_claim, &error),
                },
                _ = changes.changed(), if room.is_there() => (next_claim.at, next_claim.for_urgent) = (None, true),
                _ = control.changed() => {}
                () = changed(&mut handlers) => next_claim.at = None,
                () = until(alarm) => self.do_what_is_due(&mut in_flight, &mut next_claim),
            }
        }
    }

    /// Starts waiting events. While the worker rests, hands them back instead. Returns when more
    /// may start, if only time is missing.
    fn start_or_hand_back(self: &Arc<Self>, in_flight: &mut InFlight, resting: bool) -> Option<Instant> {
        if !resting {
            return self.start_waiting(in_flight);
        }
        // A claim call in flight would only claim them again.
        if in_flight.claiming == 0 {
            self.hand_back_waiting(in_flight);
        }
        None
    }

    fn do_what_is_due(self: &Arc<Self>, in_flight: &mut InFlight, next_claim: &mut NextClaim) {
        let now = Instant::now();
        if in_flight.retries.iter().any(|at| *at <= now) {
            next_claim.at = None;
        }
        self.extend_due(in_flight, now);
        self.ack_parts(in_flight, now);
    }

    fn id(&self) -> &str {
        &self.subscription.subscriber_id
    }

    fn is_stopping(&self) -> bool {
        self.control.borrow().stopping
    }

    /// Starts as many events as may run at once. Returns when more may start, if only time is
    /// missing.
    fn start_waiting(self: &Arc<Self>, in_flight: &mut InFlight) -> Option<Instant> {
        while in_flight.running.len() < self.subscription.concurrency as usize {
            let of_one_claim = self.subscription.is_transactional();
            let mut events = in_flight.ready(self.events_at_once(in_flight), of_one_claim);
            if events > 1 {
                events = self.subscription.fit_together(in_flight.weights(events));
            }
            let mut permits = self.subscription.permits_for(events, None);
            if self.subscription.allowance.is_some() {
                events = permits.len();
            }
            let granted = match self.subscription.limiter.take(events) {
                Ok(0) => return None,
                Ok(granted) => granted,
                Err(at) => return Some(at),
            };
            permits.truncate(granted);
            in_flight.start(granted, |jobs, whole| self.clone().work(jobs, whole, permits));
        }
        None
    }
}

/// Waits until the handlers by event type change. Without such handlers, waits for ever.
async fn changed<T>(handlers: &mut Option<watch::Receiver<T>>) {
    if let Some(handlers) = handlers
        && handlers.changed().await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

async fn until(alarm: Option<Instant>) {
    match alarm {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
