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
//! [`proof`](crate::node::reading::proof). The tail asks for the proof, and looks in the log into
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
//! This file is long: one loop reads, and all functions here change or show the one state that it
//! keeps behind a lock.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use headwater_cdc::{Feed, LiveStatus, Reach, Rest, Taken};
use headwater_core::{
    Backoff, EventLog, Fault, Gap, GapState, Gaps, History, LONG_SPAN, LookAhead, MAX_PAGE_SIZE, PassedOver,
    ProgressStore, ReadError, RecordedEvent, Segment, SpanScan, Spans, TooManySpans, WaitingTransaction, Writer,
    jittered,
};
use tokio::sync::{Mutex as AsyncMutex, watch};
use tokio::time::{sleep, timeout, timeout_at};

use crate::node::reading::gap_records::GapRecords;
use crate::node::reading::pages::{PAGE_SIZE, PageSlice, Pages, Source, next_size};
use crate::node::reading::poison::Poison;
use crate::node::reading::proof::{Due, Proof};
use crate::node::reading::ring::{Change, Compared, Ring, weight};

/// A read that takes longer has failed. The log itself gives up sooner.
const PATIENCE: Duration = Duration::from_secs(45);
/// The first pause between looks for missing events. Each doubles the one before, up to the poll's
/// interval.
const FIRST_LOOK_AGAIN: Duration = Duration::from_millis(1);
/// How often to ask whether the history is still the same.
const ASK_HISTORY: Duration = Duration::from_secs(5);
/// The longest time between looks while nothing happens and wake-ups come, unless the poll's
/// interval is longer.
const LONGEST_IDLE: Duration = Duration::from_secs(4);
/// Pauses between tries while the database cannot be reached.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(2));

/// How long events behind a missing one stay in the feed: the missing event may come a moment
/// later.
const HOLE_GRACE: Duration = Duration::from_millis(2);
/// The longest time between questions who may still fill a hole.
const LONGEST_DOUBT: Duration = Duration::from_millis(100);

/// The longest time between looks into holes while nobody needs more events.
const LONGEST_REST: Duration = Duration::from_millis(100);

/// The most long transactions that are known at once (about 50 MB).
const MAX_SPANS: u32 = 500_000;
/// A subscriber that is at least this many sequences behind may ask the index by type.
pub(in crate::node) const FAR_BEHIND: u64 = 10_000;

/// Wakes the tail: its value changes when there may be something new.
pub(crate) type WakeUp = watch::Receiver<u64>;

pub(in crate::node) struct Tail {
    log: Arc<dyn EventLog>,
    /// Where permanent gaps are recorded. `None`: this process only reads.
    store: Option<Arc<dyn ProgressStore>>,
    past: Mutex<Past>,
    /// Long transactions, and the scan for them.
    spans: AsyncMutex<Scan>,
    /// Changes when there is anything new.
    changed: watch::Sender<u64>,
    /// The writers that may still commit missing events, by the last answer.
    writers: Mutex<Vec<Writer>>,
    connected: AtomicBool,
    /// Why the last read failed, if it did.
    failure: Mutex<Option<ReadError>>,
    /// Whether the namespace is gone. A read that succeeds then proves nothing.
    gone: AtomicBool,
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
struct Past {
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

/// A scan for long transactions.
#[derive(Default)]
struct Scan {
    /// The generation in which the known transactions were found.
    generation: u64,
    known: Arc<Spans>,
    /// The progress of a scan that is not finished.
    under_way: Option<SpanScan>,
}

impl Past {
    fn of(history: Option<History>, log: &Arc<dyn EventLog>) -> Self {
        let log = history.map_or_else(|| log.clone(), |history| log.under(history));
        Past { history, log, ring: None, pages: Arc::default(), ahead: Arc::default() }
    }
}

/// How far a log can be read in strict order, and what stops it there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::node) struct Frontier {
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
            past: Mutex::new(Past::of(None, &log)),
            log,
            store,
            spans: AsyncMutex::default(),
            changed: watch::Sender::new(0),
            writers: Mutex::default(),
            connected: AtomicBool::new(true),
            failure: Mutex::default(),
            gone: AtomicBool::new(false),
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
        *self.past() = Past::of(history, &self.log);
        self.wanted.send_replace(0);
        if let Some(feed) = &self.live {
            feed.clear();
        }
        self.generation.send_modify(|generation| *generation += 1);
        self.changed.send_modify(|version| *version += 1);
    }

