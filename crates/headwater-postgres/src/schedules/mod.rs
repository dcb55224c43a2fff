//! Schedules: created, listed, run, paused and removed. [`PgLog::fire_due`] fires them together
//! with due events.
//!
//! The database has the authority: it parses cron expressions, knows the time zones, and its clock
//! says what is due.

pub(crate) mod due;

use std::time::Duration;

use chrono::{DateTime, FixedOffset, Offset, Utc};
use headwater_core::{MissedRuns, RunOutcome, Schedule, ScheduleError, ScheduleRun, ScheduleState, StreamId, Task};
use sqlx::Row;
use sqlx::postgres::{PgArguments, PgRow, Postgres};
use sqlx::query::Query;
use uuid::Uuid;

use crate::database::error::schedule_error;
use crate::database::number::{count, int, sequence, sequence_or_null};
use crate::database::retry;
use crate::log::row::{PgJson, json};
use crate::{Database, PgLog, sql};

pub use self::due::{Due, DueEvent, Fired};

type Result<T> = std::result::Result<T, ScheduleError>;

/// How long a preview is tried while the database cannot be reached.
const RETRY_PREVIEW: Duration = Duration::from_secs(10);

impl Database {
    /// Returns the next `count` due times of a cron expression after a moment (`None`: now), as the
    /// clocks of a time zone show them.
    pub async fn next_runs(
        &self,
        cron: &str,
        timezone: &str,
        after: Option<DateTime<Utc>>,
        count: u32,
    ) -> Result<Vec<DateTime<FixedOffset>>> {
        let statement =
            || sqlx::query(sql::schedules::NEXT_RUNS).bind(cron).bind(timezone).bind(after).bind(int(count));
        let rows = call(self, RETRY_PREVIEW, statement).await?;
        read(&rows, |row| zoned(row, "due_at", "local_time"))
    }
}

impl Database {
    /// Returns the schedules of all namespaces in which the caller may append, each with the name
    /// of its namespace, in one statement.
    pub async fn schedules_of_all(&self) -> Result<Vec<(String, Schedule)>> {
        let rows = call(self, RETRY_PREVIEW, || sqlx::query(sql::schedules::ALL_SCHEDULES)).await?;
        read(&rows, |row| Ok((row.try_get("namespace")?, schedule(row)?)))
    }
}

impl PgLog {
    /// Creates a schedule, or changes the one of this name, and returns its new state. With the
    /// same times as before it keeps what is due, so a program may call this at every start.
    pub async fn schedule_task(&self, task: &Task) -> Result<Schedule> {
        task.payload.validate().map_err(|error| ScheduleError::InvalidInput(error.to_string()))?;
        let (missed, limit) = match task.missed {
            MissedRuns::FireOnce => ("fire_once", None),
            MissedRuns::FireAll { limit } => ("fire_all", Some(int(limit))),
            MissedRuns::Skip => ("skip", None),
        };
        let statement = || {
            sqlx::query(sql::schedules::SCHEDULE)
                .bind(&self.info().name)
                .bind(&task.name)
                .bind(&task.event_type)
                .bind(task.cron.as_deref())
                .bind(task.due_at)
                .bind(json(&task.payload))
                .bind(&task.timezone)
                .bind(task.stream_id.as_deref())
                .bind(task.key.as_deref())
                .bind(task.starts_at)
                .bind(task.ends_at)
                .bind(missed)
                .bind(limit)
                .bind(task.active)
                .bind(if task.pg_cron { "pg_cron" } else { "node" })
        };
        self.call(statement).await?;
        self.poke_due();
        self.schedule(&task.name).await
    }

    /// Lists the namespace's schedules, by name.
    pub async fn schedules(&self) -> Result<Vec<Schedule>> {
        let statement = || sqlx::query(sql::schedules::SCHEDULE_STATUS).bind(&self.info().name).bind(None::<&str>);
        read(&self.call(statement).await?, schedule)
    }

