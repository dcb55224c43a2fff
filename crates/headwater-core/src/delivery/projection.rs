//! Projections: a state an id, built from events.

use std::sync::Arc;

use async_trait::async_trait;

use super::{EventObserver, HandlerError, Observed, StateStore, SubscriberId};
use crate::Event;

/// How an event changes a state. Pure: no I/O, the same answer every time.
pub trait EventApplicator<D: Observed>: Send + Sync {
    /// What is built.
    type State: Send + Sync;

    /// Which state the event belongs to; `None`: to none. By default, that of its stream.
    fn state_id(&self, event: &Event<D>) -> Option<String> {
        event.stream_id.as_ref().map(|stream| stream.to_string())
    }

    /// The state after the event; `None` deletes it. It is called again with a newer state if another event changed the state meanwhile.
    fn apply(&self, state: Option<Self::State>, event: &Event<D>) -> Result<Option<Self::State>, HandlerError>;
}

/// A state an id, built from events and kept in a store. Every projection is an [`EventObserver`].
pub trait Projection<D: Observed>: EventApplicator<D> + SubscriberId {
    /// Where the states are.
    type Store: StateStore<Self::State>;

    /// The store.
    fn state_store(&self) -> &Self::Store;
}

#[async_trait]
impl<D: Observed, P: Projection<D>> EventObserver<D> for P {
    fn subscriber_id(&self) -> &str {
        SubscriberId::subscriber_id(self)
    }

    async fn on_event(&self, event: Arc<Event<D>>) -> Result<(), HandlerError> {
        let Some(id) = self.state_id(&event) else { return Ok(()) };
        self.state_store().update(&id, event.global_sequence, &|state| self.apply(state, &event)).await
    }
}