    fn past(&self) -> MutexGuard<'_, Past> {
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
        match &*self.failure() {
            Some(ReadError::NamespaceNotFound(name)) => Some(ReadError::NamespaceNotFound(name.clone())),
            Some(ReadError::NotGranted(reason)) => Some(ReadError::NotGranted(reason.clone())),
            _ => None,
        }
    }

    /// Records why the log cannot be read. If nothing new will come because of that, wakes those
    /// who wait for it.
    fn failed(&self, error: ReadError) {
        if !self.gone.load(Ordering::Acquire) || self.failure().is_none() {
            *self.failure() = Some(error);
        }
        if self.refusal().is_some() {
            self.changed.send_modify(|version| *version += 1);
        }
    }

    /// Ends the reading for good: the namespace is gone.
    pub(in crate::node) fn refuse(&self, error: ReadError) {
        self.gone.store(true, Ordering::Release);
        self.failed(error);
    }

    fn failure(&self) -> MutexGuard<'_, Option<ReadError>> {
        self.failure.lock().expect("no holder of this lock panics")
    }

    /// How far the log can be read in strict order by a reader that has read it so up to `after`.
    /// `None`: nothing was read yet.
    pub(in crate::node) fn frontier(&self, after: u64) -> Option<Frontier> {
        let past = self.past();
        let (generation, ring) = (*self.generation.borrow(), past.ring.as_ref()?);
        let missing = ring.first_hole_after(after);
        let unbroken_to = missing.map_or(ring.seen(), |(first, _)| first - 1);
        Some(Frontier { generation, unbroken_to, missing })
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

    /// Returns what comes after `after`, at most `limit` events.
    pub(in crate::node) async fn segment(&self, after: u64, limit: usize) -> Result<Segment, ReadError> {
        self.read_on(after, limit).await.map(|(segment, _)| segment)
    }

    /// Returns what comes after `after`, at most `limit` events. Also returns up to where retention
    /// has dropped events, if that is behind `after`.
    pub(in crate::node) async fn read_on(&self, after: u64, limit: usize) -> Result<(Segment, Option<u64>), ReadError> {
        self.want(after);
        let (settled, behind, history, log, pages, ahead) = {
            let past = self.past();
            let Some(ring) = past.ring.as_ref() else { return Ok((Segment { after, ..Segment::default() }, None)) };
            if let Some(segment) = ring.segment(after, limit) {
                return Ok((segment, None));
            }
            let known = past.ahead.version();
            if known != ring.version() {
                past.ahead.give_up(ring.changes_since(known), ring.version());
            }
            let behind = ring.behind(after);
            (ring.settled(), behind, past.history, past.log.clone(), past.pages.clone(), past.ahead.clone())
        };
        if after < settled {
            let slice = timed(pages.slice(&log, after, Source::Settled(settled), limit)).await?;
            self.record(history, &slice.gaps).await;
            return Ok((slice.segment, Some(slice.trimmed_to).filter(|trimmed_to| *trimmed_to > after)));
        }
        // The place is behind the ring and not settled: a long transaction holds up more events
        // than the ring has room for.
        let (known, source) = behind;
        let PageSlice { segment: read, gaps: poison, .. } = timed(ahead.slice(&log, after, source, limit)).await?;
        self.tell_of(&poison.iter().map(|gap| gap.first).collect::<Vec<_>>());
        let gaps_seen = self.past().ring.as_ref().map_or_else(Vec::new, |ring| ring.gaps_seen(after, read.seen));
        Ok((Segment { events: read.events, seen: read.seen, gaps_seen, ..known }, None))
    }

    /// Notes that somebody needs what comes after `after`.
    pub(in crate::node) fn want(&self, after: u64) {
        self.wanted.send_if_modified(|wanted| {
            let further = after > *wanted;
            *wanted = after.max(*wanted);
            further
        });
    }

    /// Returns what a subscriber of some types may pass after `after`, if it is far behind the
    /// ring.
    pub(in crate::node) async fn pass_types(
        &self,
        after: u64,
        event_types: &[String],
    ) -> Result<Option<PassedOver>, ReadError> {
        let (settled, log) = {
            let past = self.past();
            let Some(ring) = past.ring.as_ref() else { return Ok(None) };
            if ring.settled().saturating_sub(after) < FAR_BEHIND || ring.segment(after, 1).is_some() {
                return Ok(None);
            }
            (ring.settled(), past.log.clone())
        };
        timed(log.pass_types(after, settled, event_types)).await
    }

    /// Returns the long transactions that cover `part`. Concurrent callers share one scan. The scan
    /// goes over the log once, in windows. If a read fails or its caller has gone, the next caller
    /// continues it.
    pub(in crate::node) async fn spans(&self, part: &WaitingTransaction) -> Result<Arc<Spans>, ReadError> {
        let mut scan = self.spans.lock().await;
        let generation = self.generation();
        if scan.generation == generation && scan.known.cover(part) {
            return Ok(scan.known.clone());
        }
        let (settled, log) = {
            let past = self.past();
            (past.ring.as_ref().map_or(0, Ring::settled), past.log.clone())
        };
        if scan.generation != generation || scan.under_way.as_ref().is_some_and(|scan| !scan.would_cover(part)) {
            scan.under_way = None;
        }
        scan.generation = generation;
        if scan.under_way.is_none() {
            let begun = Instant::now();
            // Everything that is visible by now lies below.
            let end = timed(log.horizon()).await?.head;
            scan.under_way = Some(SpanScan::begin(part.first.saturating_sub(1), end, settled, begun));
        }
        while let Some(window) = scan.under_way.as_ref().and_then(SpanScan::window) {
            let newest = scan.under_way.as_ref().map_or(0, SpanScan::newest);
            let found = timed(log.long_transactions(window, newest, LONG_SPAN, MAX_SPANS)).await?;
            let added = scan.under_way.as_mut().map(|under_way| under_way.add(window, found, MAX_SPANS as usize));
            if let Some(Err(error)) = added {
                scan.under_way = None;
                return Err(too_many(error));
            }
        }
        if let Some(done) = scan.under_way.take() {
            scan.known = Arc::new(done.into_spans());
        }
        Ok(scan.known.clone())
    }

    /// Returns the events that have come in these gaps by now, in order, at most `limit`.
    pub(in crate::node) async fn in_gaps(&self, gaps: &Gaps, limit: u32) -> Result<LookAhead, ReadError> {
        let look = timed(self.log().in_gaps(gaps, limit)).await?;
        self.tell_of(&look.poison);
        Ok(look)
    }

    /// Asks for a look. It counts as a change even if it shows nothing new.
    pub(in crate::node) fn nudge(&self) {
        self.nudged.store(true, Ordering::Release);
        self.nudge.send_modify(|nudges| *nudges += 1);
    }

    /// Follows the log until this future is dropped. `complete` tells whether every append causes a
    /// hint at present.
    pub(in crate::node) async fn follow(&self, hints: Vec<WakeUp>, complete: Option<watch::Receiver<bool>>) {
        let live = self.live.as_ref().map(|feed| feed.changes());
        let mut wake_ups = WakeUps { hints, nudges: self.nudge.subscribe(), live };
        let mut idle = Idle::new(self.poll);
        let mut step = Step::Read;
        // When the log was last read, or something new was taken. A feed that brings only known
        // events, such as one with a backlog, does not delay the poll.
        let mut fresh = Instant::now();
        let mut poll = jittered(self.poll, 0.2, rand::random());
        let mut hole_until = None;
        let mut proof = Proof::new(self.poll.min(LONGEST_DOUBT));
        let mut generation = self.generation();
        let mut pauses = PAUSES;
        let mut look_again = Backoff::new(FIRST_LOOK_AGAIN, self.poll);
        let mut asked = None;
        loop {
            let repairs = self.repairs.load(Ordering::Acquire);
            if *self.forgotten.borrow() < repairs {
                tracing::info!(namespace = self.log.namespace(), "rows of the log were repaired: reading them again");
                self.begin_anew(self.reading().0);
                step = Step::Read;
                self.forgotten.send_replace(repairs);
            }
            if !self.is_read.load(Ordering::Acquire) {
                wake_ups.any(false).await;
                if let Some(feed) = &self.live {
                    // Nobody takes these events: a reader that begins reads them from the log.
                    feed.take(u64::MAX, &Gaps::new(), Reach::Holes, self.reading().0);
                }
                self.changed.send_modify(|version| *version += 1);
                continue;
            }
            let checked = self.check_history(&mut asked).await;
            if generation != self.generation() {
                // The proofs belong to what was forgotten.
                (generation, proof) = (self.generation(), Proof::new(self.poll.min(LONGEST_DOUBT)));
            }
            let looked = match (checked, step) {
                (Err(error), _) => Err(error),
                (Ok(()), Step::Read) => self.look().await,
                (Ok(()), Step::Prove) => self.prove(&mut proof).await,
                (Ok(()), Step::Take(reach)) => match self.take_live(reach) {
                    Some(looked) => Ok(looked),
                    None => {
                        // The stream may have begun again on a server that was restarted or
                        // replaced.
                        asked = None;
                        step = Step::Read;
                        continue;
                    }
                },
            };
            let looked = match looked {
                Ok(looked) => looked,
                Err(error) => {
                    if self.connected.swap(false, Ordering::AcqRel) {
                        tracing::warn!(namespace = self.log.namespace(), %error, "failed to read the log, trying again");
                    }
                    self.failed(error);
                    asked = None;
                    step = Step::Read;
                    sleep(pauses.jittered(rand::random())).await;
                    continue;
                }
            };
            if !self.connected.swap(true, Ordering::AcqRel) {
                tracing::info!(namespace = self.log.namespace(), "reading the log again");
                if !self.gone.load(Ordering::Acquire) {
                    *self.failure() = None;
                }
            }
            pauses.reset();
            if step == Step::Read || looked.news {
                (fresh, poll) = (Instant::now(), jittered(self.poll, 0.2, rand::random()));
            }
            if looked.more && looked.rests {
                // Every subscriber still has many events from earlier reads to take. Holes may
                // change meanwhile.
                let pause = if looked.holes { self.poll.min(LONGEST_REST) } else { poll };
                tokio::select! {
                    () = self.until_wanted() => {}
                    () = any(std::slice::from_mut(&mut wake_ups.nudges)) => {}
                    () = sleep(pause) => {}
                }
                continue;
            }
            if looked.more {
                continue;
            }
            if let Step::Take(_) = step {
                hole_until = hole_until.filter(|_| looked.hole && !looked.ran);
            }
            if !self.live.as_ref().is_some_and(|feed| feed.is_streaming()) {
                match looked.news {
                    true => look_again.reset(),
                    false => _ = look_again.pause(),
                }
                let hints_suffice = complete.as_ref().is_some_and(|complete| *complete.borrow());
                let wait = match looked.holes {
                    true => look_again.next_pause(),
                    false if hints_suffice && !looked.news => idle.pause(asked),
                    false => poll,
                };
                let woken = timeout(wait, wake_ups.any(false)).await;
                if looked.news || looked.holes || woken.is_ok() {
                    idle = Idle::new(self.poll);
                }
                let read = woken != Ok(Woken::Live) || looked.holes || fresh.elapsed() >= self.poll;
                step = if read { Step::Read } else { Step::Take(Reach::Run) };
                continue;
            }
            if looked.hole {
                hole_until.get_or_insert_with(|| Instant::now() + HOLE_GRACE);
            }
            step = self.next_step(&mut wake_ups, &mut proof, hole_until, fresh + poll).await;
        }
    }

    /// Waits, while the feed streams, for the next step.
    async fn next_step(
        &self,
        wake_ups: &mut WakeUps,
        proof: &mut Proof,
        hole_until: Option<Instant>,
        poll_at: Instant,
    ) -> Step {
        loop {
            let now = Instant::now();
            let due = proof.due(self.first_hole(), now);
            let until = match due {
                _ if hole_until.is_some_and(|until| until <= now) => return Step::Take(Reach::All),
                Due::AskWriters | Due::LookInto(_) => return Step::Prove,
                Due::Nothing | Due::At(_) if poll_at <= now => return Step::Read,
                Due::Nothing => poll_at,
                Due::At(at) => poll_at.min(at),
            };
            let until = hole_until.map_or(until, |hole_until| hole_until.min(until));
            match timeout_at(until.into(), wake_ups.any(true)).await {
                Ok(Woken::Live) => return Step::Take(Reach::Run),
                Ok(Woken::Other) => return Step::Read,
                Err(_) => {}
            }
        }
    }

    async fn check_history(&self, asked: &mut Option<Instant>) -> Result<(), ReadError> {
        let doubted = self.doubted.swap(false, Ordering::AcqRel);
        if !doubted && asked.is_some_and(|asked| asked.elapsed() < ASK_HISTORY) {
            return Ok(());
        }
        *asked = None;
        let (known, now) = (self.reading().0, timed(self.log.history()).await?);
        *asked = Some(Instant::now());
        if known != Some(now) {
            if known.is_some() {
                tracing::info!(namespace = self.log.namespace(), "the server has another history: beginning anew");
            }
            self.begin_anew(Some(now));
        }
        Ok(())
    }

    /// The first place that is missing and may still be filled.
    fn first_hole(&self) -> Option<u64> {
        self.past().ring.as_ref()?.holes().first()
    }

    /// Takes what the feed has. `None`: the log has to be read.
    fn take_live(&self, reach: Reach) -> Option<Looked> {
        let feed = self.live.as_ref()?;
        let mut past = self.past();
        let history = past.history;
        let ring = past.ring.as_mut()?;
        // With too many holes, only the events that fill them are taken.
        let reach = if ring.is_full() { Reach::Holes } else { reach };
        let Taken { filled, events, rest } = feed.take(ring.seen(), ring.holes(), reach, history)?;
        let (fills, ran) = (!filled.is_empty(), !events.is_empty());
        let hole = rest != Rest::Nothing && reach != Reach::Holes;
        if !fills && !ran {
            return Some(Looked { holes: !ring.holes().is_empty(), hole, ..Looked::default() });
        }
        let seen = events.last().map_or(0, |event| event.sequence().get());
        let change = ring.take_partly(LookAhead { filled, events, seen, ..LookAhead::default() }, Instant::now());
        let holes = !ring.holes().is_empty();
        let more = ran && (rest == Rest::More || reach == Reach::All && rest != Rest::Nothing);
        ring.has_more(rest != Rest::Nothing);
        drop(past);
        self.note_change(&change);
        if !holes {
            self.writers.lock().expect("no holder of this lock panics").clear();
        }
        Some(Looked { news: change.news, more, holes, ran, hole, rests: false })
    }

    /// Does what is due for the holes: asks who may still fill them, or looks into those that no
    /// writer can fill any longer.
    async fn prove(&self, proof: &mut Proof) -> Result<Looked, ReadError> {
        let (seen, holes, history, log) = {
            let past = self.past();
            let Some(ring) = past.ring.as_ref() else { return Ok(Looked::default()) };
            (ring.seen(), ring.holes().clone(), past.history, past.log.clone())
        };
        let first = holes.first();
        match (proof.due(first, Instant::now()), first) {
            (Due::AskWriters, Some(first)) => {
                let mut settled = timed(log.settled_up_to(seen)).await?;
                *self.writers.lock().expect("no holder of this lock panics") = std::mem::take(&mut settled.writers);
                proof.answered(settled.horizon, first, Instant::now());
                Ok(Looked { holes: true, ..Looked::default() })
            }
            (Due::LookInto(up_to), _) => {
                let look = timed(log.in_gaps(&holes.below(up_to.saturating_add(1)), MAX_PAGE_SIZE)).await?;
                self.tell_of(&look.poison);
                proof.looked(look.filled.len());
                let settled = look.seen.min(up_to);
                let (change, holes) = {
                    let mut past = self.past();
                    let ring = past.ring.get_or_insert_default();
                    (ring.take_partly(LookAhead { settled, seen, ..look }, Instant::now()), !ring.holes().is_empty())
                };
                self.note_change(&change);
                let news = change.news;
                self.record_permanent(history, change).await;
                Ok(Looked { news, holes, ..Looked::default() })
            }
            (Due::Nothing | Due::At(_) | Due::AskWriters, _) => {
                Ok(Looked { holes: first.is_some(), ..Looked::default() })
            }
        }
    }

    /// Tells subscribers that something has changed.
    fn note_change(&self, change: &Change) {
        if change.news {
            self.changed.send_modify(|version| *version += 1);
        }
    }

    /// Returns when somebody needs what comes after the end of the ring, or soon will.
    async fn until_wanted(&self) {
        let is_wanted = |after: &u64| self.past().ring.as_ref().is_none_or(|ring| ring.is_wanted(*after));
        // The sender lives as long as the tail.
        _ = self.wanted.subscribe().wait_for(is_wanted).await;
    }

    async fn look(&self) -> Result<Looked, ReadError> {
        let size = self.size.load(Ordering::Relaxed);
        let wanted = *self.wanted.borrow();
        let (known, history, log) = {
            let past = self.past();
            let next = |ring: &Ring| {
                // While nobody needs more events, the look covers only holes.
                let rests = !ring.is_wanted(wanted) && !ring.holes().is_empty();
                (ring.next_look(if rests { 0 } else { size }), rests)
            };
            (past.ring.as_ref().map(next), past.history, past.log.clone())
        };
        let Some((next, rests)) = known else {
            let horizon = timed(log.horizon()).await?;
            self.past().ring = Some(Ring::starting_at(horizon.horizon));
            self.changed.send_modify(|version| *version += 1);
            return Ok(Looked { news: true, more: true, ..Looked::default() });
        };
        let begun = Instant::now();
        let mut look = timed(log.look_again(next.look())).await?;
        drop(next);
        // The last look for events left more of them.
        look.more |= rests;
        self.tell_of(&look.poison);
        *self.writers.lock().expect("no holder of this lock panics") = look.writers.clone();
        if !rests {
            let bytes = look.events.iter().map(weight).sum();
            self.size.store(next_size(size, look.events.len(), bytes), Ordering::Relaxed);
        }
        let (more, filled) = (look.more, !look.filled.is_empty());
        let wanted = *self.wanted.borrow();
        let (change, holes, rests) = {
            let mut past = self.past();
            let ring = past.ring.get_or_insert_default();
            let change = ring.take(look, begun, Instant::now());
            (change, !ring.holes().is_empty(), !filled && !ring.is_wanted(wanted))
        };
        let news = change.news;
        let change = Change { news: self.nudged.swap(false, Ordering::AcqRel) | change.news, ..change };
        self.note_change(&change);
        self.record_permanent(history, change).await;
        Ok(Looked { news, more, holes, rests, ..Looked::default() })
    }

    async fn record_permanent(&self, history: Option<History>, change: Change) {
        if self.store.is_some() {
            self.records.add(history, change.permanent).await;
        }
    }

    /// Records gaps that were proved in a history: see [`GapRecords`]. Poison is recorded already.
    pub(in crate::node) async fn record(&self, history: Option<History>, gaps: &[Gap]) {
        // One sequence of each range is enough: the notifier's task looks up all recorded poison.
        gaps.iter().filter(|gap| gap.state == GapState::Poison).for_each(|gap| self.tell_of(&[gap.first]));
        if self.store.is_none() {
            return;
        }
        let permanent = gaps.iter().filter(|gap| gap.state == GapState::Permanent);
        self.records.add(history, permanent.map(|gap| (gap.first, gap.last)).collect()).await;
    }

    /// Records permanent gaps until this future is dropped.
    pub(in crate::node) async fn write_records(&self) {
        if let Some(store) = &self.store {
            self.records.write(&**store, self.log.namespace()).await;
        }
    }

    /// Records the remaining permanent gaps when the node ends.
    pub(in crate::node) async fn write_last_records(&self) {
        if let Some(store) = &self.store {
            self.records.write_rest(&**store, self.log.namespace()).await;
        }
    }
}

