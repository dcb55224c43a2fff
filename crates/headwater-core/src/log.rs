//! The log as a trait: what every backend promises. `headwater-conformance` holds them to it.

use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use uuid::Uuid;

use crate::query::DEFAULT_PAGE_SIZE;
use crate::{
    Append, AppendError, Appended, Direction, Event, Gaps, History, Horizon, LogPage, LogQuery, LongTransactions, Look,
    LookAhead, PassedOver, ReadError, StreamQuery,
};

/// The log of one namespace.
///
/// Laws: an append is all or nothing, and durable when it answers; a stream's versions have no holes; the log has one
/// order, which no reader sees change; an append repeated with the same event ids answers as the first time.
#[async_trait]
pub trait EventLog: Send + Sync {
    /// The namespace's name.
    fn namespace(&self) -> &str;

    /// Appends events, all or none.
    async fn append(&self, append: Append) -> Result<Appended, AppendError>;

    /// At most one page of a stream: `query.page_size` events or fewer, `query.limit` aside.
    async fn stream_page(&self, query: &StreamQuery) -> Result<Vec<Event>, ReadError>;

    /// At most one page of the log, up to the horizon.
    async fn log_page(&self, query: &LogQuery) -> Result<LogPage, ReadError>;

    /// The event with this id.
    async fn event(&self, id: Uuid) -> Result<Option<Event>, ReadError>;

    /// Events of one correlation after a sequence, in order, at most `limit`.
    async fn correlated(&self, correlation_id: Uuid, after: u64, limit: u32) -> Result<Vec<Event>, ReadError>;

    /// What led to an event, itself, and what it led to, in order of the log, at most `limit`.
    async fn causation_chain(&self, id: Uuid, limit: u32) -> Result<Vec<Event>, ReadError>;

    /// How far the log is settled, and who may still commit beyond.
    async fn horizon(&self) -> Result<Horizon, ReadError>;

    /// What is visible after a cursor and, by now, in gaps before it, whether or not the log is settled there; and how far
    /// it is. For readers that follow the log and decide themselves what to do about gaps. May answer fewer than `limit` events.
    ///
    /// As it stands here, it is right for logs whose events never appear out of order.
    async fn look_ahead(&self, after: u64, gaps: &Gaps, limit: u32) -> Result<LookAhead, ReadError> {
        _ = gaps;
        let LogPage { events, cursor, more, .. } = self.log_page(&LogQuery::after(after).page_size(limit)).await?;
        Ok(LookAhead { events, seen: cursor, settled: cursor, more, ..LookAhead::default() })
    }

    /// How far the log is settled, at most up to `seen`, for a reader who has seen the event at that place: see [`horizon`](EventLog::horizon). Reads no
    /// events where that can be helped.
    async fn settled_up_to(&self, seen: u64) -> Result<Horizon, ReadError> {
        let horizon = self.horizon().await?;
        Ok(Horizon { horizon: horizon.horizon.min(seen), ..horizon })
    }

    /// [`look_ahead`](EventLog::look_ahead), for whoever looked before: gaps are looked into only where something can have changed. A gap is filled when its writer ends, so
    /// one question, who has ended since, spares all gaps that lie below those. Where not all of the gaps that had to be looked into could be, nothing after the
    /// cursor is answered: who sees an event has seen what its stream had before.
    async fn look_again(&self, look: Look<'_>) -> Result<LookAhead, ReadError> {
        let looked_to = look.after;
        Ok(LookAhead { looked_to, ..self.look_ahead(look.after, look.gaps, look.limit).await? })
    }

    /// What is visible in these gaps, in order, at most `limit` events (in `filled`); `seen`: how far they were looked into.
    async fn in_gaps(&self, gaps: &Gaps, limit: u32) -> Result<LookAhead, ReadError> {
        _ = limit;
        let look = self.look_ahead(gaps.last().unwrap_or_default(), gaps, 1).await?;
        Ok(LookAhead { filled: look.filled, poison: look.poison, seen: u64::MAX, ..LookAhead::default() })
    }

    /// A page of what is visible in `after..=up_to`, `after` excluded, whether or not it is settled: no proof that nothing is missing.
    async fn visible_page(&self, after: u64, up_to: u64, limit: u32) -> Result<LogPage, ReadError> {
        self.log_page(&LogQuery::after(after).up_to(up_to).page_size(limit)).await
    }

    /// A page of a part of the log that is known to be settled up to `settled`: what is missing in it is a permanent gap.
    async fn settled_page(&self, after: u64, settled: u64, limit: u32) -> Result<LogPage, ReadError> {
        self.log_page(&LogQuery::after(after).up_to(settled).page_size(limit)).await
    }

    /// What a reader of some types may pass after `after`, in a log that is known to be settled up to `settled`: events of other types, which are counted and not
    /// read. `None`: read on; there may be one of these types near.
    async fn pass_types(
        &self,
        after: u64,
        settled: u64,
        event_types: &[String],
    ) -> Result<Option<PassedOver>, ReadError> {
        _ = (after, settled, event_types);
        Ok(None)
    }

    /// The transactions of a part of the log (from after the first sequence up to the second) that may have events before it: those whose id is at or below `newest`, the highest
    /// id of all before the part. With them, those whose events in the part are at least `span` apart. If there are more than `limit`, only so many. Whoever goes over the log part by part
    /// learns where all transactions end that are spread over much of it, and reads a bounded number of events at once.
    ///
    /// As it stands here, it is right for logs in which the events of a transaction follow each other.
    async fn long_transactions(
        &self,
        part: (u64, u64),
        newest: u64,
        span: u64,
        limit: u32,
    ) -> Result<LongTransactions, ReadError> {
        _ = (part, span, limit);
        Ok(LongTransactions { newest, ..LongTransactions::default() })
    }

