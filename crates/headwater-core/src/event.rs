//! The event: an immutable record of something that happened.

use std::collections::BTreeMap;

use chrono::{DateTime, SubsecRound, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{DecodeError, EventBuilder, EventData, Json, JsonError, StreamId};

/// An immutable record of something that happened, with its data decoded (`D`) or as JSON text.
///
/// The log decides `stream_version`, `global_sequence`, `recorded_at` and `transaction_id`. They
/// are `None` until the event is stored. Data that is `None` is stored as JSON `null`, and `null`
/// reads back as `None`.
///
/// In JSON, fields that are `None` and empty headers are left out. On input, `id`, `created_at` and
/// `schema_version` may be missing: they become a new UUIDv7, now and 1. `type` and `stream` are
/// accepted for `event_type` and `stream_id`.
///
/// ```
/// use headwater_core::Event;
/// use serde_json::json;
///
/// let placed = Event::raw("order.placed", json!({ "total": 5 })).into_builder().stream_id("order-1").build()?;
/// let paid = Event::builder().event_type("order.paid").json(json!({ "by": "card" })).caused_by(&placed).build()?;
/// assert_eq!(paid.correlation_id, Some(placed.id));
/// # Ok::<_, headwater_core::EventBuilderError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event<D = Json> {
    /// The event's unique id, a UUIDv7. An append that is retried with the same ids gets its first
    /// result.
    #[serde(default = "Uuid::now_v7")]
    pub id: Uuid,
    /// The stream that the event belongs to, if it belongs to one.
    #[serde(alias = "stream", skip_serializing_if = "Option::is_none")]
    pub stream_id: Option<StreamId>,
    /// The event's place in its stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream_version: Option<u64>,
    /// The event's type, such as `OrderPlaced` or `order.placed`.
    #[serde(alias = "type")]
    pub event_type: String,
    /// The schema version of the data.
    #[serde(default = "first_version")]
    pub schema_version: u32,
    /// The event's data. `None` is JSON `null`, and erased data is `null` too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<D>,
    /// The event's place in its namespace's log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub global_sequence: Option<u64>,
    /// The partition key: a subscriber handles events of the same key in order. Without a key, the
    /// stream is the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Who caused the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor_id: Option<String>,
    /// Shared by all events that follow from the same first cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<Uuid>,
    /// The id of the event or command that led directly to this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub causation_id: Option<Uuid>,
    /// Other values to pass on, such as `traceparent`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// When the event happened, by the producer's clock.
    #[serde(default = "now")]
    pub created_at: DateTime<Utc>,
    /// When the event was stored, by the database's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded_at: Option<DateTime<Utc>>,
    /// Tells which events the same transaction appended. It has no other meaning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transaction_id: Option<u64>,
}

/// The producer's clock in microseconds. PostgreSQL keeps microseconds, so a stored event equals
/// the one that was appended.
pub(crate) fn now() -> DateTime<Utc> {
    Utc::now().trunc_subsecs(6)
}

fn first_version() -> u32 {
    1
}

impl<D> Event<D> {
    /// The same event, in this stream.
    pub fn in_stream(mut self, stream_id: impl Into<StreamId>) -> Self {
        self.stream_id = Some(stream_id.into());
        self
    }

    /// A builder with nothing set.
    pub fn builder() -> EventBuilder<D> {
        EventBuilder::new()
    }

    /// A builder with everything set to the values of this event.
    pub fn into_builder(self) -> EventBuilder<D> {
        self.into()
    }

    fn new(event_type: String, schema_version: u32, data: Option<D>) -> Event<D> {
        Event {
            id: Uuid::now_v7(),
            stream_id: None,
            stream_version: None,
            event_type,
            schema_version,
            data,
            global_sequence: None,
            key: None,
            actor_id: None,
            correlation_id: None,
            causation_id: None,
            headers: BTreeMap::new(),
            created_at: now(),
            recorded_at: None,
            transaction_id: None,
        }
    }

