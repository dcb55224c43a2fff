//! Laws of appending: places and order.

use headwater_core::{Append, ExpectedVersion, RecordedEvent};

use crate::TestLog;
use crate::support::{
    assert_none, event, events, fill, ids, interleaved, invalid, is_increasing, sequences, stored, stream_of,
    to_stream, versions, whole_log,
};

pub(crate) async fn the_first_version_is_1(log: &TestLog) {
    let appended = fill(log, "order-1", 1).await;
    assert_eq!(versions(&appended), [Some(1)]);
    assert_eq!(appended.stream_version(), Some(1));
    assert!(!appended.retried);
    assert!(appended.global_sequence() >= 1);
}

pub(crate) async fn several_events_get_consecutive_versions_in_the_order_given(log: &TestLog) {
    let given = events(5);
    let appended = stored(log, Append::to_stream("order-1", ExpectedVersion::Any, given.clone())).await;
    assert_eq!(versions(&appended), [1, 2, 3, 4, 5].map(Some));
    assert_eq!(appended.events.iter().map(|placed| placed.id).collect::<Vec<_>>(), ids(&given));
    let appended = stored(log, to_stream("order-1", ExpectedVersion::Any, 2)).await;
    assert_eq!(versions(&appended), [6, 7].map(Some));
    assert_eq!(ids(&stream_of(log, "order-1").await)[..5], ids(&given));
}

pub(crate) async fn an_event_without_a_stream_has_no_version(log: &TestLog) {
    let appended = stored(log, event("Emitted").into()).await;
    assert_eq!((versions(&appended), appended.stream_version()), (vec![None], None));
    let read = whole_log(log).await;
    assert_eq!((read[0].stream_id.as_ref(), read[0].stream_version), (None, None));
}

pub(crate) async fn the_log_keeps_the_order_given(log: &TestLog) {
    let appends = [
        to_stream("a", ExpectedVersion::Any, 3),
        event("Emitted").into(),
        interleaved(&["b", "", "a", "b", "", "c"]),
        to_stream("a", ExpectedVersion::Exact(4), 1),
    ];
    let (mut places, mut given) = (Vec::new(), Vec::new());
    for append in appends {
        given.extend(ids(append.events()));
        places.extend(sequences(&stored(log, append).await));
    }
    assert!(is_increasing(&places), "{places:?}");
    let read = whole_log(log).await;
    assert_eq!(ids(&read), given);
    assert_eq!(read.iter().map(|event| event.sequence().get()).collect::<Vec<_>>(), places);
}

pub(crate) async fn one_append_is_one_transaction(log: &TestLog) {
    stored(log, interleaved(&["a", "", "b"])).await;
    stored(log, interleaved(&["a", ""])).await;
    let transaction = |event: &RecordedEvent| {
        (event.transaction_id.expect("a stored event has one"), event.recorded_at.expect("a stored event has one"))
    };
    let read: Vec<_> = whole_log(log).await.iter().map(transaction).collect();
    assert!(read[..3].iter().all(|it| *it == read[0]), "{read:?}");
    assert_eq!(read[3], read[4]);
    assert_ne!(read[0].0, read[3].0);
}

pub(crate) async fn an_append_without_events_is_refused(log: &TestLog) {
    invalid(log.append(Append::new()).await);
    invalid(log.append(Append::to_stream("a", ExpectedVersion::Any, [])).await);
    assert_none(whole_log(log).await);
}

pub(crate) async fn a_large_append_is_stored_whole(log: &TestLog) {
    const EVENTS: usize = 3_000;
    let append = to_stream("large", ExpectedVersion::NoStream, EVENTS);
    let given = ids(append.events());
    let appended = stored(log, append).await;
    assert_eq!(versions(&appended), (1..=EVENTS as u64).map(Some).collect::<Vec<_>>());
    assert_eq!(ids(&stream_of(log, "large").await), given);
}
