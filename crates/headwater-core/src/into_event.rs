//! Values that can be appended: data, events with data, and raw events.

use crate::{Event, EventData, JsonError};

/// A value that becomes an event with its data as JSON: an [`Event`] with typed or raw data, or
/// [`EventData`] alone.
pub trait IntoEvent {
    /// The event, ready to be appended.
    fn into_event(self) -> Result<Event, JsonError>;
}

impl IntoEvent for Event {
    fn into_event(self) -> Result<Event, JsonError> {
        Ok(self)
    }
}

impl<D: EventData> IntoEvent for Event<D> {
    fn into_event(self) -> Result<Event, JsonError> {
        self.encode()
    }
}

impl<D: EventData> IntoEvent for D {
    fn into_event(self) -> Result<Event, JsonError> {
        Event::from(self).encode()
    }
}
