//! Which months a read of the log needs. Everything about a sealed month stays true forever, except
//! how many events it has, because it may be trimmed. So the knowledge is kept, and looked up now
//! and then. A bound that depends on the number of events is checked against what the read found
//! ([`Bounds::holds`]). Other old knowledge only makes a read open a leaf that it does not need.
//! `log_bounds.sql` decides the same.

use chrono::{DateTime, Utc};
use headwater_core::ReadError;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use crate::database::error::read_error;
use crate::database::number::{count, sequence};
use crate::sql;

/// A month to which nothing is added any more.
#[derive(Debug, Clone, PartialEq)]
struct Month {
    ends_at: DateTime<Utc>,
    high_sequence: u64,
    complete_to: u64,
    page_events: u64,
    trimmed: bool,
}

/// The sealed months of a namespace, oldest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Months {
    kept_from: Option<DateTime<Utc>>,
    /// Everything at or below is trimmed.
    pub(crate) trimmed_to: u64,
    months: Vec<Month>,
}

/// When the events that a read may need were recorded: at or after `from`, and before `until`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bounds {
    pub(crate) from: Option<DateTime<Utc>>,
    pub(crate) until: Option<DateTime<Utc>>,
    /// Up to this sequence, everything was recorded before `until`. `None`: so was everything that
    /// the read asks for.
    complete_to: Option<u64>,
}

impl Bounds {
    /// Returns whether a page is what a read without these bounds would have found. `full`: it has
    /// as many events as were asked for. `last`: its last event.
    pub(crate) fn holds(&self, full: bool, last: Option<u64>) -> bool {
        self.complete_to.is_none_or(|complete_to| full && last.is_some_and(|last| last <= complete_to))
    }

    /// Returns the same bounds without an end.
    pub(crate) fn without_end(self) -> Self {
        Bounds { until: None, complete_to: None, ..self }
    }
}

/// Reads the month of a row; `None`: nothing is sealed yet.
fn month(row: &PgRow) -> Result<Option<Month>, sqlx::Error> {
    let Some(ends_at) = row.try_get("ends_at")? else { return Ok(None) };
    Ok(Some(Month {
        ends_at,
        high_sequence: sequence(row, "high_sequence")?,
        complete_to: sequence(row, "complete_to")?,
        page_events: count(row, "page_events")?.into(),
        trimmed: row.try_get("trimmed")?,
    }))
}

impl Months {
    pub(crate) async fn load(conn: &mut PgConnection, namespace_id: i32) -> Result<Self, ReadError> {
        let rows =
            sqlx::query(sql::retention::MONTH_BOUNDS).bind(namespace_id).fetch_all(conn).await.map_err(read_error)?;
        let Some(first) = rows.first() else { return Ok(Months::default()) };
        let trimmed_to = sequence(first, "trimmed_to").map_err(read_error)?;
        let sealed = rows.iter().filter_map(|row| month(row).transpose()).collect::<Result<_, _>>();
        let kept_from = first.try_get("kept_from").map_err(read_error)?;
        Ok(Months { kept_from, trimmed_to, months: sealed.map_err(read_error)? })
    }

    /// Returns the bounds of a read after a sequence, up to another, of the first `max_events`
    /// there (`None`: all).
    pub(crate) fn forwards(&self, after: u64, up_to: Option<u64>, max_events: Option<u64>) -> Bounds {
        let needed = self.months.iter().filter(|month| month.complete_to >= after && !month.trimmed);
        // The start of the read may lie inside the first month, so its events do not count.
        let mut ahead = 0;
        let last = needed.enumerate().find(|(at, month)| {
            ahead += if *at > 0 { month.page_events } else { 0 };
            up_to.is_some_and(|up_to| month.complete_to >= up_to) || max_events.is_some_and(|events| ahead >= events)
        });
        let last = last.map(|(_, month)| month);
        let counted = last.filter(|month| up_to.is_none_or(|up_to| month.complete_to < up_to));
        Bounds {
            from: self.from(after),
            until: last.map(|month| month.ends_at),
            complete_to: counted.map(|month| month.complete_to),
        }
    }

    /// Returns the bounds of a read from a sequence down to just above another, of the last
    /// `max_events` there (`None`: all).
    pub(crate) fn backwards(&self, down_from: u64, above: u64, max_events: Option<u64>) -> Bounds {
        let until = self.months.iter().find(|month| month.complete_to >= down_from).map(|month| month.ends_at);
        let mut enough = None;
        let mut events = 0;
        for month in self.months.iter().rev().filter(|month| month.complete_to <= down_from && !month.trimmed) {
            if max_events.is_some_and(|most| events >= most) {
                enough = Some(month.complete_to);
                break;
            }
            events += month.page_events;
        }
        // Months are trimmed from the oldest on: if one of these was trimmed, so were all before
        // it.
        let from = self.from(enough.map_or(above, |complete_to| complete_to.max(above)));
        Bounds { from, until, complete_to: None }
    }

    /// Returns whether no month is sealed.
    pub(crate) fn is_empty(&self) -> bool {
        self.months.is_empty()
    }

    fn from(&self, after: u64) -> Option<DateTime<Utc>> {
        let passed = self.months.iter().rev().find(|month| month.high_sequence <= after).map(|month| month.ends_at);
        passed.max(self.kept_from)
    }
}
