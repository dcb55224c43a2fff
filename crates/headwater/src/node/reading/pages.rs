//! Pages of the log, shared by subscribers that catch up at the same time.
//!
//! Settled events never change within a history, so a page that one subscriber has read serves all
//! others that need a part of it. The exception is a repaired row: it makes the pages begin anew,
//! as another history does. One page is read at a time. A subscriber that waited for its turn
//! usually finds that its page is there by then. The next page is read while the events of the
//! present one are handled.
//!
//! Events behind the ring that a long transaction keeps unsettled are read in separate pages
//! ([`PageSource::Visible`]). These pages have the events that were visible when the ring looked. They
//! are dropped where the ring's holes change.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use headwater_core::{EventLog, Gap, GapState, Gaps, ReadError, RecordedEvent, Segment};

use crate::node::reading::ring::weight;

/// The most events of one read.
pub(in crate::node) const PAGE_SIZE: u32 = 1_000;
/// The target for the bytes of a page. Of large events, one read takes fewer.
const PAGE_BYTES: usize = 4 * 1024 * 1024;
/// The most bytes of pages that are kept.
const MAX_BYTES: usize = 32 * 1024 * 1024;

#[derive(Debug)]
struct Page {
    /// The last sequence that the page covers.
    end: u64,
    events: Vec<Arc<RecordedEvent>>,
    bytes: usize,
    /// Gaps that the read proved permanent, until somebody takes them.
    gaps: Vec<Gap>,
    /// Retention has dropped everything at or below this sequence. 0: the page shows no such place.
    trimmed_to: u64,
    /// Whether somebody has used the page.
    begun: bool,
    /// When the page was last used, as a count of uses.
    used: u64,
}

/// The part of the log that pages are read from.
#[derive(Debug, Clone)]
pub(in crate::node) enum PageSource {
    /// A log that is settled up to this sequence.
    Settled(u64),
    /// A log of which the ring has seen everything up to `seen`, except these holes. `version` is
    /// the version of the holes.
    Visible { seen: u64, holes: Gaps, version: u64 },
}

impl PageSource {
    fn end(&self) -> u64 {
        match self {
            PageSource::Settled(end) | PageSource::Visible { seen: end, .. } => *end,
        }
    }

    fn version(&self) -> u64 {
        match self {
            PageSource::Settled(_) => 0,
            PageSource::Visible { version, .. } => *version,
        }
    }
}

#[derive(Debug, Default)]
struct Cache {
    /// The version of the holes that the pages match.
    version: u64,
    /// The pages by the sequence before their first one.
    pages: BTreeMap<u64, Page>,
    bytes: usize,
    uses: u64,
}

/// A part of a page.
pub(in crate::node) struct PageSlice {
    pub(in crate::node) segment: Segment,
    /// Gaps that the read proved permanent, and poison that it found, for the first user of the
    /// page.
    pub(in crate::node) gaps: Vec<Gap>,
    /// Retention has dropped everything at or below this sequence. 0: the page shows no such place.
    pub(in crate::node) trimmed_to: u64,
    /// The end of the page, for its first user.
    begun_up_to: Option<u64>,
}

/// A cache of pages.
#[derive(Debug)]
pub(in crate::node) struct Pages {
    cache: Mutex<Cache>,
    reading: tokio::sync::Mutex<()>,
    /// The number of events that the next read asks for.
    size: AtomicU32,
}

impl Default for Pages {
    fn default() -> Self {
        Pages { cache: Mutex::default(), reading: tokio::sync::Mutex::default(), size: AtomicU32::new(PAGE_SIZE) }
    }
}

/// Returns how many events to read next, after a read of `events` events with `bytes` bytes in all.
pub(in crate::node) fn next_size(size: u32, events: usize, bytes: usize) -> u32 {
    let fitting = (PAGE_BYTES * events.max(1) / bytes.max(1)).clamp(1, PAGE_SIZE as usize) as u32;
    fitting.min(size.saturating_mul(2)).clamp(1, PAGE_SIZE)
}

