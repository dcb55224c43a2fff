//! Careful turns: how an owner begins after an owner that died.
//!
//! An event may end the process of its handler: by an abort, or by using up the memory. Normally,
//! nothing is written when an event begins, so the next owner does not know which event it was. It
//! begins events one at a time. It writes each event down before it begins, and a checkpoint after
//! it. An event that was begun before and not settled most likely ended a process: that counts as a
//! failed attempt. After enough events without a death, the turn goes on as any other. If the fatal
//! event comes later, the checkpoint has moved, and the next owner meets the event sooner.

use std::sync::Arc;

use headwater_core::{LastTurn, RecordedEvent};
use uuid::Uuid;

use super::Turn;
use crate::node::delivery::owner::{FailedTry, died};
use crate::node::delivery::runner::Stop;

/// How many events are begun with care.
const CAREFUL_EVENTS: u32 = 100;

/// How a turn begins its first events.
pub(super) struct Care {
    /// Events that are still to be begun with care.
    left: u32,
    /// The event that the last owner had begun, and how often it was begun.
    begun: Option<(Uuid, u32)>,
}

/// Whether an event begins. Both answers carry the earlier attempts, in which a process died.
pub(super) enum Begun {
    Tried(Vec<FailedTry>),
    /// The event does not begin: a process has died too often.
    DiedTooOften(Vec<FailedTry>),
}

impl Care {
    pub(super) fn after(last: &LastTurn) -> Self {
        Care { left: if last.died { CAREFUL_EVENTS } else { 0 }, begun: last.begun }
    }

    pub(super) fn is_needed(&self) -> bool {
        self.left > 0
    }

    /// How many processes have died with this event.
    fn deaths(&self, event: &RecordedEvent) -> u32 {
        self.begun.filter(|(begun, _)| *begun == event.id).map_or(0, |(_, times)| times)
    }
}

impl Turn {
    /// Handles events one at a time, and writes each down before and after.
    pub(super) async fn handle_with_care(&mut self, events: Vec<Arc<RecordedEvent>>) -> Result<(), Stop> {
        for event in events {
            self.handle_alone(&event).await?;
            self.checkpoints.write().await?;
            self.owner.may_go_on()?;
        }
        Ok(())
    }

    /// Writes down that an event begins, if the turn is careful.
    pub(super) async fn begin(&mut self, event: &RecordedEvent) -> Result<Begun, Stop> {
        if !self.care.is_needed() {
            return Ok(Begun::Tried(Vec::new()));
        }
        let owner = &self.owner;
        let deaths = self.care.deaths(event);
        let failed = (0..deaths).map(|_| FailedTry { at: None, attempt: owner.attempt(&died()) }).collect();
        if deaths > owner.plan().config.max_retries {
            return Ok(Begun::DiedTooOften(failed));
        }
        owner.insist(|| owner.runner.store.begin_event(&owner.fence, event.id)).await?;
        self.care.left -= 1;
        Ok(Begun::Tried(failed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::delivery::test_events::event;

    #[test]
    fn only_the_event_that_was_begun_has_deaths() {
        let (event, other) = (event(1), event(1));
        let care = Care::after(&LastTurn { died: true, begun: Some((event.id, 3)) });
        assert!(care.is_needed());
        assert_eq!((care.deaths(&event), care.deaths(&other)), (3, 0));
        assert!(!Care::after(&LastTurn { died: false, begun: None }).is_needed());
    }
}
