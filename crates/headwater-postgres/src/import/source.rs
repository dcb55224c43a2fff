//! Where events are imported from: tables, and which of their columns become what.

use std::collections::HashMap;

use futures::TryStreamExt;
use serde::Serialize;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Row};

use super::batch::{Batch, imported};
use super::{ImportError, ImportOptions};
use crate::number::sequence;
use crate::sql;

/// A batch of more is cut: payloads may be large.
const BATCH_BYTES: usize = 8 * 1024 * 1024;

/// Where an event's type is from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ImportField {
    /// A column.
    Column(String),
    /// The same for all.
    Constant(String),
    /// A field of the data, which is a JSON object.
    DataField(String),
}

/// Tables, and which of their columns become what. Column names are as the database has them, without quotes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ImportSource {
    /// The tables, as SQL names them (`public.events`); the rows of several are taken together.
    pub tables: Vec<String>,
    /// A column that tells rows apart. Each event has it as its header `source_id`.
    pub id: String,
    /// The columns that order the rows. The id comes last, if it is not among them.
    pub order_by: Vec<String>,
    /// The type of the events.
    pub event_type: ImportField,
    /// The data: a column of JSON, or of text that holds JSON.
    pub data: Option<String>,
    /// Only this field of the data.
    pub data_field: Option<String>,
    /// The stream.
    pub stream: Option<String>,
    /// The place in the stream, which must be kept; with `version_from`, the first is not 1.
    pub version: Option<String>,
    /// What the first version of a stream is called in the source.
    pub version_from: i64,
    /// When the event happened, which is kept as `created_at`. A time without a zone is UTC.
    pub time: Option<String>,
    /// The key.
    pub key: Option<String>,
    /// The actor.
    pub actor: Option<String>,
    /// The correlation: a UUID.
    pub correlation: Option<String>,
    /// The causation: a UUID.
    pub causation: Option<String>,
    /// More headers: a column with a JSON object.
    pub metadata: Option<String>,
    /// Keeps ids that are UUIDs. Ids that are not ordered by time cost later appends a lookup each, so without this new ones are made, ordered by the time.
    pub keep_ids: bool,
}

impl ImportSource {
    /// A table with columns `id`, `event_type` and `data`. Change what is called otherwise.
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
            keep_ids: false,
        }
    }

    /// A queue of pgmq's: the messages that are in it and, if asked for, those in its archive.
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

    fn columns(&self) -> impl Iterator<Item = &str> {
        let of_type = match &self.event_type {
            ImportField::Column(column) => Some(column),
            ImportField::Constant(_) | ImportField::DataField(_) => None,
        };
        let others = [&self.data, &self.stream, &self.version, &self.time, &self.key, &self.actor, &self.correlation];
        let others = others.into_iter().chain([&self.causation, &self.metadata]).flatten();
        [&self.id].into_iter().chain(of_type).chain(&self.order_by).chain(others).map(String::as_str)
    }
}

/// The texts that read a source, made once.
pub(super) struct Reader {
    first_page: String,
    next_page: String,
    checksum: String,
    keep_ids: bool,
    /// Rows that it has, about.
    pub(super) estimate: u64,
}

impl Reader {
    pub(super) async fn new(conn: &mut PgConnection, options: &ImportOptions) -> Result<Self, ImportError> {
        let source = &options.source;
        let (mut tables, mut types, mut estimate) = (Vec::new(), HashMap::new(), 0);
        for table in &source.tables {
            let rows = sqlx::query(sql::IMPORT_COLUMNS)
                .bind(table)
                .fetch_all(&mut *conn)
                .await
                .map_err(ImportError::source)?;
            let Some(first) = rows.first() else {
                return Err(ImportError::Invalid(format!("there is no table {table:?} in the source")));
            };
            tables.push(first.get::<String, _>("table_name"));
            estimate += sequence(first, "estimate").map_err(ImportError::source)?;
            types = rows.iter().map(|row| (row.get::<String, _>("name"), row.get::<String, _>("type"))).collect();
            if let Some(missing) = source.columns().find(|column| !types.contains_key(*column)) {
                let mut there: Vec<_> = types.keys().map(String::as_str).collect();
                there.sort_unstable();
                return Err(ImportError::Invalid(format!(
                    "table {table:?} has no column {missing:?}: it has {}",
                    there.join(", ")
                )));
            }
        }
        let texts = Texts { source, tables: &tables, types: &types };
        Ok(Reader {
            first_page: texts.page("true", options.batch),
            next_page: texts.page(&texts.after(), options.batch),
            checksum: texts.fill(sql::IMPORT_SOURCE_CHECKSUM),
            keep_ids: source.keep_ids,
            estimate,
        })
    }

    /// The rows after a cursor; `None`: there are no more.
    pub(super) async fn page(
        &self,
        conn: &mut PgConnection,
        cursor: Option<&[String]>,
        import: &str,
    ) -> Result<Option<Batch>, ImportError> {
        let text = if cursor.is_some() { &self.next_page } else { &self.first_page };
        let query = sqlx::query(AssertSqlSafe(text.clone()));
        let query = if let Some(cursor) = cursor { query.bind(cursor) } else { query };
        let mut rows = query.fetch(conn);
        let (mut events, mut last, mut bytes) = (Vec::new(), None, 0);
        while let Some(row) = rows.try_next().await.map_err(ImportError::source)? {
            let (event, cursor) = imported(&row, import, self.keep_ids)?;
            bytes += event.bytes();
            events.push(event);
            last = Some(cursor);
            if bytes >= BATCH_BYTES {
                break;
            }
        }
        Ok(last.map(|cursor| Batch { events, cursor }))
    }

