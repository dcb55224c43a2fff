//! Leases: renewed, taken, given up.
//!
//! An instance has a session of its own, which holds the advisory locks of what it owns. The row in the database decides who owns; the
//! lock only tells others that the session is gone. Session locks are counted, so what the session holds is remembered here. A call that
//! fails, or is dropped half way, leaves that unknown: its connection is closed, the locks go with it, and the next call begins with a
//! new one. The owner then finds its term in the row and takes the lock again, unless another was quicker.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use headwater_core::{Ask, Held, Instance, Json};
use sqlx::{ConnectOptions, Connection, PgConnection, Row};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

use super::{CALL_TIMEOUT, PgSubscribers, Result, calling, no_answer, not_json, storable};
use crate::error::{is_disconnect, subscriber_error};
use crate::sql;

/// The session of an instance. It is taken out while it is in use: what is dropped then is closed.
#[derive(Debug, Default)]
pub(super) struct Session(Mutex<Option<Locks>>);

#[derive(Debug)]
struct Locks {
    conn: PgConnection,
    /// The subscribers whose locks it holds.
    held: HashSet<String>,
}

impl Session {
    pub(super) async fn close(&self) {
        if let Some(locks) = self.0.lock().await.take() {
            // It is gone either way.
            _ = tokio::time::timeout(CALL_TIMEOUT, locks.conn.close()).await;
        }
    }
}

/// What the function answers.
struct Answer {
    held: Held,
    holds_lock: bool,
}

impl PgSubscribers {
    pub(super) async fn keep_leases(&self, instance: &Instance, asks: &[Ask], lease: Duration) -> Result<Vec<Held>> {
        if asks.is_empty() {
            return Ok(Vec::new());
        }
        // Two runners in one process must not both own it: the first to ask does.
        let mut seen = HashSet::new();
        let unique: Vec<&Ask> = asks.iter().filter(|ask| seen.insert(&ask.subscriber_id)).collect();
        let answers = if self.inner.options.session_locks {
            self.keep_in_session(instance, &unique, lease).await?
        } else {
            let none = HashSet::new();
            calling!(self.inner.database, conn => {
                call_keep(conn, self.namespace(), instance, &unique, lease, &none, false)
            })?
        };
        let mut answers: HashMap<_, _> = answers.into_iter().map(|a| (a.held.subscriber_id.clone(), a.held)).collect();
        let nothing =
            |ask: &Ask| Held { subscriber_id: ask.subscriber_id.clone(), term: None, paused: false, redrives: false };
        Ok(asks.iter().map(|ask| answers.remove(&ask.subscriber_id).unwrap_or_else(|| nothing(ask))).collect())
    }

    async fn keep_in_session(&self, instance: &Instance, asks: &[&Ask], lease: Duration) -> Result<Vec<Answer>> {
        let deadline = Instant::now() + CALL_TIMEOUT;
        let session = self.session(instance);
        let Ok(mut slot) = timeout_at(deadline, session.0.lock()).await else { return Err(no_answer(CALL_TIMEOUT)) };
        let mut used_before = slot.is_some();
        loop {
            let work = async {
                let mut locks = match slot.take() {
                    Some(locks) => locks,
                    None => self.connect().await?,
                };
                let answers =
                    call_keep(&mut locks.conn, self.namespace(), instance, asks, lease, &locks.held, true).await?;
                for answer in &answers {
                    match answer.holds_lock {
                        true => _ = locks.held.insert(answer.held.subscriber_id.clone()),
                        false => _ = locks.held.remove(&answer.held.subscriber_id),
                    }
                }
                Ok((locks, answers))
            };
            let done: std::result::Result<Result<_>, _> = timeout_at(deadline, work).await;
            match done {
                Ok(Ok((locks, answers))) => {
                    *slot = Some(locks);
                    return Ok(answers);
                }
                // The connection died since the last call: once more, on a new one.
                Ok(Err(error)) if used_before && error.is_retryable() => {
                    used_before = false;
                }
                Ok(Err(error)) => return Err(error),
                Err(_) => return Err(no_answer(CALL_TIMEOUT)),
            }
        }
    }

