//! `headwater due`: list, cancel, fire.

mod cancel;
mod fire;
mod list;

use clap::Subcommand;

use crate::connection::ConnectionArgs;
use crate::failure::Failure;
use crate::output::Output;

/// List, cancel and fire events that wait for their due time
#[derive(Debug, Subcommand)]
pub(crate) enum Due {
    List(list::List),
    Cancel(cancel::Cancel),
    Fire(fire::Fire),
}

impl Due {
    pub(crate) async fn run(self, connection: &ConnectionArgs) -> Result<(), Failure> {
        let headwater = connection.connect().await?;
        let mut output = Output::new();
        let outcome = match self {
            Due::List(list) => list.run(&headwater, &mut output).await,
            Due::Cancel(cancel) => cancel.run(&headwater, &mut output).await,
            Due::Fire(fire) => fire.run(&headwater, &mut output).await,
        };
        headwater.shutdown().await;
        output.finish()?;
        outcome
    }
}
