//! What a worker of a shared subscriber has at hand.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use headwater_core::{Claim, Event};
use tokio::task::{AbortHandle, Id, JoinSet};
use tokio::time::Instant;
use uuid::Uuid;

use super::calls::Answer;
use super::pace::Pace;
use super::work::Done;
use crate::node::ring::weight;

/// Events that are handled are acked with the rest of their claim, or after so long: then no more of them comes again after a crash.
const ACK_WITHIN: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct Hand {
    pub(super) claims: HashMap<Uuid, Open>,
    pub(super) waiting: VecDeque<Job>,
    pub(super) running: JoinSet<Done>,
    /// How many events each of these has.
    sizes: HashMap<Id, usize>,
    /// Calls to the database under way,
    pub(super) calls: JoinSet<Answer>,
    /// of them claims,
    pub(super) claiming: usize,
    /// which asked for so many events,
    pub(super) asked: usize,
    /// one of them acks.
    pub(super) acking: bool,
    /// The last claim got most of what it asked for, which is where claims of some types end: there is more.
    pub(super) backlog: bool,
    /// Claims that are done, and not acked yet.
    pub(super) acks: Vec<Uuid>,
    /// When an event that was handed back here is due again.
    pub(super) retries: Vec<Instant>,
    pub(super) pace: Pace,
}

pub(super) struct Open {
    events: usize,
    /// Events that are not settled.
    pub(super) left: usize,
    /// Of those that are: the ones to be acked, as a whole at the end or before that.
    unacked: Vec<u64>,
    /// Some were settled in transactions of their own, or handed back. All that is left is then acked by name: if the server crashed, they may be in the claim
    /// again.
    torn: bool,
    ack_at: Option<Instant>,
    /// Some are being acked.
    acking: bool,
    /// `None`: it is being extended.
    pub(super) extend_at: Option<Instant>,
    /// Those that have events of this claim alone.
    pub(super) tasks: Vec<AbortHandle>,
}