    /// The server's [`History`].
    async fn history(&self) -> Result<History, ReadError> {
        Ok(History::default())
    }

    /// The same log, of which every read fails with [`ReadError::OtherHistory`] that a server with another history answers.
    fn under(&self, history: History) -> Arc<dyn EventLog>;

    /// A stream's events, one page in memory at a time.
    fn read_stream(&self, query: StreamQuery) -> BoxStream<'_, Result<Event, ReadError>> {
        let pages = stream::try_unfold((query, false), move |(mut query, done)| async move {
            if done || query.limit == Some(0) {
                return Ok::<_, ReadError>(None);
            }
            let asked = capped(query.page_size, query.limit);
            let page_size = std::mem::replace(&mut query.page_size, asked);
            let events = self.stream_page(&query).await?;
            query.page_size = page_size;
            query.limit = query.limit.map(|limit| limit - events.len() as u64);
            let mut done = events.len() < asked as usize;
            if let Some(version) = events.last().and_then(|event| event.stream_version) {
                match query.direction {
                    Direction::Forwards => query.from_version = Some(version + 1),
                    Direction::Backwards => {
                        query.to_version = Some(version - 1);
                        done |= version == 1;
                    }
                }
            }
            Ok(Some((stream::iter(events.into_iter().map(Ok)), (query, done))))
        });
        pages.try_flatten().boxed()
    }

    /// The log's events up to the horizon as it is when they are reached, one page in memory at a time.
    fn read_log(&self, query: LogQuery) -> BoxStream<'_, Result<Event, ReadError>> {
        self.read_log_pages(query).map_ok(|page| stream::iter(page.events.into_iter().map(Ok))).try_flatten().boxed()
    }

    /// The log page by page, with its gaps. The last page says what holds the rest back, if anything does.
    fn read_log_pages(&self, query: LogQuery) -> BoxStream<'_, Result<LogPage, ReadError>> {
        let start = (query, Fitting::default(), false);
        let pages = stream::try_unfold(start, move |(mut query, mut fitting, done)| async move {
            if done || query.limit == Some(0) {
                return Ok::<_, ReadError>(None);
            }
            let asked = capped(query.page_size.min(fitting.0), query.limit);
            let page_size = std::mem::replace(&mut query.page_size, asked);
            let page = self.log_page(&query).await?;
            fitting.note(asked, &page);
            query.page_size = page_size;
            query.limit = query.limit.map(|limit| limit - page.events.len() as u64);
            match query.direction {
                Direction::Forwards => query.after = page.cursor,
                Direction::Backwards => query.up_to = Some(page.cursor.saturating_sub(1)),
            }
            let done = !page.more;
            Ok(Some((page, (query, fitting, done))))
        });
        pages.boxed()
    }

    /// The events of one correlation, in order, one page in memory at a time.
    fn read_correlated(&self, correlation_id: Uuid) -> BoxStream<'_, Result<Event, ReadError>> {
        let pages = stream::try_unfold(Some(0), move |after| async move {
            let Some(after) = after else { return Ok::<_, ReadError>(None) };
            let events = self.correlated(correlation_id, after, DEFAULT_PAGE_SIZE).await?;
            let full = events.len() == DEFAULT_PAGE_SIZE as usize;
            let next = events.last().and_then(|event| event.global_sequence).filter(|_| full);
            Ok(Some((stream::iter(events.into_iter().map(Ok)), next)))
        });
        pages.try_flatten().boxed()
    }

    /// All events after a sequence.
    fn read_all_events_since(&self, global_sequence: u64) -> BoxStream<'_, Result<Event, ReadError>> {
        self.read_log(LogQuery::after(global_sequence))
    }
}

/// How many events to ask for. A page has so many bytes at most: what a server sends beyond is thrown away and sent again with the next page.
/// So the first page is small, and those of large events ask for about as many as fit.
#[derive(Debug, Clone, Copy)]
struct Fitting(u32);

/// Events that the first page asks for at most.
const FIRST_PAGE: u32 = 64;
/// A page with fewer bytes was not cut for its size, and the next may have more events.
const LARGE_PAGE: usize = 1024 * 1024;

impl Default for Fitting {
    fn default() -> Self {
        Fitting(FIRST_PAGE)
    }
}

impl Fitting {
    fn note(&mut self, asked: u32, page: &LogPage) {
        let events = page.events.len() as u32;
        let bytes: usize = page.events.iter().map(|event| event.data_text().len()).sum();
        if bytes < LARGE_PAGE {
            self.0 = self.0.saturating_mul(2);
        } else if page.more && events < asked {
            self.0 = events.max(1);
        }
    }
}

fn capped(page_size: u32, limit: Option<u64>) -> u32 {
    limit.map_or(page_size, |limit| page_size.min(limit.try_into().unwrap_or(u32::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(events: usize, bytes: usize, more: bool) -> LogPage {
        let event = Event::raw("tested", serde_json::Value::String("x".repeat(bytes)));
        LogPage { events: vec![event; events], more, ..LogPage::default() }
    }

    #[test]
    fn pages_of_large_events_ask_for_as_many_as_fit() {
        let mut fitting = Fitting::default();
        fitting.note(64, &page(64, 200, true));
        fitting.note(128, &page(128, 200, true));
        assert_eq!(fitting.0, 256);
        fitting.note(256, &page(9, 900_000, true));
        assert_eq!(fitting.0, 9);
        fitting.note(9, &page(9, 900_000, true));
        assert_eq!(fitting.0, 9);
        fitting.note(9, &page(9, 200, true));
        assert_eq!(fitting.0, 18, "they have become smaller");
        fitting.note(18, &page(3, 200, true));
        assert_eq!(fitting.0, 36, "short for another reason");
    }
}
