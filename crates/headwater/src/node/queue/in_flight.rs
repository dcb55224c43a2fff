//! The claims that a worker of a queue holds, and the calls in flight.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use headwater_core::{Claim, RecordedEvent};
use tokio::task::{AbortHandle, Id, JoinSet};
use tokio::time::Instant;
use uuid::Uuid;

use super::calls::Answer;
use super::pace::Pace;
use super::work::Done;
use crate::node::reading::ring::weight;

/// How long the ack of an event may wait for the rest of its claim. An event that was handled
/// longer ago does not come again after a crash.
const ACK_WITHIN: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct InFlight {
    pub(super) claims: HashMap<Uuid, OpenClaim>,
    pub(super) waiting: VecDeque<ClaimedEvent>,
    pub(super) running: JoinSet<Done>,
    /// How many events each running task has.
    sizes: HashMap<Id, usize>,
    /// Database calls in flight.
    pub(super) calls: JoinSet<Answer>,
    /// Claim calls in flight.
    pub(super) claiming: usize,
    /// Events that those claims asked for.
    pub(super) asked: usize,
    /// Whether an ack call is in flight.
    pub(super) acking: bool,
    /// Whether there are more events: the last claim got most of the events that it asked for. A
    /// claim of only some types gets no more than that.
    pub(super) backlog: bool,
    /// Finished claims that are not acked yet.
    pub(super) acks: Vec<Uuid>,
    /// When an event that was handed back here is due again.
    pub(super) retries: Vec<Instant>,
    pub(super) pace: Pace,
}

pub(super) struct OpenClaim {
    events: usize,
    /// Events that are not settled.
    pub(super) left: usize,
    /// Events that are handled and still to be acked: with the whole claim at its end, or before
    /// that.
    unacked: Vec<u64>,
    /// Whether some events were settled in their own transactions, or handed back. The remaining
    /// events are then acked by name: if the server crashed, the others may be in the claim again.
    torn: bool,
    ack_at: Option<Instant>,
    /// Whether an ack of some of its events is in flight.
    acking: bool,
    /// When to extend the claim. `None`: it is being extended.
    pub(super) extend_at: Option<Instant>,
    /// Tasks that have only events of this claim.
    pub(super) tasks: Vec<AbortHandle>,
}

