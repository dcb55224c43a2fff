//! `headwater subscribers pause` and `resume`

use clap::Args;
use headwater::Headwater;
use headwater::delivery::OperatorStore;

use super::Target;
use crate::failure::Failure;
use crate::output::{Output, printable};

/// Pause a subscriber: its owner finishes the current event and takes no more
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  headwater subscribers pause -n shop mailer")]
pub(crate) struct Pause {
    #[command(flatten)]
    target: Target,
}

/// Resume a paused subscriber: it goes on where it stopped
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  headwater subscribers resume -n shop mailer")]
pub(crate) struct Resume {
    #[command(flatten)]
    target: Target,
}

impl Pause {
    pub(super) async fn run(self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        self.target.store(headwater).await?.set_paused(&self.target.subscriber, true).await?;
        output.line(format_args!("subscriber {} is paused", printable(&self.target.subscriber)))
    }
}

impl Resume {
    pub(super) async fn run(self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        self.target.store(headwater).await?.set_paused(&self.target.subscriber, false).await?;
        output.line(format_args!("subscriber {} goes on", printable(&self.target.subscriber)))
    }
}
