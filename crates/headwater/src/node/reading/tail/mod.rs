//! The tail: follows the log for all subscribers of a node, with one reader.
//!
//! Who has authority: the database. The tail looks at the log after a wake-up: from this process,
//! by NOTIFY, or from a slow, jittered poll that always stands behind them. It keeps what it saw in
//! a ring. Subscribers take from the ring; those that are behind the ring read pages, which they
//! share. A wake-up carries nothing, and losing one costs time, never an event. While nothing
//! happens, and every append is known to cause a wake-up, the poll comes less often, down to every
//! 4 s.
//!
//! With a feed from the WAL, the tail takes events from the feed and does not read the log:
//! everything in the feed is visible to all. Events behind a hole wait in the feed for
//! [`HOLE_GRACE`], since the event that belongs in the hole may come a moment later. Then they go
//! into the ring, together with the hole. A hole needs a proof, but no second read of the rows: see
//! [`hole_proof`](crate::node::reading::hole_proof). The tail asks for the proof, and looks in the log into
//! holes that the proof leaves open, so nothing depends on a complete feed. Whenever the feed may
//! lack events (it begins or ends, drops, or cannot decode), the tail reads the log as without a
//! feed. While the feed streams, other wake-ups are not needed and are ignored; the poll stays.
//!
//! States: disconnected (reads fail and are repeated with growing pauses; the program's log says so
//! once, and the status shows it) and following. While events are missing that may still come, the
//! tail looks again by itself, first at once, then with growing pauses, until their writers have
//! ended.
//!
//! A server that has crashed or was replaced may have lost the end of its log, and hand out its
//! sequences again. So the tail reads everything in one history: a read fails if a server with
//! another history answers it. The tail then forgets everything, and subscribers begin again from
//! their checkpoints in the database. It does the same after rows of the log were repaired: places
//! that were read as missing may have an event now. Writes name the history as well, so correctness
//! does not depend on how soon the tail notices. It asks for the history when somebody doubts it,
//! after failed reads, and every 5 s.
//!
//! `follow.rs` is the loop that reads, `reads.rs` serves subscribers, `records.rs` writes down
//! permanent gaps, and `wake_ups.rs` says what the loop waits for.

mod follow;
mod reads;
mod records;
mod wake_ups;

pub(in crate::node) use self::wake_ups::any;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use headwater_cdc::{Feed, LiveStatus};
use headwater_core::{EventLog, Fault, Gaps, History, ProgressStore, ReadError, RecordedEvent, Writer};
use tokio::sync::{Mutex as AsyncMutex, watch};
use tokio::time::timeout;

use self::reads::Scan;
use crate::node::reading::gap_records::GapRecords;
use crate::node::reading::pages::{PAGE_SIZE, Pages};
use crate::node::reading::poison::Poison;
use crate::node::reading::ring::{Compared, Ring};

/// A read that takes longer has failed. The log itself gives up sooner.
const PATIENCE: Duration = Duration::from_secs(45);
/// A subscriber that is at least this many sequences behind may ask the index by type.
pub(in crate::node) const FAR_BEHIND: u64 = 10_000;

/// Wakes the tail: its value changes when there may be something new.
pub(crate) type WakeUp = watch::Receiver<u64>;

