//! The connection to a database that holds Headwater's schema.

pub(crate) mod acquire;
pub(crate) mod error;
pub(crate) mod kept_connection;
mod migrate;
pub(crate) mod number;
pub(crate) mod retry;
mod servers;
pub(crate) mod transaction_pooler;

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use headwater_core::{AdminError, Fault, History, ReadError};
use sqlx::postgres::{PgConnection, PgPool, PgPoolOptions};
use sqlx::{ConnectOptions, Connection, Row};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::database::acquire::{is_left_open, within};
use crate::database::error::{admin_error, behind_pooler, read_error};
use crate::database::kept_connection::Kept;
use crate::database::servers::{Follower, check, place, reason};
use crate::sql;

pub use self::migrate::Migrated;
pub use self::servers::Servers;

/// A connection that was idle for longer than this is pinged before it is used.
const PING_AFTER: Duration = Duration::from_secs(1);
/// A call without an answer is given up after this time, unless the options say otherwise.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// How to connect.
#[derive(Debug, Clone)]
pub struct DatabaseOptions {
    /// How many connections may be open at once.
    pub max_connections: u32,
    /// How long to wait for a connection before giving up.
    pub acquire_timeout: Duration,
    /// How long subscribers, queues and handler transactions wait for the answer to a call,
    /// including a commit. After that the call has failed, and is tried again. A shorter time finds
    /// dead connections sooner, but may take slow answers for lost ones.
    pub call_timeout: Duration,
    /// The application_name of the sessions. It identifies them where they hold others back.
    pub application_name: String,
    /// Whether the url leads to a pooler in transaction mode, such as PgBouncer. Each call is then
    /// a transaction of its own, which costs two more round trips. A PgBouncer that keeps prepared
    /// statements (from 1.21 on, `max_prepared_statements`) does not need this.
    pub transaction_pooler: bool,
}

impl Default for DatabaseOptions {
    fn default() -> Self {
        DatabaseOptions {
            max_connections: 10,
            acquire_timeout: Duration::from_secs(10),
            call_timeout: CALL_TIMEOUT,
            application_name: "headwater".into(),
            transaction_pooler: false,
        }
    }
}

/// A database with Headwater in it, or about to have it: connects, migrates, manages namespaces,
/// opens logs.
#[derive(Debug, Clone)]
pub struct Database {
    pub(crate) pool: PgPool,
    pub(crate) owned: bool,
    pub(crate) pooler: bool,
    pub(crate) call_timeout: Duration,
    /// For calls that follow each other.
    pub(crate) kept: Kept,
    servers: Option<Servers>,
    /// Points the pool at the server that takes writes, if there are several.
    _follower: Option<Arc<Follower>>,
}

impl Database {
    /// Connects to `url` (`postgres://user:password@host:port/database`). It may name several
    /// servers, of which one takes writes at a time: see [`Servers`].
    pub async fn connect(url: &str, options: DatabaseOptions) -> Result<Self, AdminError> {
        let servers = url.parse::<Servers>()?.with(|server| {
            let server = server.application_name(&options.application_name).disable_statement_logging();
            // Prepared statements do not outlive a call through a pooler, and PgBouncer refuses
            // settings that it does not know.
            match options.transaction_pooler {
                true => server.statement_cache_capacity(0).extra_float_digits(None),
                false => server,
            }
        });
        try_connecting(&servers, options.acquire_timeout).await?;
        let takes_writes = servers.take_writes();
        let (changed, last_change) = watch::channel(None::<tokio::time::Instant>);
        let limit = options.call_timeout;
        let pool = PgPoolOptions::new()
            .max_connections(options.max_connections)
            .acquire_timeout(options.acquire_timeout)
            // A ping before each use would double its latency. A connection that was used just now
            // is most likely alive. A read that finds a dead connection tries again.
            .test_before_acquire(false)
            .after_connect(move |conn, _| {
                Box::pin(async move {
                    if takes_writes {
                        within(limit, check(conn)).await?;
                    }
                    match within(limit, sqlx::raw_sql(sql::session::NOTICE_LOSS).execute(conn)).await {
                        // The server is older, or runs on a system that cannot do it.
                        Err(sqlx::Error::Database(_)) | Ok(_) => Ok(()),
                        Err(error) => Err(error),
                    }
                })
            })
            .after_release(move |conn, _| Box::pin(async move { Ok(!is_left_open(conn, limit).await?) }))
            .before_acquire(move |conn, meta| {
                // A connection that was made before the server changed leads to the former server,
                // which may still answer.
                let is_former = last_change.borrow().is_some_and(|changed| changed.elapsed() < meta.age);
                Box::pin(async move {
                    if is_former {
                        return Ok(false);
                    }
                    if meta.idle_for > PING_AFTER {
                        within(limit, conn.ping()).await?;
                    }
                    Ok(true)
                })
            })
            .connect_lazy_with(servers.current().clone());
        let follower = servers.are_several().then(|| Follower::start(servers.clone(), pool.clone(), changed));
        Ok(Database {
            pool,
            owned: true,
            pooler: options.transaction_pooler,
            call_timeout: options.call_timeout,
            kept: Kept::default(),
            servers: Some(servers),
            _follower: follower.map(Arc::new),
        })
    }

