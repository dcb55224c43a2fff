//! Nodes: processes that run subscribers.

pub(crate) mod background;
mod builder;
mod delivery;
mod emit;
mod lifecycle;
mod ownership;
mod queue;
pub(crate) mod reading;
pub(crate) mod subscription;
mod subscriptions;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::BoxFuture;
use headwater_cdc::{Feed, LiveStatus};
use headwater_core::{
    Backoff, Delivery, EventLog, HandlerError, Instance, Observed, Report, SubscriberError, SubscriberStore,
};
use headwater_postgres::{PgLog, PgSubscribers, WakeUps};
use tokio::sync::{Mutex, watch};
use tokio::task::{JoinHandle, JoinSet};

pub use headwater_core::{NodeInfo, NodeOptions, Registration};
pub use headwater_postgres::PgNodes;

pub use self::builder::{NodeBuilder, WakeUpSource};
pub(crate) use self::lifecycle::host_name;
use self::ownership::runners::{OwnedBy, RunnerSlot, Runners, until_ended};
pub use crate::node::delivery::open_transaction::Transaction;
use crate::node::delivery::plan::SubscriptionPlan;
use crate::node::delivery::type_handlers::TypeHandlers;
pub use crate::node::delivery::type_handlers::{EventHandler, HANDLERS};
use crate::node::ownership::heartbeat::Heartbeat;
use crate::node::ownership::keeper::Keeper;
use crate::node::reading::tail::{Tail, WakeUp};
use crate::node::subscription::settings::Surroundings;

/// How long [`Node::shutdown`] waits for the events that are being handled.
const SHUTDOWN: Duration = Duration::from_secs(30);
/// How long the rest of a shutdown may take after the events are done: releasing leases, closing
/// connections.
const FAREWELL: Duration = Duration::from_secs(10);
/// Pause between looks at a subscriber that another process runs.
const WAIT_POLL: Duration = Duration::from_millis(25);

/// A process that is registered in its namespace and emits events. After its [start](Node::start),
/// its subscribers and handlers handle events until it is [shut down](Node::shutdown). Dropping it
/// stops them at once, as a crash would.
///
/// A node has an id. When a process registers under the id of another process, it becomes a new
/// incarnation of the same node, and takes over at once. If the other process still runs, it goes
/// on as another instance of its subscribers' pools. It becomes the node again when its successor
/// is gone.
pub struct Node {
    instance: Instance,
    log: Arc<dyn EventLog>,
    /// The node's registration, on PostgreSQL.
    registered: Option<Registered>,
    events: Arc<TypeHandlers>,
    broadcasts: Arc<TypeHandlers>,
    /// The builder, until the node is started. Locked while what the node runs is being changed: by
    /// [`Node::start`], [`Node::run`] or [`Node::stop`], each of which may take long.
    plan: Arc<Mutex<Option<NodeBuilder>>>,
    running: OnceLock<Running>,
    life: watch::Sender<Life>,
    /// Shutdowns under way.
    shutdowns: AtomicUsize,
    /// Whether the node has released everything and said that it ends. Locked while it does so.
    retired: Mutex<bool>,
}

/// A shutdown that is under way. If the last of them is given up before its end, the node ends at
/// once, as in a crash: nobody would release its leases any more, so nobody may renew them.
struct ShuttingDown<'n> {
    node: &'n Node,
}

impl<'n> ShuttingDown<'n> {
    fn begin(node: &'n Node) -> Self {
        node.shutdowns.fetch_add(1, Ordering::AcqRel);
        ShuttingDown { node }
    }
}

impl Drop for ShuttingDown<'_> {
    fn drop(&mut self) {
        let is_last = self.node.shutdowns.fetch_sub(1, Ordering::AcqRel) == 1;
        if !is_last || *self.node.life.borrow() == Life::Ended {
            return;
        }
        if let Some(running) = self.node.running.get() {
            drop(running.tasks.lock().expect("no holder of this lock panics").take());
        }
        self.node.reach(Life::Ended);
    }
}

/// How far a node is on the way to its end. It only goes forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Life {
    Open,
    /// It is being shut down: it takes nothing more.
    Ending,
    Ended,
}

struct Registered {
    log: PgLog,
    heartbeat: Arc<Heartbeat>,
}

