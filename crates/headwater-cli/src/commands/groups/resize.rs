//! `headwater groups resize`

use std::time::{Duration, Instant};

use clap::Args;
use headwater::Headwater;
use headwater::delivery::{OperatorStore, PgSubscribers, SubscriberError};
use serde_json::json;

use super::Target;
use super::change::Change;
use crate::failure::{Exit, Failure};
use crate::output::{Output, plural, printable};
use crate::progress::Progress;

const LOOK: Duration = Duration::from_millis(200);
/// The time between the steps that this command takes for a group without members.
const STEP: Duration = Duration::from_secs(1);

/// Change the number of partitions of a group, also while it is running
///
/// First the owners give up their partitions. Then all partitions go on to the place that the
/// furthest of them has reached, the barrier. The new partitions begin from there. So the events of
/// a key stay in order, although most keys move to another partition.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater groups resize -n shop mailer --partitions 16
  headwater groups resize -n shop mailer --partitions 16 --wait

Without --wait, the members of the group complete the change: `headwater groups show` shows how far
it is. Ctrl-C ends the waiting, not the change. `headwater subscribers reset` drops the change.")]
pub(crate) struct Resize {
    #[command(flatten)]
    target: Target,
    /// The new number of partitions: 1 to 1024
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    partitions: u32,
    /// Wait until the change is done, and say what it waits for
    #[arg(long)]
    wait: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Resize {
    pub(super) async fn run(self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        let store = self.target.store(headwater).await?;
        let (_, before) = self.target.look(&store).await?;
        let from = before.partitions.len() as u32;
        self.step(&store).await?;
        let change = match self.wait {
            true => self.until_done(&store).await?,
            false => self.change(&store).await?,
        };
        if self.json {
            return output.json(&json!({
                "subscriber_id": self.target.subscriber,
                "from": from,
                "to": self.partitions,
                "done": change.is_none(),
                "change": change.map(|change| change.to_json()),
            }));
        }
        let id = printable(&self.target.subscriber);
        let to = plural(self.partitions.into(), "partition");
        match change {
            None if from == self.partitions => output.line(format_args!("group {id} has {to} already")),
            None => output.line(format_args!("group {id} had {from} and has {to} now")),
            Some(change) => output.line(format_args!("group {id} changes from {from} to {to}: {}", change.text)),
        }
    }

    /// Asks for the change, or takes its next step.
    async fn step(&self, store: &PgSubscribers) -> Result<(), Failure> {
        store.resize(&self.target.subscriber, self.partitions).await.map_err(|error| {
            let other = matches!(error, SubscriberError::InUse(_));
            let failure = Failure::from(error);
            if !other {
                return failure;
            }
            let Target { namespace, subscriber } = &self.target;
            failure.help(format!(
                "see what it waits for with `headwater groups show -n {namespace} {}`",
                printable(subscriber)
            ))
        })
    }

    /// Returns the change, or `None` if it is done.
    async fn change(&self, store: &PgSubscribers) -> Result<Option<Change>, Failure> {
        let (info, group) = self.target.look(store).await?;
        let change = Change::of(&info, &group);
        match &change {
            Some(change) if change.to == self.partitions => {}
            None if group.partitions.len() == self.partitions as usize => {}
            _ => {
                let message = format!("the change to {} partitions was dropped meanwhile", self.partitions);
                return Err(Failure::new(Exit::Conflict, message).help("a reset or another change drops it"));
            }
        }
        Ok(change)
    }

    async fn until_done(&self, store: &PgSubscribers) -> Result<Option<Change>, Failure> {
        let mut progress = None;
        let mut noted = (None, None);
        let mut stepped = Instant::now();
        while let Some(change) = self.change(store).await? {
            let progress = progress.get_or_insert_with(|| Progress::new(None));
            if noted != (Some(change.waits_for), change.needs) {
                noted = (Some(change.waits_for), change.needs);
                progress.note(&change.text);
                change.needs.iter().for_each(|needs| progress.note(&format!("note: {needs}")));
            }
            progress.tell(0, &change.text);
            if !change.has_members && stepped.elapsed() >= STEP {
                stepped = Instant::now();
                self.step(store).await?;
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(None)
    }
}
