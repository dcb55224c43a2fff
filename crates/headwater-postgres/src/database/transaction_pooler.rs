//! Works through a pooler in transaction mode (PgBouncer), where a client has a server connection
//! only for a transaction.
//!
//! The driver prepares a statement and then runs it. These two messages could reach two server
//! connections. So each call runs in a transaction of its own, and leaves no prepared statements
//! behind. Without a pooler, none of this happens.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::{PgConnection, Postgres};
use tokio::time::Instant;

use crate::database::acquire::within;
use crate::database::kept_connection::Kept;
use crate::{Database, sql};

const THERE: &str = "the connection is there until it is dropped";

/// A connection for one call.
pub(crate) struct Pinned {
    conn: Option<PoolConnection<Postgres>>,
    pooler: bool,
    /// How long it has to answer.
    limit: Duration,
    /// Whether it is in a transaction. Then it must not be used again, unless the call is ended.
    open: bool,
    /// Where it is kept for the next call, and since when it has been out of the pool.
    kept: Option<(Kept, Instant)>,
}

impl Database {
    /// Takes a pool connection for one call.
    pub(crate) async fn pin(&self) -> Result<Pinned, sqlx::Error> {
        // Other code may have left anything behind on a connection of the application's pool.
        let keeps = self.owned && !self.pooler;
        let (conn, since) = match self.kept.take().filter(|_| keeps) {
            Some(mut kept) => (kept.conn.take(), kept.since),
            None => (Some(self.acquire().await?), Instant::now()),
        };
        let kept = keeps.then(|| (self.kept.clone(), since));
        let mut pinned = Pinned { conn, pooler: self.pooler, limit: self.call_timeout, open: true, kept };
        within(self.call_timeout, begin(&mut pinned, self.pooler)).await?;
        pinned.open = self.pooler;
        Ok(pinned)
    }

    /// Leaves no prepared statements behind. Call it before the end of a longer transaction.
    pub(crate) async fn forget_statements(&self, conn: &mut PgConnection) -> Result<(), sqlx::Error> {
        if self.pooler {
            sqlx::raw_sql(sql::session::FORGET_STATEMENTS).execute(conn).await?;
        }
        Ok(())
    }
}

impl Pinned {
    /// Ends the call: commits, unless it failed.
    pub(crate) async fn end<T, E>(mut self, result: Result<T, E>, error: fn(sqlx::Error) -> E) -> Result<T, E> {
        let pooler = self.pooler;
        let limit = self.limit;
        within(limit, end(&mut self, pooler, result.is_ok())).await.map_err(error)?;
        self.open = false;
        if let (Some((kept, since)), true) = (self.kept.take(), result.is_ok())
            && let Some(conn) = self.conn.take()
        {
            kept.keep(conn, since);
        }
        result
    }

    /// Makes sure that nobody uses it again: it is dead, or may be.
    pub(crate) fn discard(mut self) {
        self.open = true;
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if self.open {
            drop(self.conn.take().map(PoolConnection::detach));
        }
    }
}

impl Deref for Pinned {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        self.conn.as_ref().expect(THERE)
    }
}

impl DerefMut for Pinned {
    fn deref_mut(&mut self) -> &mut PgConnection {
        self.conn.as_mut().expect(THERE)
    }
}

pub(crate) async fn begin(conn: &mut PgConnection, pooler: bool) -> Result<(), sqlx::Error> {
    if pooler {
        sqlx::raw_sql(sql::session::PIN).execute(conn).await?;
    }
    Ok(())
}

pub(crate) async fn end(conn: &mut PgConnection, pooler: bool, succeeded: bool) -> Result<(), sqlx::Error> {
    if pooler {
        sqlx::raw_sql(if succeeded { sql::session::UNPIN } else { sql::session::UNPIN_FAILED }).execute(conn).await?;
    }
    Ok(())
}
