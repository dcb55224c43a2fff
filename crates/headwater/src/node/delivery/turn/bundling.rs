//! A transaction per bundle: the events of a batch that belong together, each bundle with its
//! effects and its progress in one transaction.
//!
//! Bundles commit one after the other, in the order of their first events. So the checkpoint moves
//! past events of bundles that have not committed. Those events are in the ledger meanwhile: the
//! next owner finds them there and delivers them late, also in bundles. Events that wait for their
//! bundle are only in memory; they are ahead of the checkpoint, or in the ledger. The ledger is
//! rewritten with each bundle. Where it would be long, a bundle is noted in a row of its own
//! instead, and the checkpoint moves in order: the next owner skips the bundles that were noted.
//!
//! All events that one transaction appended for a key are handled at once, however many they are
//! and however far apart, up to a bound of memory. A transaction that does not fit as a whole is
//! read several times, for some keys each time. An owner at the end of the log sees there where
//! transactions end. An owner that is behind asks which of the transactions before the end are
//! long.
//!
//! A bundle that fails is tried again with growing pauses, and the bundles behind it wait. Then it
//! is given up as a whole, or event by event.

use std::sync::Arc;
use std::time::{Duration, Instant};

use headwater_core::{
    Admitted, Backoff, Bundle, BundleBatch, Bundles, Checkpoint, OnBundleFailure, RecordedEvent, Segment,
    SubscriberError, order_key,
};

use super::Turn;
use super::care::Begun;
use super::settle::TransactionTries;
use crate::node::delivery::executor::split::{Together, Tried, together_or_alone};
use crate::node::delivery::handler::Work;
use crate::node::delivery::owner::{FailedTry, died};
use crate::node::delivery::runner::Stop;
use crate::node::reading::ring::weight;

/// The most bytes of waiting events. Each event counts with its payload and 512 bytes more. The
/// events that one transaction appended for one key have to fit.
const ROOM: usize = 64 * 1024 * 1024;
/// The most waiting events for which a ledger is cheap enough to be rewritten with each bundle.
const LEDGER_ROOM: usize = 250;
/// The time between checkpoints while bundles are settled ahead of them.
const WRITE_EVERY: Duration = Duration::from_secs(1);
/// Pauses between requested looks at the log, while they show nothing.
const LOOKS: Backoff = Backoff::new(Duration::from_millis(5), Duration::from_secs(1));

/// Events that wait for the rest of their bundles.
pub(super) struct Bundling {
    /// The property that keeps the events of a bundle together. `None`: events are not bundled.
    pub(super) by: Option<Bundle>,
    pub(super) waiting: Bundles,
    /// Whether bundles are settled ahead of the checkpoint at present.
    pub(super) ahead: bool,
    /// Whether no bundle can go before more events come.
    pub(super) starved: bool,
    /// Whether the last look at the log is older than bundles that wait.
    pub(super) stale: bool,
    /// When to ask for another look at the log.
    pub(super) look_at: Option<tokio::time::Instant>,
    /// Pauses between requested looks.
    pub(super) looks: Backoff,
    /// Bundles up to this sequence may have been settled ahead before the turn began.
    noted_to: Option<u64>,
}

impl Bundling {
    pub(super) fn new(work: &Work, loaded: &Checkpoint) -> Self {
        let by = match work {
            Work::Transaction { per, .. } => per.bundle(),
            Work::Each(_) | Work::Batch(_) => None,
        };
        Bundling {
            by,
            waiting: Bundles::default(),
            ahead: false,
            starved: true,
            stale: false,
            look_at: None,
            looks: LOOKS,
            noted_to: loaded.buried.iter().map(|(sequence, _)| *sequence).max(),
        }
    }

    pub(super) fn has_room(&self) -> bool {
        self.waiting.bytes() < ROOM
    }

    /// Whether the ledger would hold more than it should after these bundles: earlier events that
    /// still wait.
    fn leaves_many(&self, bundles: &[Vec<Arc<RecordedEvent>>]) -> bool {
        last_of(bundles).is_some_and(|last| self.waiting.before(last) > LEDGER_ROOM)
    }
}

impl Turn {
    /// Whether bundles are to be handled before more events are taken.
    pub(super) fn has_bundles(&self) -> bool {
        !self.bundling.starved && self.bundling.waiting.len() >= 2 * self.segment_size()
    }

