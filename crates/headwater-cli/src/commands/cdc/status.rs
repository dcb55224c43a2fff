//! `headwater cdc status`

use clap::Args;
use headwater::{Headwater, ReplicationSlot};

use super::doctor::bytes;
use crate::failure::Failure;
use crate::output::{Output, printable};

/// Show Headwater's slots in this database: which node reads each, and how much WAL it retains
///
/// A node that was asked to follow the WAL and has no slot here polls the log instead; its own log says why.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater cdc status
  headwater cdc status --json | jq 'select(.active_pid == null)'")]
pub(crate) struct Status {
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

impl Status {
    pub(super) async fn run(self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        let slots = headwater.replication_slots().await?;
        if self.json {
            return slots.iter().try_for_each(|slot| output.json(slot));
        }
        if slots.is_empty() {
            return output.line("nobody follows the WAL");
        }
        let heading = ["SLOT", "READER", "PID", "KIND", "PLUGIN", "WAL", "RETAINED", "BEHIND"].map(String::from);
        let rows: Vec<_> = [heading].into_iter().chain(slots.iter().map(row)).collect();
        output.table(&rows)
    }
}

fn row(slot: &ReplicationSlot) -> [String; 8] {
    let reader = slot.application_name.as_deref().map(|name| name.strip_prefix("headwater-cdc ").unwrap_or(name));
    [
        slot.slot.clone(),
        printable(reader.unwrap_or("nobody")),
        slot.active_pid.map(|pid| pid.to_string()).unwrap_or_default(),
        if slot.temporary { "temporary" } else { "durable" }.into(),
        slot.plugin.clone(),
        slot.wal_status.clone().unwrap_or_default(),
        slot.retained_bytes.map(bytes).unwrap_or_default(),
        slot.behind_bytes.map(bytes).unwrap_or_default(),
    ]
}