struct Running {
    runners: Arc<Runners>,
    /// What a subscription that is added later needs to know about the node.
    surroundings: Surroundings,
    listening: Option<WakeUps>,
    by_type: Option<ByType>,
    tasks: std::sync::Mutex<Option<Tasks>>,
    /// The task that stops a subscription: it goes on when its caller has gone away.
    stopping: std::sync::Mutex<JoinSet<()>>,
    /// Whether the node follows the WAL through an inbox.
    has_inbox: bool,
    stop: watch::Sender<bool>,
}

/// The subscribers that begin when the first handler is added.
struct ByType {
    handling: OnceLock<Arc<SubscriptionPlan>>,
    hearing: OnceLock<Arc<SubscriptionPlan>>,
    prepared: (Arc<SubscriptionPlan>, Arc<SubscriptionPlan>),
    /// The tasks that register the `hearing` subscriber.
    registering: std::sync::Mutex<JoinSet<()>>,
}

struct Tasks {
    keeper: JoinHandle<Keeper>,
    others: JoinSet<()>,
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

/// How a node fires due events and schedules.
struct Firing {
    log: PgLog,
    wake_ups: Vec<WakeUp>,
    longest_sleep: Duration,
}

/// Events from the WAL, and the task that brings them.
#[cfg_attr(not(feature = "cdc"), allow(dead_code))]
struct LiveSource {
    feed: Arc<Feed>,
    is_inbox: bool,
    source: BoxFuture<'static, ()>,
}

/// The parts of a node.
struct Parts {
    instance: Instance,
    log: Arc<dyn EventLog>,
    store: Arc<dyn SubscriberStore>,
    postgres: Option<PgSubscribers>,
    wake_ups: Vec<WakeUp>,
    live: Option<LiveSource>,
    poison: Option<reading::poison::Teller>,
    firing: Option<Firing>,
    listening: Option<WakeUps>,
    subscriptions: Vec<SubscriptionPlan>,
    surroundings: Surroundings,
    /// The subscriber for events and the subscriber for broadcasts.
    by_type: Option<(Arc<SubscriptionPlan>, Arc<SubscriptionPlan>)>,
    lease: Duration,
    poll: Duration,
    audit_every: Option<Duration>,
    maintaining: Option<(PgLog, Duration)>,
}

/// The present state of one of a node's subscribers.
#[derive(Debug, Clone, PartialEq)]
pub struct SubscriberStatus {
    /// The subscriber's id.
    pub subscriber_id: String,
    /// The subscriber's partition. A subscriber that is not partitioned has only partition 0.
    pub partition: u32,
    /// Whether this node handles the partition's events. If not, another node does, or none yet.
    pub owned: bool,
    /// How far the partition's events are handled, whether or not that is written yet. `None`: this
    /// node does not know.
    pub position: Option<u64>,
    /// The gaps up to `position` that were passed and are still open: the first and last sequence
    /// of each.
    pub pending_gaps: Vec<(u64, u64)>,
    /// Events handled since the node started.
    pub handled: u64,
    /// What the runner is doing.
    pub report: Report,
}

/// The present state of a node.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeStatus {
    /// The node's name and this run of the node.
    pub instance: Instance,
    /// Whether the last read of the log succeeded.
    pub connected: bool,
    /// Whether wake-ups from other processes can come at present. Without them, polling finds the
    /// events.
    pub listening: bool,
    /// The state of the source that brings events from the WAL, if the node was asked to use one.
    pub live: Option<LiveStatus>,
    /// Whether another process is now registered under the node's id. This process then stands by,
    /// and becomes the node again when the other one is gone.
    pub replaced: bool,
    /// The highest sequence that the node has seen.
    pub seen: u64,
    /// The node's subscribers.
    pub subscribers: Vec<SubscriberStatus>,
}

