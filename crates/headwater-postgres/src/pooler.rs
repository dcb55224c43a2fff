//! Through a pooler in transaction mode (PgBouncer): a server connection is a client's only for a transaction.
//!
//! The driver prepares a statement and then runs it: two messages, which would meet two server connections. So each call is made in a
//! transaction of its own, and leaves no prepared statements behind. Without a pooler, none of this happens.

use std::ops::{Deref, DerefMut};

use sqlx::pool::PoolConnection;
use sqlx::{PgConnection, Postgres};

use crate::{Database, sql};

/// A connection for one call.
pub(crate) struct Pinned {
    conn: PoolConnection<Postgres>,
    pooler: bool,
}

impl Database {
    /// A connection of the pool, for one call.
    pub(crate) async fn pin(&self) -> Result<Pinned, sqlx::Error> {
        let mut conn = self.pool.acquire().await?;
        begin(&mut conn, self.pooler).await?;
        Ok(Pinned { conn, pooler: self.pooler })
    }

    /// Before the end of a longer transaction: leaves no prepared statements behind.
    pub(crate) async fn forget_statements(&self, conn: &mut PgConnection) -> Result<(), sqlx::Error> {
        if self.pooler {
            sqlx::raw_sql(sql::FORGET_STATEMENTS).execute(conn).await?;
        }
        Ok(())
    }
}

impl Pinned {
    /// Ends the call: commits, unless it failed.
    pub(crate) async fn end<T, E>(mut self, result: Result<T, E>, error: fn(sqlx::Error) -> E) -> Result<T, E> {
        end(&mut self.conn, self.pooler, result.is_ok()).await.map_err(error).and(result)
    }

    /// Nobody shall use it again: it is dead, or may be.
    pub(crate) fn discard(self) {
        drop(self.conn.detach());
    }
}

impl Deref for Pinned {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.conn
    }
}

impl DerefMut for Pinned {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.conn
    }
}

pub(crate) async fn begin(conn: &mut PgConnection, pooler: bool) -> Result<(), sqlx::Error> {
    if pooler {
        sqlx::raw_sql(sql::PIN).execute(conn).await?;
    }
    Ok(())
}

pub(crate) async fn end(conn: &mut PgConnection, pooler: bool, succeeded: bool) -> Result<(), sqlx::Error> {
    if pooler {
        sqlx::raw_sql(if succeeded { sql::UNPIN } else { sql::UNPIN_FAILED }).execute(conn).await?;
    }
    Ok(())
}
