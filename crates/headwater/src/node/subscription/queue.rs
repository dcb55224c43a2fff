//! A queue: competing workers, in no order.

use std::marker::PhantomData;
use std::time::Duration;

use headwater_core::{
    Delivery, EventObserver, HandlerError, Observed, ReliableDeliveryConfig, StartFrom, SubscriberMode,
};

use super::settings::{
    Batch, Boxed, Each, NoHandler, Runnable, Settings, State, Transactional, sealed, shared_settings,
};
use crate::node::delivery::adapters::{self, Observer};
use crate::node::delivery::handler::{Takes, TransactionScope, Work};
use crate::node::delivery::open_transaction::Transaction;

/// A work queue: each event goes to exactly one worker of all nodes that run the queue, in no
/// particular order. [`NodeBuilder::run`](crate::node::NodeBuilder::run) runs it.
///
/// An event stays with its worker while that handles it, and for the [visibility
/// timeout](Queue::visibility) after the worker was last heard of. One that fails is tried again,
/// by any worker, and becomes a dead letter after the last retry. Work of one key that must stay in
/// order is for a [`Subscription`](crate::Subscription) with
/// [`partitions`](crate::Subscription::partitions).
///
/// ```no_run
/// use std::time::Duration;
///
/// use headwater::{Delivery, HandlerError, Namespace, Queue};
///
/// async fn thumbnail(upload: Delivery) -> Result<(), HandlerError> {
///     println!("{}", upload.data_text());
///     Ok(())
/// }
///
/// # async fn run(shop: Namespace) -> Result<(), Box<dyn std::error::Error>> {
/// let thumbnails =
/// Queue::new("thumbnails").workers(32).visibility(Duration::from_secs(60)).each(thumbnail);
/// let node = shop.node("worker-1").run(thumbnails).start().await?;
/// # node.shutdown().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a queue does nothing until a node runs it"]
pub struct Queue<H = NoHandler> {
    pub(super) settings: Settings,
    state: State<H>,
}

shared_settings!(Queue);

impl Queue<NoHandler> {
    /// The queue of this subscriber id. All its workers, on any node, share its events.
    pub fn new(subscriber_id: impl Into<String>) -> Self {
        Queue { settings: Settings::new(subscriber_id, SubscriberMode::Shared), state: PhantomData }
    }

    /// Gives a worker one event at a time.
    pub fn each<D, F, R>(self, handler: F) -> Queue<Each>
    where
        D: Observed,
        F: Fn(Delivery<D>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        self.becomes(|settings| settings.plain::<D, _>(adapters::Each(handler), Work::Each))
    }

    /// Gives a worker as many events at once as are there, up to the [batch
    /// size](Queue::batch_size). All are acked when the handler returns. If it fails, it is given
    /// them one by one, and those that fail then are tried again later, by any worker.
    pub fn batch<D, F, R>(self, handler: F) -> Queue<Batch>
    where
        D: Observed,
        F: Fn(Vec<Delivery<D>>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        self.becomes(|settings| settings.plain::<D, _>(adapters::Batch(handler), Work::Batch))
    }

    /// Gives a worker each event with the transaction that also acks it: what it does in that
    /// transaction happens exactly once, however often the event comes.
    ///
    /// For speed, a transaction holds up to 10 events ([`batch_size`](Queue::batch_size)). If one
    /// of them fails, all are rolled back, and each gets a transaction of its own. Each worker
    /// holds a connection of the pool.
    pub fn transactional<D, F, R>(self, handler: F) -> Queue<Transactional>
    where
        D: Observed,
        F: Fn(Delivery<D>, Transaction) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        let handler = adapters::Each(handler);
        self.becomes(|settings| settings.transactional::<D, _>(handler, TransactionScope::Batch, Takes::One))
    }

    /// As [`transactional`](Queue::transactional), with all events of the transaction in one call.
    pub fn transactional_batch<D, F, R>(self, handler: F) -> Queue<Transactional>
    where
        D: Observed,
        F: Fn(Vec<Delivery<D>>, Transaction) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        let handler = adapters::Batch(handler);
        self.becomes(|settings| settings.transactional::<D, _>(handler, TransactionScope::Batch, Takes::Many))
    }
}

impl Queue<Each> {
    /// A queue whose workers are an observer. It names the queue itself.
    pub fn of<D: Observed, O: EventObserver<D> + 'static>(worker: O) -> Self {
        let queue = Queue::new(worker.subscriber_id());
        queue.becomes(|settings| settings.plain::<D, _>(Observer(worker), Work::Each))
    }
}

impl<H> Queue<H> {
    fn becomes<T>(self, change: impl FnOnce(Settings) -> Settings) -> Queue<T> {
        Queue { settings: change(self.settings), state: PhantomData }
    }

    /// How many events, batches or transactions are handled at once on this node. Default: 1.
    pub fn workers(mut self, workers: u32) -> Self {
        self.settings.concurrency = workers;
        self
    }

    /// How long an event stays with a worker that is not heard of. Default: 30 s.
    pub fn visibility(mut self, visibility: Duration) -> Self {
        self.settings.claims.visibility = visibility;
        self
    }

    /// How many events this node claims ahead of those that it handles, so that the next are there
    /// when they are done. Other nodes do not get these meanwhile. 0: it claims only what it
    /// handles.
    ///
    /// Default: as many as it handles in about 100 ms, at most 1,000, so none where an event takes
    /// longer; what was not begun after half of the visibility timeout is handed back. In any case
    /// about 32 MiB of events.
    pub fn prefetch(mut self, events: u32) -> Self {
        self.settings.claims.prefetch = Some(events);
        self
    }

    /// Event types that go before all others that wait. Whenever the node claims, it looks for them
    /// first, also while it has others claimed ahead. Where they come without end, the others wait
    /// without end.
    pub fn priority(mut self, event_types: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.settings.claims.priority = event_types.into_iter().map(Into::into).collect();
        self
    }
}

/// How many events a call or a transaction holds.
macro_rules! batch_size {
    ($($state:ident),*) => { $(
        impl Queue<$state> {
            /// How many events a batch or a transaction holds at most. Default: the
            /// [`catch_up_batch_size`](ReliableDeliveryConfig::catch_up_batch_size) of a batch, 10
            /// of a transaction.
            pub fn batch_size(mut self, events: u32) -> Self {
                self.settings.claims.batch_size = Some(events);
                self
            }
        }
    )* };
}
batch_size!(Batch, Transactional);
