//! A queue as workers use it: checks and the store's lock around the model.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use headwater_core::names::{check_event_type, check_node};
use headwater_core::{Claim, ClaimRequest, QueueStore, Queues, SubscriberError};
use uuid::Uuid;

use super::queue::{HandedBack, QueueCall, claim_lost};
use super::subscriber::Subscriber;
use super::{MemorySubscribers, Result};
use crate::state::State;

const MOST_EVENTS: u32 = 100_000;
const MOST_TYPES: usize = 10_000;
const LONGEST_VISIBILITY: Duration = Duration::from_secs(30 * 86_400);
const LONGEST_DELAY: Duration = Duration::from_secs(1_000 * 365 * 86_400);

/// The queue of one shared subscriber in memory.
#[derive(Debug)]
struct MemoryQueue {
    store: MemorySubscribers,
    subscriber_id: String,
}

impl Queues for MemorySubscribers {
    fn queue(&self, subscriber_id: &str) -> Arc<dyn QueueStore> {
        Arc::new(MemoryQueue { store: self.clone(), subscriber_id: subscriber_id.to_owned() })
    }
}

fn invalid(what: String) -> SubscriberError {
    SubscriberError::InvalidInput(what)
}

fn check_visibility(visibility: Duration) -> Result<()> {
    match !visibility.is_zero() && visibility <= LONGEST_VISIBILITY {
        true => Ok(()),
        false => Err(invalid(format!("invalid visibility {visibility:?}: it is more than 0 and at most 30 days"))),
    }
}

fn check_request(request: &ClaimRequest) -> Result<()> {
    let ClaimRequest { worker, max_events, visibility, event_types, max_attempts, acks: _, per_claim } = request;
    if !(1..=MOST_EVENTS).contains(max_events) {
        return Err(invalid(format!("invalid max_events {max_events}: it is 1 to {MOST_EVENTS}")));
    }
    if *max_attempts == 0 || *per_claim == Some(0) {
        return Err(invalid("invalid max_attempts or per_claim 0: it is 1 or more".into()));
    }
    if event_types.len() > MOST_TYPES {
        return Err(invalid(format!("invalid event_types: {} of more than {MOST_TYPES}", event_types.len())));
    }
    check_visibility(*visibility)?;
    event_types.iter().try_for_each(|event_type| check_event_type(event_type))?;
    match worker.as_str() {
        "" => Ok(()),
        worker => Ok(check_node(worker)?),
    }
}

/// Calls a subscriber's queue.
pub(super) fn call<'a>(
    subscriber_id: &'a str,
    subscriber: &'a mut Subscriber,
    log: &'a State,
    now: DateTime<Utc>,
) -> QueueCall<'a> {
    let Subscriber { queue, letters, partitions, .. } = subscriber;
    QueueCall { queue, letters, subscriber_id, term: partitions[0].term, log, now }
}

impl MemoryQueue {
    /// Calls the queue about a claim. Without a queue, the claim is lost too.
    fn of_claim<T>(&self, claim_id: Uuid, ask: impl FnOnce(&mut QueueCall<'_>) -> Result<T>) -> Result<T> {
        let mut registry = self.store.registry();
        let subscriber = registry.shared(&self.subscriber_id).map_err(|_| claim_lost(&self.subscriber_id, claim_id))?;
        let log = self.store.log.state();
        ask(&mut call(&self.subscriber_id, subscriber, &log, self.store.now()))
    }

    fn hand_back(&self, claim_id: Uuid, sequences: Option<&[u64]>, why: HandedBack<'_>) -> Result<()> {
        self.of_claim(claim_id, |queue| queue.hand_back(claim_id, sequences, why))
    }
}

#[async_trait]
impl QueueStore for MemoryQueue {
    fn subscriber_id(&self) -> &str {
        &self.subscriber_id
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Vec<Claim>> {
        check_request(request)?;
        let mut registry = self.store.registry();
        let subscriber = registry.shared(&self.subscriber_id)?;
        let is_paused = subscriber.partitions[0].paused;
        let log = self.store.log.state();
        call(&self.subscriber_id, subscriber, &log, self.store.now()).claim(request, is_paused)
    }

    async fn ack(&self, claim_id: Uuid, sequences: Option<&[u64]>) -> Result<()> {
        self.of_claim(claim_id, |queue| queue.ack(claim_id, sequences))
    }

    async fn nack(&self, claim_id: Uuid, sequences: Option<&[u64]>, delay: Duration, error: &str) -> Result<()> {
        if delay > LONGEST_DELAY {
            return Err(invalid(format!("invalid delay {delay:?}: it is at most 1000 years")));
        }
        self.hand_back(claim_id, sequences, HandedBack::Failed { delay, error })
    }

    async fn reject(&self, claim_id: Uuid, sequences: Option<&[u64]>, error: &str) -> Result<()> {
        self.hand_back(claim_id, sequences, HandedBack::Hopeless { error })
    }

    async fn release(&self, claim_id: Uuid, sequences: Option<&[u64]>) -> Result<()> {
        self.hand_back(claim_id, sequences, HandedBack::Untouched)
    }

    async fn extend(&self, claim_id: Uuid, visibility: Duration) -> Result<DateTime<Utc>> {
        check_visibility(visibility)?;
        self.of_claim(claim_id, |queue| queue.extend(claim_id, visibility))
    }
}
