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
  headwater read -n shop --follow --after 1000    present events, then new ones until you stop it

With --follow, events come strictly in order. While an open transaction may still append events in
between, later events are not shown, and standard error says who holds the log back. Ctrl-C,
SIGTERM and SIGHUP end the command with exit code 0, and standard error says where to go on."#;

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
    /// Read the events with this correlation id: all that one first cause led to
    #[arg(long, group = "what", value_name = "UUID")]
    correlation: Option<Uuid>,
    /// Read an event, the events that led to it, and the events that it led to
    #[arg(long, group = "what", value_name = "EVENT_ID")]
    causation: Option<Uuid>,
    /// Read one event
    #[arg(long, group = "what", value_name = "EVENT_ID")]
    id: Option<Uuid>,

    /// Only events above this global_sequence
    #[arg(long, value_name = "SEQ", conflicts_with_all = ["stream", "causation", "id"])]
    after: Option<u64>,
    /// Only events up to this global_sequence, included
    #[arg(long, value_name = "SEQ", conflicts_with_all = ["stream", "causation", "id"])]
    up_to: Option<u64>,
    /// Only events from this version of the stream, included
    #[arg(long, value_name = "VERSION", requires = "stream")]
    from_version: Option<u64>,
    /// Only events up to this version of the stream, included
    #[arg(long, value_name = "VERSION", requires = "stream")]
    to_version: Option<u64>,
    /// Read the newest events first
    #[arg(long, conflicts_with_all = ["correlation", "causation", "id"])]
    backwards: bool,
    /// Read at most N events
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Only events of this type. * stands for any characters; may be repeated
    #[arg(long = "type", value_name = "TYPE", conflicts_with = "id")]
    types: Vec<String>,
    /// Only events of streams whose name starts with this prefix
    #[arg(long, value_name = "PREFIX", conflicts_with = "what")]
    stream_prefix: Option<String>,
    /// Go on with new events as they come, until you stop it
    #[arg(short, long, conflicts_with_all = ["what", "backwards", "up_to", "gaps"])]
    pub(crate) follow: bool,
    /// Show gaps: sequences that will never come (permanent), and sequences whose writer still
    /// lives (pending)
    #[arg(long, conflicts_with_all = ["what", "backwards", "types", "stream_prefix"])]
    gaps: bool,
    /// Print one JSON object per line; a gap is {"gap": {…}}
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
        // The output stops before the end of the log: say so.
        if let Some(note) = held_back {
            eprintln!("note: {note}");
        }
        if self.causation.is_some() && self.limit.is_none() && printed == items::CHAIN_EVENTS {
            eprintln!("note: there may be more than these {printed}: raise the limit with --limit");
        }
        match self.id.or(self.causation) {
            Some(id) if printed == 0 && self.limit != Some(0) && self.types.is_empty() => {
                Err(Failure::new(Exit::NotFound, format!("namespace {:?} has no event {id}", self.namespace)))
            }
            _ => Ok(()),
        }
    }
}
