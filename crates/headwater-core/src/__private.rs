//! Functions for code that Headwater's macros generate. This is not public API: it changes without
//! notice.

pub use serde;

pub use crate::{DecodeError, JsonError, NotInSubset};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{EventData, Json};

/// The facts about one event type that the macro read from its declaration.
pub struct Shape {
    /// serde's tag: the variant's name.
    pub tag: &'static str,
    /// Whether the variant has no content.
    pub is_unit: bool,
    /// The schema version of the event type.
    pub schema_version: u32,
}

/// [`EventData::encode`] of an enum.
pub fn encode_variant<T: Serialize>(value: &T, tag: &str) -> Result<Json, JsonError> {
    Json::encode_variant(value, tag)
}

/// [`EventData::decode`] of an enum, for the variant that the event type named.
pub fn decode_variant<T: DeserializeOwned>(
    event_type: &str,
    schema_version: u32,
    shape: Shape,
    data: &Json,
) -> Result<T, DecodeError> {
    check_version(event_type, schema_version, &shape)?;
    data.decode_variant(shape.tag, shape.is_unit).map_err(|source| payload(event_type, source))
}

/// [`EventData::decode`] of a struct.
pub fn decode_struct<T: DeserializeOwned>(
    event_type: &str,
    schema_version: u32,
    shape: Shape,
    data: &Json,
) -> Result<T, DecodeError> {
    check_version(event_type, schema_version, &shape)?;
    let decoded = if shape.is_unit && data.as_str() == "{}" { Json::null().decode() } else { data.decode() };
    decoded.map_err(|source| payload(event_type, source))
}

/// The [`EventData::decode`] error for an event type that `T` does not have.
pub fn unknown_type<T: EventData>(event_type: &str) -> DecodeError {
    DecodeError::UnknownType { event_type: event_type.to_owned(), expected: T::EVENT_TYPES }
}

/// The error of a subset's `TryFrom`.
pub fn not_in_subset<T: EventData>(value: &T, subset: &'static str) -> NotInSubset {
    NotInSubset { event_type: value.event_type().to_owned(), subset }
}

/// Whether `types` holds `name`. It is const, so that a subset is compared with its superset at
/// compile time.
pub const fn holds(types: &[&str], name: &str) -> bool {
    let mut at = 0;
    while at < types.len() {
        if same(types[at].as_bytes(), name.as_bytes()) {
            return true;
        }
        at += 1;
    }
    false
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

fn check_version(event_type: &str, found: u32, shape: &Shape) -> Result<(), DecodeError> {
    let known = shape.schema_version;
    if found > known {
        return Err(DecodeError::NewerSchema { event_type: event_type.to_owned(), found, known });
    }
    Ok(())
}

fn payload(event_type: &str, source: JsonError) -> DecodeError {
    DecodeError::Payload { event_type: event_type.to_owned(), source }
}
