//! Building an event field by field.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::event::now;
use crate::{Event, EventData, Json, StreamId};

/// The header that carries the W3C trace context.
const TRACEPARENT: &str = "traceparent";

/// Builds an [`Event`]. A field that is not set gets the value of a new event: a UUIDv7, now,
/// schema version 1, or nothing.
#[derive(Debug)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct EventBuilder<D = Json> {
    id: Option<Uuid>,
    stream_id: Option<StreamId>,
    stream_version: Option<u64>,
    event_type: Option<String>,
    schema_version: Option<u32>,
    /// The event type and schema version of `data`. Values that were set by name win over them.
    of_data: Option<(String, u32)>,
    data: Option<D>,
    global_sequence: Option<u64>,
    key: Option<String>,
    actor_id: Option<String>,
    correlation_id: Option<Uuid>,
    causation_id: Option<Uuid>,
    headers: BTreeMap<String, String>,
    created_at: Option<DateTime<Utc>>,
    recorded_at: Option<DateTime<Utc>>,
    transaction_id: Option<u64>,
}

/// Why an event cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EventBuilderError {
    /// Neither `event_type` nor `data` was set.
    #[error("failed to build the event: it has no event type; call `event_type`, or `data` with a value that has one")]
    MissingEventType,
}

impl<D> EventBuilder<D> {
    /// A builder with nothing set.
    pub fn new() -> Self {
        EventBuilder {
            id: None,
            stream_id: None,
            stream_version: None,
            event_type: None,
            schema_version: None,
            of_data: None,
            data: None,
            global_sequence: None,
            key: None,
            actor_id: None,
            correlation_id: None,
            causation_id: None,
            headers: BTreeMap::new(),
            created_at: None,
            recorded_at: None,
            transaction_id: None,
        }
    }

    /// Sets the event's id. Give the same id to a retry of the same append.
    pub fn id(mut self, id: Uuid) -> Self {
        self.id = Some(id);
        self
    }

    /// Sets the stream.
    pub fn stream_id(mut self, stream_id: impl Into<StreamId>) -> Self {
        self.stream_id = Some(stream_id.into());
        self
    }

    /// Sets the place in the stream. The log decides it when the event is appended.
    pub fn stream_version(mut self, stream_version: u64) -> Self {
        self.stream_version = Some(stream_version);
        self
    }

    /// Sets the event type. It wins over the type of the data.
    pub fn event_type(mut self, event_type: impl Into<String>) -> Self {
        self.event_type = Some(event_type.into());
        self
    }

    /// Sets the schema version. It wins over the version of the data.
    pub fn schema_version(mut self, schema_version: u32) -> Self {
        self.schema_version = Some(schema_version);
        self
    }

    /// Sets the place in the log. The log decides it when the event is appended.
    pub fn global_sequence(mut self, global_sequence: u64) -> Self {
        self.global_sequence = Some(global_sequence);
        self
    }

    /// Sets the partition key.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets who caused the event.
    pub fn actor_id(mut self, actor_id: impl Into<String>) -> Self {
        self.actor_id = Some(actor_id.into());
        self
    }

    /// Sets the id that all events with the same first cause share.
    pub fn correlation_id(mut self, correlation_id: Uuid) -> Self {
        self.correlation_id = Some(correlation_id);
        self
    }

    /// Sets the id of the event or command that led directly to this event.
    pub fn causation_id(mut self, causation_id: Uuid) -> Self {
        self.causation_id = Some(causation_id);
        self
    }

    /// Says that `cause` led to this event. The causation id becomes the id of `cause`. The
    /// correlation id is copied from `cause`. If `cause` has none, it is the first cause, and its
    /// id becomes the correlation id.
    pub fn caused_by<C>(mut self, cause: &Event<C>) -> Self {
        self.causation_id = Some(cause.id);
        self.correlation_id = Some(cause.correlation_id.unwrap_or(cause.id));
        self
    }

    /// Adds a header. It replaces a header with the same name.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// Sets all headers. They replace the headers set before.
    pub fn headers<K, V>(mut self, headers: impl IntoIterator<Item = (K, V)>) -> Self
    where
        K: Into<String>,
        V: Into<String>,
    {
        self.headers = headers.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        self
    }

    /// Adds the header `traceparent`, the W3C trace context.
    pub fn traceparent(self, value: impl Into<String>) -> Self {
        self.header(TRACEPARENT, value)
    }

    /// Sets when the event happened. PostgreSQL keeps microseconds.
    pub fn created_at(mut self, created_at: DateTime<Utc>) -> Self {
        self.created_at = Some(created_at);
        self
    }

    /// Sets when the event was stored. The database decides it when the event is appended.
    pub fn recorded_at(mut self, recorded_at: DateTime<Utc>) -> Self {
        self.recorded_at = Some(recorded_at);
        self
    }

    /// Sets the appending transaction. The database decides it when the event is appended.
    pub fn transaction_id(mut self, transaction_id: u64) -> Self {
        self.transaction_id = Some(transaction_id);
        self
    }

    /// Builds the event. Fails if it has no event type.
    pub fn build(self) -> Result<Event<D>, EventBuilderError> {
        let (type_of_data, version_of_data) = self.of_data.unzip();
        Ok(Event {
            id: self.id.unwrap_or_else(Uuid::now_v7),
            stream_id: self.stream_id,
            stream_version: self.stream_version,
            event_type: self.event_type.or(type_of_data).ok_or(EventBuilderError::MissingEventType)?,
            schema_version: self.schema_version.or(version_of_data).unwrap_or(1),
            data: self.data,
            global_sequence: self.global_sequence,
            key: self.key,
            actor_id: self.actor_id,
            correlation_id: self.correlation_id,
            causation_id: self.causation_id,
            headers: self.headers,
            created_at: self.created_at.unwrap_or_else(now),
            recorded_at: self.recorded_at,
            transaction_id: self.transaction_id,
        })
    }
}

impl<D: EventData> EventBuilder<D> {
    /// Sets the data. This also sets the event type and schema version, unless they are set by
    /// name.
    pub fn data(mut self, data: D) -> Self {
        self.of_data = Some((data.event_type().to_owned(), data.schema_version()));
        self.data = Some(data);
        self
    }
}

impl EventBuilder<Json> {
    /// Sets the data; the event type must be set too.
    pub fn json(mut self, data: impl Into<Json>) -> Self {
        self.data = Some(data.into());
        self
    }
}

impl<D> Default for EventBuilder<D> {
    fn default() -> Self {
        EventBuilder::new()
    }
}

impl<D> From<Event<D>> for EventBuilder<D> {
    fn from(event: Event<D>) -> Self {
        let Event {
            id,
            stream_id,
            stream_version,
            event_type,
            schema_version,
            data,
            global_sequence,
            key,
            actor_id,
            correlation_id,
            causation_id,
            headers,
            created_at,
            recorded_at,
            transaction_id,
        } = event;
        EventBuilder {
            id: Some(id),
            stream_id,
            stream_version,
            event_type: None,
            schema_version: None,
            // These do not count as set by name: other data given to this builder brings its own
            // type.
            of_data: Some((event_type, schema_version)),
            data,
            global_sequence,
            key,
            actor_id,
            correlation_id,
            causation_id,
            headers,
            created_at: Some(created_at),
            recorded_at,
            transaction_id,
        }
    }
}
