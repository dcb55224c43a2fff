//! Schedules: cron rules, and single due times, that append events.

use chrono::{DateTime, FixedOffset, TimeZone, Utc};
use serde::Serialize;
use uuid::Uuid;

use crate::{Fault, Json, StreamId};

/// What happens to due times that nobody fired within two minutes, because no node ran or the
/// database was unavailable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MissedRuns {
    /// The last missed due time is fired, unless the next one on time follows at once.
    #[default]
    FireOnce,
    /// The last missed due times are fired, each with its own due time.
    FireAll {
        /// How many due times to fire: 1 to 1,000. Earlier ones are skipped.
        limit: u32,
    },
    /// No missed due time is fired.
    Skip,
}

/// What to schedule: a name, the due times, and the event to append.
///
/// ```
/// use headwater_core::{MissedRuns, Task};
///
/// let cleanup = Task::cron("daily-cleanup", "0 2 * * *")
///     .timezone("Europe/Copenhagen")
///     .emits("maintenance.cleanup", serde_json::json!({ "keep_days": 30 }))
///     .missed(MissedRuns::Skip);
/// assert_eq!(cleanup.name, "daily-cleanup");
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// The task's name in its namespace. Scheduling the same name again changes the task.
    pub name: String,
    /// The cron expression: five fields, or six with seconds in front, or a shortcut such as
    /// `@daily`. `None`: the task is due once.
    pub cron: Option<String>,
    /// When a task without a cron expression is due.
    pub due_at: Option<DateTime<Utc>>,
    /// The time zone of the cron expression.
    pub timezone: String,
    /// The type of the event.
    pub event_type: String,
    /// The data of the event.
    pub payload: Json,
    /// The stream that the event goes to. It may have any version.
    pub stream_id: Option<StreamId>,
    /// The key of the event.
    pub key: Option<String>,
    /// There is no due time before this.
    pub starts_at: Option<DateTime<Utc>>,
    /// There is no due time after this.
    pub ends_at: Option<DateTime<Utc>>,
    /// What happens to due times that nobody fired.
    pub missed: MissedRuns,
    /// Whether the task fires. `None`: an existing task stays as it is, and a new one fires.
    pub active: Option<bool>,
    /// Whether pg_cron triggers the task too.
    pub pg_cron: bool,
}

impl Task {
    /// A task that is due by a cron expression, in UTC unless a time zone is set.
    pub fn cron(name: impl Into<String>, expression: impl Into<String>) -> Self {
        Task { cron: Some(expression.into()), ..Task::new(name.into()) }
    }

    /// A task that is due once.
    pub fn once<Z: TimeZone>(name: impl Into<String>, at: DateTime<Z>) -> Self {
        Task { due_at: Some(at.to_utc()), ..Task::new(name.into()) }
    }

    fn new(name: String) -> Self {
        Task {
            name,
            cron: None,
            due_at: None,
            timezone: "UTC".into(),
            event_type: String::new(),
            payload: Json::null(),
            stream_id: None,
            key: None,
            starts_at: None,
            ends_at: None,
            missed: MissedRuns::default(),
            active: None,
            pg_cron: false,
        }
    }

    /// Sets the event's type and data. Without this, a task cannot be scheduled.
    pub fn emits(mut self, event_type: impl Into<String>, payload: impl Into<Json>) -> Self {
        self.event_type = event_type.into();
        self.payload = payload.into();
        self
    }

    /// Sets the time zone of the cron expression, such as `Europe/Copenhagen`. When its clocks
    /// change, a fixed time that is skipped is due right after the change, and a fixed time that
    /// occurs twice is due once. Times from a wildcard or a step follow the clocks.
    pub fn timezone(mut self, name: impl Into<String>) -> Self {
        self.timezone = name.into();
        self
    }

    /// Appends to this stream, which may have any version.
    pub fn stream(mut self, stream_id: impl Into<StreamId>) -> Self {
        self.stream_id = Some(stream_id.into());
        self
    }

    /// Gives the event this key.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Allows no due time before this.
    pub fn starts_at<Z: TimeZone>(mut self, at: DateTime<Z>) -> Self {
        self.starts_at = Some(at.to_utc());
        self
    }

    /// Allows no due time after this.
    pub fn ends_at<Z: TimeZone>(mut self, at: DateTime<Z>) -> Self {
        self.ends_at = Some(at.to_utc());
        self
    }

    /// Sets what happens to due times that nobody fired within two minutes. Default:
    /// [`MissedRuns::FireOnce`].
    pub fn missed(mut self, missed: MissedRuns) -> Self {
        self.missed = missed;
        self
    }

    /// Keeps the task from firing until it is resumed. Without this, scheduling again does not
    /// change whether the task fires: if an operator paused it, it stays paused.
    pub fn paused(mut self) -> Self {
        self.active = Some(false);
        self
    }

    /// Lets pg_cron trigger the task too, so that it fires while no node is up. The extension must
    /// be installed in this database.
    pub fn with_pg_cron(mut self) -> Self {
        self.pg_cron = true;
        self
    }
}

