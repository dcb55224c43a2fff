//! `headwater due list`

use chrono::SecondsFormat;
use clap::Args;
use headwater::Headwater;
use headwater::log::DueEvent;

use crate::failure::Failure;
use crate::output::{Output, printable};

/// List events that wait for their due time, the next one first
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater due list -n shop
  headwater due list -n shop --failed --json")]
pub(crate) struct List {
    /// The namespace
    #[arg(short, long, value_name = "NAME")]
    namespace: String,
    /// Only events that were due and could not be appended. They are tried again automatically
    #[arg(long)]
    failed: bool,
    /// List at most N events
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// Print one JSON object per line, with the whole event
    #[arg(long)]
    json: bool,
}

impl List {
    pub(super) async fn run(self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        let namespace = headwater.namespace(&self.namespace).await?;
        let events = match self.failed {
            true => namespace.failed_due_events(self.limit).await?,
            false => namespace.due_events(self.limit).await?,
        };
        if self.json {
            return events.iter().try_for_each(|event| output.json(event));
        }
        if events.is_empty() {
            return output.line("no events wait to be due");
        }
        let heading = ["ID", "TYPE", "DUE", "KEY", "FAILED", "NEXT TRY", "ERROR"].map(String::from);
        let rows: Vec<_> = [heading].into_iter().chain(events.iter().map(row)).collect();
        output.table(&rows)
    }
}

fn row(due: &DueEvent) -> [String; 7] {
    let time = |time: chrono::DateTime<chrono::Utc>| time.to_rfc3339_opts(SecondsFormat::Millis, true);
    let failed = due.failures > 0;
    [
        due.event.id.to_string(),
        printable(&due.event.event_type),
        time(due.due_at),
        printable(due.event.key.as_deref().or(due.event.stream_id.as_deref()).unwrap_or_default()),
        if failed { due.failures.to_string() } else { String::new() },
        if failed { time(due.next_try_at) } else { String::new() },
        printable(&due.error.as_deref().unwrap_or_default().replace('\n', " ")),
    ]
}
