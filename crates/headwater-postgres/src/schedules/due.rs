//! Events that are due later: stored now, and appended to the log when it is time, by the first
//! process that fires them.
//!
//! The database has the authority, and only its clock counts: callers get intervals, never times to
//! compare with their own clock. A call on a connection that is lost is sent again. The event's id
//! makes that safe, and a fired event leaves the table with it.

use std::time::Duration;

use chrono::{DateTime, TimeZone, Utc};
use headwater_core::{Append, AppendError, Event, ReadError, StreamId};
use serde::Serialize;
use sqlx::postgres::{PgArguments, PgRow, Postgres};
use sqlx::query::Query;
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use crate::database::error::{append_error, read_error};
use crate::database::number::{count, int};
use crate::database::retry;
use crate::log::row::{PgJson, json};
use crate::{Database, sql};

/// A firing that takes longer is given up. The next one finds what it did.
const FIRE_TIMEOUT: Duration = Duration::from_secs(60);
/// 10,000 years: PostgreSQL can add it to the present time, and refuses the result.
const LONGEST_DELAY: Duration = Duration::from_secs(10_000 * 366 * 86_400);
/// Most events in a list.
const MAX_LISTED: u32 = 10_000;

/// When an event is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// At a time.
    At(DateTime<Utc>),
    /// This long from now, by the database's clock. It is correct even where the clock of this
    /// machine is wrong.
    In(Duration),
}

impl Due {
    fn at(self) -> Option<DateTime<Utc>> {
        match self {
            Due::At(time) => Some(time),
            Due::In(_) => None,
        }
    }

    /// The database refuses a delay that goes beyond every time.
    fn microseconds(self) -> Option<i64> {
        match self {
            Due::At(_) => None,
            Due::In(delay) => i64::try_from(delay.min(LONGEST_DELAY).as_micros()).ok(),
        }
    }
}

impl<Z: TimeZone> From<DateTime<Z>> for Due {
    fn from(time: DateTime<Z>) -> Self {
        Due::At(time.to_utc())
    }
}

impl From<Duration> for Due {
    fn from(delay: Duration) -> Self {
        Due::In(delay)
    }
}

/// An event that is not due yet.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DueEvent {
    /// The event. It has no place in the log yet.
    pub event: Event,
    /// When it is due.
    pub due_at: DateTime<Utc>,
    /// When it is tried next: when it is due, or later after a failure.
    pub next_try_at: DateTime<Utc>,
    /// How many times it could not be appended.
    pub failures: u32,
    /// Why it could not be appended the last time.
    pub error: Option<String>,
}

/// What a firing did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fired {
    /// How many events were appended.
    pub fired: u32,
    /// How many events, including those of schedules, could not be appended. They are kept, and
    /// tried again later.
    pub failed: u32,
    /// When to fire again; `None`: nothing waits.
    pub next_due_in: Option<Duration>,
}

impl Fired {
    fn and(self, other: Fired) -> Fired {
        Fired {
            fired: self.fired + other.fired,
            failed: self.failed + other.failed,
            next_due_in: self.next_due_in.into_iter().chain(other.next_due_in).min(),
        }
    }
}

impl Database {
    /// Appends the due events of all namespaces, at most `max_events` in each, and the due events
    /// of their schedules.
    pub async fn fire_all_due(&self, max_events: u32) -> Result<Fired, AppendError> {
        let statement = |text: &'static str| sqlx::query(text).bind(int(max_events));
        let due = fired(&one_row(self, FIRE_TIMEOUT, || statement(sql::schedules::FIRE_ALL_DUE)).await?)?;
        let scheduled = fired(&one_row(self, FIRE_TIMEOUT, || statement(sql::schedules::FIRE_ALL_SCHEDULES)).await?)?;
        Ok(due.and(scheduled))
    }
}

/// The result of storing an event until it is due.
pub(crate) struct Stored {
    /// It was due and appended: readers may be woken.
    pub(crate) appended: bool,
    /// It is due soon: firing tasks may sleep past it.
    pub(crate) soon: bool,
}

pub(crate) async fn store(
    database: &Database,
    retry_for: Duration,
    namespace: &str,
    due: Due,
    event: &Append,
) -> Result<Stored, AppendError> {
    stored(&one_row(database, retry_for, || statement(namespace, due, event, false)).await?)
}

pub(crate) async fn store_in(
    conn: &mut PgConnection,
    namespace: &str,
    due: Due,
    event: &Append,
) -> Result<Stored, AppendError> {
    stored(&statement(namespace, due, event, true).fetch_one(conn).await.map_err(append_error)?)
}