    /// Before a wait: asks for a look at the log, if a look would show where the transactions of a
    /// batch end.
    pub(super) fn ask_for_look(&mut self) {
        let goes_past_barrier = self.goes_past_barrier();
        let bundling = &mut self.bundling;
        if !(bundling.waiting.needs_look() || bundling.stale && goes_past_barrier) {
            bundling.look_at = None;
            bundling.looks.reset();
            return;
        }
        let now = tokio::time::Instant::now();
        if bundling.look_at.is_none_or(|at| at <= now) {
            self.owner.runner.tail.nudge();
            bundling.look_at = Some(now + bundling.looks.pause());
        }
    }

    /// Adds admitted events to those that wait for the rest of their bundles.
    pub(super) fn gather(&mut self, admitted: Vec<Admitted>, segment: &Segment) {
        let now = Instant::now();
        let visible_by = segment.visible_by.unwrap_or(now);
        for Admitted { event, .. } in admitted {
            if !self.wants(&event) {
                self.checkpoints.skip(&event);
            } else if self.settled_before.has(&event) {
                self.checkpoints.done(&event);
            } else {
                self.bundling.waiting.add(&event, order_key(&event), weight(&event), visible_by, now);
            }
        }
    }

    /// Adds an event of a passed gap to those that wait for the rest of their bundles.
    pub(super) fn gather_late(&mut self, event: &Arc<RecordedEvent>) {
        if self.wants(event) && !self.settled_before.has(event) {
            let now = Instant::now();
            self.bundling.waiting.add(event, order_key(event), weight(event), now, now);
            self.look_past_barrier_again();
        } else {
            self.checkpoints.done(event);
        }
    }

    /// Handles the next batch of bundles, if its end is known. Returns whether it did.
    pub(super) async fn handle_bundles(&mut self) -> Result<bool, Stop> {
        let Some(by) = self.bundling.by else { return Ok(false) };
        let batch = self.next_bundles(by).await?;
        self.bundling.starved = batch.is_none();
        let Some(BundleBatch { bundles }) = batch else { return Ok(false) };
        let long = bundles.len() > 1 && bundles.iter().map(Vec::len).sum::<usize>() > LEDGER_ROOM;
        if long
            || self.cursor.narrow.is_some()
            || self.ends_past_barrier(&bundles)
            || self.bundling.leaves_many(&bundles)
        {
            self.bundling.ahead = true;
            let handled = self.handle_ahead(bundles).await;
            self.bundling.ahead = false;
            return handled.map(|()| true);
        }
        for bundle in bundles {
            self.handle_bundle(bundle).await?;
            self.checkpoints.write_if_due().await?;
            self.owner.may_go_on()?;
        }
        Ok(true)
    }

    /// Returns the next batch. If it depends on which transactions are long, looks for them.
    async fn next_bundles(&mut self, by: Bundle) -> Result<Option<BundleBatch>, Stop> {
        let limit = self.owner.plan().config.catch_up_batch_size as usize;
        let full = !self.bundling.has_room();
        let waiting = &mut self.bundling.waiting;
        loop {
            if let Some(batch) = waiting.next_batch(by, limit, self.cursor.bound()) {
                return Ok(Some(batch));
            }
            let Some(part) = waiting.needs_spans(if full { 0 } else { limit }) else { break };
            let spans = self.owner.unless_stopped(self.owner.runner.tail.spans(&part)).await?;
            waiting.note_spans(spans.map_err(|error| Stop::from(SubscriberError::Read(error)))?);
        }
        if full {
            self.make_room().await?;
        }
        Ok(None)
    }

    /// Handles a transaction that has more events than there is room for. Only the events of some
    /// keys are read to the transaction's end, handled, and noted as settled ahead. Then the turn
    /// begins again, and the next keys follow. So memory is bounded, and no bundle is split. The
    /// events that one transaction appended for one key have to fit: if they do not, the subscriber
    /// is paused, with the reason.
    async fn make_room(&mut self) -> Result<(), Stop> {
        let position = self.cursor.reached().min(self.cursor.bound().unwrap_or(u64::MAX));
        let waiting = &mut self.bundling.waiting;
        if waiting.narrow(ROOM / 2) {
            self.cursor.narrow.get_or_insert(position);
            return Ok(());
        }
        let key = waiting.keys().into_iter().next().unwrap_or_default();
        let reason = format!(
            "what one transaction appended of key {key:?} is more than {} MiB, the most that is handled at once: it begins at global_sequence {}",
            ROOM / 1024 / 1024,
            waiting.first().unwrap_or_default()
        );
        tracing::error!(subscriber_id = self.owner.id(), reason, "paused");
        self.owner.pause(&reason).await
    }

