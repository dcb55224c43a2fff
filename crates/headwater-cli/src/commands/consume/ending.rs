//! Why handling ends, when nobody told the process to stop.
//!
//! Once it is over, events are refused as not handled, which is no failure of theirs: they stay ahead of the checkpoint. Of a count, delivery begins no
//! more events than were asked for.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use headwater::HandlerError;
use tokio_util::sync::CancellationToken;

#[derive(Debug)]
pub(super) enum Why {
    /// As many events as were asked for are handled.
    Enough,
    /// Whoever read our output has seen enough.
    OutputClosed,
    OutputFailed(String),
}

pub(super) struct Ending {
    over: CancellationToken,
    why: OnceLock<Why>,
    /// How many more events are to be handled.
    left: Option<AtomicU32>,
}

impl Ending {
    pub(super) fn new(count: Option<u32>) -> Self {
        Ending { over: CancellationToken::new(), why: OnceLock::new(), left: count.map(AtomicU32::new) }
    }

    pub(super) fn end(&self, why: Why) {
        _ = self.why.set(why);
        self.over.cancel();
    }

    pub(super) async fn ended(&self) -> &Why {
        self.over.cancelled().await;
        self.why.get().expect("it is set before the token is cancelled")
    }

    /// Refuses an event when it is over.
    pub(super) fn check(&self) -> Result<(), HandlerError> {
        match self.over.is_cancelled() {
            true => Err(HandlerError::not_handled("the process is stopping")),
            false => Ok(()),
        }
    }

    /// Events were handled.
    pub(super) fn count(&self, events: usize) {
        let Some(left) = &self.left else { return };
        let events = u32::try_from(events).unwrap_or(u32::MAX);
        if left.fetch_sub(events, Ordering::AcqRel) <= events {
            self.end(Why::Enough);
        }
    }
}
