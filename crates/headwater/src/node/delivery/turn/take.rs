//! Takes segments of the log through the gate.

use std::sync::Arc;

use headwater_core::{
    Admitted, Hold, LONG_SPAN, RecordedEvent, RunnerState, Segment, SubscriberError, order_key, partition_of,
};
use tokio::time::Instant;

use super::Turn;
use crate::node::delivery::handler::{TransactionScope, Work};
use crate::node::delivery::runner::Stop;
use crate::node::delivery::shared_segments::{SegmentKey, SharedSegment, Walked};
use crate::node::reading::pages::PAGE_SIZE;
use crate::node::reading::tail::FAR_BEHIND;

/// The most segments that are taken while the events of others are in flight, in batches.
const WINDOW: usize = 10;
/// The most bytes of events in flight. Beyond that, no events are taken.
const WINDOW_BYTES: usize = 32 * 1024 * 1024;
/// A subscriber that is further behind is catching up.
const LIVE_WITHIN: u64 = 1_000;

/// What a turn takes next.
enum Next {
    Segment(Segment),
    /// A segment that other partitions on this node take as well.
    Shared(Arc<SharedSegment>),
}

impl Turn {
    /// Whether there is room for the events of another segment.
    pub(super) fn has_room(&self) -> bool {
        if self.bundling.by.is_some() {
            return self.bundling.has_room();
        }
        let batch = self.owner.plan().config.catch_up_batch_size as usize;
        self.checkpoints.progress.under_way() <= WINDOW * batch && self.keyed.bytes <= WINDOW_BYTES
    }

    /// The events of a segment. For bundles, more events are read than go into a batch, to see
    /// where their transactions end.
    pub(super) fn segment_size(&self) -> usize {
        let batch = self.owner.plan().config.catch_up_batch_size as usize;
        match self.cursor.partitions as usize {
            _ if self.bundling.by.is_some() => batch + LONG_SPAN as usize,
            0 | 1 => batch,
            partitions => (batch * partitions).clamp(batch, batch.max(PAGE_SIZE as usize)),
        }
    }

    /// Takes the next segment through the gate to the handler.
    pub(super) async fn take(&mut self) -> Result<Option<Hold>, Stop> {
        if self.pass_types().await? {
            return Ok(None);
        }
        let segment = match self.next_run().await? {
            Next::Shared(run) => return self.take_shared(&run).await,
            Next::Segment(segment) => segment,
        };
        let now = Instant::now().into_std();
        let progress = &mut self.checkpoints.progress;
        let (admitted, hold) = self.cursor.gate.admit(&segment, progress.ledger(), now);
        admitted.iter().for_each(|event| progress.admit(event));
        if !admitted.is_empty() {
            self.note_taken();
        }
        self.late.begin_if(self.checkpoints.progress.has_passed());
        // Earlier events of the same streams may have come late, in a passed gap: they go first.
        if self.bundling.by.is_some() {
            if !admitted.is_empty() {
                self.deliver_late(u64::MAX).await?;
            }
            self.gather(admitted, &segment);
            self.bundling.waiting.note_end(&segment, self.cursor.gate.position(), hold.is_some());
        } else {
            self.handle_in_order(admitted).await?;
        }
        if hold.is_none() {
            self.checkpoints.reach(self.cursor.gate.position());
        }
        Ok(hold)
    }

    /// Returns the next segment. Partitions share it, if it is complete for ever.
    async fn next_run(&mut self) -> Result<Next, Stop> {
        let (generation, after) = (self.cursor.generation, self.cursor.gate.position());
        let (limit, partitions) = (self.segment_size(), self.cursor.partitions);
        let owner = &self.owner;
        let tail = &owner.runner.tail;
        let shares = partitions > 1 && self.bundling.by.is_none() && self.cursor.barrier.is_none();
        let (key, shared) = (SegmentKey { generation, after, limit, partitions }, &owner.plan().hashes.shared);
        if let Some(run) = shared.get(key).filter(|_| shares) {
            tail.want(after);
            return Ok(Next::Shared(run));
        }
        let segment = tail.segment(after, limit).await;
        let mut segment = segment.map_err(|error| Stop::from(SubscriberError::Read(error)))?;
        if shares && segment.settled >= segment.seen && !segment.events.is_empty() {
            let run = Arc::new(SharedSegment::new(key, segment));
            // If the generation has changed, the run may belong to a history that the turn does not
            // know.
            if tail.generation() == generation {
                shared.keep(&run);
            }
            return Ok(Next::Shared(run));
        }
        if let Some(barrier) = self.cursor.barrier {
            segment.end_at(barrier);
        }
        Ok(Next::Segment(segment))
    }

    /// Takes a settled run that partitions share: it touches only the partition's own events.
    async fn take_shared(&mut self, run: &SharedSegment) -> Result<Option<Hold>, Stop> {
        let Some(part) = self.cursor.gate.admit_settled(&run.segment) else { return Ok(None) };
        let (progress, mut own) = (&mut self.checkpoints.progress, Vec::new());
        let taken = !part.is_empty();
        run.walk(self.owner.runner.partition, part, |walked| match walked {
            Walked::Own(event) => {
                let admitted = Admitted { event: event.clone(), passed: None };
                progress.admit(&admitted);
                own.push(admitted.event);
            }
            Walked::Others(others) => progress.skip(others.events, others.sequence_sum, others.last),
        });
        if taken {
            self.note_taken();
        }
        if let Some(first) = own.first().map(|event| event.sequence().get()) {
            self.deliver_late(first).await?;
            self.handle_own(own).await?;
        }
        self.checkpoints.reach(self.cursor.gate.position());
        Ok(None)
    }

