//! Laws of optimistic concurrency on one stream.

use headwater_core::ExpectedVersion::{Any, Exact, Exists, NoStream};
use headwater_core::{Append, ExpectedVersion};

use crate::TestLog;
use crate::support::{
    assert_none, conflict, event, fill, ids, invalid, stored, stream_of, to_stream, versions, whole_log,
};

async fn accepts(log: &TestLog, expected: ExpectedVersion, next: u64) {
    let appended = stored(log, to_stream("s", expected, 1)).await;
    assert_eq!(versions(&appended), [Some(next)], "with {expected:?}");
}

async fn refuses(log: &TestLog, expected: ExpectedVersion, actual: u64) {
    let refused = conflict(log.append(to_stream("s", expected, 2)).await);
    assert_eq!(refused, ("s".into(), expected, actual));
}

pub(crate) async fn any_accepts_whatever_is_there(log: &TestLog) {
    accepts(log, Any, 1).await;
    accepts(log, Any, 2).await;
    // An append without an expectation accepts any version.
    assert_eq!(versions(&stored(log, event("E").in_stream("s").into()).await), [Some(3)]);
}

pub(crate) async fn no_stream_accepts_only_a_new_stream(log: &TestLog) {
    accepts(log, NoStream, 1).await;
    refuses(log, NoStream, 1).await;
    accepts(log, Any, 2).await;
    refuses(log, NoStream, 2).await;
}

pub(crate) async fn exists_accepts_only_an_existing_stream(log: &TestLog) {
    refuses(log, Exists, 0).await;
    accepts(log, Any, 1).await;
    accepts(log, Exists, 2).await;
    accepts(log, Exists, 3).await;
}

pub(crate) async fn exact_accepts_only_that_version(log: &TestLog) {
    refuses(log, Exact(1), 0).await;
    fill(log, "s", 3).await;
    refuses(log, Exact(2), 3).await;
    refuses(log, Exact(4), 3).await;
    accepts(log, Exact(3), 4).await;
    refuses(log, Exact(3), 4).await;
    accepts(log, Exact(4), 5).await;
}

pub(crate) async fn exact_0_is_no_stream(log: &TestLog) {
    accepts(log, Exact(0), 1).await;
    refuses(log, Exact(0), 1).await;
}

pub(crate) async fn versions_beyond_any_stream_conflict(log: &TestLog) {
    for beyond in [u64::MAX, i64::MAX as u64 + 1, i64::MAX as u64] {
        refuses(log, Exact(beyond), 0).await;
    }
    fill(log, "s", 1).await;
    // As a signed integer this number would be -1. It must not be taken for a version, or for a
    // code that means "exists".
    refuses(log, Exact(u64::MAX), 1).await;
}

pub(crate) async fn a_conflict_stores_nothing(log: &TestLog) {
    refuses(log, Exists, 0).await;
    assert_none(stream_of(log, "s").await);
    accepts(log, NoStream, 1).await;
    let before = whole_log(log).await;
    refuses(log, Exact(9), 1).await;
    refuses(log, NoStream, 1).await;
    assert_eq!(whole_log(log).await, before);
    accepts(log, Exact(1), 2).await;
}

pub(crate) async fn a_conflict_leaves_its_event_ids_free(log: &TestLog) {
    let refused = to_stream("s", Exact(1), 2);
    conflict(log.append(refused.clone()).await);
    let decided_again = Append::to_stream("s", NoStream, refused.events().to_vec());
    let appended = stored(log, decided_again).await;
    assert!(!appended.retried);
    assert_eq!(ids(&stream_of(log, "s").await), ids(refused.events()));
}

pub(crate) async fn an_expectation_of_a_stream_without_events_is_refused(log: &TestLog) {
    fill(log, "s", 1).await;
    let append = Append::new().event(event("E").in_stream("other")).expect("s", Exact(1));
    let message = invalid(log.append(append).await);
    assert!(message.contains("\"s\""), "{message}");
    invalid(log.append(Append::from(event("E")).expect("s", Exact(1))).await);
    assert_eq!(whole_log(log).await.len(), 1);
}
