//! The plan of a subscription: how a node runs a subscriber.

use std::sync::Arc;
use std::time::Duration;

use headwater_core::{
    InstanceMode, OnExhaustion, RecordedEvent, ReliableDeliveryConfig, SubscriberConfig, SubscriberError,
    SubscriberMode, matches_pattern, names,
};

use crate::node::delivery::allowance::{Allowance, Permit};
use crate::node::delivery::handler::{TransactionScope, Work};
use crate::node::delivery::key_hashes::KeyHashes;
use crate::node::delivery::limiter::Limiter;
use crate::node::delivery::type_handlers::TypeHandlers;

/// The events of a shared subscriber in one transaction, unless set otherwise. That saves most of
/// the commits, and repeats little work if one event fails.
const SHARED_TRANSACTION: u32 = 10;

pub(in crate::node) struct SubscriptionPlan {
    pub(in crate::node) subscriber_id: String,
    pub(in crate::node) config: ReliableDeliveryConfig,
    pub(in crate::node) mode: SubscriberMode,
    /// How many events, batches or transactions this node handles at once.
    pub(in crate::node) concurrency: u32,
    /// The partitions that this instance owns, if the group does not share them out.
    pub(in crate::node) assigned: Option<Vec<u32>>,
    /// How a worker claims events, if the subscriber is shared.
    pub(in crate::node) claims: Claims,
    pub(in crate::node) filter: Filter,
    pub(in crate::node) work: Work,
    /// The most events and the most bytes that one call of a batch handler gets. A single event may
    /// be larger.
    pub(in crate::node) at_once: Option<(usize, usize)>,
    /// Hashes of keys, shared by the subscriber's partitions on this node.
    pub(in crate::node) hashes: KeyHashes,
    /// The rate limit, made from the configuration at the start.
    pub(in crate::node) limiter: Limiter,
    /// How many events this node handles before it stops. `None`: no limit.
    pub(in crate::node) allowance: Option<Arc<Allowance>>,
}

/// How a worker of a shared subscriber claims events.
#[derive(Debug, Clone)]
pub(in crate::node) struct Claims {
    pub(in crate::node) visibility: Duration,
    /// Events that are claimed ahead of those that are being handled. `None`: the worker decides by
    /// how fast events are handled.
    pub(in crate::node) prefetch: Option<u32>,
    /// The events of one batch or transaction.
    pub(in crate::node) batch_size: Option<u32>,
    /// Event types that are claimed before others.
    pub(in crate::node) priority: Vec<String>,
}

impl Default for Claims {
    fn default() -> Self {
        Claims { visibility: Duration::from_secs(30), prefetch: None, batch_size: None, priority: Vec::new() }
    }
}

/// Selects the subscriber's events. The other events are settled without it.
#[derive(Debug, Clone, Default)]
pub(in crate::node) struct Filter {
    /// The event types. Empty: every type.
    pub(in crate::node) event_types: Vec<String>,
    pub(in crate::node) stream_prefix: Option<String>,
    /// The handlers by event type, which decide by themselves which events they want.
    pub(in crate::node) handlers: Option<Arc<TypeHandlers>>,
}

impl Filter {
    /// The types that the subscriber is limited to. Empty: that is not known here.
    pub(in crate::node) fn types(&self) -> &[String] {
        if self.handlers.is_some() { &[] } else { &self.event_types }
    }

    pub(in crate::node) fn wants(&self, event: &RecordedEvent) -> bool {
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

impl SubscriptionPlan {
    /// The configuration that the store registers.
    pub(in crate::node) fn registered_as(&self) -> SubscriberConfig {
        let event_types = match (self.mode, self.filter.types()) {
            // A worker of all types widens a queue that took only some. If it did not say so, the
            // queue would settle the others without it.
            (SubscriberMode::Shared, []) => vec!["*".to_owned()],
            // What it claims before others is part of what it takes.
            (SubscriberMode::Shared, types) => [types, &self.claims.priority].concat(),
            _ => Vec::new(),
        };
        SubscriberConfig {
            event_types,
            ..SubscriberConfig::new(&self.subscriber_id, self.config.start_from, self.mode)
        }
    }

    /// Whether effects commit in the transaction of the checkpoint or the ack.
    pub(in crate::node) fn is_transactional(&self) -> bool {
        matches!(self.work, Work::Transaction { .. })
    }

    pub(in crate::node) fn validate(&self) -> Result<(), SubscriberError> {
        names::check_subscriber_id(&self.subscriber_id)?;
        self.config.validate()?;
        for event_type in &self.filter.event_types {
            names::check_event_type(event_type)?;
        }
        if !(1..=1_000).contains(&self.concurrency) {
            let (id, what) =
                (&self.subscriber_id, if self.mode == SubscriberMode::Shared { "workers" } else { "concurrency" });
            let message = format!("subscriber {id:?}: invalid {what} {}: it is 1 to 1000", self.concurrency);
            return Err(SubscriberError::InvalidInput(message));
        }
        if let Some((0, _)) = self.at_once {
            let message = format!("subscriber {:?}: invalid at_once 0: it is 1 event or more", self.subscriber_id);
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
                return invalid(format!("event type {event_type:?} has priority, but it does not handle this type"));
            }
        }
        if self.config.on_exhaustion != OnExhaustion::DeadLetter {
            return invalid("the events of a shared subscriber have no order: on_exhaustion is DeadLetter".into());
        }
        Ok(())
    }

    fn validate_partitions(&self) -> Result<(), SubscriberError> {
        let invalid =
            |what: String| Err(SubscriberError::InvalidInput(format!("subscriber {:?}: {what}", self.subscriber_id)));
        let SubscriberMode::Partitioned { partitions } = self.mode else { return Ok(()) };
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

    /// How many of the next events, given their weights, one call of a batch handler may get.
    pub(in crate::node) fn fit_together(&self, weights: impl Iterator<Item = usize>) -> usize {
        let Some((events, most)) = self.at_once else { return weights.count() };
        let mut bytes = 0_usize;
        let fits = |weight: &usize| {
            bytes = bytes.saturating_add(*weight);
            bytes <= most
        };
        weights.take(events).take_while(fits).count().max(1)
    }

    /// Returns permits for at most this many events, as far as there are any. `first` is one that
    /// the caller has already.
    pub(in crate::node) fn permits_for(&self, events: usize, first: Option<Permit>) -> Vec<Permit> {
        let more = self.allowance.iter().flat_map(|allowance| std::iter::from_fn(|| allowance.take()));
        first.into_iter().chain(more).take(events).collect()
    }

    /// The most events of one call of a shared subscriber's handler, or of one transaction.
    pub(in crate::node) fn events_at_once(&self) -> usize {
        let batch_size = |default| self.claims.batch_size.unwrap_or(default) as usize;
        match &self.work {
            Work::Each(_) | Work::Transaction { per: TransactionScope::Event, .. } => 1,
            Work::Batch(_) => batch_size(self.config.catch_up_batch_size),
            Work::Transaction { .. } => batch_size(SHARED_TRANSACTION),
        }
    }
}
