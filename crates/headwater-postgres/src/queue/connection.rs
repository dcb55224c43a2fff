//! A worker's own connection.

use headwater_core::{Claim, ClaimRequest};
use sqlx::{Connection, PgConnection};

use super::{PgQueue, Result, Transaction, claim};
use crate::database::error::subscriber_error;
use crate::database::transaction_pooler;
use crate::delivery::call::in_time;

/// Claims events of a queue on a connection that nobody else uses. That saves the checks that a
/// pool makes when a connection comes back, and nobody can leave a transaction open on it. It
/// connects with the first claim, and again after a claim that failed.
#[derive(Debug)]
pub struct QueueConnection {
    queue: PgQueue,
    /// The connection. A call takes it out while it uses it, so that a dropped call closes it.
    conn: Option<PgConnection>,
}

impl PgQueue {
    /// Returns a separate connection for a worker. It does not connect yet.
    pub fn connection(&self) -> QueueConnection {
        QueueConnection { queue: self.clone(), conn: None }
    }
}

impl QueueConnection {
    /// Claims events as [`PgQueue::claim`] does.
    pub async fn claim(&mut self, request: &ClaimRequest) -> Result<Vec<Claim>> {
        let conn = self.conn.take();
        let (conn, claims) = in_time(&self.queue.inner.database, self.claim_with(conn, request)).await?;
        self.conn = Some(conn);
        Ok(claims)
    }

    async fn claim_with(
        &self,
        conn: Option<PgConnection>,
        request: &ClaimRequest,
    ) -> Result<(PgConnection, Vec<Claim>)> {
        let queue = &self.queue.inner;
        let mut conn = match conn {
            Some(conn) => conn,
            None => queue.database.session().await.map_err(subscriber_error)?,
        };
        transaction_pooler::begin(&mut conn, queue.database.pooler).await.map_err(subscriber_error)?;
        let claims = claim::claim(&mut conn, queue, request, Transaction::Own).await?;
        transaction_pooler::end(&mut conn, queue.database.pooler, true).await.map_err(subscriber_error)?;
        Ok((conn, claims))
    }

    /// Closes the connection.
    pub async fn close(mut self) {
        if let Some(conn) = self.conn.take() {
            // The connection is gone, whether or not this succeeds.
            let closed = async { conn.close().await.map_err(subscriber_error) };
            _ = in_time(&self.queue.inner.database, closed).await;
        }
    }
}
