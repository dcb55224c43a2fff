//! What a queue takes: a property of the subscriber.

use headwater_core::{SubscriberError, matches_pattern};

use super::super::Result;
use super::QueueCall;

/// The event types that a queue takes, as patterns. `None`: all types.
#[derive(Debug, Clone, Default)]
pub(in crate::subscribers) struct Takes(Option<Vec<String>>);

fn matches_any(event_type: &str, patterns: &[String]) -> bool {
    patterns.iter().any(|pattern| matches_pattern(event_type, pattern))
}

impl Takes {
    /// Takes these types. None: all.
    pub(in crate::subscribers) fn new(event_types: &[String]) -> Self {
        if event_types.is_empty() || event_types.iter().any(|event_type| event_type == "*") {
            return Takes(None);
        }
        let mut takes = event_types.to_vec();
        takes.sort_unstable();
        takes.dedup();
        Takes(Some(takes))
    }

    /// Takes these types too.
    pub(super) fn widen(&mut self, event_types: &[String]) {
        let Some(takes) = &self.0 else { return };
        let mut all: Vec<String> = self.outside(event_types).cloned().collect();
        // A type that a new and wider pattern includes need not be named.
        let kept: Vec<String> = takes.iter().filter(|it| !matches_any(it, &all)).cloned().collect();
        all.extend(kept);
        *self = Takes::new(&all);
    }

    /// Those of some types, as patterns, that the queue does not take. A pattern lies in another
    /// one if that one matches its text.
    fn outside<'t>(&self, event_types: &'t [String]) -> impl Iterator<Item = &'t String> {
        event_types.iter().filter(|event_type| !self.includes(event_type))
    }

    /// Returns what is taken, as patterns. `None`: all types.
    fn into_types(self) -> Option<Vec<String>> {
        self.0
    }

    /// Whether the queue takes an event type.
    pub(super) fn includes(&self, event_type: &str) -> bool {
        self.0.as_ref().is_none_or(|takes| matches_any(event_type, takes))
    }

    /// Checks that the queue takes all types that a claim asks for.
    pub(super) fn check(&self, subscriber_id: &str, event_types: &[String]) -> Result<()> {
        if event_types.iter().any(|event_type| event_type == "*") {
            return Ok(());
        }
        let outside: Vec<&str> = self.outside(event_types).map(String::as_str).collect();
        match &self.0 {
            Some(takes) if !outside.is_empty() => Err(SubscriberError::InvalidInput(format!(
                "subscriber {subscriber_id:?} does not take {}: it takes {}",
                outside.join(", "),
                takes.join(", ")
            ))),
            _ => Ok(()),
        }
    }
}

impl QueueCall<'_> {
    /// Sets what the queue takes, and returns what it took before. Events that were left behind and
    /// that the queue no longer takes are settled. Events that are to be delivered again become
    /// dead letters.
    pub(in crate::subscribers) fn set_types(&mut self, event_types: &[String]) -> Option<Vec<String>> {
        let before = std::mem::replace(&mut self.queue.takes, Takes::new(event_types));
        let log = self.log;
        let takes = self.queue.takes.clone();
        let is_taken = |sequence: &u64| log.at(*sequence).is_some_and(|event| takes.includes(&event.event_type));
        let left_behind: Vec<u64> = self.queue.left_behind.iter().flat_map(|(first, last)| first..=last).collect();
        for sequence in left_behind.into_iter().filter(|sequence| !is_taken(sequence)) {
            self.queue.left_behind.remove(sequence, sequence);
        }
        let mut given_up = Vec::new();
        for retry in self.queue.retries.values_mut() {
            let (kept, untaken) = retry.sequences.iter().partition(|sequence| is_taken(sequence));
            retry.sequences = kept;
            given_up.push((untaken, retry.past.clone()));
        }
        self.queue.retries.retain(|_, retry| !retry.sequences.is_empty());
        for (sequences, past) in given_up {
            self.give_up(sequences, past, "the queue does not take events of this type any more");
        }
        before.into_types()
    }
}
