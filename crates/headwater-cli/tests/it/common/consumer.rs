//! A running `headwater consume`.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::Said;

/// Whatever takes longer does not come.
const PATIENCE: Duration = Duration::from_secs(30);

/// Its lines, as they come. Dropped, it is killed.
pub(crate) struct Consumer {
    child: Child,
    out: Receiver<String>,
    err: Receiver<String>,
}

impl Consumer {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (out, err) = (lines(child.stdout.take().unwrap()), lines(child.stderr.take().unwrap()));
        Consumer { child, out, err }
    }

    /// The next line.
    #[track_caller]
    pub(crate) fn line(&self) -> String {
        let next = self.out.recv_timeout(PATIENCE);
        next.unwrap_or_else(|error| panic!("{error}; stderr: {:#?}", self.err.try_iter().collect::<Vec<_>>()))
    }

    /// The next line, as an event's sequence.
    #[track_caller]
    pub(crate) fn sequence(&self) -> u64 {
        sequence(&self.line())
    }

    /// Waits for a line with this text on stderr.
    #[track_caller]
    pub(crate) fn says(&self, text: &str) -> String {
        let mut before = Vec::new();
        loop {
            match self.err.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(text) => return line,
                Ok(line) => before.push(line),
                Err(error) => panic!("{error}: no {text:?} in {before:#?}"),
            }
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end, and for what was not taken of its output.
    pub(crate) fn wait(mut self) -> Said {
        let code = self.child.wait().unwrap().code();
        let rest = |lines: &Receiver<String>| lines.iter().map(|line| line + "\n").collect();
        Said { code, out: rest(&self.out), err: rest(&self.err) }
    }

    /// Signals until it has ended.
    pub(crate) fn insist(mut self, signal: Signal) -> Said {
        let begin = std::time::Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            self.signal(signal);
            assert!(begin.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
        self.wait()
    }

    pub(crate) fn stop(self, signal: Signal) -> Said {
        self.signal(signal);
        self.wait()
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

impl Said {
    /// The sequences of the events that were written.
    #[track_caller]
    pub(crate) fn sequences(&self) -> Vec<u64> {
        self.out.lines().map(sequence).collect()
    }
}

#[track_caller]
fn sequence(line: &str) -> u64 {
    let event: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
    event["global_sequence"].as_u64().unwrap()
}

/// A line that was cut off by the end of its writer is not one.
fn lines(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        while stream.read_line(&mut line).is_ok_and(|read| read > 0) && line.ends_with('\n') {
            line.pop();
            if sender.send(std::mem::take(&mut line)).is_err() {
                return;
            }
        }
    });
    receiver
}
