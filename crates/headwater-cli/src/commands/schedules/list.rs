//! `headwater schedules list`

use clap::Args;
use headwater::Headwater;
use headwater::schedule::Schedule;

use super::view;
use crate::failure::Failure;
use crate::output::{Output, printable};

/// List schedules of one namespace or of all, with their next and last due times
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater schedules list
  headwater schedules list -n shop --json | jq 'select(.state == \"failing\")'

Times are in the time zone of the schedule.")]
pub(crate) struct List {
    /// The namespace [default: all]
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

impl List {
    pub(super) async fn run(self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        let schedules: Vec<(String, Schedule)> = match &self.namespace {
            Some(name) => {
                let schedules = headwater.namespace(name).await?.schedules().await?;
                schedules.into_iter().map(|schedule| (name.clone(), schedule)).collect()
            }
            None => headwater.admin().schedules().await?,
        };
        if self.json {
            return schedules.iter().try_for_each(|(namespace, schedule)| output.json_of(namespace, schedule));
        }
        if schedules.is_empty() {
            return output.line("no schedules");
        }
        let heading =
            ["NAMESPACE", "SCHEDULE", "STATE", "RULE", "ZONE", "TYPE", "NEXT", "LAST", "ERROR"].map(String::from);
        let rows: Vec<_> = [heading].into_iter().chain(schedules.iter().map(row)).collect();
        output.table(&rows)
    }
}

fn row((namespace, schedule): &(String, Schedule)) -> [String; 9] {
    [
        namespace.clone(),
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
