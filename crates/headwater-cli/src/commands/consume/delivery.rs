//! The options that say how events are delivered.

use std::time::Duration;

use clap::{Args, ValueEnum};
use headwater::delivery::{CheckpointMode, OnExhaustion, ReliableDeliveryConfig};

use crate::duration::parse_short;
use crate::failure::Failure;

const FAILURE: &str = "Failure, with --exec";
/// The most events whose lines are written and flushed together. Progress is then written once for
/// all of them.
const PRINTED_AT_ONCE: u32 = 1_000;
/// The longest time that delivery can wait for a handler.
const DAY: Duration = Duration::from_secs(86_400);

#[derive(Debug, Args)]
pub(super) struct DeliveryArgs {
    /// How long events wait for an earlier event whose transaction is still open. 0: not at all.
    /// forever: strict order [default: 5s]
    #[arg(long, value_name = "DURATION|0|forever", value_parser = hold_for)]
    hold_for: Option<Duration>,
    /// When progress is written. every: after every event. EVENTS/DELAY, such as 100/200ms: after
    /// that many events or that delay [default: after each flush of lines; with --exec: every]
    #[arg(long, value_name = "every|EVENTS/DELAY", value_parser = checkpoint)]
    checkpoint: Option<CheckpointMode>,
    /// The most events that are read at once [default: 1000; with --exec: 100]
    #[arg(long, value_name = "N")]
    batch_size: Option<u32>,
    /// How many commands run at once, for events of different keys (or streams). Events of one key
    /// stay in order [default: 1]
    #[arg(long, value_name = "N", requires = "exec")]
    concurrency: Option<u32>,
    /// The most events per second that this process handles. The events of one second may come at
    /// once [default: no limit]
    #[arg(long, value_name = "N")]
    rate: Option<f64>,

    /// How many times a failed event is tried again [default: 3]
    #[arg(long, value_name = "N", requires = "exec", help_heading = FAILURE)]
    max_retries: Option<u32>,
    /// The pause before the first retry. It doubles with each retry [default: 1s]
    #[arg(long, value_name = "DURATION", value_parser = parse_short, requires = "exec", help_heading = FAILURE)]
    retry_delay: Option<Duration>,
    /// The longest pause between retries [default: 60s]
    #[arg(long, value_name = "DURATION", value_parser = parse_short, requires = "exec", help_heading = FAILURE)]
    max_retry_delay: Option<Duration>,
    /// How long the command may take. After that it is killed, with all processes that it started,
    /// and counts as failed [default: 60s]
    #[arg(long, value_name = "DURATION", value_parser = parse_short, requires = "exec", help_heading = FAILURE)]
    handler_timeout: Option<Duration>,
    /// What happens to an event that failed too often [default: dead-letter]
    #[arg(long, value_enum, requires = "exec", help_heading = FAILURE)]
    on_exhaustion: Option<Exhaustion>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Exhaustion {
    /// Keep it as a dead letter, and handle the next event
    DeadLetter,
    /// Keep it as a dead letter. Later events of its key wait behind it
    ParkKey,
    /// Pause the subscriber before this event
    Pause,
}

impl DeliveryArgs {
    pub(super) fn handler_timeout(&self) -> Duration {
        self.handler_timeout.unwrap_or(ReliableDeliveryConfig::default().handler_timeout)
    }

    /// How many commands run at once.
    pub(super) fn concurrency(&self) -> u32 {
        self.concurrency.unwrap_or(1)
    }

    /// How many lines are written and flushed at once: at most as many as may come again after a
    /// crash.
    pub(super) fn lines_at_once(&self) -> usize {
        match self.checkpoint {
            None => usize::MAX,
            Some(CheckpointMode::Synchronous) => 1,
            // Batched progress is written after each half of a batch.
            Some(CheckpointMode::Batched { batch_size, .. }) => (batch_size as usize / 2).max(1),
        }
    }

    /// Returns the configuration of delivery. `prints`: events are printed, not handled by
    /// commands. Delivery itself hardly limits the time of a handler: [`Exec`](super::exec::Exec)
    /// limits the time of a command, and a reader of our output may take as long as it needs.
    pub(super) fn config(&self, prints: bool) -> Result<ReliableDeliveryConfig, Failure> {
        let asked = self.asked(prints);
        asked.validate()?;
        Ok(ReliableDeliveryConfig { handler_timeout: DAY, ..asked })
    }

    fn asked(&self, prints: bool) -> ReliableDeliveryConfig {
        let mut default = ReliableDeliveryConfig::default();
        if prints {
            default.catch_up_batch_size = PRINTED_AT_ONCE;
        }
        let initial_retry_delay = self.retry_delay.unwrap_or(default.initial_retry_delay);
        ReliableDeliveryConfig {
            max_retries: self.max_retries.unwrap_or(default.max_retries),
            initial_retry_delay,
            max_retry_delay: self.max_retry_delay.unwrap_or(default.max_retry_delay.max(initial_retry_delay)),
            catch_up_batch_size: self.batch_size.unwrap_or(default.catch_up_batch_size),
            checkpoint_mode: self.checkpoint.unwrap_or(default.checkpoint_mode),
            hold_for: self.hold_for.unwrap_or(default.hold_for),
            handler_timeout: self.handler_timeout(),
            rate_limit: self.rate,
            on_exhaustion: match self.on_exhaustion {
                None | Some(Exhaustion::DeadLetter) => OnExhaustion::DeadLetter,
                Some(Exhaustion::ParkKey) => OnExhaustion::ParkKey,
                Some(Exhaustion::Pause) => OnExhaustion::Pause,
            },
            ..default
        }
    }
}

fn hold_for(text: &str) -> Result<Duration, String> {
    match text {
        "0" => Ok(Duration::ZERO),
        "forever" => Ok(Duration::MAX),
        text => parse_short(text).map_err(|error| format!("{error}, 0 or forever")),
    }
}

fn checkpoint(text: &str) -> Result<CheckpointMode, String> {
    if text == "every" {
        return Ok(CheckpointMode::Synchronous);
    }
    let parts = text.split_once('/').and_then(|(events, delay)| Some((events.parse().ok()?, parse_short(delay).ok()?)));
    let (batch_size, delay) = parts.ok_or("it is every, or events and a duration, such as 100/200ms")?;
    Ok(CheckpointMode::Batched { batch_size, max_delay_ms: u64::try_from(delay.as_millis()).unwrap_or(u64::MAX) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_and_holds_are_read() {
        assert_eq!(checkpoint("every"), Ok(CheckpointMode::Synchronous));
        assert_eq!(checkpoint("100/200ms"), Ok(CheckpointMode::Batched { batch_size: 100, max_delay_ms: 200 }));
        for text in ["", "100", "/1s", "100/", "1s/100", "often"] {
            assert!(checkpoint(text).is_err(), "{text}");
        }
        assert_eq!(hold_for("0"), Ok(Duration::ZERO));
        assert_eq!(hold_for("forever"), Ok(Duration::MAX));
        assert_eq!(hold_for("250ms"), Ok(Duration::from_millis(250)));
        assert!(hold_for("5").unwrap_err().ends_with("as 200ms, 0 or forever"));
    }
}
