//! `headwater subscribers show`

use clap::Args;
use headwater::{Headwater, SubscriberStore};

use super::{Target, view};
use crate::duration::format_age;
use crate::failure::Failure;
use crate::held;
use crate::output::{Output, grouped, plural, printable};

/// Show a subscriber: who has it, what it does and what holds it, how far it is
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater subscribers show -n shop mailer
  headwater subscribers show -n shop mailer --json | jq .position

BEHIND counts sequences: at most so many events. The state is what the owner last
reported; no_owner: no process has the subscriber (one with --single-instance never does).
Of a partitioned subscriber, the partition that is furthest behind stands for all: see
`headwater groups show`. Whoever holds it back is named, with the statement that ends it.")]
pub(crate) struct Show {
    #[command(flatten)]
    target: Target,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

impl Show {
    pub(super) async fn run(self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        let Target { namespace, subscriber } = &self.target;
        let look = async {
            let info = self.target.store(headwater).await?.subscriber(subscriber).await?;
            let losses = headwater.losses(namespace, Some(subscriber)).await?;
            Ok((info, losses, held::holders(headwater, namespace).await?))
        };
        let (info, losses, holders) = held::unless_locked(headwater, look).await?;
        if self.json {
            let mut json = view::to_json(&info, &holders);
            json["trimmed"] = serde_json::json!(losses);
            return output.json(&json);
        }
        let gaps = match info.pending_gaps.len() {
            0 => "none".into(),
            _ => view::gaps(&info),
        };
        let mut rows = vec![["subscriber".into(), printable(&info.subscriber_id)], ["mode".into(), view::mode(&info)]];
        rows.push(["state".into(), view::state(&info).into()]);
        rows.extend(view::detail(&info).map(|detail| ["detail".into(), detail]));
        rows.extend([
            ["owner".into(), view::owner(&info)],
            ["term".into(), info.term.to_string()],
            ["lease left".into(), view::lease(&info)],
            ["position".into(), info.position.to_string()],
            ["behind".into(), format!("{}, {}", plural(info.lag_events, "sequence"), format_age(info.lag))],
            ["rate".into(), format!("{:.1} events/s", view::rate(&info))],
            ["pending gaps".into(), gaps],
            ["dead letters".into(), grouped(info.dead_letters)],
            ["last event".into(), info.last_event_id.map_or("-".into(), |id| id.to_string())],
            ["created".into(), info.created_at.format("%F %T UTC").to_string()],
            ["moved".into(), info.updated_at.format("%F %T UTC").to_string()],
        ]);
        rows.extend(losses.iter().map(|loss| {
            let (first, last) = (loss.first_sequence, loss.last_sequence);
            let (events, at) = (plural(loss.events, "event"), loss.lost_at.format("%F %T UTC"));
            ["trimmed".into(), format!("{first} to {last} before it was handled: at most {events}, {at}")]
        }));
        output.table(&rows)?;
        held::print(output, namespace, held::of_subscriber(&holders, subscriber))
    }
}