    /// Returns one schedule.
    pub async fn schedule(&self, name: &str) -> Result<Schedule> {
        let statement = || sqlx::query(sql::schedules::SCHEDULE_STATUS).bind(&self.info().name).bind(name);
        let found = read(&self.call(statement).await?, schedule)?.pop();
        found.ok_or_else(|| ScheduleError::NotFound(name.to_owned()))
    }

    /// Appends a schedule's event at once, even if the schedule is paused, and returns the event's
    /// sequence.
    pub async fn run_schedule_now(&self, name: &str) -> Result<u64> {
        let event_id = Uuid::now_v7();
        let statement =
            || sqlx::query(sql::schedules::RUN_SCHEDULE_NOW).bind(&self.info().name).bind(name).bind(event_id);
        let sequences = read(&self.call(statement).await?, |row| sequence(row, 0))?;
        self.poke_appended(1);
        Ok(sequences[0])
    }

    /// Pauses a schedule: it fires nothing until it is resumed. Due times in between do not count
    /// as missed.
    pub async fn pause_schedule(&self, name: &str) -> Result<()> {
        self.call(|| sqlx::query(sql::schedules::PAUSE_SCHEDULE).bind(&self.info().name).bind(name)).await.map(drop)
    }

    /// Resumes a schedule, from now on. A schedule that is due once is due at its time, or now if
    /// that has passed.
    pub async fn resume_schedule(&self, name: &str) -> Result<()> {
        self.call(|| sqlx::query(sql::schedules::RESUME_SCHEDULE).bind(&self.info().name).bind(name)).await?;
        self.poke_due();
        Ok(())
    }

    /// Removes a schedule, with its history. Events that it appended stay.
    pub async fn delete_schedule(&self, name: &str) -> Result<()> {
        self.call(|| sqlx::query(sql::schedules::UNSCHEDULE).bind(&self.info().name).bind(name)).await.map(drop)
    }

    /// Lists what happened at its last 100 due times, latest first.
    pub async fn schedule_runs(&self, name: &str, count: u32) -> Result<Vec<ScheduleRun>> {
        let statement =
            || sqlx::query(sql::schedules::SCHEDULE_HISTORY).bind(&self.info().name).bind(name).bind(int(count));
        read(&self.call(statement).await?, run)
    }

    async fn call<'q>(&self, statement: impl Fn() -> Query<'q, Postgres, PgArguments>) -> Result<Vec<PgRow>> {
        call(self.database(), self.retry_for(), statement).await
    }
}

async fn call<'q>(
    database: &Database,
    retry_for: Duration,
    statement: impl Fn() -> Query<'q, Postgres, PgArguments>,
) -> Result<Vec<PgRow>> {
    retry::rows(database, retry_for, statement, schedule_error, ScheduleError::Unavailable).await
}

fn read<T>(rows: &[PgRow], one: impl Fn(&PgRow) -> std::result::Result<T, sqlx::Error>) -> Result<Vec<T>> {
    rows.iter().map(one).collect::<std::result::Result<_, _>>().map_err(schedule_error)
}

/// Reads a moment as the clocks of a time zone show it. `local` is the column with that text, of
/// which only the offset from UTC is taken: the clocks may show a year that RFC 3339 does not know,
/// and one schedule must not break the list of all.
fn zoned(row: &PgRow, moment: &str, local: &str) -> std::result::Result<DateTime<FixedOffset>, sqlx::Error> {
    Ok(at_offset(row.try_get(moment)?, row.try_get(local)?))
}

fn zoned_or_null(
    row: &PgRow,
    moment: &str,
    local: &str,
) -> std::result::Result<Option<DateTime<FixedOffset>>, sqlx::Error> {
    let (moment, local): (Option<_>, Option<_>) = (row.try_get(moment)?, row.try_get(local)?);
    Ok(moment.zip(local).map(|(moment, local)| at_offset(moment, local)))
}

