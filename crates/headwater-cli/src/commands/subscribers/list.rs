//! `headwater subscribers list`

use std::collections::HashMap;

use clap::Args;
use headwater::Headwater;
use headwater::delivery::{OperatorStore, SubscriberInfo, SubscriberMode};
use headwater::queue::QueueInfo;

use super::view;
use crate::commands::queue;
use crate::duration::format_age;
use crate::failure::Failure;
use crate::held::{self, Holders};
use crate::output::{Output, grouped, printable};

/// List subscribers of one namespace or of all: who owns them, what they do, and how far they are
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater subscribers list
  headwater subscribers list -n shop --json | jq -r 'select(.lag_seconds > 60) | .subscriber_id'

Queues (shared subscribers) are shown in their own table, because nobody owns them. WORKERS are
nodes that run a worker of the queue, and other workers that hold claims. WAITING counts sequences
that nobody has claimed: at most that many events wait. See `headwater queue`.

A partitioned subscriber is shown by the partition that is furthest behind: see `headwater groups
show`. The output names who holds subscribers back, with the statement that ends it.")]
pub(crate) struct List {
    /// The namespace [default: all]
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

/// The subscribers of one namespace or of all.
struct Seen {
    /// Each subscriber with its namespace.
    subscribers: Vec<(String, SubscriberInfo)>,
    /// Queues by namespace and subscriber.
    queues: HashMap<(String, String), QueueInfo>,
    holders: Holders,
}

impl Seen {
    fn queue(&self, namespace: &str, info: &SubscriberInfo) -> Option<&QueueInfo> {
        self.queues.get(&(namespace.to_owned(), info.subscriber_id.clone()))
    }
}

impl List {
    pub(super) async fn run(self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        let seen = held::unless_locked(headwater, self.look(headwater)).await?;
        if self.json {
            return seen.subscribers.iter().try_for_each(|(namespace, info)| {
                let holders = seen.holders.of(namespace);
                output.json(&view::to_json(namespace, info, seen.queue(namespace, info), holders))
            });
        }
        let owned: Vec<_> = seen.subscribers.iter().filter(|(_, info)| info.mode != SubscriberMode::Shared).collect();
        if !owned.is_empty() || seen.queues.is_empty() {
            let heading = [
                "NAMESPACE",
                "SUBSCRIBER",
                "MODE",
                "STATE",
                "OWNER",
                "TERM",
                "LEASE",
                "POSITION",
                "BEHIND",
                "FOR",
                "RATE/S",
                "GAPS",
                "DEAD LETTERS",
            ];
            let rows = owned.iter().map(|(namespace, info)| row(namespace, info));
            output.table(&[heading.map(String::from)].into_iter().chain(rows).collect::<Vec<_>>())?;
        }
        let queues: Vec<&QueueInfo> =
            seen.subscribers.iter().filter_map(|(namespace, info)| seen.queue(namespace, info)).collect();
        if !queues.is_empty() {
            if !owned.is_empty() {
                output.line("")?;
            }
            queue::table(output, queues.iter().copied())?;
        }
        for (_, info) in &seen.subscribers {
            if let Some(detail) = view::detail(info) {
                let id = printable(&info.subscriber_id);
                output.line(format_args!("\n{id} is {}: {detail}", view::state(info)))?;
            }
        }
        seen.holders.print(output, |_, _| true)
    }

    async fn look(&self, headwater: &Headwater) -> Result<Seen, Failure> {
        let (subscribers, queues) = match &self.namespace {
            Some(name) => {
                let all = headwater.namespace(name).await?.subscribers().subscribers().await?;
                let all = all.into_iter().map(|info| (name.clone(), info)).collect();
                (all, headwater.admin().queues_of(name, None).await?)
            }
            None => (headwater.admin().subscribers().await?, headwater.admin().queues().await?),
        };
        let by_id = |queue: QueueInfo| ((queue.namespace.clone(), queue.subscriber_id.clone()), queue);
        let holders = held::look(headwater, self.namespace.as_deref()).await?;
        Ok(Seen { subscribers, queues: queues.into_iter().map(by_id).collect(), holders })
    }
}

fn row(namespace: &str, info: &SubscriberInfo) -> [String; 13] {
    [
        namespace.to_owned(),
        printable(&info.subscriber_id),
        info.mode.name().into(),
        view::state(info).into(),
        view::owner(info),
        info.term.to_string(),
        view::lease(info),
        info.position.to_string(),
        grouped(info.lag_events),
        format_age(info.lag),
        format!("{:.0}", view::rate(info)),
        info.pending_gaps.len().to_string(),
        grouped(info.dead_letters),
    ]
}
