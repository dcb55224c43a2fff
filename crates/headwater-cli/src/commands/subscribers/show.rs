//! `headwater subscribers show`

use clap::Args;
use headwater::Headwater;
use headwater::delivery::{OperatorStore, SubscriberMode};
use headwater::queue::QueueInfo;

use super::{Target, view};
use crate::commands::queue::types;
use crate::duration::format_age;
use crate::failure::Failure;
use crate::held;
use crate::output::{Output, grouped, plural, printable};

/// Show a subscriber: who owns it, what it does, what holds it back, and how far it is
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater subscribers show -n shop mailer
  headwater subscribers show -n shop mailer --json | jq .position

BEHIND counts sequences, so there are at most that many events. The state is what the owner reported
last. no_owner means that no process owns the subscriber (a process with --single-instance never
does). A partitioned subscriber is shown by the partition that is furthest behind: see `headwater
groups show`. The output names who holds the subscriber back, with the statement that ends it.")]
pub(crate) struct Show {
    #[command(flatten)]
    target: Target,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Show {
    pub(super) async fn run(self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        let Target { namespace, subscriber } = &self.target;
        let look = async {
            let info = self.target.store(headwater).await?.subscriber(subscriber).await?;
            let losses = headwater.admin().losses(namespace, Some(subscriber)).await?;
            let queue = match info.mode {
                SubscriberMode::Shared => headwater.admin().queues_of(namespace, Some(subscriber)).await?.pop(),
                _ => None,
            };
            Ok((info, queue, losses, held::holders(headwater, namespace).await?))
        };
        let (info, queue, losses, holders) = held::unless_locked(headwater, look).await?;
        if self.json {
            let mut json = view::to_json(namespace, &info, queue.as_ref(), &holders);
            json["trimmed"] = serde_json::json!(losses);
            return output.json(&json);
        }
        let gaps = match info.pending_gaps.len() {
            0 => "none".into(),
            _ => view::gaps(&info),
        };
        let mut rows = vec![["subscriber".into(), printable(&info.subscriber_id)], ["mode".into(), view::mode(&info)]];
        rows.push(["state".into(), queue.as_ref().map_or(view::state(&info), view::queue_state).into()]);
        rows.extend(view::detail(&info).map(|detail| ["detail".into(), detail]));
        rows.extend(match &queue {
            Some(queue) => of_queue(queue),
            None => vec![
                ["owner".into(), view::owner(&info)],
                ["term".into(), info.term.to_string()],
                ["lease left".into(), view::lease(&info)],
                ["position".into(), info.position.to_string()],
                ["behind".into(), format!("{}, {}", plural(info.lag_events, "sequence"), format_age(info.lag))],
                ["rate".into(), format!("{:.1} events/s", view::rate(&info))],
            ],
        });
        rows.extend([["pending gaps".into(), gaps], ["dead letters".into(), grouped(info.dead_letters)]]);
        if queue.is_none() {
            rows.push(["last event".into(), info.last_event_id.map_or("-".into(), |id| id.to_string())]);
        }
        rows.push(["created".into(), info.created_at.format("%F %T UTC").to_string()]);
        if queue.is_none() {
            rows.push(["moved".into(), info.updated_at.format("%F %T UTC").to_string()]);
        }
        rows.extend(losses.iter().map(|loss| {
            let (first, last) = (loss.first_sequence, loss.last_sequence);
            let (events, at) = (plural(loss.events, "event"), loss.lost_at.format("%F %T UTC"));
            ["trimmed".into(), format!("{first} to {last} before it was handled: at most {events}, {at}")]
        }));
        output.table(&rows)?;
        held::print(output, namespace, held::of_subscriber(&holders, subscriber))
    }
}

fn of_queue(queue: &QueueInfo) -> Vec<[String; 2]> {
    vec![
        ["takes".into(), queue.event_types.as_deref().map_or("all event types".into(), types)],
        ["workers".into(), grouped(queue.workers)],
        ["waiting".into(), format!("{}, {}", plural(queue.waiting, "sequence"), format_age(queue.oldest_waiting))],
        ["in flight".into(), format!("{} in {}", grouped(queue.in_flight), plural(queue.claims, "claim"))],
        ["retries".into(), grouped(queue.retries)],
        ["left behind".into(), if queue.left_behind.is_empty() { "none".into() } else { types(&queue.left_behind) }],
        ["rate".into(), format!("{:.1} events/s", queue.rate)],
        ["settled up to".into(), queue.position.to_string()],
    ]
}
