//! Groups: their members, and the number of their partitions.

use headwater_core::{GroupInfo, Instance, PartitionInfo};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use super::manage::{owner, report, seconds};
use super::{Result, checkpoint};
use crate::error::subscriber_error;
use crate::sql;

pub(super) async fn leave(
    conn: &mut PgConnection,
    namespace: &str,
    instance: &Instance,
    groups: &[String],
) -> Result<()> {
    let statement = sqlx::query(sql::LEAVE_GROUPS).bind(namespace).bind(instance.incarnation).bind(groups);
    statement.execute(conn).await.map(drop).map_err(subscriber_error)
}

pub(super) async fn resize(
    conn: &mut PgConnection,
    namespace: &str,
    subscriber_id: &str,
    partitions: u32,
) -> Result<()> {
    let partitions = i32::try_from(partitions).unwrap_or(i32::MAX);
    let statement = sqlx::query(sql::RESIZE_GROUP).bind(namespace).bind(subscriber_id).bind(partitions);
    statement.execute(conn).await.map(drop).map_err(subscriber_error)
}

pub(super) async fn group(
    conn: &mut PgConnection,
    namespace: &str,
    namespace_id: i32,
    subscriber_id: &str,
) -> Result<GroupInfo> {
    let statement = sqlx::query(sql::GROUP_STATUS).bind(namespace).bind(subscriber_id);
    let rows = statement.fetch_all(&mut *conn).await.map_err(subscriber_error)?;
    let statement = sqlx::query(sql::GROUP_MEMBERS).bind(namespace_id).bind(subscriber_id);
    let members = statement.fetch_all(conn).await.map_err(subscriber_error)?;
    Ok(GroupInfo {
        subscriber_id: subscriber_id.to_owned(),
        members: members.iter().map(|row| Instance { node: row.get(0), incarnation: row.get(1) }).collect(),
        resize_to: rows.first().and_then(|row| row.get::<Option<i32>, _>("resize_to")).map(|count| count as u32),
        barrier: rows.first().and_then(|row| row.get::<Option<i64>, _>("barrier")).map(|barrier| barrier as u64),
        partitions: rows.iter().map(partition).collect(),
    })
}

fn partition(row: &PgRow) -> PartitionInfo {
    PartitionInfo {
        partition: row.get::<i32, _>("partition") as u32,
        position: row.get::<i64, _>("position") as u64,
        pending_gaps: checkpoint::pairs(row),
        owner: owner(row),
        term: row.get::<i64, _>("term") as u64,
        lease_left: row.get::<Option<f64>, _>("lease_left").map(seconds),
        report: report(row),
        lag_events: row.get::<i64, _>("lag_events") as u64,
    }
}
