//! Who is told about events.

use std::sync::Arc;

use async_trait::async_trait;

use super::HandlerError;
use crate::{DecodeError, Event, EventData, Json};

/// The name of a subscriber: of a **pool** of instances that share its progress, in one process or many.
///
/// Derive it: the id is the type's name in kebab case, with a prefix or another name if you say so.
///
/// ```text
/// #[derive(SubscriberId)]
/// struct OrderTotals;                        // order-totals
///
/// #[derive(SubscriberId)]
/// #[subscriber_id(prefix = "projection")]
/// struct OrderTotals;                        // projection:order-totals
///
/// #[derive(SubscriberId)]
/// #[subscriber_id(name = "totals-v2")]
/// struct OrderTotals;                        // totals-v2
/// ```
pub trait SubscriberId: Send + Sync {
    /// The subscriber's id.
    fn subscriber_id(&self) -> &str;
}

/// What an observer can be given: decoded data, or, as [`Json`], events of any type as they are.
pub trait Observed: Send + Sync + Sized + 'static {
    /// The event types that it can be made of; empty: every type.
    const EVENT_TYPES: &'static [&'static str];

    /// The event with its data as this type.
    fn observe(event: &Arc<Event>) -> Result<Arc<Event<Self>>, DecodeError>;
}

impl<D: EventData> Observed for D {
    const EVENT_TYPES: &'static [&'static str] = <D as EventData>::EVENT_TYPES;

    fn observe(event: &Arc<Event>) -> Result<Arc<Event<D>>, DecodeError> {
        event.decode_ref().map(Arc::new)
    }
}

impl Observed for Json {
    const EVENT_TYPES: &'static [&'static str] = &[];

    fn observe(event: &Arc<Event>) -> Result<Arc<Event<Json>>, DecodeError> {
        Ok(event.clone())
    }
}

/// Is told about events, one at a time and in order, at least once each.
///
/// `D` says which: the variants of an enum, or of a subset of one that the observer declares; or [`Json`] for all.
/// An event counts as handled when `on_event` returns `Ok`; a crash before that is written brings it again, so handle events so that a
/// second time does no harm, or subscribe with a transaction.
#[async_trait]
pub trait EventObserver<D: Observed = Json>: Send + Sync {
    /// The subscriber's id: instances with the same id share one progress.
    fn subscriber_id(&self) -> &str;

    /// Handles an event.
    async fn on_event(&self, event: Arc<Event<D>>) -> Result<(), HandlerError>;
}
