//! The nodes of one namespace: registered running processes.
//!
//! The rows in the database have the authority, and only its clock counts. A process is a node
//! while its heartbeats name the incarnation that the row has. A process that was replaced under
//! its id is refused, and so learns that it was replaced.

use std::time::Duration;

use headwater_core::{NamespaceInfo, NodeInfo, NodeOptions, Registration, SubscriberError};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use crate::database::error::subscriber_error;
use crate::database::number::{PgSequence, bound, int, sequence};
use crate::delivery::call::calling;
use crate::log::row::PgJson;
use crate::{Database, sql};

/// How many events one transaction settles.
const REAPED_AT_ONCE: u32 = 5_000;

type Result<T> = std::result::Result<T, SubscriberError>;

/// The nodes of one namespace.
#[derive(Debug, Clone)]
pub struct PgNodes {
    database: Database,
    namespace: String,
}

impl PgNodes {
    /// The nodes of a namespace. This connects to nothing yet.
    pub fn new(database: Database, info: &NamespaceInfo) -> Self {
        PgNodes { database, namespace: info.name.clone() }
    }

    /// Makes this process a node. A process that was registered under the same id is replaced: its
    /// heartbeats are refused, and what it owned can be taken.
    pub async fn register(&self, options: &NodeOptions, event_types: &[String]) -> Result<Registration> {
        calling!(self.database, conn => register(conn, &self.namespace, options, event_types))
    }

    /// Reports that this process lives, and which event types it handles.
    pub async fn heartbeat(&self, node: &Registration, event_types: &[String]) -> Result<()> {
        calling!(self.database, conn => heartbeat(conn, &self.namespace, node, event_types, None))
    }

    /// As [`heartbeat`](PgNodes::heartbeat), and also reports for which of these types this process
    /// has handlers. The other types belong to its subscribers.
    pub async fn heartbeat_of(&self, node: &Registration, event_types: &[String], handled: &[String]) -> Result<()> {
        calling!(self.database, conn => heartbeat(conn, &self.namespace, node, event_types, Some(handled)))
    }

    /// Reports that this process ends. Returns whether it still owned its node id.
    pub async fn stop(&self, node: &Registration) -> Result<bool> {
        calling!(self.database, conn => stop(conn, &self.namespace, node))
    }

    /// Lists all nodes, or the one with this id.
    pub async fn list(&self, node_id: Option<&str>) -> Result<Vec<NodeInfo>> {
        calling!(self.database, conn => list(conn, Some(&self.namespace), node_id))
    }

    /// Removes nodes that are not alive and were silent for `older_than`: all of them, or the one
    /// with this id. Returns how many were removed.
    pub async fn forget(&self, older_than: Duration, node_id: Option<&str>) -> Result<u64> {
        calling!(self.database, conn => forget(conn, &self.namespace, older_than, node_id))
    }

    /// Settles events of a shared subscriber whose type no live node has handled for `grace`.
    /// Messages, events that a worker had before, and types that a node handles which is not alive
    /// become dead letters. The rest (events of streams, broadcasts, events that no node emitted,
    /// types that live subscribers have) counts as done. Returns how many became dead letters.
    pub async fn reap_unhandled(&self, subscriber_id: &str, grace: Duration) -> Result<u64> {
        let mut all = 0;
        loop {
            // Nobody can claim in the meantime. So settle only some at a time.
            let (letters, settled) =
                calling!(self.database, conn => reap_unhandled(conn, &self.namespace, subscriber_id, grace))?;
            all += letters;
            if settled == 0 {
                return Ok(all);
            }
        }
    }
}

impl Database {
    /// Lists the nodes of all namespaces.
    pub async fn nodes(&self) -> Result<Vec<NodeInfo>> {
        calling!(self, conn => list(conn, None, None))
    }
}

