//! The entry point: connect, migrate, manage namespaces, open them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use headwater_core::{AdminError, NamespaceConfig, NamespaceInfo};
use headwater_postgres::{Database, DatabaseOptions, LogOptions, Migrated, WakeUps};
use sqlx::PgPool;
use tokio::sync::watch;

use crate::Namespace;
use crate::connect::Connect;
use crate::live::Live;
use crate::node::background::due::{self, LONGEST_SLEEP};
use crate::operators::Admin;

/// How often to look for due events where nothing can wake us.
const POLL: Duration = Duration::from_secs(1);
/// The longest wait for a connection, about a hundred years. The pool adds it to the present time,
/// which fails if the sum is more than an instant can hold.
const LONGEST_WAIT: Duration = Duration::from_secs(100 * 366 * 86_400);

/// Headwater in one database. Clones share the connections and the open namespaces.
#[derive(Debug, Clone)]
pub struct Headwater {
    pub(crate) database: Database,
    log_options: LogOptions,
    live: Live,
    open: Arc<futures::lock::Mutex<Open>>,
}

/// What is open until the next shutdown.
#[derive(Debug, Default)]
struct Open {
    /// The handles that new callers get, by name.
    namespaces: HashMap<String, Namespace>,
    /// Tells the followers that a shutdown ends them. All handles share it, including those that
    /// new callers no longer get.
    closed: watch::Sender<bool>,
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

    /// Opens a namespace to append to it and read it. All handles of one namespace share one queue
    /// of appends and one reader for followers.
    pub async fn namespace(&self, name: &str) -> Result<Namespace, AdminError> {
        let mut open = self.open.lock().await;
        if let Some(namespace) = open.namespaces.get(name) {
            return Ok(namespace.clone());
        }
        let log = self.database.open_log(name, self.log_options.clone()).await?;
        let namespace = Namespace::new(log, self.live.clone(), open.closed.clone());
        open.namespaces.insert(name.to_owned(), namespace.clone());
        Ok(namespace)
    }

    /// What operators do: namespaces, roles, months, diagnosis, and lists of all namespaces.
    pub fn admin(&self) -> Admin {
        Admin::new(self.clone())
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

    /// The pool, for the application's own queries and transactions.
    pub fn pool(&self) -> &PgPool {
        self.database.pool()
    }

    /// Writes what is queued, accepts nothing more, and closes the connections. A pool that the
    /// application passed in stays open.
    pub async fn shutdown(&self) {
        let Open { namespaces, closed } = std::mem::take(&mut *self.open.lock().await);
        closed.send_replace(true);
        for namespace in namespaces.values() {
            namespace.log().close().await;
        }
        self.database.close().await;
    }

    /// Lets the next caller open a namespace anew. Present handles and their followers go on.
    pub(crate) async fn open_anew(&self, name: &str) {
        self.open.lock().await.namespaces.remove(name);
    }

    pub(crate) fn database(&self) -> &Database {
        &self.database
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
        self.database.acquire_timeout = timeout.min(LONGEST_WAIT);
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