/// The request has one event: it was made from one.
fn statement<'q>(namespace: &'q str, due: Due, request: &'q Append, notify: bool) -> Query<'q, Postgres, PgArguments> {
    let event = &request.events()[0];
    sqlx::query(sql::schedules::STORE_DUE)
        .bind(namespace)
        .bind(event.id)
        .bind(&event.event_type)
        .bind(due.at())
        .bind(due.microseconds())
        .bind(event.data.as_ref().map(json))
        .bind(event.stream_id.as_deref())
        .bind(event.key.as_deref())
        .bind(sqlx::types::Json(&event.headers))
        .bind(event.actor_id.as_deref())
        .bind(event.correlation_id)
        .bind(event.causation_id)
        .bind(int(event.schema_version))
        .bind(event.created_at)
        .bind(notify)
}

fn stored(row: &PgRow) -> Result<Stored, AppendError> {
    let read = || Ok(Stored { appended: row.try_get(0)?, soon: row.try_get(1)? });
    read().map_err(append_error)
}

pub(crate) async fn cancel(
    database: &Database,
    retry_for: Duration,
    namespace: &str,
    event_id: Uuid,
) -> Result<bool, AppendError> {
    let row =
        one_row(database, retry_for, || sqlx::query(sql::schedules::CANCEL_DUE).bind(namespace).bind(event_id)).await?;
    row.try_get(0).map_err(append_error)
}

pub(crate) async fn cancel_in(conn: &mut PgConnection, namespace: &str, event_id: Uuid) -> Result<bool, AppendError> {
    let cancelling = sqlx::query_scalar(sql::schedules::CANCEL_DUE).bind(namespace).bind(event_id);
    cancelling.fetch_one(conn).await.map_err(append_error)
}

/// Fires without waking anybody: the caller does that after the commit.
pub(crate) async fn fire(database: &Database, namespace: &str, max_events: u32) -> Result<Fired, AppendError> {
    let statement = |text: &'static str| sqlx::query(text).bind(namespace).bind(int(max_events)).bind(false);
    let due = fired(&one_row(database, FIRE_TIMEOUT, || statement(sql::schedules::FIRE_DUE)).await?)?;
    let scheduled = fired(&one_row(database, FIRE_TIMEOUT, || statement(sql::schedules::FIRE_SCHEDULES)).await?)?;
    Ok(due.and(scheduled))
}

fn fired(row: &PgRow) -> Result<Fired, AppendError> {
    let read = || {
        let next: Option<f64> = row.try_get("next_due_in")?;
        Ok(Fired {
            fired: count(row, "fired")?,
            failed: count(row, "failed")?,
            next_due_in: next.map(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX)),
        })
    };
    read().map_err(append_error)
}

pub(crate) async fn list(
    conn: &mut PgConnection,
    namespace_id: i32,
    failed: bool,
    limit: u32,
) -> Result<Vec<DueEvent>, ReadError> {
    let listing =
        sqlx::query(sql::schedules::DUE_EVENTS).bind(namespace_id).bind(failed).bind(i64::from(limit.min(MAX_LISTED)));
    let rows = listing.fetch_all(conn).await.map_err(read_error)?;
    rows.iter().map(due_event).collect::<Result<_, _>>().map_err(read_error)
}

fn due_event(row: &PgRow) -> Result<DueEvent, sqlx::Error> {
    let (PgJson(data), PgJson(headers)) = (row.try_get("data")?, row.try_get("headers")?);
    let event = Event {
        id: row.try_get("event_id")?,
        stream_id: row.try_get::<Option<String>, _>("stream_id")?.map(StreamId::from),
        stream_version: None,
        event_type: row.try_get("event_type")?,
        schema_version: count(row, "schema_version")?,
        data: (data.as_str() != "null").then_some(data),
        global_sequence: None,
        key: row.try_get("key")?,
        actor_id: row.try_get("actor_id")?,
        correlation_id: row.try_get("correlation_id")?,
        causation_id: row.try_get("causation_id")?,
        headers: headers.decode().map_err(|error| sqlx::Error::Decode(Box::new(error)))?,
        created_at: row.try_get("created_at")?,
        recorded_at: None,
        transaction_id: None,
    };
    Ok(DueEvent {
        event,
        due_at: row.try_get("due_at")?,
        next_try_at: row.try_get("fire_at")?,
        failures: count(row, "failures")?,
        error: row.try_get("error")?,
    })
}

/// Returns the single row of a statement. Runs it again while connections are lost, until
/// `retry_for` has passed.
async fn one_row<'q>(
    database: &Database,
    retry_for: Duration,
    statement: impl Fn() -> Query<'q, Postgres, PgArguments>,
) -> Result<PgRow, AppendError> {
    let mut rows = retry::rows(database, retry_for, statement, append_error, AppendError::Unavailable).await?;
    rows.pop().ok_or_else(|| append_error(sqlx::Error::RowNotFound))
}
