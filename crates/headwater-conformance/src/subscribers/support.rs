//! What the laws share: processes that own subscribers, events, dead letters, errors.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use chrono::{SubsecRound, Utc};
use headwater_core::{
    Admitted, Advance, Ask, Attempt, AuditFinding, DeadLetter, DeadLetterQuery, DeadLetterState, Event, Fence, Held,
    Instance, Progress, Report, StartFrom, SubscriberConfig, SubscriberError, SubscriberMode, SubscriberStore,
};

use super::TestSubscribers;
use crate::support::{event, stored, whole_log};

/// Longer than any test.
pub(super) const LONG: Duration = Duration::from_secs(600);

/// The store as one process has it, and that process.
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

pub(super) fn ask(subscriber_id: &str, term: Option<u64>) -> Ask {
    Ask { subscriber_id: subscriber_id.to_owned(), partition: 0, share: None, term, report: Report::default() }
}

impl Process {
    /// Registers a subscriber that begins with the first event.
    pub(super) async fn begin(&self, subscriber_id: &str) {
        self.start(subscriber_id, StartFrom::Beginning).await;
    }

    /// Registers a subscriber.
    pub(super) async fn start(&self, subscriber_id: &str, start_from: StartFrom) {
        let config =
            SubscriberConfig { subscriber_id: subscriber_id.to_owned(), start_from, mode: SubscriberMode::default() };
        self.register(&config).await.expect("this registration must pass");
    }

    /// Asks for one subscriber.
    pub(super) async fn ask_for(&self, subscriber_id: &str, term: Option<u64>, lease: Duration) -> Held {
        let asked = self.keep(&self.instance, &[ask(subscriber_id, term)], lease).await;
        let mut held = asked.expect("leases must be answered");
        assert_eq!(held.len(), 1, "one ask, one answer");
        held.remove(0)
    }

    /// Takes a subscriber that is free.
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

    /// All letters, in all states.
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
    pub(super) async fn due(&self, fence: &Fence, events: &[Event]) -> Vec<usize> {
        let letters = self.redrives(fence, 100).await.expect("redrives must be listed");
        places(&letters, events)
    }

    /// What an audit of one subscriber finds.
    pub(super) async fn findings(&self, subscriber_id: &str) -> Vec<AuditFinding> {
        self.audit(&[subscriber_id.to_owned()]).await.expect("an audit must pass").findings
    }
}

impl TestSubscribers {
    /// Appends events without a key, one transaction each, and gives them as they are stored.
    pub(super) async fn append(&self, count: usize) -> Vec<Event> {
        for number in 1..=count {
            stored(&self.log, event(&format!("E{number}")).into()).await;
        }
        let log = whole_log(&self.log).await;
        log[log.len() - count..].to_vec()
    }

    /// Appends one event a key.
    pub(super) async fn append_keys(&self, keys: &[&str]) -> Vec<Event> {
        for key in keys {
            stored(&self.log, Event { key: Some((*key).to_owned()), ..event("Keyed") }.into()).await;
        }
        let log = whole_log(&self.log).await;
        log[log.len() - keys.len()..].to_vec()
    }
}

/// Those not done with, without an end.
pub(super) fn all() -> DeadLetterQuery {
    DeadLetterQuery { limit: 100, ..DeadLetterQuery::default() }
}

pub(super) fn sequence(event: &Event) -> u64 {
    event.global_sequence.expect("it is stored")
}

/// The places of letters among events, counted from 1.
pub(super) fn places(letters: &[DeadLetter], events: &[Event]) -> Vec<usize> {
    let place = |letter: &DeadLetter| events.iter().position(|event| event.id == letter.event.id);
    letters.iter().map(|letter| 1 + place(letter).expect("a letter of one of these events")).collect()
}

pub(super) fn attempt(error: &str) -> Attempt {
    let errors = vec![error.to_owned(), "because".to_owned()];
    Attempt { at: Utc::now().trunc_subsecs(6), node: "first".to_owned(), errors }
}

fn letter(event: &Event, state: DeadLetterState, parks_key: bool, attempts: Vec<Attempt>) -> DeadLetter {
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

/// A letter that parks nothing.
pub(super) fn dead(fence: &Fence, event: &Event, error: &str) -> DeadLetter {
    let letter = letter(event, DeadLetterState::Dead, false, vec![attempt(error)]);
    DeadLetter { subscriber_id: fence.subscriber_id.clone(), ..letter }
}

/// A letter that parks its key.
pub(super) fn parking(fence: &Fence, event: &Event, error: &str) -> DeadLetter {
    DeadLetter { parks_key: true, ..dead(fence, event, error) }
}

/// A letter that waits behind one of its key.
pub(super) fn parked(fence: &Fence, event: &Event) -> DeadLetter {
    let letter = letter(event, DeadLetterState::Parked, true, Vec::new());
    DeadLetter { subscriber_id: fence.subscriber_id.clone(), ..letter }
}

/// The move of a checkpoint over events, by a subscriber that began after `after` and settled these.
pub(super) fn settled(after: u64, events: &[Event]) -> Advance {
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
