//! The entry point: connect, migrate, manage namespaces, open them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use headwater_core::{
    AdminError, AppendError, Horizon, NamespaceConfig, NamespaceInfo, NodeInfo, Storage, SubscriberError,
    SubscriberInfo,
};
use headwater_postgres::{
    Database, DatabaseOptions, DoctorOptions, Finding, Fired, Grant, GrantKind, Holder, LiveNode, LogOptions, Loss,
    Maintained, Migrated, MonthInfo, NamespaceChanges, NamespaceStatus, OrphanedSlot, QueueInfo, ReplicationSettings,
    ReplicationSlot, ServerStatus, SlotDropped, StorageStep, TransferError, Transferred, WakeUps,
};
use sqlx::PgPool;

use crate::Namespace;
use crate::connect::Connect;
use crate::live::Live;
use crate::node::background::due::{self, LONGEST_SLEEP};

/// How often to look for due events where nothing can wake us.
const POLL: Duration = Duration::from_secs(1);

/// Headwater in one database. Clones share the connections and the open namespaces.
#[derive(Debug, Clone)]
pub struct Headwater {
    pub(crate) database: Database,
    log_options: LogOptions,
    live: Live,
    open: Arc<futures::lock::Mutex<HashMap<String, Namespace>>>,
}

impl Headwater {
    /// Connects to `url` (`postgres://user:password@host:port/database`) when it is awaited. Or
    /// continues to a namespace there: `Headwater::connect(url).namespace("shop").await?`.
    pub fn connect(url: &str) -> Connect {
        Connect::new(Headwater::builder(), url)
    }

    /// Connects to the url in the environment variable `DATABASE_URL` when it is awaited. Or
    /// continues to a namespace there: `Headwater::from_env().namespace("shop").await?`.
    pub fn from_env() -> Connect {
        Connect::from_env(Headwater::builder())
    }

    /// Settings other than the defaults.
    pub fn builder() -> HeadwaterBuilder {
        HeadwaterBuilder::default()
    }

    /// Migrates the database's schema to the version of this build. Does nothing if the schema has
    /// it already. Every process can safely call it at its start.
    pub async fn migrate(&self) -> Result<Migrated, AdminError> {
        self.database.migrate().await
    }

    /// Creates a namespace, or returns the existing one. If a given setting differs from the
    /// existing namespace's, it fails with [`AdminError::NamespaceDiffers`].
    pub async fn create_namespace(&self, config: NamespaceConfig) -> Result<NamespaceInfo, AdminError> {
        self.database.create_namespace(&config).await
    }

    /// Removes a namespace for good, with all its events, subscribers, dead letters and schedules.
    /// While nodes of it are alive, it fails with [`AdminError::NamespaceInUse`], unless `force` is
    /// set.
    pub async fn drop_namespace(&self, name: &str, force: bool) -> Result<(), AdminError> {
        self.open.lock().await.remove(name);
        self.database.drop_namespace(name, force).await
    }

    /// Changes settings of a namespace. Processes that have it open see the new settings when they
    /// open it again.
    pub async fn alter_namespace(&self, name: &str, changes: NamespaceChanges) -> Result<NamespaceInfo, AdminError> {
        let info = self.database.alter_namespace(name, &changes).await?;
        self.open.lock().await.remove(name);
        Ok(info)
    }

    /// Moves a namespace to tables of its own, or to shared tables, while it is in use. It calls
    /// `on_step` for each step. If transactions block it for longer than `patience`, it fails with
    /// [`AdminError::NamespaceHeld`]: call it again, and it goes on where it stopped.
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

    /// Renames a namespace. Fails while nodes or leases are alive, unless `force` is set: running
    /// programs know the old name, and fail.
    pub async fn rename_namespace(&self, name: &str, new_name: &str, force: bool) -> Result<NamespaceInfo, AdminError> {
        let info = self.database.rename_namespace(name, new_name, force).await?;
        self.open.lock().await.remove(name);
        Ok(info)
    }

    /// Writes a whole namespace as JSON lines, from one snapshot. `write` gets each line without
    /// its line end.
    pub async fn export_namespace(
        &self,
        name: &str,
        write: impl FnMut(&str) -> std::io::Result<()>,
    ) -> Result<Transferred, TransferError> {
        self.database.export_namespace(name, write).await
    }

    /// Creates a namespace from the lines of an export, under its own name or another. The name
    /// must not exist yet. It creates all of the namespace, or nothing.
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

    /// The state of all namespaces, by name, in one statement for any number of namespaces.
    pub async fn namespace_statuses(&self) -> Result<Vec<NamespaceStatus>, AdminError> {
        self.database.namespace_statuses().await
    }

    /// The subscribers of all namespaces, each with its namespace's name, in one statement for any
    /// number of them.
    pub async fn subscribers(&self) -> Result<Vec<(String, SubscriberInfo)>, SubscriberError> {
        self.database.subscribers_of_all().await
    }

