//! The formats in which events are written.

use clap::ValueEnum;
use headwater::Event;
use headwater::log::{CloudEvent, EventEnvelope};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// The event, as `headwater read --json` writes it
    Event,
    /// The envelope of a message bus: namespace, eventType, payload, emittedAt, producerNodeId,
    /// messageId, redeliveryCount, metadata
    Envelope,
    /// CloudEvents 1.0, in JSON
    Cloudevents,
}

/// In which format events are written, and of which namespace they are.
pub(super) struct Written {
    pub(super) format: Format,
    pub(super) namespace: String,
}

impl Written {
    /// Adds an event to `lines`, as one line.
    pub(super) fn write(&self, lines: &mut Vec<u8>, event: &Event, redeliveries: u32) -> serde_json::Result<()> {
        match self.format {
            Format::Event => serde_json::to_writer(&mut *lines, event)?,
            Format::Envelope => {
                serde_json::to_writer(&mut *lines, &EventEnvelope::of(&self.namespace, event, Some(redeliveries)))?;
            }
            Format::Cloudevents => serde_json::to_writer(&mut *lines, &CloudEvent::of(&self.namespace, event))?,
        }
        lines.push(b'\n');
        Ok(())
    }
}
