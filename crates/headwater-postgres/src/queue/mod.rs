//! The queue of one shared subscriber: claim its events, ack them, hand them back, extend claims.
//!
//! The rows in the database have the authority, and only its clock counts. Each call is a
//! transaction of its own that does not wait for the disk: what a crash of the server undoes is
//! delivered again, and workers must handle that anyway. Only handing back waits for the disk,
//! since a later ack of the whole claim would otherwise settle events that a crash put back into
//! the claim. In a transaction of the caller (`…_in`), the caller decides how it is committed. A
//! call whose answer was lost is sent again. An ack may then return [`SubscriberError::ClaimLost`]
//! although the first one was written, and a claim that nobody learned about expires.

mod claim;
mod connection;
mod returns;
mod settle;
mod status;
mod store;

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use headwater_core::{Claim, ClaimRequest, NamespaceInfo, SubscriberError};
use sqlx::PgConnection;
use uuid::Uuid;

pub use self::connection::QueueConnection;
use self::returns::{HandedBack, Return};
use crate::Database;
use crate::database::number::bigints;
use crate::delivery::call::{calling, in_time};

pub use self::status::QueueInfo;

type Result<T> = std::result::Result<T, SubscriberError>;

/// The queue of one shared subscriber. Clones share its connections.
#[derive(Debug, Clone)]
pub struct PgQueue {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    database: Database,
    info: NamespaceInfo,
    subscriber_id: String,
    /// Events that wait to be handed back.
    returns: returns::Waiting,
}

/// The transaction that a call is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transaction {
    /// A transaction of the call's own.
    Own,
    /// The caller's transaction, which may hold more statements.
    Callers,
}

impl PgQueue {
    /// The queue of a subscriber that is registered as shared. It does not connect yet.
    pub fn new(database: Database, info: NamespaceInfo, subscriber_id: impl Into<String>) -> Self {
        let (subscriber_id, returns) = (subscriber_id.into(), returns::Waiting::default());
        PgQueue { inner: Arc::new(Inner { database, info, subscriber_id, returns }) }
    }

    /// The id of the subscriber.
    pub fn subscriber_id(&self) -> &str {
        &self.inner.subscriber_id
    }

    /// Claims events, and reads them. Small claims take one round trip. Large ones are read by a
    /// second one, after their claim is committed and others can claim. An empty result means that
    /// there is nothing to do now, up to the end of the log.
    pub async fn claim(&self, request: &ClaimRequest) -> Result<Vec<Claim>> {
        calling!(self.inner.database, conn => claim::claim(conn, &self.inner, request, Transaction::Own))
    }

    /// Finishes a claim or some of its events: they are not delivered again.
    pub async fn ack(&self, claim_id: Uuid, sequences: Option<&[u64]>) -> Result<()> {
        calling!(self.inner.database, conn => settle::ack(conn, &self.inner, claim_id, sequences, Transaction::Own))
    }

    /// Hands a claim or some of its events back after a failure. They are delivered again after the
    /// delay, or become dead letters if that was the last attempt.
    pub async fn nack(&self, claim_id: Uuid, sequences: Option<&[u64]>, delay: Duration, error: &str) -> Result<()> {
        self.hand_back(claim_id, sequences, HandedBack::Failed { delay, error }).await
    }

    /// Gives a claim or some of its events up. They become dead letters at once, since another
    /// attempt would also fail.
    pub async fn reject(&self, claim_id: Uuid, sequences: Option<&[u64]>, error: &str) -> Result<()> {
        self.hand_back(claim_id, sequences, HandedBack::Hopeless { error }).await
    }

    /// Hands a claim or some of its events back untouched. They are delivered again at once, and
    /// this delivery does not count.
    pub async fn release(&self, claim_id: Uuid, sequences: Option<&[u64]>) -> Result<()> {
        self.hand_back(claim_id, sequences, HandedBack::Untouched).await
    }

    async fn hand_back(&self, claim_id: Uuid, sequences: Option<&[u64]>, why: HandedBack<'_>) -> Result<()> {
        returns::hand_back(&self.inner, Return::new(claim_id, sequences, why)?).await
    }

    /// Keeps a claim for `visibility` from now on, but never shortens it. Returns when it expires,
    /// by the database's clock.
    pub async fn extend(&self, claim_id: Uuid, visibility: Duration) -> Result<DateTime<Utc>> {
        calling!(self.inner.database, conn => settle::extend(conn, &self.inner, claim_id, visibility, Transaction::Own))
    }

    /// Claims as [`claim`](PgQueue::claim) does, in a transaction of the caller. Nobody else claims
    /// events of this subscriber until the transaction ends.
    pub async fn claim_in(&self, conn: &mut PgConnection, request: &ClaimRequest) -> Result<Vec<Claim>> {
        in_time(&self.inner.database, claim::claim(conn, &self.inner, request, Transaction::Callers)).await
    }

    /// Acks as [`ack`](PgQueue::ack) does, in a transaction of the caller: effects and ack commit
    /// together or not at all. An event that was settled before is also an error, so that the same
    /// transaction has no effects a second time. After an error, roll back.
    pub async fn ack_in(&self, conn: &mut PgConnection, claim_id: Uuid, sequences: Option<&[u64]>) -> Result<()> {
        in_time(&self.inner.database, settle::ack_once(conn, &self.inner, claim_id, sequences, false)).await
    }

    /// Acks as [`ack_in`](PgQueue::ack_in) does, in the transaction of a handler. If that is not
    /// the one that [`begin`](crate::PgSubscribers::begin) made, it does nothing, and the claim
    /// counts as lost.
    pub async fn ack_handled_in(
        &self,
        conn: &mut PgConnection,
        claim_id: Uuid,
        sequences: Option<&[u64]>,
    ) -> Result<()> {
        in_time(&self.inner.database, settle::ack_once(conn, &self.inner, claim_id, sequences, true)).await
    }

    /// Hands back as [`nack`](PgQueue::nack) does, in a transaction of the caller. Nobody else
    /// claims events of this subscriber until the transaction ends.
    pub async fn nack_in(
        &self,
        conn: &mut PgConnection,
        claim_id: Uuid,
        sequences: Option<&[u64]>,
        delay: Duration,
        error: &str,
    ) -> Result<()> {
        let back = Return::new(claim_id, sequences, HandedBack::Failed { delay, error })?;
        in_time(&self.inner.database, returns::nack(conn, &self.inner, &[back])).await
    }
}

/// The sequences of some events of a claim. `None`: the whole claim.
fn some_of(sequences: Option<&[u64]>) -> Result<Option<Vec<i64>>> {
    Ok(sequences.map(|sequences| bigints(sequences.iter().copied())).transpose()?)
}