/// The present state of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleState {
    /// The schedule fires when it is due.
    Active,
    /// The schedule fires nothing until it is resumed.
    Paused,
    /// The schedule's event cannot be appended. It is tried again automatically.
    Failing,
    /// The schedule is never due again.
    Ended,
}

impl ScheduleState {
    /// The name in the database and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            ScheduleState::Active => "active",
            ScheduleState::Paused => "paused",
            ScheduleState::Failing => "failing",
            ScheduleState::Ended => "ended",
        }
    }
}

/// An existing schedule. Due times are in its time zone.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Schedule {
    /// The schedule's name.
    pub name: String,
    /// The schedule's permanent id: the header `scheduled_task_id` of its events.
    pub task_id: Uuid,
    /// The schedule's state.
    pub state: ScheduleState,
    /// The cron expression. `None`: the schedule is due once.
    pub cron: Option<String>,
    /// When a schedule without a cron expression is due.
    pub due_at: Option<DateTime<Utc>>,
    /// The time zone of the cron expression.
    pub timezone: String,
    /// The type of the event.
    pub event_type: String,
    /// The data of the event.
    pub payload: Json,
    /// The stream that the event goes to.
    pub stream_id: Option<StreamId>,
    /// The key of the event.
    pub key: Option<String>,
    /// There is no due time before this.
    pub starts_at: Option<DateTime<Utc>>,
    /// There is no due time after this.
    pub ends_at: Option<DateTime<Utc>>,
    /// What happens to due times that nobody fired.
    pub missed: MissedRuns,
    /// Whether pg_cron triggers the schedule too.
    pub pg_cron: bool,
    /// The number of pg_cron's job for the schedule.
    pub job_id: Option<i64>,
    /// When the schedule is due next. `None`: never again.
    pub next_due_at: Option<DateTime<FixedOffset>>,
    /// The last due time that was fired.
    pub last_due_at: Option<DateTime<FixedOffset>>,
    /// How often the event of the next due time could not be appended.
    pub failures: u32,
    /// Why the event could not be appended, the last time.
    pub error: Option<String>,
    /// When the schedule was created.
    pub created_at: DateTime<Utc>,
    /// When the schedule was last changed, paused or resumed.
    pub updated_at: DateTime<Utc>,
}

/// What happened at a due time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// The event was appended.
    Fired,
    /// The due time was missed, and no event was appended.
    Skipped,
    /// Somebody ran the schedule by hand.
    Manual,
    /// The event could not be appended. It is tried again.
    Failed,
}

impl RunOutcome {
    /// The name in the database and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            RunOutcome::Fired => "fired",
            RunOutcome::Skipped => "skipped",
            RunOutcome::Manual => "manual",
            RunOutcome::Failed => "failed",
        }
    }
}

/// A run of a schedule.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScheduleRun {
    /// When the run was due. If several due times were skipped, this is the first.
    pub due_at: DateTime<FixedOffset>,
    /// What happened at the due time.
    pub outcome: RunOutcome,
    /// When the outcome was recorded.
    pub ran_at: DateTime<Utc>,
    /// The event's id, which is the same at every attempt. `None`: the run was skipped.
    pub event_id: Option<Uuid>,
    /// The event's place in the log.
    pub global_sequence: Option<u64>,
    /// The last due time that was skipped with this one.
    pub skipped_until: Option<DateTime<Utc>>,
    /// How often the run was tried.
    pub attempts: u32,
    /// Why the event could not be appended.
    pub error: Option<String>,
}

/// Why an operation on a schedule failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// The schedule does not exist (WH030).
    #[error("schedule {0:?} does not exist")]
    NotFound(String),
    /// A cron expression, time zone, name or value is invalid (WH002).
    #[error("{0}")]
    InvalidInput(String),
    /// pg_cron was requested but cannot be used in this database (WH031).
    #[error("{0}")]
    PgCronUnavailable(String),
    /// The payload is larger than the namespace allows (WH004).
    #[error("payload of {bytes} bytes is larger than the {limit} that the namespace allows")]
    PayloadTooLarge {
        /// The payload's size.
        bytes: u64,
        /// The namespace's `max_payload_bytes`.
        limit: u64,
    },
    /// The namespace does not exist (WH001).
    #[error("namespace {0:?} does not exist: create it first")]
    NamespaceNotFound(String),
    /// The database's role has no grant for this (WH015).
    #[error("{0}")]
    NotGranted(String),
    /// The database could not be reached, or it failed.
    #[error("{0}")]
    Unavailable(#[source] Fault),
}

impl ScheduleError {
    /// Whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        matches!(self, ScheduleError::Unavailable(fault) if fault.retryable)
    }

    /// The code of the error's page in `docs/errors/`.
    pub fn code(&self) -> Option<&'static str> {
        match self {
            ScheduleError::NamespaceNotFound(_) => Some("WH001"),
            ScheduleError::InvalidInput(_) => Some("WH002"),
            ScheduleError::PayloadTooLarge { .. } => Some("WH004"),
            ScheduleError::NotGranted(_) => Some("WH015"),
            ScheduleError::NotFound(_) => Some("WH030"),
            ScheduleError::PgCronUnavailable(_) => Some("WH031"),
            ScheduleError::Unavailable(_) => None,
        }
    }
}