impl Running {
    fn new(parts: Parts, heartbeat: Option<Arc<Heartbeat>>) -> Self {
        let (stop, stopped) = watch::channel(false);
        let feed = parts.live.as_ref().map(|live| live.feed.clone());
        let has_inbox = parts.live.as_ref().is_some_and(|live| live.is_inbox);
        let mut others = JoinSet::new();
        let (poison, telling) = parts
            .poison
            .map(|teller| {
                let (poison, found) = reading::poison::Poison::new();
                (poison, (teller, found))
            })
            .unzip();
        let tail = Arc::new(Tail::new(parts.log, parts.store.clone(), parts.poll, feed, poison));
        if let Some(live) = parts.live {
            others.spawn(live.source);
        }
        let following = tail.clone();
        let complete = parts.listening.as_ref().map(WakeUps::complete);
        others.spawn(async move { following.follow(parts.wake_ups, complete).await });
        let recording = tail.clone();
        others.spawn(async move { recording.write_records().await });
        if let Some(firing) = parts.firing {
            others.spawn(background::due::fire(
                background::due::Scope::Namespace(firing.log),
                firing.wake_ups,
                firing.longest_sleep,
            ));
        }
        if let Some((log, interval)) = parts.maintaining {
            others.spawn(background::maintenance::maintain(log, interval));
        }
        let runners = Arc::new(Runners::new(tail, parts.store, parts.postgres, parts.instance, heartbeat.clone()));
        if let Some(interval) = parts.audit_every {
            others.spawn(audit(runners.clone(), interval));
        }
        if let Some((teller, found)) = telling {
            others.spawn(teller.tell(found, runners.kept.subscribe()));
        }
        if let Some(heartbeat) = heartbeat {
            others.spawn(async move { heartbeat.run().await });
        }
        runners.begin(parts.subscriptions);
        let counted_at = tokio::time::Instant::now();
        let mut keeper = Keeper { runners: runners.clone(), lease: parts.lease, counted_at, lost: Default::default() };
        let keeper = tokio::spawn(async move {
            keeper.run(stopped).await;
            keeper
        });
        let by_type = parts.by_type.map(|prepared| ByType {
            handling: OnceLock::new(),
            hearing: OnceLock::new(),
            prepared,
            registering: std::sync::Mutex::default(),
        });
        let tasks = std::sync::Mutex::new(Some(Tasks { keeper, others }));
        let (surroundings, listening) = (parts.surroundings, parts.listening);
        Running { runners, surroundings, listening, by_type, tasks, stopping: Default::default(), has_inbox, stop }
    }

    /// Starts delivery to the handlers that were added by event type.
    fn handle_events(&self) {
        if let Some(by_type) = &self.by_type {
            by_type.handling.get_or_init(|| {
                self.runners.start_worker(&by_type.prepared.0);
                by_type.prepared.0.clone()
            });
        }
    }

    /// Starts delivery to broadcast handlers. Returns the future that registers the subscriber, or
    /// `None` if it is registered already.
    fn hear_broadcasts(&self) -> Option<impl Future<Output = ()> + Send + use<>> {
        let by_type = self.by_type.as_ref()?;
        let mut first = None;
        by_type.hearing.get_or_init(|| {
            let (runners, subscription) = (self.runners.clone(), by_type.prepared.1.clone());
            first = Some(hear(runners, subscription));
            by_type.prepared.1.clone()
        });
        first
    }
}

impl Node {
    /// The log, if it is in PostgreSQL.
    pub(crate) fn postgres_log(&self) -> Option<&PgLog> {
        self.registered.as_ref().map(|registered| &registered.log)
    }

    fn new(plan: NodeBuilder, instance: Instance, registered: Option<(PgLog, Heartbeat)>) -> Self {
        let (events, broadcasts) = plan.handlers();
        Node {
            instance,
            log: plan.log(),
            registered: registered.map(|(log, heartbeat)| Registered { log, heartbeat: Arc::new(heartbeat) }),
            events,
            broadcasts,
            plan: Arc::new(Mutex::new(Some(plan))),
            running: OnceLock::new(),
            life: watch::Sender::new(Life::Open),
            shutdowns: AtomicUsize::new(0),
            retired: Mutex::new(false),
        }
    }

    /// Starts the node's subscribers and handlers, and its heartbeat.
    pub async fn start(&self) -> Result<(), SubscriberError> {
        let starting = async {
            let mut plan = self.plan.lock().await;
            let Some(plan) = plan.take() else {
                let message = format!("node {:?} was started before", self.instance.node);
                return Err(SubscriberError::InvalidInput(message));
            };
            let running = self.begin(plan.parts(self.instance.clone()).await?)?;
            if !self.events.is_empty() {
                running.handle_events();
            }
            if !self.broadcasts.is_empty()
                && let Some(hearing) = running.hear_broadcasts()
            {
                hearing.await;
            }
            Ok(())
        };
        self.unless_ending(starting).await
    }

    fn begin(&self, parts: Parts) -> Result<&Running, SubscriberError> {
        // A shutdown waits for this lock, so it either comes before, or finds what runs.
        let life = self.life.borrow();
        if *life > Life::Open {
            return Err(self.is_over());
        }
        let heartbeat = self.registered.as_ref().map(|registered| registered.heartbeat.clone());
        Ok(self.running.get_or_init(|| Running::new(parts, heartbeat)))
    }

