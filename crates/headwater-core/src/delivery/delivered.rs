//! What a handler gets: an event, and what is known about this delivery of it.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::{HandlerError, Observed};
use crate::{EventEnvelope, Json, RecordedEvent};

/// An event on its way to a handler. It derefs to the [`RecordedEvent`] and adds facts about this
/// delivery. A clone shares the event.
///
/// `D` is the type of the event's data: one that implements [`EventData`](crate::EventData), or
/// [`Json`] for events of any type, undecoded.
pub struct Delivery<D = Json> {
    event: Arc<RecordedEvent<D>>,
    namespace: Arc<str>,
    redelivery_count: u32,
}

impl<D> Delivery<D> {
    /// A delivery of an event that was read. Nodes make deliveries, and so do tests of handlers.
    pub fn new(event: impl Into<Arc<RecordedEvent<D>>>, namespace: impl Into<Arc<str>>, redelivery_count: u32) -> Self {
        Delivery { event: event.into(), namespace: namespace.into(), redelivery_count }
    }

    /// How often the event was delivered before, as far as that is known. 0: this is the first
    /// time.
    pub fn redelivery_count(&self) -> u32 {
        self.redelivery_count
    }

    /// The event's place in the log, its `global_sequence`.
    pub fn message_id(&self) -> u64 {
        self.event.sequence().into()
    }

    /// The namespace of the log that has the event.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The event itself, to keep it beyond the handler.
    pub fn event(&self) -> &Arc<RecordedEvent<D>> {
        &self.event
    }
}

impl<D: Observed> Delivery<D> {
    /// A delivery of the event with decoded data. Data that cannot be decoded now cannot be decoded
    /// later, so the error is permanent.
    pub fn observe(
        event: &Arc<RecordedEvent>,
        namespace: &Arc<str>,
        redelivery_count: u32,
    ) -> Result<Self, HandlerError> {
        let event = D::observe(event).map_err(HandlerError::permanent)?;
        Ok(Delivery { event, namespace: namespace.clone(), redelivery_count })
    }
}

impl Delivery<Json> {
    /// Decodes the data as a type of your own. Data that does not fit the type now does not fit it
    /// later, so the error is permanent.
    pub fn payload<T: DeserializeOwned>(&self) -> Result<T, HandlerError> {
        self.event.data.clone().unwrap_or_else(Json::null).decode().map_err(HandlerError::permanent)
    }

    /// The event in the form that consumers of a message bus expect.
    pub fn envelope(&self) -> EventEnvelope {
        EventEnvelope::of(&*self.namespace, &self.event, Some(self.redelivery_count))
    }
}

impl<D> Deref for Delivery<D> {
    type Target = RecordedEvent<D>;

    fn deref(&self) -> &RecordedEvent<D> {
        &self.event
    }
}

// Written by hand, because a derive would require `D: Clone`.
impl<D> Clone for Delivery<D> {
    fn clone(&self) -> Self {
        Delivery {
            event: self.event.clone(),
            namespace: self.namespace.clone(),
            redelivery_count: self.redelivery_count,
        }
    }
}

impl<D: fmt::Debug> fmt::Debug for Delivery<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery")
            .field("event", &self.event)
            .field("redelivery_count", &self.redelivery_count)
            .finish_non_exhaustive()
    }
}
