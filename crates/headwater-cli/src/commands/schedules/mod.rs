//! `headwater schedules`: create, list, show, run, pause, resume, delete, preview.

mod create;
mod delete;
mod list;
mod pause;
mod preview;
mod run;
mod show;
mod view;

use clap::{Args, Subcommand};
use headwater::{Headwater, Namespace};

use crate::connection::ConnectionArgs;
use crate::failure::Failure;
use crate::output::Output;

/// Create, list, show, run, pause and delete schedules, and preview cron expressions
#[derive(Debug, Subcommand)]
pub(crate) enum Schedules {
    Create(create::Create),
    List(list::List),
    Show(show::Show),
    Run(run::Run),
    Pause(pause::Pause),
    Resume(pause::Resume),
    Delete(delete::Delete),
    Preview(preview::Preview),
}

/// One schedule.
#[derive(Debug, Args)]
struct Target {
    /// The namespace
    #[arg(short, long, value_name = "NAME")]
    namespace: String,
    /// The schedule
    #[arg(value_name = "SCHEDULE")]
    schedule: String,
}

impl Target {
    async fn namespace(&self, headwater: &Headwater) -> Result<Namespace, Failure> {
        Ok(headwater.namespace(&self.namespace).await?)
    }
}

impl Schedules {
    pub(crate) async fn run(self, connection: &ConnectionArgs) -> Result<(), Failure> {
        let headwater = connection.connect().await?;
        let mut output = Output::new();
        match self {
            Schedules::Create(create) => create.run(&headwater, &mut output).await?,
            Schedules::List(list) => list.run(&headwater, &mut output).await?,
            Schedules::Show(show) => show.run(&headwater, &mut output).await?,
            Schedules::Run(run) => run.run(&headwater, &mut output).await?,
            Schedules::Pause(pause) => pause.run(&headwater, &mut output).await?,
            Schedules::Resume(resume) => resume.run(&headwater, &mut output).await?,
            Schedules::Delete(delete) => delete.run(&headwater, &mut output).await?,
            Schedules::Preview(preview) => preview.run(&headwater, &mut output).await?,
        }
        headwater.shutdown().await;
        output.finish()
    }
}
