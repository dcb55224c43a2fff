//! The tail: follows the log for all subscribers of a node, with one reader.
//!
//! Who has authority: the database. The tail looks at the log after a wake-up (from this process, by NOTIFY, or by a slow, jittered poll
//! that always stands behind them), and keeps what it saw in a ring. Subscribers take from the ring; those that are behind it read
//! pages, which they share. A wake-up carries nothing, and losing one costs time, never an event.
//!
//! States: disconnected (reads fail: tried again with growing pauses, said once in the log and in the status) and following. While events are
//! missing that may still come, it looks again by itself, first at once, then with growing pauses, until their writers have ended.
//!
//! A server that was restarted or replaced may have lost the end of its log. Then everything is forgotten, and subscribers begin anew with
//! their checkpoints as the database has them.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use headwater_core::{
    EventLog, Fault, Gap, GapState, Gaps, LookAhead, ReadError, Segment, SubscriberStore, Writer, jittered,
};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::pages::{PAGE_SIZE, Pages, next_size};
use super::ring::{MAX_HOLES, Ring, weight};

/// A read that takes longer has failed. The log itself gives up sooner.
const PATIENCE: Duration = Duration::from_secs(45);
/// Between looks at what is missing, doubling from here to the poll's interval.
const FIRST_LOOK_AGAIN: Duration = Duration::from_millis(1);
/// How often to ask whether the server is still the same.
const ASK_EPOCH: Duration = Duration::from_secs(5);
/// Between tries while the database cannot be reached.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// What wakes the tail: each changes when there may be something new.
pub(crate) type WakeUp = watch::Receiver<u64>;

pub(super) struct Tail {
    log: Arc<dyn EventLog>,
    store: Arc<dyn SubscriberStore>,
    ring: Mutex<Option<Ring>>,
    pages: Pages,
    /// Changes with everything new.
    changed: watch::Sender<u64>,
    writers: Mutex<Vec<Writer>>,
    connected: AtomicBool,
    /// Somebody takes from the ring. Those who claim events only want to know that there may be some.
    is_read: AtomicBool,
    /// Changes when events appeared in holes, or holes were closed.
    holes_changed: AtomicU64,
    /// Changes when what was seen before counts no more.
    generation: AtomicU64,
    /// Events that the next look takes at most.
    size: AtomicU32,
    nudge: watch::Sender<u64>,
    nudged: AtomicBool,
    poll: Duration,
}