    /// Replaces the data and moves all other fields over. Only this and `to_with_data` change an
    /// event's data type. Both name every field, so the compiler complains when a field is added.
    fn with_data<S>(self, data: Option<S>) -> Event<S> {
        Event {
            id: self.id,
            stream_id: self.stream_id,
            stream_version: self.stream_version,
            event_type: self.event_type,
            schema_version: self.schema_version,
            data,
            global_sequence: self.global_sequence,
            key: self.key,
            actor_id: self.actor_id,
            correlation_id: self.correlation_id,
            causation_id: self.causation_id,
            headers: self.headers,
            created_at: self.created_at,
            recorded_at: self.recorded_at,
            transaction_id: self.transaction_id,
        }
    }

    /// Like [`with_data`](Event::with_data), for a borrowed event: copies all fields except the
    /// data.
    fn to_with_data<S>(&self, data: Option<S>) -> Event<S> {
        Event {
            id: self.id,
            stream_id: self.stream_id.clone(),
            stream_version: self.stream_version,
            event_type: self.event_type.clone(),
            schema_version: self.schema_version,
            data,
            global_sequence: self.global_sequence,
            key: self.key.clone(),
            actor_id: self.actor_id.clone(),
            correlation_id: self.correlation_id,
            causation_id: self.causation_id,
            headers: self.headers.clone(),
            created_at: self.created_at,
            recorded_at: self.recorded_at,
            transaction_id: self.transaction_id,
        }
    }
}

impl<D: EventData> Event<D> {
    /// The same event with its data as JSON. Its event type and schema version stay as they are.
    pub fn encode(mut self) -> Result<Event<Json>, JsonError> {
        let data = self.data.take().map(|data| data.encode()).transpose()?;
        Ok(self.with_data(data.filter(|json| !json.is_null())))
    }

    /// The same event with a smaller data type, if that type holds the data.
    pub fn to_subset_event<S>(&self) -> Result<Event<S>, S::Error>
    where
        S: TryFrom<D>,
    {
        let data = self.data.clone().map(S::try_from).transpose()?;
        Ok(self.to_with_data(data))
    }

    /// The same event with a larger data type.
    pub fn to_superset_event<S>(&self) -> Event<S>
    where
        D: Into<S>,
    {
        self.to_with_data(self.data.clone().map(Into::into))
    }
}

impl Event<Json> {
    /// An event whose data has no Rust type of its own.
    pub fn raw(event_type: impl Into<String>, data: impl Into<Json>) -> Event<Json> {
        Event::new(event_type.into(), first_version(), Some(data.into()))
    }

    /// The data as it is stored, as text: `null` if there is none.
    pub fn data_text(&self) -> &str {
        self.data.as_ref().map_or("null", Json::as_str)
    }

    /// The same event with its data decoded.
    ///
    /// An event without data gets a value if its type can be made from `null`, such as a unit
    /// variant. Otherwise its data stays `None`: it was erased.
    pub fn decode<D: EventData>(self) -> Result<Event<D>, DecodeError> {
        let data = self.decode_data()?;
        Ok(self.with_data(data))
    }

    /// Like [`decode`](Event::decode), for a borrowed event.
    pub fn decode_ref<D: EventData>(&self) -> Result<Event<D>, DecodeError> {
        Ok(self.to_with_data(self.decode_data()?))
    }

    fn decode_data<D: EventData>(&self) -> Result<Option<D>, DecodeError> {
        match &self.data {
            Some(data) => D::decode(&self.event_type, self.schema_version, data).map(Some),
            None => match D::decode(&self.event_type, self.schema_version, &Json::null()) {
                Err(DecodeError::Payload { .. }) => Ok(None),
                made_of_null => made_of_null.map(Some),
            },
        }
    }
}

/// For functions that take both recorded and new events.
impl<D> AsRef<Event<D>> for Event<D> {
    fn as_ref(&self) -> &Event<D> {
        self
    }
}

/// A new event that happens now, with the type and schema version of its data.
impl<D: EventData> From<D> for Event<D> {
    fn from(data: D) -> Self {
        Event::new(data.event_type().to_owned(), data.schema_version(), Some(data))
    }
}
