//! The store's clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use chrono::{DateTime, SubsecRound, TimeDelta, Utc};
use tokio::time::Instant;

/// Tokio's clock, which tests can pause, plus the time that tests skip. It never goes back.
#[derive(Debug)]
pub(crate) struct Clock {
    began_at: DateTime<Utc>,
    began: Instant,
    /// The time that tests skipped, in microseconds.
    ahead: AtomicU64,
}

impl Default for Clock {
    fn default() -> Self {
        Clock { began_at: Utc::now(), began: Instant::now(), ahead: AtomicU64::new(0) }
    }
}

impl Clock {
    /// The present time in microseconds, as PostgreSQL keeps it.
    pub(crate) fn now(&self) -> DateTime<Utc> {
        let passed = self.began.elapsed() + Duration::from_micros(self.ahead.load(Ordering::Relaxed));
        later(self.began_at, passed).trunc_subsecs(6)
    }

    pub(crate) fn advance(&self, by: Duration) {
        let micros = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
        self.ahead.fetch_add(micros, Ordering::Relaxed);
    }
}

/// The time `by` after another, at most the latest possible time.
pub(crate) fn later(than: DateTime<Utc>, by: Duration) -> DateTime<Utc> {
    let by = TimeDelta::from_std(by).unwrap_or(TimeDelta::MAX);
    than.checked_add_signed(by).unwrap_or(DateTime::<Utc>::MAX_UTC)
}
