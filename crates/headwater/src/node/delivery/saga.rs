//! Sagas as transactional handlers: state, answers and checkpoint commit in one transaction.

use std::marker::PhantomData;
use std::sync::Arc;

use async_trait::async_trait;
use headwater_core::{HandlerError, Observed, RecordedEvent, Saga, SagaActions};
use headwater_postgres::{PgLog, PgStateStore};

use crate::node::delivery::handler::HandleInTransaction;
use crate::node::delivery::open_transaction::OpenTransaction;

pub(in crate::node) struct SagaHandler<D, S: Saga<D>>
where
    D: Observed,
{
    pub(in crate::node) saga: S,
    pub(in crate::node) states: PgStateStore<S::State>,
    pub(in crate::node) log: PgLog,
    pub(in crate::node) data: PhantomData<fn() -> D>,
}

#[async_trait]
impl<D: Observed, S: Saga<D>> HandleInTransaction for SagaHandler<D, S> {
    async fn handle(
        &self,
        events: &[Arc<RecordedEvent>],
        _: &[u32],
        tx: &mut OpenTransaction,
    ) -> Result<(), HandlerError> {
        let Some(event) = events.first() else { return Ok(()) };
        let event = D::observe(event).map_err(HandlerError::permanent)?;
        let Some(id) = self.saga.state_id(&event) else { return Ok(()) };
        let state = self.states.get_in(tx, &id).await?;
        let mut actions = SagaActions::default();
        let state = self.saga.on_event(state, &event, &mut actions).await?;
        self.states.put_in(tx, &id, state.as_ref()).await?;
        if let Some(append) = actions.into_append(&event) {
            self.log.append_in(tx, &append).await?;
        }
        Ok(())
    }
}