pub(in crate::node) struct Tail {
    log: Arc<dyn EventLog>,
    /// Where permanent gaps are recorded. `None`: this process only reads.
    store: Option<Arc<dyn ProgressStore>>,
    past: Mutex<HistoryReads>,
    /// Long transactions, and the scan for them.
    spans: AsyncMutex<Scan>,
    /// Changes when there is anything new.
    changed: watch::Sender<u64>,
    /// The writers that may still commit missing events, by the last answer.
    writers: Mutex<Vec<Writer>>,
    connected: AtomicBool,
    /// Why the last read failed, if it did.
    failure: Mutex<Option<ReadError>>,
    /// Why the reading has ended for good: the namespace is gone. No read changes that, whether it
    /// fails or succeeds.
    gone: OnceLock<ReadError>,
    /// Whether somebody takes from the ring. Workers that claim events only want to know that there
    /// may be some.
    is_read: AtomicBool,
    /// Changes when everything that was seen before becomes void.
    generation: watch::Sender<u64>,
    /// Whether somebody has met another history.
    doubted: AtomicBool,
    /// The most events of the next look.
    size: AtomicU32,
    nudge: watch::Sender<u64>,
    nudged: AtomicBool,
    poll: Duration,
    live: Option<Arc<Feed>>,
    /// The number of repairs of the log that somebody knows of.
    repairs: AtomicU64,
    /// The number of repairs before which everything read is forgotten.
    forgotten: watch::Sender<u64>,
    /// Where the tail reports the poison that it finds.
    poison: Option<Poison>,
    /// Permanent gaps that are still to be recorded.
    records: GapRecords,
    /// The highest position after which a subscriber has asked for events, in this generation.
    wanted: watch::Sender<u64>,
}

/// Everything that was read in one history. Reads of another history never get in here.
struct HistoryReads {
    /// The history. `None`: it is not known yet, and nothing was read.
    history: Option<History>,
    /// The log in that history.
    log: Arc<dyn EventLog>,
    ring: Option<Ring>,
    /// Pages of the settled part of the log.
    pages: Arc<Pages>,
    /// Pages of the unsettled part behind the ring.
    ahead: Arc<Pages>,
}

impl HistoryReads {
    fn of(history: Option<History>, log: &Arc<dyn EventLog>) -> Self {
        let log = history.map_or_else(|| log.clone(), |history| log.under(history));
        HistoryReads { history, log, ring: None, pages: Arc::default(), ahead: Arc::default() }
    }
}

/// How far a log can be read in strict order, and what stops it there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::node) struct UnbrokenEnd {
    pub(in crate::node) generation: u64,
    /// Nothing at or below this sequence is missing that may still come.
    pub(in crate::node) unbroken_to: u64,
    /// The first run of places behind `unbroken_to` that are missing and may still be filled: its
    /// first and last sequence.
    pub(in crate::node) missing: Option<(u64, u64)>,
}

impl Tail {
    pub(in crate::node) fn new(
        log: Arc<dyn EventLog>,
        store: Arc<dyn ProgressStore>,
        poll: Duration,
        live: Option<Arc<Feed>>,
        poison: Option<Poison>,
    ) -> Self {
        Tail::build(log, Some(store), poll, live, poison)
    }

    /// A tail for a process that only reads: it writes nothing to the database.
    pub(in crate::node) fn reader(log: Arc<dyn EventLog>, poll: Duration) -> Self {
        let tail = Tail::build(log, None, poll, None, None);
        tail.is_read.store(true, Ordering::Release);
        tail
    }

    fn build(
        log: Arc<dyn EventLog>,
        store: Option<Arc<dyn ProgressStore>>,
        poll: Duration,
        live: Option<Arc<Feed>>,
        poison: Option<Poison>,
    ) -> Self {
        Tail {
            past: Mutex::new(HistoryReads::of(None, &log)),
            log,
            store,
            spans: AsyncMutex::default(),
            changed: watch::Sender::new(0),
            writers: Mutex::default(),
            connected: AtomicBool::new(true),
            failure: Mutex::default(),
            gone: OnceLock::new(),
            is_read: AtomicBool::new(false),
            generation: watch::Sender::new(0),
            doubted: AtomicBool::new(false),
            size: AtomicU32::new(PAGE_SIZE),
            nudge: watch::Sender::new(0),
            nudged: AtomicBool::new(false),
            poll,
            live,
            repairs: AtomicU64::new(0),
            forgotten: watch::Sender::new(0),
            poison,
            records: GapRecords::default(),
            wanted: watch::Sender::new(0),
        }
    }

