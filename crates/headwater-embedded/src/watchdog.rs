//! Stops the server when its owner is gone without having stopped it.
//!
//! The owner holds the only write end of a pipe (close-on-exec, so no other child inherits it). The
//! watchdog waits at the other end. However the owner ends, the kernel closes the pipe. The owner
//! keeps the authority while it lives: the watchdog acts only on an end of file that was not
//! announced, and only on the process that it was told last.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Stdio};

use crate::EmbeddedError;
use crate::binaries::Binaries;
use crate::run_as::RunAs;

const SCRIPT: &str = include_str!("watchdog.sh");

/// Dropping it ends the watchdog.
#[derive(Debug)]
pub(crate) struct Watchdog(Child);

impl Watchdog {
    pub(crate) fn start(
        run_as: &RunAs,
        binaries: &Binaries,
        data_dir: &Path,
        temporary: &[&Path],
    ) -> Result<Self, EmbeddedError> {
        let shell = Path::new("/bin/sh");
        run_as
            .command(shell)
            .args(["-c", SCRIPT, "headwater-watchdog"])
            .arg(binaries.program("pg_ctl"))
            .arg(data_dir)
            .args(temporary)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map(Self)
            .map_err(EmbeddedError::io("run", shell))
    }

    /// Tells which process to stop, if it comes to that. Any other server on the folder does not
    /// belong to us.
    pub(crate) fn watch(&self, pid: u32) {
        // A watchdog that somebody killed is no reason to fail a start.
        let _ = self.0.stdin.as_ref().map(|mut pipe| writeln!(pipe, "{pid}"));
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // If the watchdog cannot be told, it is dead already. Either way it must be reaped.
        let _ = self.0.stdin.take().map(|mut pipe| pipe.write_all(b"done\n"));
        let _ = self.0.wait();
    }
}
