//! The trait of event types that can be stored and read back.

use std::fmt::Debug;

use crate::{Json, JsonError};

/// The data of events: one Rust type, most often an enum, that holds one or more event types.
///
/// Derive it. The derive macro also requires serde's `Serialize` and `Deserialize`. It names each
/// event type after its variant (or `#[event(type = "order.placed")]`). It stores only the
/// variant's content, without a tag, because the event carries its type beside the data.
pub trait EventData: Clone + Debug + Send + Sync + 'static {
    /// Every event type that this data type can hold, in order of declaration.
    const EVENT_TYPES: &'static [&'static str];

    /// The event type of this value.
    fn event_type(&self) -> &'static str;

    /// The schema version of this value. Increase it when a change would make old readers misread
    /// the data.
    fn schema_version(&self) -> u32 {
        1
    }

    /// Encodes the payload, without the type: see [`event_type`](EventData::event_type).
    fn encode(&self) -> Result<Json, JsonError>;

    /// Reverses [`encode`](EventData::encode), given the event's type and schema version.
    fn decode(event_type: &str, schema_version: u32, data: &Json) -> Result<Self, DecodeError>;
}

/// Why a stored event could not become a value of the requested type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The data type does not hold this event type.
    #[error("unknown event type {event_type:?}: expected one of {expected:?}")]
    UnknownType {
        /// The event's type.
        event_type: String,
        /// The types that the data type holds.
        expected: &'static [&'static str],
    },
    /// The event was written by newer code, with a schema version that this code does not know.
    #[error(
        "event type {event_type:?} has schema version {found}, this program knows up to {known}: \
         update it, or decode the raw event"
    )]
    NewerSchema {
        /// The event's type.
        event_type: String,
        /// The event's schema version.
        found: u32,
        /// The highest version that the data type knows.
        known: u32,
    },
    /// The payload does not fit the data type.
    #[error("failed to decode the data of event type {event_type:?}: {source}")]
    Payload {
        /// The event's type.
        event_type: String,
        /// What does not fit, and where.
        source: JsonError,
    },
}

/// The value of a larger type does not belong to the subset: the error of the generated `TryFrom`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event type {event_type:?} is not in {subset}")]
pub struct NotInSubset {
    /// The event type of the value.
    pub event_type: String,
    /// The name of the subset's Rust type.
    pub subset: &'static str,
}
