//! Turns JSON lines into batches of events, in its own thread, ahead of the database.
//!
//! From a file, batches are full, and are the same in each run. From a pipe or a terminal, the
//! events so far go out before the next read, because that read may wait for a long time. While the
//! lanes are busy, the pipe fills, so batches grow by themselves.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::io::{BufRead, BufReader, Read};

use headwater::Event;
use headwater::log::StreamId;
use tokio::sync::mpsc::Sender;
use tokio_util::sync::CancellationToken;

use super::progress::Progress;

/// The most events in one append. A larger statement gains nothing.
const BATCH_EVENTS: usize = 1_000;
/// A batch with this many bytes of lines is full, no matter how many events it has.
const BATCH_BYTES: usize = 1024 * 1024;
/// How many bytes a line may have in addition to its payload.
const BESIDES_PAYLOAD: usize = 1024 * 1024;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Events that are appended together, each with the number of its line.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) events: Vec<Event>,
    pub(super) lines: Vec<u64>,
    bytes: usize,
}

impl Batch {
    /// Splits the batch into two halves, in order.
    pub(super) fn split(mut self) -> (Batch, Batch) {
        let middle = self.events.len() / 2;
        let second = Batch { events: self.events.split_off(middle), lines: self.lines.split_off(middle), bytes: 0 };
        (self, second)
    }

    fn is_full(&self) -> bool {
        self.events.len() >= BATCH_EVENTS || self.bytes >= BATCH_BYTES
    }
}

/// The line that ended the reading early.
#[derive(Debug)]
pub(super) struct BadLine {
    pub(super) line: u64,
    pub(super) reason: String,
}

/// Reads lines and distributes their events to lanes. Each lane appends its events in order.
pub(super) struct Reader<'a> {
    pub(super) default_stream: Option<StreamId>,
    pub(super) max_payload_bytes: usize,
    /// Whether a read of the next line may wait for a long time.
    pub(super) live: bool,
    pub(super) lanes: Vec<Sender<Batch>>,
    pub(super) stop: &'a CancellationToken,
    pub(super) progress: &'a Progress,
}

impl Reader<'_> {
    /// Reads to the end, to a bad line, or until `stop`. Batches that have begun are sent in any
    /// case, so all lines before a bad line are stored.
    pub(super) fn read(self, mut input: BufReader<impl Read>) -> Result<(), BadLine> {
        let mut open: Vec<Batch> = self.lanes.iter().map(|_| Batch::default()).collect();
        let outcome = self.deal(&mut input, &mut open);
        self.send_all(&mut open);
        outcome
    }

    fn deal(&self, input: &mut BufReader<impl Read>, open: &mut [Batch]) -> Result<(), BadLine> {
        let longest = self.max_payload_bytes + BESIDES_PAYLOAD;
        let mut text = Vec::new();
        let mut line = 0;
        // The lane for events without stream and key: one lane until its batch is full, then the
        // next.
        let mut free = 0;
        while !self.stop.is_cancelled() {
            if self.live && input.buffer().is_empty() {
                self.send_all(open);
            }
            line += 1;
            text.clear();
            let bad = |reason: String| BadLine { line, reason };
            let read = input.by_ref().take(longest as u64 + 1).read_until(b'\n', &mut text);
            let bytes = read.map_err(|error| bad(format!("failed to read: {error}")))?;
            if bytes == 0 {
                break;
            }
            if bytes > longest {
                return Err(bad(format!("it is longer than {longest} bytes")));
            }
            self.progress.read(bytes);
            let content = text.strip_prefix(BYTE_ORDER_MARK).filter(|_| line == 1).unwrap_or(&text);
            if content.trim_ascii().is_empty() {
                continue;
            }
            let mut event: Event = serde_json::from_slice(content).map_err(|error| bad(reason(&error)))?;
            if event.stream_id.is_none() {
                event.stream_id.clone_from(&self.default_stream);
            }
            let lane = match event.stream_id.as_deref().or(event.key.as_deref()) {
                Some(tie) => (hash(tie) % open.len() as u64) as usize,
                None => free,
            };
            let batch = &mut open[lane];
            batch.events.push(event);
            batch.lines.push(line);
            batch.bytes += bytes;
            if batch.is_full() {
                let full = std::mem::take(batch);
                self.send(lane, full);
                free = (free + 1) % open.len();
            }
        }
        Ok(())
    }

    fn send_all(&self, open: &mut [Batch]) {
        for (lane, batch) in open.iter_mut().enumerate().filter(|(_, batch)| !batch.events.is_empty()) {
            self.send(lane, std::mem::take(batch));
        }
    }

    /// Sends a batch to its lane. A lane that takes no more has failed or was stopped; the lane
    /// itself reports the reason.
    fn send(&self, lane: usize, batch: Batch) {
        if self.lanes[lane].blocking_send(batch).is_err() {
            self.stop.cancel();
        }
    }
}

