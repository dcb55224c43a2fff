//! Leases: renewing, taking and releasing them.
//!
//! An instance has a session of its own, which holds the advisory locks of the partitions that it
//! owns. The row in the database decides who owns a partition; the lock only tells others that the
//! session is gone. Session locks are counted, so the program remembers which ones the session
//! holds. A call that fails, or is dropped half way, leaves that unknown: its connection is closed,
//! its locks go with it, and the next call opens a new one. The owner then finds its term in the
//! row and takes the lock again, unless another instance was quicker.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use headwater_core::{GroupView, Instance, Json, LeaseReply, LeaseRequest, PartitionId, Report};
use sqlx::postgres::PgRow;
use sqlx::{Connection, PgConnection, Row};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

use super::{PgSubscribers, Result, calling, checkpoint, no_answer, not_json, storable};
use crate::database::error::{is_disconnect, subscriber_error};
use crate::database::number::{bound, count, int, milliseconds, sequence_or_null};
use crate::sql;

/// The session of an instance. A call takes it out while it uses it, so that a dropped call closes
/// it.
#[derive(Debug, Default)]
pub(super) struct Session(Mutex<Option<Locks>>);

#[derive(Debug)]
struct Locks {
    conn: PgConnection,
    held: HeldLocks,
}

/// The locks that a session holds.
#[derive(Debug, Default)]
struct HeldLocks {
    /// Partitions that the instance owns and has locked.
    partitions: HashSet<PartitionId>,
    /// Whether the instance has locked its membership of groups.
    member: bool,
}

impl Session {
    pub(super) async fn close(&self, timeout: Duration) {
        if let Some(locks) = self.0.lock().await.take() {
            // The connection is gone, whether or not this succeeds.
            _ = tokio::time::timeout(timeout, locks.conn.close()).await;
        }
    }
}

/// The database function's answer for one partition.
struct Answer {
    held: LeaseReply,
    holds_lock: bool,
}

impl PgSubscribers {
    pub(super) async fn keep_leases(
        &self,
        instance: &Instance,
        asks: &[LeaseRequest],
        lease: Duration,
    ) -> Result<Vec<LeaseReply>> {
        if asks.is_empty() {
            return Ok(Vec::new());
        }
        // Two runners in one process must not both own a partition: the first one to ask gets it.
        let mut seen = HashSet::new();
        let unique: Vec<&LeaseRequest> =
            asks.iter().filter(|ask| seen.insert((&ask.subscriber_id, ask.partition))).collect();
        let answers = if self.inner.options.session_locks {
            let keep = |mut locks: Locks| async {
                let held = &locks.held.partitions;
                let answers =
                    call_keep(&mut locks.conn, self.namespace(), instance, &unique, lease, held, true).await?;
                for answer in &answers {
                    let id = PartitionId {
                        subscriber_id: answer.held.subscriber_id.clone(),
                        partition: answer.held.partition,
                    };
                    match answer.holds_lock {
                        true => _ = locks.held.partitions.insert(id),
                        false => _ = locks.held.partitions.remove(&id),
                    }
                }
                Ok((locks, answers))
            };
            self.in_session(instance, keep).await?
        } else {
            let none = HashSet::new();
            calling!(self.inner.database, conn => {
                call_keep(conn, self.namespace(), instance, &unique, lease, &none, false)
            })?
        };
        let id = |held: &LeaseReply| (held.subscriber_id.clone(), held.partition);
        let mut answers: HashMap<_, _> = answers.into_iter().map(|answer| (id(&answer.held), answer.held)).collect();
        let nothing = |ask: &LeaseRequest| LeaseReply {
            subscriber_id: ask.subscriber_id.clone(),
            partition: ask.partition,
            term: None,
            history: None,
            paused: false,
            redrives: false,
        };
        let mut held = |ask: &LeaseRequest| answers.remove(&(ask.subscriber_id.clone(), ask.partition));
        Ok(asks.iter().map(|ask| held(ask).unwrap_or_else(|| nothing(ask))).collect())
    }

