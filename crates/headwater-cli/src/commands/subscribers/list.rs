//! `headwater subscribers list`

use clap::Args;
use headwater::{Headwater, SubscriberInfo, SubscriberStore};

use super::view;
use crate::duration::format_age;
use crate::failure::Failure;
use crate::held;
use crate::output::{Output, grouped, printable};

/// List the subscribers of a namespace: who has them, what they do, how far they are
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater subscribers list -n shop
  headwater subscribers list -n shop --json | jq -r 'select(.lag_seconds > 60) | .subscriber_id'

Of a partitioned subscriber, the partition that is furthest behind stands for all: see
`headwater groups show`. Whoever holds them back is named, with the statement that ends it.")]
pub(crate) struct List {
    /// The namespace
    #[arg(short, long, value_name = "NAME")]
    namespace: String,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

impl List {
    pub(super) async fn run(self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        let look = async {
            let all = headwater.namespace(&self.namespace).await?.subscribers().subscribers().await?;
            Ok((all, held::holders(headwater, &self.namespace).await?))
        };
        let (all, holders) = held::unless_locked(headwater, look).await?;
        if self.json {
            return all.iter().try_for_each(|info| output.json(&view::to_json(info, &holders)));
        }
        let heading = [
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
        let rows = all.iter().map(row);
        output.table(&[heading.map(String::from)].into_iter().chain(rows).collect::<Vec<_>>())?;
        for info in &all {
            if let Some(detail) = view::detail(info) {
                let id = printable(&info.subscriber_id);
                output.line(format_args!("\n{id} is {}: {detail}", view::state(info)))?;
            }
        }
        held::print(output, &self.namespace, &holders)
    }
}

fn row(info: &SubscriberInfo) -> [String; 12] {
    [
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