/// The tail's next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Read the log.
    Read,
    /// Take from the feed.
    Take(Reach),
    /// Do what is due for the holes.
    Prove,
}

#[derive(Default)]
struct Looked {
    news: bool,
    more: bool,
    /// Whether events are missing that may still come.
    holes: bool,
    /// Whether nobody needs more events yet.
    rests: bool,
    /// Whether the feed had events that follow what was seen.
    ran: bool,
    /// Whether the feed has events, but not the next one.
    hole: bool,
}

/// How long the tail waits while nothing happens and wake-ups report every change: longer with each
/// look that finds nothing.
#[derive(Debug)]
struct Idle {
    poll: Duration,
    pauses: Backoff,
}

impl Idle {
    fn new(poll: Duration) -> Self {
        Idle { poll, pauses: Backoff::new(poll, LONGEST_IDLE.max(poll)) }
    }

    /// The next pause. It ends when it is time to ask for the history again; `asked` is when that
    /// was last asked for.
    fn pause(&mut self, asked: Option<Instant>) -> Duration {
        let pause = jittered(self.pauses.pause(), 0.2, rand::random());
        let ask_history = asked.map_or(Duration::ZERO, |asked| ASK_HISTORY.saturating_sub(asked.elapsed()));
        pause.min(ask_history.max(self.poll))
    }
}

