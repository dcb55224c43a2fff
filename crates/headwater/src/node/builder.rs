//! What a node is to run: told first, checked at the start.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use headwater_cdc::{CdcMode, Direct, Feed, Inbox};
use headwater_core::{
    AdminError, Event, EventLog, EventObserver, HandlerError, Instance, InstanceMode, NodeOptions, Observed,
    ReliableDeliveryConfig, Saga, StartFrom, SubscriberError, SubscriberMode, SubscriberStore, names,
};
use headwater_postgres::{PgLog, PgNodes, PgStateStore, PgSubscribers, Servers, SubscribersOptions, WakeUps};
use sqlx::PgConnection;

use super::Node;
use super::due::LONGEST_SLEEP;
use super::handler::{BatchFn, Observer, TransactionFn, TransactionScope, Work};
use super::handlers::{Audience, HANDLERS, HandledEvent, Handlers};
use super::heartbeat::Heartbeat;
use super::lent::HandlerTransaction;
use super::limiter::Limiter;
use super::live_report::LiveReporter;
use super::maintenance::INTERVAL;
use super::places::Places;
use super::poison::Teller;
use super::saga::SagaHandler;
use super::subscription::{Claims, Filter, Subscription};
use crate::{CdcPoisonNotifier, Live};

/// Of the pool, for all that is no transaction of a handler.
const CONNECTIONS_FOR_OTHERS: u32 = 2;
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

    /// Tells the last subscriber only about these event types.
    pub fn event_types(mut self, types: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let types: Vec<String> = types.into_iter().map(Into::into).collect();
        match self.subscriptions.last_mut() {
            Some(subscription) => {
                let known = &subscription.filter.event_types;
                if let Some(unknown) = types.iter().find(|name| !known.is_empty() && !known.contains(name)) {
                    let id = &subscription.subscriber_id;
                    self.mistakes.push(format!("event type {unknown:?} is none that subscriber {id:?} can be given"));
                }
                subscription.filter.event_types = types;
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

    /// Gives a handler the events of a type: see [`Node::on_event`].
    pub fn on_event<F, R>(mut self, event_type: &str, handler: F) -> Self
    where
        F: Fn(HandledEvent, HandlerTransaction) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        self.mistakes.extend(self.events.add(event_type, handler).err().map(|error| error.to_string()));
        self.needs_postgres("on_event")
    }

    /// Gives a handler the broadcasts of a type: see [`Node::on_broadcast`].
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

    fn validate(&self) -> Result<(), SubscriberError> {
        let invalid = |message: String| Err(SubscriberError::InvalidInput(message));
        if self.options.node_id.is_some() {
            names::check_node(&self.name)?;
        }
        if let Some(mistake) = self.mistakes.first() {
            return invalid(mistake.clone());
        }
        self.options.delivery.validate()?;
        for (at, subscription) in self.subscriptions.iter().enumerate() {
            subscription.validate()?;
            let id = &subscription.subscriber_id;
            if self.subscriptions[..at].iter().any(|other| other.subscriber_id == *id) {
                return invalid(format!("subscriber {id:?} is subscribed twice in node {:?}", self.name));
            }
        }
        if !(Duration::from_secs(2)..=Duration::from_secs(3600)).contains(&self.lease) {
            return invalid(format!("invalid lease {:?}: it is 2 s to 1 hour", self.lease));
        }
        if let Live::Cdc(options) = &self.live {
            options.validate().map_err(|error| SubscriberError::InvalidInput(error.to_string()))?;
            if !matches!(self.backend, Backend::Postgres(_)) {
                return invalid("Live::Cdc needs PostgreSQL: this node has another log".into());
            }
        }
        if let Some(interval) = self.maintain_every.filter(|interval| *interval < Duration::from_millis(10)) {
            return invalid(format!("invalid maintain_every {interval:?}: it is 10 ms at least"));
        }
        if !(Duration::from_millis(10)..=Duration::from_secs(3600)).contains(&self.poll) {
            return invalid(format!("invalid poll {:?}: it is 10 ms to 1 hour", self.poll));
        }
        Ok(())
    }

    /// Transactions of shared subscribers hold connections, and claims that are theirs are extended with others.
    fn check_connections(&self, connections: u32) -> Result<(), SubscriberError> {
        let transactional = |subscription: &&Subscription| {
            subscription.mode == SubscriberMode::Shared && matches!(subscription.work, Work::Transaction(..))
        };
        let wanted: u32 = self.subscriptions.iter().filter(transactional).map(|s| s.config.concurrency).sum();
        let most = connections.saturating_sub(CONNECTIONS_FOR_OTHERS).max(1);
        if wanted > most {
            return Err(SubscriberError::InvalidInput(format!(
                "invalid concurrency {wanted} of transactional handlers of shared subscribers: with {connections} connections, it is 1 to {most}"
            )));
        }
        Ok(())
    }

    /// Checks everything, registers the node and its subscribers, and starts them.
    pub async fn start(self) -> Result<Node, SubscriberError> {
        self.validate()?;
        if self.subscriptions.is_empty() && self.events.is_empty() && self.broadcasts.is_empty() {
            let message = format!("node {:?} has no subscribers: add one with subscribe", self.name);
            return Err(SubscriberError::InvalidInput(message));
        }
        let node = self.register().await?;
        if let Err(error) = node.start().await {
            node.retire().await;
            return Err(error);
        }
        Ok(node)
    }

    /// Checks everything and registers the node: it emits events, and handles some once it is [started](Node::start). Another process that was registered under
    /// the same id is replaced: what it owned is taken over, and it stands by.
    pub async fn register(self) -> Result<Node, SubscriberError> {
        self.validate()?;
        let Backend::Postgres(log) = &self.backend else {
            let instance = Instance::new(&self.name);
            return Ok(Node::new(self, instance, None));
        };
        let connections = log.database().pool().options().get_max_connections();
        self.check_connections(connections)?;
        self.handling(connections).validate()?;
        let nodes = PgNodes::new(log.database().clone(), log.info());
        let registration = nodes.register(&self.options, &self.subscribed()).await?;
        let instance = Instance { node: registration.node_id.clone(), incarnation: registration.instance_id };
        let heartbeat =
            Heartbeat::new(nodes, registration, self.options.clone(), self.events.clone(), self.subscribed());
        let log = log.clone();
        Ok(Node::new(self, instance, Some((log, heartbeat))))
    }

    /// Event types that subscribers name. One of all types says nothing of any.
    fn subscribed(&self) -> Vec<String> {
        self.subscriptions.iter().flat_map(|subscription| subscription.filter.event_types.iter().cloned()).collect()
    }

    pub(super) fn handlers(&self) -> (Arc<Handlers>, Arc<Handlers>) {
        (self.events.clone(), self.broadcasts.clone())
    }

    pub(super) fn log(&self) -> Arc<dyn EventLog> {
        self.log.clone()
    }

    /// The shared subscriber of all handlers by event type.
    fn handling(&self, connections: u32) -> Subscription {
        let most = connections.saturating_sub(CONNECTIONS_FOR_OTHERS).max(1);
        let mut config = self.options.delivery.clone();
        if config.concurrency > most {
            tracing::warn!(most, "the pool has no connections for more transactions of handlers at once");
            config.concurrency = most;
        }
        Subscription {
            subscriber_id: HANDLERS.into(),
            limiter: Limiter::new(config.rate_limit),
            places: None,
            config,
            mode: SubscriberMode::Shared,
            assigned: None,
            claims: Claims {
                visibility: self.options.visibility,
                batch_size: Some(self.options.batch_size),
                ..Claims::default()
            },
            filter: Filter { handlers: Some(self.events.clone()), ..Filter::default() },
            work: Work::Transaction(self.events.clone(), TransactionScope::Batch),
        }
    }

    /// The subscriber by which this node hears broadcasts. Nobody else has it, so it needs no lease.
    fn hearing(&self, node_id: &str) -> Subscription {
        let config = ReliableDeliveryConfig {
            instance_mode: InstanceMode::SingleInstance,
            start_from: StartFrom::Now,
            concurrency: 1,
            ..self.options.delivery.clone()
        };
        Subscription {
            subscriber_id: format!("broadcast:{node_id}"),
            limiter: Limiter::new(None),
            places: None,
            config,
            mode: SubscriberMode::Exclusive,
            assigned: None,
            claims: Claims::default(),
            filter: Filter { handlers: Some(self.broadcasts.clone()), ..Filter::default() },
            work: Work::Transaction(self.broadcasts.clone(), TransactionScope::Event),
        }
    }

    /// Registers the subscribers, and puts together what a running node is made of.
    pub(super) async fn parts(mut self, instance: Instance) -> Result<super::Parts, SubscriberError> {
        for subscription in &mut self.subscriptions {
            subscription.limiter = Limiter::new(subscription.config.rate_limit);
        }
        let mut wake_ups = Vec::new();
        let mut firing = None;
        let mut listening = None;
        let mut by_type = None;
        let mut maintaining = None;
        let (store, postgres): (Arc<dyn SubscriberStore>, _) = match &self.backend {
            Backend::Other(store) => (store.clone(), None),
            Backend::Postgres(log) => {
                // A pooler in transaction mode gives nobody a session to hold locks in, or to listen on.
                let pooler = log.database().is_behind_pooler();
                let options = SubscribersOptions { session_locks: self.session_locks && !pooler };
                let postgres = PgSubscribers::new(log.database().clone(), log.info().clone(), options);
                let connect = match &self.wake_ups {
                    WakeUpSource::Poll => None,
                    WakeUpSource::Listen if pooler => None,
                    WakeUpSource::Listen => Some(log.database().servers()),
                    WakeUpSource::ListenAt(url) => Some(url.parse::<Servers>().map_err(|error| {
                        SubscriberError::InvalidInput(format!("invalid url for wake-ups: {error}"))
                    })?),
                };
                listening = connect.map(|servers| WakeUps::start(servers, log.info()));
                wake_ups.extend(listening.as_ref().map(WakeUps::count));
                wake_ups.push(log.commits());
                let told_of_due = listening.as_ref().map(WakeUps::due);
                firing = Some(super::Firing {
                    log: log.clone(),
                    longest_sleep: match &told_of_due {
                        Some(_) if log.info().notify => LONGEST_SLEEP,
                        _ => self.poll.min(LONGEST_SLEEP),
                    },
                    wake_ups: told_of_due.into_iter().chain([log.due_changes()]).collect(),
                });
                let connections = log.database().pool().options().get_max_connections();
                by_type = Some((Arc::new(self.handling(connections)), Arc::new(self.hearing(&instance.node))));
                maintaining = self.maintain_every.map(|interval| (log.clone(), interval));
                (Arc::new(postgres.clone()), Some(postgres))
            }
        };
        for subscription in &self.subscriptions {
            store.register(&subscription.registered_as()).await?;
        }
        let poison = match (self.poison, &self.backend) {
            (Some(notifier), Backend::Postgres(log)) => {
                let (database, namespace) = (log.database().clone(), log.info().name.clone());
                let teller = Teller { notifier, database, namespace };
                teller.add().await.map_err(of_admin)?;
                Some(teller)
            }
            _ => None,
        };
        let live = match (self.live, &self.backend) {
            (Live::Cdc(options), Backend::Postgres(log)) => {
                let feed = Arc::new(Feed::new(&options));
                let is_inbox = matches!(options.mode, CdcMode::Inbox { .. });
                let (database, info, into) = (log.database().clone(), log.info().clone(), feed.clone());
                let reporting = LiveReporter {
                    database: database.clone(),
                    namespace: info.name.clone(),
                    instance: instance.clone(),
                    mode: options.mode.name(),
                    feed: feed.clone(),
                    every: self.options.heartbeat,
                };
                let source: BoxFuture<'static, ()> = match options.mode {
                    CdcMode::Direct => Box::pin(Direct::new(database, info, &self.name, options, into).run()),
                    CdcMode::Inbox { .. } => {
                        Box::pin(Inbox::new(database, info, instance.clone(), options, into).run())
                    }
                };
                let source = Box::pin(async move { _ = tokio::join!(source, reporting.run()) });
                Some(super::LiveSource { feed, is_inbox, source })
            }
            _ => None,
        };
        Ok(super::Parts {
            instance,
            log: self.log,
            store,
            postgres,
            wake_ups,
            live,
            poison,
            firing,
            listening,
            subscriptions: self.subscriptions,
            by_type,
            lease: self.lease,
            poll: self.poll,
            audit_every: self.audit_every,
            maintaining,
        })
    }
}

fn of_admin(error: AdminError) -> SubscriberError {
    match error {
        AdminError::NamespaceNotFound(name) => SubscriberError::NamespaceNotFound(name),
        AdminError::NotGranted(message) => SubscriberError::NotGranted(message),
        AdminError::Unavailable(fault) => SubscriberError::Unavailable(fault),
        error => SubscriberError::InvalidInput(error.to_string()),
    }
}
