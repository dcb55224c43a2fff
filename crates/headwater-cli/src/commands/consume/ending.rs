//! Why handling ends, when nobody told the process to stop.
//!
//! Delivery takes the next event as soon as one is handled. Once it is over, events are refused as not handled, which is no failure of
//! theirs: they stay ahead of the checkpoint.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use headwater::HandlerError;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

/// How often a handler lets others go first.
const YIELDS: u32 = 8;

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
    /// How many more may be begun, and how many more are to be handled.
    room: Option<(Semaphore, AtomicU32)>,
}

/// Leave to handle one event. Dropped, others may be handled in its place.
pub(super) struct Leave<'e> {
    ending: &'e Ending,
    permit: Option<SemaphorePermit<'e>>,
}

impl Ending {
    pub(super) fn new(count: Option<u32>) -> Self {
        let room = count.map(|count| (Semaphore::new(count as usize), AtomicU32::new(count)));
        Ending { over: CancellationToken::new(), why: OnceLock::new(), room }
    }

    pub(super) fn end(&self, why: Why) {
        _ = self.why.set(why);
        self.over.cancel();
    }

    pub(super) async fn ended(&self) -> &Why {
        self.over.cancelled().await;
        self.why.get().expect("it is set before the token is cancelled")
    }

    /// Waits for leave to handle an event; refused when it is over.
    pub(super) async fn leave(&self) -> Result<Leave<'_>, HandlerError> {
        let refused = || HandlerError::not_handled("the process is stopping");
        if self.over.is_cancelled() {
            return Err(refused());
        }
        let Some((room, _)) = &self.room else { return Ok(Leave { ending: self, permit: None }) };
        // Several handlers begin in any order; those of earlier events should be counted first.
        for _ in 0..YIELDS {
            tokio::task::yield_now().await;
        }
        tokio::select! {
            biased;
            () = self.over.cancelled() => Err(refused()),
            permit = room.acquire() => Ok(Leave { ending: self, permit: permit.ok() }),
        }
    }
}

impl Leave<'_> {
    /// The event was handled.
    pub(super) fn used(self) {
        let Some(permit) = self.permit else { return };
        permit.forget();
        if let Some((_, left)) = &self.ending.room
            && left.fetch_sub(1, Ordering::AcqRel) == 1
        {
            self.ending.end(Why::Enough);
        }
    }
}
