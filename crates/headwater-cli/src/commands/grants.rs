//! `headwater grants`: lists who may do what.

use clap::Args;

use crate::connection::ConnectionArgs;
use crate::failure::Failure;
use crate::output::{Output, printable};

/// List which roles may do what in which namespace
///
/// The owner of Headwater's tables sees all grants. Other roles see only the grants of their own
/// roles.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  headwater grants --namespace shop --json | jq -r .role")]
pub(crate) struct Grants {
    /// Only this namespace
    #[arg(short, long)]
    namespace: Option<String>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

impl Grants {
    pub(crate) async fn run(self, connection: &ConnectionArgs) -> Result<(), Failure> {
        let headwater = connection.connect().await?;
        let grants = headwater.admin().grants(self.namespace.as_deref()).await?;
        headwater.shutdown().await;
        let mut output = Output::new();
        if self.json {
            grants.iter().try_for_each(|grant| output.json(grant))?;
            return output.finish();
        }
        let heading = ["NAMESPACE", "ROLE", "GRANT", "SINCE"].map(String::from);
        let rows = grants.iter().map(|grant| {
            let since = grant.granted_at.format("%F %T UTC").to_string();
            [grant.namespace.clone(), printable(&grant.role), grant.kind.to_string(), since]
        });
        output.table(&[heading].into_iter().chain(rows).collect::<Vec<_>>())?;
        output.finish()
    }
}
