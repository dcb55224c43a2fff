//! Schedules as people read them.

use chrono::{DateTime, FixedOffset};
use headwater::schedule::{MissedRuns, Schedule};

use crate::output::printable;

/// A time as the clocks of its zone show it.
pub(super) fn time(time: &DateTime<FixedOffset>) -> String {
    time.format("%F %T %:z").to_string()
}

/// When it is due.
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

/// What is due next, in a few words.
pub(super) fn next(schedule: &Schedule) -> String {
    schedule.next_due_at.as_ref().map_or_else(|| "never".into(), time)
}