    /// Grants a database role access to a namespace: see the guide on roles. Only the owner of
    /// Headwater's tables and superusers can do this.
    pub async fn grant(&self, namespace: &str, role: &str, kind: GrantKind) -> Result<(), AdminError> {
        self.database.grant(namespace, role, kind).await
    }

    /// Revokes one grant of a role in a namespace, or all of them with `None`. Returns how many the
    /// role had.
    pub async fn revoke(&self, namespace: &str, role: &str, kind: Option<GrantKind>) -> Result<u64, AdminError> {
        self.database.revoke(namespace, role, kind).await
    }

    /// The grants in a namespace, or in all with `None`. Roles other than the owner see only the
    /// grants of their own roles.
    pub async fn grants(&self, namespace: Option<&str>) -> Result<Vec<Grant>, AdminError> {
        self.database.grants(namespace).await
    }

    /// How far a namespace's log is settled, and which transactions may still commit beyond that.
    /// It does not open the namespace.
    pub async fn horizon(&self, name: &str) -> Result<Horizon, AdminError> {
        self.database.horizon(name).await
    }

    /// The highest sequence of a namespace that can be read now; 0 means that its log is empty.
    /// Higher sequences may have been handed out: to transactions that are open or were rolled
    /// back.
    pub async fn log_end(&self, name: &str) -> Result<u64, AdminError> {
        self.database.log_end(name).await
    }

    /// Opens a namespace to append to it and read it. All handles of one namespace share one queue
    /// of appends and one reader for followers.
    pub async fn namespace(&self, name: &str) -> Result<Namespace, AdminError> {
        let mut open = self.open.lock().await;
        if let Some(namespace) = open.get(name) {
            return Ok(namespace.clone());
        }
        let log = self.database.open_log(name, self.log_options.clone()).await?;
        let namespace = Namespace::new(log, self.live.clone());
        open.insert(name.to_owned(), namespace.clone());
        Ok(namespace)
    }

    /// Appends the due events of all namespaces, at most `max_events` in each, and those of their
    /// schedules, and says when to call again.
    pub async fn fire_due(&self, max_events: u32) -> Result<Fired, AppendError> {
        self.database.fire_all_due(max_events).await
    }