    pub(super) async fn join_groups(
        &self,
        instance: &Instance,
        groups: &[String],
        lease: Duration,
    ) -> Result<Vec<GroupView>> {
        if self.inner.options.session_locks {
            let join = |mut locks: Locks| async {
                let held = locks.held.member;
                let (views, holds_lock) =
                    call_join(&mut locks.conn, self.namespace(), instance, groups, lease, held, true).await?;
                locks.held.member = holds_lock;
                Ok((locks, views))
            };
            self.in_session(instance, join).await
        } else {
            calling!(self.inner.database, conn => {
                call_join(conn, self.namespace(), instance, groups, lease, false, false)
            })
            .map(|(views, _)| views)
        }
    }

    /// Runs a call in the instance's session. It opens a new connection if there is none, or if the
    /// present one has died.
    async fn in_session<T, F>(&self, instance: &Instance, call: impl Fn(Locks) -> F) -> Result<T>
    where
        F: Future<Output = Result<(Locks, T)>>,
    {
        let timeout = self.inner.database.call_timeout;
        let deadline = Instant::now() + timeout;
        let session = self.session(instance);
        let Ok(mut slot) = timeout_at(deadline, session.0.lock()).await else { return Err(no_answer(timeout)) };
        let mut used_before = slot.is_some();
        loop {
            let work = async {
                let locks = match slot.take() {
                    Some(locks) => locks,
                    None => self.connect().await?,
                };
                call(locks).await
            };
            let done: std::result::Result<Result<_>, _> = timeout_at(deadline, work).await;
            match done {
                Ok(Ok((locks, answer))) => {
                    *slot = Some(locks);
                    return Ok(answer);
                }
                // The connection died since the last call: try once more, on a new one.
                Ok(Err(error)) if used_before && error.is_retryable() => {
                    used_before = false;
                }
                Ok(Err(error)) => return Err(error),
                Err(_) => return Err(no_answer(timeout)),
            }
        }
    }

    /// Opens a connection like the pool's, outside of the pool.
    async fn connect(&self) -> Result<Locks> {
        let conn = self.inner.database.session().await.map_err(subscriber_error)?;
        Ok(Locks { conn, held: HeldLocks::default() })
    }

    pub(super) async fn release_leases(&self, instance: &Instance, partitions: &[PartitionId]) -> Result<()> {
        if self.inner.options.session_locks {
            let timeout = self.inner.database.call_timeout;
            let deadline = Instant::now() + timeout;
            let session = self.session(instance);
            let Ok(mut slot) = timeout_at(deadline, session.0.lock()).await else {
                return Err(no_answer(timeout));
            };
            if let Some(mut locks) = slot.take() {
                let held = &locks.held.partitions;
                let call = call_release(&mut locks.conn, self.namespace(), instance, partitions, held);
                match timeout_at(deadline, call).await {
                    Ok(Ok(())) => {
                        partitions.iter().for_each(|id| _ = locks.held.partitions.remove(id));
                        if locks.held.partitions.is_empty() && !locks.held.member {
                            // The session holds no locks: the next call opens a new one.
                            _ = timeout_at(deadline, locks.conn.close()).await;
                        } else {
                            *slot = Some(locks);
                        }
                        return Ok(());
                    }
                    Ok(Err(error)) if !is_disconnect(&error) => return Err(subscriber_error(error)),
                    Ok(Err(_)) => {}
                    Err(_) => return Err(no_answer(timeout)),
                }
            }
        }
        let none = HashSet::new();
        calling!(self.inner.database, conn => async {
            call_release(conn, self.namespace(), instance, partitions, &none).await.map_err(subscriber_error)
        })
    }
}

