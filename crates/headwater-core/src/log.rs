//! The log as a trait: what every backend promises. `headwater-conformance` tests these promises.

use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use uuid::Uuid;

use crate::query::DEFAULT_PAGE_SIZE;
use crate::{
    Append, AppendError, Appended, Direction, Gaps, History, Horizon, LogPage, LogQuery, LongTransactions, Look,
    LookAhead, PassedOver, ReadError, RecordedEvent, Sequence, StreamQuery,
};

/// The log of one namespace.
///
/// The laws:
///
/// An append is stored completely or not at all, and it is durable when it returns. The versions of
/// a stream have no holes. The log has one order, which no reader sees change. An append that is
/// repeated with the same event ids gets its first result.
#[async_trait]
pub trait EventLog: Send + Sync {
    /// The namespace's name.
    fn namespace(&self) -> &str;

    /// Appends events, all or none.
    async fn append(&self, append: Append) -> Result<Appended, AppendError>;

    /// Returns at most one page of a stream: up to `query.page_size` events, regardless of
    /// `query.limit`.
    async fn stream_page(&self, query: &StreamQuery) -> Result<Vec<RecordedEvent>, ReadError>;

    /// At most one page of the log, up to the horizon.
    async fn log_page(&self, query: &LogQuery) -> Result<LogPage, ReadError>;

    /// The event with this id.
    async fn event(&self, id: Uuid) -> Result<Option<RecordedEvent>, ReadError>;

    /// Returns the events of one correlation after a sequence, in order, at most `limit`.
    async fn correlated(&self, correlation_id: Uuid, after: u64, limit: u32) -> Result<Vec<RecordedEvent>, ReadError>;

    /// Returns an event with its causes and its effects, in order of the log, at most `limit`.
    async fn causation_chain(&self, id: Uuid, limit: u32) -> Result<Vec<RecordedEvent>, ReadError>;

    /// Returns how far the log is settled, and which writers may still commit above that.
    async fn horizon(&self) -> Result<Horizon, ReadError>;

    /// Returns what is visible after a cursor and in open gaps before it, settled or not, and how
    /// far the log is settled. For readers that follow the log and handle gaps themselves. May
    /// return fewer than `limit` events.
    ///
    /// The default is right for logs whose events never appear out of order.
    async fn look_ahead(&self, after: u64, gaps: &Gaps, limit: u32) -> Result<LookAhead, ReadError> {
        _ = gaps;
        let LogPage { events, cursor, more, .. } = self.log_page(&LogQuery::after(after).page_size(limit)).await?;
        Ok(LookAhead { events, seen: cursor, settled: cursor, more, ..LookAhead::default() })
    }

    /// Returns how far the log is settled, at most up to `seen`: see
    /// [`horizon`](EventLog::horizon). The caller has seen the event at `seen`. Avoids reading
    /// events where possible.
    async fn settled_up_to(&self, seen: u64) -> Result<Horizon, ReadError> {
        let horizon = self.horizon().await?;
        Ok(Horizon { horizon: horizon.horizon.min(seen), ..horizon })
    }

    /// Like [`look_ahead`](EventLog::look_ahead), for a reader that has looked before. It looks
    /// only into gaps that can have changed. A gap fills when its writer ends, so one query for the
    /// writers that have ended spares all gaps below them.
    ///
    /// If not all of the changed gaps could be looked into, nothing after the cursor is returned: a
    /// reader that sees an event has seen the earlier events of its stream.
    async fn look_again(&self, look: Look<'_>) -> Result<LookAhead, ReadError> {
        let looked_to = look.after;
        Ok(LookAhead { looked_to, ..self.look_ahead(look.after, look.gaps, look.limit).await? })
    }

    /// Returns what is visible in these gaps, in order, at most `limit` events (in `filled`).
    /// `seen` says how far the gaps were looked into.
    async fn in_gaps(&self, gaps: &Gaps, limit: u32) -> Result<LookAhead, ReadError> {
        _ = limit;
        let look = self.look_ahead(gaps.last().unwrap_or_default(), gaps, 1).await?;
        Ok(LookAhead { filled: look.filled, poison: look.poison, seen: u64::MAX, ..LookAhead::default() })
    }

    /// Returns a page of what is visible above `after` and up to `up_to`, settled or not. This
    /// proves nothing about missing events.
    async fn visible_page(&self, after: u64, up_to: u64, limit: u32) -> Result<LogPage, ReadError> {
        self.log_page(&LogQuery::after(after).up_to(up_to).page_size(limit)).await
    }

