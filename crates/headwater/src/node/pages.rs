//! Pages of the log, shared by subscribers that catch up side by side.
//!
//! What is settled never changes in a history (but for a row that is repaired: then there are new pages, as for another history), so a page that one subscriber has read serves all
//! others that need a part of it. One page is read at a time: whoever waits for its turn finds, more often than not, that the page it needs is
//! there by then. The next page is read while the events of one are handled.
//!
//! What lies behind the ring and is not settled, since a long transaction holds it up, is read in pages of its own ([`Source::Visible`]): they have what was visible when the ring looked, and are given up
//! where its holes change.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use headwater_core::{Event, EventLog, Gap, Gaps, ReadError, Segment};

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
    /// Those that reading it proved permanent, until somebody was told.
    gaps: Vec<Gap>,
    /// Somebody has used it.
    begun: bool,
    /// When it was last used, in uses.
    used: u64,
}

/// What pages are read of.
#[derive(Debug, Clone)]
pub(super) enum Source {
    /// A log that is settled up to here.
    Settled(u64),
    /// A log of which the ring has seen everything up to `seen`, but for these holes; with the version of the holes.
    Visible { seen: u64, holes: Gaps, version: u64 },
}

impl Source {
    fn end(&self) -> u64 {
        match self {
            Source::Settled(end) | Source::Visible { seen: end, .. } => *end,
        }
    }

    fn version(&self) -> u64 {
        match self {
            Source::Settled(_) => 0,
            Source::Visible { version, .. } => *version,
        }
    }
}

#[derive(Debug, Default)]
struct Cache {
    /// Of the holes, that the pages are right for.
    version: u64,
    /// By where they begin (excluded).
    pages: BTreeMap<u64, Page>,
    bytes: usize,
    uses: u64,
}

/// A part of a page.
struct Part {
    segment: Segment,
    gaps: Vec<Gap>,
    /// Where the page ends, for the first who uses it.
    begun_up_to: Option<u64>,
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
    /// Gives up what was read where holes have changed, up to a version of them; `None`: all of it.
    pub(super) fn give_up(&self, changes: Option<impl Iterator<Item = (u64, u64)>>, version: u64) {
        let mut cache = self.cache.lock().expect("no holder of this lock panics");
        cache.version = version;
        let Some(changes) = changes else {
            (cache.pages, cache.bytes) = (BTreeMap::new(), 0);
            return;
        };
        for (first, last) in changes {
            cache.pages.retain(|start, page| page.end < first || *start >= last);
        }
        cache.bytes = cache.pages.values().map(|page| page.bytes).sum();
    }

    /// The version of the holes that pages are right for.
    pub(super) fn version(&self) -> u64 {
        self.cache.lock().expect("no holder of this lock panics").version
    }

    /// What comes after `after`, at most `limit` events; also the gaps that reading it proved permanent, and poison that was come upon.
    pub(super) async fn segment(
        self: &Arc<Self>,
        log: &Arc<dyn EventLog>,
        after: u64,
        source: Source,
        limit: usize,
    ) -> Result<(Segment, Vec<Gap>), ReadError> {
        let part = match self.cached(after, limit) {
            Some(part) => part,
            None => self.read(&**log, after, &source, limit).await?,
        };
        if let Some(end) = part.begun_up_to.filter(|end| after < *end && *end < source.end()) {
            let (pages, log) = (self.clone(), log.clone());
            // If it fails, who needs the page reads it, and learns why.
            tokio::spawn(async move { pages.read(&*log, end, &source, 0).await.map(drop) });
        }
        Ok((part.segment, part.gaps))
    }

    /// Reads the page after `after`, unless it is there by now, and answers its first `limit` events.
    async fn read(&self, log: &dyn EventLog, after: u64, source: &Source, limit: usize) -> Result<Part, ReadError> {
        let _turn = self.reading.lock().await;
        if let Some(part) = self.cached(after, limit) {
            return Ok(part);
        }
        let size = self.size.load(Ordering::Relaxed);
        let mut page = match source {
            Source::Settled(settled) => log.settled_page(after, *settled, size).await?,
            Source::Visible { seen, .. } => log.visible_page(after, *seen, size).await?,
        };
        if let Source::Visible { holes, .. } = source {
            // What has come since then is late, or in order for who waits for it: the ring tells of it.
            page.events.retain(|event| !holes.contains(sequence(event)));
        }
        let events: Vec<_> = page.events.into_iter().map(Arc::new).collect();
        let bytes = events.iter().map(|event| weight(event)).sum();
        self.size.store(next_size(size, events.len(), bytes), Ordering::Relaxed);
        let mut page = Page { end: page.cursor, events, bytes, gaps: page.gaps, begun: false, used: 0 };
        let part = page.part(after, limit);
        self.keep(after, page, source.version());
        Ok(part)
    }

