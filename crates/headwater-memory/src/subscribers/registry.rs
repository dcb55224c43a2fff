//! All subscribers of a namespace, and who owns them.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use headwater_core::{Ask, Fence, Gaps, Held, History, Instance, StartFrom, SubscriberConfig, SubscriberError};
use tokio::time::Instant;

use super::subscriber::{Owner, Subscriber};
use super::{Result, check_history};
use crate::state::State;

#[derive(Debug, Default)]
pub(super) struct Registry {
    pub(super) subscribers: BTreeMap<String, Subscriber>,
    pub(super) permanent_gaps: Gaps,
    /// The last term that was given: none is given twice, also not to a subscriber that was removed and registered again.
    terms: u64,
}

/// What is not there yet, up to a position: the log in memory has no holes.
fn to_come(log: &State, position: u64) -> Gaps {
    Gaps::from_iter([(log.head() + 1, position)])
}

/// The position before the first event recorded at or after a time.
pub(super) fn position_at(log: &State, time: DateTime<Utc>) -> u64 {
    log.events.partition_point(|event| event.recorded_at < Some(time)) as u64
}

impl Registry {
    pub(super) fn register(&mut self, config: &SubscriberConfig, log: &State, now: DateTime<Utc>) {
        let position = match config.start_from {
            StartFrom::Beginning => 0,
            StartFrom::Now => log.head(),
            StartFrom::After(sequence) => sequence,
            StartFrom::Time(time) => position_at(log, time),
        };
        let terms = &mut self.terms;
        self.subscribers.entry(config.subscriber_id.clone()).or_insert_with(|| {
            *terms += 1;
            Subscriber::new(position, to_come(log, position), *terms, now)
        });
    }

    pub(super) fn reset(&mut self, subscriber_id: &str, position: u64, log: &State, now: DateTime<Utc>) -> Result<()> {
        let term = self.terms + 1;
        self.named(subscriber_id)?.reset(position, to_come(log, position), term, now);
        self.terms = term;
        Ok(())
    }

    pub(super) fn named(&mut self, subscriber_id: &str) -> Result<&mut Subscriber> {
        let found = self.subscribers.get_mut(subscriber_id);
        found.ok_or_else(|| SubscriberError::NotFound(subscriber_id.to_owned()))
    }

    /// The subscriber, if the fence is that of its present term.
    pub(super) fn owned(&mut self, fence: &Fence) -> Result<&mut Subscriber> {
        check_history(fence.history)?;
        match self.subscribers.get_mut(&fence.subscriber_id) {
            Some(subscriber) if fence.term.is_none_or(|term| term == subscriber.term) => Ok(subscriber),
            None if fence.term.is_none() => Err(SubscriberError::NotFound(fence.subscriber_id.clone())),
            // Its term may be over because it was removed.
            _ => Err(SubscriberError::Fenced(fence.subscriber_id.clone())),
        }
    }

    pub(super) fn keep(&mut self, instance: &Instance, ask: &Ask, lease: Duration, now: Instant) -> Held {
        let subscriber_id = ask.subscriber_id.clone();
        let Some(subscriber) = self.subscribers.get_mut(&subscriber_id) else {
            let (partition, history) = (ask.partition, Some(History::default()));
            return Held { subscriber_id, partition, term: None, history, paused: false, redrives: false };
        };
        let owner = subscriber.owner.as_ref();
        let is_mine = owner.is_some_and(|owner| owner.instance == *instance);
        let is_renewed = is_mine && ask.term == Some(subscriber.term);
        // An instance whose term is over learns that first, and may ask anew.
        let is_free = is_mine || owner.is_none_or(|owner| owner.lease_until <= now);
        let is_taken = ask.term.is_none() && is_free;
        if is_renewed || is_taken {
            if is_taken {
                self.terms += 1;
                subscriber.term = self.terms;
            }
            subscriber.owner = Some(Owner { instance: instance.clone(), lease_until: now + lease, lease });
            subscriber.report = is_renewed.then(|| ask.report.clone());
        }
        Held {
            subscriber_id,
            partition: ask.partition,
            term: (is_renewed || is_taken).then_some(subscriber.term),
            history: Some(History::default()),
            paused: subscriber.paused,
            redrives: subscriber.letters.redrives().next().is_some(),
        }
    }

    pub(super) fn release(&mut self, instance: &Instance, subscriber_id: &str) {
        let Some(subscriber) = self.subscribers.get_mut(subscriber_id) else { return };
        if subscriber.owner.as_ref().is_some_and(|owner| owner.instance == *instance) {
            (subscriber.owner, subscriber.report) = (None, None);
        }
    }

    pub(super) fn remove(&mut self, subscriber_id: &str, force: bool) -> Result<()> {
        let subscriber = self.named(subscriber_id)?;
        if let Some(owner) = &subscriber.owner
            && owner.lease_until > Instant::now()
            && !force
        {
            let node = &owner.instance.node;
            return Err(SubscriberError::InUse(format!(
                "subscriber {subscriber_id:?} is owned by node {node:?}: stop it first, or force"
            )));
        }
        self.subscribers.remove(subscriber_id);
        Ok(())
    }
}