impl Open {
    fn new(events: usize, extend_at: Instant) -> Self {
        Open {
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
pub(super) struct Job {
    pub(super) claim_id: Uuid,
    pub(super) redelivery_count: u32,
    /// Goes before what waits and is not.
    urgent: bool,
    pub(super) event: Arc<Event>,
}

impl Hand {
    pub(super) fn is_empty(&self) -> bool {
        let done = self.running.is_empty() && self.waiting.is_empty() && self.calls.is_empty() && self.acks.is_empty();
        // One that is being acked has a call under way, or had one that panicked.
        done && self.claims.values().all(|claim| claim.left > 0 || claim.acking)
    }

    /// Events that wait, are being handled, or may come.
    pub(super) fn events(&self) -> usize {
        self.waiting.len() + self.sizes.values().sum::<usize>() + self.asked
    }

    /// Takes up what was claimed. Returns how many events that is.
    pub(super) fn take(&mut self, claims: Vec<Claim>, extend_at: Instant, urgent: bool) -> usize {
        let before = self.waiting.len();
        for Claim { claim_id, redelivery_count, events } in claims {
            let open = Open::new(events.len(), extend_at);
            self.claims.insert(claim_id, open);
            events.iter().for_each(|event| self.pace.weighed(weight(event)));
            let jobs =
                events.into_iter().map(|event| Job { claim_id, redelivery_count, urgent, event: Arc::new(event) });
            // What was delivered before goes before what was not: if it is what its last worker died of, it alone shall be to blame.
            if urgent || redelivery_count > 0 {
                let behind = self.waiting.split_off(self.urgent());
                self.waiting.extend(jobs.chain(behind));
            } else {
                self.waiting.extend(jobs);
            }
        }
        self.waiting.len() - before
    }

    /// Events of priority that wait: they are the first.
    pub(super) fn urgent(&self) -> usize {
        self.waiting.iter().take_while(|job| job.urgent).count()
    }

    /// How many of the next events that wait can be handled together.
    pub(super) fn ready(&self, limit: usize, of_one_claim: bool) -> usize {
        let first = self.waiting.front().map(|job| job.claim_id);
        let fits = |job: &&Job| !of_one_claim || Some(job.claim_id) == first;
        self.waiting.iter().take(limit).take_while(fits).count()
    }

    /// The bytes of each of the next events that wait.
    pub(super) fn weights(&self, events: usize) -> impl Iterator<Item = usize> {
        self.waiting.iter().take(events).map(|job| weight(&job.event))
    }

    /// Starts work on the next events that wait; `work` is told whether they are all of their claim.
    pub(super) fn start<F>(&mut self, events: usize, work: impl FnOnce(Vec<Job>, bool) -> F)
    where
        F: Future<Output = Done> + Send + 'static,
    {
        let jobs: Vec<Job> = self.waiting.drain(..events).collect();
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

    /// Takes what waits of a claim, or of all. Returns the events of each.
    pub(super) fn take_waiting(&mut self, of: Option<Uuid>) -> HashMap<Uuid, Vec<u64>> {
        let mut taken: HashMap<Uuid, Vec<u64>> = HashMap::new();
        self.waiting.retain(|job| {
            let takes = of.is_none_or(|claim_id| claim_id == job.claim_id);
            if takes {
                taken.entry(job.claim_id).or_default().push(job.event.global_sequence.unwrap_or_default());
            }
            !takes
        });
        taken
    }

    pub(super) fn ended(&mut self, task: Id) {
        self.sizes.remove(&task);
    }

    /// Notes that an event was handled, and is to be acked.
    pub(super) fn handled(&mut self, job: &Job) {
        if let Some(claim) = self.claims.get_mut(&job.claim_id) {
            claim.unacked.push(job.event.global_sequence.unwrap_or_default());
            claim.ack_at.get_or_insert_with(|| Instant::now() + ACK_WITHIN);
        }
        self.settle(job.claim_id, 1);
    }

    /// Notes that events of a claim need no more work, and no ack.
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
        // Else it ended with the last that was settled.
        let to_ack = !claim.unacked.is_empty();
        self.claims.remove(&claim_id);
        self.acks.extend(to_ack.then_some(claim_id));
    }

    /// Takes what has been handled for long, of claims that are not done: who they are, and which of their events.
    pub(super) fn take_unacked(&mut self, now: Instant) -> Vec<(Uuid, Vec<u64>)> {
        let due = |claim: &Open| !claim.acking && claim.ack_at.is_some_and(|at| at <= now);
        let take = |(claim_id, claim): (&Uuid, &mut Open)| {
            (claim.acking, claim.ack_at) = (true, None);
            (*claim_id, std::mem::take(&mut claim.unacked))
        };
        self.claims.iter_mut().filter(|(_, claim)| due(claim)).map(take).collect()
    }

    /// Notes that events of a claim are acked, but for these.
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

    /// When something is to be done about a claim.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let of_claim = |claim: &Open| [claim.extend_at, claim.ack_at.filter(|_| !claim.acking)];
        self.claims.values().flat_map(of_claim).flatten().min()
    }

    /// Forgets a claim that is another's, or will be.
    pub(super) fn drop_claim(&mut self, claim_id: Uuid) {
        self.waiting.retain(|job| job.claim_id != claim_id);
        if let Some(claim) = self.claims.remove(&claim_id) {
            claim.tasks.iter().for_each(AbortHandle::abort);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::work::Outcome;
    use super::*;

    /// A claim of so many events, from sequence 1 on, that wait.
    fn claimed(events: u64) -> (Hand, Uuid) {
        let (mut hand, claim_id) = (Hand::default(), Uuid::now_v7());
        let event = |sequence| {
            let mut event = Event::raw("tested", serde_json::json!({}));
            event.global_sequence = Some(sequence);
            event
        };
        let events = (1..=events).map(event).collect();
        hand.take(vec![Claim { claim_id, redelivery_count: 0, events }], Instant::now(), false);
        (hand, claim_id)
    }

    fn next(hand: &mut Hand) -> Job {
        hand.waiting.pop_front().unwrap()
    }

    #[tokio::test]
    async fn what_was_delivered_before_goes_first() {
        let (mut hand, _) = claimed(2);
        let again = Uuid::now_v7();
        let events = vec![Event::raw("tested", serde_json::json!({}))];
        hand.take(vec![Claim { claim_id: again, redelivery_count: 1, events }], Instant::now(), false);
        assert_eq!(next(&mut hand).claim_id, again);
    }

    #[tokio::test]
    async fn a_claim_that_was_handled_is_acked_as_a_whole() {
        let (mut hand, claim_id) = claimed(2);
        for _ in 0..2 {
            let job = next(&mut hand);
            hand.handled(&job);
        }
        assert_eq!(hand.acks, [claim_id]);
        assert!(hand.claims.is_empty());
    }

    #[tokio::test]
    async fn what_is_left_of_a_claim_is_acked_by_name() {
        let (mut hand, claim_id) = claimed(3);
        let (first, _, third) = (next(&mut hand), next(&mut hand), next(&mut hand));
        hand.handled(&first);
        hand.settled(claim_id, 1);
        hand.handled(&third);
        assert!(hand.acks.is_empty() && !hand.is_empty());
        let by_name = [(claim_id, vec![1, 3])];
        assert_eq!(hand.take_unacked(Instant::now()), by_name);
        // Tried again, but not at once.
        hand.part_acked(claim_id, vec![1, 3]);
        assert!(hand.take_unacked(Instant::now()).is_empty() && !hand.is_empty());
        assert_eq!(hand.take_unacked(Instant::now() + ACK_WITHIN), by_name);
        hand.part_acked(claim_id, Vec::new());
        assert!(hand.is_empty() && hand.claims.is_empty());
    }

    #[tokio::test]
    async fn work_on_the_rest_of_a_claim_is_not_work_on_all_of_it() {
        let told = |hand: &mut Hand, events| {
            let mut whole = None;
            hand.start(events, |jobs, all| {
                whole = Some(all);
                async move {
                    Done {
                        events: jobs.into_iter().map(|job| (job, Outcome::Committed)).collect(),
                        took: Duration::ZERO,
                    }
                }
            });
            whole
        };
        let (mut hand, claim_id) = claimed(2);
        assert_eq!(told(&mut hand, 1), Some(false));
        hand.settled(claim_id, 1);
        assert_eq!(told(&mut hand, 1), Some(false));
        let (mut hand, _) = claimed(2);
        assert_eq!(told(&mut hand, 2), Some(true));
    }
}