    /// Fires the events and schedules of all namespaces when they are due, until this future is
    /// dropped. Nodes do this for their own namespace. A database whose events are handled without
    /// nodes needs one process that calls this.
    pub async fn keep_firing_due(&self) {
        // Behind a pooler in transaction mode, no session can listen.
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
    pub async fn months(&self, namespace: &str) -> Result<Vec<MonthInfo>, AdminError> {
        self.database.months(namespace).await
    }

    /// Creates a namespace's coming months, seals past ones, and drops those that are older than it
    /// keeps events. It keeps each month that a subscriber still needs, unless `allow_loss` is set.
    /// Nodes do this once an hour, without loss.
    pub async fn maintain(&self, namespace: &str, allow_loss: bool) -> Result<Maintained, AdminError> {
        self.database.maintain(namespace, allow_loss).await
    }

    /// Events that retention dropped before a namespace's subscribers, or one of them, had handled
    /// them. The newest come first.
    pub async fn losses(&self, namespace: &str, subscriber_id: Option<&str>) -> Result<Vec<Loss>, AdminError> {
        self.database.losses(namespace, subscriber_id).await
    }

    /// What is wrong with the server, or will be. The worst come first.
    pub async fn diagnose(&self, options: &DoctorOptions) -> Result<Vec<Finding>, AdminError> {
        self.database.diagnose(options).await
    }

    /// Who holds back appends or deliveries of a namespace, the oldest first. `None`: what affects
    /// all namespaces, which is locks on tables and commits that wait.
    pub async fn holders(&self, namespace: Option<&str>) -> Result<Vec<Holder>, AdminError> {
        self.database.holders(namespace).await
    }

    /// Runs `work`. If it takes seconds, and somebody holds a lock on a table for which sessions
    /// wait, it gives up and returns who that is. For commands and monitors that only read: they
    /// name what blocks everybody instead of hanging too.
    pub async fn unless_locked<T>(&self, work: impl Future<Output = T>) -> Result<T, Holder> {
        self.database.unless_locked(work).await
    }

    /// The queues of a namespace's shared subscribers, or of one.
    pub async fn queues(&self, namespace: &str, subscriber_id: Option<&str>) -> Result<Vec<QueueInfo>, AdminError> {
        self.database.queues(namespace, subscriber_id).await
    }

    /// The present state of the server.
    pub async fn status(&self) -> Result<ServerStatus, AdminError> {
        self.database.server_status().await
    }

    /// What following the WAL ([`Live::Cdc`]) needs from the server and the role, and whether they
    /// have it now.
    pub async fn replication_settings(&self) -> Result<ReplicationSettings, AdminError> {
        self.database.replication_settings().await
    }

    /// Headwater's slots in this database: who reads them, and how much they retain.
    pub async fn replication_slots(&self) -> Result<Vec<ReplicationSlot>, AdminError> {
        self.database.replication_slots().await
    }

    /// The nodes of all processes that follow the WAL or were asked to, with what each has reported
    /// about its live source.
    pub async fn live_nodes(&self) -> Result<Vec<LiveNode>, AdminError> {
        self.database.live_nodes().await
    }

    /// Durable slots that nobody reads and nobody will. Either their namespace is gone, or no live
    /// node of it wants an inbox and nobody has owned the slot for `unread_for`. Nodes that follow
    /// the WAL drop such slots after an hour.
    pub async fn orphaned_slots(&self, unread_for: Duration) -> Result<Vec<OrphanedSlot>, AdminError> {
        self.database.orphaned_slots(unread_for).await
    }

    /// Drops one of Headwater's slots that nobody reads.
    pub async fn drop_replication_slot(&self, slot: &str) -> Result<SlotDropped, AdminError> {
        self.database.drop_replication_slot(slot).await
    }

    /// Creates the publication that following a namespace needs, for roles that may replicate but
    /// not create it. Nodes create it themselves if they may.
    pub async fn publish_namespace(&self, name: &str) -> Result<String, AdminError> {
        self.database.publish_namespace(name).await
    }

    /// The pool, for the application's own queries and transactions.
    pub fn pool(&self) -> &PgPool {
        self.database.pool()
    }

    /// Writes what is queued, accepts nothing more, and closes the connections. A pool that the
    /// application passed in stays open.
    pub async fn shutdown(&self) {
        let namespaces: Vec<Namespace> = self.open.lock().await.drain().map(|(_, namespace)| namespace).collect();
        for namespace in namespaces {
            namespace.stop_following();
            namespace.log().close().await;
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
    /// The most connections for reads and transactions at once (default 10). Each namespace with
    /// appends uses [`HeadwaterBuilder::flushers`] more connections.
    pub fn max_connections(mut self, connections: u32) -> Self {
        self.database.max_connections = connections;
        self
    }

    /// How long to wait for a connection (default 10 s).
    pub fn acquire_timeout(mut self, timeout: Duration) -> Self {
        self.database.acquire_timeout = timeout;
        self
    }

    /// How long subscribers, queues and handler transactions wait for the answer to one call,
    /// including a commit (default 10 s). Then the call has failed, and is made again. A shorter
    /// time finds dead connections sooner, but takes slow answers for lost ones.
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.database.call_timeout = timeout;
        self
    }

    /// Whether the url leads to a pooler in transaction mode, such as PgBouncer. Nodes then hold no
    /// session locks, and listen only where `NodeBuilder::wake_ups` tells them to.
    pub fn transaction_pooler(mut self, yes: bool) -> Self {
        self.database.transaction_pooler = yes;
        self
    }

    /// The application name of the sessions (default `headwater`). Reports show it where a session
    /// holds others back.
    pub fn application_name(mut self, name: impl Into<String>) -> Self {
        self.database.application_name = name.into();
        self
    }

    /// Connections that write at the same time, per namespace (default 2).
    pub fn flushers(mut self, flushers: usize) -> Self {
        self.log.flushers = flushers;
        self
    }

    /// The most bytes of events that wait to be written, per namespace (default 64 MiB). Callers
    /// beyond that wait.
    pub fn max_queued_bytes(mut self, bytes: u32) -> Self {
        self.log.max_queued_bytes = bytes;
        self
    }

    /// How long to retry appends while the database cannot be reached (default 30 s).
    pub fn retry_for(mut self, duration: Duration) -> Self {
        self.log.retry_for = duration;
        self
    }

    /// How nodes hear of new events, unless [`NodeBuilder::live`](crate::node::NodeBuilder::live)
    /// says otherwise. Default: [`Live::Wake`].
    pub fn live(mut self, live: Live) -> Self {
        self.live = live;
        self
    }

    /// Connects.
    pub async fn connect(self, url: &str) -> Result<Headwater, AdminError> {
        let database = Database::connect(url, self.database).await?;
        Ok(Headwater { database, log_options: self.log, live: self.live, open: Arc::default() })
    }

    /// Uses a pool of the application. Connections have the pool's settings, and only
    /// [`call_timeout`](Self::call_timeout) is ours. Each call outside handler transactions first
    /// asks whether its connection is in a transaction that nobody ends, which costs one round
    /// trip. sqlx returns such a connection to the pool when a future that begins a transaction is
    /// dropped.
    pub fn with_pool(self, pool: PgPool) -> Headwater {
        let database = Database::from_pool(pool).with_call_timeout(self.database.call_timeout);
        Headwater { database, log_options: self.log, live: self.live, open: Arc::default() }
    }
}
