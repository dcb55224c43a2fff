//! What operators and starting processes do with subscribers.

use std::time::Duration;

use chrono::{DateTime, Utc};
use headwater_core::names::check_subscriber_id;
use headwater_core::{
    Fence, Gap, GapState, History, Instance, Report, StartFrom, SubscriberConfig, SubscriberInfo, SubscriberMode,
};
use sqlx::postgres::{PgArguments, PgRow, Postgres};
use sqlx::query::Query;
use sqlx::{PgConnection, Row};

use super::leases::reported;
use super::{Result, checkpoint, refused, storable};
use crate::database::error::subscriber_error;
use crate::database::number::{PgSequence, bigint, bigints, bound, count, int, milliseconds, sequence};
use crate::log::row::PgJson;
use crate::{Database, sql};

pub(super) async fn register(conn: &mut PgConnection, namespace: &str, config: &SubscriberConfig) -> Result<()> {
    check_subscriber_id(&config.subscriber_id)?;
    let (start_from, position, time) = match config.start_from {
        StartFrom::Beginning => ("beginning", None, None),
        StartFrom::Now => ("now", None, None),
        StartFrom::After(position) => ("after", Some(bigint(position)?), None),
        StartFrom::Time(time) => ("time", None, Some(time)),
    };
    let statement = sqlx::query(sql::delivery::REGISTER_SUBSCRIBER)
        .bind(namespace)
        .bind(&config.subscriber_id)
        .bind(start_from)
        .bind(position)
        .bind(time)
        .bind(config.mode.name())
        .bind(int(config.mode.partitions()))
        .bind((!config.event_types.is_empty()).then_some(&config.event_types));
    run(conn, statement).await.map(drop)
}

pub(super) async fn attend_queues(
    conn: &mut PgConnection,
    namespace_id: i32,
    instance: &Instance,
    queues: &[(String, f64)],
    lease: Duration,
) -> Result<Vec<String>> {
    let (ids, rates): (Vec<&str>, Vec<f64>) = queues.iter().map(|(id, rate)| (id.as_str(), *rate)).unzip();
    let statement = sqlx::query_scalar(sql::queue::ATTEND_QUEUES)
        .bind(namespace_id)
        .bind(&instance.node)
        .bind(instance.incarnation)
        .bind(ids)
        .bind(rates)
        .bind(milliseconds(lease));
    statement.fetch_all(conn).await.map_err(subscriber_error)
}

pub(super) async fn is_node(conn: &mut PgConnection, namespace_id: i32, instance: &Instance) -> Result<bool> {
    let statement =
        sqlx::query_scalar(sql::nodes::IS_NODE).bind(namespace_id).bind(&instance.node).bind(instance.incarnation);
    statement.fetch_one(conn).await.map_err(subscriber_error)
}

pub(super) async fn attend_alone(
    conn: &mut PgConnection,
    namespace: &str,
    subscribers: &[(String, Report)],
    lease: Duration,
) -> Result<()> {
    let ids: Vec<&str> = subscribers.iter().map(|(id, _)| id.as_str()).collect();
    let reports = subscribers.iter().map(|(_, report)| reported(report)).collect::<Result<Vec<_>>>()?;
    let statement =
        sqlx::query(sql::delivery::ATTEND_ALONE).bind(namespace).bind(ids).bind(reports).bind(milliseconds(lease));
    run(conn, statement).await.map(drop)
}

pub(super) async fn set_event_types(
    conn: &mut PgConnection,
    namespace: &str,
    subscriber_id: &str,
    event_types: &[String],
) -> Result<Option<Vec<String>>> {
    let event_types = (!event_types.is_empty()).then_some(event_types);
    let statement =
        sqlx::query_scalar(sql::queue::SET_EVENT_TYPES).bind(namespace).bind(subscriber_id).bind(event_types);
    statement.fetch_one(conn).await.map_err(subscriber_error)
}

pub(super) async fn set_paused(
    conn: &mut PgConnection,
    namespace: &str,
    subscriber_id: &str,
    paused: bool,
) -> Result<()> {
    let text = if paused { sql::delivery::PAUSE_SUBSCRIBER } else { sql::delivery::RESUME_SUBSCRIBER };
    run(conn, sqlx::query(text).bind(namespace).bind(subscriber_id)).await.map(drop)
}

pub(super) async fn pause_self(conn: &mut PgConnection, namespace_id: i32, fence: &Fence, reason: &str) -> Result<()> {
    let statement = sqlx::query(sql::delivery::PAUSE_SELF)
        .bind(namespace_id)
        .bind(&fence.subscriber_id)
        .bind(fence.term.map(bound))
        .bind(storable(reason))
        .bind(int(fence.partition))
        .bind(fence.history.map(History::id));
    match run(conn, statement).await? {
        0 => Err(refused(conn, namespace_id, fence).await),
        _ => Ok(()),
    }
}

