//! The builder of a node: the program first says what to run, and the start checks it.

mod start;

pub(in crate::node) use self::start::check;

use std::sync::Arc;
use std::time::Duration;

use headwater_core::{
    Delivery, EventLog, HandlerError, NodeOptions, Observed, ReliableDeliveryConfig, SubscriberError, SubscriberStore,
};
use headwater_postgres::PgLog;

use crate::live::Live;
use crate::node::background::maintenance::INTERVAL;
use crate::node::delivery::open_transaction::Transaction;
use crate::node::delivery::plan::SubscriptionPlan;
use crate::node::delivery::type_handlers::{Audience, TypeHandlers};
use crate::node::subscription::Runnable;
use crate::node::subscription::settings::{Settings, Surroundings};
use crate::poison::CdcPoisonNotifier;

/// How a node hears of events that other processes append. It polls in any case; wake-ups make it
/// fast.
#[derive(Debug, Clone, Default)]
pub enum WakeUpSource {
    /// LISTEN, on a connection that is opened like those of the pool. Behind a pooler in
    /// transaction mode, the node only polls.
    #[default]
    Listen,
    /// LISTEN, on a connection to this url. For a pool that goes through PgBouncer in transaction
    /// mode.
    ListenAt(String),
    /// Polling only.
    Poll,
}

/// A node before its start: say in any order what it [runs](NodeBuilder::run) and how, then call
/// [`start`](NodeBuilder::start).
#[must_use = "a node does nothing until it is started"]
pub struct NodeBuilder {
    name: String,
    log: Arc<dyn EventLog>,
    backend: Backend,
    subscriptions: Vec<Settings>,
    /// The plans of the subscriptions, made when the node is registered.
    plans: Vec<SubscriptionPlan>,
    default_config: ReliableDeliveryConfig,
    wake_ups: WakeUpSource,
    live: Live,
    poison: Option<Arc<dyn CdcPoisonNotifier>>,
    session_locks: bool,
    lease: Duration,
    poll: Duration,
    audit_every: Option<Duration>,
    options: NodeOptions,
    events: Arc<TypeHandlers>,
    broadcasts: Arc<TypeHandlers>,
    maintain_every: Option<Duration>,
    fires_due: bool,
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

    /// A node on another log and store, such as those of `headwater-memory`, for tests.
    pub fn new(name: impl Into<String>, log: Arc<dyn EventLog>, store: Arc<dyn SubscriberStore>) -> Self {
        NodeBuilder::of(name.into(), log, Backend::Other(store))
    }

    fn of(name: String, log: Arc<dyn EventLog>, backend: Backend) -> Self {
        NodeBuilder {
            options: NodeOptions::new(&name),
            events: Arc::new(TypeHandlers::new(Audience::One, log.namespace())),
            broadcasts: Arc::new(TypeHandlers::new(Audience::All, log.namespace())),
            name,
            log,
            backend,
            subscriptions: Vec::new(),
            plans: Vec::new(),
            default_config: ReliableDeliveryConfig::default(),
            wake_ups: WakeUpSource::default(),
            live: Live::default(),
            poison: None,
            session_locks: true,
            lease: Duration::from_secs(10),
            poll: Duration::from_secs(1),
            audit_every: None,
            maintain_every: Some(INTERVAL),
            fires_due: true,
            mistakes: Vec::new(),
        }
    }

    /// Runs a subscription or a queue.
    pub fn run(mut self, subscription: impl Runnable) -> Self {
        self.subscriptions.push(subscription.into_settings().0);
        self
    }

    /// The delivery settings of all subscriptions and queues that have none of their own.
    pub fn default_config(mut self, config: ReliableDeliveryConfig) -> Self {
        self.default_config = config;
        self
    }

    /// How the node hears of events that other processes append.
    pub fn wake_ups(mut self, source: WakeUpSource) -> Self {
        self.wake_ups = source;
        self
    }

    /// Where new events come from. Default: the setting of
    /// [`HeadwaterBuilder::live`](crate::system::HeadwaterBuilder::live).
    pub fn live(mut self, live: Live) -> Self {
        self.live = live;
        self
    }

