//! A shared subscriber on a node: claims events, handles several at once, and settles each by itself.
//!
//! Who has authority: the claims in the database, and its clock. A claim is this worker's until it expires; while its events are handled it is
//! extended, each time that half of it has passed. One that was lost all the same (this process hung, or could not reach the database) is
//! another's: its events are dropped here, and what they would have settled is refused there.
//!
//! States: waiting (for new events, for a retry that is due, or for the poll that finds what other workers left), working, and paused, in which what
//! was not begun is handed back, and what was is ended. One loop decides; handlers
//! (`work.rs`) and calls to the database (`calls.rs`) are tasks, so that none waits for another. What failing calls do:
//! - a handler that fails: its event is handed back, to be delivered again after a pause, to any worker, or to become a dead letter;
//! - a transaction that fails: rolled back, with its ack; then each of its events has one of its own;
//! - a claim, an ack or an extension that the database did not answer: tried again with growing pauses; what expires meanwhile comes again.

mod calls;
mod hand;
mod pace;
mod work;

use std::sync::Arc;
use std::time::Duration;

use headwater_core::{RunnerState, SubscriberError, jittered};
use headwater_postgres::{PgQueue, PgSubscribers};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinError;
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
/// Events of one claim: more would not save anything.
const MOST_AT_ONCE: usize = 500;
/// Claims at once, where there is more than one can take: while the events of one are read, another is made.
const CLAIMS: usize = 2;
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
    acks: Semaphore,
}

impl Default for Calls {
    fn default() -> Self {
        let some = || Semaphore::new(CALLS);
        Calls { extensions: some(), acks: some() }
    }
}

/// When to claim again.
struct Asking {
    /// `None`: as soon as there is room.
    at: Option<Instant>,
    /// Something is new: there may be events of priority, for which there is always room.
    for_urgent: bool,
    pause: Duration,
}

