//! The options of processes that share a subscriber, as a group or as a queue.

use std::time::Duration;

use clap::Args;
use headwater::delivery::{
    GroupInfo, OperatorStore, Partitions, PgSubscribers, SubscriberError, SubscriberInfo, SubscriberMode,
};
use headwater::{Namespace, Queue, Subscription};

use crate::duration::parse_short;
use crate::failure::Failure;
use crate::logging::CONSUME;
use crate::output::printable;

const SHARING: &str = "Sharing among processes";

#[derive(Debug, Args)]
pub(super) struct GroupArgs {
    /// Divide the events by key into N partitions, and share the partitions among the processes. An
    /// existing group keeps its number of partitions
    #[arg(long, value_name = "N", conflicts_with = "single_instance", help_heading = SHARING)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1024))]
    partitions: Option<u32>,
    /// Own only this partition, and take no share of the others: assigns partitions by hand. The
    /// first partition is 0; may be repeated
    #[arg(long = "partition-id", value_name = "I", requires = "partitions", help_heading = SHARING)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=1023))]
    partition_ids: Vec<u32>,
    /// Work as a queue: each event goes to one of the processes, in no particular order. The
    /// process claims it for --visibility at a time
    #[arg(long, conflicts_with_all = ["partitions", "single_instance", "stream_prefix", "lease"], help_heading = SHARING)]
    shared: bool,
    /// How long an event stays claimed by a process that no longer renews its claim [default: 30s]
    #[arg(long, value_name = "DURATION", value_parser = parse_short, requires = "shared", help_heading = SHARING)]
    visibility: Option<Duration>,
    /// How many events a process claims ahead of the events that it handles [default: what it
    /// handles in 100 ms]
    #[arg(long, value_name = "N", requires = "shared", help_heading = SHARING)]
    prefetch: Option<u32>,
    /// Handle events of this type before all other waiting events; may be repeated
    #[arg(long, value_name = "TYPE", requires = "shared", help_heading = SHARING)]
    priority: Vec<String>,
}

impl GroupArgs {
    pub(super) fn is_group(&self) -> bool {
        self.partitions.is_some()
    }

    /// The partitions that are assigned by hand. Empty if the processes share them.
    pub(super) fn assigned(&self) -> &[u32] {
        &self.partition_ids
    }

    pub(super) fn is_shared(&self) -> bool {
        self.shared
    }

    /// Sets the partitions of a subscription.
    pub(super) fn share<H>(&self, subscription: Subscription<H>) -> Subscription<H> {
        let Some(count) = self.partitions else { return subscription };
        let partitions = Partitions::of(count);
        subscription.partitions(match &self.partition_ids[..] {
            [] => partitions,
            assigned => partitions.only(assigned.iter().copied()),
        })
    }

    /// Sets how the events of a queue are claimed.
    pub(super) fn claim<H>(&self, mut queue: Queue<H>) -> Queue<H> {
        if let Some(visibility) = self.visibility {
            queue = queue.visibility(visibility);
        }
        if let Some(prefetch) = self.prefetch {
            queue = queue.prefetch(prefetch);
        }
        if self.priority.is_empty() { queue } else { queue.priority(&self.priority) }
    }

    /// Compares these options with the existing subscriber, before anything starts.
    pub(super) async fn check(&self, namespace: &Namespace, subscriber_id: &str) -> Result<(), Failure> {
        let store = namespace.subscribers();
        let there = match store.subscriber(subscriber_id).await {
            Ok(there) => there,
            Err(SubscriberError::NotFound(_)) => return self.check_ids(self.partitions.unwrap_or(1)),
            Err(error) => return Err(error.into()),
        };
        match (self.partitions, there.mode) {
            (_, SubscriberMode::Shared) if self.shared => Ok(()),
            (_, SubscriberMode::Shared) => Err(of_another_mode(&there, "exclusive")
                .help("it is a queue: consume it with --shared, or choose another --subscriber")),
            (_, _) if self.shared => Err(of_another_mode(&there, "shared")
                .help("consume it without --shared, choose another --subscriber, or remove it with `headwater subscribers remove`")),
            (None, SubscriberMode::Partitioned { partitions }) => Err(of_another_mode(&there, "exclusive")
                .help(format!("it is a group: consume it with --partitions {partitions}, or choose another --subscriber"))),
            (Some(asked), SubscriberMode::Partitioned { partitions }) => self.check_group(&store, &there, asked, partitions).await,
            (Some(_), _) => Err(of_another_mode(&there, "partitioned").help(
                "consume it without --partitions, choose another --subscriber, or remove it with `headwater subscribers remove`",
            )),
            (None, _) => Ok(()),
        }
    }

    async fn check_group(
        &self,
        store: &PgSubscribers,
        there: &SubscriberInfo,
        asked: u32,
        partitions: u32,
    ) -> Result<(), Failure> {
        let GroupInfo { resize_to, members, .. } = store.group(&there.subscriber_id).await?;
        let changing = resize_to.map(|to| format!(" and is being changed to {to}")).unwrap_or_default();
        if asked != partitions && resize_to != Some(asked) {
            tracing::info!(
                target: CONSUME,
                "the group has {partitions} partitions{changing}, not {asked}: --partitions is for new groups, \
                 `headwater groups resize` changes it"
            );
        }
        if !self.partition_ids.is_empty() && !members.is_empty() {
            let nodes: Vec<_> = members.iter().map(|member| printable(&member.node)).collect();
            tracing::warn!(
                target: CONSUME,
                "other processes take shares of this group's partitions, without --partition-id: {}",
                nodes.join(", ")
            );
        }
        self.check_ids(partitions.max(resize_to.unwrap_or(0)))
    }

    fn check_ids(&self, partitions: u32) -> Result<(), Failure> {
        match self.partition_ids.iter().find(|id| **id >= partitions) {
            None => Ok(()),
            Some(beyond) => {
                Err(Failure::invalid(format!("invalid --partition-id {beyond}: the group has {partitions} partitions"))
                    .help(format!("it is 0 to {}", partitions - 1)))
            }
        }
    }
}

fn of_another_mode(there: &SubscriberInfo, wanted: &str) -> Failure {
    let (id, mode) = (&there.subscriber_id, there.mode.name());
    SubscriberError::InUse(format!("subscriber {id:?} is {mode}, not {wanted}")).into()
}
