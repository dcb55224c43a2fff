//! A worker's connection of its own.

use headwater_core::{Claim, ClaimRequest};
use sqlx::{Connection, PgConnection};

use super::{PgQueue, Result, Transaction, claim};
use crate::error::subscriber_error;
use crate::pooler;
use crate::subscribers::call::in_time;

/// Claims events of a queue on a connection that nobody else uses: that saves what a pool asks of connections that come back to it, and nobody can leave a transaction open
/// there. It connects with the first claim, and anew after one that failed.
#[derive(Debug)]
pub struct QueueConnection {
    queue: PgQueue,
    /// It is taken out while it is in use: what is dropped then is closed.
    conn: Option<PgConnection>,
}

impl PgQueue {
    /// A connection of its own for a worker. Connects nothing yet.
    pub fn connection(&self) -> QueueConnection {
        QueueConnection { queue: self.clone(), conn: None }
    }
}

impl QueueConnection {
    /// As [`PgQueue::claim`].
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
        pooler::begin(&mut conn, queue.database.pooler).await.map_err(subscriber_error)?;
        let claims = claim::claim(&mut conn, queue, request, Transaction::Own).await?;
        pooler::end(&mut conn, queue.database.pooler, true).await.map_err(subscriber_error)?;
        Ok((conn, claims))
    }

    /// Closes it.
    pub async fn close(mut self) {
        if let Some(conn) = self.conn.take() {
            // It is gone either way.
            let closed = async { conn.close().await.map_err(subscriber_error) };
            _ = in_time(&self.queue.inner.database, closed).await;
        }
    }
}
