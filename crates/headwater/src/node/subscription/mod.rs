//! Subscriptions and queues as values: each says by itself how events reach a handler.

mod partitions;
mod queue;
pub(in crate::node) mod settings;

use std::marker::PhantomData;
use std::time::Duration;

use headwater_core::{
    Bundle, CheckpointMode, Delivery, Event, EventObserver, HandlerError, InstanceMode, Observed, OnBundleFailure,
    OnExhaustion, ReliableDeliveryConfig, Saga, StartFrom, SubscriberMode,
};
use headwater_postgres::PgStateStore;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use self::partitions::Partitions;
pub use self::queue::Queue;
pub use self::settings::{Batch, Bundled, Each, NoHandler, Parallel, Runnable, Transactional};
use self::settings::{Boxed, Settings, State, sealed, shared_settings};
use crate::node::delivery::adapters::{self, Observer};
use crate::node::delivery::handler::{Takes, TransactionScope, Work};
use crate::node::delivery::open_transaction::Transaction;
use crate::node::delivery::projection::ProjectionHandler;
use crate::node::delivery::saga::SagaHandler;

/// How a program handles the events of a subscriber: which events, with what handler, how often it
/// is tried, how many at once. [`NodeBuilder::run`](crate::node::NodeBuilder::run) runs it.
///
/// Events come in order, at least once each; a transactional handler's effects happen exactly once.
/// A subscription is complete by itself, and the order of its methods does not matter. What cannot
/// be combined does not compile. For a work queue, whose events have no order, see [`Queue`].
///
/// ```no_run
/// use headwater::{Bundle, Delivery, Event, EventData, HandlerError, Namespace, Subscription, Transaction};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Debug, Clone, Serialize, Deserialize, EventData)]
/// enum OrderEvent {
///     Placed { total: u32 },
///     Shipped,
/// }
///
/// async fn index(order: Delivery<OrderEvent>) -> Result<(), HandlerError> {
///     println!("{:?}", order.data);
///     Ok(())
/// }
///
/// async fn write_mail(order: Delivery<OrderEvent>, mut tx: Transaction) -> Result<(),
/// HandlerError> {
///     sqlx::query("INSERT INTO mails (event_id) VALUES ($1)").bind(order.id).execute(&mut *tx).await?;
///     Ok(())
/// }
///
/// async fn book(orders: Vec<Delivery<OrderEvent>>, mut tx: Transaction) -> Result<(),
/// HandlerError> {
///     sqlx::query("INSERT INTO bookings (events) VALUES ($1)").bind(orders.len() as i64).execute(&mut *tx).await?;
///     Ok(())
/// }
///
/// fn total(total: Option<u32>, event: &Event<OrderEvent>) -> Option<u32> {
///     match &event.data {
///         Some(OrderEvent::Placed { total: more }) => Some(total.unwrap_or_default() + more),
///         _ => total,
///     }
/// }
///
/// # async fn run(shop: Namespace) -> Result<(), Box<dyn std::error::Error>> {
/// let node = shop
///     .node("billing-1")
///     .run(Subscription::project("order-totals", total))
///     .run(Subscription::new("mailer").transactional(write_mail))
///     .run(Subscription::new("search").partitions(16).concurrency(8).each(index))
///     .run(Subscription::new("ledger").bundled_by(Bundle::Key).transactional_batch(book))
///     .start()
///     .await?;
/// # node.shutdown().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a subscription does nothing until a node runs it"]
pub struct Subscription<H = NoHandler> {
    settings: Settings,
    state: State<H>,
}

shared_settings!(Subscription);

impl Subscription<NoHandler> {
    /// A subscription of this subscriber id. Instances with the same id share its progress.
    pub fn new(subscriber_id: impl Into<String>) -> Self {
        Subscription { settings: Settings::new(subscriber_id, SubscriberMode::Exclusive), state: PhantomData }
    }

    /// How many events of different keys are handled at once here. Events of one key are handled in
    /// order. Default: 1.
    pub fn concurrency(mut self, events: u32) -> Subscription<Parallel> {
        self.settings.concurrency = events;
        self.becomes(|settings| settings)
    }

    /// Puts the events of a key that one transaction appended into one transaction of the handler:
    /// all of their effects are there, or none. See [`Bundle`].
    pub fn bundled_by(mut self, bundle: Bundle) -> Subscription<Bundled> {
        self.settings.bundle = Some(bundle);
        self.becomes(|settings| settings)
    }

