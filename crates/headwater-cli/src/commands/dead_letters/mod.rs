//! `headwater dead-letters`: list, show, redrive, discard.

mod discard;
mod list;
mod redrive;
mod select;
mod show;
mod wait;

use clap::Subcommand;

use crate::connection::ConnectionArgs;
use crate::failure::Failure;
use crate::output::Output;

/// List, show, redrive and discard dead letters: events that subscribers gave up on
#[derive(Debug, Subcommand)]
pub(crate) enum DeadLetters {
    List(list::List),
    Show(show::Show),
    Redrive(redrive::Redrive),
    Discard(discard::Discard),
}

impl DeadLetters {
    pub(crate) async fn run(self, connection: &ConnectionArgs) -> Result<(), Failure> {
        let headwater = connection.connect().await?;
        let mut output = Output::new();
        let outcome = match self {
            DeadLetters::List(list) => list.run(&headwater, &mut output).await,
            DeadLetters::Show(show) => show.run(&headwater, &mut output).await,
            DeadLetters::Redrive(redrive) => redrive.run(&headwater, &mut output).await,
            DeadLetters::Discard(discard) => discard.run(&headwater, &mut output).await,
        };
        headwater.shutdown().await;
        output.finish()?;
        outcome
    }
}