    fn cached(&self, after: u64, limit: usize) -> Option<Part> {
        let mut cache = self.cache.lock().expect("no holder of this lock panics");
        cache.uses += 1;
        let uses = cache.uses;
        let (_, page) = cache.pages.range_mut(..=after).next_back().filter(|(_, page)| page.end > after)?;
        page.used = uses;
        Some(page.part(after, limit))
    }

    fn keep(&self, start: u64, page: Page, version: u64) {
        let mut cache = self.cache.lock().expect("no holder of this lock panics");
        if page.end <= start || version != cache.version {
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

impl Page {
    /// What comes after `after`, for somebody who wants `limit` events; nobody uses it if that is 0.
    fn part(&mut self, after: u64, limit: usize) -> Part {
        let segment = slice(after, self.end, &self.events, limit);
        if limit == 0 {
            return Part { segment, gaps: Vec::new(), begun_up_to: None };
        }
        let first = !std::mem::replace(&mut self.begun, true);
        Part { segment, gaps: std::mem::take(&mut self.gaps), begun_up_to: first.then_some(self.end) }
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
    use headwater_core::{Append, GapState};
    use headwater_memory::MemoryLog;

    use super::*;

    #[test]
    fn pages_of_large_events_have_fewer() {
        assert_eq!(next_size(1_000, 1_000, 700_000), 1_000);
        assert_eq!(next_size(1_000, 8, 8 * 1024 * 1024), 4);
        assert_eq!(next_size(4, 4, 2_800), 8, "and grow again, step by step");
        assert_eq!(next_size(1_000, 0, 0), 1_000);
        assert_eq!(next_size(1, 1, 256 * 1024 * 1024), 1);
    }

    async fn log_of(events: usize) -> Arc<dyn EventLog> {
        let log = MemoryLog::new("tested");
        let event = |append: Append, _| append.event(Event::raw("tested", serde_json::json!({})));
        log.append((0..events).fold(Append::new(), event)).await.unwrap();
        Arc::new(log)
    }

    #[tokio::test]
    async fn the_next_page_is_read_while_one_is_used() {
        let (pages, log) = (Arc::new(Pages::default()), log_of(2_500).await);
        let (segment, _) = pages.segment(&log, 0, Source::Settled(2_500), 100).await.unwrap();
        assert_eq!((segment.events.len(), segment.seen), (100, 100));
        tokio::task::yield_now().await;
        assert_eq!(pages.cache.lock().unwrap().pages.keys().copied().collect::<Vec<_>>(), [0, 1_000]);
        pages.segment(&log, 100, Source::Settled(2_500), 100).await.unwrap();
        tokio::task::yield_now().await;
        assert_eq!(pages.cache.lock().unwrap().pages.len(), 2, "one ahead, not two");
        pages.segment(&log, 1_000, Source::Settled(2_500), 100).await.unwrap();
        tokio::task::yield_now().await;
        pages.segment(&log, 2_000, Source::Settled(2_500), 100).await.unwrap();
        tokio::task::yield_now().await;
        assert_eq!(pages.cache.lock().unwrap().pages.keys().copied().collect::<Vec<_>>(), [0, 1_000, 2_000]);
    }

    #[tokio::test]
    async fn the_gaps_of_a_page_that_was_read_ahead_are_told_to_who_uses_it_first() {
        let pages = Pages::default();
        let gap = Gap { first: 3, last: 4, state: GapState::Permanent };
        let page = Page { end: 9, events: Vec::new(), bytes: 0, gaps: vec![gap.clone()], begun: false, used: 0 };
        pages.keep(0, page, 0);
        assert_eq!(pages.cached(0, 0).unwrap().gaps, []);
        assert_eq!(pages.cached(2, 5).unwrap().gaps, [gap]);
        assert_eq!(pages.cached(2, 5).unwrap().gaps, []);
    }
}
