//! Calls are made on connections of a pool that are in no transaction.
//!
//! A future may be dropped at any of its waits: by a timeout, by a caller who has gone. If it was about to begin a transaction, the driver gives the
//! connection back with the transaction open, and knows nothing of it: what the next ones do there, each of them sure that it is committed, would never
//! be. So transactions are begun here by tasks that nobody drops; a pool of our own gives such connections up when they come back, since the application
//! begins transactions there, too; and those of the application's pool are asked before a call, though not before a transaction of ours.

use sqlx::{Connection, PgConnection, Postgres, SqlSafeStr, Transaction};

use crate::Database;

impl Database {
    /// Begins a transaction.
    pub(crate) async fn begin(
        &self,
        statement: impl SqlSafeStr,
    ) -> Result<Transaction<'static, Postgres>, sqlx::Error> {
        let (pool, statement) = (self.pool.clone(), statement.into_sql_str());
        let begun = tokio::spawn(async move { pool.begin_with(statement).await });
        // Else the runtime is shutting down.
        begun.await.unwrap_or(Err(sqlx::Error::WorkerCrashed))
    }
}

/// Whether a connection that nobody uses is in a transaction all the same. An error if it is in one that failed: it is to be given up.
pub(crate) async fn is_left_open(conn: &mut PgConnection) -> Result<bool, sqlx::Error> {
    // Begins nothing: the server answers with the state that the connection is in.
    match conn.begin_with("SELECT").await {
        Ok(tx) => tx.rollback().await.map(|()| true),
        Err(sqlx::Error::BeginFailed) => Ok(false),
        Err(error) => Err(error),
    }
}
