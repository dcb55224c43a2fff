//! Brings the events of another table into a namespace: an application's own event table, a queue of pgmq's, the messages of message-db.
//!
//! Who has authority: the row in `headwater_private.imports`. It says up to where the source was imported, and is written in the transaction that appends a batch's events,
//! from the place that this run knows it to be at, or not at all. So a run that is killed, at whatever moment, leaves what the next one goes on from,
//! and of two at once one is refused. Ids are made from the source's, the same each time.
//!
//! The source is read by pages, in the order of columns that are unique together; a row that appears behind the page that is read is missed. That, and whatever
//! else may go wrong, is found in the end: what is there to import, and what was imported, are counted and summed up, by hashes, on both sides.
//!
//! Memory: one batch, bounded in rows and in bytes.

mod batch;
mod error;
mod source;

use headwater_core::{Json, NamespaceInfo};
use sqlx::postgres::{PgArguments, PgConnection, PgRow, Postgres};
use sqlx::query::Query;
use sqlx::{ConnectOptions, Connection, Row};

pub use self::error::ImportError;
use self::source::Reader;
pub use self::source::{ImportField, ImportSource};
use crate::number::{bigints, sequence};
use crate::row::json;
use crate::{PgLog, Servers, sql};

/// What to import, and under which name.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportOptions {
    /// The name of the import: a run with the same name goes on where the last one ended. Each event has it as its header `import`.
    pub name: String,
    /// From where.
    pub source: ImportSource,
    /// Rows of one transaction, 1 to 10,000.
    pub batch: u32,
}

/// How far an import is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImportProgress {
    /// Events imported, those of earlier runs included.
    pub events: u64,
    /// About how many there are to import, as the source's statistics say.
    pub estimate: u64,
}

/// An import that is complete: what the source has and what was imported are the same, by count and by checksum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// Events imported in all.
    pub events: u64,
    /// Of these, by this run.
    pub new_events: u64,
    /// The sum of their hashes.
    pub checksum: String,
}

impl PgLog {
    /// Imports what is not imported yet of a source, which may be in another database (`source_url`; `None`: in this one), and checks that all is there. `progress` is
    /// told after each batch.
    pub async fn import(
        &self,
        source_url: Option<&str>,
        options: &ImportOptions,
        mut progress: impl FnMut(ImportProgress),
    ) -> Result<Imported, ImportError> {
        options.validate()?;
        let connect = match source_url {
            Some(url) => {
                let invalid = |error| ImportError::Invalid(format!("invalid url of the source: {error}"));
                url.parse::<Servers>().map_err(invalid)?
            }
            None => self.database().servers(),
        };
        let connect = connect.resolve().await.map_err(ImportError::source)?;
        // Values of the cursor are kept as text: it must mean the same in the next run.
        let connect = connect.options([("datestyle", "ISO"), ("timezone", "UTC"), ("extra_float_digits", "1")]);
        let mut source = connect.disable_statement_logging().connect().await.map_err(ImportError::source)?;
        let reader = Reader::new(&mut source, options).await?;
        let import = Import { log: self, options, reader };
        let (mut cursor, mut events) = import.begin().await?;
        let mut new_events = 0;
        while let Some(batch) = import.reader.page(&mut source, cursor.as_deref(), &options.name).await? {
            let rows = batch.events.len() as u64;
            cursor = Some(import.store(cursor.as_deref(), batch).await?);
            events += rows;
            new_events += rows;
            progress(ImportProgress { events, estimate: import.reader.estimate.max(events) });
        }
        let checksum = import.verify(&mut source).await?;
        // The server ends it otherwise.
        _ = source.close().await;
        Ok(Imported { events, new_events, checksum })
    }
}

impl ImportOptions {
    fn validate(&self) -> Result<(), ImportError> {
        if !(1..=255).contains(&self.name.len()) || self.name.contains('\0') {
            return Err(ImportError::Invalid(format!("invalid import name {:?}: it has 1 to 255 bytes", self.name)));
        }
        if !(1..=10_000).contains(&self.batch) {
            return Err(ImportError::Invalid(format!("invalid batch {}: it is 1 to 10000 rows", self.batch)));
        }
        Ok(())
    }
}

