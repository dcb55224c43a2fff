//! The subscribers of one namespace in PostgreSQL.
//!
//! The rows in the database have the authority, and its clock alone counts. Every write of an owner names its term and matches nothing in
//! any other. A call that gets no answer in time fails as retryable, so that a half-open socket hangs nobody; one that finds its
//! pooled connection dead is sent again on the next, and all of them may be: what was written once is not counted twice.

mod audit;
pub(crate) mod call;
mod checkpoint;
mod dead_letters;
mod groups;
mod keep;
mod manage;
mod transactions;
mod turns;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use headwater_core::{
    Advance, Ask, Attempt, AuditReport, DeadLetter, DeadLetterQuery, Fence, Gap, Gaps, GroupInfo, GroupView, Held,
    History, Instance, LastTurn, Loaded, NamespaceInfo, PartitionId, Report, SubscriberConfig, SubscriberError,
    SubscriberInfo, SubscriberStore,
};
use sqlx::PgConnection;
use uuid::Uuid;

use self::call::{SCAN_TIMEOUT, calling, in_time, no_answer};
use self::keep::Session;
use crate::Database;
use crate::error::subscriber_error;

type Result<T> = std::result::Result<T, SubscriberError>;

/// How subscribers are owned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscribersOptions {
    /// Whether an instance holds advisory locks, in a session of its own, so that others take over at once when that ends. Switch it off
    /// behind a pooler that gives no session to a client (PgBouncer in transaction mode): then leases alone decide.
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
    /// One an instance, since locks belong to sessions.
    sessions: Mutex<HashMap<Uuid, Arc<Session>>>,
}

impl PgSubscribers {
    /// The subscribers of a namespace. Connects nothing yet.
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

    /// As [`advance`](SubscriberStore::advance), in a transaction of the caller's: effects and checkpoint are there together or not at
    /// all. It waits for a takeover that is under way, and is fenced by it. It moves the checkpoint from `from_position` and `from_gaps`
    /// only: the same move a second time is fenced, for the first may have been committed after all. After an error, roll back.
    pub async fn advance_in(&self, conn: &mut PgConnection, fence: &Fence, advance: &Advance) -> Result<()> {
        in_time(self.database(), checkpoint::advance_in(conn, self.id(), fence, advance)).await
    }

    /// Notes, in a transaction of the caller's, that these events (in order) are settled ahead of the checkpoint, which is at `from`, a position and a ledger:
    /// whoever [loads](SubscriberStore::load) it does not handle them again. For groups of events, of which there are too many to rewrite the ledger for each. The same
    /// group a second time is fenced. After an error, roll back.
    pub async fn settle_ahead_in(
        &self,
        conn: &mut PgConnection,
        fence: &Fence,
        from: (u64, &Gaps),
        sequences: &[u64],
    ) -> Result<()> {
        in_time(self.database(), checkpoint::settle_ahead_in(conn, self.id(), fence, from, sequences)).await
    }

    /// Forgets what was [settled ahead](PgSubscribers::settle_ahead_in), and the checkpoint has passed.
    pub async fn forget_ahead(&self, fence: &Fence) -> Result<()> {
        calling!(self.inner.database, conn => checkpoint::forget_ahead(conn, self.id(), fence))
    }

    /// Forgets which events have changed states, as far as all checkpoints of the subscriber have passed them.
    pub async fn forget_applied(&self, subscriber_id: &str) -> Result<()> {
        calling!(self.inner.database, conn => checkpoint::forget_applied(conn, self.id(), subscriber_id))
    }

    /// As [`redriven`](SubscriberStore::redriven), in a transaction of the caller's. A letter that is done with, as by an earlier
    /// transaction that was committed after all, is fenced. After an error, roll back.
    pub async fn redriven_in(
        &self,
        conn: &mut PgConnection,
        fence: &Fence,
        global_sequence: u64,
        failure: Option<&Attempt>,
    ) -> Result<()> {
        match in_time(self.database(), dead_letters::redriven(conn, self.id(), fence, global_sequence, failure)).await?
        {
            true => Ok(()),
            false => Err(SubscriberError::Fenced(fence.subscriber_id.clone())),
        }
    }

