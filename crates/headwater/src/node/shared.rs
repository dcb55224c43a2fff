//! A shared subscriber on a node: claims events, handles several at once, and settles each by itself.
//!
//! Who has authority: the claims in the database, and its clock. A claim is this worker's until it expires; while its events are handled it is
//! extended, each time that half of it has passed. One that was lost all the same (this process hung, or could not reach the database) is
//! another's: its events are dropped here, and what they would have settled is refused there.
//!
//! States: waiting (for new events, for a retry that is due, or for the poll that finds what other workers left), and working. What failing calls do:
//! - a handler that fails: its event is handed back, to be delivered again after a pause, to any worker, or to become a dead letter;
//! - a claim, an ack or an extension that the database did not answer: tried again with growing pauses; what expires meanwhile comes again.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use headwater_core::{Claim, ClaimRequest, Event, HandlerError, RunnerState, SubscriberError, jittered, retry_delay};
use headwater_postgres::PgQueue;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

use super::handler::{Each, Work, guarded};
use super::runner::Control;
use super::status::Status;
use super::subscription::Subscription;
use super::tail::Tail;

/// Between looks for what other workers left, while nothing else happens.
const POLL: Duration = Duration::from_secs(1);
/// Between tries while the database cannot be reached.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

pub(super) struct Shared {
    pub(super) subscription: Arc<Subscription>,
    pub(super) queue: PgQueue,
    pub(super) tail: Arc<Tail>,
    pub(super) worker: String,
    pub(super) control: watch::Receiver<Control>,
    pub(super) status: Arc<Status>,
}

/// What the worker has claimed.
#[derive(Default)]
struct Hand {
    claims: HashMap<Uuid, Open>,
    waiting: VecDeque<Job>,
    running: JoinSet<Settled>,
    /// Claims that are done, and not acked yet.
    acks: Vec<Uuid>,
    /// When an event that was handed back here is due again.
    retries: Vec<Instant>,
}

struct Open {
    /// Events that are not settled.
    left: usize,
    /// Of those that are: whether one was handled. Else the claim ended with the last that was handed back.
    handled: bool,
    extend_at: Instant,
    tasks: Vec<AbortHandle>,
}

struct Job {
    claim_id: Uuid,
    redelivery_count: u32,
    event: Arc<Event>,
}

struct Settled {
    job: Job,
    outcome: Result<(), HandlerError>,
}

impl Shared {
    pub(super) async fn run(self) {
        let mut hand = Hand::default();
        let mut control = self.control.clone();
        let mut changes = self.tail.changes();
        let mut pause = FIRST_PAUSE;
        // When to ask for events again; `None`: as soon as there is room.
        let mut ask_at: Option<Instant> = None;
        self.status.set(RunnerState::Live, None);
        loop {
            let stopping = control.borrow_and_update().stopping;
            self.start_waiting(&mut hand);
            if stopping && hand.is_empty() {
                self.ack_all(&mut hand).await;
                return;
            }
            let due = ask_at.is_none_or(|at| at <= Instant::now());
            if !stopping && due && self.has_room(&hand) {
                changes.borrow_and_update();
                hand.retries.retain(|at| *at > Instant::now());
                match self.claim(&mut hand).await {
                    Ok(claimed) => {
                        pause = FIRST_PAUSE;
                        self.status.set(RunnerState::Live, None);
                        ask_at = (claimed == 0).then(|| Instant::now() + jittered(POLL, 0.2, rand::random()));
                    }
                    Err(error) => {
                        tracing::warn!(subscriber_id = self.id(), %error, "failed to claim events, trying again");
                        self.status.set(RunnerState::Disconnected, Some(error.to_string()));
                        ask_at = Some(Instant::now() + jittered(pause, 0.5, rand::random()));
                        pause = (pause * 2).min(LONGEST_PAUSE);
                    }
                }
                continue;
            }
            if !hand.acks.is_empty() && !self.has_room(&hand) || hand.is_empty() {
                self.ack_all(&mut hand).await;
            }
            let idle = !stopping && self.has_room(&hand);
            let ask = ask_at.filter(|_| idle).into_iter().chain(hand.retries.iter().copied().filter(|_| idle)).min();
            let extend = hand.claims.values().map(|claim| claim.extend_at).min();
            let alarm = [ask, extend].into_iter().flatten().min();
            tokio::select! {
                Some(settled) = hand.running.join_next() => self.settle(&mut hand, settled).await,
                _ = changes.changed(), if idle => ask_at = None,
                _ = control.changed() => {}
                () = until(alarm) => {
                    let now = Instant::now();
                    if hand.retries.iter().any(|at| *at <= now) {
                        ask_at = None;
                    }
                    self.extend(&mut hand, now).await;
                }
            }
        }
    }

