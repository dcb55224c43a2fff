//! Laws of reading the log: bounds, directions and filters.

use futures::TryStreamExt;
use headwater_core::{Append, Direction, LogPage, LogQuery, RecordedEvent};
use uuid::Uuid;

use crate::TestLog;
use crate::support::{assert_none, event, ids, interleaved, log_of, sequences, stored, types, whole_log};

/// Six events: types `A`, `B` and `C`, streams `order-1`, `order-2`, `invoice-1` and none.
async fn fill(log: &TestLog) -> Vec<u64> {
    let given = [("A", "order-1"), ("B", "order-2"), ("A", ""), ("C", "invoice-1"), ("B", "order-1"), ("A", "order-2")];
    let mut places = Vec::new();
    for (event_type, stream) in given {
        let event = event(event_type);
        let event = if stream.is_empty() { event } else { event.in_stream(stream) };
        places.extend(sequences(&stored(log, event.into()).await));
    }
    places
}

fn all() -> LogQuery {
    LogQuery::default()
}

/// The places of the events that a query returns, counted from 1.
async fn read(log: &TestLog, query: LogQuery) -> Vec<usize> {
    let whole = ids(&whole_log(log).await);
    let place = |event: &RecordedEvent| 1 + whole.iter().position(|id| *id == event.id).expect("it is in the log");
    log_of(log, query).await.iter().map(place).collect()
}

pub(crate) async fn an_empty_log_is_empty(log: &TestLog) {
    for query in [all(), all().backwards(), all().up_to(9), all().event_types(["A"]), all().stream("a").backwards()] {
        let page = log.log_page(&query).await.unwrap();
        assert_eq!((page.events, page.gaps, page.more), (vec![], vec![], false), "{query:?}");
    }
}

pub(crate) async fn after_is_left_out_and_up_to_is_included(log: &TestLog) {
    let at = fill(log).await;
    assert_eq!(read(log, LogQuery::after(at[1])).await, [3, 4, 5, 6]);
    assert_eq!(read(log, all().up_to(at[1])).await, [1, 2]);
    assert_eq!(read(log, LogQuery::after(at[1]).up_to(at[3])).await, [3, 4]);
    assert_eq!(read(log, LogQuery::after(at[1]).up_to(at[3]).backwards()).await, [4, 3]);
    for query in [all(), all().backwards()] {
        assert_none(read(log, LogQuery { after: at[5], ..query.clone() }).await);
        assert_none(read(log, LogQuery { after: at[2], up_to: Some(at[2]), ..query.clone() }).await);
        assert_none(read(log, LogQuery { after: at[3], up_to: Some(at[2]), ..query.clone() }).await);
        assert_none(read(log, query.clone().up_to(0)).await);
        assert_eq!(read(log, query.up_to(u64::MAX)).await.len(), 6);
    }
}

pub(crate) async fn backwards_is_the_reverse(log: &TestLog) {
    fill(log).await;
    assert_eq!(read(log, all().backwards()).await, [6, 5, 4, 3, 2, 1]);
    assert_eq!(read(log, all().backwards().event_types(["A"])).await, [6, 3, 1]);
    assert_eq!(read(log, all().backwards().stream_prefix("order-")).await, [6, 5, 2, 1]);
}

pub(crate) async fn a_limit_holds(log: &TestLog) {
    fill(log).await;
    assert_eq!(read(log, all().limit(2)).await, [1, 2]);
    assert_none(read(log, all().limit(0)).await);
    assert_eq!(read(log, all().limit(u64::MAX)).await.len(), 6);
    assert_eq!(read(log, all().limit(2).event_types(["A"])).await, [1, 3]);
    assert_eq!(read(log, all().limit(2).event_types(["A"]).backwards()).await, [6, 3]);
}