/// The wake-ups that the tail waits for.
struct WakeUps {
    /// Hints from this process and others that there may be something new.
    hints: Vec<WakeUp>,
    nudges: WakeUp,
    live: Option<WakeUp>,
}

#[derive(Debug, PartialEq, Eq)]
enum Woken {
    /// Woken by the feed, which may have everything new.
    Live,
    Other,
}

impl WakeUps {
    async fn any(&mut self, streaming: bool) -> Woken {
        let hints = async {
            match streaming {
                true => std::future::pending().await,
                false => any(&mut self.hints).await,
            }
        };
        tokio::select! {
            biased;
            () = any(std::slice::from_mut(&mut self.nudges)) => Woken::Other,
            () = any(self.live.as_mut_slice()) => Woken::Live,
            () = hints => Woken::Other,
        }
    }
}

/// Waits until one of the wake-ups changes. One whose sender is gone stays silent.
pub(in crate::node) async fn any(wake_ups: &mut [WakeUp]) {
    let changes = wake_ups.iter_mut().map(|wake_up| {
        Box::pin(async {
            if wake_up.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    });
    if changes.len() == 0 {
        return std::future::pending().await;
    }
    futures::future::select_all(changes).await;
}

fn too_many(TooManySpans(most): TooManySpans) -> ReadError {
    let message = format!(
        "more than {most} transactions are spread over the log: handle its events in another scope than a transaction per key"
    );
    ReadError::Unavailable(Fault { message, retryable: true, source: None })
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
    use super::*;

    #[test]
    fn an_idle_tail_looks_less_and_less_often_and_asks_for_the_history_in_time() {
        let mut idle = Idle::new(Duration::from_secs(1));
        let pauses = [(); 4].map(|()| idle.pause(Some(Instant::now())).as_secs_f64());
        for (pause, about) in pauses.into_iter().zip([1.0, 2.0, 4.0, 4.0]) {
            assert!((about * 0.79..=about * 1.21).contains(&pause), "{pauses:?}");
        }
        let asked = Instant::now() - Duration::from_secs(3);
        assert!(idle.pause(Some(asked)) <= Duration::from_secs(2));
        let mut patient = Idle::new(Duration::from_secs(60));
        assert!(
            [(); 3].into_iter().all(|()| patient.pause(Some(asked)) >= Duration::from_secs(48)),
            "as it was told to"
        );
    }
}
