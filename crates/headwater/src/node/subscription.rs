//! A subscriber as a node was told to run it.

use std::sync::Arc;
use std::time::Duration;

use headwater_core::{
    Event, InstanceMode, OnExhaustion, ReliableDeliveryConfig, SubscriberConfig, SubscriberError, SubscriberMode,
    matches_pattern, names,
};

use super::handler::{TransactionScope, Work};
use super::handlers::Handlers;
use super::key_hashes::KeyHashes;
use super::limiter::Limiter;
use super::places::{Place, Places};

/// Events of a shared subscriber that a transaction holds: so many save most of the commits, and not much is done again if one fails.
const SHARED_TRANSACTION: u32 = 10;

pub(super) struct Subscription {
    pub(super) subscriber_id: String,
    pub(super) config: ReliableDeliveryConfig,
    pub(super) mode: SubscriberMode,
    /// The partitions that this instance owns, if they are not shared out.
    pub(super) assigned: Option<Vec<u32>>,
    /// How events are claimed, if it is shared.
    pub(super) claims: Claims,
    pub(super) filter: Filter,
    pub(super) work: Work,
    /// Events, and bytes of events, that a batch handler is given at most; a single event may be larger.
    pub(super) at_once: Option<(usize, usize)>,
    /// Shared by its partitions here.
    pub(super) hashes: KeyHashes,
    /// Made from the configuration at the start.
    pub(super) limiter: Limiter,
    /// How many events are handled here, and then no more.
    pub(super) places: Option<Arc<Places>>,
}

/// How a worker of a shared subscriber claims events.
#[derive(Debug, Clone)]
pub(super) struct Claims {
    pub(super) visibility: Duration,
    /// Events that are claimed ahead of those that are handled; `None`: by how fast that goes.
    pub(super) prefetch: Option<u32>,
    /// Events that a batch or a transaction holds.
    pub(super) batch_size: Option<u32>,
    /// Event types that are claimed before others.
    pub(super) priority: Vec<String>,
}

impl Claims {
    /// Whether anything was said of how events are claimed.
    pub(super) fn are_set(&self) -> bool {
        let Claims { visibility, prefetch, ref priority, .. } = *self;
        visibility != Claims::default().visibility || prefetch.is_some() || !priority.is_empty()
    }
}

impl Default for Claims {
    fn default() -> Self {
        Claims { visibility: Duration::from_secs(30), prefetch: None, batch_size: None, priority: Vec::new() }
    }
}

/// Which events are the subscriber's. The others are settled without it.
#[derive(Debug, Clone, Default)]
pub(super) struct Filter {
    /// Empty: every type.
    pub(super) event_types: Vec<String>,
    pub(super) stream_prefix: Option<String>,
    /// Handlers by event type say so themselves.
    pub(super) handlers: Option<Arc<Handlers>>,
}

impl Filter {
    /// The types to which it is limited; empty: that is not known here.
    pub(super) fn types(&self) -> &[String] {
        if self.handlers.is_some() { &[] } else { &self.event_types }
    }

    pub(super) fn wants(&self, event: &Event) -> bool {
        if let Some(handlers) = &self.handlers {
            return handlers.wants(event);
        }
        (self.event_types.is_empty()
            || self.event_types.iter().any(|pattern| matches_pattern(&event.event_type, pattern)))
            && self
                .stream_prefix
                .as_deref()
                .is_none_or(|prefix| event.stream_id.as_deref().is_some_and(|stream| stream.starts_with(prefix)))
    }
}

impl Subscription {
    /// As the store knows it.
    pub(super) fn registered_as(&self) -> SubscriberConfig {
        SubscriberConfig {
            subscriber_id: self.subscriber_id.clone(),
            start_from: self.config.start_from,
            mode: self.mode,
        }
    }

    /// Whether effects are in the transaction of the checkpoint.
    pub(super) fn is_transactional(&self) -> bool {
        matches!(self.work, Work::Transaction(..))
    }

    pub(super) fn validate(&self) -> Result<(), SubscriberError> {
        names::check_subscriber_id(&self.subscriber_id)?;
        self.config.validate()?;
        for event_type in &self.filter.event_types {
            names::check_event_type(event_type)?;
        }
        if self.config.concurrency > 1 && !matches!(self.work, Work::Each(_)) && self.mode != SubscriberMode::Shared {
            return Err(SubscriberError::InvalidInput(format!(
                "invalid concurrency {} of subscriber {:?}: batch and transactional handlers handle one thing at a time",
                self.config.concurrency, self.subscriber_id
            )));
        }
        if self.places.is_some() && matches!(self.work, Work::Transaction(..)) {
            let message = format!("subscriber {:?}: at_most is not for transactional handlers", self.subscriber_id);
            return Err(SubscriberError::InvalidInput(message));
        }
        if self.mode == SubscriberMode::Shared {
            self.validate_claims()?;
        }
        self.validate_partitions()
    }

