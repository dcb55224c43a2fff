//! Helpers that the laws share: events to append, reads of everything, and comparisons.

use std::ops::Deref;

use futures::TryStreamExt;
use headwater_core::{
    Append, AppendError, Appended, Event, EventLog, ExpectedVersion, LogQuery, ReadError, RecordedEvent, StreamId,
    StreamQuery,
};
use serde_json::{Value, json};
use uuid::Uuid;

/// An event whose data is an empty object.
pub(crate) fn event(event_type: &str) -> Event {
    Event::raw(event_type, json!({}))
}

/// Events `E1`, `E2`, …
pub(crate) fn events(count: usize) -> Vec<Event> {
    (1..=count).map(|number| event(&format!("E{number}"))).collect()
}

pub(crate) fn to_stream(stream_id: &str, expected: ExpectedVersion, count: usize) -> Append {
    Append::to_stream(stream_id, expected, events(count))
}

/// One event for each named stream, in this order. `""`: an event without a stream.
pub(crate) fn interleaved(streams: &[&str]) -> Append {
    streams.iter().fold(Append::new(), |append, stream| {
        append.event(match *stream {
            "" => event("Emitted"),
            stream => event("Happened").in_stream(stream),
        })
    })
}

/// Any handle of a log.
pub trait Opened: Deref<Target = dyn EventLog> {}

impl<T: Deref<Target = dyn EventLog>> Opened for T {}

/// Appends events; the append must succeed.
pub(crate) async fn stored(log: &impl Opened, append: Append) -> Appended {
    log.append(append).await.expect("this append must pass")
}

/// Gives a stream its first events.
pub(crate) async fn fill(log: &impl Opened, stream_id: &str, count: usize) -> Appended {
    stored(log, to_stream(stream_id, ExpectedVersion::NoStream, count)).await
}

pub(crate) async fn log_of(log: &impl Opened, query: LogQuery) -> Vec<RecordedEvent> {
    log.read_log(query).try_collect().await.expect("the log must be readable")
}

pub(crate) async fn whole_log(log: &impl Opened) -> Vec<RecordedEvent> {
    log_of(log, LogQuery::default()).await
}

pub(crate) async fn stream_of(log: &impl Opened, query: impl Into<StreamQuery>) -> Vec<RecordedEvent> {
    log.read_stream(query.into()).try_collect().await.expect("the stream must be readable")
}

pub(crate) fn ids(events: &[impl AsRef<Event>]) -> Vec<Uuid> {
    events.iter().map(|event| event.as_ref().id).collect()
}

pub(crate) fn types(events: &[impl AsRef<Event>]) -> Vec<&str> {
    events.iter().map(|event| event.as_ref().event_type.as_str()).collect()
}

pub(crate) fn sequences(appended: &Appended) -> Vec<u64> {
    appended.events.iter().map(|placed| placed.global_sequence).collect()
}

pub(crate) fn versions(appended: &Appended) -> Vec<Option<u64>> {
    appended.events.iter().map(|placed| placed.stream_version).collect()
}

pub(crate) fn is_increasing(sequences: &[u64]) -> bool {
    sequences.is_sorted_by(|a, b| a < b)
}

/// Whether a stored event equals the given one. Fields that the log decides are not compared. Data
/// is compared by its meaning, because jsonb changes the formatting.
pub fn same_meaning(stored: &Event, given: &Event) -> bool {
    let meaning = |event: &Event| event.data.as_ref().map(|data| data.decode::<Value>().expect("data is JSON"));
    let comparable = |event: &Event| Event {
        stream_version: None,
        global_sequence: None,
        recorded_at: None,
        transaction_id: None,
        data: None,
        ..event.clone()
    };
    comparable(stored) == comparable(given)
        && meaning(stored).unwrap_or(Value::Null) == meaning(given).unwrap_or(Value::Null)
}

#[track_caller]
pub(crate) fn assert_none<T: std::fmt::Debug>(found: Vec<T>) {
    assert!(found.is_empty(), "expected nothing, got {found:?}");
}

#[track_caller]
pub(crate) fn conflict(result: Result<Appended, AppendError>) -> (StreamId, ExpectedVersion, u64) {
    match result {
        Err(AppendError::Conflict { stream_id, expected, actual }) => (stream_id, expected, actual),
        other => panic!("expected a conflict, got {other:?}"),
    }
}

#[track_caller]
pub(crate) fn reused(result: Result<Appended, AppendError>) -> Uuid {
    match result {
        Err(AppendError::IdReused { event_id }) => event_id,
        other => panic!("expected a reused id, got {other:?}"),
    }
}

#[track_caller]
pub(crate) fn invalid(result: Result<Appended, AppendError>) -> String {
    match result {
        Err(AppendError::InvalidInput(message)) => message,
        other => panic!("expected invalid input, got {other:?}"),
    }
}

#[track_caller]
pub(crate) fn invalid_read<T: std::fmt::Debug>(result: Result<T, ReadError>) -> String {
    match result {
        Err(ReadError::InvalidInput(message)) => message,
        other => panic!("expected invalid input, got {other:?}"),
    }
}
