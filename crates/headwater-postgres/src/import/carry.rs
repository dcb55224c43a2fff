//! Carries over what subscribers of an old event bus left behind: their checkpoints and their dead
//! letters.
//!
//! Both are only added: an existing subscriber or letter stays unchanged. So a second run changes
//! nothing, and a run after a killed one continues.

use chrono::{DateTime, Utc};
use headwater_core::Attempt;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Row};
use uuid::Uuid;

use super::batch::event_id;
use super::texts::{Table, Texts, as_time, identifier};
use super::{Import, ImportError, ImportOptions, Imported};
use crate::database::number::sequence;
use crate::sql;

/// Dead letters per statement.
const LETTERS: usize = 500;
/// Most attempts that a letter gets: the old bus has counted them, but kept only the last error.
const MOST_ATTEMPTS: i64 = 100;

/// A table, or view, with one row for each subscriber of the old event bus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportCheckpoints {
    /// The table, as SQL names it.
    pub table: String,
    /// The column with the subscriber's id.
    pub subscriber: String,
    /// The column with the highest sequence that the subscriber has handled. It is a value of the
    /// column that [`ImportSource::sequence`](super::ImportSource::sequence) names.
    pub sequence: String,
}

impl ImportCheckpoints {
    /// A table with columns `subscriber_id` and `last_global_sequence`, as epoch has it.
    pub fn table(name: impl Into<String>) -> Self {
        let (subscriber, sequence) = ("subscriber_id".into(), "last_global_sequence".into());
        ImportCheckpoints { table: name.into(), subscriber, sequence }
    }
}

/// A table, or view, with the dead letters of the old event bus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportDeadLetters {
    /// The table, as SQL names it.
    pub table: String,
    /// The column with the subscriber's id.
    pub subscriber: String,
    /// The column with the id of the event. It is a value of the column that
    /// [`ImportSource::id`](super::ImportSource::id) names.
    pub event: String,
    /// The column with the last error.
    pub error: Option<String>,
    /// The column that counts attempts.
    pub attempts: Option<String>,
    /// The column with the time at which it became a dead letter.
    pub created: Option<String>,
    /// The column with the time of the last attempt.
    pub updated: Option<String>,
}

impl ImportDeadLetters {
    /// A table with columns `subscriber_id`, `event_id`, `error_message`, `retry_count`,
    /// `created_at` and `last_retry_at`, as epoch has it.
    pub fn table(name: impl Into<String>) -> Self {
        ImportDeadLetters {
            table: name.into(),
            subscriber: "subscriber_id".into(),
            event: "event_id".into(),
            error: Some("error_message".into()),
            attempts: Some("retry_count".into()),
            created: Some("created_at".into()),
            updated: Some("last_retry_at".into()),
        }
    }

    fn columns(&self) -> impl Iterator<Item = &str> {
        let others = [&self.error, &self.attempts, &self.created, &self.updated].into_iter().flatten();
        [&self.subscriber, &self.event].into_iter().chain(others).map(String::as_str)
    }
}

/// Where a subscriber of the old event bus continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedSubscriber {
    /// Its id.
    pub subscriber_id: String,
    /// Its present position.
    pub position: u64,
    /// How many events at or below the position are delivered again, because the old event bus may
    /// have passed them.
    pub late_events: u64,
    /// Whether this run created it. Otherwise it existed, and stayed unchanged.
    pub is_new: bool,
}

/// Checks before the import that the tables have the columns that the options name.
pub(super) async fn check(conn: &mut PgConnection, options: &ImportOptions) -> Result<(), ImportError> {
    if let Some(checkpoints) = &options.checkpoints {
        let columns = [checkpoints.subscriber.as_str(), checkpoints.sequence.as_str()];
        Table::find(conn, &checkpoints.table, columns.into_iter()).await?;
    }
    if let Some(letters) = &options.dead_letters {
        Table::find(conn, &letters.table, letters.columns()).await?;
    }
    Ok(())
}

