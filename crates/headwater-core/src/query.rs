//! Queries: what to read of a stream or of the log.

use crate::names::check_stream_id;
use crate::patterns::matches_pattern;
use crate::{Event, Gap, Gaps, ReadError, RecordedEvent, StreamId, Writer};

/// How many events a read fetches at a time by default: large enough to spread the cost of a round
/// trip, small enough that a page of large payloads fits.
pub const DEFAULT_PAGE_SIZE: u32 = 1_000;
/// The most events that may be fetched at a time.
pub const MAX_PAGE_SIZE: u32 = 100_000;

/// The direction of a read.
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
    /// The lowest version to read.
    pub from_version: Option<u64>,
    /// The highest version to read.
    pub to_version: Option<u64>,
    /// The direction of the read.
    pub direction: Direction,
    /// The most events to read.
    pub limit: Option<u64>,
    /// How many events to fetch at a time.
    pub page_size: u32,
}

impl StreamQuery {
    /// Reads the whole stream, forwards.
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

    /// Starts at this version.
    pub fn from_version(mut self, version: u64) -> Self {
        self.from_version = Some(version);
        self
    }

    /// Ends at this version.
    pub fn to_version(mut self, version: u64) -> Self {
        self.to_version = Some(version);
        self
    }

    /// Reads the highest version first.
    pub fn backwards(mut self) -> Self {
        self.direction = Direction::Backwards;
        self
    }

    /// Reads at most this many events.
    pub fn limit(mut self, events: u64) -> Self {
        self.limit = Some(events);
        self
    }

    /// Fetches this many events at a time.
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
    /// Only events after this sequence.
    pub after: u64,
    /// Only events up to this sequence, which is included.
    pub up_to: Option<u64>,
    /// Only these event types, in which `*` stands for any characters. Empty: all types.
    pub event_types: Vec<String>,
    /// Only this stream.
    pub stream: Option<StreamId>,
    /// Only streams whose id starts with this prefix.
    pub stream_prefix: Option<String>,
    /// The direction of the read.
    pub direction: Direction,
    /// The most events to read.
    pub limit: Option<u64>,
    /// How many events to fetch at a time.
    pub page_size: u32,
}

impl Default for LogQuery {
    fn default() -> Self {
        LogQuery::after(0)
    }
}

impl LogQuery {
    /// Reads everything after a sequence, forwards. Sequence 0 means everything.
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

    /// Ends at this sequence, which is included.
    pub fn up_to(mut self, sequence: u64) -> Self {
        self.up_to = Some(sequence);
        self
    }

    /// Reads only these event types, in which `*` stands for any characters.
    pub fn event_types(mut self, types: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.event_types = types.into_iter().map(Into::into).collect();
        self
    }

    /// Reads only this stream.
    pub fn stream(mut self, stream_id: impl Into<StreamId>) -> Self {
        self.stream = Some(stream_id.into());
        self
    }

    /// Reads only streams whose id starts with this prefix.
    pub fn stream_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.stream_prefix = Some(prefix.into());
        self
    }

    /// Reads the newest event first, from the horizon down.
    pub fn backwards(mut self) -> Self {
        self.direction = Direction::Backwards;
        self
    }

    /// Reads at most this many events.
    pub fn limit(mut self, events: u64) -> Self {
        self.limit = Some(events);
        self
    }

    /// Fetches this many events at a time.
    pub fn page_size(mut self, events: u32) -> Self {
        self.page_size = events;
        self
    }

    /// Whether a filter leaves out some events, so that missing sequences say nothing about gaps.
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
    /// The events that pass the query's filters, in the query's direction.
    pub events: Vec<RecordedEvent>,
    /// The permanent gaps up to `cursor`, and the pending gap that holds the rest back. Only for
    /// reads forwards without filters.
    pub gaps: Vec<Gap>,
    /// Where to continue. Forwards: everything at or below is settled, so read on after it.
    /// Backwards: read on below it.
    pub cursor: u64,
    /// Whether a further read may find more at once.
    pub more: bool,
}

/// The repeated query of a reader that follows the log: see
/// [`EventLog::look_again`](crate::EventLog::look_again).
#[derive(Debug, Clone, Copy)]
pub struct Look<'a> {
    /// The reader asks for what is visible after this sequence.
    pub after: u64,
    /// The most events to return after `after`.
    pub limit: u32,
    /// The open gaps at or below `after`.
    pub gaps: &'a Gaps,
    /// Earlier looks looked into the gaps at or below this sequence. The events of those gaps have
    /// not come unless one of `writers` has ended since.
    pub looked_to: u64,
    /// The writers that could still commit at the last look.
    pub writers: &'a [Writer],
    /// The reader has no use for events at or below this sequence. A gap there need not be looked
    /// into if it is settled by now.
    pub kept_after: u64,
}

/// The result of a look at the end of the log: see
/// [`EventLog::look_ahead`](crate::EventLog::look_ahead).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LookAhead {
    /// The visible events after the cursor, in order. There may be gaps between them.
    pub events: Vec<RecordedEvent>,
    /// The visible events in the gaps that were asked about, in order.
    pub filled: Vec<RecordedEvent>,
    /// How far the look reached: `events` has everything visible up to here.
    pub seen: u64,
    /// Events at or below this sequence that are in neither `events` nor `filled` will never come.
    pub settled: u64,
    /// The writers that may still commit missing events.
    pub writers: Vec<Writer>,
    /// The places of rows that are not valid events. They are recorded and count as missing.
    pub poison: Vec<u64>,
    /// Whether there is more to see after `seen`.
    pub more: bool,
    /// Writers that ended during the look. Events that they committed may be missing here.
    pub ended: Vec<Writer>,
    /// The gaps at or below this sequence were looked into or cannot have changed. Their events
    /// have not come unless one of `writers` or `ended` has ended.
    pub looked_to: u64,
}

/// The long transactions in a part of the log: see
/// [`EventLog::long_transactions`](crate::EventLog::long_transactions).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LongTransactions {
    /// The id of each transaction, with the sequences of its first and last event in the part.
    pub transactions: Vec<(u64, u64, u64)>,
    /// The highest transaction id up to the end of the part.
    pub newest: u64,
}

fn check_page_size(page_size: u32) -> Result<(), ReadError> {
    if (1..=MAX_PAGE_SIZE).contains(&page_size) {
        return Ok(());
    }
    Err(ReadError::InvalidInput(format!("invalid page_size {page_size}: it is 1 to {MAX_PAGE_SIZE}")))
}
