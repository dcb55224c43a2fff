//! `headwater groups show`

use clap::Args;
use headwater::Headwater;
use headwater::delivery::{GroupInfo, PartitionInfo, SubscriberInfo};

use super::change::Change;
use super::{Target, view};
use crate::duration::format_age;
use crate::failure::Failure;
use crate::held;
use crate::output::{Output, grouped, plural, printable};

/// Show a group: who owns each partition, how far each is, and what a resize waits for
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater groups show -n shop mailer
  headwater groups show -n shop mailer --json | jq '.partitions[].lag_events'

BEHIND counts sequences of the log, including events of other partitions: the partition has at most
that many events left. The output names who holds the group back, with the statement that ends it.")]
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
            let (info, group) = self.target.look(&self.target.store(headwater).await?).await?;
            Ok((info, group, held::holders(headwater, namespace).await?))
        };
        let (info, group, holders) = held::unless_locked(headwater, look).await?;
        if self.json {
            return output.json(&view::to_json(&info, &group, &holders));
        }
        output.table(&overview(&info, &group))?;
        output.line("")?;
        let heading = ["PARTITION", "OWNER", "TERM", "LEASE", "POSITION", "BEHIND", "GAPS", "STATE"];
        let rows = group.partitions.iter().map(|partition| row(&info, partition));
        output.table(&[heading.map(String::from)].into_iter().chain(rows).collect::<Vec<_>>())?;
        let members = view::instances(&group);
        if !members.is_empty() {
            output.line("")?;
            let heading = ["MEMBER", "PARTITIONS"].map(String::from);
            let rows = members.iter().map(|instance| {
                let by_hand = if group.members.contains(instance) { "" } else { " (by hand)" };
                let its = view::partitions_of(&group, instance);
                let its = if its.is_empty() { "-".into() } else { view::numbers(&its) };
                [printable(&instance.node), format!("{its}{by_hand}")]
            });
            output.table(&[heading].into_iter().chain(rows).collect::<Vec<_>>())?;
        }
        for partition in &group.partitions {
            if let Some(detail) = view::detail(partition) {
                let (number, state) = (partition.partition, view::state(&info, partition));
                output.line(format_args!("\npartition {number} is {state}: {detail}"))?;
            }
        }
        held::print(output, namespace, held::of_subscriber(&holders, subscriber))
    }
}

fn overview(info: &SubscriberInfo, group: &GroupInfo) -> Vec<[String; 2]> {
    let mut rows = vec![
        ["group".into(), printable(&info.subscriber_id)],
        ["partitions".into(), format!("{}, {} owned", group.partitions.len(), view::owned(group))],
        ["members".into(), group.members.len().to_string()],
        ["behind".into(), format!("{}, {}", plural(info.lag_events, "sequence"), format_age(info.lag))],
        ["dead letters".into(), grouped(info.dead_letters)],
    ];
    if info.paused {
        rows.push(["paused".into(), info.pause_reason.as_deref().map_or("yes".into(), printable)]);
    }
    if let Some(change) = Change::of(info, group) {
        rows.push(["change".into(), format!("to {} partitions", change.to)]);
        rows.push(["barrier".into(), change.barrier.map_or("not known yet".into(), |barrier| barrier.to_string())]);
        rows.push(["waits".into(), change.text]);
        rows.extend(change.needs.map(|needs| ["needs".into(), needs.into()]));
    }
    rows
}

fn row(info: &SubscriberInfo, partition: &PartitionInfo) -> [String; 8] {
    [
        partition.partition.to_string(),
        view::owner(partition),
        partition.term.to_string(),
        view::lease(partition),
        partition.position.to_string(),
        grouped(partition.lag_events),
        partition.pending_gaps.len().to_string(),
        view::state(info, partition).into(),
    ]
}
