//! `headwater cdc status`

use clap::Args;
use headwater::Headwater;
use headwater::cdc::{LiveNode, ReplicationSlot};
use serde::Serialize;

use super::doctor::bytes;
use crate::failure::Failure;
use crate::output::{Output, printable};

/// Show who follows the WAL: slots with their readers and the WAL that they retain, and nodes with
/// the state of their live source
///
/// A node reports each change of its state: starting, streaming, degraded (with the reason; it
/// reads the log until the WAL works again) or recovering. A node is interrupted if its last report
/// was streaming but nobody reads its slot: it was killed, or has not reported the reason yet.
/// HEARD is its last heartbeat. Warnings name what may go wrong with a durable slot, for example
/// that nobody reads it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater cdc status
  headwater cdc status --json | jq 'select(.kind == \"slot\" and .active_pid == null)'
  headwater cdc status --json | jq 'select(.kind == \"node\" and .state != \"streaming\")'")]
pub(crate) struct Status {
    /// Print one JSON object per line, of kind slot or node
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Line<'a> {
    Slot(&'a ReplicationSlot),
    Node(&'a LiveNode),
}

impl Status {
    pub(super) async fn run(self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        let slots = headwater.admin().replication_slots().await?;
        let nodes = headwater.admin().live_nodes().await?;
        if self.json {
            let lines = slots.iter().map(Line::Slot).chain(nodes.iter().map(Line::Node));
            return lines.into_iter().try_for_each(|line| output.json(&line));
        }
        // The last report of a node that is gone may no longer be true.
        let nodes: Vec<_> = nodes.iter().filter(|node| node.alive).collect();
        if slots.is_empty() && nodes.is_empty() {
            return output.line("nobody follows the WAL");
        }
        if !slots.is_empty() {
            let heading = ["SLOT", "READER", "PID", "KIND", "PLUGIN", "WAL", "RETAINED", "BEHIND"].map(String::from);
            output.table(&[heading].into_iter().chain(slots.iter().map(row)).collect::<Vec<_>>())?;
        }
        if !nodes.is_empty() {
            let heading = ["NAMESPACE", "NODE", "STATE", "SINCE", "HEARD", "MODE", "RECEIVED", "TAKEN"];
            let heading = heading.map(String::from);
            output.table(&[heading].into_iter().chain(nodes.iter().map(|node| node_row(node))).collect::<Vec<_>>())?;
        }
        for node in &nodes {
            if let Some(error) = &node.error {
                output.line(format_args!("{} {}: {}", node.state, node.node_id, printable(error)))?;
            }
        }
        let mut warnings: Vec<_> = nodes.iter().flat_map(|node| node.warnings.iter().cloned()).collect();
        warnings.extend(slots.iter().filter(|slot| !slot.temporary && slot.active_pid.is_none()).map(unread));
        warnings.sort_unstable();
        warnings.dedup();
        warnings.iter().try_for_each(|warning| output.line(format_args!("warning: {}", printable(warning))))
    }
}

fn unread(slot: &ReplicationSlot) -> String {
    let (slot, retained) = (&slot.slot, slot.retained_bytes.map(bytes).unwrap_or_default());
    format!(
        "nobody reads slot {slot}, for which the server keeps its WAL ({retained}): start a node with an inbox, or drop it with `headwater cdc drop-slot {slot}`"
    )
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

fn node_row(node: &LiveNode) -> [String; 8] {
    [
        node.namespace.clone(),
        node.node_id.clone(),
        node.state.clone(),
        node.since.format("%Y-%m-%d %H:%M:%SZ").to_string(),
        format!("{}s ago", node.heard_age.as_secs()),
        if node.receives { format!("{}, receives", node.mode) } else { node.mode.clone() },
        node.received.to_string(),
        node.taken.to_string(),
    ]
}
