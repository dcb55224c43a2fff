//! `headwater months maintain`

use clap::Args;
use headwater::Headwater;
use serde_json::json;

use super::list::state;
use crate::confirm::ConfirmArgs;
use crate::failure::Failure;
use crate::output::{Output, plural, printable};

/// Make coming months, seal past months, and drop months that are older than the namespace's
/// retention
///
/// Nodes do this once an hour. A month that a subscriber has not finished is kept, unless you give
/// --force. Then the subscriber loses the events that it has not handled, and `headwater
/// subscribers show` says so. Nobody waits for this command: a table that is in use is left to the
/// next run.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater months maintain -n shop --dry-run
  headwater months maintain -n shop
  headwater months maintain -n shop --force --yes")]
pub(crate) struct Maintain {
    /// The namespace
    #[arg(short, long, value_name = "NAME")]
    namespace: String,
    /// Show which months are due and who holds them, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Also drop months with events that subscribers have not handled: they never get these events
    #[arg(long, conflicts_with = "dry_run")]
    force: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    confirm: ConfirmArgs,
}

impl Maintain {
    pub(super) async fn run(self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        if self.dry_run {
            return self.preview(headwater, output).await;
        }
        if self.force {
            let held =
                headwater.admin().months(&self.namespace).await?.into_iter().filter(|month| !month.held_by.is_empty());
            let held: Vec<_> = held.map(|month| format!("{} ({})", month.leaf, month.held_by.join("; "))).collect();
            if !held.is_empty() {
                let what = format!(
                    "these months are dropped, and the subscribers that hold them lose what they have not handled: {}",
                    held.join(", ")
                );
                self.confirm.confirm(&printable(&what)).await?;
            }
        }
        let done = headwater.admin().maintain(&self.namespace, self.force).await?;
        if self.json {
            return output.json(&done);
        }
        if done.busy {
            return output.line("another process maintains this namespace at this moment: nothing was done");
        }
        output.line(format_args!("{} sealed", plural(done.sealed.into(), "month")))?;
        for month in &done.trimmed {
            let lost =
                if month.losers.is_empty() { String::new() } else { format!(", lost to {}", month.losers.join(", ")) };
            output.line(printable(&format!("trimmed {}: {}{lost}", month.leaf, plural(month.events, "event"))))?;
        }
        done.dropped.iter().try_for_each(|leaf| output.line(format_args!("dropped {leaf}")))?;
        if let Some((leaf, holders)) = &done.held {
            output.line(printable(&format!("{leaf} is due, and held by {}", holders.join("; "))))?;
        }
        done.left.iter().try_for_each(|(leaf, why)| output.line(printable(&format!("{leaf} is left for later: {why}"))))
    }

    async fn preview(self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        let months = headwater.admin().months(&self.namespace).await?;
        let due = months.iter().filter(|month| matches!(state(month), "due" | "trimmed")).collect::<Vec<_>>();
        if self.json {
            return output.json(&json!({ "due": due }));
        }
        if due.is_empty() {
            return output.line("nothing is due");
        }
        due.iter().try_for_each(|month| {
            let held = if month.held_by.is_empty() {
                String::new()
            } else {
                format!(", held by {}", month.held_by.join("; "))
            };
            output.line(printable(&format!("{} is {}{held}", month.leaf, state(month))))
        })
    }
}
