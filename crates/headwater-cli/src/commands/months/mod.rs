//! `headwater months`: list, maintain.

mod list;
mod maintain;

use clap::Subcommand;

use crate::connection::ConnectionArgs;
use crate::failure::Failure;
use crate::output::Output;

/// List and maintain the months of a namespace's log
#[derive(Debug, Subcommand)]
pub(crate) enum Months {
    List(list::List),
    Maintain(maintain::Maintain),
}

impl Months {
    pub(crate) async fn run(self, connection: &ConnectionArgs) -> Result<(), Failure> {
        let headwater = connection.connect().await?;
        let mut output = Output::new();
        match self {
            Months::List(list) => list.run(&headwater, &mut output).await?,
            Months::Maintain(maintain) => maintain.run(&headwater, &mut output).await?,
        }
        headwater.shutdown().await;
        output.finish()
    }
}
