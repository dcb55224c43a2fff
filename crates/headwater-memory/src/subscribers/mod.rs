//! Subscribers in memory: the store as users hold it, a lock and a clock around the model.

mod audit;
mod dead_letters;
mod registry;
mod subscriber;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, SubsecRound, Utc};
use headwater_core::names::check_subscriber_id;
use headwater_core::{
    Advance, Ask, Attempt, AuditReport, DeadLetter, DeadLetterQuery, Fence, Gap, GapState, GroupInfo, GroupView, Held,
    History, Instance, LastTurn, Loaded, PartitionId, ReadError, Sequence, StartFrom, SubscriberConfig,
    SubscriberError, SubscriberInfo, SubscriberMode, SubscriberStore,
};
use tokio::time::Instant;
use uuid::Uuid;

use self::registry::Registry;
use crate::MemoryLog;

type Result<T> = std::result::Result<T, SubscriberError>;

const LONGEST_LEASE: Duration = Duration::from_secs(86_400);

/// The subscribers of a log in memory. Clones share them.
///
/// ```
/// use headwater_core::{Event, EventLog, StartFrom, SubscriberConfig, SubscriberMode, SubscriberStore};
/// use headwater_memory::{MemoryLog, MemorySubscribers};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let log = MemoryLog::new("orders");
/// let subscribers = MemorySubscribers::new(log.clone());
/// log.append(Event::raw("OrderPlaced", serde_json::json!({})).into()).await?;
/// let config = SubscriberConfig { subscriber_id: "totals".into(), start_from: StartFrom::Beginning, mode: SubscriberMode::Exclusive };
/// subscribers.register(&config).await?;
/// assert_eq!(subscribers.subscriber("totals").await?.lag_events, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct MemorySubscribers {
    log: MemoryLog,
    registry: Arc<Mutex<Registry>>,
}

impl MemorySubscribers {
    /// No subscribers yet.
    pub fn new(log: MemoryLog) -> Self {
        MemorySubscribers { log, registry: Arc::default() }
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().expect("the model does not panic")
    }
}

fn no_groups(subscriber_id: &str) -> SubscriberError {
    SubscriberError::InvalidInput(format!(
        "subscriber {subscriber_id:?} cannot be shared out: subscribers in memory are exclusive, groups need PostgreSQL"
    ))
}

/// There is one history.
fn check_history(history: Option<History>) -> Result<()> {
    match history {
        Some(other) if other != History::default() => {
            let message = "subscribers in memory have one history, and this is another".into();
            Err(SubscriberError::Read(ReadError::OtherHistory(message)))
        }
        _ => Ok(()),
    }
}

/// The present, in microseconds as PostgreSQL has it.
fn now() -> DateTime<Utc> {
    Utc::now().trunc_subsecs(6)
}

#[async_trait]
impl SubscriberStore for MemorySubscribers {
    async fn register(&self, config: &SubscriberConfig) -> Result<()> {
        check_subscriber_id(&config.subscriber_id)?;
        if config.mode != SubscriberMode::Exclusive {
            return Err(no_groups(&config.subscriber_id));
        }
        if let StartFrom::After(position) = config.start_from {
            Sequence::try_from(position)?;
        }
        let mut registry = self.registry();
        registry.register(config, &self.log.state(), now());
        Ok(())
    }

    async fn keep(&self, instance: &Instance, asks: &[Ask], lease: Duration) -> Result<Vec<Held>> {
        if !(Duration::from_millis(1)..=LONGEST_LEASE).contains(&lease) {
            return Err(SubscriberError::InvalidInput(format!("invalid lease {lease:?}: a lease is 1 ms to 1 day")));
        }
        let mut registry = self.registry();
        let now = Instant::now();
        Ok(asks.iter().map(|ask| registry.keep(instance, ask, lease, now)).collect())
    }

