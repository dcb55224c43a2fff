//! Laws of limits: a value that cannot be stored or queried is refused at once and named.

use headwater_core::names::{MAX_EVENT_TYPE_BYTES, MAX_KEY_BYTES, MAX_STREAM_ID_BYTES};
use headwater_core::{
    Append, AppendError, DEFAULT_MAX_PAYLOAD_BYTES, Event, Json, LogQuery, MAX_PAGE_SIZE, StreamQuery,
};

use crate::TestLog;
use crate::support::{
    assert_none, event, fill, interleaved, invalid, invalid_read, log_of, stored, stream_of, whole_log,
};

/// Tries names in one field of an event.
async fn names_are_checked(log: &TestLog, field: &str, most: usize, with: impl Fn(Event, String) -> Event) {
    let passing =
        ["a".into(), "a".repeat(most), "ü".repeat(most / 2), " ".into(), "a b/c:d\\e'f\"%_".into(), "\u{85}".into()];
    for name in passing {
        let given = with(event("E"), name);
        stored(log, given.clone().into()).await;
        let read = log.event(given.id).await.unwrap().unwrap();
        assert_eq!(
            (&read.stream_id, &read.event_type, &read.key, &read.actor_id),
            (&given.stream_id, &given.event_type, &given.key, &given.actor_id)
        );
    }
    let before = whole_log(log).await;
    let too_long_in_bytes = "ü".repeat(most / 2 + 1);
    for name in ["", "\0", "a\0b", "a\nb", "\t", "\u{1b}[0m", "\u{7f}", &"a".repeat(most + 1), &too_long_in_bytes] {
        let message = invalid(log.append(with(event("E"), name.into()).into()).await);
        assert!(message.contains(field), "{message}");
    }
    assert_eq!(whole_log(log).await, before);
}

pub(crate) async fn stream_ids_are_checked(log: &TestLog) {
    names_are_checked(log, "stream_id", MAX_STREAM_ID_BYTES, |event, name| event.in_stream(name)).await;
}

pub(crate) async fn event_types_are_checked(log: &TestLog) {
    names_are_checked(log, "event_type", MAX_EVENT_TYPE_BYTES, |event, name| Event { event_type: name, ..event }).await;
}

pub(crate) async fn keys_are_checked(log: &TestLog) {
    names_are_checked(log, "key", MAX_KEY_BYTES, |event, name| Event { key: Some(name), ..event }).await;
}

pub(crate) async fn actor_ids_are_checked(log: &TestLog) {
    names_are_checked(log, "actor_id", MAX_KEY_BYTES, |event, name| Event { actor_id: Some(name), ..event }).await;
}

pub(crate) async fn schema_versions_are_checked(log: &TestLog) {
    for schema_version in [0, i32::MAX as u32 + 1, u32::MAX] {
        let message = invalid(log.append(Event { schema_version, ..event("E") }.into()).await);
        assert!(message.contains(&schema_version.to_string()), "{message}");
    }
    stored(log, Event { schema_version: 2, ..event("E") }.into()).await;
}

pub(crate) async fn headers_with_nul_are_refused(log: &TestLog) {
    for (name, value) in [("a\0", "b"), ("a", "b\0")] {
        let given = event("E").into_builder().header(name, value).build().unwrap();
        invalid(log.append(given.into()).await);
    }
    assert_none(whole_log(log).await);
}

pub(crate) async fn payloads_up_to_the_limit_pass(log: &TestLog) {
    let limit = DEFAULT_MAX_PAYLOAD_BYTES as usize;
    // The limit counts bytes, not characters, and includes the quotes.
    let of_bytes = |bytes: usize| Json::encode(&format!("ü{}", "a".repeat(bytes - 4))).unwrap();
    let given = Event::raw("Large", of_bytes(limit));
    stored(log, given.clone().into()).await;
    assert_eq!(log.event(given.id).await.unwrap().unwrap().data, given.data);
    match log.append(Event::raw("TooLarge", of_bytes(limit + 1)).into()).await {
        Err(AppendError::PayloadTooLarge { bytes, limit: said }) => {
            assert_eq!((bytes, said), (limit as u64 + 1, limit as u64));
        }
        other => panic!("expected a payload too large, got {other:?}"),
    }
}

pub(crate) async fn a_refused_append_stores_nothing(log: &TestLog) {
    let wrong = Event { schema_version: 0, ..event("Wrong") };
    let append = interleaved(&["a", ""]).event(wrong).event(event("E").in_stream("b"));
    invalid(log.append(append).await);
    let large = Event::raw("TooLarge", Json::encode(&"a".repeat(DEFAULT_MAX_PAYLOAD_BYTES as usize)).unwrap());
    let append = Append::new().event(event("E").in_stream("a")).event(large);
    assert!(matches!(log.append(append).await, Err(AppendError::PayloadTooLarge { .. })));
    assert_none(whole_log(log).await);
    fill(log, "a", 1).await;
}

pub(crate) async fn page_sizes_are_checked(log: &TestLog) {
    fill(log, "a", 2).await;
    for page_size in [0, MAX_PAGE_SIZE + 1, u32::MAX] {
        invalid_read(log.stream_page(&StreamQuery::new("a").page_size(page_size)).await);
        invalid_read(log.log_page(&LogQuery::default().page_size(page_size)).await);
    }
    for page_size in [1, MAX_PAGE_SIZE] {
        assert_eq!(stream_of(log, StreamQuery::new("a").page_size(page_size)).await.len(), 2);
        assert_eq!(log_of(log, LogQuery::default().page_size(page_size)).await.len(), 2);
    }
}

pub(crate) async fn a_stream_id_is_checked_when_it_is_read(log: &TestLog) {
    for wrong in ["", "a\0b", &"a".repeat(MAX_STREAM_ID_BYTES + 1)] {
        invalid_read(log.stream_page(&StreamQuery::new(wrong)).await);
        invalid_read(log.log_page(&LogQuery::default().stream(wrong)).await);
    }
}

/// No name has a NUL, and PostgreSQL does not even accept one in a query. That is the caller's
/// mistake and not a failure of the database.
pub(crate) async fn a_filter_with_nul_finds_nothing_or_is_refused(log: &TestLog) {
    fill(log, "a", 1).await;
    for query in [LogQuery::default().event_types(["E1\0"]), LogQuery::default().stream_prefix("a\0")] {
        for query in [query.clone(), query.backwards()] {
            match log.log_page(&query).await {
                Ok(page) => assert_none(page.events),
                refused => drop(invalid_read(refused)),
            }
        }
    }
}
