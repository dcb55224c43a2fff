//! Following a log: a live stream of its events, in order, without a durable subscriber.
//!
//! [`Namespace::follow`](crate::Namespace::follow) is for programs that keep their own place: a
//! browser that resumes an event stream, a command that prints, a cache that is rebuilt at each
//! start. To handle each event once, or to share the work with others, use a subscriber of a
//! [`Node`](crate::Node).

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::stream::{BoxStream, Stream, StreamExt};
use headwater_core::{LogQuery, ReadError, RecordedEvent, Sequence, Writer};
use uuid::Uuid;

/// How long the log is held before a follower is told who holds it.
const STALL_AFTER: Duration = Duration::from_secs(1);

/// What to follow: where to begin, and which events.
#[derive(Debug, Clone, PartialEq)]
pub struct FollowQuery {
    pub(crate) log: LogQuery,
    pub(crate) after_event: Option<Uuid>,
    pub(crate) stall_after: Duration,
}

impl FollowQuery {
    /// All events after a sequence. After 0, the log's first event comes first.
    pub fn after(sequence: u64) -> Self {
        FollowQuery { log: LogQuery::after(sequence), after_event: None, stall_after: STALL_AFTER }
    }

    /// All events after one that was read before. If another event now stands at its place, because
    /// a server lost the end of its log, the follower fails with [`FollowError::OtherHistory`]
    /// instead of missing events. If retention has dropped the event, it fails with
    /// [`FollowError::Trimmed`], since nobody can tell what stood there.
    pub fn after_event(sequence: u64, id: Uuid) -> Self {
        FollowQuery { after_event: Some(id), ..FollowQuery::after(sequence) }
    }

    /// Only these event types, in which `*` stands for any characters.
    pub fn event_types(mut self, types: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.log = self.log.event_types(types);
        self
    }

    /// Only events of streams whose id starts with this prefix.
    pub fn stream_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.log = self.log.stream_prefix(prefix);
        self
    }

    /// How long an open transaction may hold the log before [`Followed::Stalled`] names it.
    /// Default: 1 s, since concurrent writers hold up each other's events for moments all the time.
    /// [`Duration::MAX`]: never.
    pub fn stall_after(mut self, duration: Duration) -> Self {
        self.stall_after = duration;
        self
    }
}

impl From<u64> for FollowQuery {
    fn from(after: u64) -> Self {
        FollowQuery::after(after)
    }
}

impl From<Sequence> for FollowQuery {
    fn from(after: Sequence) -> Self {
        FollowQuery::after(after.into())
    }
}

/// An item of a follower.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Followed {
    /// The next event.
    Event(Arc<RecordedEvent>),
    /// All events up to this sequence were given, or left out by the filter. It comes now and then,
    /// so that a follower of few events can resume near the end of the log.
    Position(Sequence),
    /// Events are missing that may still come, so nothing behind them is given. It comes again when
    /// other writers hold the log.
    Stalled {
        /// The first sequence that is missing.
        from: Sequence,
        /// The last sequence of this run of missing ones.
        to: Sequence,
        /// The open transactions. One of them has the missing events.
        writers: Vec<Writer>,
    },
    /// The missing events have come, or never will. The follower goes on after this sequence.
    Resumed(Sequence),
}

/// Why a follower ends.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FollowError {
    /// Retention has dropped the events after the follower's position, or the event at it that
    /// proves that the position is in this log. Follow the log after `resume_after` to go on
    /// without them.
    #[error(
        "position {position} is in a part of the log that is older than the namespace keeps it: the log is there after {resume_after}"
    )]
    Trimmed {
        /// The last sequence that the follower has dealt with.
        position: Sequence,
        /// The lowest position from which the log can be followed.
        resume_after: Sequence,
    },
    /// The log is not the one that the position belongs to (WH050). The server lost the end of its
    /// log, or the position comes from another namespace. Decide where to begin again.
    #[error("position {position} is not in this log: {reason}")]
    OtherHistory {
        /// The last sequence that the follower has dealt with.
        position: Sequence,
        /// Why the position is not in this log.
        reason: String,
    },
    /// The log cannot be read: the namespace was dropped, or the role has no grant.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl FollowError {
    /// The code of the error's page in `docs/errors/`.
    pub fn code(&self) -> Option<&'static str> {
        match self {
            FollowError::Trimmed { .. } => None,
            FollowError::OtherHistory { .. } => Some("WH050"),
            FollowError::Read(error) => error.code(),
        }
    }
}

/// A live stream of a log's events: see [`Namespace::follow`](crate::Namespace::follow).
///
/// It ends only with an error, or when [`Headwater::shutdown`](crate::Headwater::shutdown) is
/// called. It reads only when it is polled.
#[must_use = "a follower reads only when it is polled"]
pub struct Follower {
    items: BoxStream<'static, Result<Followed, FollowError>>,
    position: Arc<AtomicU64>,
}

impl Follower {
    pub(crate) fn new(items: BoxStream<'static, Result<Followed, FollowError>>, position: Arc<AtomicU64>) -> Self {
        Follower { items, position }
    }

    /// Where to resume: all events up to this sequence were given, or left out by the filter.
    pub fn position(&self) -> Sequence {
        Sequence::saturating(self.position.load(Ordering::Acquire))
    }
}

impl Stream for Follower {
    type Item = Result<Followed, FollowError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.items.poll_next_unpin(cx)
    }
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follower").field("position", &self.position()).finish_non_exhaustive()
    }
}
