//! Groups: their members, and the number of their partitions.

use headwater_core::{GroupInfo, Instance, PartitionInfo};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use super::manage::{owner, report, seconds};
use super::{Result, checkpoint};
use crate::error::subscriber_error;
use crate::number::{PgCount, count, int, sequence, sequence_or_null};
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
    let statement = sqlx::query(sql::RESIZE_GROUP).bind(namespace).bind(subscriber_id).bind(int(partitions));
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
    let read = || {
        let (resize_to, barrier) = match rows.first() {
            Some(row) => (row.try_get::<Option<PgCount>, _>("resize_to")?, sequence_or_null(row, "barrier")?),
            None => (None, None),
        };
        Ok(GroupInfo {
            subscriber_id: subscriber_id.to_owned(),
            members: members.iter().map(|row| Instance { node: row.get(0), incarnation: row.get(1) }).collect(),
            resize_to: resize_to.map(|PgCount(partitions)| partitions),
            barrier,
            partitions: rows.iter().map(partition).collect::<std::result::Result<_, _>>()?,
        })
    };
    read().map_err(subscriber_error)
}

fn partition(row: &PgRow) -> std::result::Result<PartitionInfo, sqlx::Error> {
    Ok(PartitionInfo {
        partition: count(row, "partition")?,
        position: sequence(row, "position")?,
        pending_gaps: checkpoint::pairs(row)?,
        owner: owner(row),
        term: sequence(row, "term")?,
        lease_left: row.get::<Option<f64>, _>("lease_left").map(seconds),
        report: report(row),
        lag_events: sequence(row, "lag_events")?,
    })
}
