//! Pauses between tries.

use std::time::Duration;

use crate::jittered;

/// The fraction by which jitter shortens a pause at most.
const JITTER: f64 = 0.5;

/// Pauses between tries: each is twice as long as the one before it, up to the longest.
///
/// ```
/// use headwater_core::Backoff;
/// use std::time::Duration;
///
/// let mut backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(30));
/// assert_eq!([(); 4].map(|()| backoff.pause().as_millis()), [10, 20, 30, 30]);
/// backoff.reset();
/// assert_eq!(backoff.pause().as_millis(), 10);
/// ```
#[derive(Debug, Clone)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    /// Pauses from `first` to `longest`. A `first` longer than `longest` is cut to it.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        let first = if first.as_nanos() < longest.as_nanos() { first } else { longest };
        Backoff { first, longest, next: first }
    }

    /// Pauses between tries of a call that the database did not answer: 50 ms to 5 s.
    pub const fn for_database() -> Self {
        Backoff::new(Duration::from_millis(50), Duration::from_secs(5))
    }

    /// The next pause, without jitter. It is not taken.
    pub const fn next_pause(&self) -> Duration {
        self.next
    }

    /// Takes the next pause, without jitter.
    pub fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = pause.saturating_mul(2).min(self.longest);
        pause
    }

    /// Takes the next pause, shortened by up to half of it. Processes that failed together then do
    /// not try again together. `dice` is a random number from 0 to 1.
    pub fn jittered(&mut self, dice: f64) -> Duration {
        jittered(self.pause(), JITTER, dice)
    }

    /// Notes that a try succeeded: the next pause is the first again.
    pub fn reset(&mut self) {
        self.next = self.first;
    }

    /// Makes the next pause the longest, for a failure that another try soon cannot fix.
    pub fn give_time(&mut self) {
        self.next = self.longest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(backoff: &mut Backoff) -> u128 {
        backoff.pause().as_millis()
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let mut backoff = Backoff::for_database();
        let pauses: Vec<_> = (0..9).map(|_| millis(&mut backoff)).collect();
        assert_eq!(pauses, [50, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
    }

    #[test]
    fn a_success_begins_anew_and_giving_time_goes_to_the_longest() {
        let mut backoff = Backoff::for_database();
        (0..5).for_each(|_| _ = backoff.pause());
        backoff.reset();
        assert_eq!((backoff.next_pause().as_millis(), millis(&mut backoff)), (50, 50));
        backoff.give_time();
        assert_eq!((millis(&mut backoff), millis(&mut backoff)), (5_000, 5_000));
    }

    #[test]
    fn jitter_takes_up_to_half() {
        let mut backoff = Backoff::for_database();
        assert_eq!(backoff.jittered(0.0), Duration::from_millis(50));
        assert_eq!(backoff.jittered(1.0), Duration::from_millis(50), "half of 100 ms");
        assert_eq!(backoff.next_pause(), Duration::from_millis(200), "jitter shortens no later pause");
    }

    #[test]
    fn no_pause_is_longer_than_the_longest() {
        let longest = Duration::from_millis(20);
        let mut backoff = Backoff::new(Duration::from_secs(1), longest);
        assert_eq!((backoff.pause(), backoff.pause()), (longest, longest));
        let mut backoff = Backoff::new(Duration::MAX, Duration::MAX);
        assert_eq!((backoff.pause(), backoff.pause()), (Duration::MAX, Duration::MAX));
    }
}
