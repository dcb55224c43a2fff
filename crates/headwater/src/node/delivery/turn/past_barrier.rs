//! Bundles at a barrier: the events of one transaction are not split between the partitions before
//! a change of their number and the partitions after it.
//!
//! A partition that has come to the barrier reads on, as long as bundles wait there. It reads the
//! rest of the events that their transactions appended, and the events that others appended for the
//! same keys in between. These bundles are settled whole. The checkpoint stays at the barrier.
//! Settled events behind it are noted as settled ahead, and the next partitions leave them out. All
//! other events behind the barrier belong to the next partitions.
//!
//! Gaps are held here as anywhere. A gap that is passed here is in no ledger: for the next
//! partitions, it lies ahead.

use std::sync::Arc;
use std::time::Instant;

use headwater_core::{Admitted, Gaps, Gate, Hold, RecordedEvent, Segment, SubscriberError, order_key};

use super::Turn;
use super::bundling::last_of;
use crate::node::delivery::runner::Stop;
use crate::node::reading::ring::weight;

impl Turn {
    pub(super) fn goes_past_barrier(&self) -> bool {
        self.bundling.by.is_some() && self.cursor.is_at_barrier() && !self.bundling.waiting.is_empty()
    }

    /// Takes the events behind the barrier of the keys that wait before it.
    pub(super) async fn take_past_barrier(&mut self) -> Result<Option<Hold>, Stop> {
        let Some(barrier) = self.cursor.bound() else { return Ok(None) };
        let hold_for = self.owner.plan().config.hold_for;
        let mut gate = self.cursor.past_barrier.take().unwrap_or_else(|| Gate::new(barrier, hold_for));
        let segment = self.owner.runner.tail.segment(gate.position(), self.segment_size()).await;
        let segment = segment.map_err(|error| Stop::from(SubscriberError::Read(error)))?;
        // An older look may show a hole where one of these transactions goes on.
        let waiting = &self.bundling.waiting;
        self.bundling.stale = segment.as_of.is_some_and(|as_of| waiting.visible_by() > Some(as_of));
        let hold = if self.bundling.stale { None } else { self.gather_past_barrier(&mut gate, &segment) };
        self.cursor.past_barrier = Some(gate);
        Ok(hold)
    }

    fn gather_past_barrier(&mut self, gate: &mut Gate, segment: &Segment) -> Option<Hold> {
        let now = Instant::now();
        let (admitted, hold) = gate.admit(segment, &Gaps::new(), now);
        let keys = self.bundling.waiting.keys();
        for Admitted { event, .. } in admitted {
            let key = order_key(&event);
            if keys.contains(&key) && self.wants(&event) && !self.settled_before.has(&event) {
                let visible_by = segment.visible_by.unwrap_or(now);
                self.bundling.waiting.add(&event, key, weight(&event), visible_by, now);
            }
        }
        self.bundling.waiting.note_end(segment, gate.position(), hold.is_some());
        hold
    }

    /// Whether some of these events belong to the next partitions.
    pub(super) fn ends_past_barrier(&self, bundles: &[Vec<Arc<RecordedEvent>>]) -> bool {
        self.cursor.barrier.is_some_and(|barrier| last_of(bundles) > Some(barrier))
    }

    /// Notes that an event came late: its transaction may have more events behind the barrier than
    /// were seen there.
    pub(super) fn look_past_barrier_again(&mut self) {
        if let (Some(_), Some(barrier)) = (self.cursor.past_barrier.take(), self.cursor.barrier) {
            self.bundling.waiting.end_at(barrier);
        }
    }
}
