//! Transactions of handlers: they begin in a way that a process that hangs cannot hold them for
//! ever.

use std::time::Duration;

use headwater_core::SubscriberError;
use sqlx::{AssertSqlSafe, Postgres, Transaction};

use super::{PgSubscribers, Result, no_answer};
use crate::database::error::{fault, subscriber_error};
use crate::database::transaction_pooler;
use crate::sql;

impl PgSubscribers {
    /// Begins a transaction that the server ends after it has been idle for longer than `limit`.
    /// Otherwise it would hold locks and the horizon.
    pub async fn begin(&self, limit: Duration) -> Result<Transaction<'static, Postgres>> {
        let idle_ms = i32::try_from(limit.as_millis()).unwrap_or(i32::MAX).max(1);
        let mut tries = self.inner.database.pool.size();
        loop {
            // This text is ours, and the parameter is a number.
            let begin = AssertSqlSafe(sql::session::BEGIN_LIMITED.replace("$1", &idle_ms.to_string()));
            match tokio::time::timeout(self.inner.database.call_timeout, self.inner.database.begin(begin)).await {
                Ok(Ok(tx)) => return Ok(tx),
                // A connection of the pool that died meanwhile: after a restart of the server, all
                // of them have.
                Ok(Err(error)) if crate::database::error::is_disconnect(&error) && tries > 0 => tries -= 1,
                Ok(Err(error)) => return Err(subscriber_error(error)),
                Err(_) => return Err(no_answer(self.inner.database.call_timeout)),
            }
        }
    }

    /// Whether a transaction is still the one that was begun. A handler that it was lent to may
    /// have committed it or rolled it back by a statement. Later statements would then not be part
    /// of it.
    pub async fn is_open(&self, tx: &mut Transaction<'static, Postgres>) -> Result<bool> {
        let ask = sqlx::query_scalar(sql::nodes::STILL_HANDLING).fetch_one(&mut **tx);
        match tokio::time::timeout(self.inner.database.call_timeout, ask).await {
            Ok(open) => open.map_err(subscriber_error),
            Err(_) => Err(no_answer(self.inner.database.call_timeout)),
        }
    }

    /// Rolls back. If even that fails, the connection is gone, and the transaction with it.
    pub async fn rollback(&self, mut tx: Transaction<'static, Postgres>) {
        let rollback = async {
            if self.inner.database.pooler {
                _ = transaction_pooler::end(&mut tx, true, false).await;
            }
            _ = tx.rollback().await;
        };
        _ = tokio::time::timeout(self.inner.database.call_timeout, rollback).await;
    }

    /// Commits. After an error that may be retried, it is unknown whether the transaction was
    /// committed. Any other error is one that the server raised, such as that of a deferred
    /// constraint: then it was not.
    pub async fn commit(&self, mut tx: Transaction<'static, Postgres>) -> Result<()> {
        let commit = async {
            self.inner.database.forget_statements(&mut tx).await?;
            tx.commit().await
        };
        match tokio::time::timeout(self.inner.database.call_timeout, commit).await {
            Ok(result) => result.map_err(|error| SubscriberError::Unavailable(fault(error))),
            Err(_) => Err(no_answer(self.inner.database.call_timeout)),
        }
    }
}
