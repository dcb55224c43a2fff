//! Settled pages of the log, shared by subscribers that catch up side by side.
//!
//! What is settled never changes (but for a row that is repaired: then all are forgotten), so a page that one subscriber has read serves all others that need a part of it. One page is read at a
//! time: whoever waits for its turn finds, more often than not, that the page it needs is there by then.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use headwater_core::{Event, EventLog, Gap, ReadError, Segment};

use super::ring::{sequence, weight};

/// Most events that are read at once.
pub(super) const PAGE_SIZE: u32 = 1_000;
/// A page shall have so many bytes at most: of large events, fewer are read at once.
const PAGE_BYTES: usize = 4 * 1024 * 1024;
/// Most bytes of pages that are kept.
const MAX_BYTES: usize = 32 * 1024 * 1024;

#[derive(Debug)]
struct Page {
    /// It reaches up to here.
    end: u64,
    events: Vec<Arc<Event>>,
    bytes: usize,
    /// When it was last used, in uses.
    used: u64,
}

#[derive(Debug, Default)]
struct Cache {
    /// By where they begin (excluded).
    pages: BTreeMap<u64, Page>,
    bytes: usize,
    uses: u64,
    /// How often it was cleared: a page that was being read meanwhile is not kept.
    clearings: u64,
}

/// The pages.
#[derive(Debug)]
pub(super) struct Pages {
    cache: Mutex<Cache>,
    reading: tokio::sync::Mutex<()>,
    /// Of the next page, in events.
    size: AtomicU32,
}

impl Default for Pages {
    fn default() -> Self {
        Pages { cache: Mutex::default(), reading: tokio::sync::Mutex::default(), size: AtomicU32::new(PAGE_SIZE) }
    }
}

/// How many events to read at once, after a read of so many with so many bytes.
pub(super) fn next_size(size: u32, events: usize, bytes: usize) -> u32 {
    let fitting = (PAGE_BYTES * events.max(1) / bytes.max(1)).clamp(1, PAGE_SIZE as usize) as u32;
    fitting.min(size.saturating_mul(2)).clamp(1, PAGE_SIZE)
}

impl Pages {
    /// Forgets everything: the log may be another.
    pub(super) fn clear(&self) {
        let mut cache = self.cache.lock().expect("no holder of this lock panics");
        *cache = Cache { clearings: cache.clearings + 1, ..Cache::default() };
    }

    fn clearings(&self) -> u64 {
        self.cache.lock().expect("no holder of this lock panics").clearings
    }

    /// What comes after `after`, at most `limit` events, of a log that is settled up to `settled`; also the gaps that reading
    /// it proved permanent.
    pub(super) async fn segment(
        &self,
        log: &dyn EventLog,
        after: u64,
        settled: u64,
        limit: usize,
    ) -> Result<(Segment, Vec<Gap>), ReadError> {
        if let Some(segment) = self.cached(after, limit) {
            return Ok((segment, Vec::new()));
        }
        let _turn = self.reading.lock().await;
        if let Some(segment) = self.cached(after, limit) {
            return Ok((segment, Vec::new()));
        }
        let clearings = self.clearings();
        let size = self.size.load(Ordering::Relaxed);
        let page = log.settled_page(after, settled, size).await?;
        let events: Vec<_> = page.events.into_iter().map(Arc::new).collect();
        let bytes = events.iter().map(|event| weight(event)).sum();
        self.size.store(next_size(size, events.len(), bytes), Ordering::Relaxed);
        let segment = slice(after, page.cursor, &events, limit);
        self.keep(after, Page { end: page.cursor, events, bytes, used: 0 }, clearings);
        Ok((segment, page.gaps))
    }

    fn cached(&self, after: u64, limit: usize) -> Option<Segment> {
        let mut cache = self.cache.lock().expect("no holder of this lock panics");
        cache.uses += 1;
        let uses = cache.uses;
        let (_, page) = cache.pages.range_mut(..=after).next_back().filter(|(_, page)| page.end > after)?;
        page.used = uses;
        Some(slice(after, page.end, &page.events, limit))
    }

    fn keep(&self, start: u64, page: Page, clearings: u64) {
        let mut cache = self.cache.lock().expect("no holder of this lock panics");
        if page.end <= start || cache.clearings != clearings {
            return;
        }
        cache.uses += 1;
        cache.bytes += page.bytes;
        let page = Page { used: cache.uses, ..page };
        if let Some(replaced) = cache.pages.insert(start, page) {
            cache.bytes -= replaced.bytes;
        }
        while cache.bytes > MAX_BYTES && cache.pages.len() > 1 {
            let oldest = cache.pages.iter().min_by_key(|(_, page)| page.used).map(|(start, _)| *start);
            let Some(page) = oldest.and_then(|start| cache.pages.remove(&start)) else { return };
            cache.bytes -= page.bytes;
        }
    }
}

/// The part of a page after `after`: all of it is settled.
fn slice(after: u64, end: u64, events: &[Arc<Event>], limit: usize) -> Segment {
    let from = events.partition_point(|event| sequence(event) <= after);
    let part: Vec<_> = events[from..].iter().take(limit).cloned().collect();
    let cut = from + part.len() < events.len();
    let seen = part.last().filter(|_| cut).map_or(end, |event| sequence(event));
    Segment { after, events: part, seen, settled: seen, ..Segment::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_was_read_before_all_were_forgotten_is_not_kept() {
        let pages = Pages::default();
        let page = || Page { end: 9, events: Vec::new(), bytes: 0, used: 0 };
        let before = pages.clearings();
        pages.clear();
        pages.keep(0, page(), before);
        assert!(pages.cached(0, 10).is_none());
        pages.keep(0, page(), pages.clearings());
        assert_eq!(pages.cached(0, 10).map(|segment| segment.seen), Some(9));
    }

    #[test]
    fn pages_of_large_events_have_fewer() {
        assert_eq!(next_size(1_000, 1_000, 700_000), 1_000);
        assert_eq!(next_size(1_000, 8, 8 * 1024 * 1024), 4);
        assert_eq!(next_size(4, 4, 2_800), 8, "and grow again, step by step");
        assert_eq!(next_size(1_000, 0, 0), 1_000);
        assert_eq!(next_size(1, 1, 256 * 1024 * 1024), 1);
    }
}
