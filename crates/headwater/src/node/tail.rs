//! The tail: follows the log for all subscribers of a node, with one reader.
//!
//! Who has authority: the database. The tail looks at the log after a wake-up (from this process, by NOTIFY, or by a slow, jittered poll
//! that always stands behind them), and keeps what it saw in a ring. Subscribers take from the ring; those that are behind it read
//! pages, which they share. A wake-up carries nothing, and losing one costs time, never an event.
//!
//! With a feed from the WAL, events are taken from there, and the log is not read: what a feed has can be seen by all. What comes behind a hole waits for
//! [`HOLE_GRACE`], since the hole may just have been overtaken; then it goes into the ring, and the hole with it. Holes need a proof and not the rows again:
//! see [`proof`](super::proof). It is asked for, and what it leaves open is looked into in the log, so that nothing rests on the feed having everything. Whenever
//! something is not in the feed that should be (it begins or ends, drops, or cannot decode), the log is read as without one. While the feed streams, other
//! wake-ups are not needed, and left alone; the poll stays.
//!
//! States: disconnected (reads fail: tried again with growing pauses, said once in the log and in the status) and following. While events are
//! missing that may still come, it looks again by itself, first at once, then with growing pauses, until their writers have ended.
//!
//! A server that has crashed or was replaced may have lost the end of its log, and hand out its sequences again. So all is read in one history, the tail's: a
//! read that a server with another one answers fails. Then everything is forgotten, and subscribers begin anew with their checkpoints as the database
//! has them. So it is when rows of the log were repaired: what was read as missing there is not any more. Who writes names the history as well, so it is
//! no matter how soon the tail notices; it asks when somebody doubts, after failed reads, and every 5 s.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use headwater_cdc::{Feed, LiveStatus, Reach, Rest, Taken};
use headwater_core::{
    EventLog, Fault, Gap, GapState, Gaps, History, LONG_SPAN, LookAhead, MAX_PAGE_SIZE, Part, PassedOver, ReadError,
    Segment, SpanScan, Spans, SubscriberStore, TooManySpans, Writer, jittered,
};
use tokio::sync::{Mutex as AsyncMutex, watch};
use tokio::time::{sleep, timeout, timeout_at};

use super::gap_records::GapRecords;
use super::pages::{PAGE_SIZE, Pages, Source, next_size};
use super::poison::Poison;
use super::proof::{Due, Proof};
use super::ring::{Change, Compared, Ring, sequence, weight};

/// A read that takes longer has failed. The log itself gives up sooner.
const PATIENCE: Duration = Duration::from_secs(45);
/// Between looks at what is missing, doubling from here to the poll's interval.
const FIRST_LOOK_AGAIN: Duration = Duration::from_millis(1);
/// How often to ask whether the history is still the same.
const ASK_HISTORY: Duration = Duration::from_secs(5);
/// Between tries while the database cannot be reached.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// What is missing in the feed may just have been overtaken: so long, what lies behind it stays in the feed.
const HOLE_GRACE: Duration = Duration::from_millis(2);
/// Most time between questions who may still fill a hole.
const LONGEST_DOUBT: Duration = Duration::from_millis(100);

/// Most time between looks into holes while nobody needs more events.
const LONGEST_REST: Duration = Duration::from_millis(100);

/// Most long transactions that are known at once (some 50 MB).
const MAX_SPANS: u32 = 500_000;
/// A subscriber that is so many sequences behind may ask the index by type.
pub(super) const FAR_BEHIND: u64 = 10_000;

/// What wakes the tail: each changes when there may be something new.
pub(crate) type WakeUp = watch::Receiver<u64>;

pub(super) struct Tail {
    log: Arc<dyn EventLog>,
    store: Arc<dyn SubscriberStore>,
    past: Mutex<Past>,
    /// Long transactions, and who looks for them.
    spans: AsyncMutex<Scan>,
    /// Changes with everything new.
    changed: watch::Sender<u64>,
    /// Those who may still commit what is missing, by the last answer.
    writers: Mutex<Vec<Writer>>,
    connected: AtomicBool,
    /// Somebody takes from the ring. Those who claim events only want to know that there may be some.
    is_read: AtomicBool,
    /// Changes when what was seen before counts no more.
    generation: watch::Sender<u64>,
    /// Somebody has met another history.
    doubted: AtomicBool,
    /// Events that the next look takes at most.
    size: AtomicU32,
    nudge: watch::Sender<u64>,
    nudged: AtomicBool,
    poll: Duration,
    live: Option<Arc<Feed>>,
    /// How many repairs of the log somebody knows of, and before how many everything is forgotten.
    repairs: AtomicU64,
    forgotten: watch::Sender<u64>,
    /// Where poison is told that was come upon.
    poison: Option<Poison>,
    /// Permanent gaps that are to be written down.
    records: GapRecords,
    /// The highest position after which a subscriber has asked for events, in this generation.
    wanted: watch::Sender<u64>,
}

