//! When a failed event is tried again.

use std::time::Duration;

use super::ReliableDeliveryConfig;

/// The pause before retry `attempt` (from 0), without jitter. It doubles from the initial delay up
/// to the longest.
pub fn retry_delay(config: &ReliableDeliveryConfig, attempt: u32) -> Duration {
    let factor = 2u32.checked_pow(attempt).unwrap_or(u32::MAX);
    config.initial_retry_delay.saturating_mul(factor).min(config.max_retry_delay)
}

/// Shortens `delay` by up to the fraction `jitter` of it. `dice` is a number from 0 to 1.
pub fn jittered(delay: Duration, jitter: f64, dice: f64) -> Duration {
    delay.mul_f64(1.0 - jitter.clamp(0.0, 1.0) * dice.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_doubles_up_to_the_cap() {
        let config = ReliableDeliveryConfig::default();
        let seconds = |attempt| retry_delay(&config, attempt).as_secs();
        assert_eq!([0, 1, 2, 5, 6, 10, 31, 32, u32::MAX].map(seconds), [1, 2, 4, 32, 60, 60, 60, 60, 60]);
    }

    #[test]
    fn jitter_only_shortens() {
        let delay = Duration::from_secs(10);
        assert_eq!(jittered(delay, 0.1, 0.0), delay);
        assert_eq!(jittered(delay, 0.1, 1.0), Duration::from_secs(9));
        assert_eq!(jittered(delay, 0.0, 1.0), delay);
    }
}
