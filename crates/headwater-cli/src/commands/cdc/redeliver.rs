//! `headwater cdc redeliver`

use clap::Args;
use headwater::Headwater;

use crate::failure::Failure;
use crate::output::{Output, plural};

/// Deliver poison events whose rows were repaired to the subscribers that have passed them
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater cdc redeliver -n shop 4711
  headwater cdc redeliver -n shop --in-order 4711 4712

The events come late. With --in-order, subscribers that a node runs now are moved back to just
before the first of these events, and get it and all later events again, in order. Transactional
subscribers are not moved, because their effects happen only once: they get the events late. Owners
begin a new term, so events that they are handling may come again. Queues (--shared) get nothing:
emit the event again for them.")]
pub(crate) struct Redeliver {
    /// The namespace
    #[arg(short, long, value_name = "NAME")]
    namespace: String,
    /// Move active subscribers back, so that they get the events in order
    #[arg(long)]
    in_order: bool,
    /// The global_sequence of each event
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