/// A report in its stored form.
pub(super) fn reported(report: &Report) -> Result<String> {
    let mut report = report.clone();
    report.detail = report.detail.map(|detail| storable(&detail));
    Json::encode(&report).map(Json::into_string).map_err(not_json)
}

async fn call_keep(
    conn: &mut PgConnection,
    namespace: &str,
    instance: &Instance,
    asks: &[&LeaseRequest],
    lease: Duration,
    locked: &HashSet<PartitionId>,
    use_locks: bool,
) -> Result<Vec<Answer>> {
    let holds = |ask: &&LeaseRequest| {
        locked.contains(&PartitionId { subscriber_id: ask.subscriber_id.clone(), partition: ask.partition })
    };
    let report = |ask: &&LeaseRequest| reported(&ask.report);
    let rows = sqlx::query(sql::delivery::KEEP_LEASES)
        .bind(namespace)
        .bind(&instance.node)
        .bind(instance.incarnation)
        .bind(milliseconds(lease))
        .bind(asks.iter().map(|ask| ask.subscriber_id.as_str()).collect::<Vec<_>>())
        .bind(asks.iter().map(|ask| int(ask.partition)).collect::<Vec<_>>())
        .bind(asks.iter().map(|ask| ask.term.map(bound)).collect::<Vec<_>>())
        .bind(asks.iter().map(|ask| ask.share.map(int)).collect::<Vec<_>>())
        .bind(asks.iter().map(report).collect::<Result<Vec<_>>>()?)
        .bind(asks.iter().map(holds).collect::<Vec<_>>())
        .bind(use_locks)
        .fetch_all(conn)
        .await
        .map_err(subscriber_error)?;
    let answer = |row: &PgRow| {
        let held = LeaseReply {
            subscriber_id: row.get(0),
            partition: count(row, 1)?,
            term: sequence_or_null(row, 2)?,
            history: checkpoint::history(row),
            paused: row.get(3),
            redrives: row.get(4),
        };
        Ok(Answer { held, holds_lock: row.get(5) })
    };
    rows.iter().map(answer).collect::<std::result::Result<_, _>>().map_err(subscriber_error)
}

/// The groups as they are now, and whether the session holds the member's lock.
async fn call_join(
    conn: &mut PgConnection,
    namespace: &str,
    instance: &Instance,
    groups: &[String],
    lease: Duration,
    locked: bool,
    use_locks: bool,
) -> Result<(Vec<GroupView>, bool)> {
    let rows = sqlx::query(sql::groups::JOIN_GROUPS)
        .bind(namespace)
        .bind(&instance.node)
        .bind(instance.incarnation)
        .bind(milliseconds(lease))
        .bind(groups)
        .bind(locked)
        .bind(use_locks)
        .fetch_all(conn)
        .await
        .map_err(subscriber_error)?;
    let view = |row: &PgRow| {
        let partitions = count(row, 1)?;
        Ok(GroupView { subscriber_id: row.get(0), partitions, members: row.get(2), halted: row.get(3) })
    };
    let views = rows.iter().map(view).collect::<std::result::Result<_, _>>().map_err(subscriber_error)?;
    // Without a row, the state of the lock is unknown: it is asked for again.
    Ok((views, rows.first().map_or(locked, |row| row.get(4))))
}

async fn call_release(
    conn: &mut PgConnection,
    namespace: &str,
    instance: &Instance,
    partitions: &[PartitionId],
    locked: &HashSet<PartitionId>,
) -> std::result::Result<(), sqlx::Error> {
    sqlx::query(sql::delivery::RELEASE_LEASES)
        .bind(namespace)
        .bind(instance.incarnation)
        .bind(partitions.iter().map(|id| id.subscriber_id.as_str()).collect::<Vec<_>>())
        .bind(partitions.iter().map(|id| int(id.partition)).collect::<Vec<_>>())
        .bind(partitions.iter().map(|id| locked.contains(id)).collect::<Vec<_>>())
        .execute(conn)
        .await
        .map(drop)
}