    /// Returns when the tail remembers nothing that it read before this many repairs of the log. A
    /// place that was settled without an event may have one by now.
    pub(in crate::node) async fn forget_before(&self, repairs: u64) {
        let mut forgotten = self.forgotten.subscribe();
        if *forgotten.borrow() >= repairs {
            return;
        }
        self.repairs.fetch_max(repairs, Ordering::AcqRel);
        self.nudge();
        // The sender lives as long as the tail.
        _ = forgotten.wait_for(|forgotten| *forgotten >= repairs).await;
    }

    /// Forgets everything that was seen.
    fn begin_anew(&self, history: Option<History>) {
        *self.past() = HistoryReads::of(history, &self.log);
        self.wanted.send_replace(0);
        if let Some(feed) = &self.live {
            feed.clear();
        }
        self.generation.send_modify(|generation| *generation += 1);
        self.changed.send_modify(|version| *version += 1);
    }

    fn past(&self) -> MutexGuard<'_, HistoryReads> {
        self.past.lock().expect("no holder of this lock panics")
    }

    /// The log in the history that is being read.
    pub(in crate::node) fn log(&self) -> Arc<dyn EventLog> {
        self.past().log.clone()
    }

    /// The history that is being read, and the generation. `None`: the history is not known yet.
    pub(in crate::node) fn reading(&self) -> (Option<History>, u64) {
        let past = self.past();
        (past.history, *self.generation.borrow())
    }

    /// Has the tail ask for the history at once: somebody has met another one.
    pub(in crate::node) fn doubt(&self) {
        self.doubted.store(true, Ordering::Release);
        self.nudge();
    }

    fn tell_of(&self, poison: &[u64]) {
        if let Some(teller) = &self.poison {
            teller.found(poison.iter().copied());
        }
    }

    /// Starts reading the log, for somebody who takes from the ring.
    pub(in crate::node) fn read(&self) {
        if !self.is_read.swap(true, Ordering::AcqRel) {
            self.nudge();
        }
    }

    /// Changes when there is anything new.
    pub(in crate::node) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Whether the last read of the log succeeded.
    pub(in crate::node) fn is_connected(&self) -> bool {
        self.connected.load(Ordering::Acquire)
    }

    /// Why nothing can be read until an operator acts: the namespace is gone, or the role may not
    /// read it. `None`: all is well, or will be.
    pub(in crate::node) fn refusal(&self) -> Option<ReadError> {
        match self.gone.get().or(self.failure().as_ref()) {
            Some(ReadError::NamespaceNotFound(name)) => Some(ReadError::NamespaceNotFound(name.clone())),
            Some(ReadError::NotGranted(reason)) => Some(ReadError::NotGranted(reason.clone())),
            _ => None,
        }
    }

    /// Records why a read of the log failed.
    fn failed(&self, error: ReadError) {
        *self.failure() = Some(error);
        self.tell_of_refusal();
    }

    /// Ends the reading for good: the namespace is gone.
    pub(in crate::node) fn refuse(&self, error: ReadError) {
        // The first reason stays.
        _ = self.gone.set(error);
        self.tell_of_refusal();
    }

    /// If nothing new will come, wakes those who wait for it.
    fn tell_of_refusal(&self) {
        if self.refusal().is_some() {
            self.changed.send_modify(|version| *version += 1);
        }
    }

    fn failure(&self) -> MutexGuard<'_, Option<ReadError>> {
        self.failure.lock().expect("no holder of this lock panics")
    }

    /// How far the log can be read in strict order by a reader that has read it so up to `after`.
    /// `None`: nothing was read yet.
    pub(in crate::node) fn unbroken_end(&self, after: u64) -> Option<UnbrokenEnd> {
        let past = self.past();
        let (generation, ring) = (*self.generation.borrow(), past.ring.as_ref()?);
        let missing = ring.first_hole_after(after);
        let unbroken_to = missing.map_or(ring.seen(), |(first, _)| first - 1);
        Some(UnbrokenEnd { generation, unbroken_to, missing })
    }

    /// The last event at or below a sequence, if it is in memory.
    pub(in crate::node) fn last_event(&self, up_to: u64) -> Option<Arc<RecordedEvent>> {
        self.past().ring.as_ref()?.last_event(up_to).cloned()
    }

    /// The state of the source that brings events from the WAL. `None`: there is no such source.
    pub(in crate::node) fn live(&self) -> Option<LiveStatus> {
        self.live.as_ref().map(|feed| feed.status())
    }

    /// Returns, of the gaps that somebody has passed, those in which something has changed since
    /// the last comparison, and up to where everything was settled then: see [`Ring::resolved`].
    pub(in crate::node) fn resolved(
        &self,
        compared: Option<Compared>,
        open: impl Fn(u64, u64) -> Gaps,
    ) -> Option<(Gaps, Compared)> {
        self.past().ring.as_ref().map(|ring| ring.resolved(compared, open))
    }

    /// Whether there may be something to compare.
    pub(in crate::node) fn may_be_resolved(&self, compared: Option<Compared>) -> bool {
        self.past().ring.as_ref().is_some_and(|ring| compared != Some(ring.compared()))
    }

    /// Up to where everything is settled.
    pub(in crate::node) fn settled(&self) -> u64 {
        self.past().ring.as_ref().map_or(0, Ring::settled)
    }

    /// Whether the last event seen is the log's end, as far as is known.
    pub(in crate::node) fn is_at_end(&self) -> bool {
        self.past().ring.as_ref().is_some_and(Ring::is_at_end)
    }

    /// Whether there are so many holes that nothing behind them is read.
    pub(in crate::node) fn is_full(&self) -> bool {
        self.past().ring.as_ref().is_some_and(Ring::is_full)
    }

    /// The generation: it changes when everything that was seen before becomes void.
    pub(in crate::node) fn generation(&self) -> u64 {
        *self.generation.borrow()
    }

    /// Changes with the generation.
    pub(in crate::node) fn generations(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    /// The highest sequence seen.
    pub(in crate::node) fn seen(&self) -> u64 {
        self.past().ring.as_ref().map_or(0, Ring::seen)
    }

    /// The writers that may still commit missing events.
    pub(in crate::node) fn writers(&self) -> Vec<Writer> {
        self.writers.lock().expect("no holder of this lock panics").clone()
    }

    /// Asks for a look. It counts as a change even if it shows nothing new.
    pub(in crate::node) fn nudge(&self) {
        self.nudged.store(true, Ordering::Release);
        self.nudge.send_modify(|nudges| *nudges += 1);
    }
}

