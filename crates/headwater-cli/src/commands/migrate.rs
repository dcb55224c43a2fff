//! `headwater migrate`

use clap::Args;
use headwater::Headwater;

use crate::connection::ConnectionArgs;
use crate::failure::Failure;
use crate::output::Output;

/// Bring the database's schema to this version of Headwater
///
/// Does nothing if the schema is up to date. It is safe while applications run, and while other
/// processes migrate too.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  headwater migrate --database-url postgres://app@db.internal/app")]
pub(crate) struct Migrate {}

impl Migrate {
    pub(crate) async fn run(self, connection: &ConnectionArgs) -> Result<(), Failure> {
        let headwater = connection.connect().await?;
        let said = migrate(&headwater).await?;
        headwater.shutdown().await;
        let mut output = Output::new();
        output.line(said)?;
        output.finish()
    }
}

/// Migrates, and returns a text that says what changed.
pub(crate) async fn migrate(headwater: &Headwater) -> Result<String, Failure> {
    let migrated = headwater.migrate().await?;
    Ok(match (migrated.from, migrated.to) {
        (0, to) => format!("migrated to schema version {to}"),
        (from, to) if from < to => format!("migrated from schema version {from} to {to}"),
        (_, to) if migrated.functions_replaced => format!("schema version {to}, functions replaced"),
        (_, to) => format!("schema version {to}, nothing to do"),
    })
}
