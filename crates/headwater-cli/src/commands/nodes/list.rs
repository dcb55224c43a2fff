//! `headwater nodes list`

use clap::Args;
use headwater::Headwater;
use headwater::node::NodeInfo;

use super::state;
use crate::duration::format_age;
use crate::failure::Failure;
use crate::output::{Output, printable, shortened, width};

/// List nodes: whether they are alive, when their last heartbeat came, and what they handle
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater nodes list
  headwater nodes list -n shop --json | jq -r 'select(.alive | not) | .node_id'

A node is alive if it sent a heartbeat within the last three heartbeat intervals, silent if it did
not, and stopped if it said that it stops.")]
pub(crate) struct List {
    /// Only nodes of this namespace
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

impl List {
    pub(super) async fn run(self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        let nodes = match &self.namespace {
            Some(name) => headwater.namespace(name).await?.nodes().list(None).await?,
            None => headwater.admin().nodes().await?,
        };
        if self.json {
            return nodes.iter().try_for_each(|node| output.json(node));
        }
        if nodes.is_empty() {
            return output.line("no nodes are registered");
        }
        let heading = ["NAMESPACE", "NODE", "STATE", "HEARD OF", "INCARNATION", "NAME", "HANDLES"].map(String::from);
        let rows: Vec<_> = [heading].into_iter().chain(nodes.iter().map(row)).collect();
        output.table(&rows)
    }
}

fn row(node: &NodeInfo) -> [String; 7] {
    let types = printable(&node.event_types.join(" "));
    [
        node.namespace.clone(),
        node.node_id.clone(),
        state(node).into(),
        format!("{} ago", format_age(node.heartbeat_age)),
        node.incarnation.to_string(),
        printable(node.display_name.as_deref().unwrap_or("-")),
        width().map_or(types.clone(), |width| shortened(&types, width / 3)),
    ]
}