    /// A connection as the pool's, outside of it.
    async fn connect(&self) -> Result<Locks> {
        let options = self.inner.database.pool.connect_options();
        let conn = options.connect().await.map_err(subscriber_error)?;
        Ok(Locks { conn, held: HashSet::new() })
    }

    pub(super) async fn release_leases(&self, instance: &Instance, subscriber_ids: &[String]) -> Result<()> {
        if self.inner.options.session_locks {
            let deadline = Instant::now() + CALL_TIMEOUT;
            let session = self.session(instance);
            let Ok(mut slot) = timeout_at(deadline, session.0.lock()).await else {
                return Err(no_answer(CALL_TIMEOUT));
            };
            if let Some(mut locks) = slot.take() {
                let call = call_release(&mut locks.conn, self.namespace(), instance, subscriber_ids, &locks.held);
                match timeout_at(deadline, call).await {
                    Ok(Ok(())) => {
                        subscriber_ids.iter().for_each(|id| _ = locks.held.remove(id));
                        if locks.held.is_empty() {
                            // Nothing to hold: the next call to keep begins a new one.
                            _ = timeout_at(deadline, locks.conn.close()).await;
                        } else {
                            *slot = Some(locks);
                        }
                        return Ok(());
                    }
                    Ok(Err(error)) if !is_disconnect(&error) => return Err(subscriber_error(error)),
                    Ok(Err(_)) => {}
                    Err(_) => return Err(no_answer(CALL_TIMEOUT)),
                }
            }
        }
        let none = HashSet::new();
        calling!(self.inner.database, conn => async {
            call_release(conn, self.namespace(), instance, subscriber_ids, &none).await.map_err(subscriber_error)
        })
    }
}

async fn call_keep(
    conn: &mut PgConnection,
    namespace: &str,
    instance: &Instance,
    asks: &[&Ask],
    lease: Duration,
    locked: &HashSet<String>,
    use_locks: bool,
) -> Result<Vec<Answer>> {
    let report = |ask: &&Ask| {
        let mut report = ask.report.clone();
        report.detail = report.detail.map(|detail| storable(&detail));
        Json::encode(&report).map(Json::into_string).map_err(not_json)
    };
    let rows = sqlx::query(sql::KEEP_LEASES)
        .bind(namespace)
        .bind(&instance.node)
        .bind(instance.incarnation)
        .bind(i64::try_from(lease.as_millis()).unwrap_or(i64::MAX))
        .bind(asks.iter().map(|ask| ask.subscriber_id.as_str()).collect::<Vec<_>>())
        .bind(asks.iter().map(|ask| ask.term.map(|term| term as i64)).collect::<Vec<_>>())
        .bind(asks.iter().map(report).collect::<Result<Vec<_>>>()?)
        .bind(asks.iter().map(|ask| locked.contains(&ask.subscriber_id)).collect::<Vec<_>>())
        .bind(use_locks)
        .fetch_all(conn)
        .await
        .map_err(subscriber_error)?;
    let answer = |row: &sqlx::postgres::PgRow| Answer {
        held: Held {
            subscriber_id: row.get(0),
            term: row.get::<Option<i64>, _>(1).map(|term| term as u64),
            paused: row.get(2),
            redrives: row.get(3),
        },
        holds_lock: row.get(4),
    };
    Ok(rows.iter().map(answer).collect())
}

async fn call_release(
    conn: &mut PgConnection,
    namespace: &str,
    instance: &Instance,
    subscriber_ids: &[String],
    locked: &HashSet<String>,
) -> std::result::Result<(), sqlx::Error> {
    sqlx::query(sql::RELEASE_LEASES)
        .bind(namespace)
        .bind(instance.incarnation)
        .bind(subscriber_ids)
        .bind(subscriber_ids.iter().map(|id| locked.contains(id)).collect::<Vec<_>>())
        .execute(conn)
        .await
        .map(drop)
}
