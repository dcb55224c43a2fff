//! A state per stream, built by a pure function.

use std::marker::PhantomData;
use std::sync::Arc;

use async_trait::async_trait;
use headwater_core::{Event, HandlerError, MemoryStateStore, Observed, RecordedEvent, StateStore};
use headwater_postgres::PgStateStore;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::node::delivery::handler::Handle;

/// A projection from a pure function.
pub(in crate::node) struct ProjectionHandler<D, S, F> {
    change: F,
    states: Box<dyn StateStore<S>>,
    data: PhantomData<fn() -> D>,
}

impl<D, S, F> ProjectionHandler<D, S, F>
where
    D: Observed,
    S: Clone + Serialize + DeserializeOwned + Send + Sync + 'static,
    F: Fn(Option<S>, &Event<D>) -> Option<S> + Send + Sync + 'static,
{
    /// Returns the handler. The states are in PostgreSQL if there is a store there, otherwise in
    /// memory.
    pub(in crate::node) fn handler(change: F, states: Option<PgStateStore<S>>) -> Arc<dyn Handle> {
        let states: Box<dyn StateStore<S>> = match states {
            Some(states) => Box::new(states),
            None => Box::new(MemoryStateStore::new()),
        };
        Arc::new(ProjectionHandler { change, states, data: PhantomData::<fn() -> D> })
    }
}

#[async_trait]
impl<D, S, F> Handle for ProjectionHandler<D, S, F>
where
    D: Observed,
    S: Send + Sync + 'static,
    F: Fn(Option<S>, &Event<D>) -> Option<S> + Send + Sync,
{
    async fn handle(&self, events: &[Arc<RecordedEvent>], _: &[u32]) -> Result<(), HandlerError> {
        for event in events {
            let event = D::observe(event).map_err(HandlerError::permanent)?;
            if let Some(stream) = &event.stream_id {
                let change = |state| Ok((self.change)(state, &event));
                self.states.update(stream.as_ref(), event.global_sequence, &change).await?;
            }
        }
        Ok(())
    }
}