/// Gives the same hash in every run, so that a second run of a file makes the same batches.
fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Removes the line number that serde_json adds: it sees only one line.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line 1 column ") {
        Some((what, column)) => format!("{what} (column {column})"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(input: &[u8], lanes: usize) -> (Result<(), BadLine>, Vec<Vec<Batch>>) {
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..lanes).map(|_| tokio::sync::mpsc::channel(100)).unzip();
        let (stop, progress) = (CancellationToken::new(), Progress::default());
        let reader = Reader {
            default_stream: Some("default".into()),
            max_payload_bytes: 100,
            live: false,
            lanes: senders,
            stop: &stop,
            progress: &progress,
        };
        let outcome = reader.read(BufReader::new(input));
        let received = receivers.into_iter().map(|mut receiver| {
            let mut batches = Vec::new();
            while let Ok(batch) = receiver.try_recv() {
                batches.push(batch);
            }
            batches
        });
        (outcome, received.collect())
    }

    #[test]
    fn blank_lines_count_but_are_skipped() {
        let (outcome, lanes) =
            read(b"\xef\xbb\xbf{\"type\":\"A\"}\r\n\n  \n{\"event_type\":\"B\",\"stream\":\"s\"}", 1);
        outcome.unwrap();
        let [batch] = &lanes[0][..] else { panic!("one batch") };
        assert_eq!(batch.lines, [1, 4]);
        assert_eq!(batch.events[0].stream_id.as_deref(), Some("default"));
        assert_eq!(batch.events[1].stream_id.as_deref(), Some("s"));
    }

    #[test]
    fn what_stands_before_a_bad_line_goes_out() {
        let (outcome, lanes) = read(b"{\"type\":\"A\"}\n{\"tipe\":\"B\"}\n{\"type\":\"C\"}\n", 1);
        let bad = outcome.unwrap_err();
        assert_eq!(bad.line, 2);
        assert!(bad.reason.starts_with("unknown field `tipe`"), "{}", bad.reason);
        assert_eq!(lanes[0][0].lines, [1]);
    }

    #[test]
    fn a_line_without_end_does_not_fill_the_memory() {
        let bad = read(&[b' '; 2 * 1024 * 1024], 1).0.unwrap_err();
        assert_eq!((bad.line, bad.reason.as_str()), (1, "it is longer than 1048676 bytes"));
    }

    #[test]
    fn a_stream_stays_in_one_lane() {
        let file: String =
            (0..10_000).map(|n| format!("{{\"type\":\"A\",\"stream\":\"s{}\",\"data\":{n}}}\n", n % 7)).collect();
        let (outcome, lanes) = read(file.as_bytes(), 4);
        outcome.unwrap();
        for stream in 0..7 {
            let name = format!("s{stream}");
            let homes = lanes.iter().filter(|batches| {
                batches.iter().flat_map(|batch| &batch.events).any(|e| e.stream_id.as_deref() == Some(&name))
            });
            assert_eq!(homes.count(), 1);
        }
        assert_eq!(lanes.iter().flatten().map(|batch| batch.events.len()).sum::<usize>(), 10_000);
    }
}
