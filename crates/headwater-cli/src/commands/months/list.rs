//! `headwater months list`

use clap::Args;
use headwater::Headwater;
use headwater::admin::MonthInfo;

use crate::failure::Failure;
use crate::output::{Output, grouped, printable};

/// List the months of a namespace's log: their size, their sequences, when they are dropped, and
/// who still needs them
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater months list -n shop
  headwater months list -n shop --json | jq -r 'select(.held_by != []) | .held_by[]'

A month is open at first, and sealed later: then nothing can be added to it, and reads that need
none of its sequences do not open it. A month that is older than the namespace's retention is due.
If no subscriber holds it, it is trimmed, and its table is dropped. EVENTS is an estimate until the
month is trimmed.")]
pub(crate) struct List {
    /// The namespace
    #[arg(short, long, value_name = "NAME")]
    namespace: String,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

impl List {
    pub(super) async fn run(self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        let months = headwater.admin().months(&self.namespace).await?;
        if self.json {
            return months.iter().try_for_each(|month| output.json(month));
        }
        let heading = ["MONTH", "TABLE", "EVENTS", "SIZE", "SEQUENCES", "STATE", "DUE", "HELD BY"].map(String::from);
        output.table(&[heading].into_iter().chain(months.iter().map(row)).collect::<Vec<_>>())
    }
}

fn row(month: &MonthInfo) -> [String; 8] {
    let sequences = match (month.first_sequence, month.last_sequence) {
        (Some(first), Some(last)) => format!("{first}-{last}"),
        _ => "-".into(),
    };
    [
        month.starts_at.format("%Y-%m").to_string(),
        month.leaf.clone(),
        month.events.map_or("-".into(), grouped),
        month.bytes.map_or("-".into(), |bytes| format!("{:.1} MB", bytes as f64 / 1e6)),
        sequences,
        state(month).into(),
        month.due_at.map_or("never".into(), |due_at| due_at.format("%F").to_string()),
        printable(&month.held_by.join("; ")),
    ]
}

pub(super) fn state(month: &MonthInfo) -> &'static str {
    match month {
        MonthInfo { dropped_at: Some(_), .. } => "dropped",
        MonthInfo { trimmed_at: Some(_), .. } => "trimmed",
        MonthInfo { due: true, .. } => "due",
        MonthInfo { sealed_at: Some(_), .. } => "sealed",
        _ => "open",
    }
}
