//! Events as JSON lines on standard output.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use headwater::{Delivery, HandlerError};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::FileType;
use tokio::io::{AsyncWriteExt, Stdout};
use tokio::sync::Mutex;

use super::ending::{Ending, Why};
use super::format::Written;

/// The most bytes of lines that are written at once, unless the output is a file: as many as a pipe
/// holds that nobody has read yet. So progress is written for what the pipe has taken, and not only
/// when a slow reader has read a whole batch.
const PIPE_BYTES: usize = 64 * 1024;
/// The same for a file, which takes everything at once.
const FILE_BYTES: usize = 1024 * 1024;

pub(super) struct Printer {
    written: Written,
    stdout: Mutex<Stdout>,
    ending: Arc<Ending>,
}

impl Printer {
    pub(super) fn new(written: Written, ending: Arc<Ending>) -> Self {
        let watched = ending.clone();
        // Not a thread of the runtime, which would wait for it: this one ends with the process.
        std::thread::spawn(move || end_when_closed(&watched));
        Printer { written, stdout: Mutex::new(tokio::io::stdout()), ending }
    }

    /// Writes events and flushes. Waits for a slow reader. If the reader is gone, the process ends;
    /// this is not a failure of the events, so they stay ahead of the checkpoint.
    pub(super) async fn print(&self, events: &[Delivery]) -> Result<(), HandlerError> {
        self.ending.check()?;
        let mut lines = Vec::new();
        for event in events {
            self.written.write(&mut lines, event, event.redelivery_count())?;
        }
        match self.write(&lines).await {
            Ok(()) => {
                self.ending.count(events.len());
                Ok(())
            }
            Err(error) => {
                self.ending.end(match error.kind() {
                    io::ErrorKind::BrokenPipe => Why::OutputClosed,
                    _ => Why::OutputFailed(format!("failed to write to standard output: {error}")),
                });
                Err(HandlerError::not_handled(error.to_string()))
            }
        }
    }

    async fn write(&self, lines: &[u8]) -> io::Result<()> {
        let mut stdout = self.stdout.lock().await;
        stdout.write_all(lines).await?;
        stdout.flush().await
    }
}

/// How many bytes of events to write at once.
pub(super) fn bytes_at_once() -> usize {
    let is_file = |stat: rustix::fs::Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    match rustix::fs::fstat(io::stdout().as_fd()).is_ok_and(is_file) {
        true => FILE_BYTES,
        false => PIPE_BYTES,
    }
}

/// Ends the handling as soon as the reader of a pipe goes away. The next event, whose write would
/// fail, may not come for days.
fn end_when_closed(ending: &Ending) {
    let stdout = io::stdout();
    let mut watched = [PollFd::new(&stdout, PollFlags::empty())];
    loop {
        match poll(&mut watched, None) {
            Ok(_) if watched[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) => {
                return ending.end(Why::OutputClosed);
            }
            Err(rustix::io::Errno::INTR) => {}
            // The output cannot be watched: the next write will show it.
            _ => return,
        }
    }
}
