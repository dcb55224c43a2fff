//! How events reach a subscriber, and what happens when it fails.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::SubscriberError;

/// How events are delivered to one subscriber. The defaults are safe: nothing is lost, order is
/// kept, and a second instance stands by.
///
/// ```
/// use headwater_core::{CheckpointMode, ReliableDeliveryConfig};
/// use std::time::Duration;
///
/// let config = ReliableDeliveryConfig {
///     max_retries: 5,
///     checkpoint_mode: CheckpointMode::Batched { batch_size: 100, max_delay_ms: 200 },
///     hold_for: Duration::MAX, // strict order
///     ..ReliableDeliveryConfig::default()
/// };
/// config.validate()?;
/// # Ok::<_, headwater_core::SubscriberError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ReliableDeliveryConfig {
    /// How often a failed event is tried again before [`on_exhaustion`](Self::on_exhaustion)
    /// applies.
    pub max_retries: u32,
    /// The pause before the first retry. It doubles with each retry.
    pub initial_retry_delay: Duration,
    /// The longest pause between retries.
    pub max_retry_delay: Duration,
    /// By how much a pause may be shorter, as a fraction of the pause. Events that failed together
    /// are then not retried together.
    pub retry_jitter: f64,
    /// The most events that are taken at once, and that a batch handler gets.
    pub catch_up_batch_size: u32,
    /// When progress is written.
    pub checkpoint_mode: CheckpointMode,
    /// Whether instances of the subscriber in other processes are expected.
    pub instance_mode: InstanceMode,
    /// How long events wait behind a gap whose writer has not ended yet. After that, later events
    /// go first, and the gap's event is delivered when it commits. Zero: never wait.
    /// [`Duration::MAX`]: strict order.
    pub hold_for: Duration,
    /// Where a new subscriber starts.
    pub start_from: StartFrom,
    /// What happens to an event that failed too often.
    pub on_exhaustion: OnExhaustion,
    /// What happens to a bundle that failed too often.
    pub on_bundle_failure: OnBundleFailure,
    /// How long a handler may take for one event, or a batch handler for one batch. Longer counts
    /// as a failure.
    pub handler_timeout: Duration,
    /// The most events per second that each node handles for the subscriber, over all of its
    /// partitions on that node. One second's worth of events may come at once, and always at least
    /// one event. Retries count. `None`: no limit.
    pub rate_limit: Option<f64>,
}

impl Default for ReliableDeliveryConfig {
    fn default() -> Self {
        ReliableDeliveryConfig {
            max_retries: 3,
            initial_retry_delay: Duration::from_secs(1),
            max_retry_delay: Duration::from_secs(60),
            retry_jitter: 0.1,
            catch_up_batch_size: 100,
            checkpoint_mode: CheckpointMode::Synchronous,
            instance_mode: InstanceMode::Coordinated,
            hold_for: Duration::from_secs(5),
            start_from: StartFrom::Beginning,
            on_exhaustion: OnExhaustion::DeadLetter,
            on_bundle_failure: OnBundleFailure::DeadLetterBundle,
            handler_timeout: Duration::from_secs(60),
            rate_limit: None,
        }
    }
}

/// When progress is written. After a crash, events that were handled since the last write are
/// delivered again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckpointMode {
    /// After every event.
    Synchronous,
    /// After at most `batch_size` events, or at most `max_delay_ms` after the first of them.
    Batched {
        /// The most events between two writes.
        batch_size: u32,
        /// The longest time between the first unwritten event and the write, in milliseconds.
        max_delay_ms: u64,
    },
}

/// Whether instances of the subscriber in other processes are expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstanceMode {
    /// There is no lease: for a program that runs once, or that something else coordinates.
    SingleInstance,
    /// One instance at a time handles events. The others stand by.
    Coordinated,
}

/// Where a new subscriber starts. A subscriber that has a checkpoint goes on from there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartFrom {
    /// The subscriber starts with the first event.
    Beginning,
    /// The subscriber starts with the first event that is stored from now on.
    Now,
    /// The subscriber starts with the first event after this global_sequence.
    After(u64),
    /// The subscriber starts with the first event recorded at or after this time.
    Time(DateTime<Utc>),
}

/// What happens to an event that failed too often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnExhaustion {
    /// The event is kept as a dead letter, and the next event is handled.
    DeadLetter,
    /// The event is kept as a dead letter, and later events of its key wait behind it. Other keys
    /// go on.
    ParkKey,
    /// The subscriber is paused before the event, until somebody resumes it.
    Pause,
}

