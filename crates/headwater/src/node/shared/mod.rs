//! A shared subscriber on a node: claims events, handles several at once, and settles each by itself.
//!
//! Who has authority: the claims in the database, and its clock. A claim is this worker's until it expires; while its events are handled it is
//! extended, each time that half of it has passed. One that was lost all the same (this process hung, or could not reach the database) is
//! another's: its events are dropped here, and what they would have settled is refused there.
//!
//! States: waiting (for new events, for a retry that is due, or for the poll that finds what other workers left), and working. One loop decides; handlers
//! (`work.rs`) and calls to the database (`calls.rs`) are tasks, so that none waits for another. What failing calls do:
//! - a handler that fails: its event is handed back, to be delivered again after a pause, to any worker, or to become a dead letter;
//! - a transaction that fails: rolled back, with its ack; then each of its events has one of its own;
//! - a claim, an ack or an extension that the database did not answer: tried again with growing pauses; what expires meanwhile comes again.

mod calls;
mod hand;
mod work;

use std::sync::Arc;
use std::time::Duration;

use headwater_core::{RunnerState, jittered};
use headwater_postgres::{PgQueue, PgSubscribers};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep_until};

use self::calls::Answer;
use self::hand::Hand;
use self::work::{Done, Outcome};
use super::handler::Work;
use super::runner::Control;
use super::status::Status;
use super::subscription::Subscription;
use super::tail::Tail;

/// Between looks for what other workers left, while nothing else happens.
const POLL: Duration = Duration::from_secs(1);
/// Between tries while the database cannot be reached.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Calls of a kind at once.
const CALLS: usize = 2;

pub(super) struct Shared {
    pub(super) subscription: Arc<Subscription>,
    pub(super) queue: PgQueue,
    /// For transactional handlers.
    pub(super) postgres: PgSubscribers,
    pub(super) tail: Arc<Tail>,
    pub(super) worker: String,
    pub(super) control: watch::Receiver<Control>,
    pub(super) status: Arc<Status>,
    pub(super) calls: Calls,
}

/// Keeps calls of a kind from taking all connections of the pool, which is for others too.
pub(super) struct Calls {
    extensions: Semaphore,
    returns: Semaphore,
}

impl Default for Calls {
    fn default() -> Self {
        Calls { extensions: Semaphore::new(CALLS), returns: Semaphore::new(CALLS) }
    }
}

/// When to claim again.
struct Asking {
    /// `None`: as soon as there is room.
    at: Option<Instant>,
    pause: Duration,
}

impl Shared {
    pub(super) async fn run(self: Arc<Self>) {
        let mut hand = Hand::default();
        let mut asking = Asking { at: None, pause: FIRST_PAUSE };
        let mut control = self.control.clone();
        let mut changes = self.tail.changes();
        let mut handlers = self.subscription.filter.handlers.as_ref().map(|handlers| handlers.changes());
        self.status.set(RunnerState::Live, None);
        loop {
            let stopping = control.borrow_and_update().stopping;
            if stopping {
                self.hand_back_waiting(&mut hand);
            } else {
                self.start_waiting(&mut hand);
            }
            let room = self.room(&hand);
            let idle = !stopping && !hand.claiming && room > 0;
            if idle && asking.at.is_none_or(|at| at <= Instant::now()) {
                changes.borrow_and_update();
                self.begin_claim(&mut hand, room);
                continue;
            }
            self.begin_ack(&mut hand);
            if stopping && hand.is_empty() {
                return;
            }
            let ask = asking.at.into_iter().chain(hand.retries.iter().copied()).filter(|_| idle).min();
            let extend = hand.claims.values().filter_map(|claim| claim.extend_at).min();
            let alarm = [ask, extend].into_iter().flatten().min();
            tokio::select! {
                Some(ended) = hand.running.join_next_with_id() => match ended {
                    Ok((task, done)) => self.settle(&mut hand, task, done),
                    // Of a claim that was lost: aborted.
                    Err(aborted) => hand.ended(aborted.id()),
                },
                Some(Ok(answer)) = hand.calls.join_next() => self.take_answer(&mut hand, &mut asking, answer),
                _ = changes.changed(), if idle => asking.at = None,
                _ = control.changed() => {}
                () = changed(&mut handlers) => asking.at = None,
                () = until(alarm) => {
                    let now = Instant::now();
                    if hand.retries.iter().any(|at| *at <= now) {
                        asking.at = None;
                    }
                    self.extend_due(&mut hand, now);
                }
            }
        }
    }

