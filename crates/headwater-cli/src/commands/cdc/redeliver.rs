//! `headwater cdc redeliver`

use clap::Args;
use headwater::Headwater;

use crate::failure::Failure;
use crate::output::{Output, plural};

/// Deliver an event that was poison, and whose row has been repaired, to the subscribers that are past it
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater cdc redeliver -n shop 4711

Their owners begin a new term: events that they had under way may come again. Queues
(--shared) are left alone: emit the event again for them.")]
pub(crate) struct Redeliver {
    /// The namespace
    #[arg(short, long, value_name = "NAME")]
    namespace: String,
    /// The event's place in the log
    global_sequence: u64,
}

impl Redeliver {
    pub(super) async fn run(self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        let namespace = headwater.namespace(&self.namespace).await?;
        let told = namespace.redeliver_poison(self.global_sequence).await?;
        output.line(format_args!("{} will be told of event {}", plural(told.into(), "partition"), self.global_sequence))
    }
}
