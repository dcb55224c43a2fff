//! Observers: code that gets events.

use std::sync::Arc;

use super::{Delivery, HandlerError};
use crate::{DecodeError, EventData, Json, RecordedEvent};

/// The name of a subscriber: a **pool** of instances that share its progress, in one process or
/// many.
///
/// Derive it: the id is the type's name in kebab case. You can set a prefix or another name.
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

/// What an observer can get: decoded data, or [`Json`] for events of any type, undecoded.
pub trait Observed: Send + Sync + Sized + 'static {
    /// The event types that can become this type. Empty: every type.
    const EVENT_TYPES: &'static [&'static str];

    /// The event with its data as this type.
    fn observe(event: &Arc<RecordedEvent>) -> Result<Arc<RecordedEvent<Self>>, DecodeError>;
}

impl<D: EventData> Observed for D {
    const EVENT_TYPES: &'static [&'static str] = <D as EventData>::EVENT_TYPES;

    fn observe(event: &Arc<RecordedEvent>) -> Result<Arc<RecordedEvent<D>>, DecodeError> {
        event.decode_ref().map(Arc::new)
    }
}

impl Observed for Json {
    const EVENT_TYPES: &'static [&'static str] = &[];

    fn observe(event: &Arc<RecordedEvent>) -> Result<Arc<RecordedEvent<Json>>, DecodeError> {
        Ok(event.clone())
    }
}

/// Gets events, one at a time and in order, each at least once.
///
/// `D` says which events: the variants of an enum, or of a subset of one that the observer
/// declares, or [`Json`] for all. An event counts as handled when `on_event` returns `Ok`. If a
/// crash comes before that is written, the event is delivered again. So a second delivery must do
/// no harm, or use a transactional handler instead.
///
/// ```
/// use headwater_core::{Delivery, EventObserver, HandlerError};
///
/// struct Audit;
///
/// impl EventObserver for Audit {
///     fn subscriber_id(&self) -> &str {
///         "audit"
///     }
///
///     async fn on_event(&self, event: Delivery) -> Result<(), HandlerError> {
///         println!("{} {}", event.message_id(), event.event_type);
///         Ok(())
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an observer of `{D}`",
    note = "an observer is a type that implements `EventObserver` or `Projection`, and names itself",
    note = "for a closure or an `async fn`, write `Subscription::new(\"its-id\").each(handler)`"
)]
pub trait EventObserver<D: Observed = Json>: Send + Sync {
    /// The subscriber's id. Instances with the same id share one progress.
    fn subscriber_id(&self) -> &str;

    /// Handles an event.
    fn on_event(&self, event: Delivery<D>) -> impl Future<Output = Result<(), HandlerError>> + Send;
}
