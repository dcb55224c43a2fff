//! What a node is to run: told first, checked at the start.

mod start;

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use headwater_core::{
    Event, EventLog, EventObserver, HandlerError, Json, NodeOptions, Observed, ReliableDeliveryConfig, Saga, StartFrom,
    SubscriberMode, SubscriberStore, matches_pattern,
};
use headwater_postgres::{PgLog, PgStateStore};
use sqlx::PgConnection;

use super::handler::{BatchFn, DeliveriesFn, Observer, TransactionFn, TransactionScope, Work};
use super::handlers::{Audience, HandledEvent, Handlers};
use super::key_hashes::KeyHashes;
use super::lent::HandlerTransaction;
use super::limiter::Limiter;
use super::maintenance::INTERVAL;
use super::places::Places;
use super::saga::SagaHandler;
use super::subscription::{Claims, Filter, Subscription};
use crate::{CdcPoisonNotifier, Live};

/// Enough for as many instances, with several keys at once in each.
const ORDERED_PARTITIONS: u32 = 64;

/// How a node hears of events that other processes append. It polls in any case; wake-ups make it fast.
#[derive(Debug, Clone, Default)]
pub enum WakeUpSource {
    /// LISTEN, on a connection made like those of the pool; behind a pooler in transaction mode: polling.
    #[default]
    Listen,
    /// LISTEN, on a connection to this url: for a pool that goes through PgBouncer in transaction mode.
    ListenAt(String),
    /// Polling alone.
    Poll,
}

/// A node that is being put together: subscribers first, then [`start`](NodeBuilder::start).
///
/// What configures a subscriber stands behind the `subscribe…` that made it; before the first, it is the default for all.
#[must_use = "a node does nothing until it is started"]
pub struct NodeBuilder {
    name: String,
    log: Arc<dyn EventLog>,
    backend: Backend,
    subscriptions: Vec<Subscription>,
    config: ReliableDeliveryConfig,
    wake_ups: WakeUpSource,
    live: Live,
    poison: Option<Arc<dyn CdcPoisonNotifier>>,
    session_locks: bool,
    lease: Duration,
    poll: Duration,
    audit_every: Option<Duration>,
    options: NodeOptions,
    events: Arc<Handlers>,
    broadcasts: Arc<Handlers>,
    maintain_every: Option<Duration>,
    mistakes: Vec<String>,
}

enum Backend {
    Postgres(PgLog),
    Other(Arc<dyn SubscriberStore>),
}

impl NodeBuilder {
    pub(crate) fn on_postgres(name: String, log: PgLog) -> Self {
        NodeBuilder::of(name, Arc::new(log.clone()), Backend::Postgres(log))
    }

    pub(crate) fn with_options(options: NodeOptions, log: PgLog) -> Self {
        let mut node = NodeBuilder::on_postgres(options.node_id.clone().unwrap_or_default(), log);
        node.options = options;
        node
    }

    /// A node on another log and store, as those of `headwater-memory`, for tests.
    pub fn new(name: impl Into<String>, log: Arc<dyn EventLog>, store: Arc<dyn SubscriberStore>) -> Self {
        NodeBuilder::of(name.into(), log, Backend::Other(store))
    }

    fn of(name: String, log: Arc<dyn EventLog>, backend: Backend) -> Self {
        NodeBuilder {
            options: NodeOptions::new(&name),
            events: Arc::new(Handlers::new(Audience::One, log.namespace())),
            broadcasts: Arc::new(Handlers::new(Audience::All, log.namespace())),
            name,
            log,
            backend,
            subscriptions: Vec::new(),
            config: ReliableDeliveryConfig::default(),
            wake_ups: WakeUpSource::default(),
            live: Live::default(),
            poison: None,
            session_locks: true,
            lease: Duration::from_secs(10),
            poll: Duration::from_secs(1),
            audit_every: None,
            maintain_every: Some(INTERVAL),
            mistakes: Vec::new(),
        }
    }