impl Shared {
    pub(super) async fn run(self: Arc<Self>) {
        let mut hand = Hand::default();
        let mut asking = Asking { at: None, for_urgent: false, pause: FIRST_PAUSE };
        let mut control = self.control.clone();
        let mut changes = self.tail.changes();
        let mut handlers = self.subscription.filter.handlers.as_ref().map(|handlers| handlers.changes());
        self.status.set(RunnerState::Live, None);
        loop {
            let (stopping, paused) = {
                let told = control.borrow_and_update();
                (told.stopping, told.paused)
            };
            let resting = stopping || paused;
            if paused {
                self.status.set(RunnerState::Paused, None);
            }
            let granted_at = match resting {
                // A claim that is under way would only take it again.
                true if hand.claiming > 0 => None,
                true => self.hand_back_waiting(&mut hand),
                false => self.start_waiting(&mut hand),
            };
            let room = self.room(&hand);
            let urgent = self.urgent_room(&hand);
            let idle = !resting && hand.claiming < self.claims_at_once(&hand) && (room > 0 || urgent > 0);
            let asks = room > 0 && asking.at.is_none_or(|at| at <= Instant::now());
            if idle && (asks || urgent > 0 && asking.for_urgent) {
                changes.borrow_and_update();
                asking.for_urgent = false;
                self.begin_claim(&mut hand, room, urgent);
                continue;
            }
            self.begin_ack(&mut hand);
            if stopping && hand.is_empty() {
                return;
            }
            let ask = asking.at.into_iter().chain(hand.retries.iter().copied()).filter(|_| idle && room > 0).min();
            let alarm = [ask, hand.next_due(), granted_at].into_iter().flatten().min();
            tokio::select! {
                Some(ended) = hand.running.join_next_with_id() => match ended {
                    Ok((task, done)) => self.settle(&mut hand, &mut asking, task, done),
                    // Of a claim that was lost: aborted.
                    Err(aborted) => hand.ended(aborted.id()),
                },
                Some(answer) = hand.calls.join_next() => match answer {
                    Ok(answer) => self.take_answer(&mut hand, &mut asking, answer),
                    Err(error) => self.call_ended(&mut hand, &mut asking, &error),
                },
                _ = changes.changed(), if idle => (asking.at, asking.for_urgent) = (None, true),
                _ = control.changed() => {}
                () = changed(&mut handlers) => asking.at = None,
                () = until(alarm) => {
                    let now = Instant::now();
                    if hand.retries.iter().any(|at| *at <= now) {
                        asking.at = None;
                    }
                    self.extend_due(&mut hand, now);
                    self.ack_parts(&mut hand, now);
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
        let batch = self.events_at_once(hand);
        let capacity = self.subscription.config.concurrency as usize * batch + self.ahead(hand);
        // What the rate limit lets nobody here handle soon is for others.
        let capacity = capacity.min(self.subscription.limiter.burst().unwrap_or(capacity));
        let room = capacity.saturating_sub(hand.events());
        match &self.subscription.work {
            _ if room * 2 < capacity => 0,
            // Whole ones: see `per_claim`.
            Work::Transaction(..) if room > batch => (room - room % batch).min(MOST_AT_ONCE),
            _ => room.min(MOST_AT_ONCE),
        }
    }

    /// A claim is a transaction: two that ack parts of one claim would wait for each other.
    fn per_claim(&self) -> Option<u32> {
        matches!(self.subscription.work, Work::Transaction(..)).then(|| self.subscription.events_at_once() as u32)
    }

    fn claims_at_once(&self, hand: &Hand) -> usize {
        let ahead = hand.backlog && self.ahead(hand) > 0 && self.subscription.claims.priority.is_empty();
        if ahead { CLAIMS } else { 1 }
    }

    /// How many events of priority to claim now, whatever else waits: as many as can be handled at once.
    fn urgent_room(&self, hand: &Hand) -> usize {
        if self.subscription.claims.priority.is_empty() {
            return 0;
        }
        let (batch, waiting) = (self.events_at_once(hand), hand.urgent());
        match &self.subscription.work {
            Work::Transaction(..) if waiting > 0 => 0,
            Work::Transaction(..) => batch,
            _ => (self.subscription.config.concurrency as usize * batch).min(MOST_AT_ONCE).saturating_sub(waiting),
        }
    }

    /// How many events one run of the handler is given at most. Where batches only save work, no more than are handled soon: the others are for
    /// whoever is free.
    fn events_at_once(&self, hand: &Hand) -> usize {
        let most = self.subscription.events_at_once();
        match self.subscription.at_once {
            Some((events, _)) => most.min(events).min(hand.pace.ahead(1)).max(1),
            None => most,
        }
    }

    /// How many events to have ready beyond those that are handled.
    fn ahead(&self, hand: &Hand) -> usize {
        match self.subscription.claims.prefetch {
            Some(events) => hand.pace.limit(events as usize),
            None => hand.pace.ahead(self.subscription.config.concurrency),
        }
    }

    /// Starts as much as may run at once. Returns when more may, if that is a question of time.
    fn start_waiting(self: &Arc<Self>, hand: &mut Hand) -> Option<Instant> {
        while hand.running.len() < self.subscription.config.concurrency as usize {
            let of_one_claim = matches!(self.subscription.work, Work::Transaction(..));
            let mut events = hand.ready(self.events_at_once(hand), of_one_claim);
            if events > 1 {
                events = self.subscription.fit_together(hand.weights(events));
            }
            let mut places = self.subscription.places_for(events, None);
            if self.subscription.places.is_some() {
                events = places.len();
            }
            let granted = match self.subscription.limiter.take(events) {
                Ok(0) => return None,
                Ok(granted) => granted,
                Err(at) => return Some(at),
            };
            places.truncate(granted);
            hand.start(granted, |jobs, whole| self.clone().work(jobs, whole, places));
        }
        None
    }

    fn settle(self: &Arc<Self>, hand: &mut Hand, asking: &mut Asking, task: tokio::task::Id, done: Done) {
        hand.ended(task);
        // Events whose worker was lost come one at a time: the next is there as soon as this one is acked.
        if done.events.iter().any(|(job, _)| job.redelivery_count > 0) {
            asking.at = None;
        }
        hand.pace.handled(done.events.len(), done.took);
        for (job, outcome) in done.events {
            if !hand.claims.contains_key(&job.claim_id) {
                continue;
            }
            match outcome {
                Outcome::Handled => {
                    self.status.count(1);
                    hand.handled(&job);
                }
                Outcome::Committed => {
                    self.status.count(1);
                    hand.settled(job.claim_id, 1);
                }
                Outcome::Failed(error) => self.hand_back(hand, job, error),
                Outcome::Lost => hand.drop_claim(job.claim_id),
            }
        }
    }

    fn take_answer(&self, hand: &mut Hand, asking: &mut Asking, answer: Answer) {
        match answer {
            Answer::Claimed { begun, asked, urgent, claims, unacked } => {
                // After a call that panicked, more come than are known of.
                hand.claiming = hand.claiming.saturating_sub(1);
                hand.asked = hand.asked.saturating_sub(asked);
                hand.acks.extend(unacked);
                let now = Instant::now();
                let extend_at = begun + self.subscription.claims.visibility / 2;
                let urgent = hand.take(urgent, extend_at, true);
                match claims {
                    Ok(claims) => {
                        asking.pause = FIRST_PAUSE;
                        self.status.set(RunnerState::Live, None);
                        let claimed = urgent + hand.take(claims, extend_at, false);
                        hand.backlog = 4 * claimed >= 3 * asked;
                        asking.at = (claimed == 0).then(|| now + jittered(POLL, 0.2, rand::random()));
                    }
                    Err(error) => {
                        tracing::warn!(subscriber_id = self.id(), %error, "failed to claim events, trying again");
                        // Whoever watches sees then that the subscriber was removed.
                        let state = match error {
                            SubscriberError::NotFound(_) => RunnerState::StandingBy,
                            _ => RunnerState::Disconnected,
                        };
                        self.status.set(state, Some(error.to_string()));
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
                hand.settled(claim_id, events);
            }
            Answer::NotHandedBack { claim_id } => hand.drop_claim(claim_id),
            Answer::PartAcked { claim_id, unacked } => hand.part_acked(claim_id, unacked),
            Answer::Extended { claim_id, next } => {
                if let Some(claim) = hand.claims.get_mut(&claim_id) {
                    claim.extend_at = Some(next);
                }
            }
            Answer::Lost { claim_id, error } => self.lost(hand, claim_id, &error),
        }
    }

    /// A call that panicked: whichever it was, others may be made. What it was to settle comes again.
    fn call_ended(&self, hand: &mut Hand, asking: &mut Asking, error: &JoinError) {
        tracing::error!(subscriber_id = self.id(), %error, "a call to the database ended without an answer");
        (hand.claiming, hand.asked, hand.acking) = (0, 0, false);
        asking.at = Some(Instant::now() + POLL);
    }

    /// A claim that could not be extended. In a transaction, the ack tells whether it was lost or is done.
    fn lost(&self, hand: &mut Hand, claim_id: uuid::Uuid, error: &SubscriberError) {
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
