//! Laws of an event's fields: an event reads back as it was appended.

use chrono::{DateTime, SubsecRound, TimeZone, Utc};
use headwater_core::{Event, Json, RecordedEvent};
use serde_json::json;
use uuid::Uuid;

use crate::TestLog;
use crate::support::{event, invalid, same_meaning, stored, whole_log};

async fn read_back(log: &TestLog, given: Event) -> RecordedEvent {
    stored(log, given.clone().into()).await;
    let read = log.event(given.id).await.expect("the event must be readable").expect("the event is stored");
    assert_eq!(whole_log(log).await.last(), Some(&read), "both ways to read it agree");
    read
}

fn moment() -> DateTime<Utc> {
    Utc.timestamp_opt(1_700_000_000, 123_456_000).unwrap()
}

pub(crate) async fn every_field_survives(log: &TestLog) {
    let given = Event::builder()
        .id(Uuid::now_v7())
        .stream_id("order-1")
        .event_type("order.placed")
        .schema_version(i32::MAX as u32)
        .json(json!({ "total": 5, "lines": [{ "sku": "A" }] }))
        .key("customer-1")
        .actor_id("user-1")
        .correlation_id(Uuid::now_v7())
        .causation_id(Uuid::now_v7())
        .traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
        .header("tenant", "acme")
        .created_at(moment())
        .build()
        .unwrap();
    let read = read_back(log, given.clone()).await;
    assert!(same_meaning(&read, &given), "{read:?} is not {given:?}");
    assert_eq!(read.stream_version, Some(1));
    assert!(read.global_sequence.is_some() && read.transaction_id.is_some() && read.recorded_at.is_some());
}

pub(crate) async fn what_is_not_set_stays_unset(log: &TestLog) {
    let given = Event::builder().event_type("Happened").build().unwrap();
    let read = read_back(log, given.clone()).await;
    let expected = Event {
        global_sequence: read.global_sequence,
        recorded_at: read.recorded_at,
        transaction_id: read.transaction_id,
        ..given
    };
    assert_eq!(*read, expected);
    assert_eq!((read.schema_version, &read.data, &read.stream_id), (1, &None, &None));
}

pub(crate) async fn headers_survive(log: &TestLog) {
    let headers =
        [("", "nameless"), ("empty", ""), ("quo\"te\\", "line\nbreak\ttab"), ("größe", "数 😀"), ("null", "null")];
    let given = event("Happened").into_builder().headers(headers).build().unwrap();
    assert_eq!(read_back(log, given.clone()).await.headers, given.headers);
}

pub(crate) async fn places_given_by_the_caller_are_ignored(log: &TestLog) {
    let mut given = event("Happened");
    given.stream_version = Some(7);
    given.global_sequence = Some(1_000);
    given.recorded_at = Some(moment());
    given.transaction_id = Some(u64::MAX);
    let read = read_back(log, given).await;
    assert_eq!(read.stream_version, None);
    assert_ne!(read.global_sequence, Some(1_000));
    assert_ne!(read.recorded_at, Some(moment()));
    assert_ne!(read.transaction_id, Some(u64::MAX));
}

pub(crate) async fn times_are_kept_in_microseconds(log: &TestLog) {
    let fine = moment() + chrono::TimeDelta::nanoseconds(999);
    let given = Event::raw("Happened", Json::null()).into_builder().created_at(fine).build().unwrap();
    assert_eq!(read_back(log, given).await.created_at, moment());
}

/// A log accepts only times of the years 1 to 9999.
pub(crate) async fn times_before_all_calendars_are_refused(log: &TestLog) {
    let first = Utc.with_ymd_and_hms(1, 1, 1, 0, 0, 0).unwrap();
    let at = |created_at| Event { created_at, ..event("Happened") };
    assert_eq!(read_back(log, at(first)).await.created_at, first);
    invalid(log.append(at(first - chrono::TimeDelta::microseconds(1)).into()).await);
    invalid(log.append(at(DateTime::<Utc>::MIN_UTC).into()).await);
    let last = Utc.with_ymd_and_hms(9999, 12, 31, 23, 59, 59).unwrap();
    assert_eq!(read_back(log, at(last)).await.created_at, last);
    invalid(log.append(at(DateTime::<Utc>::MAX_UTC.trunc_subsecs(6)).into()).await);
}