    /// Tells an observer, or a projection, about events, one at a time and in order.
    pub fn subscribe<D: Observed>(self, observer: impl EventObserver<D> + 'static) -> Self {
        let subscriber_id = observer.subscriber_id().to_owned();
        self.add::<D>(subscriber_id, Work::Each(Arc::new(Observer { observer, data: PhantomData })))
    }

    /// Gives a handler as many events at once as are there, up to
    /// [`catch_up_batch_size`](ReliableDeliveryConfig::catch_up_batch_size). If it fails, it is given them one by one.
    pub fn subscribe_batch<D, F, R>(self, subscriber_id: impl Into<String>, handler: F) -> Self
    where
        D: Observed,
        F: Fn(Vec<Arc<Event<D>>>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        self.add::<D>(subscriber_id.into(), Work::Batch(Arc::new(BatchFn { handler, data: PhantomData })))
    }

    /// As [`subscribe_batch`](NodeBuilder::subscribe_batch), for a handler that wants to know how often each event was delivered before.
    ///
    /// Of an exclusive or partitioned subscriber, only deliveries by this node are counted, and those during which another one is known
    /// to have died.
    pub fn subscribe_deliveries<F, R>(self, subscriber_id: impl Into<String>, handler: F) -> Self
    where
        F: Fn(Vec<HandledEvent>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        let namespace = self.log.namespace().into();
        self.add::<Json>(subscriber_id.into(), Work::Batch(Arc::new(DeliveriesFn { handler, namespace })))
    }

    /// As [`subscribe_shared_batch`](NodeBuilder::subscribe_shared_batch), for a handler that wants to know how often each event was
    /// delivered before, to whichever worker.
    pub fn subscribe_shared_deliveries<F, R>(self, subscriber_id: impl Into<String>, handler: F) -> Self
    where
        F: Fn(Vec<HandledEvent>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        self.subscribe_deliveries(subscriber_id, handler).shared("subscribe_shared_deliveries")
    }

