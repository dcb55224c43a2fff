//! Laws of reading a stream.

use headwater_core::{RecordedEvent, StreamQuery};

use crate::TestLog;
use crate::support::{assert_none, fill, ids, interleaved, stored, stream_of};

fn versions_of(events: &[RecordedEvent]) -> Vec<u64> {
    events.iter().map(|event| event.stream_version.expect("an event of a stream has a version")).collect()
}

async fn read(log: &TestLog, query: StreamQuery) -> Vec<u64> {
    versions_of(&stream_of(log, query).await)
}

fn a() -> StreamQuery {
    StreamQuery::new("a")
}

pub(crate) async fn forwards_and_backwards(log: &TestLog) {
    let appended = fill(log, "a", 4).await;
    let mut given: Vec<_> = appended.events.iter().map(|placed| placed.id).collect();
    assert_eq!(ids(&stream_of(log, a()).await), given);
    given.reverse();
    assert_eq!(ids(&stream_of(log, a().backwards()).await), given);
}

pub(crate) async fn ranges_include_both_ends(log: &TestLog) {
    fill(log, "a", 6).await;
    assert_eq!(read(log, a().from_version(3)).await, [3, 4, 5, 6]);
    assert_eq!(read(log, a().to_version(3)).await, [1, 2, 3]);
    assert_eq!(read(log, a().from_version(2).to_version(4)).await, [2, 3, 4]);
    assert_eq!(read(log, a().from_version(2).to_version(4).backwards()).await, [4, 3, 2]);
    assert_eq!(read(log, a().from_version(4).to_version(4)).await, [4]);
}

pub(crate) async fn ranges_beyond_the_stream_are_cut(log: &TestLog) {
    fill(log, "a", 3).await;
    for query in [a(), a().backwards()] {
        assert_eq!(read(log, query.clone().from_version(0).to_version(u64::MAX)).await.len(), 3);
        assert_none(read(log, query.clone().from_version(4)).await);
        assert_none(read(log, query.clone().from_version(u64::MAX)).await);
        assert_none(read(log, query.clone().to_version(0)).await);
        assert_none(read(log, query.from_version(3).to_version(2)).await);
    }
}

pub(crate) async fn any_page_size_gives_the_same_events(log: &TestLog) {
    fill(log, "a", 7).await;
    for query in
        [a(), a().backwards(), a().from_version(2).to_version(6), a().from_version(2).to_version(6).backwards()]
    {
        let whole = stream_of(log, query.clone()).await;
        for page_size in 1..=8 {
            assert_eq!(stream_of(log, query.clone().page_size(page_size)).await, whole, "{query:?} by {page_size}");
        }
    }
}

pub(crate) async fn a_limit_holds_across_pages(log: &TestLog) {
    fill(log, "a", 7).await;
    let forwards = [1, 2, 3, 4, 5, 6, 7];
    for page_size in 1..=4 {
        for limit in [0, 1, 2, 3, 5, 7, 8, u64::MAX] {
            let query = a().page_size(page_size).limit(limit);
            let most = forwards.len().min(usize::try_from(limit).unwrap_or(usize::MAX));
            assert_eq!(read(log, query.clone()).await, forwards[..most]);
            let mut backwards = read(log, query.backwards()).await;
            backwards.reverse();
            assert_eq!(backwards, forwards[7 - most..]);
        }
    }
}

pub(crate) async fn an_absent_stream_is_empty(log: &TestLog) {
    assert_none(read(log, a()).await);
    fill(log, "ab", 1).await;
    stored(log, interleaved(&[""])).await;
    assert_none(read(log, a()).await);
    assert_none(read(log, a().backwards()).await);
}

pub(crate) async fn only_its_own_events(log: &TestLog) {
    stored(log, interleaved(&["a", "b", "", "a", "b", "ab", "a"])).await;
    let read = stream_of(log, a().page_size(2)).await;
    assert_eq!(versions_of(&read), [1, 2, 3]);
    assert!(read.iter().all(|event| event.stream_id.as_deref() == Some("a")));
}

pub(crate) async fn a_page_is_no_larger_than_asked(log: &TestLog) {
    fill(log, "a", 5).await;
    let page = log.stream_page(&a().page_size(2)).await.unwrap();
    assert_eq!(versions_of(&page), [1, 2]);
    let page = log.stream_page(&a().page_size(2).backwards()).await.unwrap();
    assert_eq!(versions_of(&page), [5, 4]);
}
