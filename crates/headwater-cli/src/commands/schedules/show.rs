//! `headwater schedules show`

use chrono::{DateTime, FixedOffset};
use clap::Args;
use headwater::Headwater;
use headwater::schedule::{Schedule, ScheduleRun, ScheduleState};
use serde::Serialize;

use super::{Target, view};
use crate::failure::Failure;
use crate::output::{Output, printable};

/// Show a schedule: its rule, its next due times, and what happened at the last ones
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater schedules show -n shop daily-cleanup
  headwater schedules show -n shop daily-cleanup --runs 100 --json | jq .runs

Times are in the time zone of the schedule.")]
pub(crate) struct Show {
    #[command(flatten)]
    target: Target,
    /// How many of the last runs to show. 100 are kept
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// How many of the next due times to show
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    next: u32,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A schedule as JSON. Its payload goes to the output as it is.
#[derive(Serialize)]
struct Shown<'s> {
    #[serde(flatten)]
    schedule: &'s Schedule,
    next_runs: &'s [DateTime<FixedOffset>],
    runs: &'s [ScheduleRun],
}

impl Show {
    pub(super) async fn run(self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        let namespace = self.target.namespace(headwater).await?;
        let schedule = namespace.schedule(&self.target.schedule).await?;
        let runs = namespace.schedule_runs(&self.target.schedule, self.runs).await?;
        let mut next: Vec<_> = schedule.next_due_at.into_iter().collect();
        if let (Some(cron), Some(first)) = (&schedule.cron, schedule.next_due_at)
            && self.next > 1
        {
            let more = headwater.next_runs(cron, &schedule.timezone, Some(first.to_utc()), self.next - 1).await?;
            next.extend(more.into_iter().filter(|due| schedule.ends_at.is_none_or(|end| due.to_utc() <= end)));
        }
        if self.json {
            return output.json(&Shown { schedule: &schedule, next_runs: &next, runs: &runs });
        }
        output.table(&described(&schedule))?;
        output.line("\nnext")?;
        match next.is_empty() {
            true => output.line("  never")?,
            false => next.iter().try_for_each(|due| output.line(format_args!("  {}", view::time(due))))?,
        }
        output.line("\nlast")?;
        if runs.is_empty() {
            return output.line("  none yet");
        }
        let heading = ["  DUE", "OUTCOME", "RAN", "SEQUENCE", "EVENT", "DETAIL"].map(String::from);
        let rows: Vec<_> = [heading].into_iter().chain(runs.iter().map(row)).collect();
        output.table(&rows)
    }
}

fn described(schedule: &Schedule) -> Vec<[String; 2]> {
    let mut rows = vec![["schedule".into(), printable(&schedule.name)]];
    let mut add = |name: &str, value: Option<String>| rows.extend(value.map(|value| [name.to_owned(), value]));
    add("task id", Some(schedule.task_id.to_string()));
    add("state", Some(schedule.state.as_str().into()));
    if schedule.state == ScheduleState::Failing {
        add("failures", Some(schedule.failures.to_string()));
    }
    add("error", schedule.error.as_deref().map(printable));
    add("rule", Some(view::rule(schedule)));
    add("time zone", Some(printable(&schedule.timezone)));
    add("starts", schedule.starts_at.map(|time| time.format("%F %T UTC").to_string()));
    add("ends", schedule.ends_at.map(|time| time.format("%F %T UTC").to_string()));
    add("missed", Some(view::missed(schedule.missed)));
    let trigger = if schedule.pg_cron { "nodes, and pg_cron" } else { "nodes" };
    add("triggered by", Some(trigger.into()));
    add("event", Some(format!("{} {}", printable(&schedule.event_type), printable(schedule.payload.as_str()))));
    add("stream", schedule.stream_id.as_ref().map(|id| printable(id.as_str())));
    add("key", schedule.key.as_deref().map(printable));
    add("changed", Some(schedule.updated_at.format("%F %T UTC").to_string()));
    rows
}

fn row(run: &ScheduleRun) -> [String; 6] {
    let detail = match (&run.error, run.skipped_until) {
        (Some(error), _) => format!("try {}: {}", run.attempts, printable(&error.replace('\n', " "))),
        (None, Some(until)) => format!("missed, up to {}", until.format("%F %T UTC")),
        (None, None) => String::new(),
    };
    [
        format!("  {}", view::time(&run.due_at)),
        run.outcome.as_str().into(),
        run.ran_at.format("%F %T%.3f UTC").to_string(),
        run.global_sequence.map_or("-".into(), |sequence| sequence.to_string()),
        run.event_id.map_or("-".into(), |id| id.to_string()),
        detail,
    ]
}
