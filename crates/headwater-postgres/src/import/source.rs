//! Where events are imported from: tables, and what each of their columns becomes.

use serde::Serialize;

use super::texts::identifier;

/// Where an event's type comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ImportField {
    /// A column.
    Column(String),
    /// The same type for all events.
    Constant(String),
    /// A field of the data, which is a JSON object.
    DataField(String),
}

/// Tables, and what each of their columns becomes. Column names are as the database has them,
/// without quotes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ImportSource {
    /// The tables, as SQL names them (`public.events`). The rows of several tables are taken
    /// together.
    pub tables: Vec<String>,
    /// A column that is unique per row. Each event has its value in its header `source_id`.
    pub id: String,
    /// The columns that order the rows. If the id is not among them, it comes last.
    pub order_by: Vec<String>,
    /// The type of the events.
    pub event_type: ImportField,
    /// The column with the data: JSON, or text that holds JSON.
    pub data: Option<String>,
    /// If set, only this field of the data is imported.
    pub data_field: Option<String>,
    /// The column with the stream.
    pub stream: Option<String>,
    /// The column with the place in the stream, which must be kept. `version_from` says what the
    /// first one is, if not 1.
    pub version: Option<String>,
    /// The number of the first version of a stream in the source.
    pub version_from: i64,
    /// The column with the time of the event, which is kept as `created_at`. A time without a zone
    /// is UTC.
    pub time: Option<String>,
    /// The column with the key.
    pub key: Option<String>,
    /// The column with the actor.
    pub actor: Option<String>,
    /// The column with the correlation id: a UUID.
    pub correlation: Option<String>,
    /// The column with the causation id: a UUID.
    pub causation: Option<String>,
    /// The column with more headers: a JSON object.
    pub metadata: Option<String>,
    /// The column with the number that checkpoints of the old event bus use as their position. Each
    /// event has it in its header `source_sequence`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence: Option<String>,
    /// Whether to keep ids that are UUIDs. Ids that are not ordered by time cost later appends a
    /// lookup each. Without this option, new ids are created, ordered by the time.
    pub keep_ids: bool,
}

impl ImportSource {
    /// A table with columns `id`, `event_type` and `data`. Change the fields whose columns have
    /// other names.
    pub fn table(name: impl Into<String>) -> Self {
        ImportSource {
            tables: vec![name.into()],
            id: "id".into(),
            order_by: Vec::new(),
            event_type: ImportField::Column("event_type".into()),
            data: Some("data".into()),
            data_field: None,
            stream: None,
            version: None,
            version_from: 1,
            time: None,
            key: None,
            actor: None,
            correlation: None,
            causation: None,
            metadata: None,
            sequence: None,
            keep_ids: false,
        }
    }

    /// A pgmq queue: its messages and, if `archive` is set, those in its archive.
    pub fn pgmq(queue: &str, archive: bool) -> Self {
        let table = |prefix: &str| format!("pgmq.{}", identifier(&format!("{prefix}_{}", queue.to_lowercase())));
        ImportSource {
            tables: [table("q")].into_iter().chain(archive.then(|| table("a"))).collect(),
            id: "msg_id".into(),
            event_type: ImportField::Constant("Message".into()),
            data: Some("message".into()),
            time: Some("enqueued_at".into()),
            ..ImportSource::table("")
        }
    }

    /// The messages of message-db, with their streams.
    pub fn message_db() -> Self {
        ImportSource {
            id: "id".into(),
            order_by: vec!["global_position".into()],
            event_type: ImportField::Column("type".into()),
            stream: Some("stream_name".into()),
            version: Some("position".into()),
            version_from: 0,
            time: Some("time".into()),
            metadata: Some("metadata".into()),
            ..ImportSource::table("message_store.messages")
        }
    }

    /// An event table of epoch, with its streams and versions.
    pub fn epoch(table: impl Into<String>) -> Self {
        ImportSource {
            order_by: vec!["global_sequence".into()],
            stream: Some("stream_id".into()),
            version: Some("stream_version".into()),
            time: Some("created_at".into()),
            actor: Some("actor_id".into()),
            sequence: Some("global_sequence".into()),
            ..ImportSource::table(table)
        }
    }

    pub(super) fn columns(&self) -> impl Iterator<Item = &str> {
        let of_type = match &self.event_type {
            ImportField::Column(column) => Some(column),
            ImportField::Constant(_) | ImportField::DataField(_) => None,
        };
        let others = [&self.data, &self.stream, &self.version, &self.time, &self.key, &self.actor, &self.correlation];
        let others = others.into_iter().chain([&self.causation, &self.metadata, &self.sequence]).flatten();
        [&self.id].into_iter().chain(of_type).chain(&self.order_by).chain(others).map(String::as_str)
    }
}
