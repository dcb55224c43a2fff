//! The way in: connect, migrate, manage namespaces, open them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use headwater_core::{
    AdminError, AppendError, Horizon, NamespaceConfig, NamespaceInfo, NodeInfo, Storage, SubscriberError,
    SubscriberInfo,
};
use headwater_postgres::{
    Database, DatabaseOptions, DoctorOptions, Finding, Fired, Grant, GrantKind, Holder, LiveNode, LogOptions, Loss,
    Maintained, Migrated, MonthInfo, NamespaceChanges, NamespaceStatus, OrphanedSlot, PgLog, QueueInfo,
    ReplicationSettings, ReplicationSlot, ServerStatus, SlotDropped, StorageStep, TransferError, Transferred, WakeUps,
};
use sqlx::PgPool;

use crate::connect::Connect;
use crate::node::due::{self, LONGEST_SLEEP};
use crate::{Live, Namespace};

/// How often due events are looked for where nobody can be woken.
const POLL: Duration = Duration::from_secs(1);

/// Headwater in one database. Clones share the connections and the open namespaces.
#[derive(Debug, Clone)]
pub struct Headwater {
    database: Database,
    log_options: LogOptions,
    live: Live,
    open: Arc<futures::lock::Mutex<HashMap<String, PgLog>>>,
}

impl Headwater {
    /// Connects to `url` (`postgres://user:password@host:port/database`), when it is awaited; or goes on to a namespace there:
    /// `Headwater::connect(url).namespace("shop").await?`.
    pub fn connect(url: &str) -> Connect {
        Connect::new(Headwater::builder(), url)
    }

    /// Settings other than the defaults.
    pub fn builder() -> HeadwaterBuilder {
        HeadwaterBuilder::default()
    }

    /// Brings the database's schema to this build's version; does nothing if it is there. Safe to call from every
    /// process at its start.
    pub async fn migrate(&self) -> Result<Migrated, AdminError> {
        self.database.migrate().await
    }

    /// Makes a namespace, or answers with the one that is there. A setting given that differs from what is there is
    /// [`AdminError::NamespaceDiffers`].
    pub async fn create_namespace(&self, config: NamespaceConfig) -> Result<NamespaceInfo, AdminError> {
        self.database.create_namespace(&config).await
    }

    /// Removes a namespace for good, with all its events, subscribers, dead letters and schedules. While nodes of it are
    /// alive it is [`AdminError::NamespaceInUse`], unless `force`.
    pub async fn drop_namespace(&self, name: &str, force: bool) -> Result<(), AdminError> {
        self.open.lock().await.remove(name);
        self.database.drop_namespace(name, force).await
    }

    /// Changes settings of a namespace. Processes that have it open see them when they open it again.
    pub async fn alter_namespace(&self, name: &str, changes: NamespaceChanges) -> Result<NamespaceInfo, AdminError> {
        let info = self.database.alter_namespace(name, &changes).await?;
        self.open.lock().await.remove(name);
        Ok(info)
    }

    /// Moves a namespace to tables of its own, or to those that namespaces share, while it is in use; `on_step` is told of each step. If transactions
    /// are in the way for longer than `patience`, it is [`AdminError::NamespaceHeld`]: call it
    /// again, which goes on where this one stopped.
    pub async fn set_storage(
        &self,
        name: &str,
        storage: Storage,
        patience: Duration,
        on_step: impl FnMut(&StorageStep),
    ) -> Result<NamespaceInfo, AdminError> {
        let info = self.database.set_storage(name, storage, patience, on_step).await?;
        self.open.lock().await.remove(name);
        Ok(info)
    }

    /// Gives a namespace another name. It is refused while nodes or leases are alive, unless it is forced: programs that run know the old name, and fail.
    pub async fn rename_namespace(&self, name: &str, new_name: &str, force: bool) -> Result<NamespaceInfo, AdminError> {
        let info = self.database.rename_namespace(name, new_name, force).await?;
        self.open.lock().await.remove(name);
        Ok(info)
    }

