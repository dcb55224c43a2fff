//! `headwater due cancel`

use clap::Args;
use headwater::Headwater;
use uuid::Uuid;

use crate::failure::{Exit, Failure};
use crate::output::{Output, printable};

/// Cancel an event that waits for its due time, so that it is never delivered
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  headwater due cancel -n shop 01980c5e-8f3a-7c11-b0a5-2f4f1f0c9d11")]
pub(crate) struct Cancel {
    /// The namespace
    #[arg(short, long, value_name = "NAME")]
    namespace: String,
    /// The event's id, as `emit` printed it and `due list` shows it
    #[arg(value_name = "ID")]
    id: Uuid,
}

impl Cancel {
    pub(super) async fn run(self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        let namespace = headwater.namespace(&self.namespace).await?;
        if namespace.cancel_due(self.id).await? {
            return output.line(format_args!("{}: event {} is cancelled", printable(&self.namespace), self.id));
        }
        Err(Failure::new(Exit::NotFound, format!("event {} does not wait to be due", self.id))
            .help("it may have been delivered already; see what waits with `headwater due list`"))
    }
}