    /// Gives a handler one event at a time, in order.
    pub fn each<D, F, R>(self, handler: F) -> Subscription<Each>
    where
        D: Observed,
        F: Fn(Delivery<D>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        self.becomes(|settings| settings.plain::<D, _>(adapters::Each(handler), Work::Each))
    }

    /// Gives a handler as many events at once as are there, up to the [batch
    /// size](Subscription::batch_size), in order. If it fails, it is given them one by one.
    pub fn batch<D, F, R>(self, handler: F) -> Subscription<Batch>
    where
        D: Observed,
        F: Fn(Vec<Delivery<D>>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        self.becomes(|settings| settings.plain::<D, _>(adapters::Batch(handler), Work::Batch))
    }

    /// Gives a handler each event with the transaction that also moves the checkpoint: what it does
    /// in that transaction happens exactly once.
    pub fn transactional<D, F, R>(self, handler: F) -> Subscription<Transactional>
    where
        D: Observed,
        F: Fn(Delivery<D>, Transaction) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        let handler = adapters::Each(handler);
        self.becomes(|settings| settings.transactional::<D, _>(handler, TransactionScope::Event, Takes::One))
    }

    /// As [`transactional`](Subscription::transactional), with as many events at once as are there,
    /// up to the batch size. If it fails, each event gets a transaction of its own.
    pub fn transactional_batch<D, F, R>(self, handler: F) -> Subscription<Transactional>
    where
        D: Observed,
        F: Fn(Vec<Delivery<D>>, Transaction) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        let handler = adapters::Batch(handler);
        self.becomes(|settings| settings.transactional::<D, _>(handler, TransactionScope::Batch, Takes::Many))
    }
}

impl Subscription<Parallel> {
    /// Gives a handler one event of each key at a time.
    pub fn each<D, F, R>(self, handler: F) -> Subscription<Each>
    where
        D: Observed,
        F: Fn(Delivery<D>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        self.becomes(|settings| settings.plain::<D, _>(adapters::Each(handler), Work::Each))
    }
}

impl Subscription<Bundled> {
    /// Gives a handler the events of a bundle one by one, in order, in one transaction that also
    /// moves the checkpoint.
    pub fn transactional<D, F, R>(self, handler: F) -> Subscription<Transactional>
    where
        D: Observed,
        F: Fn(Delivery<D>, Transaction) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        let per = self.settings.scope();
        self.becomes(|settings| settings.transactional::<D, _>(adapters::Each(handler), per, Takes::One))
    }

    /// Gives a handler the events of a bundle together, in order, in one transaction that also
    /// moves the checkpoint.
    pub fn transactional_batch<D, F, R>(self, handler: F) -> Subscription<Transactional>
    where
        D: Observed,
        F: Fn(Vec<Delivery<D>>, Transaction) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        let per = self.settings.scope();
        self.becomes(|settings| settings.transactional::<D, _>(adapters::Batch(handler), per, Takes::Many))
    }

    /// What becomes of a bundle that failed too often:
    /// [`on_bundle_failure`](ReliableDeliveryConfig::on_bundle_failure).
    pub fn on_bundle_failure(mut self, decision: OnBundleFailure) -> Self {
        self.settings.change(move |config| config.on_bundle_failure = decision);
        self
    }
}

impl Subscription<Each> {
    /// Tells an observer or a projection about events, one at a time and in order. It names its
    /// subscriber itself.
    pub fn of<D: Observed, O: EventObserver<D> + 'static>(observer: O) -> Self {
        let subscription = Subscription::new(observer.subscriber_id());
        subscription.becomes(|settings| settings.plain::<D, _>(Observer(observer), Work::Each))
    }

    /// Builds a state per stream by a pure function: from the state before (`None`: there is none)
    /// and an event to the state after (`None` deletes it). The states are in
    /// [`Namespace::state_store`](crate::Namespace::state_store) of the same name; an event that
    /// comes again changes nothing. For other state ids and for errors, implement
    /// [`Projection`](crate::Projection).
    ///
    /// The events of a stream change its state in order. There is one exception: with
    /// [`concurrency`](Subscription::concurrency) or [`partitions`](Subscription::partitions), only
    /// events of the same key are in order. Events of one stream that have different keys may then
    /// change the state in any order. So use these two only if all events of a stream have the same
    /// key, or if none of them has one.
    pub fn project<D, S, F>(subscriber_id: impl Into<String>, change: F) -> Self
    where
        D: Observed,
        S: Clone + Serialize + DeserializeOwned + Send + Sync + 'static,
        F: Fn(Option<S>, &Event<D>) -> Option<S> + Send + Sync + 'static,
    {
        let subscription = Subscription::new(subscriber_id);
        let id = subscription.subscriber_id().to_owned();
        subscription.becomes(|settings| {
            settings.work::<D>(move |node| {
                let states =
                    node.postgres.as_ref().map(|log| PgStateStore::new(log.database().clone(), log.info(), id));
                Ok(Work::Each(ProjectionHandler::<D, S, F>::handler(change, states)))
            })
        })
    }

    /// How many events of different keys are handled at once here. Events of one key are handled in
    /// order. Default: 1.
    pub fn concurrency(mut self, events: u32) -> Self {
        self.settings.concurrency = events;
        self
    }
}