struct Import<'a> {
    log: &'a PgLog,
    options: &'a ImportOptions,
    reader: Reader,
}

impl Import<'_> {
    fn info(&self) -> &NamespaceInfo {
        self.log.info()
    }

    fn id(&self) -> i32 {
        self.info().id
    }

    /// Where earlier runs came to.
    async fn begin(&self) -> Result<(Option<Vec<String>>, u64), ImportError> {
        let source = Json::encode(&self.options.source).map_err(|error| ImportError::Invalid(error.to_string()))?;
        let begin = sqlx::query(sql::IMPORT_BEGIN).bind(self.id()).bind(&self.options.name).bind(json(&source));
        let row = self.row(begin).await?;
        if !row.get::<bool, _>("is_same") {
            return Err(ImportError::Differs(self.options.name.clone()));
        }
        Ok((row.get("cursor"), sequence(&row, "events").map_err(ImportError::target)?))
    }

    /// Appends a batch and moves the import on, together.
    async fn store(&self, cursor: Option<&[String]>, batch: batch::Batch) -> Result<Vec<String>, ImportError> {
        let mut tx = self.log.database().begin("BEGIN").await.map_err(ImportError::target)?;
        let appended = self.log.append_in(&mut tx, &batch.events()).await;
        let appended = appended.map_err(|error| ImportError::Append { first: batch.first_id(), source: error })?;
        batch.check_versions(&appended)?;
        let places = bigints(appended.events.iter().map(|placed| placed.global_sequence));
        let places = places.map_err(|error| ImportError::Target(error.into()))?;
        let moved = sqlx::query(sql::IMPORT_ADVANCE)
            .bind(self.id())
            .bind(&self.options.name)
            .bind(cursor)
            .bind(&batch.cursor)
            .bind(i64::try_from(appended.events.len()).unwrap_or(i64::MAX))
            .bind(places.iter().min())
            .bind(places.iter().max())
            .execute(&mut *tx)
            .await
            .map_err(ImportError::target)?;
        if moved.rows_affected() != 1 {
            return Err(ImportError::Busy(self.options.name.clone()));
        }
        tx.commit().await.map_err(ImportError::target)?;
        Ok(batch.cursor)
    }

    async fn verify(&self, source: &mut PgConnection) -> Result<String, ImportError> {
        let expected = self.reader.checksum(source).await?;
        let range = self.row(sqlx::query(sql::IMPORT_RANGE).bind(self.id()).bind(&self.options.name)).await?;
        let found = sqlx::query(sql::IMPORT_CHECKSUM)
            .bind(self.id())
            .bind(&self.options.name)
            .bind(range.get::<i64, _>("first_sequence"))
            .bind(range.get::<i64, _>("last_sequence"));
        let found = self.row(found).await?;
        let found = (sequence(&found, "events").map_err(ImportError::target)?, found.get("checksum"));
        if expected != found || found.0 != sequence(&range, "events").map_err(ImportError::target)? {
            return Err(ImportError::Mismatch {
                name: self.options.name.clone(),
                in_source: expected.0,
                imported: found.0,
            });
        }
        let mut conn = self.log.database().pin().await.map_err(ImportError::target)?;
        let noted =
            sqlx::query(sql::IMPORT_VERIFIED).bind(self.id()).bind(&self.options.name).execute(&mut *conn).await;
        conn.end(noted.map_err(ImportError::target), ImportError::target).await?;
        Ok(found.1)
    }

    async fn row(&self, statement: Query<'_, Postgres, PgArguments>) -> Result<PgRow, ImportError> {
        let mut conn = self.log.database().pin().await.map_err(ImportError::target)?;
        let row = statement.fetch_one(&mut *conn).await;
        conn.end(row.map_err(ImportError::target), ImportError::target).await
    }
}
