//! `headwater read`

mod follow;
mod items;
mod print;

use clap::Args;
use futures::TryStreamExt;
use uuid::Uuid;

use crate::connection::ConnectionArgs;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use items::Item;

const EXAMPLES: &str = r#"Examples:
  headwater read -n shop                          the log, up to its horizon
  headwater read -n shop --after 1000 --limit 10 --gaps
  headwater read -n shop --stream order-7 --backwards --limit 1
  headwater read -n shop --type OrderPlaced --json | jq .data.total
  headwater read -n shop --causation 018f3c4e-…   causes and effects of an event
  headwater read -n shop --follow --after 1000    what is there, then what comes, until it is stopped

With --follow, events come strictly in order: while a transaction is open that may still append
events in between, nothing behind them is shown, and standard error says who holds the log.
Ctrl-C, SIGTERM and SIGHUP end it with exit code 0, and standard error says where to go on."#;

/// Read the log, a stream, a correlation, a chain of causes, or one event
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Read {
    /// The namespace
    #[arg(short, long, value_name = "NAME")]
    namespace: String,

    /// Read this stream
    #[arg(short, long, group = "what", value_name = "STREAM")]
    stream: Option<String>,
    /// Read the events that one first cause led to
    #[arg(long, group = "what", value_name = "UUID")]
    correlation: Option<Uuid>,
    /// Read what led to an event, itself, and what it led to
    #[arg(long, group = "what", value_name = "EVENT_ID")]
    causation: Option<Uuid>,
    /// Read one event
    #[arg(long, group = "what", value_name = "EVENT_ID")]
    id: Option<Uuid>,

    /// Above this global_sequence
    #[arg(long, value_name = "SEQ", conflicts_with_all = ["stream", "causation", "id"])]
    after: Option<u64>,
    /// Up to this global_sequence, included
    #[arg(long, value_name = "SEQ", conflicts_with_all = ["stream", "causation", "id"])]
    up_to: Option<u64>,
    /// From this version of the stream, included
    #[arg(long, value_name = "VERSION", requires = "stream")]
    from_version: Option<u64>,
    /// Up to this version of the stream, included
    #[arg(long, value_name = "VERSION", requires = "stream")]
    to_version: Option<u64>,
    /// Newest first
    #[arg(long, conflicts_with_all = ["correlation", "causation", "id"])]
    backwards: bool,
    /// At most so many events
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Only events of this type, in which * stands for any characters; may be repeated
    #[arg(long = "type", value_name = "TYPE", conflicts_with = "id")]
    types: Vec<String>,
    /// Only events of streams whose name starts so
    #[arg(long, value_name = "PREFIX", conflicts_with = "what")]
    stream_prefix: Option<String>,
    /// Go on with new events as they come
    #[arg(short, long, conflicts_with_all = ["what", "backwards", "up_to", "gaps"])]
    pub(crate) follow: bool,
    /// Show gaps: sequences that will never come (permanent), and those whose writer still lives (pending)
    #[arg(long, conflicts_with_all = ["what", "backwards", "types", "stream_prefix"])]
    gaps: bool,
    /// One JSON object a line; a gap is {"gap": {…}}
    #[arg(long)]
    json: bool,
}

impl Read {
    pub(crate) async fn run(self, connection: &ConnectionArgs) -> Result<(), Failure> {
        let headwater = connection.connect().await?;
        let namespace = headwater.namespace(&self.namespace).await?;
        let mut output = Output::new();
        let printer = print::Printer::new(self.json);
        let mut items = self.items(&namespace);
        let (mut printed, mut held_back) = (0, None);
        while let Some(item) = items.try_next().await? {
            match item {
                Item::Event(event) => {
                    printer.event(&mut output, &event)?;
                    printed += 1;
                }
                Item::Gap(gap) if self.gaps => printer.gap(&mut output, &gap)?,
                Item::Gap(gap) => held_back = print::held_back(&gap),
            }
        }
        output.finish()?;
        // An end that is not the end must not look like it.
        if let Some(note) = held_back {
            eprintln!("note: {note}");
        }
        if self.causation.is_some() && self.limit.is_none() && printed == items::CHAIN_EVENTS {
            eprintln!("note: there may be more than these {printed}: raise that with --limit");
        }
        match self.id.or(self.causation) {
            Some(id) if printed == 0 && self.limit != Some(0) && self.types.is_empty() => {
                Err(Failure::new(Exit::NotFound, format!("namespace {:?} has no event {id}", self.namespace)))
            }
            _ => Ok(()),
        }
    }
}