impl Subscription<Transactional> {
    /// Runs a saga: its state, what it appends and its checkpoint commit together. It names its
    /// subscriber itself.
    pub fn saga<D: Observed, S: Saga<D> + 'static>(saga: S) -> Self {
        let subscription = Subscription::new(saga.subscriber_id());
        let id = subscription.subscriber_id().to_owned();
        subscription.becomes(|settings| {
            settings.work::<D>(move |node| {
                let log = node.postgres("a saga")?.clone();
                let states = PgStateStore::new(log.database().clone(), log.info(), id);
                let handler = std::sync::Arc::new(SagaHandler { saga, states, log, data: PhantomData });
                Ok(Work::Transaction { handler, per: TransactionScope::Event, takes: Takes::One })
            })
        })
    }
}

impl<H> Subscription<H> {
    fn becomes<T>(self, change: impl FnOnce(Settings) -> Settings) -> Subscription<T> {
        Subscription { settings: change(self.settings), state: PhantomData }
    }

    /// Shares the events out by key: each instance owns its share of the partitions, and each key
    /// stays in order. The key is the event's, else its stream, else its id. The number is that of
    /// a new group; see [`SubscriberStore::resize`](crate::delivery::SubscriberStore) to change it.
    pub fn partitions(mut self, partitions: impl Into<Partitions>) -> Self {
        let Partitions { count, assigned } = partitions.into();
        self.settings.mode = SubscriberMode::Partitioned { partitions: count };
        self.settings.assigned = assigned;
        self
    }

    /// Most events that are taken at once, and that a batch handler is given:
    /// [`catch_up_batch_size`](ReliableDeliveryConfig::catch_up_batch_size).
    pub fn batch_size(mut self, events: u32) -> Self {
        self.settings.change(move |config| config.catch_up_batch_size = events);
        self
    }

    /// When progress is written: [`checkpoint_mode`](ReliableDeliveryConfig::checkpoint_mode).
    pub fn checkpoint(mut self, mode: CheckpointMode) -> Self {
        self.settings.change(move |config| config.checkpoint_mode = mode);
        self
    }

    /// How long events wait behind a gap whose writer has not ended:
    /// [`hold_for`](ReliableDeliveryConfig::hold_for).
    pub fn hold_for(mut self, duration: Duration) -> Self {
        self.settings.change(move |config| config.hold_for = duration);
        self
    }

    /// What becomes of an event that failed too often:
    /// [`on_exhaustion`](ReliableDeliveryConfig::on_exhaustion).
    pub fn on_exhaustion(mut self, decision: OnExhaustion) -> Self {
        self.settings.change(move |config| config.on_exhaustion = decision);
        self
    }

    /// Whether other instances are expected:
    /// [`instance_mode`](ReliableDeliveryConfig::instance_mode).
    pub fn instance_mode(mut self, mode: InstanceMode) -> Self {
        self.settings.change(move |config| config.instance_mode = mode);
        self
    }

    /// Only events of streams whose ids begin so.
    pub fn stream_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.settings.stream_prefix = Some(prefix.into());
        self
    }
}

/// Limits of what a handler without a transaction is given.
macro_rules! counted {
    ($type:ident: $($state:ident),*) => { $(
        impl $type<$state> {
            /// Handles this many events on this node, and then no more: the first ones in order of
            /// the log, of each partition, or of the claims of a queue. An event that is given up
            /// does not count.
            pub fn at_most(mut self, events: u32) -> Self {
                self.settings.at_most = Some(events);
                self
            }
        }
    )* };
}
counted!(Subscription: Each, Batch);
counted!(Queue: Each, Batch);

/// Limits of a batch.
macro_rules! sized {
    ($type:ident) => {
        impl $type<Batch> {
            /// How many events, and how many bytes of them, the handler is given at most; a single
            /// event may be larger. Default: no limit but the batch size.
            pub fn at_once(mut self, events: usize, bytes: usize) -> Self {
                self.settings.at_once = Some((events, bytes));
                self
            }
        }
    };
}
sized!(Subscription);
sized!(Queue);
