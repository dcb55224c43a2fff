//! What one contender did in one round, and statistics over all rounds.

use std::time::Duration;

use crate::cpu::CpuTime;

/// One contender in one round.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sample {
    pub(crate) events: u64,
    pub(crate) seconds: f64,
    /// The latency of each call, sorted.
    latencies: Vec<Duration>,
    pub(crate) wal_bytes: Option<u64>,
    pub(crate) cpu: Option<CpuTime>,
    pub(crate) events_per_commit: Option<f64>,
    /// Rows that the server read from the log's tables.
    pub(crate) rows_read: Option<u64>,
}

impl Sample {
    pub(crate) fn new(events: u64, elapsed: Duration, mut latencies: Vec<Duration>) -> Self {
        latencies.sort_unstable();
        Sample { events, seconds: elapsed.as_secs_f64(), latencies, ..Sample::default() }
    }

    pub(crate) fn rate(&self) -> f64 {
        self.events as f64 / self.seconds
    }

    /// Returns a quantile of the latencies, in milliseconds.
    pub(crate) fn latency(&self, quantile: f64) -> Option<f64> {
        let last = self.latencies.len().checked_sub(1)?;
        Some(self.latencies[(last as f64 * quantile).round() as usize].as_secs_f64() * 1000.0)
    }

    pub(crate) fn cpu_us_per_event(&self, of: impl Fn(CpuTime) -> f64) -> Option<f64> {
        Some(of(self.cpu?) * 1e6 / self.events.max(1) as f64)
    }

    pub(crate) fn rows_read_per_event(&self) -> Option<f64> {
        Some(self.rows_read? as f64 / self.events.max(1) as f64)
    }

    pub(crate) fn wal_bytes_per_event(&self) -> Option<f64> {
        Some(self.wal_bytes? as f64 / self.events.max(1) as f64)
    }
}

/// Returns the middle value. For an even count, returns the mean of the two middle values.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        length if length % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median([]), None);
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn quantiles_are_calls_that_happened() {
        let sample = Sample::new(3, Duration::from_secs(1), [3, 1, 2].map(Duration::from_millis).to_vec());
        assert_eq!(sample.latency(0.5), Some(2.0));
        assert_eq!(sample.latency(0.99), Some(3.0));
        assert_eq!(Sample::default().latency(0.5), None);
    }
}
