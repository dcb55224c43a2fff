//! Reads the log page by page and checks every promise of a page.

use headwater_core::{Direction, GapState, LogPage, LogQuery, RecordedEvent, missing_runs};

use crate::support::Opened;

/// Reads by `query`, ignoring its `limit`, while nobody writes. Panics at the first page that
/// breaks a promise of [`LogPage`].
pub async fn read_by_pages(log: &impl Opened, mut query: LogQuery) -> Vec<RecordedEvent> {
    let mut events = Vec::new();
    loop {
        let page = log.log_page(&query).await.expect("the log must be readable");
        check_page(&query, &page);
        let before = query.clone();
        match query.direction {
            Direction::Forwards => query.after = page.cursor,
            Direction::Backwards => query.up_to = Some(page.cursor.saturating_sub(1)),
        }
        events.extend(page.events);
        if !page.more {
            let beyond = log.log_page(&query).await.expect("the log must be readable");
            assert_eq!(beyond.events, [], "there was more after the last page of {before:?}");
            return events;
        }
        assert_ne!(query, before, "there is more, but the cursor stands still");
    }
}

fn check_page(query: &LogQuery, page: &LogPage) {
    let sequences: Vec<u64> = page.events.iter().map(|event| event.sequence().get()).collect();
    assert_eq!(sequences.len(), page.events.len(), "every event has a place");
    assert!(sequences.len() <= query.page_size as usize, "the page is larger than asked: {query:?}");
    assert!(page.events.iter().all(|event| query.matches(event)), "an event does not pass the filter: {query:?}");
    let (low, high) = match query.direction {
        Direction::Forwards => {
            assert!(page.cursor >= query.after, "the cursor went back: {query:?} {page:?}");
            assert!(sequences.is_sorted_by(|a, b| a < b), "not in order: {sequences:?}");
            (query.after, page.cursor.min(query.up_to.unwrap_or(u64::MAX)))
        }
        Direction::Backwards => {
            assert!(sequences.is_sorted_by(|a, b| a > b), "not in order: {sequences:?}");
            (query.after.max(page.cursor.saturating_sub(1)), query.up_to.unwrap_or(u64::MAX))
        }
    };
    assert!(sequences.iter().all(|at| low < *at && *at <= high), "beyond {low}..={high}: {sequences:?} of {query:?}");
    let gaps: Vec<(u64, u64)> = page.gaps.iter().map(|gap| (gap.first, gap.last)).collect();
    if query.direction == Direction::Backwards || query.is_filtered() {
        assert_eq!(gaps, [], "only a page that could hold every event knows of gaps");
    } else {
        assert!(page.gaps.iter().all(|gap| gap.state == GapState::Permanent), "nobody writes: {:?}", page.gaps);
        assert_eq!(gaps, missing_runs(query.after, page.cursor, sequences), "gaps and events cover the page");
    }
}