/// What [`OnExhaustion`] applies to when a bundle failed too often. A bundle is events that share a
/// transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnBundleFailure {
    /// The whole bundle: none of its effects is kept, and all of its events become dead letters.
    /// This is the default, because one transaction means all of the effects or none.
    DeadLetterBundle,
    /// Each event alone: every event gets its own transaction, and only those that fail become dead
    /// letters.
    EventByEvent,
}

impl ReliableDeliveryConfig {
    /// Checks all settings. The error names the first wrong one, its value and its range.
    pub fn validate(&self) -> Result<(), SubscriberError> {
        let day = Duration::from_secs(86_400);
        let rules = [
            ("max_retries", self.max_retries.to_string(), self.max_retries <= 1_000, "0 to 1000"),
            (
                "initial_retry_delay",
                format!("{:?}", self.initial_retry_delay),
                (Duration::from_millis(1)..=day).contains(&self.initial_retry_delay),
                "1 ms to 1 day",
            ),
            (
                "max_retry_delay",
                format!("{:?}", self.max_retry_delay),
                (self.initial_retry_delay..=day).contains(&self.max_retry_delay),
                "initial_retry_delay to 1 day",
            ),
            ("retry_jitter", self.retry_jitter.to_string(), (0.0..=1.0).contains(&self.retry_jitter), "0 to 1"),
            (
                "catch_up_batch_size",
                self.catch_up_batch_size.to_string(),
                (1..=10_000).contains(&self.catch_up_batch_size),
                "1 to 10000",
            ),
            (
                "handler_timeout",
                format!("{:?}", self.handler_timeout),
                (Duration::from_millis(1)..=day).contains(&self.handler_timeout),
                "1 ms to 1 day",
            ),
            (
                "rate_limit",
                self.rate_limit.unwrap_or_default().to_string(),
                self.rate_limit.is_none_or(|rate| rate > 0.0 && rate <= 1e6),
                "more than 0, up to 1000000 events a second",
            ),
        ];
        if let Some((name, value, _, range)) = rules.into_iter().find(|(_, _, holds, _)| !holds) {
            return Err(SubscriberError::InvalidInput(format!("invalid {name} {value}: it is {range}")));
        }
        if let CheckpointMode::Batched { batch_size, max_delay_ms } = self.checkpoint_mode
            && !((1..=100_000).contains(&batch_size) && (1..=60_000).contains(&max_delay_ms))
        {
            return Err(SubscriberError::InvalidInput(format!(
                "invalid checkpoint_mode Batched {{ batch_size: {batch_size}, max_delay_ms: {max_delay_ms} }}: \
                 batch_size is 1 to 100000, and max_delay_ms 1 to 60000"
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_promised() {
        let config = ReliableDeliveryConfig::default();
        assert_eq!(config.max_retries, 3);
        assert_eq!(config.initial_retry_delay, Duration::from_secs(1));
        assert_eq!(config.max_retry_delay, Duration::from_secs(60));
        assert_eq!(config.catch_up_batch_size, 100);
        assert_eq!(config.checkpoint_mode, CheckpointMode::Synchronous);
        assert_eq!(config.instance_mode, InstanceMode::Coordinated);
        assert_eq!(config.hold_for, Duration::from_secs(5));
        config.validate().unwrap();
    }

    #[test]
    fn a_wrong_option_is_named_with_its_value_and_its_range() {
        let wrong = ReliableDeliveryConfig { catch_up_batch_size: 0, ..Default::default() };
        assert_eq!(wrong.validate().unwrap_err().to_string(), "invalid catch_up_batch_size 0: it is 1 to 10000");
        let wrong = ReliableDeliveryConfig { max_retry_delay: Duration::from_millis(5), ..Default::default() };
        assert!(wrong.validate().unwrap_err().to_string().starts_with("invalid max_retry_delay 5ms"));
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e6 + 1.0] {
            let wrong = ReliableDeliveryConfig { rate_limit: Some(rate), ..Default::default() };
            let message = wrong.validate().unwrap_err().to_string();
            assert_eq!(message, format!("invalid rate_limit {rate}: it is more than 0, up to 1000000 events a second"));
        }
        ReliableDeliveryConfig { rate_limit: Some(0.01), ..Default::default() }.validate().unwrap();
        let mode = CheckpointMode::Batched { batch_size: 0, max_delay_ms: 5 };
        let wrong = ReliableDeliveryConfig { checkpoint_mode: mode, ..Default::default() };
        assert!(wrong.validate().unwrap_err().to_string().contains("batch_size is 1 to 100000"));
    }
}
