//! `headwater grant`: allows a database role to work in a namespace.

use clap::Args;
use headwater::admin::GrantKind;

use crate::connection::ConnectionArgs;
use crate::failure::Failure;
use crate::output::Output;

/// Allow a database role to work in a namespace
///
/// Connect as the owner of Headwater's tables (the role that migrated), or as a superuser. A role
/// without a grant cannot read, cannot emit, and cannot see which namespaces exist.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater grant --namespace shop --role web producer
  headwater grant --namespace shop --role mailer consumer")]
pub(crate) struct Grant {
    /// The namespace
    #[arg(short, long)]
    namespace: String,
    /// A database role, as created by CREATE ROLE
    #[arg(long)]
    role: String,
    /// producer: may append. consumer: may read and have subscribers. admin: may do both, and
    /// change the namespace's settings
    #[arg(value_name = "producer|consumer|admin", value_parser = kind)]
    kind: GrantKind,
}

pub(super) fn kind(text: &str) -> Result<GrantKind, String> {
    text.parse().map_err(|error: headwater::admin::AdminError| error.to_string())
}

impl Grant {
    pub(crate) async fn run(self, connection: &ConnectionArgs) -> Result<(), Failure> {
        let headwater = connection.connect().await?;
        headwater.admin().grant(&self.namespace, &self.role, self.kind).await?;
        headwater.shutdown().await;
        let mut output = Output::new();
        output.line(format_args!("role {} is {} of namespace {}", self.role, self.kind, self.namespace))?;
        output.finish()
    }
}