/// What was read, in one history. What is read in another never comes to it.
struct Past {
    /// `None`: it is not known yet, and nothing was read.
    history: Option<History>,
    /// The log, in that history.
    log: Arc<dyn EventLog>,
    ring: Option<Ring>,
    /// Settled ones.
    pages: Arc<Pages>,
    /// Those behind the ring that are not settled.
    ahead: Arc<Pages>,
}

/// A scan for long transactions.
#[derive(Default)]
struct Scan {
    /// In which it was made.
    generation: u64,
    known: Arc<Spans>,
    /// As far as it has come.
    under_way: Option<SpanScan>,
}

impl Past {
    fn of(history: Option<History>, log: &Arc<dyn EventLog>) -> Self {
        let log = history.map_or_else(|| log.clone(), |history| log.under(history));
        Past { history, log, ring: None, pages: Arc::default(), ahead: Arc::default() }
    }
}

impl Tail {
    pub(super) fn new(
        log: Arc<dyn EventLog>,
        store: Arc<dyn SubscriberStore>,
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

    /// Returns when nothing is remembered that was read before so many repairs of the log: what was settled without a row may have it by now.
    pub(super) async fn forget_before(&self, repairs: u64) {
        let mut forgotten = self.forgotten.subscribe();
        if *forgotten.borrow() >= repairs {
            return;
        }
        self.repairs.fetch_max(repairs, Ordering::AcqRel);
        self.nudge();
        // It is there as long as the tail.
        _ = forgotten.wait_for(|forgotten| *forgotten >= repairs).await;
    }

    /// Forgets all that was seen.
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

    /// The log, in the history that is read.
    fn log(&self) -> Arc<dyn EventLog> {
        self.past().log.clone()
    }

    /// The history that is read, and the generation; `None`: the first is not known yet.
    pub(super) fn reading(&self) -> (Option<History>, u64) {
        let past = self.past();
        (past.history, *self.generation.borrow())
    }

    /// Has the history asked for at once: somebody has met another.
    pub(super) fn doubt(&self) {
        self.doubted.store(true, Ordering::Release);
        self.nudge();
    }

    fn tell_of(&self, poison: &[u64]) {
        if let Some(teller) = &self.poison {
            teller.found(poison.iter().copied());
        }
    }

    /// Begins to read the log, for somebody who takes from it.
    pub(super) fn read(&self) {
        if !self.is_read.swap(true, Ordering::AcqRel) {
            self.nudge();
        }
    }

    /// Changes with everything new.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Whether the log could be read when it was last tried.
    pub(super) fn is_connected(&self) -> bool {
        self.connected.load(Ordering::Acquire)
    }

    /// What brings events from the WAL.
    pub(super) fn live(&self) -> Option<LiveStatus> {
        self.live.as_ref().map(|feed| feed.status())
    }

    /// Of gaps that somebody has passed, those in which something has changed since they were last compared, and up to where all was settled then: see
    /// [`Ring::resolved`].
    pub(super) fn resolved(
        &self,
        compared: Option<Compared>,
        open: impl Fn(u64, u64) -> Gaps,
    ) -> Option<(Gaps, Compared)> {
        self.past().ring.as_ref().map(|ring| ring.resolved(compared, open))
    }

    /// Whether there may be something to compare.
    pub(super) fn may_be_resolved(&self, compared: Option<Compared>) -> bool {
        self.past().ring.as_ref().is_some_and(|ring| compared != Some(ring.compared()))
    }

    /// Up to where everything is settled.
    pub(super) fn settled(&self) -> u64 {
        self.past().ring.as_ref().map_or(0, Ring::settled)
    }

    /// Whether what is seen is the log's end, as far as is known.
    pub(super) fn is_at_end(&self) -> bool {
        self.past().ring.as_ref().is_some_and(Ring::is_at_end)
    }

    /// Whether there are so many holes that nothing behind them is read.
    pub(super) fn is_full(&self) -> bool {
        self.past().ring.as_ref().is_some_and(Ring::is_full)
    }

    /// Changes when what was seen before counts no more.
    pub(super) fn generation(&self) -> u64 {
        *self.generation.borrow()
    }

    /// Changes with it.
    pub(super) fn generations(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    /// The highest sequence seen.
    pub(super) fn seen(&self) -> u64 {
        self.past().ring.as_ref().map_or(0, Ring::seen)
    }

    /// Those who may still commit what is missing.
    pub(super) fn writers(&self) -> Vec<Writer> {
        self.writers.lock().expect("no holder of this lock panics").clone()
    }

    /// What comes after `after`, at most `limit` events.
    pub(super) async fn segment(&self, after: u64, limit: usize) -> Result<Segment, ReadError> {
        self.wanted.send_if_modified(|wanted| {
            let further = after > *wanted;
            *wanted = after.max(*wanted);
            further
        });
        let (settled, behind, history, log, pages, ahead) = {
            let past = self.past();
            let Some(ring) = past.ring.as_ref() else { return Ok(Segment { after, ..Segment::default() }) };
            if let Some(segment) = ring.segment(after, limit) {
                return Ok(segment);
            }
            let known = past.ahead.version();
            if known != ring.version() {
                past.ahead.give_up(ring.changes_since(known), ring.version());
            }
            let behind = ring.behind(after);
            (ring.settled(), behind, past.history, past.log.clone(), past.pages.clone(), past.ahead.clone())
        };
        if after < settled {
            let (segment, gaps) = timed(pages.segment(&log, after, Source::Settled(settled), limit)).await?;
            self.record(history, &gaps).await;
            return Ok(segment);
        }
        // Behind the ring, and not settled: events that a long transaction holds up, more of them than the ring has room for.
        let (known, source) = behind;
        let (read, poison) = timed(ahead.segment(&log, after, source, limit)).await?;
        self.tell_of(&poison.iter().map(|gap| gap.first).collect::<Vec<_>>());
        let gaps_seen = self.past().ring.as_ref().map_or_else(Vec::new, |ring| ring.gaps_seen(after, read.seen));
        Ok(Segment { events: read.events, seen: read.seen, gaps_seen, ..known })
    }

    /// What a subscriber of some types may pass after `after`, if it is far behind the ring.
    pub(super) async fn pass_types(&self, after: u64, event_types: &[String]) -> Result<Option<PassedOver>, ReadError> {
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

    /// Returns the long transactions that cover `part`. Concurrent callers share one scan. It goes over the log once, in windows, and goes on where it was when a read fails, or
    /// whoever asked has gone.
    pub(super) async fn spans(&self, part: &Part) -> Result<Arc<Spans>, ReadError> {
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
            // All that is visible by now lies below.
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

    /// What has come in these gaps by now, in order, at most `limit` events.
    pub(super) async fn in_gaps(&self, gaps: &Gaps, limit: u32) -> Result<LookAhead, ReadError> {
        let look = timed(self.log().in_gaps(gaps, limit)).await?;
        self.tell_of(&look.poison);
        Ok(look)
    }

    /// Asks for a look, which counts as a change even if it shows nothing new.
    pub(super) fn nudge(&self) {
        self.nudged.store(true, Ordering::Release);
        self.nudge.send_modify(|nudges| *nudges += 1);
    }

    /// Follows the log until it is dropped.
    pub(super) async fn follow(&self, hints: Vec<WakeUp>) {
        let live = self.live.as_ref().map(|feed| feed.changes());
        let mut wake_ups = WakeUps { hints, nudges: self.nudge.subscribe(), live };
        let mut step = Step::Read;
        // When the log was read, or something new taken, for the last time: a feed that brings only what is known already, as one that has a backlog, does not keep
        // the poll from being due.
        let mut fresh = Instant::now();
        let mut poll = jittered(self.poll, 0.2, rand::random());
        let mut hole_until = None;
        let mut proof = Proof::new(self.poll.min(LONGEST_DOUBT));
        let mut generation = self.generation();
        let mut pause = FIRST_PAUSE;
        let mut look_again = FIRST_LOOK_AGAIN;
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
                    // Nobody takes it: whoever begins to read does so from the log.
                    feed.take(u64::MAX, &Gaps::new(), Reach::Holes, self.reading().0);
                }
                self.changed.send_modify(|version| *version += 1);
                continue;
            }
            let checked = self.check_history(&mut asked).await;
            if generation != self.generation() {
                // What was proved is true of what was forgotten.
                (generation, proof) = (self.generation(), Proof::new(self.poll.min(LONGEST_DOUBT)));
            }
            let looked = match (checked, step) {
                (Err(error), _) => Err(error),
                (Ok(()), Step::Read) => self.look().await,
                (Ok(()), Step::Prove) => self.prove(&mut proof).await,
                (Ok(()), Step::Take(reach)) => match self.take_live(reach) {
                    Some(looked) => Ok(looked),
                    None => {
                        // The stream may have begun anew on a server that was restarted or replaced.
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
                    asked = None;
                    step = Step::Read;
                    sleep(jittered(pause, 0.5, rand::random())).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    continue;
                }
            };
            if !self.connected.swap(true, Ordering::AcqRel) {
                tracing::info!(namespace = self.log.namespace(), "reading the log again");
            }
            pause = FIRST_PAUSE;
            if step == Step::Read || looked.news {
                (fresh, poll) = (Instant::now(), jittered(self.poll, 0.2, rand::random()));
            }
            if looked.more && looked.rests {
                // Every subscriber still has much of what was read before it. Holes may change meanwhile.
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
                look_again = if looked.news { FIRST_LOOK_AGAIN } else { (look_again * 2).min(self.poll) };
                let wait = if looked.holes { look_again } else { poll };
                let woken = timeout(wait, wake_ups.any(false)).await;
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

    /// Waits, while the feed streams, for what is to be done next.
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
                Due::Ask | Due::LookInto(_) => return Step::Prove,
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

    /// The first place that is missing, and may still come.
    fn first_hole(&self) -> Option<u64> {
        self.past().ring.as_ref()?.holes().first()
    }

    /// Takes what the feed has; `None`: the log has to be read.
    fn take_live(&self, reach: Reach) -> Option<Looked> {
        let feed = self.live.as_ref()?;
        let mut past = self.past();
        let history = past.history;
        let ring = past.ring.as_mut()?;
        // With too many holes, only what fills them is taken.
        let reach = if ring.is_full() { Reach::Holes } else { reach };
        let Taken { filled, events, rest } = feed.take(ring.seen(), ring.holes(), reach, history)?;
        let (fills, ran) = (!filled.is_empty(), !events.is_empty());
        let hole = rest != Rest::Nothing && reach != Reach::Holes;
        if !fills && !ran {
            return Some(Looked { holes: !ring.holes().is_empty(), hole, ..Looked::default() });
        }
        let seen = events.last().map_or(0, sequence);
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

    /// Does what is due about holes: asks who may still fill them, or looks into those that nobody will.
    async fn prove(&self, proof: &mut Proof) -> Result<Looked, ReadError> {
        let (seen, holes, history, log) = {
            let past = self.past();
            let Some(ring) = past.ring.as_ref() else { return Ok(Looked::default()) };
            (ring.seen(), ring.holes().clone(), past.history, past.log.clone())
        };
        let first = holes.first();
        match (proof.due(first, Instant::now()), first) {
            (Due::Ask, Some(first)) => {
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
            (Due::Nothing | Due::At(_) | Due::Ask, _) => Ok(Looked { holes: first.is_some(), ..Looked::default() }),
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
        // The sender is there as long as this is.
        _ = self.wanted.subscribe().wait_for(is_wanted).await;
    }

    async fn look(&self) -> Result<Looked, ReadError> {
        let size = self.size.load(Ordering::Relaxed);
        let wanted = *self.wanted.borrow();
        let (known, history, log) = {
            let past = self.past();
            let next = |ring: &Ring| {
                // Where nobody needs more events yet, only holes are looked into.
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
        // There were more events when it last looked for some.
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
        self.records.add(history, change.permanent).await;
    }

    /// Records gaps that were proved in a history: see [`GapRecords`]. Poison is recorded already.
    pub(super) async fn record(&self, history: Option<History>, gaps: &[Gap]) {
        // Of each range, one is enough: who tells looks for all that is noted.
        gaps.iter().filter(|gap| gap.state == GapState::Poison).for_each(|gap| self.tell_of(&[gap.first]));
        let permanent = gaps.iter().filter(|gap| gap.state == GapState::Permanent);
        self.records.add(history, permanent.map(|gap| (gap.first, gap.last)).collect()).await;
    }

    /// Writes down permanent gaps until it is dropped.
    pub(super) async fn write_records(&self) {
        self.records.write(&*self.store, self.log.namespace()).await;
    }

    /// Writes down the permanent gaps that are left, when the node ends.
    pub(super) async fn write_last_records(&self) {
        self.records.write_rest(&*self.store, self.log.namespace()).await;
    }
}

/// What the tail does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Read the log.
    Read,
    /// Take from the feed.
    Take(Reach),
    /// Do what is due about holes.
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
    /// Whether the feed had events that follow.
    ran: bool,
    /// Whether the feed has events, but not the next.
    hole: bool,
}

/// What the tail waits for.
struct WakeUps {
    /// From this process and others: that there may be something.
    hints: Vec<WakeUp>,
    nudges: WakeUp,
    live: Option<WakeUp>,
}

#[derive(Debug, PartialEq, Eq)]
enum Woken {
    /// By the feed, which may have all that is new.
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
pub(super) async fn any(wake_ups: &mut [WakeUp]) {
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