    async fn release(&self, instance: &Instance, partitions: &[PartitionId]) -> Result<()> {
        let mut registry = self.registry();
        partitions.iter().for_each(|id| registry.release(instance, &id.subscriber_id));
        Ok(())
    }

    async fn join(&self, _: &Instance, groups: &[String], _: Duration) -> Result<Vec<GroupView>> {
        groups.first().map_or(Ok(Vec::new()), |group| Err(no_groups(group)))
    }

    async fn leave(&self, _: &Instance, _: &[String]) -> Result<()> {
        Ok(())
    }

    async fn resize(&self, subscriber_id: &str, _: u32) -> Result<()> {
        self.registry().named(subscriber_id)?;
        Err(no_groups(subscriber_id))
    }

    async fn group(&self, subscriber_id: &str) -> Result<GroupInfo> {
        self.registry().named(subscriber_id)?;
        Err(no_groups(subscriber_id))
    }

    async fn load(&self, fence: &Fence) -> Result<Loaded> {
        Ok(self.registry().owned(fence)?.loaded())
    }

    async fn begin_turn(&self, fence: &Fence, lives: bool) -> Result<LastTurn> {
        Ok(self.registry().owned(fence)?.begin_turn(lives))
    }

    async fn begin_event(&self, fence: &Fence, event_id: Uuid) -> Result<u32> {
        Ok(self.registry().owned(fence)?.begin_event(event_id))
    }

    async fn end_turn(&self, fence: &Fence) -> Result<()> {
        self.registry().owned(fence)?.turn = None;
        Ok(())
    }

    async fn advance(&self, fence: &Fence, advance: &Advance) -> Result<()> {
        Sequence::try_from(advance.position)?;
        let mut registry = self.registry();
        let subscriber = registry.owned(fence)?;
        if subscriber.advance(advance, now()) {
            if fence.term.is_some() {
                subscriber.renew_lease(Instant::now());
            }
            Ok(())
        } else {
            Err(SubscriberError::Fenced(fence.subscriber_id.clone()))
        }
    }

    async fn bury(&self, fence: &Fence, letters: &[DeadLetter]) -> Result<()> {
        let mut registry = self.registry();
        let subscriber = registry.owned(fence)?;
        let term = subscriber.term;
        letters.iter().for_each(|letter| subscriber.letters.bury(&fence.subscriber_id, letter, term, now()));
        Ok(())
    }

    async fn redrives(&self, fence: &Fence, limit: u32) -> Result<Vec<DeadLetter>> {
        let mut registry = self.registry();
        let letters = &registry.owned(fence)?.letters;
        Ok(letters.redrives().take(limit as usize).cloned().collect())
    }

    async fn redriven(&self, fence: &Fence, global_sequence: u64, failure: Option<Attempt>) -> Result<()> {
        let mut registry = self.registry();
        let subscriber = registry.owned(fence)?;
        subscriber.letters.redriven(global_sequence, failure, subscriber.term, now());
        Ok(())
    }

    async fn is_parked(&self, fence: &Fence, order_key: &str) -> Result<bool> {
        Ok(self.registry().owned(fence)?.letters.is_parked(order_key))
    }

    async fn pause_self(&self, fence: &Fence, reason: &str) -> Result<()> {
        self.registry().owned(fence)?.pause(reason);
        Ok(())
    }

    async fn record_gaps(&self, history: Option<History>, gaps: &[Gap]) -> Result<()> {
        check_history(history)?;
        let mut registry = self.registry();
        let permanent = gaps.iter().filter(|gap| gap.state == GapState::Permanent);
        permanent.for_each(|gap| registry.permanent_gaps.insert(gap.first, gap.last));
        Ok(())
    }

    async fn subscribers(&self) -> Result<Vec<SubscriberInfo>> {
        let registry = self.registry();
        let log = self.log.state();
        let all = registry.subscribers.iter();
        Ok(all.map(|(subscriber_id, subscriber)| subscriber.info(subscriber_id, &log, now())).collect())
    }