    /// Writes a whole namespace as JSON lines, as one snapshot shows it. `write` gets each line without its end.
    pub async fn export_namespace(
        &self,
        name: &str,
        write: impl FnMut(&str) -> std::io::Result<()>,
    ) -> Result<Transferred, TransferError> {
        self.database.export_namespace(name, write).await
    }

    /// Makes a namespace of the lines of an export, under its own name or another, which must not be there yet: all of it, or nothing.
    pub async fn import_namespace(
        &self,
        lines: impl IntoIterator<Item = std::io::Result<String>>,
        new_name: Option<&str>,
    ) -> Result<(NamespaceInfo, Transferred), TransferError> {
        self.database.import_namespace(lines, new_name).await
    }

    /// All namespaces, by name.
    pub async fn namespaces(&self) -> Result<Vec<NamespaceInfo>, AdminError> {
        self.database.namespaces().await
    }

    /// The settings of a namespace.
    pub async fn namespace_info(&self, name: &str) -> Result<NamespaceInfo, AdminError> {
        self.database.namespace(name).await
    }

    /// The state of all namespaces, by name: one statement, however many there are.
    pub async fn namespace_statuses(&self) -> Result<Vec<NamespaceStatus>, AdminError> {
        self.database.namespace_statuses().await
    }

    /// The subscribers of all namespaces, each with the name of its namespace: one statement, however many there are.
    pub async fn subscribers(&self) -> Result<Vec<(String, SubscriberInfo)>, SubscriberError> {
        self.database.subscribers_of_all().await
    }

    /// Lets a role of the database work in a namespace: see the guide on roles. Only the owner of Headwater's tables, and superusers, can.
    pub async fn grant(&self, namespace: &str, role: &str, kind: GrantKind) -> Result<(), AdminError> {
        self.database.grant(namespace, role, kind).await
    }

    /// Takes a grant of a role back, or (`None`) all that it has in a namespace. Answers how many it had.
    pub async fn revoke(&self, namespace: &str, role: &str, kind: Option<GrantKind>) -> Result<u64, AdminError> {
        self.database.revoke(namespace, role, kind).await
    }

    /// The grants in a namespace, or (`None`) in all. Others than the owner see those of their own roles.
    pub async fn grants(&self, namespace: Option<&str>) -> Result<Vec<Grant>, AdminError> {
        self.database.grants(namespace).await
    }

    /// How far a namespace's log is settled, and who may still commit beyond. Opens nothing.
    pub async fn horizon(&self, name: &str) -> Result<Horizon, AdminError> {
        self.database.horizon(name).await
    }

    /// The highest sequence of a namespace that can be read now; 0: its log is empty. Those above it that were handed out are of transactions that are open, or were
    /// rolled back.
    pub async fn log_end(&self, name: &str) -> Result<u64, AdminError> {
        self.database.log_end(name).await
    }

    /// A namespace to append to and to read. All handles of one namespace share one queue of appends.
    pub async fn namespace(&self, name: &str) -> Result<Namespace, AdminError> {
        let mut open = self.open.lock().await;
        if let Some(log) = open.get(name) {
            return Ok(Namespace::new(log.clone(), self.live.clone()));
        }
        let log = self.database.open_log(name, self.log_options.clone()).await?;
        open.insert(name.to_owned(), log.clone());
        Ok(Namespace::new(log, self.live.clone()))
    }

    /// Appends the events of all namespaces that are due, at most `max_events` in each, and those of their schedules, and says when to call
    /// again.
    pub async fn fire_due(&self, max_events: u32) -> Result<Fired, AppendError> {
        self.database.fire_all_due(max_events).await
    }

