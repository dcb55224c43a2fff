//! Builds an event from the texts of a row's columns: field for field what a read of the log gives
//! (`headwater-postgres/src/log/row.rs`).

use std::collections::BTreeMap;

use chrono::{DateTime, NaiveDate, NaiveTime, Utc};
use headwater_core::{Event, Json, RecordedEvent, Sequence, StreamId};

/// A row of an event table, each column as text. Unknown columns are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fields {
    columns: BTreeMap<&'static str, String>,
    /// What is wrong with a column: then the row is not an event.
    broken: Option<String>,
}

/// The columns that make an event, and the column that names its namespace.
pub(crate) const COLUMNS: [&str; 16] = [
    "global_sequence",
    "stream_version",
    "transaction_id",
    "created_at",
    "recorded_at",
    "namespace_id",
    "schema_version",
    "event_id",
    "correlation_id",
    "causation_id",
    "event_type",
    "stream_id",
    "key",
    "actor_id",
    "headers",
    "data",
];

impl Fields {
    /// Stores a column that is not NULL.
    pub(crate) fn set(&mut self, column: &str, text: String) {
        if let Some(known) = COLUMNS.iter().find(|known| **known == column) {
            self.columns.insert(known, text);
        }
    }

    /// Stores that a column's value is not text.
    pub(crate) fn set_broken(&mut self, column: &str, error: impl std::fmt::Display) {
        if COLUMNS.contains(&column) {
            self.broken.get_or_insert_with(|| format!("{column}: {error}"));
        }
    }

    fn get(&self, column: &'static str) -> Option<&str> {
        self.columns.get(column).map(String::as_str)
    }

    /// Returns the row's place in its log, if that is readable.
    pub(crate) fn global_sequence(&self) -> Option<u64> {
        self.sequence("global_sequence").ok().flatten()
    }

    pub(crate) fn namespace_id(&self) -> Option<i32> {
        self.get("namespace_id")?.parse().ok()
    }

    /// Returns the bytes of all texts.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.columns.values().map(String::len).sum()
    }

    /// Returns the event, or which column is wrong.
    pub(crate) fn into_event(mut self) -> Result<RecordedEvent, String> {
        if let Some(broken) = self.broken {
            return Err(broken);
        }
        let data = self.columns.remove("data").ok_or("there is no data")?;
        let headers = match self.columns.remove("headers") {
            Some(headers) => Json::from_trusted(headers).decode().map_err(|error| format!("headers: {error}"))?,
            None => BTreeMap::new(),
        };
        let event = Event {
            global_sequence: Some(required(self.sequence("global_sequence")?, "global_sequence")?),
            id: required(self.parse("event_id")?, "event_id")?,
            stream_version: self.sequence("stream_version")?,
            schema_version: required(self.parse("schema_version")?, "schema_version")?,
            correlation_id: self.parse("correlation_id")?,
            causation_id: self.parse("causation_id")?,
            created_at: required(self.time("created_at")?, "created_at")?,
            recorded_at: Some(required(self.time("recorded_at")?, "recorded_at")?),
            transaction_id: Some(required(self.sequence("transaction_id")?, "transaction_id")?),
            stream_id: self.columns.remove("stream_id").map(StreamId::from),
            event_type: required(self.columns.remove("event_type"), "event_type")?,
            data: (data != "null").then(|| Json::from_trusted(data)),
            key: self.columns.remove("key"),
            actor_id: self.columns.remove("actor_id"),
            headers,
        };
        RecordedEvent::new(event).map_err(|error| error.to_string())
    }

    fn parse<T: std::str::FromStr<Err: std::fmt::Display>>(&self, column: &'static str) -> Result<Option<T>, String> {
        self.get(column).map(|text| text.parse().map_err(|error| format!("{column} {text:?}: {error}"))).transpose()
    }

    fn sequence(&self, column: &'static str) -> Result<Option<u64>, String> {
        let number: Option<i64> = self.parse(column)?;
        let sequence = number.map(Sequence::try_from).transpose().map_err(|error| format!("{column}: {error}"))?;
        Ok(sequence.map(u64::from))
    }

    fn time(&self, column: &'static str) -> Result<Option<DateTime<Utc>>, String> {
        let time = |text: &str| timestamptz(text).ok_or_else(|| format!("{column} {text:?} is no time"));
        self.get(column).map(time).transpose()
    }
}

fn required<T>(value: Option<T>, column: &str) -> Result<T, String> {
    value.ok_or_else(|| format!("there is no {column}"))
}

/// Parses `2026-11-15 18:00:43.123456+00`, with years of any length and ` BC` at the end: DateStyle
/// ISO in UTC.
fn timestamptz(text: &str) -> Option<DateTime<Utc>> {
    let (text, before_christ) = match text.strip_suffix(" BC") {
        Some(text) => (text, true),
        None => (text, false),
    };
    let (date, time) = text.strip_suffix("+00")?.split_once(' ')?;
    let mut parts = date.split('-');
    let year: i32 = parts.next()?.parse().ok()?;
    let (month, day) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let year = if before_christ { 1 - year } else { year };
    let date = NaiveDate::from_ymd_opt(year, month, day)?;
    let time = NaiveTime::parse_from_str(time, "%H:%M:%S%.f").ok()?;
    Some(date.and_time(time).and_utc())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_the_server_writes_them() {
        let cases = [
            ("2026-11-15 18:00:43.123456+00", "2026-11-15T18:00:43.123456Z"),
            ("2026-11-15 18:00:43+00", "2026-11-15T18:00:43Z"),
            ("10001-01-02 00:00:00.5+00", "+10001-01-02T00:00:00.500Z"),
            ("0044-03-15 12:00:00+00 BC", "-0043-03-15T12:00:00Z"),
        ];
        for (text, expected) in cases {
            let time = timestamptz(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(time.to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true), expected);
        }
        assert_eq!(timestamptz("infinity"), None);
        assert_eq!(timestamptz("2026-11-15 18:00:43+02"), None, "the session is in UTC");
    }

    #[test]
    fn what_cannot_be_an_event_says_which_column() {
        let mut fields = Fields::default();
        fields.set("global_sequence", "7".into());
        fields.set("data", "{}".into());
        fields.set("headers", "[1]".into());
        fields.set("unknown", "x".into());
        assert_eq!(fields.global_sequence(), Some(7));
        assert!(fields.clone().into_event().unwrap_err().starts_with("headers"));
        fields.set("headers", "{}".into());
        assert_eq!(fields.into_event().unwrap_err(), "there is no event_id");
    }
}
