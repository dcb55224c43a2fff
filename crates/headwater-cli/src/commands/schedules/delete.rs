//! `headwater schedules delete`

use clap::Args;
use headwater::Headwater;

use super::Target;
use crate::confirm::ConfirmArgs;
use crate::failure::Failure;
use crate::output::{Output, printable};

/// Delete a schedule with its history. Events that it appended stay
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  headwater schedules delete -n shop daily-cleanup --yes")]
pub(crate) struct Delete {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    confirm: ConfirmArgs,
}

impl Delete {
    pub(super) async fn run(self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        let namespace = self.target.namespace(headwater).await?;
        let schedule = namespace.schedule(&self.target.schedule).await?;
        let name = printable(&schedule.name);
        let event_type = printable(&schedule.event_type);
        self.confirm.confirm(&format!("schedule {name} is deleted: it appends no {event_type} any more")).await?;
        namespace.delete_schedule(&schedule.name).await?;
        output.line(format_args!("schedule {name} is deleted"))
    }
}
