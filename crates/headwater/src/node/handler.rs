//! Handlers of every kind, with their data types erased.

use std::marker::PhantomData;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use futures::future::BoxFuture;
use headwater_core::{Event, EventObserver, GroupBy, HandlerError, Observed};
use sqlx::PgConnection;

use super::handlers::HandledEvent;
use super::lent::Lent;

/// What is done with a subscriber's events.
#[derive(Clone)]
pub(super) enum Work {
    /// One at a time, or one a key at a time.
    Each(Arc<dyn Each>),
    /// Many at a time.
    Batch(Arc<dyn Batch>),
    /// In a transaction with the checkpoint.
    Transaction(Arc<dyn InTransaction>, TransactionScope),
}

/// What one transaction of a transactional handler holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionScope {
    /// One event.
    Event,
    /// As many events as are there, up to `catch_up_batch_size`; if one fails, each gets a transaction of its own.
    Batch,
    /// The events of a key (or else of a stream) among those that are there: a group, in order, whose effects are all there or none. What
    /// one transaction appended is never in two groups, however long: `catch_up_batch_size` is exceeded for it, up to 64 MiB of events of one key,
    /// and others may have appended any number of events in between. A group that fails is tried again; then
    /// [`on_group_failure`](headwater_core::ReliableDeliveryConfig::on_group_failure) decides.
    Key,
    /// As [`Key`](TransactionScope::Key), for the events of a key that one actor caused. Where events of another actor come between, they
    /// are several groups, so that the key's events stay in order; but if those of one transaction are around them, all of them are one.
    KeyAndActor,
}

impl TransactionScope {
    /// What keeps the events of a transaction together, if it is something they have.
    pub(super) fn group_by(self) -> Option<GroupBy> {
        match self {
            TransactionScope::Event | TransactionScope::Batch => None,
            TransactionScope::Key => Some(GroupBy::Key),
            TransactionScope::KeyAndActor => Some(GroupBy::KeyAndActor),
        }
    }
}

#[async_trait]
pub(super) trait Each: Send + Sync {
    /// `redeliveries`: how often the event was delivered before, as far as is known.
    async fn handle(&self, event: &Arc<Event>, redeliveries: u32) -> Result<(), HandlerError>;
}

#[async_trait]
pub(super) trait Batch: Send + Sync {
    /// `redeliveries`: how often each event was delivered before, as far as is known; empty: none of them was.
    async fn handle(&self, events: &[Arc<Event>], redeliveries: &[u32]) -> Result<(), HandlerError>;
}

#[async_trait]
pub(super) trait InTransaction: Send + Sync {
    async fn handle(&self, event: &Arc<Event>, tx: &mut Lent) -> Result<(), HandlerError>;
}

/// An observer, whatever it observes.
pub(super) struct Observer<D, O> {
    pub(super) observer: O,
    pub(super) data: PhantomData<fn() -> D>,
}

#[async_trait]
impl<D: Observed, O: EventObserver<D>> Each for Observer<D, O> {
    async fn handle(&self, event: &Arc<Event>, _: u32) -> Result<(), HandlerError> {
        self.observer.on_event(observe(event)?).await
    }
}

/// A closure for batches.
pub(super) struct BatchFn<D, F> {
    pub(super) handler: F,
    pub(super) data: PhantomData<fn() -> D>,
}

#[async_trait]
impl<D, F, R> Batch for BatchFn<D, F>
where
    D: Observed,
    F: Fn(Vec<Arc<Event<D>>>) -> R + Send + Sync,
    R: Future<Output = Result<(), HandlerError>> + Send,
{
    async fn handle(&self, events: &[Arc<Event>], _: &[u32]) -> Result<(), HandlerError> {
        let events = events.iter().map(observe).collect::<Result<Vec<_>, _>>()?;
        (self.handler)(events).await
    }
}

/// A closure for batches that is told what is known of each delivery.
pub(super) struct DeliveriesFn<F> {
    pub(super) handler: F,
    pub(super) namespace: Arc<str>,
}

#[async_trait]
impl<F, R> Batch for DeliveriesFn<F>
where
    F: Fn(Vec<HandledEvent>) -> R + Send + Sync,
    R: Future<Output = Result<(), HandlerError>> + Send,
{
    async fn handle(&self, events: &[Arc<Event>], redeliveries: &[u32]) -> Result<(), HandlerError> {
        let redeliveries = redeliveries.iter().copied().chain(std::iter::repeat(0));
        let deliveries = events.iter().zip(redeliveries);
        let deliveries =
            deliveries.map(|(event, count)| HandledEvent::new(event.clone(), self.namespace.clone(), count));
        (self.handler)(deliveries.collect()).await
    }
}

/// A closure with a transaction.
pub(super) struct TransactionFn<D, F> {
    pub(super) handler: F,
    pub(super) data: PhantomData<fn() -> D>,
}

#[async_trait]
impl<D, F> InTransaction for TransactionFn<D, F>
where
    D: Observed,
    F: for<'t> Fn(Arc<Event<D>>, &'t mut PgConnection) -> BoxFuture<'t, Result<(), HandlerError>> + Send + Sync,
{
    async fn handle(&self, event: &Arc<Event>, tx: &mut Lent) -> Result<(), HandlerError> {
        (self.handler)(observe(event)?, tx).await
    }
}

/// What cannot be decoded now cannot be decoded a second later.
pub(super) fn observe<D: Observed>(event: &Arc<Event>) -> Result<Arc<Event<D>>, HandlerError> {
    D::observe(event).map_err(HandlerError::permanent)
}

/// Runs a handler: a panic is an error, and so is taking too long.
pub(super) async fn guarded(
    handling: impl Future<Output = Result<(), HandlerError>>,
    limit: Duration,
) -> Result<(), HandlerError> {
    let handling = AssertUnwindSafe(handling).catch_unwind();
    tokio::pin!(handling);
    // Most handlers that only touch memory are done at once: they need no timer.
    let outcome = match futures::poll!(&mut handling) {
        std::task::Poll::Ready(outcome) => outcome,
        std::task::Poll::Pending => match tokio::time::timeout(limit, handling).await {
            Ok(outcome) => outcome,
            Err(_) => return Err(HandlerError::message(format!("took longer than handler_timeout {limit:?}"))),
        },
    };
    outcome.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| text.to_string());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Err(HandlerError::message(format!("panicked: {text}")))
    })
}