impl Pages {
    /// Drops the pages where holes have changed, up to a version of the holes. `None`: drops all
    /// pages.
    pub(in crate::node) fn give_up(&self, changes: Option<impl Iterator<Item = (u64, u64)>>, version: u64) {
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

    /// The version of the holes that the pages match.
    pub(in crate::node) fn version(&self) -> u64 {
        self.cache.lock().expect("no holder of this lock panics").version
    }

    /// Returns what comes after `after`, at most `limit` events.
    pub(in crate::node) async fn slice(
        self: &Arc<Self>,
        log: &Arc<dyn EventLog>,
        after: u64,
        source: PageSource,
        limit: usize,
    ) -> Result<PageSlice, ReadError> {
        let part = match self.cached(after, limit) {
            Some(part) => part,
            None => self.read(&**log, after, &source, limit).await?,
        };
        if let Some(end) = part.begun_up_to.filter(|end| after < *end && *end < source.end()) {
            let (pages, log) = (self.clone(), log.clone());
            // If this fails, the subscriber that needs the page reads it, and learns why.
            tokio::spawn(async move { pages.read(&*log, end, &source, 0).await.map(drop) });
        }
        Ok(part)
    }

    /// Reads the page after `after`, unless it is there by now, and returns its first `limit`
    /// events.
    async fn read(
        &self,
        log: &dyn EventLog,
        after: u64,
        source: &PageSource,
        limit: usize,
    ) -> Result<PageSlice, ReadError> {
        let _turn = self.reading.lock().await;
        if let Some(part) = self.cached(after, limit) {
            return Ok(part);
        }
        let size = self.size.load(Ordering::Relaxed);
        let mut page = match source {
            PageSource::Settled(settled) => log.settled_page(after, *settled, size).await?,
            PageSource::Visible { seen, .. } => log.visible_page(after, *seen, size).await?,
        };
        if let PageSource::Visible { holes, .. } = source {
            // An event that has come since then is late, or in order for a subscriber that waits
            // for it: the ring reports it.
            page.events.retain(|event| !holes.contains(event.sequence().get()));
        }
        let events: Vec<_> = page.events.into_iter().map(Arc::new).collect();
        let bytes = events.iter().map(|event| weight(event)).sum();
        self.size.store(next_size(size, events.len(), bytes), Ordering::Relaxed);
        let trimmed = page.gaps.iter().filter(|gap| gap.state == GapState::Trimmed);
        let trimmed_to = trimmed.map(|gap| gap.last).max().unwrap_or(0);
        let mut page = Page { end: page.cursor, events, bytes, gaps: page.gaps, trimmed_to, begun: false, used: 0 };
        let part = page.part(after, limit);
        self.keep(after, page, source.version());
        Ok(part)
    }

    fn cached(&self, after: u64, limit: usize) -> Option<PageSlice> {
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
    /// The part after `after`, at most `limit` events. A limit of 0 does not count as a use.
    fn part(&mut self, after: u64, limit: usize) -> PageSlice {
        let (segment, trimmed_to) = (slice(after, self.end, &self.events, limit), self.trimmed_to);
        if limit == 0 {
            return PageSlice { segment, gaps: Vec::new(), trimmed_to, begun_up_to: None };
        }
        let first = !std::mem::replace(&mut self.begun, true);
        PageSlice { segment, gaps: std::mem::take(&mut self.gaps), trimmed_to, begun_up_to: first.then_some(self.end) }
    }
}

/// The part of a page after `after`. All of it counts as settled.
fn slice(after: u64, end: u64, events: &[Arc<RecordedEvent>], limit: usize) -> Segment {
    let from = events.partition_point(|event| event.sequence() <= after);
    let part: Vec<_> = events[from..].iter().take(limit).cloned().collect();
    let cut = from + part.len() < events.len();
    let seen = part.last().filter(|_| cut).map_or(end, |event| event.sequence().get());
    Segment { after, events: part, seen, settled: seen, ..Segment::default() }
}

#[cfg(test)]
mod tests {
    use headwater_core::{Append, Event};
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
        let segment = pages.slice(&log, 0, PageSource::Settled(2_500), 100).await.unwrap().segment;
        assert_eq!((segment.events.len(), segment.seen), (100, 100));
        tokio::task::yield_now().await;
        assert_eq!(pages.cache.lock().unwrap().pages.keys().copied().collect::<Vec<_>>(), [0, 1_000]);
        pages.slice(&log, 100, PageSource::Settled(2_500), 100).await.unwrap();
        tokio::task::yield_now().await;
        assert_eq!(pages.cache.lock().unwrap().pages.len(), 2, "one ahead, not two");
        pages.slice(&log, 1_000, PageSource::Settled(2_500), 100).await.unwrap();
        tokio::task::yield_now().await;
        pages.slice(&log, 2_000, PageSource::Settled(2_500), 100).await.unwrap();
        tokio::task::yield_now().await;
        assert_eq!(pages.cache.lock().unwrap().pages.keys().copied().collect::<Vec<_>>(), [0, 1_000, 2_000]);
    }

    #[tokio::test]
    async fn the_gaps_of_a_page_that_was_read_ahead_are_told_to_who_uses_it_first() {
        let pages = Pages::default();
        let gap = Gap { first: 3, last: 4, state: GapState::Permanent };
        let page = Page {
            end: 9,
            events: Vec::new(),
            bytes: 0,
            gaps: vec![gap.clone()],
            trimmed_to: 0,
            begun: false,
            used: 0,
        };
        pages.keep(0, page, 0);
        assert_eq!(pages.cached(0, 0).unwrap().gaps, []);
        assert_eq!(pages.cached(2, 5).unwrap().gaps, [gap]);
        assert_eq!(pages.cached(2, 5).unwrap().gaps, []);
    }
}
