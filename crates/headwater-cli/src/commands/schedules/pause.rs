//! `headwater schedules pause` and `resume`

use clap::Args;
use headwater::Headwater;

use super::{Target, view};
use crate::failure::Failure;
use crate::output::{Output, printable};

/// Pause a schedule: it fires nothing until it is resumed, and misses nothing
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  headwater schedules pause -n shop daily-cleanup")]
pub(crate) struct Pause {
    #[command(flatten)]
    target: Target,
}

/// Resume a paused schedule: it fires again from now on
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  headwater schedules resume -n shop daily-cleanup")]
pub(crate) struct Resume {
    #[command(flatten)]
    target: Target,
}

impl Pause {
    pub(super) async fn run(self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        self.target.namespace(headwater).await?.pause_schedule(&self.target.schedule).await?;
        output.line(format_args!("schedule {} is paused", printable(&self.target.schedule)))
    }
}

impl Resume {
    pub(super) async fn run(self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        let namespace = self.target.namespace(headwater).await?;
        namespace.resume_schedule(&self.target.schedule).await?;
        let schedule = namespace.schedule(&self.target.schedule).await?;
        output.line(format_args!("schedule {} goes on, due next: {}", printable(&schedule.name), view::next(&schedule)))
    }
}