    /// Uses the application's pool. Closing the database leaves that pool open.
    pub fn from_pool(pool: PgPool) -> Self {
        Database {
            pool,
            owned: false,
            pooler: false,
            call_timeout: CALL_TIMEOUT,
            kept: Kept::default(),
            servers: None,
            _follower: None,
        }
    }

    /// Sets how long to wait for the answer to one call: see [`DatabaseOptions::call_timeout`].
    pub fn with_call_timeout(self, call_timeout: Duration) -> Self {
        Database { call_timeout, ..self }
    }

    /// Returns the pool, for the application's own queries and transactions.
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Returns the servers that the url named. For an application's pool, it returns the server to
    /// which that pool connects now.
    pub fn servers(&self) -> Servers {
        match &self.servers {
            Some(servers) if servers.are_several() => servers.clone(),
            // Read the present options: the application may give the pool other ones, for example
            // another password.
            one => {
                let takes_writes = one.as_ref().is_some_and(Servers::take_writes);
                Servers::from((*self.pool.connect_options()).clone()).that_take_writes(takes_writes)
            }
        }
    }

    /// Opens a connection like the pool's, outside of the pool.
    pub(crate) async fn session(&self) -> Result<PgConnection, sqlx::Error> {
        self.servers().connect().await
    }

    /// Returns whether a pooler in transaction mode is in between: see
    /// [`DatabaseOptions::transaction_pooler`].
    pub fn is_behind_pooler(&self) -> bool {
        self.pooler
    }

    /// Closes every connection, unless the pool is the application's. A connection that does not
    /// answer within the call timeout is given up: answers may be lost on connections that stay
    /// open.
    pub async fn close(&self) {
        if self.owned {
            drop(self.kept.take());
            _ = tokio::time::timeout(self.call_timeout, self.pool.close()).await;
        }
    }

    /// Returns the server's history. If there is none yet, one begins here.
    pub async fn history(&self) -> Result<History, ReadError> {
        let mut conn = self.pin().await.map_err(read_error)?;
        match timeout(self.call_timeout, crate::log::read::history(&mut conn)).await {
            Ok(history) => conn.end(history, read_error).await,
            // The connection may be half open: nobody else may get it.
            Err(_) => {
                conn.discard();
                Err(read_error(sqlx::Error::PoolTimedOut))
            }
        }
    }

    /// Returns the present state of the server.
    pub async fn server_status(&self) -> Result<ServerStatus, AdminError> {
        let mut conn = self.pin().await.map_err(admin_error)?;
        let row = sqlx::query(sql::admin::SERVER_STATUS).fetch_one(&mut *conn).await.map_err(admin_error);
        let row = conn.end(row, admin_error).await?;
        Ok(ServerStatus {
            address: place(&self.pool.connect_options()),
            server_version: row.get("server_version"),
            database: row.get("database"),
            durable: row.get("durable"),
            wal_level: row.get("wal_level"),
            started_at: row.get("started_at"),
            schema_version: self.schema_version().await?,
        })
    }
}

/// A pool takes a refused connection for a server that starts, and waits for it silently. So the
/// first connection is made without the pool.
async fn try_connecting(servers: &Servers, timeout: Duration) -> Result<(), AdminError> {
    let unavailable = |reason: String, source: Option<sqlx::Error>| {
        let message = match servers.are_several() {
            true => format!("failed to connect: {reason}"),
            false => format!("failed to connect to {}: {reason}", place(servers.current())),
        };
        AdminError::Unavailable(Fault { message, retryable: true, source: source.map(Into::into) })
    };
    match tokio::time::timeout(timeout, servers.connect()).await {
        Ok(Ok(connection)) => _ = connection.close().await,
        Ok(Err(error)) => {
            let reason = behind_pooler(&error).unwrap_or_else(|| reason(&error));
            return Err(unavailable(reason, Some(error)));
        }
        Err(_) => return Err(unavailable(format!("no answer within {timeout:?}"), None)),
    }
    Ok(())
}

/// The state of the server.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct ServerStatus {
    /// Its address, without the password.
    pub address: String,
    /// The PostgreSQL version.
    pub server_version: String,
    /// The name of the database.
    pub database: String,
    /// Whether commits survive a crash (`fsync` and `synchronous_commit` are on).
    pub durable: bool,
    /// The server's `wal_level`.
    pub wal_level: String,
    /// When the server was started.
    pub started_at: DateTime<Utc>,
    /// Headwater's schema version; 0: not migrated.
    pub schema_version: i64,
}
