//! `headwater subscribers set-types`

use clap::{ArgGroup, Args};
use headwater::Headwater;
use headwater::delivery::{OperatorStore, SubscriberError, SubscriberMode};

use super::Target;
use crate::failure::Failure;
use crate::output::{Output, printable};

/// Change which event types a queue (a shared subscriber) takes
///
/// The change counts for all events that no claim has passed yet, and for events that commit later.
/// Events of other types are settled without a worker. Events that claims have passed stay settled:
/// `headwater subscribers reset` goes back to them. Claims that workers hold go on. An event that a
/// worker handed back or lost becomes a dead letter if the queue no longer takes its type.
///
/// A program that registers with the queue later adds its own types again, and a worker of all types
/// adds all.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("taken").required(true))]
#[command(after_help = "\
Examples:
  headwater subscribers set-types -n shop mailer --types OrderPlaced,OrderShipped
  headwater subscribers set-types -n shop mailer --types 'Order*'
  headwater subscribers set-types -n shop mailer --all-types

`headwater queue` shows which types a queue takes.")]
pub(crate) struct SetTypes {
    #[command(flatten)]
    target: Target,
    /// The event types that the queue takes, separated by commas. * stands for any characters
    #[arg(long, value_name = "TYPES", value_delimiter = ',', group = "taken")]
    types: Vec<String>,
    /// Take events of all types
    #[arg(long, group = "taken")]
    all_types: bool,
}

impl SetTypes {
    pub(super) async fn run(self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        let id = &self.target.subscriber;
        let store = self.target.store(headwater).await?;
        let info = store.subscriber(id).await?;
        if info.mode != SubscriberMode::Shared {
            return Err(no_queue(id, info.mode));
        }
        let takes_all = self.all_types || self.types.iter().any(|event_type| event_type == "*");
        let types = if takes_all { &[] } else { &*self.types };
        let before = store.set_event_types(id, types).await?;
        let types = (!takes_all).then_some(types);
        let (now, before) = (described(types), described(before.as_deref()));
        output.line(format_args!("subscriber {} takes {now} (before: {before})", printable(id)))
    }
}

fn described(types: Option<&[String]>) -> String {
    types.map_or("all event types".into(), |types| printable(&types.join(", ")))
}

fn no_queue(subscriber_id: &str, mode: SubscriberMode) -> Failure {
    let message = format!("subscriber {subscriber_id:?} is {}, not shared: it is not a queue", mode.name());
    Failure::from(SubscriberError::InUse(message)).help("list the queues with `headwater queue --namespace NAME`")
}
