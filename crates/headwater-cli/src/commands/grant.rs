//! `headwater grant`: lets a role of the database work in a namespace.

use clap::Args;
use headwater::admin::GrantKind;

use crate::connection::ConnectionArgs;
use crate::failure::Failure;
use crate::output::Output;

/// Let a role of the database work in a namespace
///
/// Connect as the owner of Headwater's tables (who migrated), or as a superuser. A role without a grant can neither read nor emit, nor see which
/// namespaces there are.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater grant --namespace shop --role web producer
  headwater grant --namespace shop --role mailer consumer")]
pub(crate) struct Grant {
    /// The namespace
    #[arg(short, long)]
    namespace: String,
    /// A role of the database, as CREATE ROLE made it
    #[arg(long)]
    role: String,
    /// producer: appends; consumer: reads and has subscribers; admin: both, and the namespace's settings
    #[arg(value_name = "producer|consumer|admin", value_parser = kind)]
    kind: GrantKind,
}

pub(super) fn kind(text: &str) -> Result<GrantKind, String> {
    text.parse().map_err(|error: headwater::admin::AdminError| error.to_string())
}

impl Grant {
    pub(crate) async fn run(self, connection: &ConnectionArgs) -> Result<(), Failure> {
        let headwater = connection.connect().await?;
        headwater.grant(&self.namespace, &self.role, self.kind).await?;
        headwater.shutdown().await;
        let mut output = Output::new();
        output.line(format_args!("role {} is {} of namespace {}", self.role, self.kind, self.namespace))?;
        output.finish()
    }
}
