//! What a queue takes: a property of the subscriber.

use headwater_core::{SubscriberError, matches_pattern};

use super::super::Result;

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
