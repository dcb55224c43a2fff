//! What a worker of a shared subscriber has at hand.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use headwater_core::{Claim, Event};
use tokio::task::{AbortHandle, Id, JoinSet};
use tokio::time::Instant;
use uuid::Uuid;

use super::calls::Answer;
use super::work::Done;

#[derive(Default)]
pub(super) struct Hand {
    pub(super) claims: HashMap<Uuid, Open>,
    pub(super) waiting: VecDeque<Job>,
    pub(super) running: JoinSet<Done>,
    /// How many events each of these has.
    sizes: HashMap<Id, usize>,
    /// Calls to the database under way,
    pub(super) calls: JoinSet<Answer>,
    /// one of them a claim,
    pub(super) claiming: bool,
    /// one of them acks.
    pub(super) acking: bool,
    /// Claims that are done, and not acked yet.
    pub(super) acks: Vec<Uuid>,
    /// When an event that was handed back here is due again.
    pub(super) retries: Vec<Instant>,
}

pub(super) struct Open {
    /// Events that are not settled.
    left: usize,
    /// Of those that are: whether one is to be acked. Else the claim ended with the last that was settled.
    to_ack: bool,
    /// `None`: it is being extended.
    pub(super) extend_at: Option<Instant>,
    /// Those that have events of this claim alone.
    pub(super) tasks: Vec<AbortHandle>,
}

#[derive(Debug, Clone)]
pub(super) struct Job {
    pub(super) claim_id: Uuid,
    pub(super) redelivery_count: u32,
    pub(super) event: Arc<Event>,
}

impl Hand {
    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty() && self.waiting.is_empty() && self.calls.is_empty() && self.acks.is_empty()
    }

    /// Events that wait or are being handled.
    pub(super) fn events(&self) -> usize {
        self.waiting.len() + self.sizes.values().sum::<usize>()
    }

    /// Takes up what was claimed. Returns how many events that is.
    pub(super) fn take(&mut self, claims: Vec<Claim>, extend_at: Instant) -> usize {
        let before = self.waiting.len();
        for Claim { claim_id, redelivery_count, events } in claims {
            let open = Open { left: events.len(), to_ack: false, extend_at: Some(extend_at), tasks: Vec::new() };
            self.claims.insert(claim_id, open);
            let job = |event| Job { claim_id, redelivery_count, event: Arc::new(event) };
            self.waiting.extend(events.into_iter().map(job));
        }
        self.waiting.len() - before
    }

    /// The next events that wait, in the order of their claims.
    pub(super) fn next(&mut self, limit: usize, of_one_claim: bool) -> Vec<Job> {
        let first = self.waiting.front().map(|job| job.claim_id);
        let fits = |job: &&Job| !of_one_claim || Some(job.claim_id) == first;
        let events = self.waiting.iter().take(limit).take_while(fits).count();
        self.waiting.drain(..events).collect()
    }

    /// Starts work on events; `work` is told whether nothing else of their claim is to be done.
    pub(super) fn start<F>(&mut self, jobs: Vec<Job>, work: impl FnOnce(Vec<Job>, bool) -> F)
    where
        F: Future<Output = Done> + Send + 'static,
    {
        let Some(claim_id) = jobs.first().map(|job| job.claim_id) else { return };
        let alone = jobs.iter().all(|job| job.claim_id == claim_id);
        let events = jobs.len();
        let whole = alone && self.claims.get(&claim_id).is_some_and(|claim| claim.left == events);
        let task = self.running.spawn(work(jobs, whole));
        self.sizes.insert(task.id(), events);
        if let Some(claim) = self.claims.get_mut(&claim_id).filter(|_| alone) {
            claim.tasks.retain(|task| !task.is_finished());
            claim.tasks.push(task);
        }
    }

    pub(super) fn ended(&mut self, task: Id) {
        self.sizes.remove(&task);
    }

    /// Notes that events of a claim are settled.
    pub(super) fn settled(&mut self, claim_id: Uuid, events: usize, to_ack: bool) {
        let Some(claim) = self.claims.get_mut(&claim_id) else { return };
        claim.left -= events;
        claim.to_ack |= to_ack;
        if claim.left == 0 {
            let to_ack = claim.to_ack;
            self.claims.remove(&claim_id);
            self.acks.extend(to_ack.then_some(claim_id));
        }
    }

    /// Forgets a claim that is another's, or will be.
    pub(super) fn drop_claim(&mut self, claim_id: Uuid) {
        self.waiting.retain(|job| job.claim_id != claim_id);
        if let Some(claim) = self.claims.remove(&claim_id) {
            claim.tasks.iter().for_each(AbortHandle::abort);
        }
    }
}