    /// Deletes notes of bundles that were settled ahead before the turn began, once the checkpoint
    /// has passed them.
    pub(super) async fn forget_settled_ahead(&mut self) {
        let passed = self.bundling.noted_to.is_some_and(|to| self.checkpoints.progress.last_written().0 >= to);
        if passed {
            self.bundling.noted_to = None;
            if self.bundling.by.is_some() {
                self.forget_ahead().await;
            }
        }
    }

    /// Deletes notes of bundles that the checkpoint has passed. Notes that are left do no harm.
    async fn forget_ahead(&self) {
        let Some(postgres) = &self.owner.runner.postgres else { return };
        if let Err(error) = postgres.forget_ahead(&self.owner.fence).await {
            tracing::warn!(subscriber_id = self.owner.id(), %error, "failed to delete notes of bundles: the next batch does");
        }
    }

    /// Handles bundles whose events would fill the ledger: each bundle is noted by itself, and the
    /// checkpoint moves now and then.
    async fn handle_ahead(&mut self, bundles: Vec<Vec<Arc<RecordedEvent>>>) -> Result<(), Stop> {
        let mut written = Instant::now();
        for bundle in bundles {
            self.handle_bundle(bundle).await?;
            if written.elapsed() >= WRITE_EVERY {
                self.checkpoints.write().await?;
                written = Instant::now();
            }
            self.owner.may_go_on()?;
        }
        self.checkpoints.write().await?;
        self.forget_ahead().await;
        Ok(())
    }

    /// Handles a bundle until all of its events are settled.
    async fn handle_bundle(&mut self, bundle: Vec<Arc<RecordedEvent>>) -> Result<(), Stop> {
        if self.is_parked(&bundle[0]) {
            self.owner.park(&bundle).await?;
            bundle.iter().for_each(|event| self.checkpoints.done(event));
            return Ok(());
        }
        match (self.begin(&bundle[0]).await?, &bundle[..]) {
            (Begun::Tried(failed), [event]) => self.handle_in_its_transaction(event, failed).await,
            (Begun::DiedTooOften(failed), [_]) => self.give_up(&bundle, &died(), &failed).await,
            (begun, _) => together_or_alone(&mut WholeBundle { turn: self, begun, failed: Vec::new() }, bundle).await,
        }
    }
}

/// Tries several events that one transaction holds, together.
struct WholeBundle<'a> {
    turn: &'a mut Turn,
    begun: Begun,
    /// The tries of all of them together.
    failed: Vec<FailedTry>,
}

impl Together for WholeBundle<'_> {
    type Event = Arc<RecordedEvent>;
    type Stop = Stop;

    fn subscriber_id(&self) -> &str {
        self.turn.owner.id()
    }

    async fn together(&mut self, bundle: Vec<Arc<RecordedEvent>>) -> Result<Tried<Arc<RecordedEvent>>, Stop> {
        let owner = self.turn.owner.clone();
        let mut tries = TransactionTries { turn: self.turn, events: &bundle };
        let given_up = match std::mem::replace(&mut self.begun, Begun::Tried(Vec::new())) {
            Begun::DiedTooOften(failed) => Some((died(), failed)),
            Begun::Tried(failed) => owner.until_settled(&bundle, &mut tries, failed).await?,
        };
        let Some((last, failed)) = given_up else { return Ok(Tried::Settled) };
        if owner.plan().config.on_bundle_failure == OnBundleFailure::EventByEvent {
            self.failed = failed;
            return Ok(Tried::OneByOne(bundle, Some(last)));
        }
        self.turn.give_up(&bundle, &last, &failed).await?;
        Ok(Tried::Settled)
    }

    /// The tries of the bundle count for the events that failed in them.
    async fn alone(&mut self, event: Arc<RecordedEvent>) -> Result<(), Stop> {
        let own = self.failed.iter().filter(|failed| failed.at == Some(event.sequence().get())).cloned().collect();
        if !self.turn.park_behind(&event).await? {
            self.turn.handle_in_its_transaction(&event, own).await?;
        }
        self.turn.checkpoints.write_if_due().await?;
        self.turn.owner.may_go_on()
    }
}

/// The last event of these bundles.
pub(super) fn last_of(bundles: &[Vec<Arc<RecordedEvent>>]) -> Option<u64> {
    bundles.iter().filter_map(|bundle| bundle.last()).map(|event| event.sequence().get()).max()
}
