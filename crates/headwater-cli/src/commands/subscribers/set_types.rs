//! `headwater subscribers set-types`

use clap::{ArgGroup, Args};
use headwater::delivery::{OperatorStore, SubscriberError, SubscriberMode};
use headwater::{Headwater, Namespace, sqlx};

use super::Target;
use crate::failure::Failure;
use crate::output::{Output, printable};

/// The stores have no call for this: it is the function that `docs/sql.md` describes.
const SET_EVENT_TYPES: &str = "SELECT headwater.set_event_types($1, $2, $3)";

/// Change which event types a queue (a shared subscriber) takes
///
/// The change counts for all events that no claim has passed yet, and for events that commit later.
/// Events of other types are settled without a worker. Events that claims have passed stay settled:
/// `headwater subscribers reset` goes back to them. Claims that workers hold go on. An event that a
/// worker handed back or lost becomes a dead letter if the queue no longer takes its type.
///
/// A program that registers with the queue later adds its own types again.
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
        let namespace = self.target.namespace(headwater).await?;
        let info = namespace.subscribers().subscriber(id).await?;
        if info.mode != SubscriberMode::Shared {
            return Err(no_queue(id, info.mode));
        }
        let takes_all = self.all_types || self.types.iter().any(|event_type| event_type == "*");
        let types = (!takes_all).then_some(&*self.types);
        let before = set_event_types(&namespace, id, types).await?;
        let (now, before) = (described(types), described(before.as_deref()));
        output.line(format_args!("subscriber {} takes {now} (before: {before})", printable(id)))
    }
}

/// Sets what a queue takes, and returns what it took before. `None` means all types.
async fn set_event_types(
    namespace: &Namespace,
    subscriber_id: &str,
    types: Option<&[String]>,
) -> Result<Option<Vec<String>>, Failure> {
    let statement = sqlx::query_scalar(SET_EVENT_TYPES).bind(&namespace.info().name).bind(subscriber_id).bind(types);
    statement.fetch_one(namespace.pool()).await.map_err(|error| {
        let Some(raised) = error.as_database_error() else { return Failure::unexpected(error) };
        let message = raised.message().to_owned();
        match raised.code().as_deref() {
            Some("WH002") => SubscriberError::InvalidInput(message).into(),
            Some("WH015") => SubscriberError::NotGranted(message).into(),
            _ => Failure::unexpected(error),
        }
    })
}

fn described(types: Option<&[String]>) -> String {
    types.map_or("all event types".into(), |types| printable(&types.join(", ")))
}

fn no_queue(subscriber_id: &str, mode: SubscriberMode) -> Failure {
    let message = format!("subscriber {subscriber_id:?} is {}, not shared: it is not a queue", mode.name());
    Failure::from(SubscriberError::InUse(message)).help("list the queues with `headwater queue --namespace NAME`")
}