impl Import<'_> {
    pub(super) async fn carry(&self, source: &mut PgConnection, imported: &mut Imported) -> Result<(), ImportError> {
        if let Some(checkpoints) = &self.options.checkpoints {
            imported.subscribers = self.carry_checkpoints(source, checkpoints).await?;
        }
        if let Some(letters) = &self.options.dead_letters {
            self.carry_letters(source, letters, imported).await?;
        }
        Ok(())
    }

    async fn carry_checkpoints(
        &self,
        source: &mut PgConnection,
        checkpoints: &ImportCheckpoints,
    ) -> Result<Vec<ImportedSubscriber>, ImportError> {
        let columns = [checkpoints.subscriber.as_str(), checkpoints.sequence.as_str()];
        let table = Table::find(source, &checkpoints.table, columns.into_iter()).await?;
        let text = sql::import::SOURCE_CHECKPOINTS
            .replace("{subscriber}", &identifier(&checkpoints.subscriber))
            .replace("{sequence}", &identifier(&checkpoints.sequence))
            .replace("{table}", &table.name);
        let rows = sqlx::query_as::<_, (Option<String>, Option<i64>)>(AssertSqlSafe(text)).fetch_all(source).await;
        let rows = rows.map_err(ImportError::source)?;
        let (ids, sequences): (Vec<_>, Vec<_>) = rows.into_iter().filter_map(|(id, at)| Some((id?, at))).unzip();
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let made = sqlx::query(sql::import::IMPORT_SUBSCRIBERS)
            .bind(self.id())
            .bind(&self.options.name)
            .bind(ids)
            .bind(sequences);
        let mut conn = self.log.database().pin().await.map_err(ImportError::target)?;
        let made = made.fetch_all(&mut *conn).await;
        let made = conn.end(made.map_err(ImportError::target), ImportError::target).await?;
        let subscriber = |row| -> Result<ImportedSubscriber, sqlx::Error> {
            Ok(ImportedSubscriber {
                subscriber_id: Row::try_get(row, "subscriber_id")?,
                position: sequence(row, "position")?,
                late_events: sequence(row, "late")?,
                is_new: row.try_get("is_new")?,
            })
        };
        made.iter().map(subscriber).collect::<Result<_, _>>().map_err(ImportError::target)
    }

    async fn carry_letters(
        &self,
        source: &mut PgConnection,
        letters: &ImportDeadLetters,
        imported: &mut Imported,
    ) -> Result<(), ImportError> {
        let text = self.letters_text(source, letters).await?;
        let mut after: Option<(String, String)> = None;
        loop {
            let (subscriber, event) = after.clone().unzip();
            let page =
                sqlx::query(AssertSqlSafe(text.clone())).bind(subscriber).bind(event).fetch_all(&mut *source).await;
            let page = page.map_err(ImportError::source)?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some((last.get("subscriber_id"), last.get("event_id")));
            let mut stored = Letters::default();
            for row in &page {
                let Some(letter) = self.letter(row).map_err(ImportError::source)? else {
                    imported.dead_letters_without_event += 1;
                    continue;
                };
                stored.add(letter)?;
            }
            let store = sqlx::query(sql::import::IMPORT_LETTERS)
                .bind(self.id())
                .bind(stored.subscribers)
                .bind(stored.events)
                .bind(stored.errors)
                .bind(stored.attempts)
                .bind(stored.created)
                .bind(stored.updated);
            let row = self.row(store).await?;
            imported.dead_letters += sequence(&row, "stored").map_err(ImportError::target)?;
            imported.dead_letters_without_event += sequence(&row, "missing").map_err(ImportError::target)?;
        }
    }

    async fn letters_text(
        &self,
        source: &mut PgConnection,
        letters: &ImportDeadLetters,
    ) -> Result<String, ImportError> {
        let events = &self.options.source;
        let mut tables = Vec::new();
        let mut types = None;
        for table in &events.tables {
            let table = Table::find(source, table, events.columns()).await?;
            tables.push(table.name);
            types = Some(table.types);
        }
        let types = types.unwrap_or_default();
        let table = Table::find(source, &letters.table, letters.columns()).await?;
        let text = |column: &Option<String>, cast: &str| {
            column.as_deref().map_or(format!("NULL::{cast}"), |column| format!("letter.{}::{cast}", identifier(column)))
        };
        let time = |column: &Option<String>| {
            column.as_deref().map_or("NULL::timestamptz".into(), |column| as_time("letter", column, &table.types))
        };
        let texts = Texts { source: events, tables: &tables, types: &types, schema: "", token: None };
        Ok(texts
            .fill(sql::import::SOURCE_LETTERS)
            .replace("{subscriber}", &identifier(&letters.subscriber))
            .replace("{event}", &identifier(&letters.event))
            .replace("{error}", &text(&letters.error, "text"))
            .replace("{retries}", &text(&letters.attempts, "bigint"))
            .replace("{created}", &time(&letters.created))
            .replace("{updated}", &time(&letters.updated))
            .replace("{letters}", &table.name)
            .replace("{id_type}", &types[&events.id])
            .replace("{limit}", &LETTERS.to_string()))
    }

    /// Reads a dead letter; `None`: the row of its event is gone.
    fn letter(&self, row: &sqlx::postgres::PgRow) -> Result<Option<Letter>, sqlx::Error> {
        let Some(id) = row.try_get::<Option<String>, _>("id")? else { return Ok(None) };
        let Some(event) = event_id(&self.options.name, &id, row.try_get("happened_at")?, self.options.source.keep_ids)
        else {
            return Ok(None);
        };
        let created = row.try_get::<Option<DateTime<Utc>>, _>("created_at")?.unwrap_or_else(Utc::now);
        Ok(Some(Letter {
            subscriber: row.try_get("subscriber_id")?,
            event,
            error: row.try_get::<Option<String>, _>("error")?.unwrap_or_default(),
            attempts: row.try_get::<Option<i64>, _>("retries")?.unwrap_or(1).clamp(1, MOST_ATTEMPTS),
            created,
            updated: row.try_get::<Option<DateTime<Utc>>, _>("updated_at")?.unwrap_or(created),
        }))
    }
}

struct Letter {
    subscriber: String,
    event: Uuid,
    error: String,
    attempts: i64,
    created: DateTime<Utc>,
    updated: DateTime<Utc>,
}

/// Dead letters as columns.
#[derive(Default)]
struct Letters {
    subscribers: Vec<String>,
    events: Vec<Uuid>,
    errors: Vec<String>,
    attempts: Vec<String>,
    created: Vec<DateTime<Utc>>,
    updated: Vec<DateTime<Utc>>,
}

impl Letters {
    fn add(&mut self, letter: Letter) -> Result<(), ImportError> {
        let attempt = |at, errors| Attempt { at, node: String::new(), errors };
        let mut attempts: Vec<Attempt> = (1..letter.attempts).map(|_| attempt(letter.created, Vec::new())).collect();
        attempts.push(attempt(letter.updated, vec![letter.error.clone()]));
        self.attempts.push(serde_json::to_string(&attempts).map_err(|error| ImportError::Invalid(error.to_string()))?);
        self.subscribers.push(letter.subscriber);
        self.events.push(letter.event);
        self.errors.push(letter.error);
        self.created.push(letter.created);
        self.updated.push(letter.updated);
        Ok(())
    }
}