fn at_offset(moment: DateTime<Utc>, local: &str) -> DateTime<FixedOffset> {
    /// The length of an offset, such as +02:00.
    const OFFSET: usize = 6;
    let offset = local.len().checked_sub(OFFSET).and_then(|at| local.get(at..));
    let offset = offset.and_then(|offset| offset.parse().ok());
    moment.with_timezone(&offset.unwrap_or_else(|| Utc.fix()))
}

fn unknown(what: &str, value: &str) -> sqlx::Error {
    sqlx::Error::Decode(format!("unknown {what} {value:?}").into())
}

fn schedule(row: &PgRow) -> std::result::Result<Schedule, sqlx::Error> {
    let PgJson(payload) = row.try_get("payload")?;
    Ok(Schedule {
        name: row.try_get("name")?,
        task_id: row.try_get("task_id")?,
        state: match row.try_get("state")? {
            "active" => ScheduleState::Active,
            "paused" => ScheduleState::Paused,
            "failing" => ScheduleState::Failing,
            "ended" => ScheduleState::Ended,
            other => return Err(unknown("state", other)),
        },
        cron: row.try_get("cron_expression")?,
        due_at: row.try_get("due_at")?,
        timezone: row.try_get("timezone")?,
        event_type: row.try_get("event_type")?,
        payload,
        stream_id: row.try_get::<Option<String>, _>("stream_id")?.map(StreamId::from),
        key: row.try_get("key")?,
        starts_at: row.try_get("starts_at")?,
        ends_at: row.try_get("ends_at")?,
        missed: match row.try_get("missed")? {
            "fire_once" => MissedRuns::FireOnce,
            "fire_all" => MissedRuns::FireAll { limit: count(row, "missed_limit")? },
            "skip" => MissedRuns::Skip,
            other => return Err(unknown("missed", other)),
        },
        pg_cron: row.try_get::<&str, _>("trigger")? == "pg_cron",
        job_id: row.try_get("job_id")?,
        next_due_at: zoned_or_null(row, "next_due_at", "next_due_local")?,
        last_due_at: zoned_or_null(row, "last_due_at", "last_due_local")?,
        failures: count(row, "failures")?,
        error: row.try_get("error")?,
        created_at: row.try_get("created_at")?,
        updated_at: row.try_get("updated_at")?,
    })
}

fn run(row: &PgRow) -> std::result::Result<ScheduleRun, sqlx::Error> {
    Ok(ScheduleRun {
        due_at: zoned(row, "due_at", "due_local")?,
        outcome: match row.try_get("outcome")? {
            "fired" => RunOutcome::Fired,
            "skipped" => RunOutcome::Skipped,
            "manual" => RunOutcome::Manual,
            "failed" => RunOutcome::Failed,
            other => return Err(unknown("outcome", other)),
        },
        ran_at: row.try_get("ran_at")?,
        event_id: row.try_get("event_id")?,
        global_sequence: sequence_or_null(row, "global_sequence")?,
        skipped_until: row.try_get("skipped_until")?,
        attempts: count(row, "attempts")?,
        error: row.try_get("error")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_no_other_reader_knows_is_read() {
        let at = |moment: &str, local| at_offset(moment.parse().unwrap(), local).to_string();
        assert_eq!(at("2026-03-29T01:00:00Z", "2026-03-29T03:00:00+02:00"), "2026-03-29 03:00:00 +02:00");
        assert_eq!(at("9999-12-31T23:59:59Z", "10000-01-01T13:59:59+14:00"), "+10000-01-01 13:59:59 +14:00");
        assert_eq!(at("0001-01-01T00:00:00Z", "0001-12-31T19:00:00-05:00"), "0000-12-31 19:00:00 -05:00");
        for unknown in ["", "+", "é+2:00", "tomorrow"] {
            assert_eq!(at("2026-03-29T01:00:00Z", unknown), "2026-03-29 01:00:00 +00:00");
        }
    }
}
