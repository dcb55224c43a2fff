//! Nodes: processes that run subscribers.

mod beyond;
mod builder;
mod care;
mod crew;
pub(crate) mod due;
mod emit;
mod gap_records;
mod groups;
mod handler;
mod handlers;
mod heartbeat;
mod keeper;
mod key_hashes;
mod late;
mod lent;
mod limiter;
mod live_report;
mod maintenance;
mod pages;
mod places;
mod poison;
mod proof;
mod ring;
mod runner;
mod saga;
mod shared;
mod status;
mod subscription;
mod tail;
mod transaction;
mod turn;
mod writing;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::BoxFuture;
use headwater_cdc::{Feed, LiveStatus};
use headwater_core::{
    EventLog, HandlerError, Instance, Report, SubscriberError, SubscriberMode, SubscriberStore, jittered,
};
use headwater_postgres::{PgLog, PgSubscribers, WakeUps};
use tokio::sync::{Mutex, watch};
use tokio::task::{JoinHandle, JoinSet};

pub use self::builder::{NodeBuilder, WakeUpSource};
use self::crew::{Crew, Seat, Tenure};
pub use self::handler::TransactionScope;
use self::handlers::Handlers;
pub use self::handlers::{EventHandler, HANDLERS, HandledEvent};
use self::heartbeat::Heartbeat;
use self::keeper::Keeper;
pub use self::lent::HandlerTransaction;
use self::subscription::Subscription;
use self::tail::{Tail, WakeUp};

/// How long [`Node::shutdown`] waits for events at hand.
const SHUTDOWN: Duration = Duration::from_secs(30);
/// How long the rest of a shutdown may take, once events are done: leases are given up, connections closed.
const FAREWELL: Duration = Duration::from_secs(10);
/// Between looks at a subscriber that another process runs.
const WAIT_POLL: Duration = Duration::from_millis(25);

/// A node: a process that is registered in its namespace, emits events, and, once it is [started](Node::start), has its subscribers and handlers handle
/// them until it is [shut down](Node::shutdown). Dropping it stops them at once, as a crash would.
///
/// A node has an id. When a process registers under an id that another one had, it is a new incarnation of the same node: it takes over at once. If the other one still
/// runs, it goes on as another instance of its subscribers' pools, and is the node again when its successor is gone.
pub struct Node {
    instance: Instance,
    log: Arc<dyn EventLog>,
    /// On PostgreSQL.
    registered: Option<Registered>,
    events: Arc<Handlers>,
    broadcasts: Arc<Handlers>,
    /// Until it is started.
    plan: Mutex<Option<NodeBuilder>>,
    running: OnceLock<Running>,
}

struct Registered {
    log: PgLog,
    heartbeat: Arc<Heartbeat>,
}

struct Running {
    crew: Arc<Crew>,
    listening: Option<WakeUps>,
    by_type: Option<ByType>,
    tasks: Mutex<Option<Tasks>>,
    /// It follows the WAL by way of an inbox.
    has_inbox: bool,
    stop: watch::Sender<bool>,
}

