//! Events that were read from a log.

use std::ops::Deref;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

use crate::{DecodeError, Event, EventData, InvalidSequence, Json, JsonError, Sequence};

/// An event that was read from a log, so its place in the log and its time there are known.
///
/// Everything that is read or delivered is a `RecordedEvent`. It derefs to the [`Event`], which has
/// the other fields, and it has the same JSON. It cannot be changed: take the event out with
/// [`into_event`](RecordedEvent::into_event).
///
/// ```
/// use headwater_core::{Event, RecordedEvent};
/// use serde_json::json;
///
/// let new = Event::raw("order.placed", json!({ "total": 5 }));
/// let refused = RecordedEvent::new(new.clone()).unwrap_err();
/// assert!(refused.to_string().ends_with("it has no global_sequence"));
///
/// let stored = Event { global_sequence: Some(7), recorded_at: Some(new.created_at), ..new };
/// let event = RecordedEvent::new(stored)?;
/// assert_eq!(event.sequence(), 7);
/// assert_eq!(event.event_type, "order.placed");
/// # Ok::<_, headwater_core::NotRecorded>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedEvent<D = Json> {
    event: Event<D>,
    place: Place,
}

/// The event's fields of the same names, checked. Nothing changes the event, so they stay equal.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Place {
    sequence: Sequence,
    stream_version: Option<Sequence>,
    recorded_at: DateTime<Utc>,
}

/// Why an [`Event`] is not a [`RecordedEvent`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotRecorded {
    /// The event lacks a field that every event in a log has.
    #[error("event {event_id} was not read from a log: it has no {field}")]
    Missing {
        /// The event.
        event_id: Uuid,
        /// The field that it lacks.
        field: &'static str,
    },
    /// The event has a number that no log counts to.
    #[error("event {event_id} was not read from a log: its {field} is an {number}")]
    Invalid {
        /// The event.
        event_id: Uuid,
        /// The field that has the number.
        field: &'static str,
        /// The number and its valid range.
        number: InvalidSequence,
    },
}

impl<D> RecordedEvent<D> {
    /// Checks that the event has the fields of every event in a log: a `global_sequence` and a
    /// `recorded_at`, and a `stream_version` exactly if it belongs to a stream.
    pub fn new(event: Event<D>) -> Result<Self, NotRecorded> {
        let event_id = event.id;
        let missing = |field| NotRecorded::Missing { event_id, field };
        let checked = |field, number: Option<u64>| {
            let number = number.map(Sequence::try_from).transpose();
            number.map_err(|number| NotRecorded::Invalid { event_id, field, number })
        };
        let sequence = checked("global_sequence", event.global_sequence)?;
        let stream_version = checked("stream_version", event.stream_version)?;
        match (&event.stream_id, stream_version) {
            (Some(_), None) => return Err(missing("stream_version")),
            (None, Some(_)) => return Err(missing("stream_id")),
            (Some(_), Some(_)) | (None, None) => {}
        }
        let place = Place {
            sequence: sequence.ok_or_else(|| missing("global_sequence"))?,
            stream_version,
            recorded_at: event.recorded_at.ok_or_else(|| missing("recorded_at"))?,
        };
        Ok(RecordedEvent { event, place })
    }

    /// The event's place in its namespace's log.
    pub fn sequence(&self) -> Sequence {
        self.place.sequence
    }

    /// The event's place in its stream. `None`: it belongs to no stream.
    pub fn stream_version(&self) -> Option<Sequence> {
        self.place.stream_version
    }

    /// When the event was stored, by the database's clock.
    pub fn recorded_at(&self) -> DateTime<Utc> {
        self.place.recorded_at
    }

    /// The event, to change it or to append it again.
    pub fn into_event(self) -> Event<D> {
        self.event
    }

    /// The event's data. `None` is JSON `null`, as in [`Event::data`].
    pub fn into_data(self) -> Option<D> {
        self.event.data
    }
}

impl<D: EventData> RecordedEvent<D> {
    /// The same event with its data as JSON: see [`Event::encode`].
    pub fn encode(self) -> Result<RecordedEvent<Json>, JsonError> {
        Ok(RecordedEvent { event: self.event.encode()?, place: self.place })
    }

    /// The same event with a smaller data type, if that type holds the data.
    pub fn to_subset_event<S>(&self) -> Result<RecordedEvent<S>, S::Error>
    where
        S: TryFrom<D>,
    {
        Ok(RecordedEvent { event: self.event.to_subset_event()?, place: self.place })
    }

    /// The same event with a larger data type.
    pub fn to_superset_event<S>(&self) -> RecordedEvent<S>
    where
        D: Into<S>,
    {
        RecordedEvent { event: self.event.to_superset_event(), place: self.place }
    }
}

impl RecordedEvent<Json> {
    /// The same event with its data decoded: see [`Event::decode`].
    pub fn decode<D: EventData>(self) -> Result<RecordedEvent<D>, DecodeError> {
        Ok(RecordedEvent { event: self.event.decode()?, place: self.place })
    }