    fn id(&self) -> &str {
        &self.subscription.subscriber_id
    }

    fn is_stopping(&self) -> bool {
        self.control.borrow().stopping
    }

    /// How many events to claim now; none until half of what may be held is done, so that they are not claimed one by one.
    fn room(&self, hand: &Hand) -> usize {
        if self.subscription.filter.handlers.as_ref().is_some_and(|handlers| handlers.is_empty()) {
            return 0;
        }
        let batch = self.subscription.events_at_once();
        let capacity = self.subscription.config.concurrency as usize * batch + self.ahead(hand);
        let room = capacity.saturating_sub(hand.events());
        match &self.subscription.work {
            // A claim is a transaction: two that ack parts of one claim would wait for each other.
            Work::Transaction(..) if room < batch => 0,
            Work::Transaction(..) => batch,
            _ if room * 2 < capacity => 0,
            _ => room,
        }
    }

    /// How many events to have ready beyond those that are handled.
    fn ahead(&self, _hand: &Hand) -> usize {
        self.subscription.claims.prefetch as usize
    }

    /// Starts as much as may run at once.
    fn start_waiting(self: &Arc<Self>, hand: &mut Hand) {
        while hand.running.len() < self.subscription.config.concurrency as usize {
            let of_one_claim = matches!(self.subscription.work, Work::Transaction(..));
            let jobs = hand.next(self.subscription.events_at_once(), of_one_claim);
            if jobs.is_empty() {
                return;
            }
            hand.start(jobs, |jobs, whole| self.clone().work(jobs, whole));
        }
    }

    fn settle(self: &Arc<Self>, hand: &mut Hand, task: tokio::task::Id, done: Done) {
        hand.ended(task);
        for (job, outcome) in done.events {
            if !hand.claims.contains_key(&job.claim_id) {
                continue;
            }
            match outcome {
                Outcome::Handled => {
                    self.status.count(1);
                    hand.settled(job.claim_id, 1, true);
                }
                Outcome::Committed => {
                    self.status.count(1);
                    hand.settled(job.claim_id, 1, false);
                }
                Outcome::Failed(error) => self.hand_back(hand, job, error),
                Outcome::Lost => hand.drop_claim(job.claim_id),
            }
        }
    }

    fn take_answer(&self, hand: &mut Hand, asking: &mut Asking, answer: Answer) {
        match answer {
            Answer::Claimed { begun, claims, unacked } => {
                hand.claiming = false;
                hand.acks.extend(unacked);
                let now = Instant::now();
                match claims {
                    Ok(claims) => {
                        asking.pause = FIRST_PAUSE;
                        self.status.set(RunnerState::Live, None);
                        let claimed = hand.take(claims, begun + self.subscription.claims.visibility / 2);
                        asking.at = (claimed == 0).then(|| now + jittered(POLL, 0.2, rand::random()));
                    }
                    Err(error) => {
                        tracing::warn!(subscriber_id = self.id(), %error, "failed to claim events, trying again");
                        self.status.set(RunnerState::Disconnected, Some(error.to_string()));
                        asking.at = Some(now + jittered(asking.pause, 0.5, rand::random()));
                        asking.pause = (asking.pause * 2).min(LONGEST_PAUSE);
                    }
                }
            }
            Answer::Acked { unacked } => {
                hand.acking = false;
                hand.acks.extend(unacked);
            }
            Answer::HandedBack { claim_id, events, due_in } => {
                hand.retries.push(Instant::now() + due_in);
                hand.settled(claim_id, events, false);
            }
            Answer::NotHandedBack { claim_id } => hand.drop_claim(claim_id),
            Answer::Extended { claim_id, next } => {
                if let Some(claim) = hand.claims.get_mut(&claim_id) {
                    claim.extend_at = Some(next);
                }
            }
            Answer::Lost { claim_id, error } => self.lost(hand, claim_id, &error),
        }
    }

    /// A claim that could not be extended. In a transaction, the ack tells whether it was lost or is done.
    fn lost(&self, hand: &mut Hand, claim_id: uuid::Uuid, error: &headwater_core::SubscriberError) {
        let Some(claim) = hand.claims.get(&claim_id) else { return };
        if matches!(self.subscription.work, Work::Transaction(..)) && !claim.tasks.is_empty() {
            return;
        }
        tracing::warn!(subscriber_id = self.id(), %error, "lost a claim: its events come again");
        hand.drop_claim(claim_id);
    }
}

/// Waits until the handlers by event type are others. Without any, for ever.
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
