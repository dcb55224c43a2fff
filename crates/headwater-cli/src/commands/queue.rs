//! `headwater queue`

use clap::Args;
use headwater::Headwater;
use headwater::admin::Holder;
use headwater::queue::QueueInfo;
use serde_json::json;

use crate::commands::subscribers::view;
use crate::connection::ConnectionArgs;
use crate::duration::format_age;
use crate::failure::{Exit, Failure};
use crate::held;
use crate::output::{Output, grouped, printable, shortened, width};

/// Show the queues of shared subscribers: workers, waiting and claimed events, retries, and who
/// holds them back
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater queue -n shop
  headwater queue -n shop mailer --json | jq .held_by

  TAKES        the event types that the queue takes (*: all)
  WORKERS      nodes that run a worker of the queue, and other workers that hold claims
  WAITING      sequences that nobody has claimed: at most that many events wait
  FOR          the age of the oldest waiting event
  IN FLIGHT    at most that many events are in claims that workers hold
  RETRIES      events that are to be delivered again
  LEFT BEHIND  types that no worker has claimed yet, although events of other types were claimed
  RATE/S       events per second that the nodes handle")]
pub(crate) struct Queue {
    /// The namespace
    #[arg(short, long, value_name = "NAME")]
    namespace: String,
    /// Only this subscriber
    #[arg(value_name = "SUBSCRIBER")]
    subscriber: Option<String>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

impl Queue {
    pub(crate) async fn run(self, connection: &ConnectionArgs) -> Result<(), Failure> {
        let headwater = connection.connect().await?;
        let (queues, holders) = held::unless_locked(&headwater, self.look(&headwater)).await?;
        headwater.shutdown().await;
        if let Some(subscriber) = self.subscriber.as_deref().filter(|_| queues.is_empty()) {
            let message = format!("there is no shared subscriber {:?}", printable(subscriber));
            return Err(Failure::new(Exit::NotFound, message).help("see all with `headwater queue --namespace NAME`"));
        }
        let mut output = Output::new();
        if self.json {
            queues.iter().try_for_each(|queue| output.json(&to_json(queue, &holders)))?;
        } else {
            table(&mut output, &queues)?;
            let concerned = |holder: &&Holder| match &self.subscriber {
                Some(subscriber) => holder.concerns(subscriber),
                None => true,
            };
            held::print(&mut output, &self.namespace, holders.iter().filter(concerned))?;
        }
        output.finish()
    }

    async fn look(&self, headwater: &Headwater) -> Result<(Vec<QueueInfo>, Vec<Holder>), Failure> {
        let queues = headwater.admin().queues_of(&self.namespace, self.subscriber.as_deref()).await?;
        Ok((queues, held::holders(headwater, &self.namespace).await?))
    }
}

/// Prints the table of queues, which is the same in every list.
pub(crate) fn table<'q>(output: &mut Output, queues: impl IntoIterator<Item = &'q QueueInfo>) -> Result<(), Failure> {
    let heading = [
        "NAMESPACE",
        "QUEUE",
        "STATE",
        "TAKES",
        "WORKERS",
        "WAITING",
        "FOR",
        "IN FLIGHT",
        "RETRIES",
        "LEFT BEHIND",
        "RATE/S",
        "DEAD LETTERS",
    ];
    let rows = queues.into_iter().map(|queue| {
        [
            queue.namespace.clone(),
            printable(&queue.subscriber_id),
            view::queue_state(queue).into(),
            queue.event_types.as_deref().map_or("*".into(), types),
            grouped(queue.workers),
            grouped(queue.waiting),
            format_age(queue.oldest_waiting),
            grouped(queue.in_flight),
            grouped(queue.retries),
            if queue.left_behind.is_empty() { "-".into() } else { types(&queue.left_behind) },
            format!("{:.0}", queue.rate),
            grouped(queue.dead_letters),
        ]
    });
    output.table(&[heading.map(String::from)].into_iter().chain(rows).collect::<Vec<_>>())
}

/// Formats event types. A long list is cut for a terminal; `--json` has all types.
pub(crate) fn types(types: &[String]) -> String {
    let all = printable(&types.join(" "));
    width().map_or(all.clone(), |width| shortened(&all, (width / 4).max(20)))
}

fn to_json(queue: &QueueInfo, holders: &[Holder]) -> serde_json::Value {
    let mut json = json!(queue);
    json["state"] = view::queue_state(queue).into();
    json["oldest_waiting_seconds"] = queue.oldest_waiting.as_secs_f64().into();
    json["held_by"] = json!(held::of_subscriber(holders, &queue.subscriber_id));
    json
}