    /// Does something that may take long, unless the node is shut down before or meanwhile.
    async fn unless_ending<T>(
        &self,
        work: impl Future<Output = Result<T, SubscriberError>>,
    ) -> Result<T, SubscriberError> {
        let mut life = self.life.subscribe();
        tokio::select! {
            biased;
            // The sender is part of this node.
            _ = life.wait_for(|life| *life > Life::Open) => Err(self.is_over()),
            done = work => done,
        }
    }

    fn reach(&self, stage: Life) {
        self.life.send_if_modified(|life| std::mem::replace(life, stage.max(*life)) < stage);
    }

    /// Adds a handler for the events of a type. In the type, `*` stands for any characters:
    /// `user.*`, `*`.
    ///
    /// A type may have several handlers. They all run in one transaction, in the order in which
    /// they were added, and that transaction also acknowledges the event. If one of them fails, the
    /// transaction has no effect: the event is tried again after a pause, on any node, and becomes
    /// a dead letter after the last retry. For speed, one transaction holds several events as long
    /// as all goes well.
    ///
    /// Nodes that handle the same type compete: each event goes to one of them. A handler that is
    /// added to a running node gets events at once, including those that waited for a handler. All
    /// handlers of a namespace form the shared subscriber [`HANDLERS`].
    ///
    /// ```no_run
    /// # use headwater::{Delivery, Headwater};
    /// # use headwater::node::NodeOptions;
    /// # use serde_json::json;
    /// # async fn run(url: &str) -> Result<(), Box<dyn std::error::Error>> {
    /// let system = Headwater::connect(url).namespace("myapp").await?;
    /// let node = system.register_node(NodeOptions::new("api-server-1").display_name("API Server")).await?;
    /// node.on_event("user.created", |event: Delivery, mut tx| async move {
    ///     let insert = sqlx::query("INSERT INTO user_events (event_id, payload) VALUES ($1, $2::jsonb)");
    ///     insert.bind(i64::try_from(event.message_id())?).bind(event.data_text()).execute(&mut *tx).await?;
    ///     Ok(())
    /// })?;
    /// node.start().await?;
    /// node.emit("user.created", json!({ "userId": "123" })).await?;
    /// node.shutdown().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_event<D, F, R>(&self, event_type: &str, handler: F) -> Result<EventHandler, SubscriberError>
    where
        D: Observed,
        F: Fn(Delivery<D>, Transaction) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        self.needs_postgres("on_event")?;
        let handler = self.events.add::<D, F, R>(event_type, handler)?;
        if let Some(running) = self.running.get() {
            running.handle_events();
        }
        Ok(handler)
    }

    /// Removes all handlers that were added for this type or pattern, written as it was given then.
    /// Returns how many there were.
    pub fn off_event(&self, event_type: &str) -> usize {
        self.events.remove_all_of(event_type)
    }

    /// Adds a handler for the [broadcasts](Node::broadcast) of a type. Each node with such a
    /// handler gets each broadcast, from its first start on. In the type, `*` stands for any
    /// characters. A node handles broadcasts in order. It handles a broadcast that it missed while
    /// it was down when it starts again under the same id.
    pub fn on_broadcast<D, F, R>(&self, event_type: &str, handler: F) -> Result<EventHandler, SubscriberError>
    where
        D: Observed,
        F: Fn(Delivery<D>, Transaction) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        self.needs_postgres("on_broadcast")?;
        let handler = self.broadcasts.add::<D, F, R>(event_type, handler)?;
        if let Some(running) = self.running.get()
            && let Some(hearing) = running.hear_broadcasts()
            && let Some(by_type) = &running.by_type
        {
            by_type.registering.lock().expect("no holder of this lock panics").spawn(hearing);
        }
        Ok(handler)
    }

    /// Removes all broadcast handlers that were added for this type or pattern, written as it was
    /// given then. Returns how many there were.
    pub fn off_broadcast(&self, event_type: &str) -> usize {
        self.broadcasts.remove_all_of(event_type)
    }

    fn needs_postgres(&self, what: &str) -> Result<(), SubscriberError> {
        match &self.registered {
            Some(_) => Ok(()),
            None => {
                let message = format!("{what} needs PostgreSQL: this node has another log");
                Err(SubscriberError::InvalidInput(message))
            }
        }
    }

    /// The node's id.
    pub fn node_id(&self) -> &str {
        &self.instance.node
    }

    /// The node's id and this run of it.
    pub fn instance(&self) -> &Instance {
        &self.instance
    }

    /// The present state of the node and its subscribers.
    pub fn status(&self) -> NodeStatus {
        let subscriber = |slot: &Arc<RunnerSlot>| {
            let (position, pending_gaps) = match &*slot.status.reached.borrow() {
                Some((position, gaps)) => (Some(*position), gaps.ranges()),
                None => (None, Vec::new()),
            };
            SubscriberStatus {
                subscriber_id: slot.id.subscriber_id.clone(),
                partition: slot.id.partition,
                owned: position.is_some() || slot.owned_by == OwnedBy::Claims,
                position,
                pending_gaps,
                handled: slot.status.handled(),
                report: slot.status.report(),
            }
        };
        let running = self.running.get();
        NodeStatus {
            instance: self.instance.clone(),
            connected: running.is_some_and(|running| running.runners.tail.is_connected()),
            listening: running.and_then(|running| running.listening.as_ref()).is_some_and(WakeUps::is_connected),
            live: running.and_then(|running| running.runners.tail.live()),
            replaced: self.registered.as_ref().is_some_and(|registered| registered.heartbeat.is_replaced()),
            seen: running.map_or(0, |running| running.runners.tail.seen()),
            subscribers: running.map(|running| running.runners.slots()).iter().flatten().map(subscriber).collect(),
        }
    }

    /// Waits until a subscriber has handled everything up to a sequence, here or in another
    /// process. Use it to read what was just written.
    pub async fn wait_for(&self, subscriber_id: &str, global_sequence: u64) -> Result<(), SubscriberError> {
        // Only the database knows how far the other partitions of a group are.
        let of_subscriber = |slot: &&Arc<RunnerSlot>| slot.id.subscriber_id == subscriber_id;
        let Some(Running { runners, .. }) = self.running.get() else {
            let message = format!("node {:?} is not started", self.instance.node);
            return Err(SubscriberError::InvalidInput(message));
        };
        let slots = runners.slots();
        let local = match &slots.iter().filter(of_subscriber).collect::<Vec<_>>()[..] {
            [slot] if slot.owned_by != OwnedBy::Claims && !slot.partitioned => Some(slot.status.reached.subscribe()),
            _ => None,
        };
        let handled = |position: u64, gaps: &headwater_core::Gaps| {
            position >= global_sequence && gaps.first().is_none_or(|first| first > global_sequence)
        };
        // Without a runner here, this stays silent, and we ask the database.
        let (_silent, nothing) = watch::channel(None);
        let mut reached = local.unwrap_or(nothing);
        loop {
            let owned = match &*reached.borrow_and_update() {
                Some((position, gaps)) if handled(*position, gaps) => return Ok(()),
                reached => reached.is_some(),
            };
            if owned {
                // The sender lives as long as the node.
                _ = reached.changed().await;
                continue;
            }
            match runners.store.position(subscriber_id).await {
                Ok(there) if handled(there.position, &there.pending_gaps) => return Ok(()),
                Err(error) if !error.is_retryable() => return Err(error),
                Ok(_) | Err(_) => {}
            }
            tokio::select! {
                () = tokio::time::sleep(WAIT_POLL) => {}
                _ = reached.changed() => {}
            }
        }
    }

    /// Finishes the events that are being handled, writes checkpoints, and releases the leases, so
    /// that other instances take over at once. Events that are not done within 30 s are left to the
    /// other instances. If the database does not answer, this takes at most 10 s longer.
    ///
    /// A [`start`](Node::start) or [`run`](Node::run) that is under way fails at once. If another
    /// shutdown is under way, this one waits for it, and ends both at the limit that comes first. If
    /// this future is dropped before it is done, the node ends at once, and others take over when
    /// its leases end.
    pub async fn shutdown(&self) -> Result<(), SubscriberError> {
        self.shutdown_within(SHUTDOWN).await
    }

    /// Shuts down as [`shutdown`](Node::shutdown) does, with another limit.
    pub async fn shutdown_within(&self, limit: Duration) -> Result<(), SubscriberError> {
        let _under_way = ShuttingDown::begin(self);
        self.reach(Life::Ending);
        let running = self.running.get();
        if let Some(running) = running {
            running.end_events(limit).await;
        }
        let farewell = async {
            let mut retired = self.retired.lock().await;
            if *retired {
                return;
            }
            if let Some(running) = running {
                running.end_the_rest().await;
                if running.has_inbox {
                    self.warn_of_slot().await;
                }
            }
            self.retire().await;
            *retired = true;
        };
        if tokio::time::timeout(FAREWELL, farewell).await.is_err() {
            tracing::warn!(node = self.instance.node, "the database does not answer: others take over when leases end");
        }
        self.reach(Life::Ended);
        Ok(())
    }

    /// Warns that the namespace's durable slot stays behind, if no other node wants it.
    async fn warn_of_slot(&self) {
        let Some(log) = self.postgres_log() else { return };
        match log.database().slot_left_by(&log.info().name, &self.instance.node).await {
            Ok(Some(slot)) => tracing::warn!(
                namespace = log.info().name,
                "the last node with an inbox ends: the server keeps its WAL for slot {slot} until a node reads it; if none will, drop it with `headwater cdc drop-slot {slot}`"
            ),
            Ok(None) => {}
            Err(error) => tracing::debug!(namespace = log.info().name, %error, "failed to look at the slot"),
        }
    }

    /// Marks the node as stopped in the database.
    async fn retire(&self) {
        if let Some(Registered { heartbeat, .. }) = &self.registered
            && let Err(error) = heartbeat.nodes.stop(&heartbeat.registration()).await
        {
            tracing::warn!(node = self.instance.node, %error, "failed to say that the node ends: it counts as alive for a while");
        }
    }
}