    /// The notifier that the node tells about poison, on PostgreSQL: see [`CdcPoisonNotifier`].
    /// Default: none.
    pub fn on_poison(mut self, notifier: impl CdcPoisonNotifier) -> Self {
        self.poison = Some(Arc::new(notifier));
        self
    }

    /// Whether owners also hold session locks. With them, a standby takes over as soon as the owner
    /// dies. Switch them off where a session cannot be held, such as behind PgBouncer in
    /// transaction mode: a standby then takes over when the owner's lease ends.
    pub fn session_locks(mut self, on: bool) -> Self {
        self.session_locks = on;
        self
    }

    /// How long an owner keeps its subscribers after its last sign of life. Default: 10 s.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// How often the node looks at the log without a wake-up. Default: 1 s. While nothing happens
    /// and wake-ups come, it looks less often, down to every 4 s.
    pub fn poll(mut self, interval: Duration) -> Self {
        self.poll = interval;
        self
    }

    /// Audits the node's subscribers at this interval, and reports in the program's log what is
    /// wrong. Each audit reads the event log: choose hours rather than seconds.
    pub fn audit_every(mut self, interval: Duration) -> Self {
        self.audit_every = Some(interval);
        self
    }

    /// What other nodes learn about this node, and how its [handlers](NodeBuilder::on_event) get
    /// events. The node keeps its id.
    pub fn options(mut self, options: NodeOptions) -> Self {
        self.options = NodeOptions { node_id: self.options.node_id, ..options };
        self
    }

    /// Adds a handler for the events of a type: see [`Node::on_event`](crate::Node::on_event).
    pub fn on_event<D, F, R>(mut self, event_type: &str, handler: F) -> Self
    where
        D: Observed,
        F: Fn(Delivery<D>, Transaction) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        self.mistakes.extend(self.events.add::<D, F, R>(event_type, handler).err().map(|error| error.to_string()));
        self.needs_postgres("on_event")
    }

    /// Adds a handler for the broadcasts of a type: see
    /// [`Node::on_broadcast`](crate::Node::on_broadcast).
    pub fn on_broadcast<D, F, R>(mut self, event_type: &str, handler: F) -> Self
    where
        D: Observed,
        F: Fn(Delivery<D>, Transaction) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        self.mistakes.extend(self.broadcasts.add::<D, F, R>(event_type, handler).err().map(|error| error.to_string()));
        self.needs_postgres("on_broadcast")
    }

    /// Maintains the months of the namespace's log at this interval: creates the coming months, and
    /// drops those that are older than the namespace keeps events. One node does this at a time.
    /// Default: once an hour.
    pub fn maintain_every(mut self, interval: Duration) -> Self {
        self.maintain_every = Some(interval);
        self
    }

    /// Leaves the maintenance of months to others, such as `headwater months maintain`.
    pub fn without_maintenance(mut self) -> Self {
        self.maintain_every = None;
        self
    }

    /// Leaves due events and schedules to others: to other nodes, or to `headwater up`.
    pub fn without_firing_due(mut self) -> Self {
        self.fires_due = false;
        self
    }

    /// The plans of the subscriptions so far.
    pub(in crate::node) fn plans(&self) -> &[SubscriptionPlan] {
        &self.plans
    }

    pub(in crate::node) fn add(&mut self, settings: Settings) -> Result<(), SubscriberError> {
        let surroundings = self.surroundings();
        let plan = settings.plan(&surroundings)?;
        check(self.plans.iter(), &plan, &surroundings)?;
        self.plans.push(plan);
        Ok(())
    }

    /// Removes a subscription. Returns whether there was one.
    pub(in crate::node) fn take_away(&mut self, subscriber_id: &str) -> bool {
        let before = self.plans.len();
        self.plans.retain(|plan| plan.subscriber_id != subscriber_id);
        self.plans.len() < before
    }

    fn needs_postgres(mut self, what: &str) -> Self {
        if !matches!(self.backend, Backend::Postgres(_)) {
            self.mistakes.push(format!("{what} needs PostgreSQL: this node has another log"));
        }
        self
    }

    fn surroundings(&self) -> Surroundings {
        Surroundings {
            namespace: self.log.namespace().into(),
            postgres: match &self.backend {
                Backend::Postgres(log) => Some(log.clone()),
                Backend::Other(_) => None,
            },
            default_config: self.default_config.clone(),
        }
    }
}
