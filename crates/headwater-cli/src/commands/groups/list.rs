//! `headwater groups list`

use clap::Args;
use headwater::{GroupInfo, Headwater, Holder, SubscriberError, SubscriberInfo, SubscriberMode, SubscriberStore};

use super::view;
use crate::duration::format_age;
use crate::failure::Failure;
use crate::held;
use crate::output::{Output, grouped, printable};

/// List the groups of a namespace: how many share how many partitions, how far they are
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater groups list -n shop
  headwater groups list -n shop --json | jq -r 'select(.owned < .partitions) | .subscriber_id'

BEHIND and FOR are those of the partition that is furthest behind.")]
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
        let (groups, holders) = held::unless_locked(headwater, self.look(headwater)).await?;
        if self.json {
            return groups.iter().try_for_each(|(info, group)| output.json(&view::summary(info, group, &holders)));
        }
        let heading = ["GROUP", "MEMBERS", "PARTITIONS", "OWNED", "POSITION", "BEHIND", "FOR", "CHANGE"];
        let rows = groups.iter().map(row);
        output.table(&[heading.map(String::from)].into_iter().chain(rows).collect::<Vec<_>>())?;
        let any = |holder: &&Holder| groups.iter().any(|(info, _)| holder.concerns(&info.subscriber_id));
        held::print(output, &self.namespace, holders.iter().filter(any))
    }

    async fn look(&self, headwater: &Headwater) -> Result<(Vec<(SubscriberInfo, GroupInfo)>, Vec<Holder>), Failure> {
        let store = headwater.namespace(&self.namespace).await?.subscribers();
        let mut groups = Vec::new();
        for info in store.subscribers().await? {
            if !matches!(info.mode, SubscriberMode::Partitioned { .. }) {
                continue;
            }
            match store.group(&info.subscriber_id).await {
                Ok(group) => groups.push((info, group)),
                // It was removed meanwhile.
                Err(SubscriberError::NotFound(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok((groups, held::holders(headwater, &self.namespace).await?))
    }
}

fn row((info, group): &(SubscriberInfo, GroupInfo)) -> [String; 8] {
    [
        printable(&info.subscriber_id),
        group.members.len().to_string(),
        group.partitions.len().to_string(),
        view::owned(group).to_string(),
        info.position.to_string(),
        grouped(info.lag_events),
        format_age(info.lag),
        group.resize_to.map_or("-".into(), |to| format!("to {to} partitions")),
    ]
}
