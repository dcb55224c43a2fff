//! The server process, from its start until it has ended.

use std::fmt;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::EmbeddedError;

const POLL: Duration = Duration::from_millis(10);
/// How long a fast shutdown may take before a dropped server is shut down immediately. It waits for
/// its checkpoint and for replicas to receive everything.
const FAST: Duration = Duration::from_secs(30);
/// How long an immediate shutdown may take. It waits only for connections that were refused and
/// have not authenticated, which it does not end.
const IMMEDIATE: Duration = Duration::from_secs(3);

/// How a server is shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// Waits until all clients have disconnected.
    Smart,
    /// Rolls back open transactions, disconnects clients, and writes everything to disk.
    Fast,
    /// Ends at once, as in a crash: the next start recovers.
    Immediate,
}

impl Shutdown {
    fn signal(self) -> Signal {
        match self {
            Self::Smart => Signal::TERM,
            Self::Fast => Signal::INT,
            Self::Immediate => Signal::QUIT,
        }
    }
}

impl fmt::Display for Shutdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Smart => "smart",
            Self::Fast => "fast",
            Self::Immediate => "immediate",
        })
    }
}

/// Dropping it stops the server. A process that was not waited for keeps its number, so a signal
/// never reaches another process.
#[derive(Debug)]
pub(crate) struct Postmaster {
    process: Child,
    /// Whether nobody needs the data afterwards.
    disposable: bool,
}

impl Postmaster {
    pub(crate) fn spawn(mut command: Command, disposable: bool) -> Result<Self, EmbeddedError> {
        let program = command.get_program().to_owned();
        let process = command.spawn().map_err(EmbeddedError::io("run", program.as_ref()))?;
        Ok(Self { process, disposable })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Returns how it ended, if it has ended.
    pub(crate) fn ended(&mut self) -> Option<std::process::ExitStatus> {
        self.process.try_wait().ok().flatten()
    }

    /// Ends it as a crash of its process would. Its backends notice, and end by themselves.
    pub(crate) fn kill(&mut self) {
        // Both fail only if the process is gone.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Does nothing to a server that has ended already.
    pub(crate) fn stop(&mut self, mode: Shutdown, patience: Duration) -> Result<(), EmbeddedError> {
        let deadline = Instant::now() + patience;
        if self.ended().is_none() {
            // This fails only if the process is gone, which the loop sees.
            let _ = kill_process(Pid::from_child(&self.process), mode.signal());
        }
        while self.ended().is_none() {
            if Instant::now() > deadline {
                return Err(EmbeddedError::StopTimeout { mode, after: patience });
            }
            sleep(POLL);
        }
        Ok(())
    }
}

impl Drop for Postmaster {
    fn drop(&mut self) {
        let ended = !self.disposable && self.stop(Shutdown::Fast, FAST).is_ok();
        if !ended && self.stop(Shutdown::Immediate, IMMEDIATE).is_err() {
            self.kill();
        }
    }
}
