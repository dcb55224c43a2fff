//! The calls of operators.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use headwater_core::names::check_event_type;
use headwater_core::{AuditReport, DeadLetter, DeadLetterQuery, GroupInfo, OperatorStore, Sequence, SubscriberInfo};

use super::{MemorySubscribers, Result, queue_store, registry};

#[async_trait]
impl OperatorStore for MemorySubscribers {
    async fn subscribers(&self) -> Result<Vec<SubscriberInfo>> {
        let registry = self.registry();
        let log = self.log.state();
        let all = registry.subscribers.iter();
        Ok(all.map(|(subscriber_id, subscriber)| subscriber.info(subscriber_id, &log, self.now())).collect())
    }

    async fn subscriber(&self, subscriber_id: &str) -> Result<SubscriberInfo> {
        let mut registry = self.registry();
        Ok(registry.named(subscriber_id)?.info(subscriber_id, &self.log.state(), self.now()))
    }

    async fn group(&self, subscriber_id: &str) -> Result<GroupInfo> {
        let mut registry = self.registry();
        Ok(registry.named(subscriber_id)?.group(subscriber_id, &self.log.state(), self.now()))
    }

    async fn resize(&self, subscriber_id: &str, partitions: u32) -> Result<()> {
        self.registry().resize(subscriber_id, partitions, self.now())
    }

    async fn set_paused(&self, subscriber_id: &str, paused: bool) -> Result<()> {
        let mut registry = self.registry();
        for partition in &mut registry.named(subscriber_id)?.partitions {
            (partition.paused, partition.pause_reason) = (paused, None);
        }
        Ok(())
    }

    async fn set_event_types(&self, subscriber_id: &str, event_types: &[String]) -> Result<Option<Vec<String>>> {
        event_types.iter().try_for_each(|event_type| check_event_type(event_type))?;
        let mut registry = self.registry();
        let log = self.log.state();
        let subscriber = registry.shared(subscriber_id)?;
        Ok(queue_store::call(subscriber_id, subscriber, &log, self.now()).set_types(event_types))
    }

    async fn reset(&self, subscriber_id: &str, position: u64) -> Result<()> {
        Sequence::try_from(position)?;
        self.registry().reset(subscriber_id, position, &self.log.state(), self.now())
    }

    async fn remove(&self, subscriber_id: &str, force: bool) -> Result<()> {
        self.registry().remove(subscriber_id, force, self.now())
    }

    async fn position_at(&self, time: DateTime<Utc>) -> Result<u64> {
        Ok(registry::position_at(&self.log.state(), time))
    }

    async fn dead_letters(&self, query: &DeadLetterQuery) -> Result<Vec<DeadLetter>> {
        let registry = self.registry();
        let all = registry.subscribers.values().flat_map(|subscriber| subscriber.letters.matching(query));
        Ok(all.take(query.limit as usize).cloned().collect())
    }

    async fn redrive(&self, query: &DeadLetterQuery) -> Result<u64> {
        let mut registry = self.registry();
        query.subscriber_id.as_ref().map(|subscriber_id| registry.named(subscriber_id).map(drop)).transpose()?;
        Ok(registry.subscribers.values_mut().map(|subscriber| subscriber.letters.redrive(query, self.now())).sum())
    }

    async fn discard(&self, query: &DeadLetterQuery, reason: &str) -> Result<u64> {
        let mut registry = self.registry();
        query.subscriber_id.as_ref().map(|subscriber_id| registry.named(subscriber_id).map(drop)).transpose()?;
        let all = registry.subscribers.values_mut();
        Ok(all.map(|subscriber| subscriber.letters.discard(query, reason, self.now())).sum())
    }

    async fn audit(&self, subscriber_ids: &[String]) -> Result<AuditReport> {
        let mut registry = self.registry();
        registry.audit(subscriber_ids, &self.log.state())
    }
}