async fn register(
    conn: &mut PgConnection,
    namespace: &str,
    options: &NodeOptions,
    event_types: &[String],
) -> Result<Registration> {
    let row = sqlx::query(sql::nodes::REGISTER_NODE)
        .bind(namespace)
        .bind(options.node_id.as_deref())
        .bind(options.display_name.as_deref())
        .bind(options.description.as_deref())
        .bind(options.metadata.as_ref().map(|metadata| metadata.as_str()))
        .bind(options.heartbeat.as_secs_f64())
        .bind(event_types)
        .fetch_one(conn)
        .await
        .map_err(subscriber_error)?;
    let read =
        || Ok(Registration { node_id: row.try_get(0)?, incarnation: sequence(&row, 1)?, instance_id: row.try_get(2)? });
    read().map_err(subscriber_error)
}

async fn heartbeat(
    conn: &mut PgConnection,
    namespace: &str,
    node: &Registration,
    event_types: &[String],
    handled: Option<&[String]>,
) -> Result<()> {
    let beat = sqlx::query(sql::nodes::HEARTBEAT)
        .bind(namespace)
        .bind(&node.node_id)
        .bind(bound(node.incarnation))
        .bind(event_types)
        .bind(handled);
    beat.execute(conn).await.map(drop).map_err(subscriber_error)
}

async fn stop(conn: &mut PgConnection, namespace: &str, node: &Registration) -> Result<bool> {
    let stopping =
        sqlx::query_scalar(sql::nodes::STOP_NODE).bind(namespace).bind(&node.node_id).bind(bound(node.incarnation));
    stopping.fetch_one(conn).await.map_err(subscriber_error)
}

async fn list(conn: &mut PgConnection, namespace: Option<&str>, node_id: Option<&str>) -> Result<Vec<NodeInfo>> {
    let rows =
        sqlx::query(sql::nodes::NODES).bind(namespace).bind(node_id).fetch_all(conn).await.map_err(subscriber_error)?;
    rows.iter().map(info).collect::<std::result::Result<_, _>>().map_err(subscriber_error)
}

fn info(row: &PgRow) -> std::result::Result<NodeInfo, sqlx::Error> {
    let seconds = |column: &str| row.try_get::<f64, _>(column).map(|seconds| Duration::from_secs_f64(seconds.max(0.0)));
    let PgJson(metadata) = row.try_get("metadata")?;
    Ok(NodeInfo {
        namespace: row.try_get("namespace")?,
        node_id: row.try_get("node_id")?,
        incarnation: sequence(row, "incarnation")?,
        instance_id: row.try_get("instance_id")?,
        alive: row.try_get("alive")?,
        heartbeat_age: seconds("heartbeat_age")?,
        display_name: row.try_get("display_name")?,
        description: row.try_get("description")?,
        metadata,
        event_types: row.try_get("event_types")?,
        heartbeat_every: seconds("heartbeat_every")?,
        registered_at: row.try_get("registered_at")?,
        started_at: row.try_get("started_at")?,
        last_heartbeat: row.try_get("last_heartbeat")?,
        stopped_at: row.try_get("stopped_at")?,
    })
}

async fn forget(conn: &mut PgConnection, namespace: &str, older_than: Duration, node_id: Option<&str>) -> Result<u64> {
    let forgetting =
        sqlx::query_scalar(sql::nodes::FORGET_NODES).bind(namespace).bind(older_than.as_secs_f64()).bind(node_id);
    forgetting.fetch_one(conn).await.map(|PgSequence(gone)| gone).map_err(subscriber_error)
}

async fn reap_unhandled(
    conn: &mut PgConnection,
    namespace: &str,
    subscriber_id: &str,
    grace: Duration,
) -> Result<(u64, u64)> {
    let reaping = sqlx::query_as(sql::queue::REAP_UNHANDLED)
        .bind(namespace)
        .bind(grace.as_secs_f64())
        .bind(subscriber_id)
        .bind(int(REAPED_AT_ONCE));
    let (PgSequence(letters), PgSequence(settled)) = reaping.fetch_one(conn).await.map_err(subscriber_error)?;
    Ok((letters, settled))
}
