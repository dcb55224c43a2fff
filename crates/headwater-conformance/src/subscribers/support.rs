//! Helpers that the laws share: processes that own subscribers, events, dead letters, and errors.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use chrono::{SubsecRound, Utc};
use headwater_core::{
    Admitted, Advance, Attempt, AuditFinding, Claim, ClaimRequest, DeadLetter, DeadLetterQuery, DeadLetterState, Event,
    Fence, GroupView, Instance, LeaseReply, LeaseRequest, Progress, QueueStore, RecordedEvent, Report, StartFrom,
    SubscriberConfig, SubscriberError, SubscriberMode, SubscriberStore,
};

use super::TestSubscribers;
use crate::support::{event, stored, whole_log};

/// Longer than any test runs.
pub(super) const LONG: Duration = Duration::from_secs(600);

/// One process with its handle of the store.
pub(crate) struct Process {
    pub(super) store: Arc<dyn SubscriberStore>,
    pub(super) instance: Instance,
}

impl Deref for Process {
    type Target = dyn SubscriberStore;

    fn deref(&self) -> &Self::Target {
        &*self.store
    }
}

pub(super) fn ask(subscriber_id: &str, term: Option<u64>) -> LeaseRequest {
    LeaseRequest { subscriber_id: subscriber_id.to_owned(), partition: 0, share: None, term, report: Report::default() }
}

impl Process {
    /// Registers a subscriber that begins with the first event.
    pub(super) async fn begin(&self, subscriber_id: &str) {
        self.start(subscriber_id, StartFrom::Beginning).await;
    }

    /// Registers a subscriber.
    pub(super) async fn start(&self, subscriber_id: &str, start_from: StartFrom) {
        self.begin_as(subscriber_id, start_from, SubscriberMode::Exclusive).await;
    }

    /// Asks for the lease of one subscriber.
    pub(super) async fn ask_for(&self, subscriber_id: &str, term: Option<u64>, lease: Duration) -> LeaseReply {
        let asked = self.keep(&self.instance, &[ask(subscriber_id, term)], lease).await;
        let mut held = asked.expect("leases must be answered");
        assert_eq!(held.len(), 1, "one ask, one answer");
        held.remove(0)
    }

    /// Takes a subscriber that has no owner.
    pub(super) async fn own(&self, subscriber_id: &str) -> Fence {
        let held = self.ask_for(subscriber_id, None, LONG).await;
        assert!(held.term.is_some(), "{subscriber_id} is free, but was not given: {held:?}");
        Fence { subscriber_id: subscriber_id.to_owned(), partition: 0, term: held.term, history: held.history }
    }

    /// Registers a subscriber and takes it.
    pub(super) async fn begin_and_own(&self, subscriber_id: &str) -> Fence {
        self.begin(subscriber_id).await;
        self.own(subscriber_id).await
    }

    pub(super) async fn give_up(&self, subscriber_id: &str) {
        self.release(&self.instance, &[subscriber_id.into()]).await.expect("a release must pass");
    }

    /// Registers a group that begins with the first event.
    pub(super) async fn begin_group(&self, subscriber_id: &str, partitions: u32) {
        self.begin_as(subscriber_id, StartFrom::Beginning, SubscriberMode::Partitioned { partitions }).await;
    }

    /// Registers a shared subscriber that begins with the first event, and returns a worker of its
    /// queue.
    pub(super) async fn share(&self, subscriber_id: &str) -> Worker {
        self.share_from(subscriber_id, StartFrom::Beginning).await
    }

    pub(super) async fn share_from(&self, subscriber_id: &str, start_from: StartFrom) -> Worker {
        self.begin_as(subscriber_id, start_from, SubscriberMode::Shared).await;
        Worker::new(self.queue(subscriber_id))
    }

    async fn begin_as(&self, subscriber_id: &str, start_from: StartFrom, mode: SubscriberMode) {
        let config = SubscriberConfig::new(subscriber_id, start_from, mode);
        self.register(&config).await.expect("this registration must pass");
    }

    /// Asks for partitions of a group for longer than any test runs, and returns the ones that it
    /// got.
    pub(super) async fn take(
        &self,
        subscriber_id: &str,
        partitions: impl IntoIterator<Item = u32>,
        share: Option<u32>,
    ) -> Vec<Option<Fence>> {
        let requests: Vec<LeaseRequest> = partitions
            .into_iter()
            .map(|partition| LeaseRequest { partition, share, ..ask(subscriber_id, None) })
            .collect();
        let replies = self.keep(&self.instance, &requests, LONG).await.expect("leases must be answered");
        let fence = |reply: LeaseReply| {
            let LeaseReply { subscriber_id, partition, term, history, .. } = reply;
            term.map(|term| Fence { subscriber_id, partition, term: Some(term), history })
        };
        replies.into_iter().map(fence).collect()
    }

