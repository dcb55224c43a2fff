//! The rate limit of a subscriber on this node: all of its runners here share it.

use std::sync::Mutex;

use headwater_core::TokenBucket;
use tokio::time::Instant;

/// Says when events may be handled.
pub(in crate::node) struct Limiter {
    bucket: Option<Mutex<TokenBucket>>,
}

impl Limiter {
    /// Creates a limiter. `None`: events may be handled at any time.
    pub(in crate::node) fn new(per_second: Option<f64>) -> Self {
        let bucket = |per_second| Mutex::new(TokenBucket::new(per_second, Instant::now().into_std()));
        Limiter { bucket: per_second.map(bucket) }
    }

    /// How many of these events may be handled now. If none: the time to ask again.
    pub(in crate::node) fn take(&self, events: usize) -> Result<usize, Instant> {
        self.ask(events, |bucket, now| match bucket.take(events, now) {
            0 => Err(bucket.ready_at(1)),
            granted => Ok(granted),
        })
    }

    /// The most events that may be handled at once. `None`: there is no limit.
    pub(in crate::node) fn burst(&self) -> Option<usize> {
        self.bucket.as_ref().map(|bucket| bucket.lock().expect("no holder of this lock panics").burst())
    }

    /// Whether all of these events may be handled now, together. If not: the time to ask again.
    pub(in crate::node) fn charge(&self, events: usize) -> Result<usize, Instant> {
        self.ask(events, |bucket, now| match bucket.charge(events, now) {
            false => Err(bucket.ready_at(events)),
            true => Ok(events),
        })
    }

    fn ask(
        &self,
        events: usize,
        ask: impl FnOnce(&mut TokenBucket, std::time::Instant) -> Result<usize, std::time::Instant>,
    ) -> Result<usize, Instant> {
        let Some(bucket) = self.bucket.as_ref().filter(|_| events > 0) else { return Ok(events) };
        let mut bucket = bucket.lock().expect("no holder of this lock panics");
        ask(&mut bucket, Instant::now().into_std()).map_err(Instant::from_std)
    }
}
