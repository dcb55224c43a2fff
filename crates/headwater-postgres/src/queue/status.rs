//! The queues of shared subscribers, as operators see them.

use std::time::Duration;

use headwater_core::AdminError;
use serde::Serialize;
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::database::error::admin_error;
use crate::database::number::sequence;
use crate::{Database, sql};

/// The queue of a shared subscriber.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QueueInfo {
    /// The namespace of the queue.
    pub namespace: String,
    /// The id of the subscriber.
    pub subscriber_id: String,
    /// Everything at or below this sequence is settled.
    pub position: u64,
    /// An upper bound of the events that nobody has claimed yet.
    pub waiting: u64,
    /// How long the first waiting event has been there.
    #[serde(skip)]
    pub oldest_waiting: Duration,
    /// Claims that workers hold.
    pub claims: u64,
    /// An upper bound of the events in these claims.
    pub in_flight: u64,
    /// Events to deliver again, now or later.
    pub retries: u64,
    /// Types whose events wait for a worker that handles them.
    pub left_behind: Vec<String>,
    /// Dead letters that are still open.
    pub dead_letters: u64,
    /// The event types that it takes, in which `*` stands for any characters; `None`: all.
    pub event_types: Option<Vec<String>>,
    /// Nodes that run a worker of it, and other workers that hold claims.
    pub workers: u64,
    /// Events per second that these nodes handle.
    pub rate: f64,
    /// Whether it is paused.
    pub paused: bool,
}

impl Database {
    /// The queues of a namespace's shared subscribers, or of one of them.
    pub async fn queues(&self, namespace: &str, subscriber_id: Option<&str>) -> Result<Vec<QueueInfo>, AdminError> {
        let mut conn = self.pin().await.map_err(admin_error)?;
        let rows =
            sqlx::query(sql::queue::QUEUE_STATUS).bind(namespace).bind(subscriber_id).fetch_all(&mut *conn).await;
        let rows = conn.end(rows.map_err(admin_error), admin_error).await?;
        rows.iter().map(of_row).collect::<Result<_, _>>().map_err(admin_error)
    }

    /// The queues of all namespaces in which the caller may consume, in one statement.
    pub async fn all_queues(&self) -> Result<Vec<QueueInfo>, AdminError> {
        let mut conn = self.pin().await.map_err(admin_error)?;
        let rows = sqlx::query(sql::queue::ALL_QUEUES).fetch_all(&mut *conn).await;
        let rows = conn.end(rows.map_err(admin_error), admin_error).await?;
        rows.iter().map(of_row).collect::<Result<_, _>>().map_err(admin_error)
    }
}

fn of_row(row: &PgRow) -> Result<QueueInfo, sqlx::Error> {
    Ok(QueueInfo {
        namespace: row.get("namespace"),
        subscriber_id: row.get("subscriber_id"),
        position: sequence(row, "position")?,
        waiting: sequence(row, "waiting")?,
        oldest_waiting: Duration::from_secs_f64(row.get::<f64, _>("oldest_waiting").max(0.0)),
        claims: sequence(row, "claims")?,
        in_flight: sequence(row, "in_flight")?,
        retries: sequence(row, "retries")?,
        left_behind: row.get("left_behind"),
        dead_letters: sequence(row, "dead_letters")?,
        event_types: row.get("event_types"),
        workers: sequence(row, "workers")?,
        rate: row.get("rate"),
        paused: row.get("paused"),
    })
}
