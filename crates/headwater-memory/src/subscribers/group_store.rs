//! The calls by which nodes take their share of the work.

use std::time::Duration;

use async_trait::async_trait;
use headwater_core::names::{check_event_type, check_subscriber_id};
use headwater_core::{
    Checkpoint, GroupStore, GroupView, Instance, LeaseReply, LeaseRequest, PartitionId, Report, Sequence, StartFrom,
    SubscriberConfig, SubscriberError, SubscriberMode,
};

use super::group::check_partitions;
use super::{MemorySubscribers, Result};

const SHORTEST_LEASE: Duration = Duration::from_millis(1);
const LONGEST_LEASE: Duration = Duration::from_secs(86_400);

fn check_lease(lease: Duration) -> Result<()> {
    match (SHORTEST_LEASE..=LONGEST_LEASE).contains(&lease) {
        true => Ok(()),
        false => Err(SubscriberError::InvalidInput(format!("invalid lease {lease:?}: a lease is 1 ms to 1 day"))),
    }
}

/// Checks the event types that a subscriber takes: only a shared subscriber has them.
fn check_types(config: &SubscriberConfig) -> Result<()> {
    if !config.event_types.is_empty() && config.mode != SubscriberMode::Shared {
        let mode = config.mode.name();
        return Err(SubscriberError::InvalidInput(format!("invalid event_types of a subscriber that is {mode}")));
    }
    Ok(config.event_types.iter().try_for_each(|event_type| check_event_type(event_type))?)
}

#[async_trait]
impl GroupStore for MemorySubscribers {
    async fn register(&self, config: &SubscriberConfig) -> Result<()> {
        check_subscriber_id(&config.subscriber_id)?;
        check_partitions(config.mode.partitions())?;
        check_types(config)?;
        if let StartFrom::After(position) = config.start_from {
            Sequence::try_from(position)?;
        }
        self.registry().register(config, &self.log.state(), self.now())
    }

    async fn keep(&self, instance: &Instance, requests: &[LeaseRequest], lease: Duration) -> Result<Vec<LeaseReply>> {
        check_lease(lease)?;
        let mut registry = self.registry();
        let now = self.now();
        Ok(requests.iter().map(|request| registry.keep(instance, request, lease, now)).collect())
    }

    async fn release(&self, instance: &Instance, partitions: &[PartitionId]) -> Result<()> {
        let mut registry = self.registry();
        partitions.iter().for_each(|id| registry.release(instance, id));
        Ok(())
    }

    async fn join(&self, instance: &Instance, groups: &[String], lease: Duration) -> Result<Vec<GroupView>> {
        check_lease(lease)?;
        let mut registry = self.registry();
        let now = self.now();
        Ok(groups.iter().filter_map(|group| registry.join(instance, group, lease, now)).collect())
    }

    async fn leave(&self, instance: &Instance, groups: &[String]) -> Result<()> {
        let mut registry = self.registry();
        for group in groups {
            if let Some(subscriber) = registry.subscribers.get_mut(group) {
                subscriber.members.remove(&instance.incarnation);
            }
        }
        Ok(())
    }

    async fn position(&self, subscriber_id: &str) -> Result<Checkpoint> {
        Ok(self.registry().named(subscriber_id)?.position())
    }

    async fn attend_queues(&self, _: &Instance, queues: &[(String, f64)], lease: Duration) -> Result<Vec<String>> {
        check_lease(lease)?;
        let registry = self.registry();
        let is_paused = |id: &&String| registry.subscribers.get(*id).is_some_and(|found| found.partitions[0].paused);
        Ok(queues.iter().map(|(subscriber_id, _)| subscriber_id).filter(is_paused).cloned().collect())
    }

    async fn attend_alone(&self, subscribers: &[(String, Report)], _: Duration) -> Result<()> {
        let mut registry = self.registry();
        for (subscriber_id, report) in subscribers {
            if let Some(subscriber) = registry.subscribers.get_mut(subscriber_id) {
                subscriber.partitions[0].attend_alone(report);
            }
        }
        Ok(())
    }
}
