//! As what events are written.

use clap::ValueEnum;
use headwater::{CloudEvent, Event, EventEnvelope};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// The event, as `read` writes it
    Event,
    /// The envelope of a message bus: namespace, eventType, payload, emittedAt, producerNodeId, messageId
    Envelope,
    /// CloudEvents 1.0, in JSON
    Cloudevents,
}

/// As what, and of which namespace.
pub(super) struct Written {
    pub(super) format: Format,
    pub(super) namespace: String,
}

impl Written {
    pub(super) fn to_json(&self, event: &Event) -> serde_json::Result<Vec<u8>> {
        match self.format {
            Format::Event => serde_json::to_vec(event),
            Format::Envelope => serde_json::to_vec(&EventEnvelope::of(&self.namespace, event, None)),
            Format::Cloudevents => serde_json::to_vec(&CloudEvent::of(&self.namespace, event)),
        }
    }
}