    /// Makes the process a member of a group, or keeps it one, for longer than any test runs.
    pub(super) async fn join_group(&self, group: &str) -> GroupView {
        let views = self.join(&self.instance, &[group.to_owned()], LONG).await.expect("groups must be answered");
        views.into_iter().next().expect("the group is there")
    }

    /// All letters in any state.
    pub(super) async fn letters(&self) -> Vec<DeadLetter> {
        use DeadLetterState::*;
        let query = DeadLetterQuery { states: vec![Dead, Parked, Redriving, Redriven, Discarded], ..all() };
        self.dead_letters(&query).await.expect("letters must be listed")
    }

    /// The states of all letters.
    pub(super) async fn states(&self) -> Vec<DeadLetterState> {
        self.letters().await.iter().map(|letter| letter.state).collect()
    }

    /// The places among `events` of the letters to deliver again.
    pub(super) async fn due(&self, fence: &Fence, events: &[RecordedEvent]) -> Vec<usize> {
        let letters = self.redrives(fence, 100).await.expect("redrives must be listed");
        places(&letters, events)
    }

    /// The findings of an audit of one subscriber.
    pub(super) async fn findings(&self, subscriber_id: &str) -> Vec<AuditFinding> {
        self.audit(&[subscriber_id.to_owned()]).await.expect("an audit must pass").findings
    }
}

/// A worker's handle of a queue.
pub(crate) struct Worker(Arc<dyn QueueStore>);

impl Deref for Worker {
    type Target = dyn QueueStore;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl Worker {
    pub(super) fn new(queue: Arc<dyn QueueStore>) -> Self {
        Worker(queue)
    }

    /// A request for claims that last for [`LONG`].
    pub(super) fn request(&self, max_events: u32) -> ClaimRequest {
        ClaimRequest { max_events, visibility: LONG, ..ClaimRequest::new("worker") }
    }

    pub(super) async fn claim_with(&self, request: ClaimRequest) -> Result<Vec<Claim>, SubscriberError> {
        self.0.claim(&request).await
    }

    pub(super) async fn claim(&self, max_events: u32) -> Vec<Claim> {
        self.claim_with(self.request(max_events)).await.expect("a claim must pass")
    }

    /// Claims everything and acks it, each claim by another worker. Returns the places of the
    /// events, in the order of their delivery.
    pub(super) async fn places_of_each(&self, events: &[RecordedEvent]) -> Vec<usize> {
        let mut all = Vec::new();
        for number in 0.. {
            let request = ClaimRequest { worker: format!("worker-{number}"), ..self.request(100) };
            let claims = self.claim_with(request).await.expect("a claim must pass");
            if claims.is_empty() {
                break;
            }
            all.extend(places_of(&claims, events).concat());
            for claim in claims {
                self.ack(claim.claim_id, None).await.expect("an ack must pass");
            }
        }
        all
    }
}

/// The places of claimed events, counted from 1, claim by claim.
pub(super) fn places_of(claims: &[Claim], events: &[RecordedEvent]) -> Vec<Vec<usize>> {
    let place =
        |one: &RecordedEvent| 1 + events.iter().position(|event| event.id == one.id).expect("one of these events");
    claims.iter().map(|claim| claim.events.iter().map(place).collect()).collect()
}

impl TestSubscribers {
    /// Appends events without a key, one transaction each, and returns them as stored.
    pub(super) async fn append(&self, count: usize) -> Vec<RecordedEvent> {
        for number in 1..=count {
            stored(&self.log, event(&format!("E{number}")).into()).await;
        }
        let log = whole_log(&self.log).await;
        log[log.len() - count..].to_vec()
    }

    /// Appends events of these types, one transaction each, and returns them as stored.
    pub(super) async fn append_types(&self, types: &[&str]) -> Vec<RecordedEvent> {
        for event_type in types {
            stored(&self.log, event(event_type).into()).await;
        }
        let log = whole_log(&self.log).await;
        log[log.len() - types.len()..].to_vec()
    }

