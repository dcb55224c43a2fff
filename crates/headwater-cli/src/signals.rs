//! Signals that tell a process to stop.

use std::fmt;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// What tells a process to stop.
pub(crate) struct StopSignals {
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
    /// From here on, these signals do not end the process by themselves.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let listen =
            |kind| signal(kind).map_err(|error| Failure::unexpected(format!("failed to listen for signals: {error}")));
        Ok(StopSignals {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hang_up: listen(SignalKind::hangup())?,
        })
    }

    pub(crate) async fn received(&mut self) -> StopSignal {
        tokio::select! {
            _ = self.interrupt.recv() => StopSignal::Interrupt,
            _ = self.terminate.recv() => StopSignal::Terminate,
            _ = self.hang_up.recv() => StopSignal::HangUp,
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
