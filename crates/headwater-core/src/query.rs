//! What to read: a stream, or the log.

use crate::names::check_stream_id;
use crate::patterns::matches_pattern;
use crate::{Event, Gap, Gaps, ReadError, StreamId, Writer};

/// Events fetched at a time when a read does not say otherwise: large enough to spread the cost of a round trip,
/// small enough that a page of large payloads fits.
pub const DEFAULT_PAGE_SIZE: u32 = 1_000;
/// The most that may be fetched at a time.
pub const MAX_PAGE_SIZE: u32 = 100_000;

/// Which way to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Direction {
    /// Oldest first.
    #[default]
    Forwards,
    /// Newest first.
    Backwards,
}

/// A read of one stream.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamQuery {
    /// The stream.
    pub stream_id: StreamId,
    /// Lowest version, included.
    pub from_version: Option<u64>,
    /// Highest version, included.
    pub to_version: Option<u64>,
    /// Which way.
    pub direction: Direction,
    /// At most so many events.
    pub limit: Option<u64>,
    /// So many at a time.
    pub page_size: u32,
}

impl StreamQuery {
    /// The whole stream, forwards.
    pub fn new(stream_id: impl Into<StreamId>) -> Self {
        StreamQuery {
            stream_id: stream_id.into(),
            from_version: None,
            to_version: None,
            direction: Direction::Forwards,
            limit: None,
            page_size: DEFAULT_PAGE_SIZE,
        }
    }

    /// From this version on, included.
    pub fn from_version(mut self, version: u64) -> Self {
        self.from_version = Some(version);
        self
    }

    /// Up to this version, included.
    pub fn to_version(mut self, version: u64) -> Self {
        self.to_version = Some(version);
        self
    }

    /// Highest version first.
    pub fn backwards(mut self) -> Self {
        self.direction = Direction::Backwards;
        self
    }

    /// At most so many events.
    pub fn limit(mut self, events: u64) -> Self {
        self.limit = Some(events);
        self
    }

    /// Fetches so many at a time.
    pub fn page_size(mut self, events: u32) -> Self {
        self.page_size = events;
        self
    }

    /// Checks names and ranges.
    pub fn validate(&self) -> Result<(), ReadError> {
        check_stream_id(&self.stream_id)?;
        check_page_size(self.page_size)
    }
}

impl<S: Into<StreamId>> From<S> for StreamQuery {
    fn from(stream_id: S) -> Self {
        StreamQuery::new(stream_id)
    }
}

/// A read of the log.
#[derive(Debug, Clone, PartialEq)]
pub struct LogQuery {
    /// Above this sequence, which is not included.
    pub after: u64,
    /// Up to this sequence, included.
    pub up_to: Option<u64>,
    /// Only these event types, in which `*` stands for any characters; empty: all.
    pub event_types: Vec<String>,
    /// Only this stream.
    pub stream: Option<StreamId>,
    /// Only streams whose id starts so.
    pub stream_prefix: Option<String>,
    /// Which way.
    pub direction: Direction,
    /// At most so many events.
    pub limit: Option<u64>,
    /// So many at a time.
    pub page_size: u32,
}

impl Default for LogQuery {
    fn default() -> Self {
        LogQuery::after(0)
    }
}

impl LogQuery {
    /// Everything after a sequence, forwards; after 0 is everything.
    pub fn after(sequence: u64) -> Self {
        LogQuery {
            after: sequence,
            up_to: None,
            event_types: Vec::new(),
            stream: None,
            stream_prefix: None,
            direction: Direction::Forwards,
            limit: None,
            page_size: DEFAULT_PAGE_SIZE,
        }
    }

    /// Up to this sequence, included.
    pub fn up_to(mut self, sequence: u64) -> Self {
        self.up_to = Some(sequence);
        self
    }

    /// Only these event types, in which `*` stands for any characters.
    pub fn event_types(mut self, types: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.event_types = types.into_iter().map(Into::into).collect();
        self
    }

    /// Only this stream.
    pub fn stream(mut self, stream_id: impl Into<StreamId>) -> Self {
        self.stream = Some(stream_id.into());
        self
    }

