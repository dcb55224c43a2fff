//! Claims: events of a shared subscriber that one worker has for a time.

use std::time::Duration;

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
    /// Only events of these types, in which `*` stands for any characters; the others are left for other workers. Empty: all.
    pub event_types: Vec<String>,
    /// An event that was delivered so often is not delivered again when it fails: it becomes a dead letter. Default: 4.
    pub max_attempts: u32,
    /// Claims that are done. They are acked first, all or none, in the same round trip.
    pub acks: Vec<Uuid>,
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
