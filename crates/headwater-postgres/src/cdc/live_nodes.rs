//! What the live sources of nodes do. Nodes report it when it changes, for operators.

use std::time::Duration;

use chrono::{DateTime, Utc};
use headwater_core::{AdminError, Instance, ReadError};
use serde::Serialize;
use sqlx::Row;

use crate::database::acquire::within;
use crate::database::error::{admin_error, read_error};
use crate::database::number::bigint;
use crate::{Database, sql};

/// What a node reports about its live source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveReport {
    /// `direct` or `inbox`.
    pub mode: &'static str,
    /// `starting`, `streaming`, `degraded` or `recovering`.
    pub state: &'static str,
    /// The slot that it reads, or that fills its inbox.
    pub slot: Option<String>,
    /// The last error.
    pub error: Option<String>,
    /// What may go wrong.
    pub warnings: Vec<String>,
    /// How many events came from the WAL.
    pub received: u64,
    /// How many of these events the tail took.
    pub taken: u64,
}

/// A node that follows the WAL, or was asked to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LiveNode {
    /// Its namespace.
    pub namespace: String,
    /// Its id.
    pub node_id: String,
    /// Whether it reported within three heartbeats. If not, its last report is old.
    pub alive: bool,
    /// `direct` or `inbox`.
    pub mode: String,
    /// `starting`, `streaming`, `degraded` or `recovering`, as it reported; `interrupted` if it
    /// streams from a slot that nobody reads; `gone` if it is not alive.
    pub state: String,
    /// Whether it owns its namespace's durable slot, and so receives for all nodes.
    pub receives: bool,
    /// The slot that it reads, or that fills its inbox.
    pub slot: Option<String>,
    /// The last error.
    pub error: Option<String>,
    /// What may go wrong.
    pub warnings: Vec<String>,
    /// How many events came from the WAL.
    pub received: i64,
    /// How many of these events its tail took.
    pub taken: i64,
    /// When it entered this state.
    pub since: DateTime<Utc>,
    /// How long ago it reported this, by the database's clock.
    #[serde(rename = "reported_age_seconds", serialize_with = "seconds")]
    pub reported_age: Duration,
    /// How long ago its last heartbeat was, by the database's clock.
    #[serde(rename = "heard_age_seconds", serialize_with = "seconds")]
    pub heard_age: Duration,
}

fn seconds<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}

impl Database {
    /// Reports what a node's live source does. Returns whether the instance still owns its node id.
    pub async fn report_live(&self, namespace: &str, node: &Instance, report: &LiveReport) -> Result<bool, ReadError> {
        let (received, taken) = (bigint(report.received)?, bigint(report.taken)?);
        let mut conn = self.pin().await.map_err(read_error)?;
        let said = within(
            self.call_timeout,
            sqlx::query_scalar(sql::cdc::CDC_REPORT)
                .bind(namespace)
                .bind(&node.node)
                .bind(node.incarnation)
                .bind(report.mode)
                .bind(report.state)
                .bind(&report.slot)
                .bind(&report.error)
                .bind(&report.warnings)
                .bind(received)
                .bind(taken)
                .fetch_one(&mut *conn),
        )
        .await
        .map_err(read_error);
        conn.end(said, read_error).await
    }

    /// Returns the namespace's durable slot, if a node that ends leaves it behind: no other live
    /// node wants an inbox. The server keeps its WAL for the slot.
    pub async fn slot_left_by(&self, namespace: &str, node_id: &str) -> Result<Option<String>, ReadError> {
        let mut conn = self.pin().await.map_err(read_error)?;
        let left = sqlx::query_scalar(sql::cdc::CDC_LEFT).bind(namespace).bind(node_id);
        let left = within(self.call_timeout, left.fetch_one(&mut *conn)).await.map_err(read_error);
        conn.end(left, read_error).await
    }

    /// Lists the nodes of all processes that follow the WAL, or were asked to.
    pub async fn live_nodes(&self) -> Result<Vec<LiveNode>, AdminError> {
        let mut conn = self.pin().await.map_err(admin_error)?;
        let rows = within(self.call_timeout, sqlx::query(sql::cdc::CDC_NODES).fetch_all(&mut *conn))
            .await
            .map_err(admin_error);
        let node = |row: &sqlx::postgres::PgRow| LiveNode {
            namespace: row.get("namespace"),
            node_id: row.get("node_id"),
            alive: row.get("alive"),
            mode: row.get("mode"),
            state: row.get("state"),
            receives: row.get("receives"),
            slot: row.get("slot"),
            error: row.get("error"),
            warnings: row.get("warnings"),
            received: row.get("received"),
            taken: row.get("taken"),
            since: row.get("since"),
            reported_age: Duration::from_secs_f64(row.get::<f64, _>("reported_age").max(0.0)),
            heard_age: Duration::from_secs_f64(row.get::<f64, _>("heard_age").max(0.0)),
        };
        Ok(conn.end(rows, admin_error).await?.iter().map(node).collect())
    }
}
