//! Laws of reading the log page by page.

use futures::TryStreamExt;
use headwater_core::ExpectedVersion::{Any, Exact, NoStream};
use headwater_core::{Append, Direction, LogQuery, StreamId};

use crate::TestLog;
use crate::pages::read_by_pages;
use crate::support::{assert_none, event, ids, interleaved, log_of, stored, to_stream, whole_log};

/// Stores a dozen events, and does whatever makes a backend leave gaps between them.
async fn fill(log: &TestLog) -> Vec<u64> {
    let first = interleaved(&["a", "", "b"]);
    stored(log, first.clone()).await;
    stored(log, first).await;
    stored(log, to_stream("a", Any, 2)).await;
    assert!(log.append(to_stream("a", NoStream, 2)).await.is_err());
    let retried = event("E1").in_stream("ab");
    stored(log, retried.clone().into()).await;
    for _ in 0..3 {
        stored(log, retried.clone().into()).await;
    }
    assert!(log.append(retried.in_stream("b").into()).await.is_err());
    stored(log, interleaved(&["", "b", "a", "", "ab", "a"])).await;
    let sequences: Vec<u64> = whole_log(log).await.iter().map(|event| event.sequence().get()).collect();
    assert_eq!(sequences.len(), 12);
    sequences
}

pub(crate) async fn any_page_size_gives_the_same_events(log: &TestLog) {
    let at = fill(log).await;
    let whole = whole_log(log).await;
    let bounds = [(0, None), (at[3], None), (0, Some(at[7])), (at[1], Some(at[9])), (at[1] + 1, Some(at[9] - 1))];
    let filters = [
        LogQuery::default(),
        LogQuery::default().event_types(["Happened", "E1"]),
        LogQuery::default().stream("a"),
        LogQuery::default().stream_prefix("a"),
        LogQuery::default().event_types(["Emitted"]).stream("a"),
    ];
    for (after, up_to) in bounds {
        for filter in &filters {
            for direction in [Direction::Forwards, Direction::Backwards] {
                let query = LogQuery { after, up_to, direction, ..filter.clone() };
                let asked = |sequence: u64| sequence > after && up_to.is_none_or(|up_to| sequence <= up_to);
                let mut expected = whole.clone();
                expected.retain(|event| asked(event.sequence().get()) && query.matches(event));
                if direction == Direction::Backwards {
                    expected.reverse();
                }
                for page_size in [1, 2, 3, 4, 5, 100] {
                    let query = query.clone().page_size(page_size);
                    assert_eq!(ids(&read_by_pages(log, query.clone()).await), ids(&expected), "{query:?}");
                }
            }
        }
    }
}

pub(crate) async fn a_limit_holds_across_pages(log: &TestLog) {
    fill(log).await;
    for query in [LogQuery::default(), LogQuery::default().stream_prefix("a")] {
        for query in [query.clone(), query.backwards()] {
            let whole = log_of(log, query.clone()).await;
            for limit in [0, 1, 2, 5, 6, 11, 12, 13] {
                let limited = whole[..whole.len().min(limit as usize)].to_vec();
                for page_size in [1, 2, 5, 100] {
                    let query = query.clone().limit(limit).page_size(page_size);
                    assert_eq!(ids(&log_of(log, query.clone()).await), ids(&limited), "{query:?}");
                }
            }
        }
    }
}

/// Works like a subscriber: reads to the end, keeps the cursor, and reads on from there later.
pub(crate) async fn the_cursor_finds_what_comes_later(log: &TestLog) {
    let filters = [LogQuery::default(), LogQuery::default().event_types(["Wanted"])];
    let mut cursors = [0, 0];
    for round in 0..4 {
        let wanted = event("Wanted");
        stored(log, wanted.clone().into()).await;
        stored(log, wanted.clone().into()).await;
        for (filter, cursor) in filters.iter().zip(&mut cursors) {
            let mut found = Vec::new();
            loop {
                let query = LogQuery { after: *cursor, ..filter.clone() }.page_size(2);
                let page = log.log_page(&query).await.unwrap();
                found.extend(ids(&page.events));
                *cursor = page.cursor;
                if !page.more {
                    break;
                }
            }
            assert_eq!(found, [wanted.id], "round {round}, {filter:?}");
        }
    }
}

/// Otherwise a subscriber of rare events would read the whole log again and again.
pub(crate) async fn the_cursor_passes_what_the_filter_left_out(log: &TestLog) {
    let at = fill(log).await;
    let page = log.log_page(&LogQuery::default().event_types(["Rare"])).await.unwrap();
    assert_none(page.events);
    assert!(page.cursor >= at[11], "{} < {}", page.cursor, at[11]);
    let page = log.log_page(&LogQuery::default().stream("none").up_to(at[5])).await.unwrap();
    assert_eq!((page.events, page.cursor), (vec![], at[5]));
}

/// `read_by_pages` checks this for each page. This law checks it for the stream of pages.
pub(crate) async fn gaps_and_events_cover_the_log(log: &TestLog) {
    let at = fill(log).await;
    for page_size in [1, 3, 100] {
        let pages: Vec<_> = log.read_log_pages(LogQuery::default().page_size(page_size)).try_collect().await.unwrap();
        let events = pages.iter().flat_map(|page| &page.events).map(|event| event.sequence().get());
        let gaps = pages.iter().flat_map(|page| &page.gaps).flat_map(|gap| gap.first..=gap.last);
        let mut covered: Vec<u64> = events.chain(gaps).collect();
        covered.sort_unstable();
        assert_eq!(covered[..at[11] as usize], (1..=at[11]).collect::<Vec<_>>(), "by {page_size}");
    }
}

pub(crate) async fn the_horizon_covers_what_is_appended(log: &TestLog) {
    let before = log.horizon().await.unwrap();
    assert_eq!((before.horizon, before.head, before.writers), (0, 0, vec![]));
    let mut last = 0;
    for version in 0..3 {
        let appended = stored(log, to_stream("a", Exact(version), 1)).await;
        let now = log.horizon().await.unwrap();
        assert!(now.horizon >= appended.global_sequence() && now.horizon > last, "{now:?}");
        assert_eq!((now.head, now.writers), (now.horizon, vec![]));
        last = now.horizon;
    }
    let streams: Vec<_> = whole_log(log).await.iter().map(|event| event.stream_id.clone()).collect();
    assert_eq!(streams, vec![Some(StreamId::from("a")); 3]);
    assert_none(log_of(log, LogQuery::after(last)).await);
}

/// While nobody else writes, an appended event is in the log at once. Traces of an earlier append
/// must not hide it.
pub(crate) async fn what_was_refused_holds_nothing_back(log: &TestLog) {
    let known = event("Known");
    stored(log, known.clone().into()).await;
    for _ in 0..20 {
        assert!(log.append(interleaved(&["a"]).expect("a", Exact(9)).event(event("E"))).await.is_err());
        assert!(log.append(Append::from(known.clone()).event(event("E"))).await.is_err());
        let appended = stored(log, event("Good").into()).await;
        let now = log.horizon().await.unwrap();
        assert!(now.horizon >= appended.global_sequence(), "{now:?} hides {appended:?}");
    }
    assert_eq!(whole_log(log).await.len(), 21);
}
