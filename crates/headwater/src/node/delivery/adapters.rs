//! Turns the handlers that users write (observers, closures, `async fn`s) into handlers with erased
//! types.

use std::marker::PhantomData;
use std::sync::Arc;

use async_trait::async_trait;
use headwater_core::{Delivery, EventObserver, HandlerError, Observed, RecordedEvent};

use crate::node::delivery::handler::{Handle, HandleInTransaction};
use crate::node::delivery::open_transaction::{OpenTransaction, Transaction};

/// A handler as the user wrote it, and the type of the data that it takes.
pub(in crate::node) struct Typed<D, H> {
    handler: H,
    namespace: Arc<str>,
    data: PhantomData<fn() -> D>,
}

impl<D: Observed, H> Typed<D, H> {
    pub(in crate::node) fn new(handler: H, namespace: &Arc<str>) -> Self {
        Typed { handler, namespace: namespace.clone(), data: PhantomData }
    }

    fn delivery(&self, events: &[Arc<RecordedEvent>], redeliveries: &[u32]) -> Result<Delivery<D>, HandlerError> {
        let event = events.first().ok_or_else(|| HandlerError::message("a handler was given no event"))?;
        Delivery::observe(event, &self.namespace, redeliveries.first().copied().unwrap_or_default())
    }

    fn deliveries(
        &self,
        events: &[Arc<RecordedEvent>],
        redeliveries: &[u32],
    ) -> Result<Vec<Delivery<D>>, HandlerError> {
        let redeliveries = redeliveries.iter().copied().chain(std::iter::repeat(0));
        events.iter().zip(redeliveries).map(|(event, count)| Delivery::observe(event, &self.namespace, count)).collect()
    }
}

/// An observer or a projection.
pub(in crate::node) struct Observer<O>(pub(in crate::node) O);
/// A function of one event.
pub(in crate::node) struct Each<F>(pub(in crate::node) F);
/// A function of many events.
pub(in crate::node) struct Batch<F>(pub(in crate::node) F);

#[async_trait]
impl<D: Observed, O: EventObserver<D>> Handle for Typed<D, Observer<O>> {
    async fn handle(&self, events: &[Arc<RecordedEvent>], redeliveries: &[u32]) -> Result<(), HandlerError> {
        self.handler.0.on_event(self.delivery(events, redeliveries)?).await
    }
}

#[async_trait]
impl<D, F, R> Handle for Typed<D, Each<F>>
where
    D: Observed,
    F: Fn(Delivery<D>) -> R + Send + Sync,
    R: Future<Output = Result<(), HandlerError>> + Send,
{
    async fn handle(&self, events: &[Arc<RecordedEvent>], redeliveries: &[u32]) -> Result<(), HandlerError> {
        (self.handler.0)(self.delivery(events, redeliveries)?).await
    }
}

#[async_trait]
impl<D, F, R> Handle for Typed<D, Batch<F>>
where
    D: Observed,
    F: Fn(Vec<Delivery<D>>) -> R + Send + Sync,
    R: Future<Output = Result<(), HandlerError>> + Send,
{
    async fn handle(&self, events: &[Arc<RecordedEvent>], redeliveries: &[u32]) -> Result<(), HandlerError> {
        (self.handler.0)(self.deliveries(events, redeliveries)?).await
    }
}

#[async_trait]
impl<D, F, R> HandleInTransaction for Typed<D, Each<F>>
where
    D: Observed,
    F: Fn(Delivery<D>, Transaction) -> R + Send + Sync,
    R: Future<Output = Result<(), HandlerError>> + Send,
{
    async fn handle(
        &self,
        events: &[Arc<RecordedEvent>],
        redeliveries: &[u32],
        tx: &mut OpenTransaction,
    ) -> Result<(), HandlerError> {
        let delivery = self.delivery(events, redeliveries)?;
        tx.lend(|tx| (self.handler.0)(delivery, tx)).await
    }
}

#[async_trait]
impl<D, F, R> HandleInTransaction for Typed<D, Batch<F>>
where
    D: Observed,
    F: Fn(Vec<Delivery<D>>, Transaction) -> R + Send + Sync,
    R: Future<Output = Result<(), HandlerError>> + Send,
{
    async fn handle(
        &self,
        events: &[Arc<RecordedEvent>],
        redeliveries: &[u32],
        tx: &mut OpenTransaction,
    ) -> Result<(), HandlerError> {
        let deliveries = self.deliveries(events, redeliveries)?;
        tx.lend(|tx| (self.handler.0)(deliveries, tx)).await
    }
}
