//! Events as JSON lines on standard output.

use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use headwater::{Event, EventObserver, HandlerError, Json};
use rustix::event::{PollFd, PollFlags, poll};
use tokio::io::{AsyncWriteExt, Stdout};
use tokio::sync::Mutex;

use super::ending::{Ending, Why};
use super::format::Written;

pub(super) struct Printer {
    subscriber_id: String,
    written: Written,
    stdout: Mutex<Stdout>,
    ending: Arc<Ending>,
}

impl Printer {
    pub(super) fn new(subscriber_id: &str, written: Written, ending: Arc<Ending>) -> Self {
        let watched = ending.clone();
        // Not of the runtime's, which would wait for it; it ends with the process.
        std::thread::spawn(move || end_when_closed(&watched));
        Printer { subscriber_id: subscriber_id.into(), written, stdout: Mutex::new(tokio::io::stdout()), ending }
    }

    async fn write(&self, line: &[u8]) -> io::Result<()> {
        let mut stdout = self.stdout.lock().await;
        stdout.write_all(line).await?;
        stdout.flush().await
    }
}

#[async_trait]
impl EventObserver for Printer {
    fn subscriber_id(&self) -> &str {
        &self.subscriber_id
    }

    /// A reader that is slow is waited for. One that is gone is not the event's fault: it ends the process, and the event stays ahead.
    async fn on_event(&self, event: Arc<Event<Json>>) -> Result<(), HandlerError> {
        self.ending.check()?;
        let mut line = self.written.to_json(&event)?;
        line.push(b'\n');
        match self.write(&line).await {
            Ok(()) => {
                self.ending.count();
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
}

/// Ends as soon as the reader of a pipe goes away, not only at the next event, of which there may be none for days.
fn end_when_closed(ending: &Ending) {
    let stdout = io::stdout();
    let mut watched = [PollFd::new(&stdout, PollFlags::empty())];
    loop {
        match poll(&mut watched, None) {
            Ok(_) if watched[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) => {
                return ending.end(Why::OutputClosed);
            }
            Err(rustix::io::Errno::INTR) => {}
            // It cannot be watched: the next write will tell.
            _ => return,
        }
    }
}
