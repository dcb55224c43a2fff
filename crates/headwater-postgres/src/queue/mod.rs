//! The queue of one shared subscriber: its events are claimed, acked, handed back, extended.
//!
//! The rows in the database have the authority, and its clock alone counts. A call here is a transaction of its own that does not wait for the
//! disk: what a crash of the server takes back is delivered again, which workers must stand anyway. Only what is handed back waits for it, since a
//! later ack of the whole claim would settle what came back into it. In a transaction of the caller's
//! (`…_in`), nothing is changed about how that is committed. A call whose answer was lost is sent again: an ack may then be
//! [`SubscriberError::ClaimLost`] though the first one was written, and a claim that nobody learned of expires.

mod claim;
mod connection;
mod returns;
mod settle;

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use headwater_core::{Claim, ClaimRequest, NamespaceInfo, SubscriberError};
use sqlx::PgConnection;
use uuid::Uuid;

pub use self::connection::QueueConnection;
use self::returns::{HandedBack, Return};
use crate::Database;
use crate::number::bigints;
use crate::subscribers::call::{calling, in_time};

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
    /// What is handed back.
    returns: returns::Waiting,
}

/// Whose transaction a call is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transaction {
    /// Its own.
    Own,
    /// The caller's, which may hold more.
    Callers,
}

impl PgQueue {
    /// The queue of a subscriber that is registered as shared. Connects nothing yet.
    pub fn new(database: Database, info: NamespaceInfo, subscriber_id: impl Into<String>) -> Self {
        let (subscriber_id, returns) = (subscriber_id.into(), returns::Waiting::default());
        PgQueue { inner: Arc::new(Inner { database, info, subscriber_id, returns }) }
    }

    /// The subscriber.
    pub fn subscriber_id(&self) -> &str {
        &self.inner.subscriber_id
    }

    /// Claims events, and reads them. Small claims are one round trip; large ones are read by a second one, when their claim is committed and others can claim. Empty: there is nothing to do now, up to the end of the log.
    pub async fn claim(&self, request: &ClaimRequest) -> Result<Vec<Claim>> {
        calling!(self.inner.database, conn => claim::claim(conn, &self.inner, request, Transaction::Own))
    }

    /// Finishes a claim, or some of its events: they are not delivered again.
    pub async fn ack(&self, claim_id: Uuid, sequences: Option<&[u64]>) -> Result<()> {
        calling!(self.inner.database, conn => settle::ack(conn, &self.inner, claim_id, sequences, Transaction::Own))
    }

    /// Hands a claim back, or some of its events: they are delivered again after the delay, or become dead letters if that was the last
    /// attempt.
    pub async fn nack(&self, claim_id: Uuid, sequences: Option<&[u64]>, delay: Duration, error: &str) -> Result<()> {
        self.hand_back(claim_id, sequences, HandedBack::Failed { delay, error }).await
    }

    /// Gives a claim up, or some of its events: they become dead letters at once, since no other attempt would end better.
    pub async fn reject(&self, claim_id: Uuid, sequences: Option<&[u64]>, error: &str) -> Result<()> {
        self.hand_back(claim_id, sequences, HandedBack::Hopeless { error }).await
    }

    /// Hands a claim back, or some of its events, untouched: they are delivered again at once, and this one does not count.
    pub async fn release(&self, claim_id: Uuid, sequences: Option<&[u64]>) -> Result<()> {
        self.hand_back(claim_id, sequences, HandedBack::Untouched).await
    }

    async fn hand_back(&self, claim_id: Uuid, sequences: Option<&[u64]>, why: HandedBack<'_>) -> Result<()> {
        returns::hand_back(&self.inner, Return::new(claim_id, sequences, why)?).await
    }

    /// Keeps a claim for `visibility` from now on, never shorter than it is. Answers when it expires, by the database's clock.
    pub async fn extend(&self, claim_id: Uuid, visibility: Duration) -> Result<DateTime<Utc>> {
        calling!(self.inner.database, conn => settle::extend(conn, &self.inner, claim_id, visibility, Transaction::Own))
    }

    /// As [`claim`](PgQueue::claim), in a transaction of the caller's: nobody else claims of this subscriber until that ends.
    pub async fn claim_in(&self, conn: &mut PgConnection, request: &ClaimRequest) -> Result<Vec<Claim>> {
        in_time(&self.inner.database, claim::claim(conn, &self.inner, request, Transaction::Callers)).await
    }

    /// As [`ack`](PgQueue::ack), in a transaction of the caller's: effects and ack are there together or not at all. Also an event that was
    /// settled before is an error, so that the same transaction a second time has no effects. After an error, roll back.
    pub async fn ack_in(&self, conn: &mut PgConnection, claim_id: Uuid, sequences: Option<&[u64]>) -> Result<()> {
        in_time(&self.inner.database, settle::ack_once(conn, &self.inner, claim_id, sequences)).await
    }

    /// As [`nack`](PgQueue::nack), in a transaction of the caller's: nobody else claims of this subscriber until that ends.
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

/// The sequences of some events of a claim; `None`: all of it.
fn some_of(sequences: Option<&[u64]>) -> Result<Option<Vec<i64>>> {
    Ok(sequences.map(|sequences| bigints(sequences.iter().copied())).transpose()?)
}
