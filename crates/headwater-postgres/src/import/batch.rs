//! A page of the source, as events.

use chrono::{DateTime, Utc};
use headwater_core::{Append, Appended, Event, Json, StreamId, headers};
use sha2::{Digest, Sha256};
use sqlx::Row;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::ImportError;

#[derive(Default)]
pub(super) struct Batch {
    events: Vec<Imported>,
    /// The cursor of the last row, if rows were read in their order.
    pub(super) cursor: Option<Vec<String>>,
    /// The notes of the rows, if rows were found by their notes.
    pub(super) notes: Vec<i64>,
    /// How many bytes the data has.
    bytes: usize,
}

pub(super) struct Imported {
    id: String,
    event: Event,
    /// The version in its stream that the source gives.
    version: Option<i64>,
}

/// Converts a row of the page to an event of this import.
pub(super) fn imported(row: &PgRow, import: &str, keep_ids: bool) -> Result<(Imported, Vec<String>), ImportError> {
    let get = || -> Result<_, sqlx::Error> {
        Ok((
            row.try_get::<Option<String>, _>("id")?,
            row.try_get::<Option<String>, _>("event_type")?,
            row.try_get::<Option<String>, _>("data")?,
            row.try_get::<Option<DateTime<Utc>>, _>("created_at")?,
            row.try_get::<Option<String>, _>("metadata")?,
            row.try_get::<Vec<Option<String>>, _>("cursor")?,
        ))
    };
    let (id, event_type, data, created_at, metadata, cursor) = get().map_err(ImportError::source)?;
    let id = id.ok_or_else(|| ImportError::Row { id: String::new(), reason: "its id is NULL".into() })?;
    let refused = |reason: String| ImportError::Row { id: id.clone(), reason };
    let event_type = event_type.ok_or_else(|| refused("its event type is NULL".into()))?;
    let cursor: Option<Vec<String>> = cursor.into_iter().collect();
    let cursor = cursor.ok_or_else(|| refused("a column by which rows are ordered is NULL".into()))?;
    let data = data.map_or_else(|| Ok(Json::null()), Json::parse).map_err(|error| refused(error.to_string()))?;
    let mut event = Event::raw(event_type, data);
    event.id = event_id(import, &id, created_at, keep_ids)
        .ok_or_else(|| refused("its id is no UUID, so that it cannot be kept".into()))?;
    if let Some(created_at) = created_at {
        event.created_at = created_at;
    }
    let mut get = || -> Result<_, sqlx::Error> {
        event.stream_id = row.try_get::<Option<String>, _>("stream_id")?.map(StreamId::from);
        event.key = row.try_get("key")?;
        event.actor_id = row.try_get("actor_id")?;
        event.correlation_id = row.try_get("correlation_id")?;
        event.causation_id = row.try_get("causation_id")?;
        Ok((row.try_get::<Option<i64>, _>("version")?, row.try_get::<Option<i64>, _>("sequence")?))
    };
    let (version, sequence) = get().map_err(ImportError::source)?;
    event.headers.extend(metadata.map(|text| as_headers(&text)).transpose().map_err(refused)?.unwrap_or_default());
    event.headers.insert("import".into(), import.into());
    event.headers.insert("source_id".into(), id.clone());
    if let Some(sequence) = sequence {
        event.headers.insert("source_sequence".into(), sequence.to_string());
    }
    Ok((Imported { id, event, version }, cursor))
}

