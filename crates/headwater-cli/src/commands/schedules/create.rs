//! `headwater schedules create`

use chrono::{DateTime, FixedOffset};
use clap::{Args, ValueEnum};
use headwater::schedule::MissedRuns;
use headwater::{Headwater, Json, Task};

use super::view;
use crate::event_args::json;
use crate::failure::Failure;
use crate::output::{Output, printable};

const EXAMPLES: &str = r#"Examples:
  headwater schedules create -n shop daily-cleanup maintenance.cleanup '{"keep_days": 30}' \
      --cron '0 2 * * *' --timezone Europe/Copenhagen
  headwater schedules create -n shop heartbeat Tick --cron '*/10 * * * * *' --missed skip
  headwater schedules create -n shop sale SaleBegins --at 2026-12-01T08:00:00Z

CRON has five fields (minute, hour, day of month, month, day of week), or six fields with the
second first. A field is *, 5, 1-5, */15, 1,15 or a name (JAN, MON). L is the last day of a month,
FRI#2 is its second Friday, and FRIL is its last Friday. @hourly, @daily, @weekly, @monthly and
@yearly are names of expressions. Try an expression with `headwater schedules preview`.

When clocks are set forward, a fixed time that is skipped is due right after the change. When
clocks are set back, a fixed time is due only once. Times of a wildcard or a step follow the
clocks."#;

/// Create a schedule, or change the schedule with this name: it appends an event at each due time
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Create {
    /// The namespace
    #[arg(short, long, value_name = "NAME")]
    namespace: String,
    /// The schedule's name. If a schedule has this name, it is changed
    #[arg(value_name = "SCHEDULE")]
    schedule: String,
    /// The type of its events
    #[arg(value_name = "TYPE")]
    event_type: String,
    /// The data of its events: JSON, @FILE, or - for standard input [default: null]
    #[arg(value_name = "DATA", allow_negative_numbers = true)]
    data: Option<String>,
    /// When the schedule is due: a cron expression
    #[arg(long, required_unless_present = "at", conflicts_with = "at")]
    cron: Option<String>,
    /// When the schedule is due, only once, such as 2026-12-01T08:00:00Z
    #[arg(long, value_name = "TIME", conflicts_with_all = ["starts_at", "ends_at"])]
    at: Option<DateTime<FixedOffset>>,
    /// The time zone of the cron expression, such as Europe/Copenhagen
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    timezone: String,
    /// The stream of its events. They are appended at any version of the stream
    #[arg(long, value_name = "ID")]
    stream: Option<String>,
    /// The key of its events
    #[arg(long)]
    key: Option<String>,
    /// No due times before this time
    #[arg(long, value_name = "TIME")]
    starts_at: Option<DateTime<FixedOffset>>,
    /// No due times after this time
    #[arg(long, value_name = "TIME")]
    ends_at: Option<DateTime<FixedOffset>>,
    /// What to do with due times that nobody fired within two minutes
    #[arg(long, value_enum, default_value_t = Missed::FireOnce)]
    missed: Missed,
    /// With --missed fire-all: fire at most N of them, the last ones [default: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    missed_limit: Option<u32>,
    /// Do not fire until the schedule is resumed
    #[arg(long)]
    paused: bool,
    /// Let pg_cron trigger the schedule too, so that it fires while no node is running
    #[arg(long)]
    pg_cron: bool,
    /// Print the schedule as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Missed {
    /// Fire the last of them, unless a due time that is on time follows
    FireOnce,
    /// Fire the last --missed-limit of them
    FireAll,
    /// Fire none of them
    Skip,
}

impl Create {
    pub(super) async fn run(self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        let missed = match (self.missed, self.missed_limit) {
            (Missed::FireAll, limit) => MissedRuns::FireAll { limit: limit.unwrap_or(100) },
            (_, Some(_)) => return Err(Failure::invalid("--missed-limit is for --missed fire-all")),
            (Missed::FireOnce, None) => MissedRuns::FireOnce,
            (Missed::Skip, None) => MissedRuns::Skip,
        };
        let payload = self.data.as_deref().map(json).transpose()?.unwrap_or_else(Json::null);
        let task = match (self.cron, self.at) {
            (Some(cron), _) => Task::cron(self.schedule, cron),
            (None, Some(at)) => Task::once(self.schedule, at),
            (None, None) => return Err(Failure::invalid("give --cron or --at")),
        };
        let task = Task {
            stream_id: self.stream.map(Into::into),
            key: self.key,
            starts_at: self.starts_at.map(|time| time.to_utc()),
            ends_at: self.ends_at.map(|time| time.to_utc()),
            active: self.paused.then_some(false),
            pg_cron: self.pg_cron,
            ..task.timezone(self.timezone).emits(self.event_type, payload).missed(missed)
        };
        let schedule = headwater.namespace(&self.namespace).await?.schedule_task(task).await?;
        if self.json {
            return output.json(&schedule);
        }
        output.line(format_args!(
            "{}: schedule {} is {}, due next: {}",
            printable(&self.namespace),
            printable(&schedule.name),
            schedule.state.as_str(),
            view::next(&schedule)
        ))
    }
}
