//! wal2json, format version 2: one JSON object a change.
//!
//! It knows leaf tables only, so all of Headwater's are asked for, and those of events told by their columns. Numbers are bare, everything else
//! is a string, jsonb included: each value's text is what PostgreSQL printed.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::CdcError;
use crate::fields::Fields;
use crate::transactions::Change;

/// The options to start it with: known to 2.5 and later.
pub(crate) fn options() -> Vec<(&'static str, String)> {
    [
        ("format-version", "2"),
        ("include-transaction", "true"),
        ("include-lsn", "true"),
        ("include-xids", "true"),
        ("include-types", "false"),
        ("actions", "insert"),
        ("add-tables", "headwater_private.*"),
    ]
    .map(|(name, value)| (name, value.to_owned()))
    .into()
}

#[derive(Debug, Deserialize)]
struct Message<'a> {
    action: &'a str,
    xid: Option<u32>,
    #[serde(borrow)]
    nextlsn: Option<&'a str>,
    #[serde(borrow)]
    table: Option<std::borrow::Cow<'a, str>>,
    #[serde(borrow, default)]
    columns: Vec<Column<'a>>,
}

#[derive(Debug, Deserialize)]
struct Column<'a> {
    #[serde(borrow)]
    name: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    value: Option<&'a RawValue>,
}

pub(crate) fn decode(data: &Bytes) -> Result<Change, CdcError> {
    message(data).map_err(|reason| CdcError::Protocol(format!("wal2json: {reason}")))
}

fn message(data: &[u8]) -> Result<Change, String> {
    let message: Message<'_> = serde_json::from_slice(data).map_err(|error| error.to_string())?;
    match message.action {
        "B" => Ok(Change::Begin { xid: message.xid.ok_or("a transaction without an id")? }),
        "C" => Ok(Change::Commit { end_lsn: lsn(message.nextlsn.ok_or("a commit without a place")?)? }),
        "I" if message.table.as_deref().is_some_and(is_event_table) => {
            let mut fields = Fields::default();
            for column in message.columns {
                // A null is left out as an Option, and said as a value.
                let Some(value) = column.value.map(RawValue::get).filter(|value| *value != "null") else { continue };
                let text = match value.starts_with('"') {
                    true => serde_json::from_str(value).map_err(|error| error.to_string())?,
                    false => value.to_owned(),
                };
                fields.set(&column.name, text);
            }
            Ok(Change::Insert(fields))
        }
        _ => Ok(Change::Other),
    }
}

/// `events_n12_202611`: see `headwater-postgres/sql/functions/create_leaf.sql`.
fn is_event_table(table: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let parts = table.strip_prefix("events_n").and_then(|rest| rest.split_once('_'));
    parts.is_some_and(|(namespace, month)| digits(namespace) && digits(month))
}

fn lsn(text: &str) -> Result<u64, String> {
    let parts = text
        .split_once('/')
        .and_then(|(high, low)| Some((u64::from_str_radix(high, 16).ok()?, u64::from_str_radix(low, 16).ok()?)));
    parts.map(|(high, low)| high << 32 | low).ok_or_else(|| format!("{text:?} is no place in the WAL"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_of_events_are_told_from_others() {
        assert!(is_event_table("events_n1_202611"));
        for other in ["events", "events_n1", "due_events", "events_n1_x", "events_nx_202611", "streams"] {
            assert!(!is_event_table(other), "{other}");
        }
    }

    #[test]
    fn places_in_the_wal_are_read() {
        let commit = Bytes::from_static(br#"{"action":"C","xid":7,"lsn":"1/A0","nextlsn":"1/D0"}"#);
        assert_eq!(decode(&commit).unwrap(), Change::Commit { end_lsn: 0x1_0000_00D0 });
        assert!(decode(&Bytes::from_static(br#"{"action":"C","nextlsn":"D0"}"#)).is_err());
    }
}
