//! Events that a subscriber gave up on.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::Event;

/// An event that a subscriber gave up on, kept whole, with its reasons, until someone decides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeadLetter {
    /// Whose.
    pub subscriber_id: String,
    /// The event. Its global_sequence names the letter among its subscriber's.
    pub event: Event,
    /// What keeps events in order: the event's key, else its stream, else its id.
    pub order_key: String,
    /// Where it stands.
    pub state: DeadLetterState,
    /// Whether later events of its key wait behind it.
    pub parks_key: bool,
    /// Every try, oldest first.
    pub attempts: Vec<Attempt>,
    /// When it became a dead letter.
    pub created_at: DateTime<Utc>,
    /// When its state last changed.
    pub updated_at: DateTime<Utc>,
    /// Why it was discarded.
    pub reason: Option<String>,
}

impl DeadLetter {
    /// The event's global_sequence.
    pub fn global_sequence(&self) -> u64 {
        self.event.global_sequence.unwrap_or_default()
    }

    /// The last error, outermost message first.
    pub fn error(&self) -> &str {
        self.attempts.last().and_then(|attempt| attempt.errors.first()).map_or("", String::as_str)
    }
}

/// Where a dead letter stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeadLetterState {
    /// Given up on.
    Dead,
    /// Not tried: it waits behind an earlier dead letter of its key.
    Parked,
    /// To be delivered again.
    Redriving,
    /// Delivered again, and handled.
    Redriven,
    /// Not to be delivered.
    Discarded,
}

impl DeadLetterState {
    /// Its name in the database and on the command line.
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

/// One try to handle an event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// When it failed.
    pub at: DateTime<Utc>,
    /// The node that tried.
    pub node: String,
    /// The error and what caused it, outermost first.
    pub errors: Vec<String>,
}

/// Which dead letters. All that is set must hold.
#[derive(Debug, Clone, PartialEq)]
pub struct DeadLetterQuery {
    /// Whose.
    pub subscriber_id: Option<String>,
    /// In these states; empty: those that are not done with (dead, parked, redriving).
    pub states: Vec<DeadLetterState>,
    /// This event.
    pub global_sequence: Option<u64>,
    /// Of this type.
    pub event_type: Option<String>,
    /// Of this key (or stream, or event id).
    pub order_key: Option<String>,
    /// With this text in the last error.
    pub error_contains: Option<String>,
    /// Only those after this global_sequence, for the next page of one subscriber's.
    pub after: u64,
    /// Most letters to list; whoever redrives or discards means all. Default: 1000.
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
