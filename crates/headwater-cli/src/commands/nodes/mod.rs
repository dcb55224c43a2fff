//! `headwater nodes`: list, show, forget.

mod forget;
mod list;
mod show;

use clap::Subcommand;

use crate::connection::ConnectionArgs;
use crate::failure::Failure;
use crate::output::Output;

/// List, show and forget nodes: registered processes with their heartbeats and the event types that
/// they handle
#[derive(Debug, Subcommand)]
pub(crate) enum Nodes {
    List(list::List),
    Show(show::Show),
    Forget(forget::Forget),
}

impl Nodes {
    pub(crate) async fn run(self, connection: &ConnectionArgs) -> Result<(), Failure> {
        let headwater = connection.connect().await?;
        let mut output = Output::new();
        let outcome = match self {
            Nodes::List(list) => list.run(&headwater, &mut output).await,
            Nodes::Show(show) => show.run(&headwater, &mut output).await,
            Nodes::Forget(forget) => forget.run(&headwater, &mut output).await,
        };
        headwater.shutdown().await;
        output.finish()?;
        outcome
    }
}

/// Whether a node is alive, in one word for people.
fn state(node: &headwater::node::NodeInfo) -> &'static str {
    match (node.alive, node.stopped_at) {
        (true, _) => "alive",
        (false, Some(_)) => "stopped",
        (false, None) => "silent",
    }
}
