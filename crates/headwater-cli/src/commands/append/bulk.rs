//! `headwater append --file`: a thread reads ahead, lanes append, and progress is shown.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::future::join_all;
use headwater::log::{AppendError, StreamId};
use headwater::{ExpectedVersion, Headwater, Namespace};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::lane::{Lane, Refused};
use super::lines::{BadLine, Batch, Reader};
use super::progress::Progress;
use crate::connection::ConnectionArgs;
use crate::failure::Failure;
use crate::output::{Output, grouped};

/// Batches in flight with --unordered. More batches gain little, and cost the server work.
const UNORDERED_LANES: usize = 4;
/// Batches that wait for each lane. Enough that a lane never waits for the reader, and few enough
/// to need little memory.
const READ_AHEAD: usize = 4;

pub(super) struct Bulk {
    pub(super) namespace: String,
    pub(super) stream: Option<String>,
    pub(super) expected: ExpectedVersion,
    pub(super) file: PathBuf,
    pub(super) unordered: bool,
    pub(super) json: bool,
}

impl Bulk {
    pub(super) async fn run(self, connection: &ConnectionArgs) -> Result<(), Failure> {
        let (input, total) = open(&self.file)?;
        let lanes = if self.unordered { UNORDERED_LANES } else { 1 };
        let headwater = connection.connect_with(Headwater::builder().flushers(lanes)).await?;
        let namespace = headwater.namespace(&self.namespace).await?;
        let progress = Arc::new(Progress::default());
        let outcome = self.append(&namespace, input, total, lanes, &progress).await;
        headwater.shutdown().await;
        outcome.map_err(|ended| ended.failure(progress.new_events() + progress.known_events()))?;
        self.print(&progress)
    }

    async fn append(
        &self,
        namespace: &Namespace,
        input: Input,
        total: Option<u64>,
        lanes: usize,
        progress: &Arc<Progress>,
    ) -> Result<(), Ended> {
        let stop = CancellationToken::new();
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..lanes).map(|_| mpsc::channel(READ_AHEAD)).unzip();
        let live = total.is_none();
        let read = self.start_reader(namespace, input, live, senders, &stop, progress);
        let running = join_all(receivers.into_iter().map(|batches| {
            let lane = Lane { namespace: namespace.clone(), expected: self.watched() };
            lane.run(batches, stop.clone(), progress)
        }));
        tokio::pin!(running);
        let mut interrupted = false;
        let refused = tokio::select! {
            done = &mut running => done,
            never = progress.tell(total) => match never {},
            _ = tokio::signal::ctrl_c() => {
                interrupted = true;
                stop.cancel();
                running.await
            }
        };
        // If several lanes failed, report the failure that comes first in the file.
        let refused = refused.into_iter().filter_map(Result::err).min_by_key(|refused| refused.line);
        if interrupted {
            // Do not wait for the reader: it may be waiting for a terminal. It ends with the
            // process.
            return Err(refused.map_or(Ended::Interrupted, Ended::Refused));
        }
        let bad = match read.await {
            Ok(outcome) => outcome.err(),
            Err(_) => None,
        };
        match (refused, bad) {
            (Some(refused), Some(bad)) if bad.line < refused.line => Err(Ended::BadLine(bad)),
            (Some(refused), _) => Err(Ended::Refused(refused)),
            (None, Some(bad)) => Err(Ended::BadLine(bad)),
            (None, None) => Ok(()),
        }
    }

    fn start_reader(
        &self,
        namespace: &Namespace,
        input: Input,
        live: bool,
        lanes: Vec<mpsc::Sender<Batch>>,
        stop: &CancellationToken,
        progress: &Arc<Progress>,
    ) -> oneshot::Receiver<Result<(), BadLine>> {
        let (done, outcome) = oneshot::channel();
        let (stop, progress) = (stop.clone(), progress.clone());
        let default_stream = self.stream.as_deref().map(StreamId::from);
        let max_payload_bytes = namespace.info().max_payload_bytes as usize;
        std::thread::spawn(move || {
            let reader = Reader { default_stream, max_payload_bytes, live, lanes, stop: &stop, progress: &progress };
            _ = done.send(reader.read(input));
        });
        outcome
    }

    fn watched(&self) -> Option<(StreamId, ExpectedVersion)> {
        let stream = self.stream.as_deref().filter(|_| self.expected != ExpectedVersion::Any)?;
        Some((stream.into(), self.expected))
    }

    fn print(&self, progress: &Progress) -> Result<(), Failure> {
        let (new, known) = (progress.new_events(), progress.known_events());
        let mut output = Output::new();
        if self.json {
            output.json(&json!({
                "events": new + known,
                "stored": new,
                "already_stored": known,
                "seconds": progress.seconds(),
                "events_per_second": progress.rate(),
                "last_global_sequence": (new + known > 0).then(|| progress.last_sequence()),
            }))?;
            return output.finish();
        }
        if new + known == 0 {
            output.line("no events: every line is blank")?;
            return output.finish();
        }
        let there = if known > 0 { format!(" ({} of them were there already)", grouped(known)) } else { String::new() };
        output.line(format_args!(
            "appended {} events{there} in {:.2} s, {} events/s, last global_sequence {}",
            grouped(new + known),
            progress.seconds(),
            grouped(progress.rate()),
            progress.last_sequence()
        ))?;
        output.finish()
    }
}

const AGAIN: &str = "the file can be run again: lines with an id are not stored twice";

/// Why the append ended early.
enum Ended {
    BadLine(BadLine),
    Refused(Refused),
    Interrupted,
}

impl Ended {
    /// Returns the failure to report, which says how many events are stored.
    fn failure(self, stored: u64) -> Failure {
        let stored = format!("{} events are stored", grouped(stored));
        match self {
            Ended::BadLine(BadLine { line, reason }) => Failure::invalid(reason)
                .at(format!("line {line}"))
                .help(format!("{stored}, all of the lines before it; {AGAIN}")),
            Ended::Refused(Refused { line, error }) => {
                let help = match &error {
                    AppendError::Conflict { .. } => {
                        format!("{stored}, but none of this line's batch or of a later batch")
                    }
                    error if error.outcome_unknown() => {
                        format!("{stored}, and maybe the batch from this line on; {AGAIN}")
                    }
                    _ => format!("{stored}; {AGAIN}"),
                };
                Failure::from(error).at(format!("line {line}")).help(help)
            }
            Ended::Interrupted => Failure::interrupted().help(format!("{stored}; {AGAIN}")),
        }
    }
}

type Input = BufReader<Box<dyn Read + Send>>;

/// Opens the input. Returns its size too if it is a file.
fn open(path: &Path) -> Result<(Input, Option<u64>), Failure> {
    let buffered = |input: Box<dyn Read + Send>| BufReader::with_capacity(256 * 1024, input);
    if path == Path::new("-") {
        return Ok((buffered(Box::new(std::io::stdin())), None));
    }
    let failed = |error| Failure::invalid(format!("failed to read {}: {error}", path.display()));
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if metadata.is_dir() {
        return Err(Failure::invalid(format!("failed to read {}: it is a folder", path.display())));
    }
    Ok((buffered(Box::new(file)), metadata.is_file().then_some(metadata.len())))
}
