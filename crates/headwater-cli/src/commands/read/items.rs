//! The requested events and gaps as one stream, with one page in memory at a time.

use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use headwater::log::{EventLog, Gap, LogPage, LogQuery, ReadError, StreamQuery};
use headwater::{Namespace, RecordedEvent};

use super::Read;

/// The most events of a page.
const PAGE_EVENTS: u32 = 1_000;
/// About the most memory that a page with the largest payloads may take, in bytes.
const PAGE_BYTES: u32 = 256 * 1024 * 1024;
/// The most events of a chain of causes, unless `--limit` says otherwise. A chain is read at once.
pub(super) const CHAIN_EVENTS: u32 = 10_000;

pub(super) enum Item {
    Event(Box<RecordedEvent>),
    Gap(Gap),
}

type Items<'a> = BoxStream<'a, Result<Item, ReadError>>;

impl Read {
    pub(super) fn items<'a>(&'a self, namespace: &'a Namespace) -> Items<'a> {
        let page_size = (PAGE_BYTES / namespace.info().max_payload_bytes.max(1)).clamp(1, PAGE_EVENTS);
        if let Some(id) = self.id {
            let found = stream::once(namespace.event(id)).try_filter_map(async |found| Ok(found));
            return self.picked(found.boxed());
        }
        if let Some(id) = self.causation {
            let limit = self.limit.and_then(|limit| u32::try_from(limit).ok()).unwrap_or(CHAIN_EVENTS);
            let chain =
                stream::once(namespace.causation_chain(id, if self.types.is_empty() { limit } else { CHAIN_EVENTS }));
            return self.picked(chain.map_ok(|events| stream::iter(events).map(Ok)).try_flatten().boxed());
        }
        if let Some(id) = self.correlation {
            let up_to = self.up_to.unwrap_or(u64::MAX);
            let pages = stream::try_unfold(Some(self.after.unwrap_or(0)), move |after| async move {
                let Some(after) = after else { return Ok::<_, ReadError>(None) };
                let events = namespace.log().correlated(id, after, page_size).await?;
                let next = events.last().map(|event| event.sequence().get());
                let more = events.len() == page_size as usize;
                Ok(Some((stream::iter(events).map(Ok), next.filter(|next| more && *next < up_to))))
            });
            let events = pages.try_flatten();
            return self.picked(events.try_filter(move |event| std::future::ready(event.sequence() <= up_to)).boxed());
        }
        if let Some(stream_id) = &self.stream {
            let mut query = StreamQuery::new(stream_id).page_size(page_size);
            (query.from_version, query.to_version) = (self.from_version, self.to_version);
            if self.backwards {
                query = query.backwards();
            }
            // If types are picked here, it is not known how many events must be read.
            query.limit = self.limit.filter(|_| self.types.is_empty());
            return self.picked(namespace.read_stream(query));
        }
        let pages = namespace.read_log_pages(self.log_query(page_size));
        pages.map_ok(|page| stream::iter(in_order(page)).map(Ok)).try_flatten().boxed()
    }

    fn log_query(&self, page_size: u32) -> LogQuery {
        let mut query = LogQuery::after(self.after.unwrap_or(0)).page_size(page_size).event_types(&self.types);
        (query.up_to, query.limit) = (self.up_to, self.limit);
        query.stream_prefix.clone_from(&self.stream_prefix);
        if self.backwards { query.backwards() } else { query }
    }

    /// Picks the types here, for reads that do not pick them in the database.
    fn picked<'a>(&'a self, events: BoxStream<'a, Result<RecordedEvent, ReadError>>) -> Items<'a> {
        let query = LogQuery::default().event_types(&self.types);
        let picked = events.try_filter(move |event| std::future::ready(query.matches(event)));
        let limit = self.limit.map_or(usize::MAX, |limit| limit.try_into().unwrap_or(usize::MAX));
        picked.take(limit).map_ok(|event| Item::Event(Box::new(event))).boxed()
    }
}

/// Returns the events and gaps of a page in the order of the log. A page that is read backwards has
/// no gaps.
fn in_order(page: LogPage) -> impl Iterator<Item = Item> {
    let mut gaps = page.gaps.into_iter().peekable();
    let mut events = page.events.into_iter().peekable();
    std::iter::from_fn(move || {
        let event = events.peek().map(|event| event.sequence());
        match (gaps.peek(), event) {
            (Some(gap), event) if event.is_none_or(|sequence| sequence > gap.first) => gaps.next().map(Item::Gap),
            _ => events.next().map(|event| Item::Event(Box::new(event))),
        }
    })
}
