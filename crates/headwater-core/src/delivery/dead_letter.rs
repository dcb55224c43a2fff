//! Events that a subscriber gave up on.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::RecordedEvent;

/// An event that a subscriber gave up on. It is kept whole, with its errors, until someone decides
/// what to do.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeadLetter {
    /// The subscriber that gave up on the event.
    pub subscriber_id: String,
    /// The event. Its global_sequence identifies the letter among those of its subscriber.
    pub event: RecordedEvent,
    /// The key that keeps events in order: the event's key, or else its stream, or else its id.
    pub order_key: String,
    /// The letter's state.
    pub state: DeadLetterState,
    /// Whether later events of its key wait behind it.
    pub parks_key: bool,
    /// Every attempt, oldest first.
    pub attempts: Vec<Attempt>,
    /// When the event became a dead letter.
    pub created_at: DateTime<Utc>,
    /// When its state last changed.
    pub updated_at: DateTime<Utc>,
    /// Why it was discarded.
    pub reason: Option<String>,
}

impl DeadLetter {
    /// The event's global_sequence.
    pub fn global_sequence(&self) -> u64 {
        self.event.sequence().get()
    }

    /// The outermost message of the last error.
    pub fn error(&self) -> &str {
        self.attempts.last().and_then(|attempt| attempt.errors.first()).map_or("", String::as_str)
    }
}

/// The state of a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeadLetterState {
    /// The subscriber gave up on the event.
    Dead,
    /// The event was not tried: it waits behind an earlier dead letter of its key.
    Parked,
    /// The event will be delivered again.
    Redriving,
    /// The event was delivered again and handled.
    Redriven,
    /// The event will not be delivered.
    Discarded,
}

impl DeadLetterState {
    /// The name in the database and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            DeadLetterState::Dead => "dead",
            DeadLetterState::Parked => "parked",
            DeadLetterState::Redriving => "redriving",
            DeadLetterState::Redriven => "redriven",
            DeadLetterState::Discarded => "discarded",
        }
    }
}

impl std::str::FromStr for DeadLetterState {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        use DeadLetterState::*;
        let all = [Dead, Parked, Redriving, Redriven, Discarded];
        let found = all.into_iter().find(|state| state.name() == name);
        found.ok_or_else(|| format!("invalid state {name:?}: it is dead, parked, redriving, redriven or discarded"))
    }
}

/// One attempt to handle an event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// When the attempt failed.
    pub at: DateTime<Utc>,
    /// The node that tried.
    pub node: String,
    /// The error and its causes, outermost first.
    pub errors: Vec<String>,
}

/// Selects dead letters. A letter must match every field that is set.
#[derive(Debug, Clone, PartialEq)]
pub struct DeadLetterQuery {
    /// Letters of this subscriber.
    pub subscriber_id: Option<String>,
    /// Letters in one of these states. Empty: letters that are not finished (dead, parked,
    /// redriving).
    pub states: Vec<DeadLetterState>,
    /// The letter of this event.
    pub global_sequence: Option<u64>,
    /// Letters with events of this type.
    pub event_type: Option<String>,
    /// Letters with this key, stream or event id as their order key.
    pub order_key: Option<String>,
    /// Letters with this text in the last error.
    pub error_contains: Option<String>,
    /// Letters after this global_sequence: for the next page of one subscriber's letters.
    pub after: u64,
    /// The most letters to list. Redrive and discard ignore it and apply to all. Default: 1000.
    pub limit: u32,
}

impl Default for DeadLetterQuery {
    fn default() -> Self {
        DeadLetterQuery {
            subscriber_id: None,
            states: Vec::new(),
            global_sequence: None,
            event_type: None,
            order_key: None,
            error_contains: None,
            after: 0,
            limit: 1_000,
        }
    }
}