    fn note_taken(&self) {
        let state = if self.is_live() { RunnerState::Live } else { RunnerState::CatchingUp };
        self.owner.runner.status.set(state, None);
    }

    /// Passes events of types that the subscriber did not ask for, if it is far behind and the log
    /// has an index by type. These events are counted, and not read.
    async fn pass_types(&mut self) -> Result<bool, Stop> {
        let position = self.cursor.gate.position();
        let types = self.owner.plan().filter.types();
        let is_free =
            self.checkpoints.progress.under_way() == 0 && self.cursor.barrier.is_none() && self.bundling.by.is_none();
        if types.is_empty() || !is_free || position < self.cursor.pass_types_from {
            return Ok(false);
        }
        let passed = self.owner.runner.tail.pass_types(position, types).await;
        let Some(passed) = passed.map_err(|error| Stop::from(SubscriberError::Read(error)))? else {
            // There is no index, or one of its types is near.
            self.cursor.pass_types_from = position.saturating_add(FAR_BEHIND);
            return Ok(false);
        };
        self.cursor.gate.pass_over(passed.up_to);
        self.checkpoints.pass_over(&passed);
        self.owner.runner.status.set(RunnerState::CatchingUp, None);
        Ok(true)
    }

    /// Whether the subscriber is at the end of the log, as far as is known here.
    pub(super) fn is_live(&self) -> bool {
        let tail = &self.owner.runner.tail;
        tail.is_at_end() && tail.seen().saturating_sub(self.cursor.gate.position()) <= LIVE_WITHIN
    }

    /// Handles events. An event that has come in a gap meanwhile goes before the events behind the
    /// gap. If events are handled one after the other, it goes after the events before the gap.
    ///
    /// Before each part, passed gaps are compared with the tail's holes. The tail has looked into
    /// all of them after it saw these events. The comparison costs nothing while no hole has
    /// changed.
    async fn handle_in_order(&mut self, mut admitted: Vec<Admitted>) -> Result<(), Stop> {
        let plan = self.owner.plan();
        let one_by_one = match &plan.work {
            Work::Each(_) => plan.concurrency <= 1,
            Work::Batch(_) => false,
            Work::Transaction { per, .. } => *per == TransactionScope::Event,
        };
        while let Some(first) = admitted.first().map(|admitted| admitted.event.sequence().get()) {
            self.deliver_late(first).await?;
            let behind_gap = admitted.iter().skip(1).position(|admitted| admitted.passed.is_some());
            let rest = behind_gap.filter(|_| one_by_one).map_or(admitted.len(), |at| at + 1);
            let behind = admitted.split_off(rest);
            self.handle(admitted).await?;
            admitted = behind;
        }
        Ok(())
    }

    /// Settles events of other partitions, and hands the rest to the handler.
    pub(super) async fn handle(&mut self, admitted: Vec<Admitted>) -> Result<(), Stop> {
        let (partition, partitions) = (self.owner.runner.partition, self.cursor.partitions);
        let hashes = (partitions > 1).then(|| self.owner.plan().hashes.of(&admitted));
        let mut own = Vec::with_capacity(admitted.len());
        for (at, Admitted { event, .. }) in admitted.into_iter().enumerate() {
            if hashes.as_ref().is_none_or(|hashes| hashes[at] % partitions == partition) {
                own.push(event);
            } else {
                self.checkpoints.skip(&event);
            }
        }
        self.handle_own(own).await
    }

    /// Hands the partition's events to the handler, except those that the subscriber did not ask
    /// for or that are settled already.
    async fn handle_own(&mut self, mut events: Vec<Arc<RecordedEvent>>) -> Result<(), Stop> {
        let owner = self.owner.clone();
        let (filter, settled_before, checkpoints) = (&owner.plan().filter, &self.settled_before, &mut self.checkpoints);
        events.retain(|event| {
            let wanted = filter.wants(event);
            let settled = wanted && settled_before.has(event);
            match wanted {
                true if settled => checkpoints.done(event),
                true => {}
                false => checkpoints.skip(event),
            }
            wanted && !settled
        });
        // The segments of a partition are longer than a batch: most of their events belong to other
        // partitions.
        let most = owner.plan().config.catch_up_batch_size as usize;
        while !events.is_empty() {
            let rest = events.split_off(events.len().min(most));
            self.handle_by_strategy(events).await?;
            events = rest;
        }
        Ok(())
    }

    /// Whether the subscriber asked for an event, and the event is in this partition.
    pub(super) fn wants(&self, event: &RecordedEvent) -> bool {
        let (partitions, partition) = (self.cursor.partitions, self.owner.runner.partition);
        self.owner.plan().filter.wants(event)
            && (partitions <= 1 || partition_of(&order_key(event), partitions) == partition)
    }
}