impl OpenClaim {
    fn new(events: usize, extend_at: Instant) -> Self {
        OpenClaim {
            events,
            left: events,
            unacked: Vec::with_capacity(events),
            torn: false,
            ack_at: None,
            acking: false,
            extend_at: Some(extend_at),
            tasks: Vec::new(),
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct ClaimedEvent {
    pub(super) claim_id: Uuid,
    pub(super) redelivery_count: u32,
    /// Whether the event has priority and goes before others.
    urgent: bool,
    pub(super) event: Arc<RecordedEvent>,
}

impl InFlight {
    pub(super) fn is_empty(&self) -> bool {
        let done = self.running.is_empty() && self.waiting.is_empty() && self.calls.is_empty() && self.acks.is_empty();
        // A claim that is being acked has a call in flight, or had one that panicked.
        done && self.claims.values().all(|claim| claim.left > 0 || claim.acking)
    }

    /// Events that wait, that are being handled, or that a claim call may bring.
    pub(super) fn events(&self) -> usize {
        self.waiting.len() + self.sizes.values().sum::<usize>() + self.asked
    }

    /// Takes up new claims. Returns how many events they have.
    pub(super) fn take(&mut self, claims: Vec<Claim>, extend_at: Instant, urgent: bool) -> usize {
        let before = self.waiting.len();
        for Claim { claim_id, redelivery_count, events } in claims {
            let open = OpenClaim::new(events.len(), extend_at);
            self.claims.insert(claim_id, open);
            events.iter().for_each(|event| self.pace.weighed(weight(event)));
            let jobs = events.into_iter().map(|event| ClaimedEvent {
                claim_id,
                redelivery_count,
                urgent,
                event: Arc::new(event),
            });
            // An event that was delivered before goes first: if it kills its worker, no other event
            // gets the blame.
            if urgent || redelivery_count > 0 {
                let behind = self.waiting.split_off(self.urgent());
                self.waiting.extend(jobs.chain(behind));
            } else {
                self.waiting.extend(jobs);
            }
        }
        self.waiting.len() - before
    }

    /// The number of waiting events with priority: they come first.
    pub(super) fn urgent(&self) -> usize {
        self.waiting.iter().take_while(|job| job.urgent).count()
    }

    /// How many of the next waiting events can be handled together.
    pub(super) fn ready(&self, limit: usize, of_one_claim: bool) -> usize {
        let first = self.waiting.front().map(|job| job.claim_id);
        let fits = |job: &&ClaimedEvent| !of_one_claim || Some(job.claim_id) == first;
        self.waiting.iter().take(limit).take_while(fits).count()
    }

    /// The bytes of each of the next waiting events.
    pub(super) fn weights(&self, events: usize) -> impl Iterator<Item = usize> {
        self.waiting.iter().take(events).map(|job| weight(&job.event))
    }

    /// Starts work on the next waiting events. `work` gets them, and whether they are all events of
    /// their claim.
    pub(super) fn start<F>(&mut self, events: usize, work: impl FnOnce(Vec<ClaimedEvent>, bool) -> F)
    where
        F: Future<Output = Done> + Send + 'static,
    {
        let jobs: Vec<ClaimedEvent> = self.waiting.drain(..events).collect();
        let Some(claim_id) = jobs.first().map(|job| job.claim_id) else { return };
        let alone = jobs.iter().all(|job| job.claim_id == claim_id);
        let whole = alone && self.claims.get(&claim_id).is_some_and(|claim| claim.events == events);
        let task = self.running.spawn(work(jobs, whole));
        self.sizes.insert(task.id(), events);
        if let Some(claim) = self.claims.get_mut(&claim_id).filter(|_| alone) {
            claim.tasks.retain(|task| !task.is_finished());
            claim.tasks.push(task);
        }
    }

    /// Takes the waiting events of one claim, or of all. Returns them by claim.
    pub(super) fn take_waiting(&mut self, of: Option<Uuid>) -> HashMap<Uuid, Vec<u64>> {
        let mut taken: HashMap<Uuid, Vec<u64>> = HashMap::new();
        self.waiting.retain(|job| {
            let takes = of.is_none_or(|claim_id| claim_id == job.claim_id);
            if takes {
                taken.entry(job.claim_id).or_default().push(job.event.sequence().get());
            }
            !takes
        });
        taken
    }

    pub(super) fn ended(&mut self, task: Id) {
        self.sizes.remove(&task);
    }

    /// Notes that an event was handled and has to be acked.
    pub(super) fn handled(&mut self, job: &ClaimedEvent) {
        if let Some(claim) = self.claims.get_mut(&job.claim_id) {
            claim.unacked.push(job.event.sequence().get());
            claim.ack_at.get_or_insert_with(|| Instant::now() + ACK_WITHIN);
        }
        self.settle(job.claim_id, 1);
    }

    /// Notes that events of a claim need no further work, and no ack.
    pub(super) fn settled(&mut self, claim_id: Uuid, events: usize) {
        if let Some(claim) = self.claims.get_mut(&claim_id) {
            claim.torn = true;
        }
        self.settle(claim_id, events);
    }

    fn settle(&mut self, claim_id: Uuid, events: usize) {
        let Some(claim) = self.claims.get_mut(&claim_id) else { return };
        claim.left -= events;
        if claim.left > 0 || claim.acking {
            return;
        }
        if claim.torn && !claim.unacked.is_empty() {
            claim.ack_at = Some(Instant::now());
            return;
        }
        // Otherwise the claim ended with the last event that was settled.
        let to_ack = !claim.unacked.is_empty();
        self.claims.remove(&claim_id);
        self.acks.extend(to_ack.then_some(claim_id));
    }

    /// Takes the events that were handled a while ago, of claims that are not finished. Returns
    /// them by claim.
    pub(super) fn take_unacked(&mut self, now: Instant) -> Vec<(Uuid, Vec<u64>)> {
        let due = |claim: &OpenClaim| !claim.acking && claim.ack_at.is_some_and(|at| at <= now);
        let take = |(claim_id, claim): (&Uuid, &mut OpenClaim)| {
            (claim.acking, claim.ack_at) = (true, None);
            (*claim_id, std::mem::take(&mut claim.unacked))
        };
        self.claims.iter_mut().filter(|(_, claim)| due(claim)).map(take).collect()
    }

    /// Notes that events of a claim are acked, except these.
    pub(super) fn part_acked(&mut self, claim_id: Uuid, unacked: Vec<u64>) {
        if let Some(claim) = self.claims.get_mut(&claim_id) {
            claim.acking = false;
            let failed = !unacked.is_empty();
            claim.unacked.extend(unacked);
            claim.ack_at = (!claim.unacked.is_empty()).then(|| Instant::now() + ACK_WITHIN);
            if failed && claim.torn {
                return;
            }
        }
        self.settle(claim_id, 0);
    }

    /// When the next claim needs something: an extension or an ack.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let of_claim = |claim: &OpenClaim| [claim.extend_at, claim.ack_at.filter(|_| !claim.acking)];
        self.claims.values().flat_map(of_claim).flatten().min()
    }

    /// Forgets a claim that another worker has or will get.
    pub(super) fn drop_claim(&mut self, claim_id: Uuid) {
        self.waiting.retain(|job| job.claim_id != claim_id);
        if let Some(claim) = self.claims.remove(&claim_id) {
            claim.tasks.iter().for_each(AbortHandle::abort);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::work::ClaimedOutcome;
    use super::*;
    use crate::node::delivery::test_events::event;

    /// A claim whose events, from sequence 1 on, wait.
    fn claimed(events: u64) -> (InFlight, Uuid) {
        let (mut in_flight, claim_id) = (InFlight::default(), Uuid::now_v7());
        let events = (1..=events).map(event).collect();
        in_flight.take(vec![Claim { claim_id, redelivery_count: 0, events }], Instant::now(), false);
        (in_flight, claim_id)
    }

    fn next(in_flight: &mut InFlight) -> ClaimedEvent {
        in_flight.waiting.pop_front().unwrap()
    }

    #[tokio::test]
    async fn what_was_delivered_before_goes_first() {
        let (mut in_flight, _) = claimed(2);
        let again = Uuid::now_v7();
        let events = vec![event(1)];
        in_flight.take(vec![Claim { claim_id: again, redelivery_count: 1, events }], Instant::now(), false);
        assert_eq!(next(&mut in_flight).claim_id, again);
    }

    #[tokio::test]
    async fn a_claim_that_was_handled_is_acked_as_a_whole() {
        let (mut in_flight, claim_id) = claimed(2);
        for _ in 0..2 {
            let job = next(&mut in_flight);
            in_flight.handled(&job);
        }
        assert_eq!(in_flight.acks, [claim_id]);
        assert!(in_flight.claims.is_empty());
    }

    #[tokio::test]
    async fn what_is_left_of_a_claim_is_acked_by_name() {
        let (mut in_flight, claim_id) = claimed(3);
        let (first, _, third) = (next(&mut in_flight), next(&mut in_flight), next(&mut in_flight));
        in_flight.handled(&first);
        in_flight.settled(claim_id, 1);
        in_flight.handled(&third);
        assert!(in_flight.acks.is_empty() && !in_flight.is_empty());
        let by_name = [(claim_id, vec![1, 3])];
        assert_eq!(in_flight.take_unacked(Instant::now()), by_name);
        // They are tried again, but not at once.
        in_flight.part_acked(claim_id, vec![1, 3]);
        assert!(in_flight.take_unacked(Instant::now()).is_empty() && !in_flight.is_empty());
        assert_eq!(in_flight.take_unacked(Instant::now() + ACK_WITHIN), by_name);
        in_flight.part_acked(claim_id, Vec::new());
        assert!(in_flight.is_empty() && in_flight.claims.is_empty());
    }

    #[tokio::test]
    async fn work_on_the_rest_of_a_claim_is_not_work_on_all_of_it() {
        let told = |in_flight: &mut InFlight, events| {
            let mut whole = None;
            in_flight.start(events, |jobs, all| {
                whole = Some(all);
                async move {
                    Done {
                        events: jobs.into_iter().map(|job| (job, ClaimedOutcome::Committed)).collect(),
                        took: Duration::ZERO,
                    }
                }
            });
            whole
        };
        let (mut in_flight, claim_id) = claimed(2);
        assert_eq!(told(&mut in_flight, 1), Some(false));
        in_flight.settled(claim_id, 1);
        assert_eq!(told(&mut in_flight, 1), Some(false));
        let (mut in_flight, _) = claimed(2);
        assert_eq!(told(&mut in_flight, 2), Some(true));
    }
}