impl Tail {
    pub(super) fn new(log: Arc<dyn EventLog>, store: Arc<dyn SubscriberStore>, poll: Duration) -> Self {
        Tail {
            log,
            store,
            ring: Mutex::default(),
            pages: Pages::default(),
            changed: watch::Sender::new(0),
            writers: Mutex::default(),
            connected: AtomicBool::new(true),
            is_read: AtomicBool::new(false),
            holes_changed: AtomicU64::new(0),
            generation: AtomicU64::new(0),
            size: AtomicU32::new(PAGE_SIZE),
            nudge: watch::Sender::new(0),
            nudged: AtomicBool::new(false),
            poll,
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

    /// Changes when events appeared in holes, or holes were closed.
    pub(super) fn holes_changed(&self) -> u64 {
        self.holes_changed.load(Ordering::Acquire)
    }

    /// Changes when what was seen before counts no more.
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The highest sequence seen.
    pub(super) fn seen(&self) -> u64 {
        self.ring.lock().expect("no holder of this lock panics").as_ref().map_or(0, Ring::seen)
    }

    /// Those who may still commit what is missing.
    pub(super) fn writers(&self) -> Vec<Writer> {
        self.writers.lock().expect("no holder of this lock panics").clone()
    }

    /// What comes after `after`, at most `limit` events.
    pub(super) async fn segment(&self, after: u64, limit: usize) -> Result<Segment, ReadError> {
        let settled = {
            let ring = self.ring.lock().expect("no holder of this lock panics");
            let Some(ring) = ring.as_ref() else { return Ok(Segment { after, ..Segment::default() }) };
            match ring.segment(after, limit) {
                Some(segment) => return Ok(segment),
                None => ring.settled(),
            }
        };
        if after < settled {
            let (segment, gaps) = timed(self.pages.segment(&*self.log, after, settled, limit)).await?;
            self.record(&gaps).await;
            return Ok(segment);
        }
        // Behind the ring, and not settled: events that a long transaction holds up, more of them than the ring has room for.
        let as_of = Some(Instant::now());
        let look = timed(self.log.look_ahead(after, &Gaps::new(), limit as u32)).await?;
        let events = look.events.into_iter().map(Arc::new).collect();
        Ok(Segment { after, events, seen: look.seen, settled: look.settled, as_of, ..Segment::default() })
    }

    /// What became of gaps that were passed.
    pub(super) async fn look_into(&self, gaps: &Gaps) -> Result<LookAhead, ReadError> {
        timed(self.log.look_ahead(self.seen(), gaps, 1)).await
    }

    /// Asks for a look, which counts as a change even if it shows nothing new.
    pub(super) fn nudge(&self) {
        self.nudged.store(true, Ordering::Release);
        self.nudge.send_modify(|nudges| *nudges += 1);
    }

    /// Follows the log until it is dropped.
    pub(super) async fn follow(&self, mut wake_ups: Vec<WakeUp>) {
        wake_ups.push(self.nudge.subscribe());
        let mut pause = FIRST_PAUSE;
        let mut look_again = FIRST_LOOK_AGAIN;
        let mut epoch = Epoch::default();
        loop {
            if !self.is_read.load(Ordering::Acquire) {
                any(&mut wake_ups).await;
                self.changed.send_modify(|version| *version += 1);
                continue;
            }
            let looked = match self.check_epoch(&mut epoch).await {
                Ok(()) => self.look().await,
                Err(error) => Err(error),
            };
            match looked {
                Ok(looked) => {
                    if !self.connected.swap(true, Ordering::AcqRel) {
                        tracing::info!(namespace = self.log.namespace(), "reading the log again");
                    }
                    pause = FIRST_PAUSE;
                    match looked {
                        Looked { more: true, .. } => continue,
                        Looked { news: true, .. } => look_again = FIRST_LOOK_AGAIN,
                        _ => look_again = (look_again * 2).min(self.poll),
                    }
                    let wait = if looked.holes { look_again } else { jittered(self.poll, 0.2, rand::random()) };
                    _ = timeout(wait, any(&mut wake_ups)).await;
                }
                Err(error) => {
                    if self.connected.swap(false, Ordering::AcqRel) {
                        tracing::warn!(namespace = self.log.namespace(), %error, "failed to read the log, trying again");
                    }
                    epoch.asked = None;
                    sleep(jittered(pause, 0.5, rand::random())).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    async fn check_epoch(&self, epoch: &mut Epoch) -> Result<(), ReadError> {
        if epoch.asked.is_some_and(|asked| asked.elapsed() < ASK_EPOCH) {
            return Ok(());
        }
        let now = timed(self.log.epoch()).await?;
        epoch.asked = Some(Instant::now());
        if epoch.known.as_ref().is_some_and(|known| *known != now) {
            tracing::info!(namespace = self.log.namespace(), "the server was restarted or replaced: beginning anew");
            *self.ring.lock().expect("no holder of this lock panics") = None;
            self.pages.clear();
            self.generation.fetch_add(1, Ordering::AcqRel);
            self.changed.send_modify(|version| *version += 1);
        }
        epoch.known = Some(now);
        Ok(())
    }

    async fn look(&self) -> Result<Looked, ReadError> {
        let known = {
            let ring = self.ring.lock().expect("no holder of this lock panics");
            ring.as_ref().map(|ring| (ring.seen(), ring.holes().clone()))
        };
        let Some((seen, holes)) = known else {
            let horizon = timed(self.log.horizon()).await?;
            *self.ring.lock().expect("no holder of this lock panics") = Some(Ring::starting_at(horizon.horizon));
            self.changed.send_modify(|version| *version += 1);
            return Ok(Looked { news: true, more: true, holes: false });
        };
        let size = self.size.load(Ordering::Relaxed);
        // With too many holes, only these are looked into.
        let limit = if holes.ranges().len() < MAX_HOLES { size } else { 0 };
        let begun = Instant::now();
        let mut look = timed(self.log.look_ahead(seen, &holes, limit)).await?;
        *self.writers.lock().expect("no holder of this lock panics") = std::mem::take(&mut look.writers);
        let bytes = look.events.iter().map(weight).sum();
        self.size.store(next_size(size, look.events.len(), bytes), Ordering::Relaxed);
        let more = look.more;
        let filled = !look.filled.is_empty();
        let (change, holes) = {
            let mut ring = self.ring.lock().expect("no holder of this lock panics");
            let ring = ring.get_or_insert_default();
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
        self.record(&gaps).await;
        Ok(Looked { news: change.news, more, holes })
    }

    /// Records proved gaps. A failure is no loss: whoever reads there proves them again.
    pub(super) async fn record(&self, gaps: &[Gap]) {
        if gaps.is_empty() {
            return;
        }
        if let Err(error) = self.store.record_gaps(gaps).await {
            tracing::warn!(namespace = self.log.namespace(), %error, "failed to record permanent gaps");
        }
    }
}

/// What is known of the server.
#[derive(Default)]
struct Epoch {
    known: Option<String>,
    asked: Option<Instant>,
}

struct Looked {
    news: bool,
    more: bool,
    holes: bool,
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
