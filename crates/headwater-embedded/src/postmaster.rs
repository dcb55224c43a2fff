//! The server process, from its start until it has ended.

use std::fmt;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::EmbeddedError;

const POLL: Duration = Duration::from_millis(10);
/// A fast shutdown waits for its checkpoint and for replicas to have got everything; a dropped server is then told to hurry.
const DROP_PATIENCE: Duration = Duration::from_secs(30);

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
pub(crate) struct Postmaster(Child);

impl Postmaster {
    pub(crate) fn spawn(mut command: Command) -> Result<Self, EmbeddedError> {
        let program = command.get_program().to_owned();
        command.spawn().map(Self).map_err(EmbeddedError::io("run", program.as_ref()))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<std::process::ExitStatus> {
        self.0.try_wait().ok().flatten()
    }

    /// Ends it as a crash of its process would. Its backends notice, and leave by themselves.
    pub(crate) fn kill(&mut self) {
        // Both fail only if the process is gone.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }

    /// Does nothing to a server that has ended already.
    pub(crate) fn stop(&mut self, mode: Shutdown, patience: Duration) -> Result<(), EmbeddedError> {
        let deadline = Instant::now() + patience;
        if self.ended().is_none() {
            // Fails only if the process is gone, which the loop sees.
            let _ = kill_process(Pid::from_child(&self.0), mode.signal());
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
        // A server that does not even end in immediate mode is stuck in the kernel; there is nothing left to do.
        let _ = self.stop(Shutdown::Fast, DROP_PATIENCE).or_else(|_| self.stop(Shutdown::Immediate, DROP_PATIENCE));
    }
}