    fn id(&self) -> &str {
        &self.subscription.subscriber_id
    }

    fn capacity(&self) -> usize {
        self.subscription.config.concurrency as usize + self.subscription.claims.prefetch as usize
    }

    /// Half of what it may hold, so that it does not claim events one by one as others are done.
    fn has_room(&self, hand: &Hand) -> bool {
        (hand.running.len() + hand.waiting.len()) * 2 <= self.capacity() && hand.running.len() < self.capacity()
    }

    /// Claims as much as there is room for, and acks what is done. Returns how many events it got.
    async fn claim(&self, hand: &mut Hand) -> Result<usize, SubscriberError> {
        let room = self.capacity() - hand.running.len() - hand.waiting.len();
        let begun = Instant::now();
        let mut request = ClaimRequest {
            max_events: room as u32,
            visibility: self.subscription.claims.visibility,
            event_types: self.subscription.filter.event_types.clone(),
            max_attempts: self.subscription.config.max_retries + 1,
            acks: hand.acks.clone(),
            ..ClaimRequest::new(&self.worker)
        };
        let claims = match self.queue.claim(&request).await {
            Err(SubscriberError::ClaimLost(_)) => {
                // One of those that are done is another's by now: each alone, then.
                self.ack_all(hand).await;
                request.acks.clear();
                self.queue.claim(&request).await?
            }
            claims => claims?,
        };
        hand.acks.retain(|claim| !request.acks.contains(claim));
        let mut claimed = 0;
        for Claim { claim_id, redelivery_count, events } in claims {
            claimed += events.len();
            let extend_at = begun + self.subscription.claims.visibility / 2;
            hand.claims.insert(claim_id, Open { left: events.len(), handled: false, extend_at, tasks: Vec::new() });
            let job = |event| Job { claim_id, redelivery_count, event: Arc::new(event) };
            hand.waiting.extend(events.into_iter().map(job));
        }
        Ok(claimed)
    }

    /// Starts as many as may run at once.
    fn start_waiting(&self, hand: &mut Hand) {
        let Work::Each(handler) = &self.subscription.work else { return };
        while hand.running.len() < self.subscription.config.concurrency as usize {
            let Some(job) = hand.waiting.pop_front() else { return };
            let (handler, limit): (Arc<dyn Each>, _) = (handler.clone(), self.subscription.config.handler_timeout);
            let wanted = self.subscription.filter.wants(&job.event);
            let claim_id = job.claim_id;
            let task = hand.running.spawn(async move {
                let outcome = if wanted { guarded(handler.handle(&job.event), limit).await } else { Ok(()) };
                Settled { job, outcome }
            });
            if let Some(claim) = hand.claims.get_mut(&claim_id) {
                claim.tasks.push(task);
            }
        }
    }

    async fn settle(&self, hand: &mut Hand, settled: Result<Settled, JoinError>) {
        // Of a claim that was lost: aborted.
        let Ok(Settled { job, outcome }) = settled else { return };
        if !hand.claims.contains_key(&job.claim_id) {
            return;
        }
        let handled = outcome.is_ok();
        if let Err(error) = outcome
            && !self.hand_back(hand, &job, &error).await
        {
            return;
        }
        self.status.count(u64::from(handled));
        let Some(claim) = hand.claims.get_mut(&job.claim_id) else { return };
        claim.left -= 1;
        claim.handled |= handled;
        if claim.left == 0 {
            let ended_by_ack = claim.handled;
            hand.claims.remove(&job.claim_id);
            hand.acks.extend(ended_by_ack.then_some(job.claim_id));
        }
    }

