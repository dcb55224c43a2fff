//! `headwater nodes forget`

use std::time::Duration;

use clap::Args;
use headwater::Headwater;

use super::show::not_there;
use crate::duration::parse;
use crate::failure::{Exit, Failure};
use crate::output::{Output, plural, printable};

/// Forget nodes that have been silent for a long time, or one node that is not alive
///
/// Nodes do this by themselves from time to time, after 7 days. A node that you do not name and
/// that has not stopped is first marked as missed. A later call forgets it if it is still silent.
/// The reason: a clock that is set forward makes all nodes look old.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater nodes forget -n shop --older-than 1d
  headwater nodes forget -n shop api-server-1")]
pub(crate) struct Forget {
    /// The namespace
    #[arg(short, long, value_name = "NAME")]
    namespace: String,
    /// Only this node
    #[arg(value_name = "NODE", conflicts_with = "older_than")]
    node: Option<String>,
    /// Only nodes whose last heartbeat is older than this
    #[arg(long, value_name = "DURATION", value_parser = parse, default_value = "7d")]
    older_than: Duration,
}

impl Forget {
    pub(super) async fn run(self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        let nodes = headwater.namespace(&self.namespace).await?.nodes();
        let Some(node) = self.node else {
            let gone = nodes.forget(self.older_than, None).await?;
            return output.line(format_args!("{}: forgot {}", printable(&self.namespace), plural(gone, "node")));
        };
        if nodes.list(Some(&node)).await?.is_empty() {
            return Err(not_there(&node));
        }
        match nodes.forget(Duration::ZERO, Some(&node)).await? {
            0 => Err(Failure::new(Exit::Conflict, format!("node {node:?} is alive")).help("stop it first")),
            _ => output.line(format_args!("{}: forgot node {}", printable(&self.namespace), printable(&node))),
        }
    }
}