/// Subscribers that begin with the first handler that is added.
struct ByType {
    handling: OnceLock<Arc<Subscription>>,
    hearing: OnceLock<Arc<Subscription>>,
    prepared: (Arc<Subscription>, Arc<Subscription>),
    /// What makes the second known.
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

/// How a node fires events and schedules that are due.
struct Firing {
    log: PgLog,
    wake_ups: Vec<WakeUp>,
    longest_sleep: Duration,
}

/// Events from the WAL, and what brings them.
struct LiveSource {
    feed: Arc<Feed>,
    is_inbox: bool,
    source: BoxFuture<'static, ()>,
}

/// What a node is made of.
struct Parts {
    instance: Instance,
    log: Arc<dyn EventLog>,
    store: Arc<dyn SubscriberStore>,
    postgres: Option<PgSubscribers>,
    wake_ups: Vec<WakeUp>,
    live: Option<LiveSource>,
    poison: Option<poison::Teller>,
    firing: Option<Firing>,
    listening: Option<WakeUps>,
    subscriptions: Vec<Subscription>,
    /// For events and for broadcasts.
    by_type: Option<(Arc<Subscription>, Arc<Subscription>)>,
    lease: Duration,
    poll: Duration,
    audit_every: Option<Duration>,
    maintaining: Option<(PgLog, Duration)>,
}

/// A subscriber of a node, as it is now.
#[derive(Debug, Clone, PartialEq)]
pub struct SubscriberStatus {
    /// Its id.
    pub subscriber_id: String,
    /// Its partition; one that is not partitioned has partition 0 alone.
    pub partition: u32,
    /// Whether this node handles its events; else another does, or nobody yet.
    pub owned: bool,
    /// How far its events are handled, written or not; `None`: it is not this node that knows.
    pub position: Option<u64>,
    /// Gaps up to there that were passed and are not closed, first and last of each.
    pub pending_gaps: Vec<(u64, u64)>,
    /// Events handled since the node started.
    pub handled: u64,
    /// What it does.
    pub report: Report,
}

/// A node, as it is now.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeStatus {
    /// The node's name and this run of it.
    pub instance: Instance,
    /// Whether the log could be read when that was last tried.
    pub connected: bool,
    /// Whether wake-ups from other processes can come at present; without them, events are found by polling.
    pub listening: bool,
    /// What brings events from the WAL, if that was asked for.
    pub live: Option<LiveStatus>,
    /// Whether another process is registered under its id by now: this one stands by, and is the node again when the other is gone.
    pub replaced: bool,
    /// The highest sequence seen.
    pub seen: u64,
    /// Its subscribers.
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
                let (poison, found) = poison::Poison::new();
                (poison, (teller, found))
            })
            .unzip();
        let tail = Arc::new(Tail::new(parts.log, parts.store.clone(), parts.poll, feed, poison));
        if let Some(live) = parts.live {
            others.spawn(live.source);
        }
        let following = tail.clone();
        others.spawn(async move { following.follow(parts.wake_ups).await });
        let recording = tail.clone();
        others.spawn(async move { recording.write_records().await });
        if let Some(firing) = parts.firing {
            others.spawn(due::fire(due::Scope::Namespace(firing.log), firing.wake_ups, firing.longest_sleep));
        }
        if let Some((log, interval)) = parts.maintaining {
            others.spawn(maintenance::maintain(log, interval));
        }
        if let Some(interval) = parts.audit_every {
            let ids: Vec<_> =
                parts.subscriptions.iter().map(|subscription| subscription.subscriber_id.clone()).collect();
            others.spawn(audit(parts.store.clone(), ids, interval));
        }
        let crew = Arc::new(Crew::new(tail, parts.store, parts.postgres, parts.instance, heartbeat.clone()));
        if let Some((teller, found)) = telling {
            others.spawn(teller.tell(found, crew.kept.subscribe()));
        }
        if let Some(heartbeat) = heartbeat {
            others.spawn(async move { heartbeat.run().await });
        }
        let subscriptions: Vec<_> = parts.subscriptions.into_iter().map(Arc::new).collect();
        for subscription in &subscriptions {
            if subscription.mode == SubscriberMode::Shared {
                crew.share(subscription);
                continue;
            }
            let (first, assigned) = ([0], subscription.assigned.as_deref());
            let seats = assigned.unwrap_or(&first);
            seats.iter().for_each(|partition| _ = crew.seat(subscription, *partition));
        }
        let counted_at = tokio::time::Instant::now();
        let mut keeper =
            Keeper { crew: crew.clone(), subscriptions, lease: parts.lease, counted_at, lost: Default::default() };
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
        let tasks = Mutex::new(Some(Tasks { keeper, others }));
        Running { crew, listening: parts.listening, by_type, tasks, has_inbox, stop }
    }

    /// Lets handlers by event type be given events.
    fn handle_events(&self) {
        if let Some(by_type) = &self.by_type {
            by_type.handling.get_or_init(|| {
                self.crew.share(&by_type.prepared.0);
                by_type.prepared.0.clone()
            });
        }
    }

    /// Lets handlers of broadcasts be given some, from now on. Returns what makes it so, unless it is.
    fn hear_broadcasts(&self) -> Option<impl Future<Output = ()> + Send + use<>> {
        let by_type = self.by_type.as_ref()?;
        let mut first = None;
        by_type.hearing.get_or_init(|| {
            let (crew, subscription) = (self.crew.clone(), by_type.prepared.1.clone());
            first = Some(hear(crew, subscription));
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
            plan: Mutex::new(Some(plan)),
            running: OnceLock::new(),
        }
    }

    /// Starts the node's subscribers and handlers, and its heartbeat.
    pub async fn start(&self) -> Result<(), SubscriberError> {
        let mut plan = self.plan.lock().await;
        let Some(plan) = plan.take() else {
            let message = format!("node {:?} was started, or shut down, before", self.instance.node);
            return Err(SubscriberError::InvalidInput(message));
        };
        let parts = plan.parts(self.instance.clone()).await?;
        let heartbeat = self.registered.as_ref().map(|registered| registered.heartbeat.clone());
        let running = self.running.get_or_init(|| Running::new(parts, heartbeat));
        if !self.events.is_empty() {
            running.handle_events();
        }
        if !self.broadcasts.is_empty()
            && let Some(hearing) = running.hear_broadcasts()
        {
            hearing.await;
        }
        Ok(())
    }

    /// Gives a handler the events of a type. In the type, `*` stands for any characters: `user.*`, `*`.
    ///
    /// Several handlers may be for one type: all of them run in one transaction, in the order in which they were added, and that acknowledges the event too. If
    /// one fails, nothing of it has happened: the event is tried again after a pause, on any node, and becomes a dead letter after the last retry. For speed, a transaction
    /// holds several events as long as all goes well.
    ///
    /// Nodes that handle the same type compete: each event goes to one of them. A handler that is added to a running node is given events at once, also those that
    /// waited for one. All handlers of a namespace are the shared subscriber [`HANDLERS`].
    ///
    /// ```no_run
    /// # use headwater::{Headwater, NodeOptions};
    /// # use serde_json::json;
    /// # async fn run(url: &str) -> Result<(), Box<dyn std::error::Error>> {
    /// let system = Headwater::connect(url).namespace("myapp").await?;
    /// let node = system.register_node(NodeOptions::new("api-server-1").display_name("API Server")).await?;
    /// node.on_event("user.created", |event, mut tx| async move {
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
    pub fn on_event<F, R>(&self, event_type: &str, handler: F) -> Result<EventHandler, SubscriberError>
    where
        F: Fn(HandledEvent, HandlerTransaction) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        self.needs_postgres("on_event")?;
        let handler = self.events.add(event_type, handler)?;
        if let Some(running) = self.running.get() {
            running.handle_events();
        }
        Ok(handler)
    }

    /// Takes away all handlers that were added for a type (or pattern), as it was given. Returns how many there were.
    pub fn off_event(&self, event_type: &str) -> usize {
        self.events.remove_all_of(event_type)
    }

    /// Gives a handler what is [broadcast](Node::broadcast) of a type: every node that has one is given each broadcast, from its first start on. In the type, `*`
    /// stands for any characters. Broadcasts of a node are handled in order; one that a node missed while it was down is handled when it is started again
    /// under the same id.
    pub fn on_broadcast<F, R>(&self, event_type: &str, handler: F) -> Result<EventHandler, SubscriberError>
    where
        F: Fn(HandledEvent, HandlerTransaction) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        self.needs_postgres("on_broadcast")?;
        let handler = self.broadcasts.add(event_type, handler)?;
        if let Some(running) = self.running.get()
            && let Some(hearing) = running.hear_broadcasts()
            && let Some(by_type) = &running.by_type
        {
            by_type.registering.lock().expect("no holder of this lock panics").spawn(hearing);
        }
        Ok(handler)
    }

    /// Takes away all handlers of broadcasts that were added for a type (or pattern), as it was given. Returns how many there were.
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

    /// What the node and its subscribers do.
    pub fn status(&self) -> NodeStatus {
        let subscriber = |seat: &Arc<Seat>| {
            let (position, pending_gaps) = match &*seat.status.reached.borrow() {
                Some((position, gaps)) => (Some(*position), gaps.ranges()),
                None => (None, Vec::new()),
            };
            SubscriberStatus {
                subscriber_id: seat.id.subscriber_id.clone(),
                partition: seat.id.partition,
                owned: position.is_some() || seat.tenure == Tenure::Claims,
                position,
                pending_gaps,
                handled: seat.status.handled(),
                report: seat.status.report(),
            }
        };
        let running = self.running.get();
        NodeStatus {
            instance: self.instance.clone(),
            connected: running.is_some_and(|running| running.crew.tail.is_connected()),
            listening: running.and_then(|running| running.listening.as_ref()).is_some_and(WakeUps::is_connected),
            live: running.and_then(|running| running.crew.tail.live()),
            replaced: self.registered.as_ref().is_some_and(|registered| registered.heartbeat.is_replaced()),
            seen: running.map_or(0, |running| running.crew.tail.seen()),
            subscribers: running.map(|running| running.crew.seats()).iter().flatten().map(subscriber).collect(),
        }
    }

    /// Waits until a subscriber has handled everything up to a sequence, here or in another process: to read what was just written.
    pub async fn wait_for(&self, subscriber_id: &str, global_sequence: u64) -> Result<(), SubscriberError> {
        // What the others of several partitions have reached, only the database knows.
        let of_subscriber = |seat: &&Arc<Seat>| seat.id.subscriber_id == subscriber_id;
        let Some(Running { crew, .. }) = self.running.get() else {
            let message = format!("node {:?} is not started", self.instance.node);
            return Err(SubscriberError::InvalidInput(message));
        };
        let seats = crew.seats();
        let local = match &seats.iter().filter(of_subscriber).collect::<Vec<_>>()[..] {
            [seat] if seat.tenure != Tenure::Claims && !seat.partitioned => Some(seat.status.reached.subscribe()),
            _ => None,
        };
        let handled = |position: u64, gaps: &headwater_core::Gaps| {
            position >= global_sequence && gaps.first().is_none_or(|first| first > global_sequence)
        };
        // Without a runner here, this stays silent, and the database is asked.
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
            match crew.store.position(subscriber_id).await {
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

    /// Ends the events at hand, writes checkpoints, and gives up the leases, so that other instances take over at once. What is
    /// not done within 30 s is left to them. A database that does not answer makes this at most 10 s longer.
    pub async fn shutdown(&self) -> Result<(), SubscriberError> {
        self.shutdown_within(SHUTDOWN).await
    }

    /// As [`shutdown`](Node::shutdown), with another limit.
    pub async fn shutdown_within(&self, limit: Duration) -> Result<(), SubscriberError> {
        self.plan.lock().await.take();
        let running = match self.running.get() {
            Some(running) => running.tasks.lock().await.take().map(|tasks| (running, tasks)),
            None => None,
        };
        if let Some((running, _)) = &running {
            running.end_events(limit).await;
        }
        let farewell = async {
            if let Some((running, tasks)) = running {
                running.end_the_rest(tasks).await;
                if running.has_inbox {
                    self.warn_of_slot().await;
                }
            }
            self.retire().await;
        };
        if tokio::time::timeout(FAREWELL, farewell).await.is_err() {
            tracing::warn!(node = self.instance.node, "the database does not answer: others take over when leases end");
        }
        Ok(())
    }

    /// Says that the namespace's durable slot stays behind, if no other node wants it.
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

    /// Says that the node ends.
    async fn retire(&self) {
        if let Some(Registered { heartbeat, .. }) = &self.registered
            && let Err(error) = heartbeat.nodes.stop(&heartbeat.registration()).await
        {
            tracing::warn!(node = self.instance.node, %error, "failed to say that the node ends: it counts as alive for a while");
        }
    }
}

impl Running {
    /// Lets the runners end, and stops them at the limit.
    async fn end_events(&self, limit: Duration) {
        if let Some(by_type) = &self.by_type {
            by_type.registering.lock().expect("no holder of this lock panics").abort_all();
        }
        let mut runners = self.crew.dismiss();
        // The keeper goes on meanwhile, so that nobody takes over in the middle of an event.
        let ended = async { while runners.join_next().await.is_some() {} };
        if tokio::time::timeout(limit, ended).await.is_err() {
            tracing::warn!(
                node = self.crew.instance.node,
                ?limit,
                "stopped in the middle of events: they will come again"
            );
            runners.shutdown().await;
            self.crew.seats().iter().for_each(|seat| _ = seat.status.reached.send_replace(None));
        }
    }

    /// Gives up the leases, and ends all tasks, also if this is dropped.
    async fn end_the_rest(&self, mut tasks: Tasks) {
        self.stop.send_replace(true);
        if let Ok(keeper) = (&mut tasks.keeper).await {
            keeper.release().await;
        }
        tasks.others.shutdown().await;
        self.crew.tail.write_last_records().await;
        if let Some(postgres) = &self.crew.postgres {
            postgres.close().await;
        }
    }
}

/// Registers a subscriber that is this node's alone, and lets it begin.
async fn hear(crew: Arc<Crew>, subscription: Arc<Subscription>) {
    let id = &subscription.subscriber_id;
    let registered_as = crew.hearing.get_or_init(|| subscription.registered_as());
    let mut pause = Duration::from_millis(50);
    loop {
        let beginning = async {
            crew.store.register(registered_as).await?;
            let loaded = crew.store.position(id).await?;
            Ok::<_, SubscriberError>((loaded, crew.is_node().await?))
        };
        match beginning.await {
            Ok((loaded, is_node)) => {
                let seat = crew.seat(&subscription, 0);
                // Else the keeper gives it one, when this is the node again.
                let fence = is_node.then(|| seat.fence(loaded.term, loaded.history));
                return seat.control.send_modify(|control| {
                    control.fence = fence;
                    control.paused = loaded.paused;
                });
            }
            Err(error) => tracing::warn!(subscriber_id = id, %error, "failed to begin with broadcasts, trying again"),
        }
        tokio::time::sleep(jittered(pause, 0.5, rand::random())).await;
        pause = (pause * 2).min(Duration::from_secs(5));
    }
}

async fn audit(store: Arc<dyn SubscriberStore>, subscriber_ids: Vec<String>, interval: Duration) {
    loop {
        tokio::time::sleep(interval).await;
        match store.audit(&subscriber_ids).await {
            Ok(report) if report.findings.is_empty() => {
                tracing::debug!(events = report.events, "the audit found nothing")
            }
            Ok(report) => tracing::error!(findings = ?report.findings, "THE AUDIT FOUND WHAT MUST NOT BE"),
            Err(error) => tracing::warn!(%error, "failed to audit"),
        }
    }
}