    /// Only streams whose id starts so.
    pub fn stream_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.stream_prefix = Some(prefix.into());
        self
    }

    /// Newest first, from the horizon down.
    pub fn backwards(mut self) -> Self {
        self.direction = Direction::Backwards;
        self
    }

    /// At most so many events.
    pub fn limit(mut self, events: u64) -> Self {
        self.limit = Some(events);
        self
    }

    /// Fetches so many at a time.
    pub fn page_size(mut self, events: u32) -> Self {
        self.page_size = events;
        self
    }

    /// Whether some events are left out, so that missing sequences say nothing about gaps.
    pub fn is_filtered(&self) -> bool {
        !self.event_types.is_empty() || self.stream.is_some() || self.stream_prefix.is_some()
    }

    /// Whether an event passes the filters.
    pub fn matches(&self, event: &Event) -> bool {
        let stream_id = event.stream_id.as_deref();
        (self.event_types.is_empty()
            || self.event_types.iter().any(|pattern| matches_pattern(&event.event_type, pattern)))
            && self.stream.as_deref().is_none_or(|stream| stream_id == Some(stream))
            && self.stream_prefix.as_deref().is_none_or(|prefix| stream_id.is_some_and(|id| id.starts_with(prefix)))
    }

    /// Checks names and ranges.
    pub fn validate(&self) -> Result<(), ReadError> {
        if let Some(stream) = &self.stream {
            check_stream_id(stream)?;
        }
        check_page_size(self.page_size)
    }
}

/// One page of the log.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LogPage {
    /// The events that pass the query's filters, in its direction.
    pub events: Vec<Event>,
    /// Forwards and without filters: the permanent gaps up to `cursor`, and the pending one that holds the rest back.
    pub gaps: Vec<Gap>,
    /// Forwards: all at or below is settled, read on after it. Backwards: read on below it.
    pub cursor: u64,
    /// Whether reading on at once may give more.
    pub more: bool,
}

/// What a follower of the log asks again and again: see [`EventLog::look_again`](crate::EventLog::look_again).
#[derive(Debug, Clone, Copy)]
pub struct Look<'a> {
    /// What is visible after this sequence is asked for.
    pub after: u64,
    /// At most so many of these events.
    pub limit: u32,
    /// Gaps before it that are open.
    pub gaps: &'a Gaps,
    /// Gaps at or below were looked into by earlier looks. Their events have not come, unless one of `writers` has ended since.
    pub looked_to: u64,
    /// Who could still commit then.
    pub writers: &'a [Writer],
    /// Events at or below are of no use to who asks: a gap there that is settled by now need not be looked into.
    pub kept_after: u64,
}

/// What a look at the end of the log showed: see [`EventLog::look_ahead`](crate::EventLog::look_ahead).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LookAhead {
    /// What is visible after the cursor, in order; there may be gaps in it.
    pub events: Vec<Event>,
    /// What is visible by now in the gaps asked about, in order.
    pub filled: Vec<Event>,
    /// How far the look reached: everything visible up to here is in `events`.
    pub seen: u64,
    /// At or below, what is in neither will never come.
    pub settled: u64,
    /// Who may still commit what is missing.
    pub writers: Vec<Writer>,
    /// Places of rows that are no events: noted, and as good as missing.
    pub poison: Vec<u64>,
    /// Whether there is more to see beyond.
    pub more: bool,
    /// Writers that have ended while the log was looked at. What they committed may be missing here.
    pub ended: Vec<Writer>,
    /// Gaps at or below were looked into, or cannot have changed: their events have not come, unless one of `writers` or `ended` has ended.
    pub looked_to: u64,
}

/// Transactions of a part of the log: see [`EventLog::long_transactions`](crate::EventLog::long_transactions).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LongTransactions {
    /// Each with the sequences of its first and last event in the part.
    pub transactions: Vec<(u64, u64, u64)>,
    /// The highest id up to the end of the part.
    pub newest: u64,
}

fn check_page_size(page_size: u32) -> Result<(), ReadError> {
    if (1..=MAX_PAGE_SIZE).contains(&page_size) {
        return Ok(());
    }
    Err(ReadError::InvalidInput(format!("invalid page_size {page_size}: it is 1 to {MAX_PAGE_SIZE}")))
}