    /// Appends one event per key, one transaction each, and returns them as stored.
    pub(super) async fn append_keys(&self, keys: &[&str]) -> Vec<RecordedEvent> {
        for key in keys {
            stored(&self.log, Event { key: Some((*key).to_owned()), ..event("Keyed") }.into()).await;
        }
        let log = whole_log(&self.log).await;
        log[log.len() - keys.len()..].to_vec()
    }
}

/// Selects all letters that are not finished.
pub(super) fn all() -> DeadLetterQuery {
    DeadLetterQuery { limit: 100, ..DeadLetterQuery::default() }
}

pub(super) fn sequence(event: &RecordedEvent) -> u64 {
    event.sequence().get()
}

/// The places of letters among events, counted from 1.
pub(super) fn places(letters: &[DeadLetter], events: &[RecordedEvent]) -> Vec<usize> {
    let place = |letter: &DeadLetter| events.iter().position(|event| event.id == letter.event.id);
    letters.iter().map(|letter| 1 + place(letter).expect("a letter of one of these events")).collect()
}

pub(super) fn attempt(error: &str) -> Attempt {
    let errors = vec![error.to_owned(), "because".to_owned()];
    Attempt { at: Utc::now().trunc_subsecs(6), node: "first".to_owned(), errors }
}

fn letter(event: &RecordedEvent, state: DeadLetterState, parks_key: bool, attempts: Vec<Attempt>) -> DeadLetter {
    let stream = event.stream_id.as_ref().map(ToString::to_string);
    let now = Utc::now().trunc_subsecs(6);
    DeadLetter {
        subscriber_id: String::new(),
        order_key: event.key.clone().or(stream).unwrap_or_else(|| event.id.to_string()),
        event: event.clone(),
        state,
        parks_key,
        attempts,
        created_at: now,
        updated_at: now,
        reason: None,
    }
}

/// A letter that parks no key.
pub(super) fn dead(fence: &Fence, event: &RecordedEvent, error: &str) -> DeadLetter {
    let letter = letter(event, DeadLetterState::Dead, false, vec![attempt(error)]);
    DeadLetter { subscriber_id: fence.subscriber_id.clone(), ..letter }
}

/// A letter that parks its key.
pub(super) fn parking(fence: &Fence, event: &RecordedEvent, error: &str) -> DeadLetter {
    DeadLetter { parks_key: true, ..dead(fence, event, error) }
}

/// A letter that waits behind another letter of its key.
pub(super) fn parked(fence: &Fence, event: &RecordedEvent) -> DeadLetter {
    let letter = letter(event, DeadLetterState::Parked, true, Vec::new());
    DeadLetter { subscriber_id: fence.subscriber_id.clone(), ..letter }
}

/// The move of a checkpoint over these settled events, for a subscriber that began after `after`.
pub(super) fn settled(after: u64, events: &[RecordedEvent]) -> Advance {
    let mut progress = Progress::new(after, Default::default());
    for event in events {
        progress.admit(&Admitted { event: Arc::new(event.clone()), passed: None });
        progress.done(sequence(event));
    }
    progress.unwritten_advance().expect("events were settled").clone()
}

#[track_caller]
pub(super) fn fenced<T: std::fmt::Debug>(what: &str, result: Result<T, SubscriberError>) {
    assert!(matches!(result, Err(SubscriberError::Fenced(_))), "{what}: expected to be fenced, got {result:?}");
}

#[track_caller]
pub(super) fn not_found<T: std::fmt::Debug>(what: &str, result: Result<T, SubscriberError>) {
    assert!(matches!(result, Err(SubscriberError::NotFound(_))), "{what}: expected not to be found, got {result:?}");
}

#[track_caller]
pub(super) fn invalid<T: std::fmt::Debug>(what: &str, result: Result<T, SubscriberError>) {
    assert!(matches!(result, Err(SubscriberError::InvalidInput(_))), "{what}: expected invalid input, got {result:?}");
}

#[track_caller]
pub(super) fn in_use<T: std::fmt::Debug>(what: &str, result: Result<T, SubscriberError>) {
    assert!(matches!(result, Err(SubscriberError::InUse(_))), "{what}: expected to be in use, got {result:?}");
}

#[track_caller]
pub(super) fn lost<T: std::fmt::Debug>(what: &str, result: Result<T, SubscriberError>) {
    assert!(
        matches!(result, Err(SubscriberError::ClaimLost(_))),
        "{what}: expected the claim to be lost, got {result:?}"
    );
}