    fn validate_claims(&self) -> Result<(), SubscriberError> {
        let Claims { visibility, prefetch, batch_size, ref priority } = self.claims;
        let invalid =
            |what: String| Err(SubscriberError::InvalidInput(format!("subscriber {:?}: {what}", self.subscriber_id)));
        if !(Duration::from_secs(1)..=Duration::from_secs(43_200)).contains(&visibility) {
            return invalid(format!("invalid visibility {visibility:?}: it is 1 s to 12 hours"));
        }
        if let Some(prefetch) = prefetch.filter(|events| *events > 10_000) {
            return invalid(format!("invalid prefetch {prefetch}: it is 0 to 10000"));
        }
        if let Some(events) = batch_size.filter(|events| !(1..=1_000).contains(events)) {
            return invalid(format!("invalid batch_size {events}: it is 1 to 1000"));
        }
        for event_type in priority {
            names::check_event_type(event_type)?;
            let known = &self.filter.event_types;
            let covers = |pattern: &String| pattern == event_type || matches_pattern(event_type, pattern);
            if !known.is_empty() && !known.iter().any(covers) {
                return invalid(format!("event type {event_type:?} has priority, and is none that it handles"));
            }
        }
        if let Work::Transaction(_, TransactionScope::Key | TransactionScope::KeyAndActor) = self.work {
            return invalid(
                "the events of a shared subscriber have no order: transaction_per is Event or Batch".into(),
            );
        }
        if self.config.on_exhaustion != OnExhaustion::DeadLetter {
            return invalid("the events of a shared subscriber have no order: on_exhaustion is DeadLetter".into());
        }
        if self.filter.stream_prefix.is_some() {
            return invalid("a shared subscriber has no stream_prefix: its workers choose by event type".into());
        }
        Ok(())
    }

    fn validate_partitions(&self) -> Result<(), SubscriberError> {
        let invalid =
            |what: String| Err(SubscriberError::InvalidInput(format!("subscriber {:?}: {what}", self.subscriber_id)));
        let SubscriberMode::Partitioned { partitions } = self.mode else {
            return match self.assigned {
                Some(_) => invalid("partition_ids stand behind a subscriber that is not partitioned".into()),
                None => Ok(()),
            };
        };
        if !(1..=1024).contains(&partitions) {
            return invalid(format!("invalid number of partitions {partitions}: it is 1 to 1024"));
        }
        if self.config.instance_mode == InstanceMode::SingleInstance {
            return invalid("a partitioned subscriber has leases: its instance_mode is Coordinated".into());
        }
        if let Some(assigned) = &self.assigned {
            let mut seen = assigned.clone();
            seen.sort_unstable();
            seen.dedup();
            if seen.is_empty() || seen.len() < assigned.len() || seen.iter().any(|partition| *partition >= 1024) {
                return invalid(format!("invalid partition_ids {assigned:?}: each is 0 to 1023 and stands once"));
            }
        }
        Ok(())
    }

    /// How many of the next events, of these weights, a batch handler may be given together.
    pub(super) fn fit_together(&self, weights: impl Iterator<Item = usize>) -> usize {
        let Some((events, most)) = self.at_once else { return weights.count() };
        let mut bytes = 0_usize;
        let fits = |weight: &usize| {
            bytes = bytes.saturating_add(*weight);
            bytes <= most
        };
        weights.take(events).take_while(fits).count().max(1)
    }

    /// Places for so many events, as far as some are left, the first included.
    pub(super) fn places_for(&self, events: usize, first: Option<Place>) -> Vec<Place> {
        let more = self.places.iter().flat_map(|places| std::iter::from_fn(|| places.take()));
        first.into_iter().chain(more).take(events).collect()
    }

    pub(super) fn takes_batches(&self) -> bool {
        match &self.work {
            Work::Batch(_) => true,
            Work::Transaction(..) => self.mode == SubscriberMode::Shared,
            Work::Each(_) => false,
        }
    }

    pub(super) fn set_batch_size(&mut self, events: u32) {
        match self.mode {
            SubscriberMode::Shared => self.claims.batch_size = Some(events),
            _ => self.config.catch_up_batch_size = events,
        }
    }

    /// Most events that one run of a handler of a shared subscriber holds.
    pub(super) fn events_at_once(&self) -> usize {
        let batch_size = |default| self.claims.batch_size.unwrap_or(default) as usize;
        match &self.work {
            Work::Each(_) | Work::Transaction(_, TransactionScope::Event) => 1,
            Work::Batch(_) => batch_size(self.config.catch_up_batch_size),
            Work::Transaction(..) => batch_size(SHARED_TRANSACTION),
        }
    }

    pub(super) fn transaction_scope(&mut self, scope: TransactionScope) -> bool {
        match &mut self.work {
            Work::Transaction(_, present) => *present = scope,
            Work::Each(_) | Work::Batch(_) => return false,
        }
        true
    }
}
