//! Claims: events of a shared subscriber that one worker has for a time.

use std::time::Duration;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::Event;

/// What a worker asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimRequest {
    /// Who asks: it stands in the attempts of a dead letter.
    pub worker: String,
    /// Most events, over all claims that are answered. Default: 100.
    pub max_events: u32,
    /// How long nobody else gets them, unless the claim is extended. Default: 30 s.
    pub visibility: Duration,
    /// Only events of these types; the others are left for other workers. Empty: all.
    pub event_types: Vec<String>,
    /// An event that was delivered so often is not delivered again when it fails: it becomes a dead letter. Default: 4.
    pub max_attempts: u32,
    /// Claims that are done. They are acked first, all or none, in the same round trip.
    pub acks: Vec<Uuid>,
    /// The caller has proved that all at or below is settled: what is new is then claimed as a range, without a look at the log. For who
    /// has the events in memory. A wrong one loses events.
    pub settled: Option<u64>,
    /// New events are claimed in claims of so many at most, which can be worked on and acked side by side. `None`: in one.
    pub per_claim: Option<u32>,
}

impl ClaimRequest {
    /// A request with default settings.
    pub fn new(worker: impl Into<String>) -> Self {
        ClaimRequest {
            worker: worker.into(),
            max_events: 100,
            visibility: Duration::from_secs(30),
            event_types: Vec::new(),
            max_attempts: 4,
            acks: Vec::new(),
            settled: None,
            per_claim: None,
        }
    }
}

/// Events that belong to the claimer until the claim expires, is acked or handed back.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// Names it. Another one each time that an event is claimed.
    pub claim_id: Uuid,
    /// How often the events were delivered before.
    pub redelivery_count: u32,
    /// In order of their sequence.
    pub events: Vec<Event>,
}

/// A claim without its events, for who has them.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimedRange {
    /// Names it. Another one each time that an event is claimed.
    pub claim_id: Uuid,
    /// How often the events were delivered before.
    pub redelivery_count: u32,
    /// From here
    pub first: u64,
    /// to here, both included.
    pub last: u64,
    /// Only these; `None`: all in the range.
    pub sequences: Option<Vec<u64>>,
    /// Only those of these types; `None`: all.
    pub event_types: Option<Vec<String>>,
    /// When it expires, by the database's clock.
    pub visible_at: DateTime<Utc>,
}

impl ClaimedRange {
    /// Whether an event of the log belongs to it.
    pub fn holds(&self, event: &Event) -> bool {
        let Some(sequence) = event.global_sequence else { return false };
        (self.first..=self.last).contains(&sequence)
            && self.sequences.as_ref().is_none_or(|sequences| sequences.binary_search(&sequence).is_ok())
            && self.event_types.as_ref().is_none_or(|types| types.contains(&event.event_type))
    }
}
