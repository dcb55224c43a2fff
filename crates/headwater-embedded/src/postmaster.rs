//! The server process, from its start until it has ended.

use std::fmt;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::EmbeddedError;

const POLL: Duration = Duration::from_millis(10);
/// A fast shutdown waits for its checkpoint and for replicas to have got everything; a dropped server is then told to hurry.
const FAST: Duration = Duration::from_secs(30);
/// An immediate one waits only for connections that were refused and have not said who they are, which it does not end.
const IMMEDIATE: Duration = Duration::from_secs(3);

/// How a server is shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// Waits until all clients have left.
    Smart,
    /// Rolls back what is open, disconnects clients, and writes everything down.
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

/// Dropping it stops it. A process that was not waited for keeps its number, so a signal never meets another one.
#[derive(Debug)]
pub(crate) struct Postmaster {
    process: Child,
    /// Nobody needs what it has not written down.
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

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<std::process::ExitStatus> {
        self.process.try_wait().ok().flatten()
    }

    /// Ends it as a crash of its process would. Its backends notice, and leave by themselves.
    pub(crate) fn kill(&mut self) {
        // Both fail only if the process is gone.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Does nothing to a server that has ended already.
    pub(crate) fn stop(&mut self, mode: Shutdown, patience: Duration) -> Result<(), EmbeddedError> {
        let deadline = Instant::now() + patience;
        if self.ended().is_none() {
            // Fails only if the process is gone, which the loop sees.
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