    async fn subscriber(&self, subscriber_id: &str) -> Result<SubscriberInfo> {
        let mut registry = self.registry();
        Ok(registry.named(subscriber_id)?.info(subscriber_id, &self.log.state(), now()))
    }

    async fn position(&self, subscriber_id: &str) -> Result<Loaded> {
        Ok(self.registry().named(subscriber_id)?.checkpoint())
    }

    async fn set_paused(&self, subscriber_id: &str, paused: bool) -> Result<()> {
        let mut registry = self.registry();
        let subscriber = registry.named(subscriber_id)?;
        (subscriber.paused, subscriber.pause_reason) = (paused, None);
        Ok(())
    }

    async fn reset(&self, subscriber_id: &str, position: u64) -> Result<()> {
        Sequence::try_from(position)?;
        self.registry().reset(subscriber_id, position, &self.log.state(), now())
    }

    async fn remove(&self, subscriber_id: &str, force: bool) -> Result<()> {
        self.registry().remove(subscriber_id, force)
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
        Ok(registry.subscribers.values_mut().map(|subscriber| subscriber.letters.redrive(query, now())).sum())
    }

    async fn discard(&self, query: &DeadLetterQuery, reason: &str) -> Result<u64> {
        let mut registry = self.registry();
        query.subscriber_id.as_ref().map(|subscriber_id| registry.named(subscriber_id).map(drop)).transpose()?;
        Ok(registry.subscribers.values_mut().map(|subscriber| subscriber.letters.discard(query, reason, now())).sum())
    }

    async fn audit(&self, subscriber_ids: &[String]) -> Result<AuditReport> {
        let mut registry = self.registry();
        registry.audit(subscriber_ids, &self.log.state())
    }
}

#[cfg(test)]
mod tests {
    use headwater_core::StartFrom;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_move_renews_for_the_length_of_the_lease() {
        let store = MemorySubscribers::new(MemoryLog::new("orders"));
        let start_from = StartFrom::Beginning;
        store
            .register(&SubscriberConfig { subscriber_id: "totals".into(), start_from, mode: SubscriberMode::default() })
            .await
            .unwrap();
        let ask =
            [Ask { subscriber_id: "totals".into(), partition: 0, share: None, term: None, report: Default::default() }];
        let lease = Duration::from_secs(10);
        let term = store.keep(&Instance::new("a"), &ask, lease).await.unwrap()[0].term;
        let left = async || store.subscriber("totals").await.unwrap().lease_left;
        let second = Duration::from_secs(1);
        for (position, term, expected) in [(1, term, lease), (2, None, lease - second), (3, term, lease)] {
            tokio::time::advance(second).await;
            let fence = Fence { subscriber_id: "totals".into(), partition: 0, term, history: None };
            store.advance(&fence, &Advance { position, ..Advance::default() }).await.unwrap();
            assert_eq!(left().await, Some(expected));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_ends_by_tokios_clock() {
        let store = MemorySubscribers::new(MemoryLog::new("orders"));
        let start_from = StartFrom::Beginning;
        store
            .register(&SubscriberConfig { subscriber_id: "totals".into(), start_from, mode: SubscriberMode::default() })
            .await
            .unwrap();
        let ask =
            [Ask { subscriber_id: "totals".into(), partition: 0, share: None, term: None, report: Default::default() }];
        let (first, second) = (Instance::new("a"), Instance::new("b"));
        let lease = Duration::from_secs(10);
        assert_eq!(store.keep(&first, &ask, lease).await.unwrap()[0].term, Some(2));
        tokio::time::advance(lease - Duration::from_millis(1)).await;
        assert_eq!(store.clone().keep(&second, &ask, lease).await.unwrap()[0].term, None);
        assert_eq!(store.subscriber("totals").await.unwrap().lease_left, Some(Duration::from_millis(1)));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(store.subscriber("totals").await.unwrap().lease_left, None);
        assert_eq!(store.keep(&second, &ask, lease).await.unwrap()[0].term, Some(3));
    }
}