impl Running {
    /// Waits until the runners have ended, and stops them at the limit.
    async fn end_events(&self, limit: Duration) {
        if let Some(by_type) = &self.by_type {
            by_type.registering.lock().expect("no holder of this lock panics").abort_all();
        }
        // The keeper goes on meanwhile, so that nobody takes over in the middle of an event.
        let slots = self.runners.dismiss();
        if !until_ended(&slots, limit).await {
            tracing::warn!(
                node = self.runners.instance.node,
                ?limit,
                "stopped in the middle of events: they will come again"
            );
        }
    }

    /// Releases the leases, and ends all tasks, even if this future is dropped.
    async fn end_the_rest(&self) {
        let Some(mut tasks) = self.tasks.lock().expect("no holder of this lock panics").take() else { return };
        self.stop.send_replace(true);
        let mut stopping = std::mem::take(&mut *self.stopping.lock().expect("no holder of this lock panics"));
        while stopping.join_next().await.is_some() {}
        if let Ok(keeper) = (&mut tasks.keeper).await {
            keeper.release().await;
        }
        tasks.others.shutdown().await;
        self.runners.tail.write_last_records().await;
        if let Some(postgres) = &self.runners.postgres {
            postgres.close().await;
        }
    }
}

/// Registers a subscriber that only this node has, and starts it.
async fn hear(runners: Arc<Runners>, subscription: Arc<SubscriptionPlan>) {
    let id = &subscription.subscriber_id;
    let registered_as = runners.hearing.get_or_init(|| subscription.registered_as());
    let mut pauses = Backoff::for_database();
    loop {
        let beginning = async {
            runners.store.register(registered_as).await?;
            let loaded = runners.store.position(id).await?;
            Ok::<_, SubscriberError>((loaded, runners.is_node().await?))
        };
        match beginning.await {
            Ok((loaded, is_node)) => {
                let slot = runners.slot(&subscription, 0);
                // If this is not the node, the keeper sets the fence when this is the node again.
                let fence = is_node.then(|| slot.fence(loaded.term, loaded.history));
                return slot.control.send_modify(|control| {
                    control.fence = fence;
                    control.paused = loaded.paused;
                });
            }
            Err(error) => tracing::warn!(subscriber_id = id, %error, "failed to begin with broadcasts, trying again"),
        }
        tokio::time::sleep(pauses.jittered(rand::random())).await;
    }
}

async fn audit(runners: Arc<Runners>, interval: Duration) {
    loop {
        tokio::time::sleep(interval).await;
        let subscriptions = runners.subscriptions();
        let ids: Vec<_> = subscriptions.iter().map(|subscription| subscription.subscriber_id.clone()).collect();
        match runners.store.audit(&ids).await {
            Ok(report) if report.findings.is_empty() => {
                tracing::debug!(events = report.events, "the audit found nothing")
            }
            Ok(report) => tracing::error!(findings = ?report.findings, "THE AUDIT FOUND WHAT MUST NOT BE"),
            Err(error) => tracing::warn!(%error, "failed to audit"),
        }
    }
}
