//! wal2json, format version 2: one JSON object per change.
//!
//! It knows only leaf tables. So this asks for all of Headwater's tables, and recognizes tables of
//! events by their names. Numbers are bare, and everything else is a string, jsonb included: each
//! value's text is what PostgreSQL printed.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::CdcError;
use crate::fields::Fields;
use crate::transactions::Change;

/// Returns the options to start it with. Version 2.5 and later know them.
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
    match message(data) {
        Ok(change) => Ok(change),
        // A database without an encoding may hold any bytes, and a text with a NUL is cut off. That
        // breaks the row, not the stream.
        Err(_) if data.starts_with(INSERT) => Ok(Change::Unreadable),
        Err(reason) => Err(CdcError::Protocol(format!("wal2json: {reason}"))),
    }
}

/// How each insert begins.
const INSERT: &[u8] = br#"{"action":"I","#;

fn message(data: &[u8]) -> Result<Change, String> {
    let message: Message<'_> = serde_json::from_slice(data).map_err(|error| error.to_string())?;
    match message.action {
        "B" => Ok(Change::Begin { xid: message.xid.ok_or("a transaction without an id")? }),
        "C" => Ok(Change::Commit { end_lsn: lsn(message.nextlsn.ok_or("a commit without a place")?)? }),
        "I" if message.table.as_deref().is_some_and(is_event_table) => {
            let mut fields = Fields::default();
            for column in message.columns {
                // A null is left out as an Option, and given as a value.
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

/// `events_202611`, which namespaces share, or `events_n12_202611`: see
/// `headwater-postgres/sql/retention/create_leaf.sql`. A month that was rewritten has a name with a
/// suffix, `events_202611_r1`: its contents are not new.
fn is_event_table(table: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let Some(rest) = table.strip_prefix("events_") else { return false };
    match rest.strip_prefix('n').and_then(|rest| rest.split_once('_')) {
        Some((namespace, month)) => digits(namespace) && digits(month),
        None => digits(rest),
    }
}

fn lsn(text: &str) -> Result<u64, String> {
    let parts = text
        .split_once('/')
        .and_then(|(high, low)| Some((u32::from_str_radix(high, 16).ok()?, u32::from_str_radix(low, 16).ok()?)));
    parts
        .map(|(high, low)| u64::from(high) << 32 | u64::from(low))
        .ok_or_else(|| format!("{text:?} is no place in the WAL"))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::fields::COLUMNS;

    /// A row, as wal2json prints it: numbers are bare, everything else is a string.
    fn insert(table: &str, columns: &[(String, Value)]) -> Bytes {
        let columns: Vec<_> =
            columns.iter().map(|(name, value)| json!({ "name": name, "value": value.json() })).collect();
        let message = json!({ "schema": "headwater", "table": table, "columns": columns });
        let rest = message.to_string();
        format!("{{\"action\":\"I\",\"xid\":7,{}", &rest[1..]).into()
    }

    #[derive(Debug, Clone)]
    enum Value {
        Null,
        Number(i64),
        Text(String),
    }

    impl Value {
        fn json(&self) -> serde_json::Value {
            match self {
                Value::Null => json!(null),
                Value::Number(number) => json!(number),
                Value::Text(text) => json!(text),
            }
        }
    }

    fn columns() -> impl Strategy<Value = Vec<(String, Value)>> {
        let name =
            prop_oneof![3 => prop::sample::select(COLUMNS.to_vec()).prop_map(String::from), 1 => any::<String>()];
        let value = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::Number),
            any::<String>().prop_map(Value::Text),
            "[\"\\\\{}:,n]{0,8}".prop_map(Value::Text),
        ];
        vec((name, value), 0..20)
    }

    proptest! {
        #[test]
        fn whatever_comes_is_an_error_or_a_change(bytes in vec(any::<u8>(), 0..300), text in any::<String>()) {
            _ = decode(&bytes.clone().into());
            _ = decode(&text.into());
            // Bytes that begin like a row of ours are at worst a row that is read from the log.
            let row = Bytes::from([INSERT, &bytes].concat());
            prop_assert!(decode(&row).is_ok());
        }

        #[test]
        fn a_message_that_is_cut_off_or_altered_is_an_error_or_a_change(columns in columns(), cut in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), to in any::<u8>()) {
            let message = insert("events_n1_202611", &columns);
            _ = decode(&message.slice(..cut.index(message.len())));
            let mut altered = message.to_vec();
            let place = at.index(altered.len());
            altered[place] = to;
            let length = altered.len();
            if let Ok(Change::Insert(fields)) = decode(&altered.into()) {
                prop_assert!(fields.bytes() <= length, "nothing is made of more than has come");
            }
        }

        #[test]
        fn what_was_sent_is_what_comes(columns in columns(), xid in any::<u32>(), high in any::<u32>(), low in any::<u32>()) {
            let mut expected = Fields::default();
            for (name, value) in &columns {
                match value {
                    Value::Null => {}
                    Value::Number(number) => expected.set(name, number.to_string()),
                    Value::Text(text) => expected.set(name, text.clone()),
                }
            }
            prop_assert_eq!(decode(&insert("events_n12_202611", &columns)).unwrap(), Change::Insert(expected));
            prop_assert_eq!(decode(&insert("streams", &columns)).unwrap(), Change::Other);
            let begin = json!({ "action": "B", "xid": xid }).to_string();
            prop_assert_eq!(decode(&begin.into()).unwrap(), Change::Begin { xid });
            let commit = json!({ "action": "C", "xid": xid, "nextlsn": format!("{high:X}/{low:X}") }).to_string();
            let end_lsn = u64::from(high) << 32 | u64::from(low);
            prop_assert_eq!(decode(&commit.into()).unwrap(), Change::Commit { end_lsn });
        }
    }

    #[test]
    fn a_row_that_cannot_be_understood_is_read_from_the_log() {
        let whole = insert("events_n1_202611", &[("key".into(), Value::Text("k".into()))]);
        assert_eq!(decode(&whole.slice(..whole.len() - 3)).unwrap(), Change::Unreadable);
        assert!(decode(&Bytes::from_static(b"{\"action\":\"B\"")).is_err());
    }

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