pub(super) async fn reset(conn: &mut PgConnection, namespace: &str, subscriber_id: &str, position: u64) -> Result<()> {
    let statement =
        sqlx::query(sql::delivery::RESET_SUBSCRIBER).bind(namespace).bind(subscriber_id).bind(bigint(position)?);
    run(conn, statement).await.map(drop)
}

pub(super) async fn remove(conn: &mut PgConnection, namespace: &str, subscriber_id: &str, force: bool) -> Result<()> {
    run(conn, sqlx::query(sql::delivery::REMOVE_SUBSCRIBER).bind(namespace).bind(subscriber_id).bind(force))
        .await
        .map(drop)
}

pub(super) async fn position_at(conn: &mut PgConnection, namespace: &str, time: DateTime<Utc>) -> Result<u64> {
    let statement = sqlx::query_scalar(sql::delivery::POSITION_AT).bind(namespace).bind(time);
    statement.fetch_one(conn).await.map(|PgSequence(position)| position).map_err(subscriber_error)
}

pub(super) async fn record_gaps(
    conn: &mut PgConnection,
    namespace_id: i32,
    history: Option<History>,
    gaps: &[Gap],
) -> Result<()> {
    let permanent = || gaps.iter().filter(|gap| gap.state == GapState::Permanent);
    let first = bigints(permanent().map(|gap| gap.first))?;
    let last = bigints(permanent().map(|gap| gap.last))?;
    if first.is_empty() {
        return Ok(());
    }
    let statement = sqlx::query(sql::log::RECORD_GAPS).bind(namespace_id).bind(first).bind(last);
    run(conn, statement.bind(history.map(History::id))).await.map(drop)
}

async fn run(conn: &mut PgConnection, statement: Query<'_, Postgres, PgArguments>) -> Result<u64> {
    statement.execute(conn).await.map(|done| done.rows_affected()).map_err(subscriber_error)
}

pub(super) async fn status(
    conn: &mut PgConnection,
    namespace: &str,
    subscriber_id: Option<&str>,
) -> Result<Vec<SubscriberInfo>> {
    let statement = sqlx::query(sql::delivery::SUBSCRIBER_STATUS).bind(namespace).bind(subscriber_id);
    let rows = statement.fetch_all(conn).await.map_err(subscriber_error)?;
    rows.iter().map(info).collect::<std::result::Result<_, _>>().map_err(subscriber_error)
}

impl Database {
    /// The subscribers of all namespaces, each with its namespace's name, in one statement for any
    /// number of them.
    pub async fn subscribers_of_all(&self) -> Result<Vec<(String, SubscriberInfo)>> {
        let mut conn = self.pin().await.map_err(subscriber_error)?;
        let rows = sqlx::query(sql::delivery::ALL_SUBSCRIBERS).fetch_all(&mut *conn).await.map_err(subscriber_error);
        let rows = conn.end(rows, subscriber_error).await?;
        let of_row = |row| Ok((PgRow::get(row, "namespace"), info(row)?));
        rows.iter().map(of_row).collect::<std::result::Result<_, sqlx::Error>>().map_err(subscriber_error)
    }
}

fn info(row: &PgRow) -> std::result::Result<SubscriberInfo, sqlx::Error> {
    Ok(SubscriberInfo {
        subscriber_id: row.get("subscriber_id"),
        mode: mode(row)?,
        position: sequence(row, "position")?,
        last_event_id: row.get("last_event_id"),
        pending_gaps: checkpoint::pairs(row)?,
        owner: owner(row),
        term: sequence(row, "term")?,
        lease_left: row.get::<Option<f64>, _>("lease_left").map(seconds),
        report: report(row),
        paused: row.get("paused"),
        pause_reason: row.get("pause_reason"),
        lag_events: sequence(row, "lag_events")?,
        lag: seconds(row.get("lag")),
        dead_letters: sequence(row, "dead_letters")?,
        created_at: row.get("created_at"),
        updated_at: row.get("updated_at"),
    })
}

fn mode(row: &PgRow) -> std::result::Result<SubscriberMode, sqlx::Error> {
    Ok(match row.get("mode") {
        "partitioned" => SubscriberMode::Partitioned { partitions: count(row, "partitions")? },
        "shared" => SubscriberMode::Shared,
        _ => SubscriberMode::Exclusive,
    })
}

pub(super) fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds.max(0.0))
}

pub(super) fn owner(row: &PgRow) -> Option<Instance> {
    let node: Option<String> = row.get("owner_node");
    let incarnation = row.get::<Option<_>, _>("owner_incarnation")?;
    Some(Instance { node: node.unwrap_or_default(), incarnation })
}

/// Reads a report. `None` also for a report of a newer build, which may have a state that this
/// build does not know.
pub(super) fn report(row: &PgRow) -> Option<Report> {
    row.get::<Option<PgJson>, _>("report").and_then(|PgJson(report)| report.decode().ok())
}
