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
    /// The last claim got all that it asked for: there is more.
    pub(super) backlog: bool,
    /// Claims that are done, and not acked yet.
    pub(super) acks: Vec<Uuid>,
    /// When an event that was handed back here is due again.
    pub(super) retries: Vec<Instant>,
    pub(super) pace: Pace,
}

pub(super) struct Open {
    /// Events that are not settled.
    pub(super) left: usize,
    /// Of those that are: the ones to be acked, as a whole at the end or before that.
    unacked: Vec<u64>,
    ack_at: Option<Instant>,
    /// Some are being acked.
    acking: bool,
    /// `None`: it is being extended.
    pub(super) extend_at: Option<Instant>,
    /// Those that have events of this claim alone.
    pub(super) tasks: Vec<AbortHandle>,
}

impl Open {
    fn new(left: usize, extend_at: Instant) -> Self {
        let unacked = Vec::with_capacity(left);
        Open { left, unacked, ack_at: None, acking: false, extend_at: Some(extend_at), tasks: Vec::new() }
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
        self.running.is_empty() && self.waiting.is_empty() && self.calls.is_empty() && self.acks.is_empty()
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
            if urgent {
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

    /// Starts work on the next events that wait; `work` is told whether nothing else of their claim is to be done.
    pub(super) fn start<F>(&mut self, events: usize, work: impl FnOnce(Vec<Job>, bool) -> F)
    where
        F: Future<Output = Done> + Send + 'static,
    {
        let jobs: Vec<Job> = self.waiting.drain(..events).collect();
        let Some(claim_id) = jobs.first().map(|job| job.claim_id) else { return };
        let alone = jobs.iter().all(|job| job.claim_id == claim_id);
        let whole = alone && self.claims.get(&claim_id).is_some_and(|claim| claim.left == events);
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
        self.settled(job.claim_id, 1);
    }

    /// Notes that events of a claim need no more work.
    pub(super) fn settled(&mut self, claim_id: Uuid, events: usize) {
        let Some(claim) = self.claims.get_mut(&claim_id) else { return };
        claim.left -= events;
        if claim.left == 0 && !claim.acking {
            // Else it ended with the last that was settled.
            let to_ack = !claim.unacked.is_empty();
            self.claims.remove(&claim_id);
            self.acks.extend(to_ack.then_some(claim_id));
        }
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
            claim.unacked.extend(unacked);
            claim.ack_at = (!claim.unacked.is_empty()).then(|| Instant::now() + ACK_WITHIN);
        }
        self.settled(claim_id, 0);
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
