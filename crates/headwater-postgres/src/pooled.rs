//! Calls are made on connections of a pool that are in no transaction.
//!
//! A future may be dropped at any of its waits: by a timeout, by a caller who has gone. If it was about to begin a transaction, the driver gives the
//! connection back with the transaction open, and knows nothing of it: what the next ones do there, each of them sure that it is committed, would never
//! be. So transactions are begun here by tasks that nobody drops; a pool of our own gives such connections up when they come back, since the application
//! begins transactions there, too; and those of the application's pool are asked before each use of ours.
//!
//! Whatever is asked of a connection outside of a call has a bound: answers may be lost on connections that stay open.

use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::{Connection, PgConnection, Postgres, SqlSafeStr, Transaction};
use tokio::time::timeout;

use crate::Database;

impl Database {
    /// Begins a transaction.
    pub(crate) async fn begin(
        &self,
        statement: impl SqlSafeStr,
    ) -> Result<Transaction<'static, Postgres>, sqlx::Error> {
        let (database, statement) = (self.clone(), statement.into_sql_str());
        let begun = tokio::spawn(async move { Transaction::begin(database.acquire().await?, Some(statement)).await });
        // Else the runtime is shutting down.
        begun.await.unwrap_or(Err(sqlx::Error::WorkerCrashed))
    }

    /// A connection of the pool that is in no transaction.
    pub(crate) async fn acquire(&self) -> Result<PoolConnection<Postgres>, sqlx::Error> {
        let mut tries = self.pool.size();
        loop {
            let mut conn = self.pool.acquire().await?;
            // Those of our own pool were asked when they came back.
            let asked = if self.owned { Ok(false) } else { is_left_open(&mut conn, self.call_timeout).await };
            match asked {
                Ok(false) => return Ok(conn),
                Ok(true) => {
                    tracing::warn!("rolled back a transaction that was left open in the application's pool");
                    return Ok(conn);
                }
                // It is dead, or in a transaction that failed: the next.
                Err(_) if tries > 0 => {
                    tries -= 1;
                    drop(conn.detach());
                }
                Err(error) => {
                    drop(conn.detach());
                    return Err(error);
                }
            }
        }
    }
}

/// An error for a connection that does not answer in time: it is to be given up.
pub(crate) async fn within<T>(
    limit: Duration,
    asked: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    timeout(limit, asked).await.unwrap_or(Err(sqlx::Error::PoolTimedOut))
}

/// Whether a connection that nobody uses is in a transaction all the same. An error if it is in one that failed: it is to be given up.
pub(crate) async fn is_left_open(conn: &mut PgConnection, limit: Duration) -> Result<bool, sqlx::Error> {
    within(limit, async {
        // Begins nothing: the server answers with the state that the connection is in.
        match conn.begin_with("SELECT").await {
            Ok(tx) => tx.rollback().await.map(|()| true),
            Err(sqlx::Error::BeginFailed) => Ok(false),
            Err(error) => Err(error),
        }
    })
    .await
}
