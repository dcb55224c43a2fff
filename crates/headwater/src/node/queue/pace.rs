//! How far ahead a worker claims: far enough that its handlers never wait for the database, and no
//! further, since other workers may be free.

use std::time::Duration;

/// The time for which handlers have work ahead: many round trips to the database.
const AHEAD: Duration = Duration::from_millis(100);
/// The most events ahead, however fast they are handled.
const MOST: f64 = 1_000.0;
/// The most bytes of those events.
const BYTES: f64 = 32.0 * 1024.0 * 1024.0;
/// The weight of the newest measurement.
const WEIGHT: f64 = 0.2;

/// How fast events were handled recently, and how large they were.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Seconds that a handler takes for an event.
    seconds: Option<f64>,
    /// Bytes of an event.
    bytes: Option<f64>,
}

impl Pace {
    /// Notes that a handler took this long for these events.
    pub(super) fn handled(&mut self, events: usize, took: Duration) {
        if events > 0 {
            self.seconds = Some(mean(self.seconds, took.as_secs_f64() / events as f64));
        }
    }

    /// Notes that events that were claimed ahead waited this long and did not begin.
    pub(super) fn stuck(&mut self, waited: Duration) {
        self.seconds = Some(waited.as_secs_f64());
    }

    pub(super) fn weighed(&mut self, bytes: usize) {
        self.bytes = Some(mean(self.bytes, bytes as f64));
    }

    /// How many events should be ready for this many handlers. None at first, while nothing is
    /// known.
    pub(super) fn ahead(&self, handlers: u32) -> usize {
        let events = self.seconds.map_or(0.0, |seconds| AHEAD.as_secs_f64() * f64::from(handlers) / seconds.max(1e-9));
        self.limit(whole(events.min(MOST)))
    }

    /// Returns this number of events, or fewer if they are large.
    pub(super) fn limit(&self, events: usize) -> usize {
        let fit = self.bytes.map_or(BYTES, |bytes| BYTES / bytes.max(1.0));
        events.min(whole(fit))
    }
}

#[expect(clippy::cast_sign_loss, reason = "events are never negative")]
fn whole(events: f64) -> usize {
    events as usize
}

fn mean(before: Option<f64>, now: f64) -> f64 {
    before.map_or(now, |before| before + WEIGHT * (now - before))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_much_is_ready_as_is_handled_in_a_tenth_of_a_second() {
        let mut pace = Pace::default();
        assert_eq!(pace.ahead(8), 0, "nothing is known");
        pace.handled(10, Duration::from_millis(20));
        assert_eq!((pace.ahead(1), pace.ahead(4)), (50, 200));
        (0..100).for_each(|_| pace.handled(1, Duration::from_secs(1)));
        assert_eq!((pace.ahead(4), pace.ahead(32)), (0, 3), "slow work is left to others");
        (0..100).for_each(|_| pace.handled(1, Duration::ZERO));
        assert_eq!(pace.ahead(1), 1_000);
        pace.stuck(Duration::from_secs(15));
        assert_eq!(pace.ahead(8), 0);
    }

    #[test]
    fn large_events_are_few() {
        let mut pace = Pace::default();
        pace.handled(1, Duration::from_micros(1));
        (0..100).for_each(|_| pace.weighed(1024 * 1024));
        assert_eq!((pace.ahead(1), pace.limit(10_000)), (32, 32));
        (0..100).for_each(|_| pace.weighed(200));
        assert_eq!((pace.ahead(1), pace.limit(10_000)), (1_000, 10_000));
    }
}