    /// Fires the events and schedules of all namespaces when they are due, until it is dropped. Nodes do this for their own namespace; a database whose
    /// events are handled without nodes needs one process that does this.
    pub async fn keep_firing_due(&self) {
        // A pooler in transaction mode gives nobody a session to listen on.
        let servers = (!self.database.is_behind_pooler()).then(|| self.database.servers());
        let listening = servers.map(WakeUps::start_due);
        let longest_sleep = if listening.is_some() { LONGEST_SLEEP } else { POLL };
        let wake_ups = listening.iter().map(WakeUps::due).collect();
        due::fire(due::Scope::All(self.database.clone()), wake_ups, longest_sleep).await;
    }

    /// The nodes of all namespaces.
    pub async fn nodes(&self) -> Result<Vec<NodeInfo>, SubscriberError> {
        self.database.nodes().await
    }

    pub(crate) fn database(&self) -> &Database {
        &self.database
    }

    /// The months of a namespace's log, the oldest first.
    pub async fn partitions(&self, namespace: &str) -> Result<Vec<MonthInfo>, AdminError> {
        self.database.partitions(namespace).await
    }

    /// Makes a namespace's coming months, seals past ones, and drops those that are older than it keeps events: none that a subscriber is not done
    /// with, unless `allow_loss`. Nodes do this once an hour, without loss.
    pub async fn maintain(&self, namespace: &str, allow_loss: bool) -> Result<Maintained, AdminError> {
        self.database.maintain(namespace, allow_loss).await
    }

    /// What was trimmed before a namespace's subscribers, or one of them, had handled it: the newest first.
    pub async fn losses(&self, namespace: &str, subscriber_id: Option<&str>) -> Result<Vec<Loss>, AdminError> {
        self.database.losses(namespace, subscriber_id).await
    }

    /// What is wrong with the server, or will be: the worst first.
    pub async fn diagnose(&self, options: &DoctorOptions) -> Result<Vec<Finding>, AdminError> {
        self.database.diagnose(options).await
    }

    /// Who holds appends or deliveries of a namespace back, the oldest first; `None`: what concerns all of them, locks on tables and commits that wait.
    pub async fn holders(&self, namespace: Option<&str>) -> Result<Vec<Holder>, AdminError> {
        self.database.holders(namespace).await
    }

    /// Does `work`, unless it takes seconds and somebody is found who holds a lock on a table for which sessions wait: then it gives up and says who. For
    /// commands and monitors that read, and are to name what stops everybody rather than stop with them.
    pub async fn unless_locked<T>(&self, work: impl Future<Output = T>) -> Result<T, Holder> {
        self.database.unless_locked(work).await
    }

    /// The queues of a namespace's shared subscribers, or of one.
    pub async fn queues(&self, namespace: &str, subscriber_id: Option<&str>) -> Result<Vec<QueueInfo>, AdminError> {
        self.database.queues(namespace, subscriber_id).await
    }

    /// The server as it is.
    pub async fn status(&self) -> Result<ServerStatus, AdminError> {
        self.database.server_status().await
    }

    /// What following the WAL ([`Live::Cdc`]) needs of the server and of the role, as it is.
    pub async fn replication_settings(&self) -> Result<ReplicationSettings, AdminError> {
        self.database.replication_settings().await
    }

    /// Headwater's slots in this database: who reads them, and what they retain.
    pub async fn replication_slots(&self) -> Result<Vec<ReplicationSlot>, AdminError> {
        self.database.replication_slots().await
    }

    /// The nodes that follow the WAL, or were asked to, of all processes: what their live sources do, as they said.
    pub async fn live_nodes(&self) -> Result<Vec<LiveNode>, AdminError> {
        self.database.live_nodes().await
    }

    /// Durable slots that nobody reads and nobody will: their namespace is gone, or no live node of it wants an inbox and nobody has owned the slot for
    /// `unread_for`. Nodes that follow the WAL drop those of an hour.
    pub async fn orphaned_slots(&self, unread_for: Duration) -> Result<Vec<OrphanedSlot>, AdminError> {
        self.database.orphaned_slots(unread_for).await
    }

    /// Drops a slot of Headwater's that nobody reads.
    pub async fn drop_replication_slot(&self, slot: &str) -> Result<SlotDropped, AdminError> {
        self.database.drop_replication_slot(slot).await
    }