    /// Like [`decode`](RecordedEvent::decode), for a borrowed event.
    pub fn decode_ref<D: EventData>(&self) -> Result<RecordedEvent<D>, DecodeError> {
        Ok(RecordedEvent { event: self.event.decode_ref()?, place: self.place })
    }
}

impl<D> Deref for RecordedEvent<D> {
    type Target = Event<D>;

    fn deref(&self) -> &Event<D> {
        &self.event
    }
}

impl<D> AsRef<Event<D>> for RecordedEvent<D> {
    fn as_ref(&self) -> &Event<D> {
        &self.event
    }
}

impl<D> TryFrom<Event<D>> for RecordedEvent<D> {
    type Error = NotRecorded;

    fn try_from(event: Event<D>) -> Result<Self, NotRecorded> {
        RecordedEvent::new(event)
    }
}

impl<D> From<RecordedEvent<D>> for Event<D> {
    fn from(recorded: RecordedEvent<D>) -> Self {
        recorded.event
    }
}

impl<D: Serialize> Serialize for RecordedEvent<D> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.event.serialize(serializer)
    }
}

impl<'de, D: Deserialize<'de>> Deserialize<'de> for RecordedEvent<D> {
    fn deserialize<S: Deserializer<'de>>(deserializer: S) -> Result<Self, S::Error> {
        RecordedEvent::new(Event::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::event::now;

    fn stored() -> Event {
        Event {
            global_sequence: Some(7),
            recorded_at: Some(now()),
            ..Event::raw("order.placed", json!({ "total": 5 }))
        }
    }

    fn refused(event: Event) -> &'static str {
        let event_id = event.id;
        match RecordedEvent::new(event) {
            Err(
                NotRecorded::Missing { event_id: named, field } | NotRecorded::Invalid { event_id: named, field, .. },
            ) => {
                assert_eq!(named, event_id);
                field
            }
            Ok(event) => panic!("{event:?} was taken"),
        }
    }

    #[test]
    fn an_event_that_lacks_its_place_is_refused_and_the_field_is_named() {
        assert_eq!(refused(Event { global_sequence: None, ..stored() }), "global_sequence");
        assert_eq!(refused(Event { recorded_at: None, ..stored() }), "recorded_at");
        assert_eq!(refused(stored().in_stream("order-1")), "stream_version");
        assert_eq!(refused(Event { stream_version: Some(3), ..stored() }), "stream_id");
        assert_eq!(refused(Event { global_sequence: Some(u64::MAX), ..stored() }), "global_sequence");
        assert_eq!(refused(Event { stream_version: Some(u64::MAX), ..stored() }), "stream_version");

        let event = Event { global_sequence: None, ..stored() };
        let expected = format!("event {} was not read from a log: it has no global_sequence", event.id);
        assert_eq!(RecordedEvent::try_from(event).unwrap_err().to_string(), expected);
        let event = Event { global_sequence: Some(u64::MAX), ..stored() };
        let expected = format!(
            "event {} was not read from a log: its global_sequence is an invalid sequence 18446744073709551615: a \
             sequence is 0 to 9223372036854775807",
            event.id
        );
        assert_eq!(RecordedEvent::new(event).unwrap_err().to_string(), expected);
    }

    #[test]
    fn it_has_the_events_places_and_all_its_other_fields() {
        let event = stored();
        let recorded = RecordedEvent::new(event.clone()).unwrap();
        assert_eq!((recorded.sequence(), recorded.stream_version()), (Sequence::saturating(7), None));
        assert_eq!(Some(recorded.recorded_at()), event.recorded_at);
        assert_eq!((recorded.event_type.as_str(), recorded.global_sequence), ("order.placed", Some(7)));
        assert_eq!((recorded.data_text(), &*recorded), (r#"{"total":5}"#, &event));
        assert_eq!(recorded.into_event(), event);

        let event = Event { stream_version: Some(3), ..stored() }.in_stream("order-1");
        let recorded = RecordedEvent::new(event).unwrap();
        assert_eq!(recorded.stream_version(), Some(Sequence::saturating(3)));
    }

    #[test]
    fn in_json_it_is_the_event() {
        let event = Event { stream_version: Some(3), ..stored() }.in_stream("order-1");
        let recorded = RecordedEvent::new(event.clone()).unwrap();
        let text = serde_json::to_string(&recorded).unwrap();
        assert_eq!(text, serde_json::to_string(&event).unwrap());
        assert_eq!(serde_json::from_str::<RecordedEvent>(&text).unwrap(), recorded);

        let unplaced = serde_json::to_string(&Event { recorded_at: None, ..event }).unwrap();
        let error = serde_json::from_str::<RecordedEvent>(&unplaced).unwrap_err().to_string();
        assert!(error.contains("it has no recorded_at"), "{error}");
    }

    #[test]
    fn it_may_be_the_cause_of_another_event() {
        let cause = std::sync::Arc::new(RecordedEvent::new(stored()).unwrap());
        let effect = Event::<Json>::builder().event_type("order.paid").caused_by(&cause).build().unwrap();
        assert_eq!(effect.causation_id, Some(cause.id));
    }
}