    /// Gives a handler each event together with the transaction that also moves the checkpoint: what it does in it happens exactly once.
    ///
    /// ```no_run
    /// # use std::sync::Arc;
    /// # use headwater::{Event, Json, Namespace};
    /// # async fn queue_mail(_: &Event<Json>, _: &mut sqlx::PgConnection) -> Result<(), sqlx::Error> { Ok(()) }
    /// # async fn run(orders: Namespace) -> Result<(), Box<dyn std::error::Error>> {
    /// let node = orders
    ///     .node("billing-1")
    ///     .subscribe_transactional("mailer", |event: Arc<Event<Json>>, tx| {
    ///         Box::pin(async move {
    ///             queue_mail(&event, tx).await?;
    ///             Ok(())
    ///         })
    ///     })
    ///     .start()
    ///     .await?;
    /// # node.shutdown().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn subscribe_transactional<D, F>(self, subscriber_id: impl Into<String>, handler: F) -> Self
    where
        D: Observed,
        F: for<'t> Fn(Arc<Event<D>>, &'t mut PgConnection) -> BoxFuture<'t, Result<(), HandlerError>>
            + Send
            + Sync
            + 'static,
    {
        let handler = Arc::new(TransactionFn { handler, data: PhantomData });
        self.needs_postgres("subscribe_transactional")
            .add::<D>(subscriber_id.into(), Work::Transaction(handler, TransactionScope::Event))
    }

    /// Tells an observer about events, in order for each key, on all instances that subscribe so: each owns its share of the `partitions`. The key is
    /// the event's, else its stream, else its id. The number is that of a new group; see
    /// [`SubscriberStore::resize`] to change it.
    pub fn subscribe_partitioned<D: Observed>(
        self,
        subscriber_id: impl Into<String>,
        partitions: u32,
        observer: impl EventObserver<D> + 'static,
    ) -> Self {
        let work = Work::Each(Arc::new(Observer { observer, data: PhantomData }));
        self.add::<D>(subscriber_id.into(), work).partitioned(partitions)
    }

    /// Shares the events of the last subscriber out by key, as [`subscribe_partitioned`](NodeBuilder::subscribe_partitioned) does: for handlers of
    /// every kind.
    pub fn partitioned(mut self, partitions: u32) -> Self {
        match self.subscriptions.last_mut() {
            Some(subscription) => subscription.mode = SubscriberMode::Partitioned { partitions },
            None => self.mistakes.push("partitioned stands before any subscribe".into()),
        }
        self.needs_postgres("a partitioned subscriber")
    }

    /// Tells workers about events, in no order, each to one of all instances that subscribe so: a work queue. An event is a worker's as long as it is
    /// handled, and [`visibility`](NodeBuilder::visibility) after it was last heard of; one that fails is tried again, by any worker, and becomes a
    /// dead letter after the last retry.
    pub fn subscribe_shared<D: Observed>(
        self,
        subscriber_id: impl Into<String>,
        worker: impl EventObserver<D> + 'static,
    ) -> Self {
        let work = Work::Each(Arc::new(Observer { observer: worker, data: PhantomData }));
        self.add::<D>(subscriber_id.into(), work).shared("subscribe_shared")
    }

    /// As [`subscribe_shared`](NodeBuilder::subscribe_shared), with the transaction that also acks the event: what the handler does in it happens exactly
    /// once, whichever worker does it, and however often the event comes.
    ///
    /// For speed, a transaction holds up to 10 events ([`batch_size`](NodeBuilder::batch_size)): if one of them fails, all are rolled back, and each is handled in a
    /// transaction of its own. [`concurrency`](NodeBuilder::concurrency) is how many transactions there are at once; each holds a connection of the pool.
    ///
    /// ```no_run
    /// # use std::sync::Arc;
    /// # use headwater::{Event, Json, Namespace};
    /// # async fn book(_: &Event<Json>, _: &mut sqlx::PgConnection) -> Result<(), sqlx::Error> { Ok(()) }
    /// # async fn run(orders: Namespace) -> Result<(), Box<dyn std::error::Error>> {
    /// let node = orders
    ///     .node("worker-1")
    ///     .subscribe_shared_transactional("bookings", |event: Arc<Event<Json>>, tx| {
    ///         Box::pin(async move {
    ///             book(&event, tx).await?;
    ///             Ok(())
    ///         })
    ///     })
    ///     .concurrency(4)
    ///     .start()
    ///     .await?;
    /// # node.shutdown().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn subscribe_shared_transactional<D, F>(self, subscriber_id: impl Into<String>, handler: F) -> Self
    where
        D: Observed,
        F: for<'t> Fn(Arc<Event<D>>, &'t mut PgConnection) -> BoxFuture<'t, Result<(), HandlerError>>
            + Send
            + Sync
            + 'static,
    {
        let handler = Arc::new(TransactionFn { handler, data: PhantomData });
        self.add::<D>(subscriber_id.into(), Work::Transaction(handler, TransactionScope::Batch))
            .shared("subscribe_shared_transactional")
    }

    /// As [`subscribe_shared`](NodeBuilder::subscribe_shared), with as many events at once as are there, up to [`batch_size`](NodeBuilder::batch_size): all are
    /// acked when the handler returns. If it fails, it is given them one by one, and those that fail then are tried again later, by any worker.
    /// [`concurrency`](NodeBuilder::concurrency) is how many batches are handled at once.
    pub fn subscribe_shared_batch<D, F, R>(self, subscriber_id: impl Into<String>, handler: F) -> Self
    where
        D: Observed,
        F: Fn(Vec<Arc<Event<D>>>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        self.subscribe_batch(subscriber_id, handler).shared("subscribe_shared_batch")
    }

    fn shared(mut self, what: &str) -> Self {
        if let Some(subscription) = self.subscriptions.last_mut() {
            subscription.mode = SubscriberMode::Shared;
        }
        self.needs_postgres(what)
    }

    /// How many events of the last subscriber are handled at once here: of an exclusive or partitioned one, of different keys; of a shared one with a batch or
    /// transactional handler, how many batches or transactions.
    pub fn concurrency(mut self, events: u32) -> Self {
        match self.subscriptions.last_mut() {
            Some(subscription) => subscription.config.concurrency = events,
            None => self.config.concurrency = events,
        }
        self
    }

    /// The last subscriber handles so many events on this node, and then no more: the first ones in order of the log, also where several are handled at
    /// once; of a partitioned subscriber, in order of each partition; of a shared one, in the order in which they were claimed. An event that is given up does not count.
    pub fn at_most(mut self, events: u32) -> Self {
        match self.subscriptions.last_mut() {
            Some(subscription) => subscription.places = Some(Places::new(events)),
            None => self.mistakes.push("at_most stands before any subscribe".into()),
        }
        self
    }

    /// How long an event of the last subscriber, which is shared, stays with a worker that is not heard of. Default: 30 s.
    pub fn visibility(self, visibility: Duration) -> Self {
        self.claims("visibility", |claims| claims.visibility = visibility)
    }

    /// How many events a worker of the last subscriber, which is shared, claims ahead of those that it handles, so that the next are there when they are
    /// done. Other workers do not get these meanwhile. 0: it claims what it handles, and nothing else. Default: as many as it handles in about 100 ms, at
    /// most 1,000, so none where an event takes longer; and what it has not begun after half of [`visibility`](NodeBuilder::visibility), it hands back.
    /// In any case about 32 MiB of events.
    pub fn prefetch(self, events: u32) -> Self {
        self.claims("prefetch", |claims| claims.prefetch = Some(events))
    }

    /// How many events, and how many bytes of them, the batch handler of the last subscriber is given at most, however many are read at once;
    /// a single event may be larger. The handler of a shared subscriber is then given no more than it handles in about 100 ms. Default: no
    /// limit.
    pub fn at_once(mut self, events: usize, bytes: usize) -> Self {
        match self.subscriptions.last_mut() {
            Some(subscription) if matches!(subscription.work, Work::Batch(_)) && events > 0 => {
                subscription.at_once = Some((events, bytes));
            }
            _ => self.mistakes.push("at_once stands behind no batch subscriber, or allows no event".into()),
        }
        self
    }

    /// How many events the batch handler of the last subscriber is given at most. Default:
    /// [`catch_up_batch_size`](ReliableDeliveryConfig::catch_up_batch_size). If it is shared and transactional: how many events a transaction holds. Default: 10.
    pub fn batch_size(mut self, events: u32) -> Self {
        match self.subscriptions.last_mut() {
            Some(subscription) if subscription.takes_batches() => subscription.set_batch_size(events),
            _ => self.mistakes.push("batch_size stands behind no batch or shared transactional subscriber".into()),
        }
        self
    }

    /// The last subscriber, which is shared, handles events of these types before all others that wait: whenever it claims, it looks for them first, and claims
    /// them also while it has others claimed ahead. Where they come without end, the others wait without end.
    pub fn priority(self, event_types: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let types = event_types.into_iter().map(Into::into).collect();
        self.claims("priority", |claims| claims.priority = types)
    }

    /// The last subscriber, which is shared, keeps events of a key in order: a key is worked on by one worker at a time. It has 64 partitions for that, and
    /// leases instead of claims: [`lease`](NodeBuilder::lease) says how long a key stays with a worker that is not heard of, and an event that fails is tried again by the
    /// worker that has it, while other keys go on. [`visibility`](NodeBuilder::visibility), [`prefetch`](NodeBuilder::prefetch) and
    /// [`priority`](NodeBuilder::priority) are of claims: it has none of them. All its workers handle the same event types.
    pub fn ordered_by_key(mut self) -> Self {
        match self.subscriptions.last_mut() {
            Some(subscription) if subscription.mode == SubscriberMode::Shared && subscription.claims.are_set() => {
                self.mistakes
                    .push("ordered_by_key has no claims: visibility, prefetch and priority are not for it".into());
            }
            Some(subscription) if subscription.mode == SubscriberMode::Shared => {
                subscription.mode = SubscriberMode::Partitioned { partitions: ORDERED_PARTITIONS };
            }
            _ => self.mistakes.push("ordered_by_key stands behind no shared subscriber".into()),
        }
        self
    }

    fn claims(mut self, what: &str, change: impl FnOnce(&mut Claims)) -> Self {
        match self.subscriptions.last_mut() {
            Some(subscription) if subscription.mode == SubscriberMode::Shared => change(&mut subscription.claims),
            _ => self.mistakes.push(format!("{what} stands behind no shared subscriber")),
        }
        self
    }

    /// This instance owns these partitions of the last subscriber, and no others: for whoever shares them out by hand. All instances of the
    /// subscriber must do so, and each partition must be somebody's.
    pub fn partition_ids(mut self, partitions: impl IntoIterator<Item = u32>) -> Self {
        match self.subscriptions.last_mut() {
            Some(subscription) => subscription.assigned = Some(partitions.into_iter().collect()),
            None => self.mistakes.push("partition_ids stands before any subscribe".into()),
        }
        self
    }

    /// Runs a saga: its state, what it appends and its checkpoint commit together.
    pub fn subscribe_saga<D: Observed, S: Saga<D> + 'static>(self, saga: S) -> Self {
        let subscriber_id = saga.subscriber_id().to_owned();
        let Backend::Postgres(log) = &self.backend else { return self.needs_postgres("subscribe_saga") };
        let states = PgStateStore::new(log.database().clone(), log.info(), subscriber_id.clone());
        let handler = SagaHandler { saga, states, log: log.clone(), data: PhantomData };
        self.add::<D>(subscriber_id, Work::Transaction(Arc::new(handler), TransactionScope::Event))
    }

    fn add<D: Observed>(mut self, subscriber_id: String, work: Work) -> Self {
        let event_types = D::EVENT_TYPES.iter().map(|name| name.to_string()).collect();
        let filter = Filter { event_types, ..Filter::default() };
        self.subscriptions.push(Subscription {
            subscriber_id,
            config: self.config.clone(),
            mode: SubscriberMode::Exclusive,
            assigned: None,
            claims: Claims::default(),
            filter,
            work,
            limiter: Limiter::new(None),
            places: None,
            at_once: None,
            hashes: KeyHashes::default(),
        });
        self
    }

    fn needs_postgres(mut self, what: &str) -> Self {
        if !matches!(self.backend, Backend::Postgres(_)) {
            self.mistakes.push(format!("{what} needs PostgreSQL: this node has another log"));
        }
        self
    }

    /// How events are delivered to the last subscriber; before the first: to all.
    pub fn config(mut self, config: ReliableDeliveryConfig) -> Self {
        match self.subscriptions.last_mut() {
            Some(subscription) => subscription.config = config,
            None => self.config = config,
        }
        self
    }

    /// Where the last subscriber starts when it is new; before the first: all.
    pub fn start_from(mut self, start: StartFrom) -> Self {
        match self.subscriptions.last_mut() {
            Some(subscription) => subscription.config.start_from = start,
            None => self.config.start_from = start,
        }
        self
    }

    /// How many events of the last subscriber are handled a second at most, here: see [`rate_limit`](ReliableDeliveryConfig::rate_limit). It is for each node,
    /// so three nodes handle three times as many. Before the first: of each.
    pub fn rate_limit(mut self, per_second: f64) -> Self {
        match self.subscriptions.last_mut() {
            Some(subscription) => subscription.config.rate_limit = Some(per_second),
            None => self.config.rate_limit = Some(per_second),
        }
        self
    }

    /// Tells the last subscriber only about these event types, in which `*` stands for any
    /// characters.
    pub fn event_types(mut self, types: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let types: Vec<String> = types.into_iter().map(Into::into).collect();
        match self.subscriptions.last_mut() {
            Some(subscription) => {
                let known = &mut subscription.filter.event_types;
                if known.is_empty() {
                    *known = types;
                    return self;
                }
                let is_known = |pattern: &&String| known.iter().any(|name| matches_pattern(name, pattern));
                if let Some(unknown) = types.iter().find(|pattern| !is_known(pattern)) {
                    let id = &subscription.subscriber_id;
                    self.mistakes.push(format!("event type {unknown:?} is none that subscriber {id:?} can be given"));
                }
                known.retain(|name| types.iter().any(|pattern| matches_pattern(name, pattern)));
            }
            None => self.mistakes.push("event_types stands before any subscribe".into()),
        }
        self
    }

    /// Tells the last subscriber only about events of streams that begin so.
    pub fn stream_prefix(mut self, prefix: impl Into<String>) -> Self {
        match self.subscriptions.last_mut() {
            Some(subscription) => subscription.filter.stream_prefix = Some(prefix.into()),
            None => self.mistakes.push("stream_prefix stands before any subscribe".into()),
        }
        self
    }

    /// What one transaction of the last subscriber, which is transactional, holds.
    pub fn transaction_per(mut self, scope: TransactionScope) -> Self {
        let set = self.subscriptions.last_mut().is_some_and(|subscription| subscription.transaction_scope(scope));
        if !set {
            self.mistakes.push("transaction_per stands behind no transactional subscriber".into());
        }
        self
    }

    /// How the node hears of events that other processes append.
    pub fn wake_ups(mut self, source: WakeUpSource) -> Self {
        self.wake_ups = source;
        self
    }

    /// Where new events come from. Default: what [`HeadwaterBuilder::live`](crate::HeadwaterBuilder::live) said.
    pub fn live(mut self, live: Live) -> Self {
        self.live = live;
        self
    }

    /// Whom the node tells of poison, on PostgreSQL: see [`CdcPoisonNotifier`]. Default: nobody.
    pub fn on_poison(mut self, notifier: impl CdcPoisonNotifier) -> Self {
        self.poison = Some(Arc::new(notifier));
        self
    }

    /// Whether ownership also uses session locks, by which standbys take over at once when an owner dies. Switch it off where sessions
    /// cannot be held, as through PgBouncer in transaction mode: then they take over when its lease ends.
    pub fn session_locks(mut self, on: bool) -> Self {
        self.session_locks = on;
        self
    }

    /// How long an owner that is not heard of keeps its subscribers. Default: 10 s.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// How often, at most, the log is looked at without a wake-up. Default: 1 s.
    pub fn poll(mut self, interval: Duration) -> Self {
        self.poll = interval;
        self
    }

    /// Audits the node's subscribers so often, and says in the log what must not be. Each audit reads the log: choose hours rather than
    /// seconds.
    pub fn audit_every(mut self, interval: Duration) -> Self {
        self.audit_every = Some(interval);
        self
    }

    /// What is told of the node, and how its [handlers](NodeBuilder::on_event) are given events. Its id stays.
    pub fn options(mut self, options: NodeOptions) -> Self {
        self.options = NodeOptions { node_id: self.options.node_id, ..options };
        self
    }

    /// Gives a handler the events of a type: see [`Node::on_event`](crate::Node::on_event).
    pub fn on_event<F, R>(mut self, event_type: &str, handler: F) -> Self
    where
        F: Fn(HandledEvent, HandlerTransaction) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        self.mistakes.extend(self.events.add(event_type, handler).err().map(|error| error.to_string()));
        self.needs_postgres("on_event")
    }

    /// Gives a handler the broadcasts of a type: see [`Node::on_broadcast`](crate::Node::on_broadcast).
    pub fn on_broadcast<F, R>(mut self, event_type: &str, handler: F) -> Self
    where
        F: Fn(HandledEvent, HandlerTransaction) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        self.mistakes.extend(self.broadcasts.add(event_type, handler).err().map(|error| error.to_string()));
        self.needs_postgres("on_broadcast")
    }

    /// Maintains the partitions of the namespace so often: makes coming months, drops those that are older than it keeps events. One node does so
    /// at a time. Default: once an hour.
    pub fn maintain_every(mut self, interval: Duration) -> Self {
        self.maintain_every = Some(interval);
        self
    }

    /// Leaves the partitions to others: to `headwater partitions maintain`, for one.
    pub fn without_maintenance(mut self) -> Self {
        self.maintain_every = None;
        self
    }
}