    /// Returns a page of a part of the log that is settled up to `settled`. Everything missing in
    /// it is a permanent gap.
    async fn settled_page(&self, after: u64, settled: u64, limit: u32) -> Result<LogPage, ReadError> {
        self.log_page(&LogQuery::after(after).up_to(settled).page_size(limit)).await
    }

    /// Returns how far a reader of some types may skip ahead from `after`, in a log that is settled
    /// up to `settled`. The skipped events have other types; they are counted and not read. `None`:
    /// read on, because an event of these types may be near.
    async fn pass_types(
        &self,
        after: u64,
        settled: u64,
        event_types: &[String],
    ) -> Result<Option<PassedOver>, ReadError> {
        _ = (after, settled, event_types);
        Ok(None)
    }

    /// Returns the transactions in a part of the log (first sequence excluded, second included)
    /// that may have events before it. Their ids are at or below `newest`, the highest id of all
    /// transactions before the part. Also returns the transactions whose events in the part are at
    /// least `span` apart. Returns at most `limit` transactions.
    ///
    /// A caller that goes over the log part by part learns where all widely spread transactions
    /// end, and reads a bounded number of events at a time.
    ///
    /// The default is right for logs in which the events of a transaction follow each other.
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

    /// The same log, bound to a history. Every read fails with [`ReadError::OtherHistory`] if a
    /// server with another history answers.
    fn under(&self, history: History) -> Arc<dyn EventLog>;

    /// A stream's events, one page in memory at a time.
    fn read_stream(&self, query: StreamQuery) -> BoxStream<'_, Result<RecordedEvent, ReadError>> {
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
            if let Some(version) = events.last().and_then(|event| event.stream_version()) {
                match query.direction {
                    Direction::Forwards => query.from_version = Some(version.get() + 1),
                    Direction::Backwards => {
                        query.to_version = version.previous().map(Sequence::get);
                        done |= version <= 1;
                    }
                }
            }
            Ok(Some((stream::iter(events.into_iter().map(Ok)), (query, done))))
        });
        pages.try_flatten().boxed()
    }

    /// Reads the log's events, one page in memory at a time, up to the horizon at the time of each
    /// page.
    fn read_log(&self, query: LogQuery) -> BoxStream<'_, Result<RecordedEvent, ReadError>> {
        self.read_log_pages(query).map_ok(|page| stream::iter(page.events.into_iter().map(Ok))).try_flatten().boxed()
    }

    /// Reads the log page by page, with its gaps. The last page tells what holds the rest back, if
    /// anything does.
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
    fn read_correlated(&self, correlation_id: Uuid) -> BoxStream<'_, Result<RecordedEvent, ReadError>> {
        let pages = stream::try_unfold(Some(0), move |after| async move {
            let Some(after) = after else { return Ok::<_, ReadError>(None) };
            let events = self.correlated(correlation_id, after, DEFAULT_PAGE_SIZE).await?;
            let full = events.len() == DEFAULT_PAGE_SIZE as usize;
            let next = events.last().map(|event| event.sequence().get()).filter(|_| full);
            Ok(Some((stream::iter(events.into_iter().map(Ok)), next)))
        });
        pages.try_flatten().boxed()
    }

    /// Reads all events after a sequence.
    fn read_all_events_since(&self, global_sequence: u64) -> BoxStream<'_, Result<RecordedEvent, ReadError>> {
        self.read_log(LogQuery::after(global_sequence))
    }
}

/// How many events to ask for. A page has a maximum size in bytes: events that a server sends
/// beyond it are thrown away and sent again with the next page. So the first page is small, and
/// pages of large events ask for about as many events as fit.
#[derive(Debug, Clone, Copy)]
struct Fitting(u32);

/// The most events that the first page asks for.
const FIRST_PAGE: u32 = 64;
/// A page with fewer bytes was not cut because of its size, so the next page may have more events.
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
    use crate::Event;

    fn page(events: usize, bytes: usize, more: bool) -> LogPage {
        let event = Event {
            global_sequence: Some(1),
            recorded_at: Some(chrono::Utc::now()),
            ..Event::raw("tested", serde_json::Value::String("x".repeat(bytes)))
        };
        LogPage { events: vec![RecordedEvent::new(event).unwrap(); events], more, ..LogPage::default() }
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
