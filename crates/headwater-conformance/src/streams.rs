//! Laws of appends to several streams.

use headwater_core::ExpectedVersion::{Any, Exact, Exists, NoStream};
use headwater_core::StreamQuery;

use crate::TestLog;
use crate::support::{
    conflict, event, fill, ids, interleaved, is_increasing, sequences, stored, stream_of, to_stream, versions,
    whole_log,
};

pub(crate) async fn each_stream_counts_its_own_versions(log: &TestLog) {
    fill(log, "a", 3).await;
    assert_eq!(versions(&fill(log, "b", 2).await), [1, 2].map(Some));
    assert_eq!(versions(&stored(log, to_stream("a", Exact(3), 1)).await), [Some(4)]);
}

pub(crate) async fn an_append_may_interleave_streams(log: &TestLog) {
    fill(log, "b", 4).await;
    let append = interleaved(&["a", "b", "a", "c", "b", "a"]);
    let given = ids(append.events());
    let appended = stored(log, append).await;
    assert_eq!(versions(&appended), [1, 5, 2, 1, 6, 3].map(Some));
    assert!(is_increasing(&sequences(&appended)));
    assert_eq!(ids(&whole_log(log).await)[4..], given);
    assert_eq!(ids(&stream_of(log, "a").await), [given[0], given[2], given[5]]);
    assert_eq!(ids(&stream_of(log, StreamQuery::new("b").from_version(5)).await), [given[1], given[4]]);
}

pub(crate) async fn an_append_may_mix_streams_and_none(log: &TestLog) {
    let append = interleaved(&["", "a", "", "a", "b"]).expect("a", NoStream);
    let appended = stored(log, append).await;
    assert_eq!(versions(&appended), [None, Some(1), None, Some(2), Some(1)]);
    assert!(is_increasing(&sequences(&appended)));
}

pub(crate) async fn several_expectations_must_all_hold(log: &TestLog) {
    fill(log, "b", 2).await;
    fill(log, "c", 1).await;
    let append = interleaved(&["d", "c", "b", "a"])
        .expect("a", NoStream)
        .expect("b", Exact(2))
        .expect("c", Exists)
        .expect("d", Any);
    assert_eq!(versions(&stored(log, append).await), [1, 2, 3, 1].map(Some));
}

pub(crate) async fn a_conflict_of_one_stream_stores_nothing_of_any(log: &TestLog) {
    fill(log, "b", 2).await;
    let before = whole_log(log).await;
    // The append would create "new", and "a" and "b" are as expected or have no expectation. None
    // of that may be stored.
    let append = interleaved(&["new", "", "b", "a", "new"]).expect("b", Exact(2)).expect("a", Exists);
    assert_eq!(conflict(log.append(append).await), ("a".into(), Exists, 0));
    assert_eq!(whole_log(log).await, before);
    assert_eq!(versions(&stored(log, to_stream("new", NoStream, 1)).await), [Some(1)]);
    assert_eq!(versions(&stored(log, to_stream("b", Exact(2), 1)).await), [Some(3)]);
}

pub(crate) async fn the_first_stream_that_conflicts_is_named(log: &TestLog) {
    fill(log, "a", 1).await;
    fill(log, "b", 2).await;
    let append = interleaved(&["c", "b", "a", "b"]).expect("a", NoStream).expect("b", Exact(9)).expect("c", NoStream);
    assert_eq!(conflict(log.append(append).await), ("b".into(), Exact(9), 2));
}

pub(crate) async fn names_are_compared_byte_by_byte(log: &TestLog) {
    let names =
        ["order", "Order", "order ", " order", "orde\u{301}r", "ordér", "order%", "o_der", "order\\", "ORDER", "'"];
    for name in names {
        let appended = stored(log, to_stream(name, NoStream, 1)).await;
        assert_eq!(versions(&appended), [Some(1)], "{name:?}");
    }
    for name in names {
        stored(log, event("E").in_stream(name).into()).await;
        let read = stream_of(log, name).await;
        assert!(read.len() == 2 && read.iter().all(|event| event.stream_id.as_deref() == Some(name)), "{read:?}");
    }
}
