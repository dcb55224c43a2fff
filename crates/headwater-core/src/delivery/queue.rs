//! Claims: events of a shared subscriber that one worker has for a time.

use std::time::Duration;

use uuid::Uuid;

use crate::RecordedEvent;

/// What a worker asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimRequest {
    /// The worker's name. It stands in the attempts of a dead letter.
    pub worker: String,
    /// The most events that all returned claims hold together. Default: 100.
    pub max_events: u32,
    /// How long nobody else gets the events, unless the claim is extended. Default: 30 s.
    pub visibility: Duration,
    /// The types to claim, in which `*` stands for any characters. Events of other types are left
    /// for other workers. Empty: all types.
    pub event_types: Vec<String>,
    /// How often an event is delivered before a failure makes it a dead letter. Default: 4.
    pub max_attempts: u32,
    /// Claims that are done. They are acked first, all or none, in the same round trip.
    pub acks: Vec<Uuid>,
    /// The most new events per claim: several small claims can be handled and acked side by side.
    /// `None`: one claim holds all.
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
            per_claim: None,
        }
    }
}

/// Events that belong to the claimer until the claim expires, is acked or is handed back.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// The claim's id. An event has another one each time that it is claimed.
    pub claim_id: Uuid,
    /// How often the events were delivered before.
    pub redelivery_count: u32,
    /// The events, in order of their sequence.
    pub events: Vec<RecordedEvent>,
}