    /// Which of these subscribers are paused: one cheap statement for all.
    pub async fn paused(&self, subscriber_ids: &[String]) -> Result<Vec<String>> {
        calling!(self.inner.database, conn => manage::paused(conn, self.id(), subscriber_ids))
    }

    /// Says that a node handles the events of these subscribers, of which it is the only instance, for as long as `lease` unless it says so again: they are
    /// active. Zero: no more.
    pub async fn attend_alone(&self, subscribers: &[(String, Report)], lease: Duration) -> Result<()> {
        calling!(self.inner.database, conn => manage::attend_alone(conn, self.namespace(), subscribers, lease))
    }

    /// Whether an instance is still the node of its id, or another process was registered under it since.
    pub async fn is_node(&self, instance: &Instance) -> Result<bool> {
        calling!(self.inner.database, conn => manage::is_node(conn, self.id(), instance))
    }

    /// Ends the sessions, and their locks with them: what instances still own, others take over at once. A later call begins a new one.
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

#[async_trait]
impl SubscriberStore for PgSubscribers {
    async fn register(&self, config: &SubscriberConfig) -> Result<()> {
        calling!(self.inner.database, SCAN_TIMEOUT, conn => manage::register(conn, self.namespace(), config))
    }

    async fn keep(&self, instance: &Instance, asks: &[Ask], lease: Duration) -> Result<Vec<Held>> {
        self.keep_leases(instance, asks, lease).await
    }

    async fn release(&self, instance: &Instance, partitions: &[PartitionId]) -> Result<()> {
        self.release_leases(instance, partitions).await
    }

    async fn join(&self, instance: &Instance, groups: &[String], lease: Duration) -> Result<Vec<GroupView>> {
        self.join_groups(instance, groups, lease).await
    }

    async fn leave(&self, instance: &Instance, groups: &[String]) -> Result<()> {
        calling!(self.inner.database, conn => groups::leave(conn, self.namespace(), instance, groups))
    }

    async fn resize(&self, subscriber_id: &str, partitions: u32) -> Result<()> {
        calling!(self.inner.database, conn => groups::resize(conn, self.namespace(), subscriber_id, partitions))
    }

    async fn group(&self, subscriber_id: &str) -> Result<GroupInfo> {
        calling!(self.inner.database, conn => groups::group(conn, self.namespace(), self.id(), subscriber_id))
    }

    async fn load(&self, fence: &Fence) -> Result<Loaded> {
        calling!(self.inner.database, conn => checkpoint::load(conn, self.id(), fence))
    }

    async fn begin_turn(&self, fence: &Fence, lives: bool) -> Result<LastTurn> {
        calling!(self.inner.database, conn => turns::begin(conn, self.id(), fence, lives))
    }

    async fn begin_event(&self, fence: &Fence, event_id: Uuid) -> Result<u32> {
        calling!(self.inner.database, conn => turns::begin_event(conn, self.id(), fence, event_id))
    }

    async fn end_turn(&self, fence: &Fence) -> Result<()> {
        calling!(self.inner.database, conn => turns::end(conn, self.id(), fence))
    }

    async fn advance(&self, fence: &Fence, advance: &Advance) -> Result<()> {
        calling!(self.inner.database, conn => checkpoint::advance(conn, self.id(), fence, advance))
    }

    async fn bury(&self, fence: &Fence, letters: &[DeadLetter]) -> Result<()> {
        calling!(self.inner.database, conn => dead_letters::bury(conn, self.id(), fence, letters))
    }

    async fn redrives(&self, fence: &Fence, limit: u32) -> Result<Vec<DeadLetter>> {
        calling!(self.inner.database, conn => dead_letters::redrives(conn, self.id(), fence, limit))
    }

    async fn redriven(&self, fence: &Fence, global_sequence: u64, failure: Option<Attempt>) -> Result<()> {
        calling!(self.inner.database, conn =>
            dead_letters::redriven(conn, self.id(), fence, global_sequence, failure.as_ref()))
        .map(drop)
    }

