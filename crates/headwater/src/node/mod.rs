//! Nodes: processes that run subscribers.

mod builder;
mod crew;
pub(crate) mod due;
mod groups;
mod handler;
mod keeper;
mod maintenance;
mod pages;
mod ring;
mod runner;
mod saga;
mod shared;
mod status;
mod subscription;
mod tail;
mod transaction;
mod turn;

use std::sync::Arc;
use std::time::Duration;

use headwater_core::{EventLog, Instance, Report, SubscriberError, SubscriberMode, SubscriberStore};
use headwater_postgres::{PgLog, PgSubscribers, WakeUps};
use tokio::sync::{Mutex, watch};
use tokio::task::{JoinHandle, JoinSet};

pub use self::builder::{NodeBuilder, WakeUpSource};
use self::crew::{Crew, Seat, Tenure};
pub use self::handler::TransactionScope;
use self::keeper::Keeper;
use self::subscription::Subscription;
use self::tail::{Tail, WakeUp};

/// How long [`Node::shutdown`] waits for events at hand.
const SHUTDOWN: Duration = Duration::from_secs(30);
/// Between looks at a subscriber that another process runs.
const WAIT_POLL: Duration = Duration::from_millis(25);

/// A running node: its subscribers handle events until it is [shut down](Node::shutdown). Dropping it stops them at once, as a crash would.
pub struct Node {
    crew: Arc<Crew>,
    listening: Option<WakeUps>,
    tasks: Mutex<Option<Tasks>>,
    stop: watch::Sender<bool>,
}

struct Tasks {
    keeper: JoinHandle<Keeper>,
    others: JoinSet<()>,
}

/// How a node fires events that are due.
struct Firing {
    log: PgLog,
    wake_ups: Vec<WakeUp>,
    longest_sleep: Duration,
}

/// What a node is made of.
struct Parts {
    instance: Instance,
    log: Arc<dyn EventLog>,
    store: Arc<dyn SubscriberStore>,
    postgres: Option<PgSubscribers>,
    wake_ups: Vec<WakeUp>,
    firing: Option<Firing>,
    listening: Option<WakeUps>,
    subscriptions: Vec<Subscription>,
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
    /// The highest sequence seen.
    pub seen: u64,
    /// Its subscribers.
    pub subscribers: Vec<SubscriberStatus>,
}

impl Node {
    fn run(parts: Parts) -> Self {
        let (stop, stopped) = watch::channel(false);
        let tail = Arc::new(Tail::new(parts.log, parts.store.clone(), parts.poll));
        let mut others = JoinSet::new();
        let following = tail.clone();
        others.spawn(async move { following.follow(parts.wake_ups).await });
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
        let crew = Arc::new(Crew::new(tail, parts.store, parts.postgres, parts.instance));
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
        let mut keeper = Keeper { crew: crew.clone(), subscriptions, lease: parts.lease, counted_at };
        let keeper = tokio::spawn(async move {
            keeper.run(stopped).await;
            keeper
        });
        Node { crew, listening: parts.listening, tasks: Mutex::new(Some(Tasks { keeper, others })), stop }
    }

    /// The node's name and this run of it.
    pub fn instance(&self) -> &Instance {
        &self.crew.instance
    }

    /// What the node and its subscribers do.
    pub fn status(&self) -> NodeStatus {
        let subscriber = |seat: &Arc<Seat>| {
            let (position, pending_gaps) = match &*seat.status.reached.borrow() {
                Some((position, gaps)) => (Some(*position), gaps.ranges().to_vec()),
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
        NodeStatus {
            instance: self.crew.instance.clone(),
            connected: self.crew.tail.is_connected(),
            listening: self.listening.as_ref().is_some_and(WakeUps::is_connected),
            seen: self.crew.tail.seen(),
            subscribers: self.crew.seats().iter().map(subscriber).collect(),
        }
    }

    /// Waits until a subscriber has handled everything up to a sequence, here or in another process: to read what was just written.
    pub async fn wait_for(&self, subscriber_id: &str, global_sequence: u64) -> Result<(), SubscriberError> {
        // What the others of several partitions have reached, only the database knows.
        let of_subscriber = |seat: &&Arc<Seat>| seat.id.subscriber_id == subscriber_id;
        let seats = self.crew.seats();
        let local = match &seats.iter().filter(of_subscriber).collect::<Vec<_>>()[..] {
            [seat] if seat.tenure != Tenure::Claims && !seat.partitioned => Some(seat.status.reached.subscribe()),
            _ => None,
        };
        let handled = |position: u64, gaps: &headwater_core::Gaps| {
            position >= global_sequence && gaps.ranges().first().is_none_or(|(first, _)| *first > global_sequence)
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
            match self.crew.store.position(subscriber_id).await {
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
    /// not done within 30 s is left to them.
    pub async fn shutdown(&self) -> Result<(), SubscriberError> {
        self.shutdown_within(SHUTDOWN).await
    }

    /// As [`shutdown`](Node::shutdown), with another limit.
    pub async fn shutdown_within(&self, limit: Duration) -> Result<(), SubscriberError> {
        let Some(mut tasks) = self.tasks.lock().await.take() else { return Ok(()) };
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
        self.stop.send_replace(true);
        if let Ok(keeper) = tasks.keeper.await {
            keeper.release().await;
        }
        tasks.others.shutdown().await;
        if let Some(postgres) = &self.crew.postgres {
            postgres.close().await;
        }
        Ok(())
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
