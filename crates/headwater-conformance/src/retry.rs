//! Laws of retries: a repeated append gets its first result, and an event id identifies one event.

use headwater_core::ExpectedVersion::{Any, Exact, NoStream};
use headwater_core::{Append, Appended, Event};
use serde_json::json;

use crate::TestLog;
use crate::support::{
    assert_none, conflict, event, events, fill, ids, interleaved, invalid, reused, stored, to_stream, whole_log,
};

async fn answers_the_first_result(log: &TestLog, append: Append, first: &Appended) {
    let before = whole_log(log).await;
    let again = stored(log, append).await;
    assert_eq!(again, Appended { events: first.events.clone(), retried: true });
    assert_eq!(whole_log(log).await, before, "a retry stores nothing");
}

pub(crate) async fn a_retry_answers_the_first_result(log: &TestLog) {
    let append = to_stream("a", Any, 3);
    let first = stored(log, append.clone()).await;
    assert!(!first.retried);
    answers_the_first_result(log, append.clone(), &first).await;
    answers_the_first_result(log, append, &first).await;
}

pub(crate) async fn a_retry_answers_the_first_result_after_later_appends(log: &TestLog) {
    let append = to_stream("a", Any, 2);
    let first = stored(log, append.clone()).await;
    stored(log, to_stream("a", Any, 3)).await;
    stored(log, interleaved(&["b", ""])).await;
    answers_the_first_result(log, append, &first).await;
    // The stream continues from where it was.
    stored(log, to_stream("a", Exact(5), 1)).await;
}

pub(crate) async fn a_retry_is_no_conflict_with_itself(log: &TestLog) {
    let made = to_stream("a", NoStream, 2);
    let first = stored(log, made.clone()).await;
    answers_the_first_result(log, made, &first).await;
    let extended = to_stream("a", Exact(2), 1);
    let first = stored(log, extended.clone()).await;
    stored(log, to_stream("a", Any, 1)).await;
    answers_the_first_result(log, extended.clone(), &first).await;
    // A retry may expect something else and still gets the first result.
    let otherwise = Append::to_stream("a", Exact(77), extended.events().to_vec());
    answers_the_first_result(log, otherwise, &first).await;
}

pub(crate) async fn a_retry_of_several_streams_answers_the_first_result(log: &TestLog) {
    fill(log, "b", 1).await;
    let append = interleaved(&["a", "b", "", "a"]).expect("a", NoStream).expect("b", Exact(1));
    let first = stored(log, append.clone()).await;
    answers_the_first_result(log, append.clone(), &first).await;
    stored(log, interleaved(&["b", "a"])).await;
    answers_the_first_result(log, append, &first).await;
}

pub(crate) async fn a_retry_of_events_without_a_stream_answers_the_first_result(log: &TestLog) {
    let append = interleaved(&["", ""]);
    let first = stored(log, append.clone()).await;
    stored(log, event("Emitted").into()).await;
    answers_the_first_result(log, append, &first).await;
}

/// The type and the stream must be the same, because they reveal a mix-up of ids. Nothing else is
/// compared, and the stored event stays as it is.
pub(crate) async fn a_retry_changes_nothing(log: &TestLog) {
    let given = Event::raw("Happened", json!({ "n": 1 }));
    let first = stored(log, given.clone().into()).await;
    let changed = Event { data: Some(json!({ "n": 2 }).into()), key: Some("k".into()), ..given };
    answers_the_first_result(log, changed.into(), &first).await;
}

pub(crate) async fn a_retry_through_another_handle_answers_the_first_result(log: &TestLog) {
    let append = to_stream("a", NoStream, 2);
    let first = stored(&log.handle(0), append.clone()).await;
    let again = stored(&log.handle(1), append).await;
    assert_eq!(again, Appended { events: first.events, retried: true });
}

/// The error names an id that was used before: the caller must change it or look it up.
pub(crate) async fn an_append_of_which_some_is_stored_is_refused(log: &TestLog) {
    let [a, b, c] = [event("A").in_stream("s"), event("B").in_stream("s"), event("C")];
    stored(log, Append::new().event(b.clone()).event(c.clone())).await;
    let before = whole_log(log).await;
    for some in [vec![&a, &b], vec![&b, &a], vec![&a, &b, &c], vec![&b, &c, &a]] {
        let append = some.into_iter().cloned().fold(Append::new(), Append::event);
        assert_eq!(reused(log.append(append).await), b.id);
    }
    assert_eq!(whole_log(log).await, before);
    // The new event was not stored, and its id is free.
    assert!(!stored(log, a.into()).await.retried);
}

pub(crate) async fn an_id_with_another_type_is_refused(log: &TestLog) {
    let [a, b] = [event("A").in_stream("s"), event("B")];
    stored(log, Append::new().event(a.clone()).event(b.clone())).await;
    let before = whole_log(log).await;
    let renamed = Event { event_type: "Other".into(), ..b.clone() };
    assert_eq!(reused(log.append(Append::new().event(a.clone()).event(renamed.clone())).await), b.id);
    assert_eq!(reused(log.append(renamed.into()).await), b.id);
    let renamed = Event { event_type: "a".into(), ..a.clone() };
    assert_eq!(reused(log.append(renamed.into()).await), a.id);
    assert_eq!(whole_log(log).await, before);
}

pub(crate) async fn an_id_with_another_stream_is_refused(log: &TestLog) {
    let [a, emitted] = [event("A").in_stream("s"), event("B")];
    stored(log, Append::new().event(a.clone()).event(emitted.clone())).await;
    let before = whole_log(log).await;
    assert_eq!(reused(log.append(a.clone().in_stream("t").into()).await), a.id);
    assert_eq!(reused(log.append(Event { stream_id: None, ..a.clone() }.into()).await), a.id);
    assert_eq!(reused(log.append(emitted.clone().in_stream("s").into()).await), emitted.id);
    assert_eq!(whole_log(log).await, before);
    // The other stream was not created either.
    stored(log, to_stream("t", NoStream, 1)).await;
    stored(log, to_stream("s", Exact(1), 1)).await;
}

/// This is not a conflict: to decide again and send the same ids would not help.
pub(crate) async fn a_reused_id_goes_before_a_conflict(log: &TestLog) {
    let mut given = events(2);
    stored(log, given[0].clone().in_stream("s").into()).await;
    let append = Append::to_stream("s", Exact(9), given.clone());
    assert_eq!(reused(log.append(append).await), given[0].id);
    given[0].event_type = "Other".into();
    let append = Append::to_stream("s", NoStream, given.drain(..1));
    reused(log.append(append).await);
    conflict(log.append(Append::to_stream("s", Exact(9), given)).await);
}

pub(crate) async fn an_id_twice_in_one_append_is_refused(log: &TestLog) {
    let given = event("A");
    let twice = Append::new().event(given.clone()).event(event("B")).event(given.clone().in_stream("s"));
    let message = invalid(log.append(twice).await);
    assert!(message.contains(&given.id.to_string()), "{message}");
    assert_none(ids(&whole_log(log).await));
}
