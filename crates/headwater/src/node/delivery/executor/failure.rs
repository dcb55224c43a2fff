//! Decides what happens to events after a failure.

use std::time::Duration;

use headwater_core::{HandlerError, RecordedEvent, ReliableDeliveryConfig, jittered, retry_delay};

/// What happens to events after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::node) enum AfterFailure {
    /// No handler took them, which is not their failure. They are tried again as often as
    /// necessary, and nothing is counted.
    Untouched(Duration),
    /// They are tried again after this pause.
    Again(Duration),
    /// That was the last try: they are given up.
    GiveUp,
}

/// Decides what happens to events that failed `failed_before` times before this failure. `dice` is
/// a random number from 0 to 1.
pub(in crate::node) fn after_failure(
    config: &ReliableDeliveryConfig,
    error: &HandlerError,
    failed_before: u32,
    dice: f64,
) -> AfterFailure {
    if error.is_not_handled() {
        return AfterFailure::Untouched(config.initial_retry_delay);
    }
    if error.is_permanent() || failed_before >= config.max_retries {
        return AfterFailure::GiveUp;
    }
    AfterFailure::Again(retry_pause(config, failed_before, dice))
}

/// The pause before another try of events that failed `failed_before` times before the last
/// failure. `dice` is a random number from 0 to 1.
pub(in crate::node) fn retry_pause(config: &ReliableDeliveryConfig, failed_before: u32, dice: f64) -> Duration {
    jittered(retry_delay(config, failed_before), config.retry_jitter, dice)
}

impl AfterFailure {
    /// Writes to the program's log what failed and what happens next.
    pub(in crate::node) fn log(self, subscriber_id: &str, event: &RecordedEvent, error: &HandlerError, attempt: u32) {
        let sequence = event.sequence().get();
        match self {
            AfterFailure::Untouched(_) => {}
            AfterFailure::Again(_) => {
                tracing::warn!(subscriber_id, sequence, %error, attempt, "failed to handle an event, trying again");
            }
            AfterFailure::GiveUp => {
                tracing::error!(subscriber_id, sequence, %error, attempts = attempt, "gave up on an event");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> ReliableDeliveryConfig {
        ReliableDeliveryConfig {
            max_retries: 2,
            initial_retry_delay: Duration::from_secs(1),
            max_retry_delay: Duration::from_secs(60),
            retry_jitter: 0.1,
            ..ReliableDeliveryConfig::default()
        }
    }

    #[test]
    fn an_event_is_tried_again_as_often_as_configured() {
        let after = |failed_before| after_failure(&config(), &HandlerError::message("bad"), failed_before, 0.0);
        let again = |seconds| AfterFailure::Again(Duration::from_secs(seconds));
        assert_eq!([0, 1, 2, 3].map(after), [again(1), again(2), AfterFailure::GiveUp, AfterFailure::GiveUp]);
        let none = ReliableDeliveryConfig { max_retries: 0, ..config() };
        assert_eq!(after_failure(&none, &HandlerError::message("bad"), 0, 0.0), AfterFailure::GiveUp);
    }

    #[test]
    fn a_permanent_failure_is_the_last() {
        let error = HandlerError::permanent("never");
        assert_eq!(after_failure(&config(), &error, 0, 0.0), AfterFailure::GiveUp);
    }

    #[test]
    fn what_was_not_handled_is_never_given_up() {
        let error = HandlerError::not_handled("later");
        let untouched = AfterFailure::Untouched(Duration::from_secs(1));
        assert_eq!(after_failure(&config(), &error, 1_000, 1.0), untouched);
    }

    #[test]
    fn jitter_shortens_the_pause() {
        let after = after_failure(&config(), &HandlerError::message("bad"), 0, 1.0);
        assert_eq!(after, AfterFailure::Again(Duration::from_millis(900)));
    }
}
