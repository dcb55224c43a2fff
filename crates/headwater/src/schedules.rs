//! Schedules of a namespace, as applications use them.

use chrono::{DateTime, FixedOffset};
use headwater_core::{Schedule, ScheduleError, ScheduleRun, Task};

use crate::{Headwater, Namespace, Node};

impl Namespace {
    /// Schedules a task: its event is appended at each of its due times, once, by whichever node is first. A task of the same name is
    /// changed; with the same times it keeps what is due, so a program may do this at every start. Says how the schedule is now.
    ///
    /// ```no_run
    /// # use headwater::{MissedRuns, Namespace, Task};
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

    /// One of them.
    pub async fn schedule(&self, name: &str) -> Result<Schedule, ScheduleError> {
        self.log().schedule(name).await
    }

    /// Appends a schedule's event at once, paused or not, and says which sequence it got. What is due later is not changed by it.
    pub async fn run_now(&self, name: &str) -> Result<u64, ScheduleError> {
        self.log().run_schedule_now(name).await
    }

    /// Fires nothing of it until it is resumed. What is due meanwhile is not missed.
    pub async fn pause_schedule(&self, name: &str) -> Result<(), ScheduleError> {
        self.log().pause_schedule(name).await
    }

    /// Fires it again, from now on. One that is due once is due at its time, or now if that has passed.
    pub async fn resume_schedule(&self, name: &str) -> Result<(), ScheduleError> {
        self.log().resume_schedule(name).await
    }

    /// Removes it, with its history. Events that it appended stay.
    pub async fn delete_schedule(&self, name: &str) -> Result<(), ScheduleError> {
        self.log().delete_schedule(name).await
    }

    /// What became of its due times, the last one first, at most `count`. The last 100 are kept.
    pub async fn schedule_runs(&self, name: &str, count: u32) -> Result<Vec<ScheduleRun>, ScheduleError> {
        self.log().schedule_runs(name, count).await
    }

    /// The next `count` due times of a cron expression, as the clocks of a time zone show them, to look at before it is scheduled.
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
    /// The next `count` due times of a cron expression after a moment (`None`: now), as the clocks of a time zone show them.
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
