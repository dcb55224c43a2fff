//! `headwater states`: list, show.

mod list;
mod show;

use clap::Subcommand;

use crate::connection::ConnectionArgs;
use crate::failure::Failure;
use crate::output::Output;

/// List and show the states of projections and sagas
#[derive(Debug, Subcommand)]
pub(crate) enum States {
    List(list::List),
    Show(show::Show),
}

impl States {
    pub(crate) async fn run(self, connection: &ConnectionArgs) -> Result<(), Failure> {
        let headwater = connection.connect().await?;
        let mut output = Output::new();
        match self {
            States::List(list) => list.run(&headwater, &mut output).await?,
            States::Show(show) => show.run(&headwater, &mut output).await?,
        }
        headwater.shutdown().await;
        output.finish()
    }
}
