//! Groups at a barrier: what one transaction appended is not split between the partitions before a change of their number and those after it.
//!
//! A partition that has come to the barrier reads on, as long as groups wait there, for the rest of what their transactions appended, and for what others appended of the
//! same keys in between. These groups are settled whole. The checkpoint stays at the barrier; what lies behind it is noted as settled ahead, and the
//! partitions that come next leave it out. Everything else behind the barrier is theirs.
//!
//! Gaps are held here as anywhere. One that is passed is in no ledger: to those that come next, it lies ahead.

use std::sync::Arc;
use std::time::Instant;

use headwater_core::{Admitted, Event, Gaps, Gate, Hold, SubscriberError, order_key};

use super::ring::{sequence, weight};
use super::runner::Stop;
use super::turn::Turn;

impl Turn<'_> {
    pub(super) fn goes_beyond(&self) -> bool {
        self.group_by().is_some() && self.is_at_barrier() && !self.groups.is_empty()
    }

    /// Takes what is behind the barrier, of the keys that wait before it.
    pub(super) async fn take_beyond(&mut self) -> Result<Option<Hold>, Stop> {
        let Some(barrier) = self.bound() else { return Ok(None) };
        let hold_for = self.runner.subscription.config.hold_for;
        let mut gate = self.beyond.take().unwrap_or_else(|| Gate::new(barrier, hold_for));
        let segment = self.runner.tail.segment(gate.position(), self.segment_size()).await;
        let segment = segment.map_err(|error| Stop::from(SubscriberError::Read(error)))?;
        let now = Instant::now();
        let mut hold = None;
        // An older look may show a hole where a transaction of these goes on.
        self.stale = segment.as_of.is_some_and(|as_of| self.groups.visible_by() > Some(as_of));
        if !self.stale {
            let (admitted, held) = gate.admit(&segment, &Gaps::new(), now);
            let keys = self.groups.keys();
            for Admitted { event, .. } in admitted {
                let key = order_key(&event);
                if keys.contains(&key) && self.wants(&event) && !self.is_buried(&event) {
                    self.groups.add(&event, key, weight(&event), segment.visible_by.unwrap_or(now), now);
                }
            }
            self.groups.note_end(&segment, gate.position(), held.is_some());
            hold = held;
        }
        self.beyond = Some(gate);
        Ok(hold)
    }

    /// Whether some of these events are the next partitions' to pass.
    pub(super) fn ends_beyond(&self, groups: &[Vec<Arc<Event>>]) -> bool {
        let last = groups.iter().filter_map(|group| group.last()).map(|event| sequence(event)).max();
        self.barrier.is_some_and(|barrier| last > Some(barrier))
    }

    /// An event came late: of its transaction, there may be more behind the barrier than was seen there.
    pub(super) fn look_beyond_again(&mut self) {
        if let (Some(_), Some(barrier)) = (self.beyond.take(), self.barrier) {
            self.groups.end_at(barrier);
        }
    }
}
