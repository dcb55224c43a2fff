//! Signals that tell a process to stop.

use std::fmt;
use std::time::{Duration, Instant};

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// A signal that comes within this time of the first one counts as the same request. `timeout`
/// signals the process and its group, and a terminal and a supervisor may both send a signal.
const SAME_WISH: Duration = Duration::from_secs(1);

/// The signals that tell the process to stop.
pub(crate) struct StopSignals {
    /// When the first signal came.
    first: Option<Instant>,
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopSignal {
    Interrupt,
    Terminate,
    HangUp,
}

impl StopSignals {
    /// From this call on, these signals no longer end the process by themselves.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let listen =
            |kind| signal(kind).map_err(|error| Failure::unexpected(format!("failed to listen for signals: {error}")));
        Ok(StopSignals {
            first: None,
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hang_up: listen(SignalKind::hangup())?,
        })
    }

    pub(crate) async fn received(&mut self) -> StopSignal {
        let signal = tokio::select! {
            _ = self.interrupt.recv() => StopSignal::Interrupt,
            _ = self.terminate.recv() => StopSignal::Terminate,
            _ = self.hang_up.recv() => StopSignal::HangUp,
        };
        self.first.get_or_insert_with(Instant::now);
        signal
    }

    /// Waits until a signal comes a second or more after the first one.
    pub(crate) async fn received_again(&mut self) -> StopSignal {
        loop {
            let signal = self.received().await;
            if self.first.is_some_and(|first| first.elapsed() >= SAME_WISH) {
                return signal;
            }
        }
    }
}

impl fmt::Display for StopSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StopSignal::Interrupt => "Ctrl-C",
            StopSignal::Terminate => "SIGTERM",
            StopSignal::HangUp => "SIGHUP",
        })
    }
}
