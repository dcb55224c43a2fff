//! Schedules: cron rules, and single due times, that append events.

use chrono::{DateTime, FixedOffset, TimeZone, Utc};
use serde::Serialize;
use uuid::Uuid;

use crate::{Fault, Json, StreamId};

/// What becomes of due times that nobody fired within two minutes, since no node ran or the database was away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MissedRuns {
    /// The last of them is fired, unless one that is on time follows at once.
    #[default]
    FireOnce,
    /// The last ones are fired, each with its own due time.
    FireAll {
        /// How many: 1 to 1,000. Those before are skipped.
        limit: u32,
    },
    /// None is fired.
    Skip,
}

/// What to schedule: a name, when it is due, and the event that it appends then.
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
    /// Names it in its namespace: scheduled again, it is changed.
    pub name: String,
    /// Five fields, or six with seconds in front, or `@daily` and its kin; `None`: it is due once.
    pub cron: Option<String>,
    /// When one without a cron expression is due.
    pub due_at: Option<DateTime<Utc>>,
    /// Whose clocks the cron expression means.
    pub timezone: String,
    /// The type of the event.
    pub event_type: String,
    /// The data of the event.
    pub payload: Json,
    /// The stream that the event goes to, whatever its version.
    pub stream_id: Option<StreamId>,
    /// The key of the event.
    pub key: Option<String>,
    /// No due time before this.
    pub starts_at: Option<DateTime<Utc>>,
    /// No due time after this.
    pub ends_at: Option<DateTime<Utc>>,
    /// What becomes of due times that nobody fired.
    pub missed: MissedRuns,
    /// Whether it fires; `None`: as it is, and a new one does.
    pub active: Option<bool>,
    /// Whether pg_cron triggers it too.
    pub pg_cron: bool,
}

impl Task {
    /// Due by a cron expression, in UTC unless told otherwise.
    pub fn cron(name: impl Into<String>, expression: impl Into<String>) -> Self {
        Task { cron: Some(expression.into()), ..Task::new(name.into()) }
    }

    /// Due once.
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

    /// The event: its type and data. Without it, a task cannot be scheduled.
    pub fn emits(mut self, event_type: impl Into<String>, payload: impl Into<Json>) -> Self {
        self.event_type = event_type.into();
        self.payload = payload.into();
        self
    }

    /// The cron expression is that of the clocks of this time zone, as `Europe/Copenhagen`. When they are changed, a fixed time that is
    /// skipped is due right after, and one that comes twice is due once; times of a wildcard or a step follow the clocks.
    pub fn timezone(mut self, name: impl Into<String>) -> Self {
        self.timezone = name.into();
        self
    }

    /// Appends to this stream, whatever its version is then.
    pub fn stream(mut self, stream_id: impl Into<StreamId>) -> Self {
        self.stream_id = Some(stream_id.into());
        self
    }

    /// Gives the event this key.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// No due time before this.
    pub fn starts_at<Z: TimeZone>(mut self, at: DateTime<Z>) -> Self {
        self.starts_at = Some(at.to_utc());
        self
    }

    /// No due time after this.
    pub fn ends_at<Z: TimeZone>(mut self, at: DateTime<Z>) -> Self {
        self.ends_at = Some(at.to_utc());
        self
    }

    /// What becomes of due times that nobody fired within two minutes (default: [`MissedRuns::FireOnce`]).
    pub fn missed(mut self, missed: MissedRuns) -> Self {
        self.missed = missed;
        self
    }

    /// Does not fire until it is resumed. Without this, scheduling again changes nothing about whether it fires: what an operator
    /// paused stays so.
    pub fn paused(mut self) -> Self {
        self.active = Some(false);
        self
    }

    /// pg_cron triggers it too, so that it fires while no node is up. Needs the extension in this database.
    pub fn with_pg_cron(mut self) -> Self {
        self.pg_cron = true;
        self
    }
}

/// What a schedule does at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleState {
    /// It fires when it is due.
    Active,
    /// It fires nothing until it is resumed.
    Paused,
    /// Its event cannot be appended: tried again by itself.
    Failing,
    /// It is never due again.
    Ended,
}

impl ScheduleState {
    /// Its name in the database and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            ScheduleState::Active => "active",
            ScheduleState::Paused => "paused",
            ScheduleState::Failing => "failing",
            ScheduleState::Ended => "ended",
        }
    }
}

/// A schedule as it is. Its due times are as the clocks of its time zone show them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Schedule {
    /// Its name.
    pub name: String,
    /// Its id, which stays: header `scheduled_task_id` of its events.
    pub task_id: Uuid,
    /// What it does.
    pub state: ScheduleState,
    /// The cron expression; `None`: it is due once.
    pub cron: Option<String>,
    /// When one without a cron expression is due.
    pub due_at: Option<DateTime<Utc>>,
    /// Whose clocks the cron expression means.
    pub timezone: String,
    /// The type of the event.
    pub event_type: String,
    /// The data of the event.
    pub payload: Json,
    /// The stream that the event goes to.
    pub stream_id: Option<StreamId>,
    /// The key of the event.
    pub key: Option<String>,
    /// No due time before this.
    pub starts_at: Option<DateTime<Utc>>,
    /// No due time after this.
    pub ends_at: Option<DateTime<Utc>>,
    /// What becomes of due times that nobody fired.
    pub missed: MissedRuns,
    /// Whether pg_cron triggers it too.
    pub pg_cron: bool,
    /// pg_cron's number for it.
    pub job_id: Option<i64>,
    /// When it is due next; `None`: never again.
    pub next_due_at: Option<DateTime<FixedOffset>>,
    /// The last due time that was fired.
    pub last_due_at: Option<DateTime<FixedOffset>>,
    /// How often the event of the next due time could not be appended.
    pub failures: u32,
    /// Why, the last time.
    pub error: Option<String>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was changed, paused or resumed.
    pub updated_at: DateTime<Utc>,
}

/// What became of a due time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// The event was appended.
    Fired,
    /// It was missed, and no event was appended.
    Skipped,
    /// Somebody ran it by hand.
    Manual,
    /// The event could not be appended: tried again.
    Failed,
}

impl RunOutcome {
    /// Its name in the database and on the command line.
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
    /// When it was due; of several that were skipped, the first.
    pub due_at: DateTime<FixedOffset>,
    /// What became of it.
    pub outcome: RunOutcome,
    /// When that was.
    pub ran_at: DateTime<Utc>,
    /// Its event's id: the same at every try. `None`: it was skipped.
    pub event_id: Option<Uuid>,
    /// Its event's place in the log.
    pub global_sequence: Option<u64>,
    /// The last due time that was skipped with it.
    pub skipped_until: Option<DateTime<Utc>>,
    /// How often it was tried.
    pub attempts: u32,
    /// Why the event could not be appended.
    pub error: Option<String>,
}

/// Why something could not be done with a schedule.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// There is no schedule of this name (WH030).
    #[error("schedule {0:?} does not exist")]
    NotFound(String),
    /// A cron expression, time zone, name or value that cannot be (WH002).
    #[error("{0}")]
    InvalidInput(String),
    /// pg_cron is wanted, and cannot be used in this database (WH031).
    #[error("{0}")]
    PgCronUnavailable(String),
    /// The payload is larger than the namespace allows (WH004).
    #[error("payload of {bytes} bytes is larger than the {limit} that the namespace allows")]
    PayloadTooLarge {
        /// Its size.
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
    /// The database could not be reached, or failed.
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
