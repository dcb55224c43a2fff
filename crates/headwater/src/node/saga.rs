//! Sagas, as transactional handlers: state, answers and checkpoint in one transaction.

use std::marker::PhantomData;
use std::sync::Arc;

use async_trait::async_trait;
use headwater_core::{Event, HandlerError, Observed, Saga, SagaActions};
use headwater_postgres::{PgLog, PgStateStore};

use super::handler::{InTransaction, observe};
use super::lent::Lent;

pub(super) struct SagaHandler<D, S: Saga<D>>
where
    D: Observed,
{
    pub(super) saga: S,
    pub(super) states: PgStateStore<S::State>,
    pub(super) log: PgLog,
    pub(super) data: PhantomData<fn() -> D>,
}

#[async_trait]
impl<D: Observed, S: Saga<D>> InTransaction for SagaHandler<D, S> {
    async fn handle(&self, event: &Arc<Event>, tx: &mut Lent) -> Result<(), HandlerError> {
        let event = observe::<D>(event)?;
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
