//! Groups: their members, and the number of their partitions.

use std::time::Duration;

use headwater_core::{GroupInfo, Instance, PartitionInfo};
use serde::Serialize;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use super::call::calling;
use super::manage::{owner, report, seconds};
use super::{Result, checkpoint};
use crate::database::error::subscriber_error;
use crate::database::number::{PgCount, count, int, sequence, sequence_or_null};
use crate::{Database, sql};

/// A group in a list of all.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupSummary {
    /// Its namespace.
    pub namespace: String,
    /// The subscriber.
    pub subscriber_id: String,
    /// How many instances share its partitions.
    pub members: u64,
    /// How many partitions it has.
    pub partitions: u64,
    /// How many of them have an owner.
    pub owned: u64,
    /// Whether it is paused.
    pub paused: bool,
    /// The position of the partition that is furthest behind.
    pub position: u64,
    /// How far the log is ahead of that partition, in sequences: at most this many events.
    pub lag_events: u64,
    /// How long the oldest event that is ahead has been there.
    #[serde(skip)]
    pub lag: Duration,
    /// Dead letters that are not done with.
    pub dead_letters: u64,
    /// The number of partitions that the group is changing to; `None`: it is not changing.
    pub resize_to: Option<u32>,
    /// Where the present partitions end and the new ones begin, once that is known.
    pub barrier: Option<u64>,
}

impl Database {
    /// Returns the groups of all namespaces in which the caller may consume, in one statement.
    pub async fn groups_of_all(&self) -> Result<Vec<GroupSummary>> {
        calling!(self, conn => list_of_all(conn))
    }
}

async fn list_of_all(conn: &mut PgConnection) -> Result<Vec<GroupSummary>> {
    let rows = sqlx::query(sql::groups::ALL_GROUPS).fetch_all(conn).await.map_err(subscriber_error)?;
    let group = |row: &PgRow| {
        Ok(GroupSummary {
            namespace: row.try_get("namespace")?,
            subscriber_id: row.try_get("subscriber_id")?,
            members: sequence(row, "members")?,
            partitions: sequence(row, "partitions")?,
            owned: sequence(row, "owned")?,
            paused: row.try_get("paused")?,
            position: sequence(row, "position")?,
            lag_events: sequence(row, "lag_events")?,
            lag: seconds(row.try_get("lag_seconds")?),
            dead_letters: sequence(row, "dead_letters")?,
            resize_to: row.try_get::<Option<PgCount>, _>("resize_to")?.map(|PgCount(partitions)| partitions),
            barrier: sequence_or_null(row, "barrier")?,
        })
    };
    rows.iter().map(group).collect::<std::result::Result<_, sqlx::Error>>().map_err(subscriber_error)
}

pub(super) async fn leave(
    conn: &mut PgConnection,
    namespace: &str,
    instance: &Instance,
    groups: &[String],
) -> Result<()> {
    let statement = sqlx::query(sql::groups::LEAVE_GROUPS).bind(namespace).bind(instance.incarnation).bind(groups);
    statement.execute(conn).await.map(drop).map_err(subscriber_error)
}

pub(super) async fn resize(
    conn: &mut PgConnection,
    namespace: &str,
    subscriber_id: &str,
    partitions: u32,
) -> Result<()> {
    let statement = sqlx::query(sql::groups::RESIZE_GROUP).bind(namespace).bind(subscriber_id).bind(int(partitions));
    statement.execute(conn).await.map(drop).map_err(subscriber_error)
}

pub(super) async fn group(
    conn: &mut PgConnection,
    namespace: &str,
    namespace_id: i32,
    subscriber_id: &str,
) -> Result<GroupInfo> {
    let statement = sqlx::query(sql::groups::GROUP_STATUS).bind(namespace).bind(subscriber_id);
    let rows = statement.fetch_all(&mut *conn).await.map_err(subscriber_error)?;
    let statement = sqlx::query(sql::groups::GROUP_MEMBERS).bind(namespace_id).bind(subscriber_id);
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
