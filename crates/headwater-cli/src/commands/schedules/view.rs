//! How schedules are shown to people.

use chrono::{DateTime, FixedOffset};
use headwater::schedule::{MissedRuns, Schedule};

use crate::output::printable;

/// A time in its time zone.
pub(super) fn time(time: &DateTime<FixedOffset>) -> String {
    time.format("%F %T %:z").to_string()
}

/// The rule by which the schedule is due.
pub(super) fn rule(schedule: &Schedule) -> String {
    match (&schedule.cron, &schedule.due_at) {
        (Some(cron), _) => printable(cron),
        (None, Some(due_at)) => format!("once at {}", due_at.format("%F %T UTC")),
        (None, None) => String::new(),
    }
}

pub(super) fn missed(missed: MissedRuns) -> String {
    match missed {
        MissedRuns::FireOnce => "fire the last".into(),
        MissedRuns::FireAll { limit } => format!("fire all, the last {limit} at most"),
        MissedRuns::Skip => "skip".into(),
    }
}

/// When the schedule is due next.
pub(super) fn next(schedule: &Schedule) -> String {
    schedule.next_due_at.as_ref().map_or_else(|| "never".into(), time)
}
