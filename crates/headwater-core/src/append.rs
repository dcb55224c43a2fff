//! An append: events for one or more streams, or for none, stored all or none.

use std::collections::HashMap;

use chrono::Datelike;
use uuid::Uuid;

use crate::names::{check_actor_id, check_event_type, check_key, check_stream_id};
use crate::{AppendError, Event, ExpectedVersion, IntoEvent, JsonError, StreamId};

/// Events to append atomically, with the expected versions of their streams.
///
/// ```
/// # use headwater_core::{Append, Event, ExpectedVersion, Json};
/// # let paid = Event::raw("InvoicePaid", Json::null());
/// # let booked = Event::raw("AmountBooked", Json::null());
/// let transfer = Append::new()
///     .expect("invoice-7", ExpectedVersion::Exact(2))
///     .event(paid.in_stream("invoice-7"))
///     .event(booked.in_stream("account-1"));
/// assert_eq!(transfer.events().len(), 2);
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Append {
    events: Vec<Event>,
    expected: Vec<(StreamId, ExpectedVersion)>,
}

impl Append {
    /// An append without events.
    pub fn new() -> Self {
        Append::default()
    }

    /// Events for one stream: the common case.
    pub fn to_stream(
        stream_id: impl Into<StreamId>,
        expected: ExpectedVersion,
        events: impl IntoIterator<Item = Event>,
    ) -> Self {
        let stream_id = stream_id.into();
        let events = events.into_iter().map(|event| event.in_stream(stream_id.clone())).collect();
        Append { events, expected: vec![(stream_id, expected)] }
    }

    /// Adds an event after the events added before. It goes to the stream that it names, if it
    /// names one.
    pub fn event(mut self, event: Event) -> Self {
        self.events.push(event);
        self
    }

    /// Adds an event with typed data.
    pub fn typed(self, event: impl IntoEvent) -> Result<Self, JsonError> {
        Ok(self.event(event.into_event()?))
    }

    /// Expects a version of one of the streams. Without this, a stream may have any version.
    pub fn expect(mut self, stream_id: impl Into<StreamId>, expected: ExpectedVersion) -> Self {
        let stream_id = stream_id.into();
        self.expected.retain(|(stream, _)| *stream != stream_id);
        self.expected.push((stream_id, expected));
        self
    }

    /// The same events, each with `cause` as its cause.
    pub fn caused_by<C>(mut self, cause: &Event<C>) -> Self {
        for event in &mut self.events {
            event.causation_id = Some(cause.id);
            event.correlation_id = Some(cause.correlation_id.unwrap_or(cause.id));
        }
        self
    }

    /// The events, in order.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// The streams with their expected versions and their numbers of events, in order of first
    /// appearance.
    pub fn writes(&self) -> Vec<Write<'_>> {
        let mut writes: Vec<Write<'_>> = Vec::new();
        let mut places: HashMap<&StreamId, usize> = HashMap::new();
        for stream_id in self.events.iter().filter_map(|event| event.stream_id.as_ref()) {
            let place = *places.entry(stream_id).or_insert_with(|| {
                let expected = self.expected.iter().find(|(stream, _)| stream == stream_id);
                writes.push(Write { stream_id, expected: expected.map(|(_, e)| *e).unwrap_or_default(), count: 0 });
                writes.len() - 1
            });
            writes[place].count += 1;
        }
        writes
    }

    /// Checks names and limits before anything is sent.
    pub fn validate(&self, max_payload_bytes: usize) -> Result<(), AppendError> {
        let invalid = |message: String| Err(AppendError::InvalidInput(message));
        if self.events.is_empty() {
            return invalid("an append needs at least one event".into());
        }
        for (stream_id, _) in &self.expected {
            if !self.events.iter().any(|event| event.stream_id.as_ref() == Some(stream_id)) {
                return invalid(format!(
                    "a version of stream {stream_id:?} is expected, but none of the events is for it"
                ));
            }
        }
        let mut ids = std::collections::HashSet::new();
        for event in &self.events {
            check_event_type(&event.event_type)?;
            event.stream_id.as_deref().map(check_stream_id).transpose()?;
            event.key.as_deref().map(check_key).transpose()?;
            event.actor_id.as_deref().map(check_actor_id).transpose()?;
            if !(1..=i32::MAX as u32).contains(&event.schema_version) {
                return invalid(format!("invalid schema_version {}: it is 1 to {}", event.schema_version, i32::MAX));
            }
            if let Some((name, _)) =
                event.headers.iter().find(|(name, value)| name.contains('\0') || value.contains('\0'))
            {
                return invalid(format!("invalid header {name:?}: it holds a NUL character"));
            }
            if !(1..=9999).contains(&event.created_at.year()) {
                return invalid(format!(
                    "invalid created_at {}: it is a time of the years 1 to 9999",
                    event.created_at
                ));
            }
            let bytes = event.data.as_ref().map_or(4, |data| data.len());
            if bytes > max_payload_bytes {
                return Err(AppendError::PayloadTooLarge { bytes: bytes as u64, limit: max_payload_bytes as u64 });
            }
            if self.events.len() > 1 && !ids.insert(event.id) {
                return invalid(format!("event id {} appears twice in one append", event.id));
            }
        }
        Ok(())
    }

    /// Roughly how many bytes of memory the events take while they wait.
    pub fn weight(&self) -> usize {
        const PER_EVENT: usize = 256;
        let headers = |event: &Event| event.headers.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
        self.events.iter().map(|e| PER_EVENT + e.data.as_ref().map_or(0, |data| data.len()) + headers(e)).sum()
    }
}

impl From<Event> for Append {
    fn from(event: Event) -> Self {
        Append::new().event(event)
    }
}

/// The part of an append that goes to one stream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Write<'a> {
    /// The stream.
    pub stream_id: &'a StreamId,
    /// The expected version of the stream.
    pub expected: ExpectedVersion,
    /// The number of events for the stream.
    pub count: usize,
}

/// The result of an append: the events are durable, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Appended {
    /// The places of the events, in the order of the append.
    pub events: Vec<Placed>,
    /// Whether the append was made before with the same event ids. Then this is its first result.
    pub retried: bool,
}

impl Appended {
    /// The global_sequence of the last event. A reader that has reached it has seen this append.
    pub fn global_sequence(&self) -> u64 {
        self.events.last().map_or(0, |placed| placed.global_sequence)
    }

    /// The last stream_version given, if the last event belongs to a stream.
    pub fn stream_version(&self) -> Option<u64> {
        self.events.last().and_then(|placed| placed.stream_version)
    }
}

/// Where an event was placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// The event's id.
    pub id: Uuid,
    /// The event's place in the log.
    pub global_sequence: u64,
    /// The event's place in its stream, if it belongs to one.
    pub stream_version: Option<u64>,
}
