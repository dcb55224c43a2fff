//! Calls run on pool connections that are in no transaction.
//!
//! A future may be dropped at any await: by a timeout, or because its caller is gone. If it was
//! about to begin a transaction, the driver returns the connection to the pool with the transaction
//! open, and does not know it. Later users of the connection would believe that their work is
//! committed, and it never would be. So tasks that nobody drops begin transactions here. Our own
//! pool gives such connections up when they come back, because the application begins transactions
//! there too. Connections of the application's pool are checked before each use of ours.
//!
//! Everything that we ask of a connection outside of a call has a time limit: answers may be lost
//! on connections that stay open.

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
        // An error here means that the runtime is shutting down.
        begun.await.unwrap_or(Err(sqlx::Error::WorkerCrashed))
    }

    /// Returns a pool connection that is in no transaction.
    pub(crate) async fn acquire(&self) -> Result<PoolConnection<Postgres>, sqlx::Error> {
        let mut tries = self.pool.size();
        loop {
            let mut conn = self.pool.acquire().await?;
            // Connections of our own pool were checked when they came back.
            let asked = if self.owned { Ok(false) } else { is_left_open(&mut conn, self.call_timeout).await };
            match asked {
                Ok(false) => return Ok(conn),
                Ok(true) => {
                    tracing::warn!("rolled back a transaction that was left open in the application's pool");
                    return Ok(conn);
                }
                // It is dead, or in a transaction that failed: try the next one.
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

/// Returns an error if a connection does not answer in time: give it up then.
pub(crate) async fn within<T>(
    limit: Duration,
    asked: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    timeout(limit, asked).await.unwrap_or(Err(sqlx::Error::PoolTimedOut))
}

/// Returns whether an idle connection is in a transaction all the same. It is an error if that
/// transaction has failed: give the connection up then.
pub(crate) async fn is_left_open(conn: &mut PgConnection, limit: Duration) -> Result<bool, sqlx::Error> {
    within(limit, async {
        // This begins nothing: the server answers with the state of the connection.
        match conn.begin_with("SELECT").await {
            Ok(tx) => tx.rollback().await.map(|()| true),
            Err(sqlx::Error::BeginFailed) => Ok(false),
            Err(error) => Err(error),
        }
    })
    .await
}
