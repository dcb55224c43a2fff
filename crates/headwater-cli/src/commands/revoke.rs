//! `headwater revoke`: takes back the grants of a role.

use clap::Args;
use headwater::admin::GrantKind;

use super::grant::kind;
use crate::connection::ConnectionArgs;
use crate::failure::{Exit, Failure};
use crate::output::{Output, plural};

/// Take back what a role was granted in a namespace
///
/// An open session of the role goes on until its next statement, which is refused. DROP ROLE works
/// when the role has no grant left.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater revoke --namespace shop --role web producer
  headwater revoke --namespace shop --role web")]
pub(crate) struct Revoke {
    /// The namespace
    #[arg(short, long)]
    namespace: String,
    /// The role
    #[arg(long)]
    role: String,
    /// What to take back [default: all]
    #[arg(value_name = "producer|consumer|admin", value_parser = kind)]
    kind: Option<GrantKind>,
}

impl Revoke {
    pub(crate) async fn run(self, connection: &ConnectionArgs) -> Result<(), Failure> {
        let headwater = connection.connect().await?;
        let revoked = headwater.admin().revoke(&self.namespace, &self.role, self.kind).await?;
        headwater.shutdown().await;
        if revoked == 0 {
            return Err(Failure::new(
                Exit::NotFound,
                format!("role {:?} has no such grant in namespace {:?}", self.role, self.namespace),
            )
            .help(format!("list the grants with `headwater grants --namespace {}`", self.namespace)));
        }
        let mut output = Output::new();
        let (role, namespace) = (&self.role, &self.namespace);
        output
            .line(format_args!("took {} back from role {role} in namespace {namespace}", plural(revoked, "grant")))?;
        output.finish()
    }
}
