//! `headwater cdc redeliver`

use clap::Args;
use headwater::Headwater;

use crate::failure::Failure;
use crate::output::{Output, plural};

/// Deliver events that were poison, and whose rows have been repaired, to the subscribers that are past them
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater cdc redeliver -n shop 4711
  headwater cdc redeliver -n shop --in-order 4711 4712

They come late. With --in-order, subscribers that a node runs at present are moved back
to just before the first of them, and are given it and all that follows again, in order;
but for transactional ones, whose effects happen once. Owners begin a new term: events that they had under way may come again. Queues
(--shared) are left alone: emit the event again for them.")]
pub(crate) struct Redeliver {
    /// The namespace
    #[arg(short, long, value_name = "NAME")]
    namespace: String,
    /// Move active subscribers back, so that they are given the events in order
    #[arg(long)]
    in_order: bool,
    /// The events' places in the log
    #[arg(required = true, value_name = "SEQUENCE")]
    sequences: Vec<u64>,
}

impl Redeliver {
    pub(super) async fn run(self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        let namespace = headwater.namespace(&self.namespace).await?;
        if self.in_order {
            let redelivered = namespace.redeliver_in_order(&self.sequences).await?;
            let (moved, late) =
                (plural(redelivered.moved.into(), "partition"), plural(redelivered.late.into(), "partition"));
            return output.line(format_args!("moved {moved} back, and {late} will be told late"));
        }
        for sequence in self.sequences {
            let told = namespace.redeliver_poison(sequence).await?;
            output.line(format_args!("{} will be told of event {sequence}", plural(told.into(), "partition")))?;
        }
        Ok(())
    }
}
