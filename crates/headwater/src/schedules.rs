//! The schedules of a namespace, as applications use them.

use chrono::{DateTime, FixedOffset};
use headwater_core::{Schedule, ScheduleError, ScheduleRun, Task};

use crate::Headwater;
use crate::Namespace;
use crate::Node;

impl Namespace {
    /// Schedules a task. Its event is appended once at each of its due times, by whichever node is
    /// first. A task with an existing name changes that schedule. If its times are the same, it
    /// keeps its next due time, so a program may call this at every start. Returns the schedule.
    ///
    /// ```no_run
    /// # use headwater::schedule::MissedRuns;
    /// # use headwater::{Namespace, Task};
    /// # async fn plan(shop: Namespace) -> Result<(), Box<dyn std::error::Error>> {
    /// let cleanup = Task::cron("daily-cleanup", "0 2 * * *")
    ///     .timezone("Europe/Copenhagen")
    ///     .emits("maintenance.cleanup", serde_json::json!({ "keep_days": 30 }))
    ///     .missed(MissedRuns::FireOnce);
    /// let schedule = shop.schedule_task(cleanup).await?;
    /// println!("due next at {:?}", schedule.next_due_at);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn schedule_task(&self, task: Task) -> Result<Schedule, ScheduleError> {
        self.log().schedule_task(&task).await
    }

    /// The schedules, by name.
    pub async fn schedules(&self) -> Result<Vec<Schedule>, ScheduleError> {
        self.log().schedules().await
    }

    /// The schedule with this name.
    pub async fn schedule(&self, name: &str) -> Result<Schedule, ScheduleError> {
        self.log().schedule(name).await
    }

    /// Appends a schedule's event at once, even if the schedule is paused, and returns its
    /// sequence. Later due times stay as they are.
    pub async fn run_now(&self, name: &str) -> Result<u64, ScheduleError> {
        self.log().run_schedule_now(name).await
    }

    /// Pauses a schedule: it fires nothing until it is resumed. Due times that pass meanwhile do
    /// not count as missed.
    pub async fn pause_schedule(&self, name: &str) -> Result<(), ScheduleError> {
        self.log().pause_schedule(name).await
    }

    /// Resumes a schedule: it fires again, from now on. A schedule with one due time fires at that
    /// time, or now if the time has passed.
    pub async fn resume_schedule(&self, name: &str) -> Result<(), ScheduleError> {
        self.log().resume_schedule(name).await
    }

    /// Deletes a schedule with its history. Events that it appended stay.
    pub async fn delete_schedule(&self, name: &str) -> Result<(), ScheduleError> {
        self.log().delete_schedule(name).await
    }

    /// The outcome of a schedule's due times, the last one first, at most `count`. The last 100 are
    /// kept.
    pub async fn schedule_runs(&self, name: &str, count: u32) -> Result<Vec<ScheduleRun>, ScheduleError> {
        self.log().schedule_runs(name, count).await
    }

    /// The next `count` due times of a cron expression, in local time of a time zone. Use it to
    /// check an expression before you schedule it.
    pub async fn next_runs(
        &self,
        cron: &str,
        timezone: &str,
        count: u32,
    ) -> Result<Vec<DateTime<FixedOffset>>, ScheduleError> {
        self.log().database().next_runs(cron, timezone, None, count).await
    }
}

impl Headwater {
    /// The next `count` due times of a cron expression after a moment (`None`: now), in local time
    /// of a time zone.
    pub async fn next_runs(
        &self,
        cron: &str,
        timezone: &str,
        after: Option<DateTime<chrono::Utc>>,
        count: u32,
    ) -> Result<Vec<DateTime<FixedOffset>>, ScheduleError> {
        self.database().next_runs(cron, timezone, after, count).await
    }
}

impl Node {
    /// [`Namespace::schedule_task`] in the node's namespace.
    pub async fn schedule_task(&self, task: Task) -> Result<Schedule, ScheduleError> {
        let Some(log) = self.postgres_log() else {
            return Err(ScheduleError::InvalidInput("schedules are kept in PostgreSQL: this node has none".into()));
        };
        log.schedule_task(&task).await
    }
}