    /// How many rows there are, and the sum of their hashes.
    pub(super) async fn checksum(&self, conn: &mut PgConnection) -> Result<(u64, String), ImportError> {
        let query = sqlx::query(AssertSqlSafe(self.checksum.clone()));
        let row = query.fetch_one(conn).await.map_err(ImportError::source)?;
        if row.get::<i64, _>("unordered") > 0 {
            let reason = "a column by which rows are ordered is NULL".into();
            return Err(ImportError::Row { id: String::new(), reason });
        }
        Ok((sequence(&row, "events").map_err(ImportError::source)?, row.get("checksum")))
    }
}

/// Fills the templates in `sql/import/`. All that is put in is an identifier or a constant, quoted, or a type that the database named.
struct Texts<'a> {
    source: &'a ImportSource,
    tables: &'a [String],
    types: &'a HashMap<String, String>,
}

impl Texts<'_> {
    fn page(&self, after: &str, limit: u32) -> String {
        self.fill(sql::IMPORT_PAGE).replace("{after}", after).replace("{limit}", &limit.to_string())
    }

    fn fill(&self, template: &str) -> String {
        let source = self.source;
        let order: Vec<String> = self.order().map(of_source).collect();
        let text = |column: &Option<String>| {
            column.as_deref().map_or("NULL::text".into(), |c| format!("{}::text", of_source(c)))
        };
        let uuid = |column: &Option<String>| {
            column.as_deref().map_or("NULL::uuid".into(), |c| format!("{}::text::uuid", of_source(c)))
        };
        let version = source
            .version
            .as_deref()
            .map(|column| format!("{}::bigint + {}", of_source(column), 1 - source.version_from));
        let unordered: Vec<String> = order.iter().map(|column| format!("{column} IS NULL")).collect();
        let texts: Vec<String> = order.iter().map(|column| format!("{column}::text")).collect();
        template
            .replace("{id}", &of_source(&source.id))
            .replace("{event_type}", &self.event_type())
            .replace("{data}", &self.data())
            .replace("{stream}", &text(&source.stream))
            .replace("{version}", version.as_deref().unwrap_or("NULL::bigint"))
            .replace("{time}", &self.time())
            .replace("{key}", &text(&source.key))
            .replace("{actor}", &text(&source.actor))
            .replace("{correlation}", &uuid(&source.correlation))
            .replace("{causation}", &uuid(&source.causation))
            .replace("{metadata}", &text(&source.metadata))
            .replace("{cursor}", &texts.join(", "))
            .replace("{order}", &order.join(", "))
            .replace("{unordered}", &unordered.join(" OR "))
            .replace("{from}", &self.from())
    }

    fn order(&self) -> impl Iterator<Item = &str> {
        let id = (!self.source.order_by.contains(&self.source.id)).then_some(&self.source.id);
        self.source.order_by.iter().chain(id).map(String::as_str)
    }

    /// The rows behind the cursor, which is the first parameter.
    fn after(&self) -> String {
        let columns: Vec<String> = self.order().map(of_source).collect();
        let values =
            self.order().enumerate().map(|(nth, column)| format!("($1::text[])[{}]::{}", nth + 1, self.types[column]));
        format!("({}) > ({})", columns.join(", "), values.collect::<Vec<_>>().join(", "))
    }

    fn event_type(&self) -> String {
        match &self.source.event_type {
            ImportField::Column(column) => format!("{}::text", of_source(column)),
            ImportField::Constant(text) => format!("{}::text", constant(text)),
            ImportField::DataField(field) => format!("{} ->> {}", self.whole_data(), constant(field)),
        }
    }

    fn data(&self) -> String {
        match &self.source.data_field {
            Some(field) => format!("({} -> {})::text", self.whole_data(), constant(field)),
            None => {
                self.source.data.as_deref().map_or("NULL::text".into(), |column| format!("{}::text", of_source(column)))
            }
        }
    }

    fn whole_data(&self) -> String {
        self.source.data.as_deref().map_or("NULL::jsonb".into(), |column| format!("{}::text::jsonb", of_source(column)))
    }

    fn time(&self) -> String {
        let Some(column) = &self.source.time else { return "NULL::timestamptz".into() };
        let is_without_zone =
            self.types[column].starts_with("timestamp") && self.types[column].ends_with("without time zone");
        let column = of_source(column);
        if is_without_zone { format!("{column} AT TIME ZONE 'UTC'") } else { format!("{column}::timestamptz") }
    }

    /// Each with the columns that are needed, since the tables may have others.
    fn from(&self) -> String {
        let [table] = self.tables else {
            let mut columns: Vec<String> = self.source.columns().map(identifier).collect();
            columns.sort_unstable();
            columns.dedup();
            let parts = self.tables.iter().map(|table| format!("SELECT {} FROM {table}", columns.join(", ")));
            return format!("({}) AS source", parts.collect::<Vec<_>>().join(" UNION ALL "));
        };
        format!("{table} AS source")
    }
}

/// Of the source, by name: ORDER BY would take a bare one for a column of the answer.
fn of_source(name: &str) -> String {
    format!("source.{}", identifier(name))
}

fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Also where a backslash would mean something.
fn constant(text: &str) -> String {
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}
