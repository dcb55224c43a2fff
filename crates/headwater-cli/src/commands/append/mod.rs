//! `headwater append`: one event, or a file of them.

mod bulk;
mod lane;
mod lines;
mod progress;

use std::path::PathBuf;

use clap::Args;
use headwater::ExpectedVersion;

use crate::commands::{emit, interruptible};
use crate::connection::ConnectionArgs;
use crate::event_args::EventArgs;
use crate::failure::Failure;

const USAGE: &str = "headwater append [OPTIONS] --namespace <NAME> --stream <STREAM> <TYPE> [DATA]
       headwater append [OPTIONS] --namespace <NAME> --file <FILE>";

const EXAMPLES: &str = r#"Examples:
  headwater append -n shop -s order-7 OrderPlaced '{"total": 120}' --expect no-stream
  headwater append -n shop -s order-7 OrderShipped --expect 1
  headwater append -n shop --file orders.jsonl
  headwater read -n shop --json | headwater append -n copy --file -

Each line of the file is one JSON object. Only "type" is required:
  {"type": "OrderPlaced", "data": {"total": 120}, "id": "018f…",
   "stream": "order-7", "key": …, "actor_id": …, "correlation_id": …,
   "causation_id": …, "headers": {…}, "schema_version": 1,
   "created_at": "2026-01-01T12:00:00Z"}
The names "event_type" and "stream_id" are accepted too. Fields that the log sets,
such as global_sequence or recorded_at, are ignored.

Lines are stored in batches, in the order of the file. A bad line ends the
command; all lines before it are stored. A line with an "id" is stored only once,
even if you append the file again. A line without an "id" is stored again."#;

/// Append one event to a stream, or a file of events (JSON lines)
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, override_usage = USAGE)]
pub(crate) struct Append {
    /// The namespace
    #[arg(short, long, value_name = "NAME")]
    namespace: String,
    /// The stream. With --file, the stream of the lines that name none
    #[arg(short, long, value_name = "STREAM", required_unless_present = "file")]
    stream: Option<String>,
    /// The expected version of the stream: any, no-stream, exists, or an exact VERSION. With
    /// --file, this is checked before the first event; each later batch expects the version that
    /// the batch before it left
    #[arg(long, value_name = "any|no-stream|exists|VERSION", value_parser = expected, requires = "stream")]
    expect: Option<ExpectedVersion>,
    /// The event's type: what happened, such as OrderPlaced or order.placed
    #[arg(value_name = "TYPE", required_unless_present = "file")]
    event_type: Option<String>,
    /// The event's data: JSON, @FILE, or - for standard input [default: null]
    #[arg(value_name = "DATA", allow_negative_numbers = true)]
    data: Option<String>,
    #[command(flatten)]
    event: EventArgs,
    /// Append the events of a file of JSON lines, or of standard input (-)
    #[arg(short, long, conflicts_with_all = ["event_type", "data", "EventArgs"])]
    file: Option<PathBuf>,
    /// Append up to 4 batches at once, which is faster. Events of one stream or key stay in order;
    /// other events may change places
    #[arg(long, requires = "file", conflicts_with = "expect")]
    unordered: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Append {
    pub(crate) async fn run(self, connection: &ConnectionArgs) -> Result<(), Failure> {
        let expected = self.expect.unwrap_or_default();
        match (self.file, self.event_type) {
            (Some(file), _) => {
                let bulk = bulk::Bulk {
                    namespace: self.namespace,
                    stream: self.stream,
                    expected,
                    file,
                    unordered: self.unordered,
                    json: self.json,
                };
                bulk.run(connection).await
            }
            (None, Some(event_type)) => {
                let event = self.event.event(&event_type, self.data.as_deref())?;
                let one = async {
                    let headwater = connection.connect().await?;
                    let namespace = headwater.namespace(&self.namespace).await?;
                    let appended = namespace.append(self.stream.unwrap_or_default(), expected, [event]).await?;
                    headwater.shutdown().await;
                    emit::print(&namespace, &appended, self.json)
                };
                interruptible(one).await
            }
            (None, None) => unreachable!("clap asks for TYPE unless there is --file"),
        }
    }
}

fn expected(text: &str) -> Result<ExpectedVersion, String> {
    match text {
        "any" => Ok(ExpectedVersion::Any),
        "no-stream" => Ok(ExpectedVersion::NoStream),
        "exists" => Ok(ExpectedVersion::Exists),
        version => version
            .parse()
            .map(ExpectedVersion::Exact)
            .map_err(|_| "it is any, no-stream, exists, or a version, such as 3".into()),
    }
}
