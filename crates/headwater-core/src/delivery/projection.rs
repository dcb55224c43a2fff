//! Projections: one state per id, built from events.

use super::{Delivery, EventObserver, HandlerError, Observed, StateStore, SubscriberId};
use crate::Event;

/// How an event changes a state. It is pure: no I/O, and the same answer every time.
pub trait EventApplicator<D: Observed>: Send + Sync {
    /// The state that is built.
    type State: Send + Sync;

    /// The id of the state that the event changes. `None`: the event changes no state. By default,
    /// the id is the event's stream.
    fn state_id(&self, event: &Event<D>) -> Option<String> {
        event.stream_id.as_ref().map(|stream| stream.to_string())
    }

    /// The state after the event; `None` deletes it. If another event changed the state meanwhile,
    /// this is called again with the newer state.
    fn apply(&self, state: Option<Self::State>, event: &Event<D>) -> Result<Option<Self::State>, HandlerError>;
}

/// One state per id, built from events and kept in a store. Every projection is an
/// [`EventObserver`].
pub trait Projection<D: Observed>: EventApplicator<D> + SubscriberId {
    /// Where the states are.
    type Store: StateStore<Self::State>;

    /// The store.
    fn state_store(&self) -> &Self::Store;
}

impl<D: Observed, P: Projection<D>> EventObserver<D> for P {
    fn subscriber_id(&self) -> &str {
        SubscriberId::subscriber_id(self)
    }

    async fn on_event(&self, event: Delivery<D>) -> Result<(), HandlerError> {
        let Some(id) = self.state_id(&event) else { return Ok(()) };
        Ok(self.state_store().update(&id, event.global_sequence, &|state| self.apply(state, &event)).await?)
    }
}
