//! The tail: follows the log for all subscribers of a node, with one reader.
//!
//! Who has authority: the database. The tail looks at the log after a wake-up (from this process, by NOTIFY, or by a slow, jittered poll
//! that always stands behind them), and keeps what it saw in a ring. Subscribers take from the ring; those that are behind it read
//! pages, which they share. A wake-up carries nothing, and losing one costs time, never an event.
//!
//! With a feed from the WAL, what follows without a hole is taken from there, and the log is not read: what a feed has can be seen by all, and
//! nothing is missing in such a run. At a hole, and whenever something is not in the feed that should be, the log is read as without one. While the feed streams,
//! other wake-ups are not needed, and left alone; the poll stays.
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

use headwater_cdc::{Feed, LiveStatus, Taken};
use headwater_core::{
    EventLog, Fault, Gap, GapState, Gaps, History, LONG_SPAN, LookAhead, Part, ReadError, Segment, Spans,
    SubscriberStore, Writer, jittered,
};
use tokio::sync::{Mutex as AsyncMutex, watch};
use tokio::time::{sleep, timeout, timeout_at};

use super::pages::{PAGE_SIZE, Pages, next_size};
use super::poison::Poison;
use super::ring::{MAX_HOLES, Ring, weight};

/// A read that takes longer has failed. The log itself gives up sooner.
const PATIENCE: Duration = Duration::from_secs(45);
/// Between looks at what is missing, doubling from here to the poll's interval.
const FIRST_LOOK_AGAIN: Duration = Duration::from_millis(1);
/// How often to ask whether the history is still the same.
const ASK_HISTORY: Duration = Duration::from_secs(5);
/// Between tries while the database cannot be reached.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// What is missing in the feed may just have been overtaken: so long it is waited for before the log is read.
const HOLE_GRACE: Duration = Duration::from_millis(2);

/// Most long transactions that are known at once.
const MAX_SPANS: u32 = 10_000;

/// What wakes the tail: each changes when there may be something new.
pub(crate) type WakeUp = watch::Receiver<u64>;

pub(super) struct Tail {
    log: Arc<dyn EventLog>,
    store: Arc<dyn SubscriberStore>,
    past: Mutex<Past>,
    /// Long transactions, and the generation in which they were looked for.
    spans: AsyncMutex<(u64, Arc<Spans>)>,
    /// Changes with everything new.
    changed: watch::Sender<u64>,
    writers: Mutex<Vec<Writer>>,
    connected: AtomicBool,
    /// Somebody takes from the ring. Those who claim events only want to know that there may be some.
    is_read: AtomicBool,
    /// Changes when events appeared in holes, or holes were closed.
    holes_changed: AtomicU64,
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
}

/// What was read, in one history. What is read in another never comes to it.
struct Past {
    /// `None`: it is not known yet, and nothing was read.
    history: Option<History>,
    /// The log, in that history.
    log: Arc<dyn EventLog>,
    ring: Option<Ring>,
    pages: Arc<Pages>,
}

