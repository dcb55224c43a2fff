//! Where a turn reads the log.

use std::time::Duration;

use headwater_core::{Checkpoint, Gate};

/// Where a turn reads the log, and where it ends.
pub(super) struct Cursor {
    pub(super) gate: Gate,
    /// Reads behind the barrier, for bundles that began before it.
    pub(super) past_barrier: Option<Gate>,
    /// The partition ends here, except for bundles that go on.
    pub(super) barrier: Option<u64>,
    /// The turn ends here: there is no room for events of all keys, and only events of some keys
    /// wait.
    pub(super) narrow: Option<u64>,
    /// How many partitions the subscriber has.
    pub(super) partitions: u32,
    /// From this sequence on, the index by type is asked again.
    pub(super) pass_types_from: u64,
    /// The tail's generation when the turn began.
    pub(super) generation: u64,
}

impl Cursor {
    pub(super) fn new(loaded: &Checkpoint, hold_for: Duration, generation: u64) -> Self {
        Cursor {
            gate: Gate::new(loaded.position, hold_for),
            past_barrier: None,
            barrier: loaded.barrier,
            narrow: None,
            partitions: loaded.partitions,
            pass_types_from: 0,
            generation,
        }
    }

    /// How far the log was read.
    pub(super) fn reached(&self) -> u64 {
        self.past_barrier.as_ref().unwrap_or(&self.gate).position()
    }

    /// Where the partition ends, or where this turn does.
    pub(super) fn bound(&self) -> Option<u64> {
        self.narrow.or(self.barrier)
    }

    pub(super) fn is_at_barrier(&self) -> bool {
        self.bound().is_some_and(|bound| self.gate.position() >= bound)
    }
}