/// Converts metadata to headers. Headers are strings: a value that is not a string is written as
/// JSON, and also stands with its type in the header `metadata`.
fn as_headers(metadata: &str) -> Result<Vec<(String, String)>, String> {
    let values: Option<serde_json::Map<String, serde_json::Value>> =
        serde_json::from_str(metadata).map_err(|_| "its metadata is no JSON object".to_owned())?;
    let values = values.unwrap_or_default();
    let typed: serde_json::Map<_, _> = values.clone().into_iter().filter(|(_, value)| !value.is_string()).collect();
    let entries = values.into_iter().filter(|(_, value)| !value.is_null());
    let texts = entries.map(|(name, value)| match value {
        serde_json::Value::String(text) => (name, text),
        value => (name, value.to_string()),
    });
    let typed =
        (!typed.is_empty()).then(|| (headers::METADATA.to_owned(), serde_json::Value::Object(typed).to_string()));
    Ok(texts.chain(typed).collect())
}

/// Returns the id of a row's event; `None`: the row's own id cannot be kept.
pub(super) fn event_id(import: &str, id: &str, created_at: Option<DateTime<Utc>>, keep: bool) -> Option<Uuid> {
    if keep { Uuid::parse_str(id).ok() } else { Some(derived_id(import, id, created_at)) }
}

/// The id is the same each time, so that no row is stored twice. It is ordered by time, like all
/// ids that the log creates: so past months are known not to hold new ids.
fn derived_id(import: &str, id: &str, created_at: Option<DateTime<Utc>>) -> Uuid {
    let hash = Sha256::new().chain_update(import).chain_update([0]).chain_update(id).finalize();
    let mut bytes = [0; 10];
    bytes.copy_from_slice(&hash[..10]);
    let millis = created_at.and_then(|time| u64::try_from(time.timestamp_millis()).ok()).unwrap_or_default();
    uuid::Builder::from_unix_timestamp_millis(millis, &bytes).into_uuid()
}

impl Batch {
    pub(super) fn add(&mut self, event: Imported) {
        self.bytes += event.event.data_text().len();
        self.events.push(event);
    }

    /// Payloads may be large: a batch ends when it has 8 MiB of them.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= 8 * 1024 * 1024
    }

    pub(super) fn len(&self) -> usize {
        self.events.len()
    }

    pub(super) fn events(&self) -> Append {
        self.events.iter().fold(Append::new(), |append, imported| append.event(imported.event.clone()))
    }

    pub(super) fn first_id(&self) -> String {
        self.events.first().map(|imported| imported.id.clone()).unwrap_or_default()
    }

    /// Checks the versions that the source gives: events must get the same ones.
    pub(super) fn check_versions(&self, appended: &Appended) -> Result<(), ImportError> {
        for (imported, placed) in self.events.iter().zip(&appended.events) {
            let (Some(expected), Some(got)) = (imported.version, placed.stream_version) else { continue };
            if u64::try_from(expected) != Ok(got) {
                let stream = imported.event.stream_id.as_deref().unwrap_or_default();
                let reason = format!("it is version {expected} of stream {stream:?}, and would become version {got}");
                return Err(ImportError::Row { id: imported.id.clone(), reason });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_the_same_each_time_and_ordered_by_time() {
        let at = |millis| DateTime::from_timestamp_millis(millis);
        assert_eq!(derived_id("a", "1", at(1)), derived_id("a", "1", at(1)));
        assert_ne!(derived_id("a", "1", at(1)), derived_id("b", "1", at(1)));
        assert!(derived_id("a", "1", at(1)) < derived_id("a", "0", at(2)));
        assert!(derived_id("a", "1", None) < derived_id("a", "1", at(1_700_000_000_000)));
        assert_eq!(derived_id("a", "1", at(5)).get_version_num(), 7);
    }

    #[test]
    fn metadata_becomes_strings() {
        let got = as_headers(r#"{"a": "x", "b": 1, "c": {"d": null}, "e": null}"#).unwrap();
        let got: Vec<_> = got.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(
            got,
            [("a", "x"), ("b", "1"), ("c", r#"{"d":null}"#), ("metadata", r#"{"b":1,"c":{"d":null},"e":null}"#)]
        );
        assert_eq!(as_headers("null").unwrap(), []);
        assert!(as_headers("[1]").is_err());
    }
}