impl Past {
    fn of(history: Option<History>, log: &Arc<dyn EventLog>) -> Self {
        let log = history.map_or_else(|| log.clone(), |history| log.under(history));
        Past { history, log, ring: None, pages: Arc::default() }
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
            holes_changed: AtomicU64::new(0),
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

    /// Changes when events appeared in holes, or holes were closed.
    pub(super) fn holes_changed(&self) -> u64 {
        self.holes_changed.load(Ordering::Acquire)
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
        let (settled, history, log, pages) = {
            let past = self.past();
            let Some(ring) = past.ring.as_ref() else { return Ok(Segment { after, ..Segment::default() }) };
            match ring.segment(after, limit) {
                Some(segment) => return Ok(segment),
                None => (ring.settled(), past.history, past.log.clone(), past.pages.clone()),
            }
        };
        if after < settled {
            let (segment, gaps) = timed(pages.segment(&log, after, settled, limit)).await?;
            self.record(history, &gaps).await;
            return Ok(segment);
        }
        // Behind the ring, and not settled: events that a long transaction holds up, more of them than the ring has room for.
        let as_of = Some(Instant::now());
        let look = timed(log.look_ahead(after, &Gaps::new(), limit as u32)).await?;
        self.tell_of(&look.poison);
        let events = look.events.into_iter().map(Arc::new).collect();
        let complete = !look.more;
        Ok(Segment { after, events, seen: look.seen, settled: look.settled, as_of, complete, ..Segment::default() })
    }

    /// Which transactions are long, for one of which this waits. Whoever asks while they are looked for gets the same answer.
    pub(super) async fn spans(&self, part: &Part) -> Result<Arc<Spans>, ReadError> {
        let mut known = self.spans.lock().await;
        let generation = self.generation();
        if known.0 == generation && known.1.cover(part) {
            return Ok(known.1.clone());
        }
        let (settled, log) = {
            let past = self.past();
            (past.ring.as_ref().map_or(0, Ring::settled), past.log.clone())
        };
        let (after, begun) = (part.first.saturating_sub(1), Some(Instant::now()));
        let long = log.long_transactions(after, LONG_SPAN, MAX_SPANS).await?;
        let up_to = long.last().filter(|_| long.len() >= MAX_SPANS as usize).map_or(u64::MAX, |(_, first, _)| *first);
        let last = long.into_iter().map(|(transaction, _, last)| (transaction, last)).collect();
        *known = (generation, Arc::new(Spans { after, up_to, settled, begun, last }));
        Ok(known.1.clone())
    }

    /// What became of gaps that were passed.
    pub(super) async fn look_into(&self, gaps: &Gaps) -> Result<LookAhead, ReadError> {
        let look = timed(self.log().look_ahead(self.seen(), gaps, 1)).await?;
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
        // Whether the log is to be read; else what the feed has is enough.
        let mut read = true;
        // When the log was read, or something new taken, for the last time: a feed that brings only what is known already, as one that has a backlog, does not keep
        // the poll from being due.
        let mut fresh = Instant::now();
        let mut hole_until = None;
        let mut pause = FIRST_PAUSE;
        let mut look_again = FIRST_LOOK_AGAIN;
        let mut asked = None;
        loop {
            let repairs = self.repairs.load(Ordering::Acquire);
            if *self.forgotten.borrow() < repairs {
                tracing::info!(namespace = self.log.namespace(), "rows of the log were repaired: reading them again");
                self.begin_anew(self.reading().0);
                read = true;
                self.forgotten.send_replace(repairs);
            }
            if !self.is_read.load(Ordering::Acquire) {
                wake_ups.any(false).await;
                if let Some(feed) = &self.live {
                    // Nobody takes it: whoever begins to read does so from the log.
                    feed.take(u64::MAX, self.reading().0);
                }
                self.changed.send_modify(|version| *version += 1);
                continue;
            }
            let looked = match self.check_history(&mut asked).await {
                Ok(()) if read => self.look().await,
                Ok(()) => match self.take_live() {
                    Some(looked) => Ok(looked),
                    None => {
                        // The stream may have begun anew on a server that was restarted or replaced.
                        asked = None;
                        read = true;
                        continue;
                    }
                },
                Err(error) => Err(error),
            };
            match looked {
                Ok(looked) => {
                    if !self.connected.swap(true, Ordering::AcqRel) {
                        tracing::info!(namespace = self.log.namespace(), "reading the log again");
                    }
                    pause = FIRST_PAUSE;
                    if read || looked.news {
                        fresh = Instant::now();
                    }
                    if looked.news {
                        hole_until = None;
                    }
                    match looked {
                        Looked { more: true, .. } => continue,
                        Looked { hole: true, .. } => {
                            let until = *hole_until.get_or_insert_with(|| tokio::time::Instant::now() + HOLE_GRACE);
                            let streaming = self.live.as_ref().is_some_and(|feed| feed.is_streaming());
                            read = tokio::time::Instant::now() >= until
                                || timeout_at(until, wake_ups.any(streaming)).await != Ok(Woken::Live);
                            continue;
                        }
                        Looked { news: true, .. } => look_again = FIRST_LOOK_AGAIN,
                        _ => look_again = (look_again * 2).min(self.poll),
                    }
                    let wait = if looked.holes { look_again } else { jittered(self.poll, 0.2, rand::random()) };
                    hole_until = None;
                    let streaming = self.live.as_ref().is_some_and(|feed| feed.is_streaming());
                    read = timeout(wait, wake_ups.any(streaming)).await != Ok(Woken::Live)
                        || looked.holes
                        || fresh.elapsed() >= self.poll;
                }
                Err(error) => {
                    if self.connected.swap(false, Ordering::AcqRel) {
                        tracing::warn!(namespace = self.log.namespace(), %error, "failed to read the log, trying again");
                    }
                    asked = None;
                    sleep(jittered(pause, 0.5, rand::random())).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
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

    /// Takes what the feed has; `None`: the log has to be read.
    fn take_live(&self) -> Option<Looked> {
        let feed = self.live.as_ref()?;
        let mut past = self.past();
        let history = past.history;
        let ring = past.ring.as_mut().filter(|ring| ring.holes().is_empty())?;
        let (seen, now) = (ring.seen(), Instant::now());
        match feed.take(seen, history) {
            Taken::Nothing => Some(Looked::default()),
            Taken::Hole => Some(Looked { hole: true, ..Looked::default() }),
            Taken::ReadTheLog => None,
            Taken::Run { events, more } => {
                let seen = seen + events.len() as u64;
                // What else was visible, nobody has looked at.
                let look = LookAhead { events, seen, settled: seen, more: true, ..LookAhead::default() };
                ring.take(look, now, now);
                self.changed.send_modify(|version| *version += 1);
                Some(Looked { news: true, more, ..Looked::default() })
            }
        }
    }

    async fn look(&self) -> Result<Looked, ReadError> {
        let (known, history, log) = {
            let past = self.past();
            let known = past.ring.as_ref().map(|ring| (ring.seen(), ring.holes().clone()));
            (known, past.history, past.log.clone())
        };
        let Some((seen, holes)) = known else {
            let horizon = timed(log.horizon()).await?;
            self.past().ring = Some(Ring::starting_at(horizon.horizon));
            self.changed.send_modify(|version| *version += 1);
            return Ok(Looked { news: true, more: true, ..Looked::default() });
        };
        let size = self.size.load(Ordering::Relaxed);
        // With too many holes, only these are looked into.
        let limit = if holes.ranges().len() < MAX_HOLES { size } else { 0 };
        let begun = Instant::now();
        let mut look = timed(log.look_ahead(seen, &holes, limit)).await?;
        self.tell_of(&look.poison);
        *self.writers.lock().expect("no holder of this lock panics") = std::mem::take(&mut look.writers);
        let bytes = look.events.iter().map(weight).sum();
        self.size.store(next_size(size, look.events.len(), bytes), Ordering::Relaxed);
        let more = look.more;
        let filled = !look.filled.is_empty();
        let (change, holes) = {
            let mut past = self.past();
            let ring = past.ring.get_or_insert_default();
            (ring.take(look, begun, Instant::now()), !ring.holes().is_empty())
        };
        if filled || !change.permanent.is_empty() {
            self.holes_changed.fetch_add(1, Ordering::AcqRel);
        }
        if self.nudged.swap(false, Ordering::AcqRel) || change.news {
            self.changed.send_modify(|version| *version += 1);
        }
        let permanent = change.permanent.into_iter();
        let gaps: Vec<_> = permanent.map(|(first, last)| Gap { first, last, state: GapState::Permanent }).collect();
        self.record(history, &gaps).await;
        Ok(Looked { news: change.news, more, holes, hole: false })
    }

    /// Records gaps that were proved in a history. A failure is no loss: whoever reads there proves them again. Poison is recorded already.
    pub(super) async fn record(&self, history: Option<History>, gaps: &[Gap]) {
        if gaps.is_empty() {
            return;
        }
        // Of each range, one is enough: who tells looks for all that is noted.
        gaps.iter().filter(|gap| gap.state == GapState::Poison).for_each(|gap| self.tell_of(&[gap.first]));
        if let Err(error) = self.store.record_gaps(history, gaps).await {
            tracing::warn!(namespace = self.log.namespace(), %error, "failed to record permanent gaps");
        }
    }
}

#[derive(Default)]
struct Looked {
    news: bool,
    more: bool,
    /// Whether events are missing that may still come.
    holes: bool,
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
