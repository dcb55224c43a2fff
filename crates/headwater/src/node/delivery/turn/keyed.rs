//! Handles events of different keys at the same time.
//!
//! Their handlers are tasks: they go on while the turn waits for the database. They may hold all of
//! its connections.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use headwater_core::{RecordedEvent, order_key};
use tokio::task::{JoinError, JoinSet};

use super::{Turn, ended};
use crate::node::delivery::allowance::{Allowance, Permit};
use crate::node::delivery::handler::Work;
use crate::node::delivery::owner::GivenUp;
use crate::node::delivery::runner::Stop;
use crate::node::reading::ring::weight;

/// Events in flight. At most one event per key is being handled.
#[derive(Default)]
pub(super) struct Keyed {
    pub(super) running: JoinSet<KeyedDone>,
    /// Events that have no permit yet, in order.
    without_permit: VecDeque<Arc<RecordedEvent>>,
    /// Events of each key that wait for the one that is running.
    waiting: HashMap<String, VecDeque<Permitted>>,
    /// Keys whose first event waits for room.
    ready: VecDeque<String>,
    /// Bytes of all these events.
    pub(super) bytes: usize,
}

/// An event that may be handled. It has a permit, if the number of events is limited.
type Permitted = (Arc<RecordedEvent>, Option<Permit>);

/// The result for an event of a key.
pub(super) struct KeyedDone {
    key: String,
    event: Arc<RecordedEvent>,
    outcome: Result<Option<GivenUp>, Stop>,
}

impl Keyed {
    pub(super) fn is_idle(&self) -> bool {
        self.running.is_empty() && self.without_permit.is_empty() && self.waiting.is_empty()
    }

    pub(super) fn waits_for_permit(&self) -> bool {
        !self.without_permit.is_empty()
    }

    pub(super) fn add(&mut self, events: Vec<Arc<RecordedEvent>>) {
        self.bytes += events.iter().map(|event| weight(event)).sum::<usize>();
        self.without_permit.extend(events);
    }

    /// Gives events their permits, in order.
    fn permit(&mut self, permits: Option<&Arc<Allowance>>) {
        while !self.without_permit.is_empty() {
            let permit = permits.and_then(Allowance::take);
            if permits.is_some() && permit.is_none() {
                return;
            }
            let Some(event) = self.without_permit.pop_front() else { return };
            let key = order_key(&event);
            match self.waiting.get_mut(&key) {
                Some(waiting) => waiting.push_back((event, permit)),
                None => {
                    self.waiting.insert(key.clone(), VecDeque::from([(event, permit)]));
                    self.ready.push_back(key);
                }
            }
        }
    }

    /// The next event of a key that has none running.
    fn next(&mut self) -> Option<(String, Permitted)> {
        loop {
            let key = self.ready.pop_front()?;
            if let Some(next) = self.waiting.get_mut(&key).and_then(VecDeque::pop_front) {
                return Some((key, next));
            }
        }
    }

    /// Notes that an event of a key is done: the next one may run.
    fn done(&mut self, key: String, event: &RecordedEvent) {
        self.bytes -= weight(event);
        match self.waiting.get(&key).map(VecDeque::is_empty) {
            Some(true) => _ = self.waiting.remove(&key),
            Some(false) => self.ready.push_back(key),
            None => {}
        }
    }
}

impl Turn {
    /// Gives events their permits, in order, and starts them while there is room.
    pub(super) fn start(&mut self) {
        self.keyed.permit(self.owner.plan().allowance.as_ref());
        while self.keyed.running.len() < self.owner.plan().concurrency as usize {
            let Some((key, (event, permit))) = self.keyed.next() else { return };
            let (owner, parked) = (self.owner.clone(), self.parked.contains(&key));
            self.keyed.running.spawn(async move {
                let events = std::slice::from_ref(&event);
                let outcome = match &owner.plan().work {
                    _ if parked => owner.park(events).await.map(|()| Some(GivenUp(None))),
                    Work::Each(handler) => match owner.throttle().await {
                        Ok(()) => owner.deliver(&**handler, &event, Vec::new()).await,
                        Err(stop) => Err(stop),
                    },
                    Work::Batch(_) | Work::Transaction { .. } => Err(Stop::Again),
                };
                if matches!(outcome, Ok(None)) {
                    permit.into_iter().for_each(Permit::use_up);
                }
                KeyedDone { key, event, outcome }
            });
        }
    }

