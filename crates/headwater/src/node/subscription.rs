//! A subscriber as a node was told to run it.

use headwater_core::{Event, ReliableDeliveryConfig, SubscriberError, SubscriberMode, names};

use super::handler::{TransactionScope, Work};

pub(super) struct Subscription {
    pub(super) subscriber_id: String,
    pub(super) config: ReliableDeliveryConfig,
    pub(super) mode: SubscriberMode,
    pub(super) filter: Filter,
    pub(super) work: Work,
}

/// Which events are the subscriber's. The others are settled without it.
#[derive(Debug, Clone, Default)]
pub(super) struct Filter {
    /// Empty: every type.
    pub(super) event_types: Vec<String>,
    pub(super) stream_prefix: Option<String>,
}

impl Filter {
    pub(super) fn wants(&self, event: &Event) -> bool {
        (self.event_types.is_empty() || self.event_types.contains(&event.event_type))
            && self
                .stream_prefix
                .as_deref()
                .is_none_or(|prefix| event.stream_id.as_deref().is_some_and(|stream| stream.starts_with(prefix)))
    }
}

impl Subscription {
    pub(super) fn validate(&self) -> Result<(), SubscriberError> {
        names::check_subscriber_id(&self.subscriber_id)?;
        self.config.validate()?;
        for event_type in &self.filter.event_types {
            names::check_event_type(event_type)?;
        }
        if self.config.concurrency > 1 && !matches!(self.work, Work::Each(_)) {
            return Err(SubscriberError::InvalidInput(format!(
                "invalid concurrency {} of subscriber {:?}: batch and transactional handlers handle one thing at a time",
                self.config.concurrency, self.subscriber_id
            )));
        }
        Ok(())
    }

    pub(super) fn transaction_scope(&mut self, scope: TransactionScope) -> bool {
        match &mut self.work {
            Work::Transaction(_, present) => *present = scope,
            Work::Each(_) | Work::Batch(_) => return false,
        }
        true
    }
}

/// What keeps events in order: the event's key, else its stream, else itself.
pub(super) fn order_key(event: &Event) -> String {
    let stream = event.stream_id.as_ref().map(|stream| stream.to_string());
    event.key.clone().or(stream).unwrap_or_else(|| event.id.to_string())
}
