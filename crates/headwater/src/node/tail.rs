//! The tail: follows the log for all subscribers of a node, with one reader.
//!
//! Who has authority: the database. The tail looks at the log after a wake-up (from this process, by NOTIFY, or by a slow, jittered poll
//! that always stands behind them), and keeps what it saw in a ring. Subscribers take from the ring; those that are behind it read
//! pages, which they share. A wake-up carries nothing, and losing one costs time, never an event.
//!
//! States: disconnected (reads fail: tried again with growing pauses, said once in the log and in the status) and following. While events are
//! missing that may still come, it looks again by itself, first at once, then with growing pauses, until their writers have ended.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use headwater_core::{
    EventLog, Fault, Gap, GapState, Gaps, LookAhead, ReadError, Segment, SubscriberStore, Writer, jittered,
};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::pages::Pages;
use super::ring::Ring;

/// Events that one look takes at most.
const LOOK: u32 = 1_000;
/// A read that takes longer has failed: its connection may be half open.
const PATIENCE: Duration = Duration::from_secs(15);
/// Between looks at what is missing, doubling from the one to the other.
const FIRST_LOOK_AGAIN: Duration = Duration::from_millis(1);
const LAST_LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Between tries while the database cannot be reached.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// What wakes the tail: each changes when there may be something new.
pub(super) type WakeUp = watch::Receiver<u64>;

pub(super) struct Tail {
    log: Arc<dyn EventLog>,
    store: Arc<dyn SubscriberStore>,
    ring: Mutex<Option<Ring>>,
    pages: Pages,
    /// Changes with everything new.
    changed: watch::Sender<u64>,
    writers: Mutex<Vec<Writer>>,
    connected: AtomicBool,
    looks: AtomicU64,
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
            looks: AtomicU64::new(0),
            poll,
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
        let look = timed(self.log.look_ahead(after, &Gaps::new(), limit as u32)).await?;
        let events = look.events.into_iter().map(Arc::new).collect();
        Ok(Segment { after, events, seen: look.seen, settled: look.settled, ..Segment::default() })
    }

    /// What became of gaps that were passed.
    pub(super) async fn look_into(&self, gaps: &Gaps) -> Result<LookAhead, ReadError> {
        timed(self.log.look_ahead(self.seen(), gaps, 1)).await
    }

    /// Follows the log until it is dropped.
    pub(super) async fn follow(&self, mut wake_ups: Vec<WakeUp>) {
        let mut pause = FIRST_PAUSE;
        let mut look_again = FIRST_LOOK_AGAIN;
        loop {
            match self.look().await {
                Ok(looked) => {
                    if !self.connected.swap(true, Ordering::AcqRel) {
                        tracing::info!(namespace = self.log.namespace(), "reading the log again");
                    }
                    pause = FIRST_PAUSE;
                    match looked {
                        Looked { more: true, .. } => continue,
                        Looked { news: true, .. } => look_again = FIRST_LOOK_AGAIN,
                        _ => look_again = (look_again * 2).min(LAST_LOOK_AGAIN),
                    }
                    let wait = if looked.holes { look_again } else { jittered(self.poll, 0.2, rand::random()) };
                    _ = timeout(wait, any(&mut wake_ups)).await;
                }
                Err(error) => {
                    if self.connected.swap(false, Ordering::AcqRel) {
                        tracing::warn!(namespace = self.log.namespace(), %error, "failed to read the log, trying again");
                    }
                    sleep(jittered(pause, 0.5, rand::random())).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    async fn look(&self) -> Result<Looked, ReadError> {
        let known = {
            let ring = self.ring.lock().expect("no holder of this lock panics");
            ring.as_ref().map(|ring| (ring.seen(), ring.holes().clone()))
        };
        self.looks.fetch_add(1, Ordering::Relaxed);
        let Some((seen, holes)) = known else {
            let horizon = timed(self.log.horizon()).await?;
            *self.ring.lock().expect("no holder of this lock panics") = Some(Ring::starting_at(horizon.horizon));
            self.changed.send_modify(|version| *version += 1);
            return Ok(Looked { news: true, more: true, holes: false });
        };
        let mut look = timed(self.log.look_ahead(seen, &holes, LOOK)).await?;
        *self.writers.lock().expect("no holder of this lock panics") = std::mem::take(&mut look.writers);
        let more = look.events.len() == LOOK as usize;
        let (change, holes) = {
            let mut ring = self.ring.lock().expect("no holder of this lock panics");
            let ring = ring.get_or_insert_default();
            (ring.take(look, Instant::now()), !ring.holes().is_empty())
        };
        if change.news {
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

struct Looked {
    news: bool,
    more: bool,
    holes: bool,
}

/// Waits until one of the wake-ups changes. One whose sender is gone stays silent.
async fn any(wake_ups: &mut [WakeUp]) {
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
