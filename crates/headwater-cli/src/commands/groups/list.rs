//! `headwater groups list`

use clap::Args;
use headwater::Headwater;
use headwater::delivery::{GroupInfo, GroupSummary, OperatorStore, SubscriberError, SubscriberInfo, SubscriberMode};

use super::view;
use crate::duration::format_age;
use crate::failure::Failure;
use crate::held::{self, Holders};
use crate::output::{Output, grouped, printable};

/// List groups of one namespace or of all: their members, their partitions, and how far they are
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater groups list
  headwater groups list -n shop --json | jq -r 'select(.owned < .partitions) | .subscriber_id'

BEHIND and FOR describe the partition that is furthest behind.")]
pub(crate) struct List {
    /// The namespace [default: all]
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

impl List {
    pub(super) async fn run(self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        let (groups, holders) = held::unless_locked(headwater, self.look(headwater)).await?;
        if self.json {
            return groups
                .iter()
                .try_for_each(|group| output.json(&view::summary(group, holders.of(&group.namespace))));
        }
        let heading = ["NAMESPACE", "GROUP", "MEMBERS", "PARTITIONS", "OWNED", "POSITION", "BEHIND", "FOR", "CHANGE"];
        let rows = groups.iter().map(row);
        output.table(&[heading.map(String::from)].into_iter().chain(rows).collect::<Vec<_>>())?;
        holders.print(output, |namespace, holder| {
            groups.iter().any(|group| group.namespace == namespace && holder.concerns(&group.subscriber_id))
        })
    }

    async fn look(&self, headwater: &Headwater) -> Result<(Vec<GroupSummary>, Holders), Failure> {
        let groups = match &self.namespace {
            Some(name) => groups_of(headwater, name).await?,
            None => headwater.admin().groups().await?,
        };
        Ok((groups, held::look(headwater, self.namespace.as_deref()).await?))
    }
}

async fn groups_of(headwater: &Headwater, namespace: &str) -> Result<Vec<GroupSummary>, Failure> {
    let store = headwater.namespace(namespace).await?.subscribers();
    let mut groups = Vec::new();
    for info in store.subscribers().await? {
        if !matches!(info.mode, SubscriberMode::Partitioned { .. }) {
            continue;
        }
        match store.group(&info.subscriber_id).await {
            Ok(group) => groups.push(summary(namespace, info, &group)),
            // The subscriber was removed in the meantime.
            Err(SubscriberError::NotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(groups)
}

fn summary(namespace: &str, info: SubscriberInfo, group: &GroupInfo) -> GroupSummary {
    GroupSummary {
        namespace: namespace.to_owned(),
        subscriber_id: info.subscriber_id,
        members: group.members.len() as u64,
        partitions: group.partitions.len() as u64,
        owned: view::owned(group) as u64,
        paused: info.paused,
        position: info.position,
        lag_events: info.lag_events,
        lag: info.lag,
        dead_letters: info.dead_letters,
        resize_to: group.resize_to,
        barrier: group.barrier,
    }
}

fn row(group: &GroupSummary) -> [String; 9] {
    [
        group.namespace.clone(),
        printable(&group.subscriber_id),
        group.members.to_string(),
        group.partitions.to_string(),
        group.owned.to_string(),
        group.position.to_string(),
        grouped(group.lag_events),
        format_age(group.lag),
        group.resize_to.map_or("-".into(), |to| format!("to {to} partitions")),
    ]
}
