//! `headwater groups`: list, show, resize.

mod change;
mod list;
mod resize;
mod show;
pub(crate) mod view;

use clap::{Args, Subcommand};
use headwater::Headwater;
use headwater::delivery::{GroupInfo, OperatorStore, PgSubscribers, SubscriberError, SubscriberInfo, SubscriberMode};

use crate::connection::ConnectionArgs;
use crate::failure::Failure;
use crate::output::Output;

/// List, show and resize groups: subscribers whose processes share partitions
#[derive(Debug, Subcommand)]
pub(crate) enum Groups {
    List(list::List),
    Show(show::Show),
    Resize(resize::Resize),
}

/// One group.
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
    async fn store(&self, headwater: &Headwater) -> Result<PgSubscribers, Failure> {
        Ok(headwater.namespace(&self.namespace).await?.subscribers())
    }

    /// Returns the subscriber and its group. Fails if the subscriber is not a group.
    async fn look(&self, store: &PgSubscribers) -> Result<(SubscriberInfo, GroupInfo), Failure> {
        let info = store.subscriber(&self.subscriber).await?;
        if !matches!(info.mode, SubscriberMode::Partitioned { .. }) {
            return Err(no_group(&self.subscriber, info.mode));
        }
        let group = store.group(&self.subscriber).await?;
        Ok((info, group))
    }
}

fn no_group(subscriber_id: &str, mode: SubscriberMode) -> Failure {
    let message = format!("subscriber {subscriber_id:?} is {}, not partitioned: it is not a group", mode.name());
    Failure::from(SubscriberError::InUse(message)).help("list the groups with `headwater groups list --namespace NAME`")
}

impl Groups {
    pub(crate) async fn run(self, connection: &ConnectionArgs) -> Result<(), Failure> {
        let headwater = connection.connect().await?;
        let mut output = Output::new();
        match self {
            Groups::List(list) => list.run(&headwater, &mut output).await?,
            Groups::Show(show) => show.run(&headwater, &mut output).await?,
            Groups::Resize(resize) => resize.run(&headwater, &mut output).await?,
        }
        headwater.shutdown().await;
        output.finish()
    }
}
