//! `headwater nodes show`

use clap::Args;
use headwater::Headwater;

use super::state;
use crate::duration::{format, format_age};
use crate::failure::{Exit, Failure};
use crate::output::{Output, printable};

/// Show a node: its name and description, its heartbeats, and what it handles
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  headwater nodes show -n shop api-server-1")]
pub(crate) struct Show {
    /// The namespace
    #[arg(short, long, value_name = "NAME")]
    namespace: String,
    /// The node's id
    #[arg(value_name = "NODE")]
    node: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Show {
    pub(super) async fn run(self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        let nodes = headwater.namespace(&self.namespace).await?.nodes();
        let Some(node) = nodes.list(Some(&self.node)).await?.pop() else { return Err(not_there(&self.node)) };
        if self.json {
            return output.json(&node);
        }
        let time = |time: chrono::DateTime<chrono::Utc>| time.format("%F %T UTC").to_string();
        let text = |text: &Option<String>| printable(text.as_deref().unwrap_or("-"));
        let types = if node.event_types.is_empty() { "-".into() } else { printable(&node.event_types.join(" ")) };
        output.table(&[
            ["node".into(), node.node_id.clone()],
            ["state".into(), state(&node).into()],
            ["heard of".into(), format!("{} ago", format_age(node.heartbeat_age))],
            ["heartbeat every".into(), format(node.heartbeat_every)],
            ["incarnation".into(), node.incarnation.to_string()],
            ["instance".into(), node.instance_id.to_string()],
            ["name".into(), text(&node.display_name)],
            ["description".into(), text(&node.description)],
            ["metadata".into(), printable(node.metadata.as_str())],
            ["handles".into(), types],
            ["registered".into(), time(node.registered_at)],
            ["started".into(), time(node.started_at)],
            ["stopped".into(), node.stopped_at.map_or("-".into(), time)],
        ])
    }
}

pub(super) fn not_there(node: &str) -> Failure {
    Failure::new(Exit::NotFound, format!("node {node:?} is not registered"))
        .help("list the nodes with `headwater nodes list`")
}