    /// Returns whether it was: else the claim is lost, or expires.
    async fn hand_back(&self, hand: &mut Hand, job: &Job, error: &HandlerError) -> bool {
        let config = &self.subscription.config;
        let sequence = job.event.global_sequence.unwrap_or_default();
        let (subscriber_id, attempt) = (self.id(), job.redelivery_count + 1);
        if !error.is_not_handled() {
            tracing::warn!(subscriber_id, sequence, %error, attempt, "failed to handle an event");
        }
        let delay = jittered(retry_delay(config, job.redelivery_count), config.retry_jitter, rand::random());
        let text = error.chain().join(": ");
        let mut pause = FIRST_PAUSE;
        loop {
            let (claim_id, event) = (job.claim_id, Some(&[sequence][..]));
            let settled = match error {
                error if error.is_not_handled() => self.queue.release(claim_id, event).await,
                error if error.is_permanent() => self.queue.reject(claim_id, event, &text).await,
                _ => self.queue.nack(claim_id, event, delay, &text).await,
            };
            match settled {
                Ok(()) => {
                    hand.retries.push(Instant::now() + delay);
                    return true;
                }
                Err(error) if error.is_retryable() && !self.control.borrow().stopping => {
                    tracing::warn!(subscriber_id, %error, "failed to hand an event back, trying again");
                    tokio::time::sleep(jittered(pause, 0.5, rand::random())).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                Err(error) => {
                    tracing::warn!(subscriber_id, %error, "failed to hand an event back: it comes again when its claim expires");
                    self.drop_claim(hand, job.claim_id);
                    return false;
                }
            }
        }
    }

    /// Acks what is done, each by itself.
    async fn ack_all(&self, hand: &mut Hand) {
        for claim_id in std::mem::take(&mut hand.acks) {
            match self.queue.ack(claim_id, None).await {
                Ok(()) => {}
                Err(error) if error.is_retryable() && !self.control.borrow().stopping => hand.acks.push(claim_id),
                Err(error) => {
                    tracing::warn!(subscriber_id = self.id(), %error, "failed to ack: the events of a claim come again");
                }
            }
        }
    }

    /// Keeps the claims whose time has come.
    async fn extend(&self, hand: &mut Hand, now: Instant) {
        let visibility = self.subscription.claims.visibility;
        let due: Vec<Uuid> =
            hand.claims.iter().filter(|(_, claim)| claim.extend_at <= now).map(|(claim_id, _)| *claim_id).collect();
        for claim_id in due {
            let begun = Instant::now();
            match self.queue.extend(claim_id, visibility).await {
                Ok(_) => {
                    if let Some(claim) = hand.claims.get_mut(&claim_id) {
                        claim.extend_at = begun + visibility / 2;
                    }
                }
                Err(error) if error.is_retryable() => {
                    tracing::warn!(subscriber_id = self.id(), %error, "failed to extend a claim, trying again");
                    if let Some(claim) = hand.claims.get_mut(&claim_id) {
                        claim.extend_at = begun + (visibility / 8).max(FIRST_PAUSE);
                    }
                }
                Err(error) => {
                    tracing::warn!(subscriber_id = self.id(), %error, "lost a claim: its events come again");
                    self.drop_claim(hand, claim_id);
                }
            }
        }
    }

    /// Forgets a claim that is another's, or will be.
    fn drop_claim(&self, hand: &mut Hand, claim_id: Uuid) {
        hand.waiting.retain(|job| job.claim_id != claim_id);
        if let Some(claim) = hand.claims.remove(&claim_id) {
            claim.tasks.iter().for_each(AbortHandle::abort);
        }
    }
}

impl Hand {
    fn is_empty(&self) -> bool {
        self.running.is_empty() && self.waiting.is_empty()
    }
}

async fn until(alarm: Option<Instant>) {
    match alarm {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
