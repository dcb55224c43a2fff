//! How much a worker claims.

use super::in_flight::InFlight;
use super::{CLAIMS, MOST_AT_ONCE, Worker};
use crate::node::delivery::handler::Work;

/// How many events to claim now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Room {
    /// Events of all types.
    pub(super) events: usize,
    /// Events with priority, whatever else waits.
    pub(super) urgent: usize,
}

impl Room {
    pub(super) fn is_there(&self) -> bool {
        self.events > 0 || self.urgent > 0
    }
}

impl Worker {
    /// How many events to claim now: none while the worker rests, or while enough claim calls are
    /// in flight.
    pub(super) fn room_of(&self, in_flight: &InFlight, resting: bool) -> Room {
        if resting || in_flight.claiming >= self.claims_at_once(in_flight) {
            return Room::default();
        }
        Room { events: self.room(in_flight), urgent: self.urgent_room(in_flight) }
    }

    /// How many events to claim now. None until half of the events that may be held are done, so
    /// that events are not claimed one by one.
    fn room(&self, in_flight: &InFlight) -> usize {
        if self.subscription.filter.handlers.as_ref().is_some_and(|handlers| handlers.is_empty()) {
            return 0;
        }
        let batch = self.events_at_once(in_flight);
        let capacity = self.subscription.concurrency as usize * batch + self.ahead(in_flight);
        // Events that the rate limit would hold up here are left to other workers.
        let capacity = capacity.min(self.subscription.limiter.burst().unwrap_or(capacity));
        let room = capacity.saturating_sub(in_flight.events());
        match &self.subscription.work {
            _ if room * 2 < capacity => 0,
            // Whole transactions: see `per_claim`.
            Work::Transaction { .. } if room > batch => (room - room % batch).min(MOST_AT_ONCE),
            _ => room.min(MOST_AT_ONCE),
        }
    }

    /// The most events of one claim, where each claim is one transaction: two transactions that ack
    /// parts of one claim would wait for each other.
    pub(super) fn per_claim(&self) -> Option<u32> {
        self.subscription.is_transactional().then(|| self.subscription.events_at_once() as u32)
    }

    fn claims_at_once(&self, in_flight: &InFlight) -> usize {
        let ahead = in_flight.backlog && self.ahead(in_flight) > 0 && self.subscription.claims.priority.is_empty();
        if ahead { CLAIMS } else { 1 }
    }

    /// How many events with priority to claim now, whatever else waits: as many as can be handled
    /// at once.
    fn urgent_room(&self, in_flight: &InFlight) -> usize {
        if self.subscription.claims.priority.is_empty() {
            return 0;
        }
        let (batch, waiting) = (self.events_at_once(in_flight), in_flight.urgent());
        match &self.subscription.work {
            Work::Transaction { .. } if waiting > 0 => 0,
            Work::Transaction { .. } => batch,
            _ => (self.subscription.concurrency as usize * batch).min(MOST_AT_ONCE).saturating_sub(waiting),
        }
    }

    /// The most events that one call of the handler gets. Where batches only save work, the worker
    /// takes no more than it can handle soon, and leaves the others to any free worker.
    pub(super) fn events_at_once(&self, in_flight: &InFlight) -> usize {
        let most = self.subscription.events_at_once();
        match self.subscription.at_once {
            Some((events, _)) => most.min(events).min(in_flight.pace.ahead(1)).max(1),
            None => most,
        }
    }

    /// How many events to have ready beyond those that are being handled.
    fn ahead(&self, in_flight: &InFlight) -> usize {
        match self.subscription.claims.prefetch {
            Some(events) => in_flight.pace.limit(events as usize),
            None => in_flight.pace.ahead(self.subscription.concurrency),
        }
    }
}