    async fn is_parked(&self, fence: &Fence, order_key: &str) -> Result<bool> {
        calling!(self.inner.database, conn => dead_letters::is_parked(conn, self.id(), fence, order_key))
    }

    async fn pause_self(&self, fence: &Fence, reason: &str) -> Result<()> {
        calling!(self.inner.database, conn => manage::pause_self(conn, self.id(), fence, reason))
    }

    async fn record_gaps(&self, history: Option<History>, gaps: &[Gap]) -> Result<()> {
        calling!(self.inner.database, conn => manage::record_gaps(conn, self.id(), history, gaps))
    }

    async fn subscribers(&self) -> Result<Vec<SubscriberInfo>> {
        calling!(self.inner.database, conn => manage::status(conn, self.namespace(), None))
    }

    async fn subscriber(&self, subscriber_id: &str) -> Result<SubscriberInfo> {
        let found = calling!(self.inner.database, conn => manage::status(conn, self.namespace(), Some(subscriber_id)))?;
        found.into_iter().next().ok_or_else(|| SubscriberError::NotFound(subscriber_id.to_owned()))
    }

    async fn position(&self, subscriber_id: &str) -> Result<Loaded> {
        calling!(self.inner.database, conn => checkpoint::position(conn, self.id(), subscriber_id))
    }

    async fn set_paused(&self, subscriber_id: &str, paused: bool) -> Result<()> {
        calling!(self.inner.database, conn => manage::set_paused(conn, self.namespace(), subscriber_id, paused))
    }

    async fn reset(&self, subscriber_id: &str, position: u64) -> Result<()> {
        calling!(self.inner.database, SCAN_TIMEOUT, conn => manage::reset(conn, self.namespace(), subscriber_id, position))
    }

    async fn remove(&self, subscriber_id: &str, force: bool) -> Result<()> {
        calling!(self.inner.database, SCAN_TIMEOUT, conn => manage::remove(conn, self.namespace(), subscriber_id, force))
    }

    async fn position_at(&self, time: DateTime<Utc>) -> Result<u64> {
        calling!(self.inner.database, SCAN_TIMEOUT, conn => manage::position_at(conn, self.namespace(), time))
    }

    async fn dead_letters(&self, query: &DeadLetterQuery) -> Result<Vec<DeadLetter>> {
        calling!(self.inner.database, conn => dead_letters::list(conn, self.id(), query))
    }

    async fn redrive(&self, query: &DeadLetterQuery) -> Result<u64> {
        calling!(self.inner.database, SCAN_TIMEOUT, conn => dead_letters::redrive(conn, self.namespace(), query))
    }

    async fn discard(&self, query: &DeadLetterQuery, reason: &str) -> Result<u64> {
        calling!(self.inner.database, SCAN_TIMEOUT, conn => dead_letters::discard(conn, self.namespace(), query, reason))
    }

    async fn audit(&self, subscriber_ids: &[String]) -> Result<AuditReport> {
        calling!(self.inner.database, SCAN_TIMEOUT, conn => audit::audit(conn, &self.inner.info, subscriber_ids))
    }
}

/// A write that matched nothing: says why.
async fn refused(conn: &mut PgConnection, namespace_id: i32, fence: &Fence) -> SubscriberError {
    match checkpoint::check_fence(conn, namespace_id, fence).await {
        Ok(()) => SubscriberError::Fenced(fence.subscriber_id.clone()),
        Err(error) => error,
    }
}

/// There is no row: to one that owned it, that is a fence like any other.
fn missing(fence: &Fence) -> SubscriberError {
    match fence.term {
        Some(_) => SubscriberError::Fenced(fence.subscriber_id.clone()),
        None => SubscriberError::NotFound(fence.subscriber_id.clone()),
    }
}

/// Text that PostgreSQL can hold: errors may carry anything, and must not keep a dead letter from being written.
pub(crate) fn storable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

fn not_json(error: headwater_core::JsonError) -> SubscriberError {
    SubscriberError::InvalidInput(error.to_string())
}

fn decode_error(error: headwater_core::JsonError) -> SubscriberError {
    subscriber_error(sqlx::Error::Decode(Box::new(error)))
}