    /// Notes which events are done, without waiting. Returns whether any were.
    pub(super) fn collect_done(&mut self) -> Result<bool, Stop> {
        let mut any = false;
        while let Some(done) = self.keyed.running.try_join_next() {
            self.settle_keyed(done)?;
            any = true;
        }
        Ok(any)
    }

    pub(super) fn settle_keyed(&mut self, done: Result<KeyedDone, JoinError>) -> Result<(), Stop> {
        let KeyedDone { key, event, outcome } = done.map_err(ended)?;
        if let Some(given_up) = outcome? {
            self.park_key(given_up);
        }
        self.checkpoints.done(&event);
        self.late.settled(&event);
        self.keyed.done(key, &event);
        self.start();
        Ok(())
    }

    /// Waits until all events in flight are settled: the next events may be of their keys.
    pub(super) async fn end_running(&mut self) -> Result<(), Stop> {
        while let Some(done) = self.keyed.running.join_next().await {
            self.settle_keyed(done)?;
            self.owner.may_go_on()?;
        }
        Ok(())
    }

    /// Lets the running events end, and begins no others.
    pub(super) async fn end_keyed(&mut self) {
        self.keyed.ready.clear();
        while let Some(done) = self.keyed.running.join_next().await {
            if let Ok(KeyedDone { event, outcome: Ok(_), .. }) = done {
                self.checkpoints.done(&event);
            }
        }
    }
}

/// Waits until a permit is left.
pub(super) async fn permit_left(permits: Option<&Arc<Allowance>>) {
    match permits {
        Some(permits) => _ = permits.changes().wait_for(|left| *left > 0).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::delivery::test_events;

    fn event(key: &str) -> Arc<RecordedEvent> {
        test_events::keyed(1, key)
    }

    fn next(keyed: &mut Keyed) -> Option<(String, Arc<RecordedEvent>)> {
        keyed.next().map(|(key, (event, _))| (key, event))
    }

    #[test]
    fn one_event_of_a_key_is_handled_at_a_time() {
        let mut keyed = Keyed::default();
        let events = [event("a"), event("b"), event("a")];
        keyed.add(events.to_vec());
        keyed.permit(None);
        let first = next(&mut keyed).unwrap();
        assert_eq!((&first.0[..], first.1.id), ("a", events[0].id));
        assert_eq!(next(&mut keyed).unwrap().0, "b");
        assert!(next(&mut keyed).is_none(), "the second of a waits for the first");
        keyed.done(first.0, &first.1);
        let second = next(&mut keyed).unwrap();
        assert_eq!(second.1.id, events[2].id);
        [("b", &events[1]), ("a", &events[2])].into_iter().for_each(|(key, event)| keyed.done(key.into(), event));
        assert!(keyed.is_idle());
        assert_eq!(keyed.bytes, 0);
    }

    #[test]
    fn permits_go_to_events_in_order() {
        let mut keyed = Keyed::default();
        let permits = Allowance::new(2);
        keyed.add(vec![event("a"), event("a"), event("b")]);
        keyed.permit(Some(&permits));
        assert!(keyed.waits_for_permit());
        let (key, (event, permit)) = keyed.next().unwrap();
        assert!(keyed.next().is_none(), "b has no permit");
        // The event was given up: its permit is for the next one.
        drop(permit);
        keyed.done(key, &event);
        keyed.permit(Some(&permits));
        assert!(!keyed.waits_for_permit());
        assert_eq!([next(&mut keyed).unwrap().0, next(&mut keyed).unwrap().0], ["a", "b"].map(String::from));
    }
}
