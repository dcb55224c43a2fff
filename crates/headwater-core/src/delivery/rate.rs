//! How many events per second may be handled.

use std::time::{Duration, Instant};

/// A bucket of tokens. Each token allows one event now. `per_second` tokens come in per second. The
/// bucket has room for the tokens of one second, and for at least one. It starts full.
///
/// ```
/// use headwater_core::TokenBucket;
/// use std::time::{Duration, Instant};
///
/// let begun = Instant::now();
/// let mut bucket = TokenBucket::new(2.0, begun);
/// assert_eq!(bucket.take(10, begun), 2);
/// assert_eq!(bucket.take(10, begun), 0);
/// assert!(bucket.ready_at(1) >= begun + Duration::from_millis(500));
/// ```
#[derive(Debug, Clone)]
pub struct TokenBucket {
    per_second: f64,
    /// Negative if [`charge`](TokenBucket::charge) took more tokens than the bucket can hold.
    tokens: f64,
    at: Instant,
}

impl TokenBucket {
    /// A full bucket.
    pub fn new(per_second: f64, now: Instant) -> Self {
        TokenBucket { per_second, tokens: burst(per_second), at: now }
    }

    /// Takes up to `wanted` tokens, as many as there are. Returns how many it took.
    pub fn take(&mut self, wanted: usize, now: Instant) -> usize {
        self.fill(now);
        let granted = wanted.min(whole(self.tokens));
        self.tokens -= granted as f64;
        granted
    }

    /// Takes tokens for events that must go together. It takes all of them if there are enough. If
    /// the bucket cannot hold that many, it takes them once the bucket is full, and the bucket owes
    /// the rest. Returns whether it took them.
    pub fn charge(&mut self, events: usize, now: Instant) -> bool {
        self.fill(now);
        let granted = self.tokens >= self.needed(events);
        if granted {
            self.tokens -= events as f64;
        }
        granted
    }

    /// When this many events may be charged, if nobody takes tokens until then.
    pub fn ready_at(&self, events: usize) -> Instant {
        let missing = ((self.needed(events) - self.tokens) / self.per_second).max(0.0);
        // A wait that an instant cannot hold is cut to a day. The result is a bit later than due,
        // never earlier.
        let wait = Duration::try_from_secs_f64(missing).unwrap_or(Duration::from_secs(86_400));
        self.at + wait.min(Duration::from_secs(86_400)) + Duration::from_nanos(u64::from(missing > 0.0) * 1_000)
    }

    /// The most events at once.
    pub fn burst(&self) -> usize {
        whole(burst(self.per_second))
    }

    fn needed(&self, events: usize) -> f64 {
        (events as f64).min(burst(self.per_second))
    }

    fn fill(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.at);
        self.tokens = (self.tokens + elapsed.as_secs_f64() * self.per_second).min(burst(self.per_second));
        self.at = self.at.max(now);
    }
}

/// The number of whole tokens; 0 if the bucket owes some.
#[expect(clippy::cast_sign_loss, reason = "a negative float becomes 0")]
fn whole(tokens: f64) -> usize {
    tokens as usize
}

/// The tokens of one second, and at least one.
fn burst(per_second: f64) -> f64 {
    per_second.max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(begun: Instant, seconds: f64) -> Instant {
        begun + Duration::from_secs_f64(seconds)
    }

    #[test]
    fn a_second_s_worth_at_once_and_then_as_they_come() {
        let begun = Instant::now();
        let mut bucket = TokenBucket::new(10.0, begun);
        assert_eq!(bucket.take(100, begun), 10);
        assert_eq!(bucket.take(1, after(begun, 0.05)), 0);
        assert_eq!(bucket.take(100, after(begun, 0.31)), 3);
        assert_eq!(bucket.take(2, after(begun, 60.0)), 2);
        assert_eq!(bucket.take(100, after(begun, 60.0)), 8, "it holds no more than a second's worth");
    }

    #[test]
    fn over_any_time_no_more_than_the_rate_and_a_burst() {
        let begun = Instant::now();
        let mut bucket = TokenBucket::new(7.3, begun);
        let mut taken = 0;
        for step in 0..10_000_u32 {
            let seconds = f64::from(step) * 0.013;
            taken += bucket.take(1 + step as usize % 5, after(begun, seconds));
            assert!(taken as f64 <= 7.3 + 7.3 * seconds + 1e-6, "{taken} after {seconds} s");
        }
        assert!(taken as f64 >= 7.3 * 129.0, "{taken}");
    }

    #[test]
    fn slower_than_one_a_second_begins_with_one() {
        let begun = Instant::now();
        let mut bucket = TokenBucket::new(0.1, begun);
        assert_eq!(bucket.take(5, begun), 1);
        assert_eq!(bucket.take(5, after(begun, 9.9)), 0);
        let ready = bucket.ready_at(1);
        assert!(ready > after(begun, 9.99) && ready < after(begun, 10.01));
        assert_eq!(bucket.take(5, ready), 1, "it is there when it was said to be");
    }

    #[test]
    fn what_goes_together_is_owed() {
        let begun = Instant::now();
        let mut bucket = TokenBucket::new(10.0, begun);
        assert!(bucket.charge(30, begun));
        assert!(!bucket.charge(1, after(begun, 2.0)));
        assert_eq!(bucket.take(1, after(begun, 2.05)), 0);
        let ready = bucket.ready_at(1);
        assert!(ready > after(begun, 2.09) && ready < after(begun, 2.11));
        assert!(!bucket.charge(5, ready), "there is one");
        assert!(bucket.ready_at(5) > after(begun, 2.49) && bucket.ready_at(5) < after(begun, 2.51));
        assert!(bucket.charge(1, ready));
    }

    #[test]
    fn a_clock_that_goes_back_gives_nothing() {
        let begun = Instant::now();
        let mut bucket = TokenBucket::new(5.0, begun);
        assert_eq!(bucket.take(5, after(begun, 10.0)), 5);
        assert_eq!(bucket.take(5, begun), 0);
        assert_eq!(bucket.take(5, after(begun, 10.1)), 0);
    }
}