async fn timed<T>(read: impl Future<Output = Result<T, ReadError>>) -> Result<T, ReadError> {
    match timeout(PATIENCE, read).await {
        Ok(result) => result,
        Err(_) => Err(ReadError::Unavailable(Fault {
            message: format!("failed to read: no answer within {PATIENCE:?}"),
            retryable: true,
            source: None,
        })),
    }
}

#[cfg(test)]
mod tests {
    use headwater_memory::MemoryLog;

    use super::*;

    fn unavailable() -> ReadError {
        ReadError::Unavailable(Fault { message: "relation does not exist".into(), retryable: true, source: None })
    }

    #[test]
    fn a_namespace_that_is_gone_is_the_news_whatever_reads_say() {
        let tail = Tail::reader(Arc::new(MemoryLog::new("orders")), Duration::from_secs(1));
        let mut changes = tail.changes();
        tail.failed(unavailable());
        assert!(tail.refusal().is_none() && !changes.has_changed().unwrap());
        tail.refuse(ReadError::NamespaceNotFound("orders".into()));
        assert!(changes.has_changed().unwrap(), "those who wait for events are woken");
        changes.mark_unchanged();
        for failure in [None, Some(unavailable())] {
            assert!(matches!(tail.refusal(), Some(ReadError::NamespaceNotFound(name)) if name == "orders"));
            *tail.failure() = failure;
        }
        tail.failed(unavailable());
        assert!(matches!(tail.refusal(), Some(ReadError::NamespaceNotFound(name)) if name == "orders"));
    }
}