    /// Makes the publication that following a namespace needs, for roles that may replicate and no more. Nodes make it themselves if they may.
    pub async fn publish_namespace(&self, name: &str) -> Result<String, AdminError> {
        self.database.publish_namespace(name).await
    }

    /// The pool, for the application's own queries and transactions.
    pub fn pool(&self) -> &PgPool {
        self.database.pool()
    }

    /// Finishes what is queued, takes no more, and closes the connections (a pool of the application's stays open).
    pub async fn shutdown(&self) {
        let logs: Vec<PgLog> = self.open.lock().await.drain().map(|(_, log)| log).collect();
        for log in logs {
            log.close().await;
        }
        self.database.close().await;
    }
}

/// Settings of [`Headwater`].
#[derive(Debug, Clone, Default)]
pub struct HeadwaterBuilder {
    database: DatabaseOptions,
    log: LogOptions,
    live: Live,
}

impl HeadwaterBuilder {
    /// Most connections that are open at once for reads and transactions (default 10). Each namespace that is being
    /// appended to has [`HeadwaterBuilder::flushers`] of its own besides.
    pub fn max_connections(mut self, connections: u32) -> Self {
        self.database.max_connections = connections;
        self
    }

    /// How long to wait for a connection (default 10 s).
    pub fn acquire_timeout(mut self, timeout: Duration) -> Self {
        self.database.acquire_timeout = timeout;
        self
    }

    /// How long subscribers, queues and handler transactions wait for the answer to one call, a commit included (default 10 s). Then the
    /// call has failed, and is made again: shorter finds dead connections sooner, and takes slow answers for lost ones.
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.database.call_timeout = timeout;
        self
    }

    /// Whether the url leads to a pooler in transaction mode, as PgBouncer has it. Its nodes then hold no session locks, and listen only where
    /// they are told to (`NodeBuilder::wake_ups`).
    pub fn transaction_pooler(mut self, yes: bool) -> Self {
        self.database.transaction_pooler = yes;
        self
    }

    /// What the sessions call themselves: it names them where they hold others back (default `headwater`).
    pub fn application_name(mut self, name: impl Into<String>) -> Self {
        self.database.application_name = name.into();
        self
    }

    /// Connections that write at once, per namespace (default 2).
    pub fn flushers(mut self, flushers: usize) -> Self {
        self.log.flushers = flushers;
        self
    }

    /// Most bytes of events that wait to be written, per namespace (default 64 MiB); callers beyond that wait.
    pub fn max_queued_bytes(mut self, bytes: u32) -> Self {
        self.log.max_queued_bytes = bytes;
        self
    }

    /// How long appends are tried again while the database cannot be reached (default 30 s).
    pub fn retry_for(mut self, duration: Duration) -> Self {
        self.log.retry_for = duration;
        self
    }

    /// How nodes hear of new events, unless they say otherwise ([`NodeBuilder::live`](crate::NodeBuilder::live)). Default: [`Live::Wake`].
    pub fn live(mut self, live: Live) -> Self {
        self.live = live;
        self
    }

    /// Connects.
    pub async fn connect(self, url: &str) -> Result<Headwater, AdminError> {
        let database = Database::connect(url, self.database).await?;
        Ok(Headwater { database, log_options: self.log, live: self.live, open: Arc::default() })
    }

    /// Uses a pool that the application has; the settings of connections are the pool's, and [`call_timeout`](Self::call_timeout) is ours. Each call, but no transaction of a handler, then begins with a question whether its connection is in a
    /// transaction that nobody ends, which is a round trip more: sqlx gives one back so when a future is dropped that begins a transaction.
    pub fn with_pool(self, pool: PgPool) -> Headwater {
        let database = Database::from_pool(pool).with_call_timeout(self.database.call_timeout);
        Headwater { database, log_options: self.log, live: self.live, open: Arc::default() }
    }
}
