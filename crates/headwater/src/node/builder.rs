//! What a node is to run: told first, checked at the start.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use headwater_core::{
    Event, EventLog, EventObserver, HandlerError, Instance, Observed, ReliableDeliveryConfig, Saga, StartFrom,
    SubscriberConfig, SubscriberError, SubscriberMode, SubscriberStore, names,
};
use headwater_postgres::{PgLog, PgStateStore, PgSubscribers, SubscribersOptions, WakeUps};
use sqlx::PgConnection;

use super::Node;
use super::due::LONGEST_SLEEP;
use super::handler::{BatchFn, Observer, TransactionFn, TransactionScope, Work};
use super::saga::SagaHandler;
use super::subscription::{Claims, Filter, Subscription};

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
    session_locks: bool,
    lease: Duration,
    poll: Duration,
    audit_every: Option<Duration>,
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

    /// A node on another log and store, as those of `headwater-memory`, for tests.
    pub fn new(name: impl Into<String>, log: Arc<dyn EventLog>, store: Arc<dyn SubscriberStore>) -> Self {
        NodeBuilder::of(name.into(), log, Backend::Other(store))
    }

    fn of(name: String, log: Arc<dyn EventLog>, backend: Backend) -> Self {
        NodeBuilder {
            name,
            log,
            backend,
            subscriptions: Vec::new(),
            config: ReliableDeliveryConfig::default(),
            wake_ups: WakeUpSource::default(),
            session_locks: true,
            lease: Duration::from_secs(10),
            poll: Duration::from_secs(1),
            audit_every: None,
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
        let mut node = self.add::<D>(subscriber_id.into(), work).needs_postgres("subscribe_shared");
        if let Some(subscription) = node.subscriptions.last_mut() {
            subscription.mode = SubscriberMode::Shared;
        }
        node
    }

    /// How many events of the last subscriber are handled at once here: of an exclusive or partitioned one, of different keys.
    pub fn concurrency(mut self, events: u32) -> Self {
        match self.subscriptions.last_mut() {
            Some(subscription) => subscription.config.concurrency = events,
            None => self.config.concurrency = events,
        }
        self
    }

    /// How long an event of the last subscriber, which is shared, stays with a worker that is not heard of. Default: 30 s.
    pub fn visibility(self, visibility: Duration) -> Self {
        self.claims("visibility", |claims| claims.visibility = visibility)
    }

    /// How many events a worker of the last subscriber, which is shared, claims ahead of those that it handles. Default: 0.
    pub fn prefetch(self, events: u32) -> Self {
        self.claims("prefetch", |claims| claims.prefetch = events)
    }

    /// The last subscriber, which is shared, keeps events of a key in order: a key is worked on by one worker at a time. It has partitions for that,
    /// and leases instead of claims.
    pub fn ordered_by_key(mut self) -> Self {
        match self.subscriptions.last_mut() {
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
        let filter = Filter { event_types, stream_prefix: None };
        self.subscriptions.push(Subscription {
            subscriber_id,
            config: self.config.clone(),
            mode: SubscriberMode::Exclusive,
            assigned: None,
            claims: Claims::default(),
            filter,
            work,
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

    fn validate(&self) -> Result<(), SubscriberError> {
        let invalid = |message: String| Err(SubscriberError::InvalidInput(message));
        names::check_node(&self.name)?;
        if let Some(mistake) = self.mistakes.first() {
            return invalid(mistake.clone());
        }
        if self.subscriptions.is_empty() {
            return invalid(format!("node {:?} has no subscribers: add one with subscribe", self.name));
        }
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
        if !(Duration::from_millis(10)..=Duration::from_secs(3600)).contains(&self.poll) {
            return invalid(format!("invalid poll {:?}: it is 10 ms to 1 hour", self.poll));
        }
        Ok(())
    }

    /// Checks everything, registers the subscribers, and starts them.
    pub async fn start(self) -> Result<Node, SubscriberError> {
        self.validate()?;
        let mut wake_ups = Vec::new();
        let mut firing = None;
        let mut listening = None;
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
                    WakeUpSource::Listen => Some((*log.database().pool().connect_options()).clone()),
                    WakeUpSource::ListenAt(url) => Some(url.parse().map_err(|error| {
                        SubscriberError::InvalidInput(format!("invalid url for wake-ups: {error}"))
                    })?),
                };
                listening = connect.map(|connect| WakeUps::start(connect, log.info()));
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
                (Arc::new(postgres.clone()), Some(postgres))
            }
        };
        for subscription in &self.subscriptions {
            let config = SubscriberConfig {
                subscriber_id: subscription.subscriber_id.clone(),
                start_from: subscription.config.start_from,
                mode: subscription.mode,
            };
            store.register(&config).await?;
        }
        let parts = super::Parts {
            instance: Instance::new(self.name),
            log: self.log,
            store,
            postgres,
            wake_ups,
            firing,
            listening,
            subscriptions: self.subscriptions,
            lease: self.lease,
            poll: self.poll,
            audit_every: self.audit_every,
        };
        Ok(Node::run(parts))
    }
}
