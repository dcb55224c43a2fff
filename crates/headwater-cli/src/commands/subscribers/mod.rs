//! `headwater subscribers`: list, show, pause, resume, set-types, reset, remove.

mod list;
mod pause;
mod remove;
mod reset;
mod set_types;
mod show;
pub(crate) mod view;

use clap::{Args, Subcommand};
use headwater::delivery::PgSubscribers;
use headwater::{Headwater, Namespace};

use crate::connection::ConnectionArgs;
use crate::failure::Failure;
use crate::output::Output;

/// List, show, pause, resume, change, move and remove subscribers
#[derive(Debug, Subcommand)]
pub(crate) enum Subscribers {
    List(list::List),
    Show(show::Show),
    Pause(pause::Pause),
    Resume(pause::Resume),
    SetTypes(set_types::SetTypes),
    Reset(reset::Reset),
    Remove(remove::Remove),
}

/// One subscriber.
#[derive(Debug, Args)]
struct Target {
    /// The namespace
    #[arg(short, long, value_name = "NAME")]
    namespace: String,
    /// The subscriber's id
    #[arg(value_name = "SUBSCRIBER")]
    subscriber: String,
}

impl Target {
    async fn namespace(&self, headwater: &Headwater) -> Result<Namespace, Failure> {
        Ok(headwater.namespace(&self.namespace).await?)
    }

    async fn store(&self, headwater: &Headwater) -> Result<PgSubscribers, Failure> {
        Ok(self.namespace(headwater).await?.subscribers())
    }
}

impl Subscribers {
    pub(crate) async fn run(self, connection: &ConnectionArgs) -> Result<(), Failure> {
        let headwater = connection.connect().await?;
        let mut output = Output::new();
        match self {
            Subscribers::List(list) => list.run(&headwater, &mut output).await?,
            Subscribers::Show(show) => show.run(&headwater, &mut output).await?,
            Subscribers::Pause(pause) => pause.run(&headwater, &mut output).await?,
            Subscribers::Resume(resume) => resume.run(&headwater, &mut output).await?,
            Subscribers::SetTypes(set_types) => set_types.run(&headwater, &mut output).await?,
            Subscribers::Reset(reset) => reset.run(&headwater, &mut output).await?,
            Subscribers::Remove(remove) => remove.run(&headwater, &mut output).await?,
        }
        headwater.shutdown().await;
        output.finish()
    }
}
