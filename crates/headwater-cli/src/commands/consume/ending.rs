//! Why handling ends, when nobody told the process to stop.
//!
//! After the end, events are refused as not handled. This is not a failure of the events: they stay
//! ahead of the checkpoint. With `--count`, delivery begins at most that many events.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use headwater::HandlerError;
use tokio_util::sync::CancellationToken;

#[derive(Debug)]
pub(super) enum Why {
    /// The requested number of events is handled.
    Enough,
    /// The reader of our output has closed it.
    OutputClosed,
    OutputFailed(String),
}

pub(super) struct Ending {
    over: CancellationToken,
    why: OnceLock<Why>,
    /// How many more events to handle.
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

    /// Refuses an event after the end.
    pub(super) fn check(&self) -> Result<(), HandlerError> {
        match self.over.is_cancelled() {
            true => Err(HandlerError::not_handled("the process is stopping")),
            false => Ok(()),
        }
    }

    /// Counts handled events. The last one that was requested ends the handling.
    pub(super) fn count(&self, events: usize) {
        let Some(left) = &self.left else { return };
        let events = u32::try_from(events).unwrap_or(u32::MAX);
        if left.fetch_sub(events, Ordering::AcqRel) <= events {
            self.end(Why::Enough);
        }
    }
}
