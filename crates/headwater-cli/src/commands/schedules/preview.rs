//! `headwater schedules preview`

use chrono::{DateTime, FixedOffset};
use clap::Args;
use headwater::Headwater;

use super::view;
use crate::failure::Failure;
use crate::output::Output;

/// Show when a cron expression is due, without scheduling anything
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater schedules preview '0 2 * * *' --timezone Europe/Copenhagen
  headwater schedules preview '30 2 * * *' --timezone Europe/Copenhagen --after 2026-03-28T00:00:00Z
  headwater schedules preview '0 9 * * MON#1' --count 12 --json")]
pub(crate) struct Preview {
    /// The cron expression, such as '0 2 * * *' or @daily
    #[arg(value_name = "CRON")]
    cron: String,
    /// The time zone of the expression
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    timezone: String,
    /// Show due times after this time [default: now]
    #[arg(long, value_name = "TIME")]
    after: Option<DateTime<FixedOffset>>,
    /// How many due times to show
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    count: u32,
    /// Print one JSON string per line
    #[arg(long)]
    json: bool,
}

impl Preview {
    pub(super) async fn run(self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        let after = self.after.map(|time| time.to_utc());
        let runs = headwater.next_runs(&self.cron, &self.timezone, after, self.count).await?;
        if self.json {
            return runs.iter().try_for_each(|due| output.json(due));
        }
        if runs.is_empty() {
            return output.line("never");
        }
        runs.iter().try_for_each(|due| output.line(view::time(due)))
    }
}