pub(crate) async fn by_event_type(log: &TestLog) {
    fill(log).await;
    assert_eq!(read(log, all().event_types(["A"])).await, [1, 3, 6]);
    assert_eq!(read(log, all().event_types(["C", "B", "C"])).await, [2, 4, 5]);
    assert_none(read(log, all().event_types(["a", "D"])).await);
    // In a type, `*` stands for any characters. No other character is special.
    assert_eq!(read(log, all().event_types(["*"])).await.len(), 6);
    assert_eq!(read(log, all().event_types(["A*", "*C*"])).await, [1, 3, 4, 6]);
    assert_eq!(read(log, all().event_types(["*B", "D*"]).backwards()).await, [5, 2]);
    assert_none(read(log, all().event_types(["_", "%", "A*A", ".*"])).await);
    assert_eq!(read(log, all().event_types(Vec::<String>::new())).await.len(), 6);
}

pub(crate) async fn by_stream(log: &TestLog) {
    fill(log).await;
    assert_eq!(read(log, all().stream("order-1")).await, [1, 5]);
    assert_none(read(log, all().stream("order-")).await);
}

pub(crate) async fn by_stream_prefix(log: &TestLog) {
    fill(log).await;
    assert_eq!(read(log, all().stream_prefix("order-")).await, [1, 2, 5, 6]);
    assert_eq!(read(log, all().stream_prefix("order-1")).await, [1, 5]);
    assert_none(read(log, all().stream_prefix("rder")).await);
    // Every stream id starts with the empty prefix. Events without a stream do not match.
    assert_eq!(read(log, all().stream_prefix("")).await, [1, 2, 4, 5, 6]);
}

pub(crate) async fn a_prefix_is_taken_literally(log: &TestLog) {
    stored(log, interleaved(&["a%b-1", "axb-1", "a_b-1", "A%B-1", "a\\%b", "a.*", "(a", "%"])).await;
    for (prefix, found) in [
        ("a%", vec![1]),
        ("a_", vec![3]),
        ("%", vec![8]),
        ("_", vec![]),
        ("a\\", vec![5]),
        ("a.", vec![6]),
        ("(", vec![7]),
    ] {
        assert_eq!(read(log, all().stream_prefix(prefix)).await, found, "{prefix:?}");
    }
}

pub(crate) async fn filters_must_all_hold(log: &TestLog) {
    let at = fill(log).await;
    assert_eq!(read(log, all().stream_prefix("order-").event_types(["B"])).await, [2, 5]);
    assert_none(read(log, all().stream("order-1").stream_prefix("invoice-")).await);
    assert_eq!(read(log, LogQuery::after(at[1]).up_to(at[4]).stream("order-1").event_types(["A", "B"])).await, [5]);
}

/// A cursor may be any u64, such as a subscriber's "from now on".
pub(crate) async fn nothing_lies_after_the_last_sequence_that_can_be(log: &TestLog) {
    fill(log).await;
    for after in [1_000_000, i64::MAX as u64 - 1, i64::MAX as u64, u64::MAX - 1, u64::MAX] {
        for direction in [Direction::Forwards, Direction::Backwards] {
            for event_types in [vec![], vec!["A".to_owned()]] {
                let query = LogQuery { direction, event_types, ..LogQuery::after(after) };
                let LogPage { events, gaps, more, .. } = log.log_page(&query).await.unwrap();
                assert_eq!((events, gaps, more), (vec![], vec![], false), "{query:?}");
            }
        }
        assert_none(log.correlated(Uuid::nil(), after, 10).await.unwrap());
    }
}

pub(crate) async fn an_event_is_found_by_its_id(log: &TestLog) {
    let append = interleaved(&["a", ""]);
    let given = ids(append.events());
    stored(log, append).await;
    let whole = whole_log(log).await;
    assert_eq!(log.event(given[0]).await.unwrap().as_ref(), Some(&whole[0]));
    assert_eq!(log.event(given[1]).await.unwrap().as_ref(), Some(&whole[1]));
    assert_eq!(log.event(Uuid::now_v7()).await.unwrap(), None);
}

pub(crate) async fn all_events_since_a_sequence(log: &TestLog) {
    let first = stored(log, event("A").into()).await;
    stored(log, Append::new().event(event("B")).event(event("C"))).await;
    let since: Vec<RecordedEvent> = log.read_all_events_since(first.global_sequence()).try_collect().await.unwrap();
    assert_eq!(types(&since), ["B", "C"]);
}
