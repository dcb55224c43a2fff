//! The subscribers of one namespace in PostgreSQL.
//!
//! The rows in the database have the authority, and only its clock counts. Every write of an owner
//! names its term, and matches nothing in any other term. A call without an answer in time fails as
//! retryable, so that a half-open socket hangs nobody. A call that finds its pooled connection dead
//! is sent again on the next one. All calls may be sent twice: a write that was done is not counted
//! again.

mod audit;
pub(crate) mod call;
mod checkpoint;
mod dead_letters;
mod group_store;
mod groups;
mod leases;
mod manage;
mod operator_store;
mod progress_store;
pub(crate) mod state_guard;
mod state_store;
mod transactions;
mod turns;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use headwater_core::{Advance, Attempt, Fence, Gaps, Instance, NamespaceInfo, SubscriberError};
use sqlx::PgConnection;
use uuid::Uuid;

use self::call::{calling, in_time, no_answer};
use self::leases::Session;
use crate::Database;
use crate::database::error::subscriber_error;

pub use self::groups::GroupSummary;
pub use self::state_guard::StateGuard;
pub use self::state_store::{PgStateStore, StoredState};

type Result<T> = std::result::Result<T, SubscriberError>;

/// How subscribers are owned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscribersOptions {
    /// Whether an instance holds advisory locks in a session of its own, so that others take over
    /// at once when the session ends. Switch it off behind a pooler that gives clients no session
    /// (PgBouncer in transaction mode): leases alone then decide.
    pub session_locks: bool,
}

impl Default for SubscribersOptions {
    fn default() -> Self {
        SubscribersOptions { session_locks: true }
    }
}

/// The subscribers of one namespace. Clones share their sessions.
#[derive(Debug, Clone)]
pub struct PgSubscribers {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    database: Database,
    info: NamespaceInfo,
    options: SubscribersOptions,
    /// One session per instance, since locks belong to sessions.
    sessions: Mutex<HashMap<Uuid, Arc<Session>>>,
}

impl PgSubscribers {
    /// The subscribers of a namespace. It does not connect yet.
    pub fn new(database: Database, info: NamespaceInfo, options: SubscribersOptions) -> Self {
        PgSubscribers { inner: Arc::new(Inner { database, info, options, sessions: Mutex::default() }) }
    }

    /// The namespace's settings as they were when this was made.
    pub fn info(&self) -> &NamespaceInfo {
        &self.inner.info
    }

    /// The database that the subscribers are in.
    pub fn database(&self) -> &Database {
        &self.inner.database
    }

    /// Moves the checkpoint as [`advance`](headwater_core::ProgressStore::advance) does, in a
    /// handler's transaction: effects and checkpoint commit together or not at all. It waits
    /// for a takeover in progress, and is fenced by it. It moves the checkpoint only from
    /// `from_position` and `from_gaps`: the same move a second time is fenced, since the first may
    /// have been committed after all. It is fenced too if the transaction is not the one that
    /// [`begin`](PgSubscribers::begin) made. After an error, roll back.
    pub async fn advance_in(&self, conn: &mut PgConnection, fence: &Fence, advance: &Advance) -> Result<()> {
        in_time(self.database(), checkpoint::advance_in(conn, self.id(), fence, advance)).await
    }

    /// Notes, in a handler's transaction, that these events (in order) are settled ahead of the
    /// checkpoint. `from` is the checkpoint's position and ledger. An owner that
    /// [loads](headwater_core::ProgressStore::load) the checkpoint does not handle these events
    /// again. For bundles, when there are too many of them to rewrite the ledger for each. The same
    /// note a second time is fenced, and so is one outside the transaction that
    /// [`begin`](PgSubscribers::begin) made. After an error, roll back.
    pub async fn settle_ahead_in(
        &self,
        conn: &mut PgConnection,
        fence: &Fence,
        from: (u64, &Gaps),
        sequences: &[u64],
    ) -> Result<()> {
        in_time(self.database(), checkpoint::settle_ahead_in(conn, self.id(), fence, from, sequences)).await
    }

    /// Forgets the events that were [settled ahead](PgSubscribers::settle_ahead_in) and that the
    /// checkpoint has passed.
    pub async fn forget_ahead(&self, fence: &Fence) -> Result<()> {
        calling!(self.inner.database, conn => checkpoint::forget_ahead(conn, self.id(), fence))
    }

    /// Forgets which events have changed states, up to where all checkpoints of the subscriber have
    /// passed them.
    pub async fn forget_applied(&self, subscriber_id: &str) -> Result<()> {
        calling!(self.inner.database, conn => checkpoint::forget_applied(conn, self.id(), subscriber_id))
    }

    /// Ends a redrive as [`redriven`](headwater_core::ProgressStore::redriven) does, in a
    /// handler's transaction. It is fenced if the letter is closed already, for example by an
    /// earlier transaction that was committed after all, and outside the transaction that
    /// [`begin`](PgSubscribers::begin) made. After an error, roll back.
    pub async fn redriven_in(
        &self,
        conn: &mut PgConnection,
        fence: &Fence,
        global_sequence: u64,
        failure: Option<&Attempt>,
    ) -> Result<()> {
        match in_time(self.database(), dead_letters::redriven(conn, self.id(), fence, global_sequence, failure, true))
            .await?
        {
            true => Ok(()),
            false => Err(SubscriberError::Fenced(fence.subscriber_id.clone())),
        }
    }

    /// Whether an instance is still the node of its id. `false`: another process was registered
    /// under the id since.
    pub async fn is_node(&self, instance: &Instance) -> Result<bool> {
        calling!(self.inner.database, conn => manage::is_node(conn, self.id(), instance))
    }

    /// Ends the sessions, and with them their locks: other instances take over at once what these
    /// instances still own. A later call begins a new session.
    pub async fn close(&self) {
        let sessions: Vec<_> = self.lock_sessions().drain().map(|(_, session)| session).collect();
        for session in sessions {
            session.close(self.inner.database.call_timeout).await;
        }
    }

    fn lock_sessions(&self) -> std::sync::MutexGuard<'_, HashMap<Uuid, Arc<Session>>> {
        self.inner.sessions.lock().expect("no holder of this lock panics")
    }

    fn session(&self, instance: &Instance) -> Arc<Session> {
        self.lock_sessions().entry(instance.incarnation).or_default().clone()
    }

    fn id(&self) -> i32 {
        self.inner.info.id
    }

    fn namespace(&self) -> &str {
        &self.inner.info.name
    }
}

/// Explains why a write matched nothing.
async fn refused(conn: &mut PgConnection, namespace_id: i32, fence: &Fence) -> SubscriberError {
    match checkpoint::check_fence(conn, namespace_id, fence).await {
        Ok(()) => SubscriberError::Fenced(fence.subscriber_id.clone()),
        Err(error) => error,
    }
}

/// There is no row. For a process that owned it, that is a fence.
fn missing(fence: &Fence) -> SubscriberError {
    match fence.term {
        Some(_) => SubscriberError::Fenced(fence.subscriber_id.clone()),
        None => SubscriberError::NotFound(fence.subscriber_id.clone()),
    }
}

/// Text that PostgreSQL can hold. Errors may contain anything, and must not keep a dead letter from
/// being written.
pub(crate) fn storable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

fn not_json(error: headwater_core::JsonError) -> SubscriberError {
    SubscriberError::InvalidInput(error.to_string())
}

fn decode_error(error: headwater_core::JsonError) -> SubscriberError {
    subscriber_error(sqlx::Error::Decode(Box::new(error)))
}
