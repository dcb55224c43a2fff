//! The writes of partition owners.

use async_trait::async_trait;
use headwater_core::{
    Advance, Attempt, Checkpoint, DeadLetter, Fence, Gap, GapState, History, LastTurn, ProgressStore, Sequence,
    SubscriberError,
};
use uuid::Uuid;

use super::{MemorySubscribers, Result, check_history};

#[async_trait]
impl ProgressStore for MemorySubscribers {
    async fn load(&self, fence: &Fence) -> Result<Checkpoint> {
        let mut registry = self.registry();
        let (subscriber, partition) = registry.owned(fence)?;
        Ok(subscriber.loaded(partition))
    }

    async fn begin_turn(&self, fence: &Fence, still_running: bool) -> Result<LastTurn> {
        let mut registry = self.registry();
        let (subscriber, partition) = registry.owned(fence)?;
        Ok(subscriber.partitions[partition].begin_turn(still_running))
    }

    async fn begin_event(&self, fence: &Fence, event_id: Uuid) -> Result<u32> {
        let mut registry = self.registry();
        let (subscriber, partition) = registry.owned(fence)?;
        Ok(subscriber.partitions[partition].begin_event(event_id))
    }

    async fn end_turn(&self, fence: &Fence) -> Result<()> {
        let mut registry = self.registry();
        let (subscriber, partition) = registry.owned(fence)?;
        subscriber.partitions[partition].turn = None;
        Ok(())
    }

    async fn advance(&self, fence: &Fence, advance: &Advance) -> Result<()> {
        Sequence::try_from(advance.position)?;
        let mut registry = self.registry();
        let (subscriber, partition) = registry.owned(fence)?;
        let barrier = subscriber.barrier();
        let partition = &mut subscriber.partitions[partition];
        if barrier.is_some_and(|barrier| advance.position > barrier) || !partition.advance(advance, self.now()) {
            return Err(SubscriberError::Fenced(fence.subscriber_id.clone()));
        }
        if fence.term.is_some() {
            partition.renew_lease(self.now());
        }
        Ok(())
    }

    async fn bury(&self, fence: &Fence, letters: &[DeadLetter]) -> Result<()> {
        let mut registry = self.registry();
        let (subscriber, partition) = registry.owned(fence)?;
        let term = subscriber.partitions[partition].term;
        letters.iter().for_each(|letter| subscriber.letters.bury(&fence.subscriber_id, letter, term, self.now()));
        Ok(())
    }

    async fn redrives(&self, fence: &Fence, limit: u32) -> Result<Vec<DeadLetter>> {
        let mut registry = self.registry();
        let (subscriber, partition) = registry.owned(fence)?;
        Ok(subscriber.redrives(partition).take(limit as usize).cloned().collect())
    }

    async fn redriven(&self, fence: &Fence, global_sequence: u64, failure: Option<Attempt>) -> Result<()> {
        let mut registry = self.registry();
        let (subscriber, partition) = registry.owned(fence)?;
        let term = subscriber.partitions[partition].term;
        subscriber.letters.redriven(global_sequence, failure, term, self.now());
        Ok(())
    }

    async fn is_parked(&self, fence: &Fence, order_key: &str) -> Result<bool> {
        let mut registry = self.registry();
        let (subscriber, _) = registry.owned(fence)?;
        Ok(subscriber.letters.is_parked(order_key))
    }

    async fn pause_self(&self, fence: &Fence, reason: &str) -> Result<()> {
        let mut registry = self.registry();
        let (subscriber, partition) = registry.owned(fence)?;
        subscriber.partitions[partition].pause(reason);
        Ok(())
    }

    async fn record_gaps(&self, history: Option<History>, gaps: &[Gap]) -> Result<()> {
        check_history(history)?;
        let mut registry = self.registry();
        let permanent = gaps.iter().filter(|gap| gap.state == GapState::Permanent);
        permanent.for_each(|gap| registry.permanent_gaps.insert(gap.first, gap.last));
        Ok(())
    }
}
