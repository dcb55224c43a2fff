//! `headwater schedules list`

use clap::Args;
use headwater::{Headwater, Schedule};

use super::view;
use crate::failure::Failure;
use crate::output::{Output, printable};

/// List the schedules of a namespace, with their next and last due times
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater schedules list -n shop
  headwater schedules list -n shop --json | jq 'select(.state == \"failing\")'

Times are as the clocks of the schedule's time zone show them.")]
pub(crate) struct List {
    /// The namespace
    #[arg(short, long, value_name = "NAME")]
    namespace: String,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

impl List {
    pub(super) async fn run(self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        let schedules = headwater.namespace(&self.namespace).await?.schedules().await?;
        if self.json {
            return schedules.iter().try_for_each(|schedule| output.json(schedule));
        }
        if schedules.is_empty() {
            return output.line("no schedules");
        }
        let heading = ["SCHEDULE", "STATE", "RULE", "ZONE", "TYPE", "NEXT", "LAST", "ERROR"].map(String::from);
        let rows: Vec<_> = [heading].into_iter().chain(schedules.iter().map(row)).collect();
        output.table(&rows)
    }
}

fn row(schedule: &Schedule) -> [String; 8] {
    [
        printable(&schedule.name),
        schedule.state.as_str().into(),
        view::rule(schedule),
        printable(&schedule.timezone),
        printable(&schedule.event_type),
        view::next(schedule),
        schedule.last_due_at.as_ref().map_or_else(|| "-".into(), view::time),
        printable(&schedule.error.as_deref().unwrap_or_default().replace('\n', " ")),
    ]
}
