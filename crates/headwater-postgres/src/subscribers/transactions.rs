//! Transactions of handlers: begun so that a process that hangs cannot hold them for ever.

use std::time::Duration;

use sqlx::{Postgres, Transaction};

use super::{CALL_TIMEOUT, PgSubscribers, Result, no_answer};
use crate::error::subscriber_error;
use crate::sql;

impl PgSubscribers {
    /// Begins a transaction that the server ends when it has been idle for longer than `limit`: locks, and the horizon, would be held by it.
    pub async fn begin(&self, limit: Duration) -> Result<Transaction<'static, Postgres>> {
        let idle_ms = i32::try_from(limit.as_millis()).unwrap_or(i32::MAX).max(1);
        let mut tries = self.inner.database.pool.size();
        loop {
            let begin = async {
                let mut tx = self.inner.database.pool.begin().await?;
                sqlx::query(sql::LIMIT_IDLE).bind(idle_ms.to_string()).execute(&mut *tx).await?;
                Ok::<_, sqlx::Error>(tx)
            };
            match tokio::time::timeout(CALL_TIMEOUT, begin).await {
                Ok(Ok(tx)) => return Ok(tx),
                // A connection of the pool that died meanwhile: after a restart of the server, all have.
                Ok(Err(error)) if crate::error::is_disconnect(&error) && tries > 0 => tries -= 1,
                Ok(Err(error)) => return Err(subscriber_error(error)),
                Err(_) => return Err(no_answer(CALL_TIMEOUT)),
            }
        }
    }

    /// Commits. After an error, whether it was committed is unknown.
    pub async fn commit(&self, tx: Transaction<'static, Postgres>) -> Result<()> {
        match tokio::time::timeout(CALL_TIMEOUT, tx.commit()).await {
            Ok(result) => result.map_err(subscriber_error),
            Err(_) => Err(no_answer(CALL_TIMEOUT)),
        }
    }
}
