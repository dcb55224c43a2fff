//! Imports the events of another table into a namespace: an application's own event table, a pgmq
//! queue, or the messages of message-db.
//!
//! Who has authority: the row in `headwater_private.imports`. It says up to where the source was
//! imported, and is written in the transaction that appends a batch's events, from the place that
//! this run knows it to be at, or not at all. So a run that is killed, at any moment, leaves a
//! state from which the next run continues, and of two runs at once one is refused. Ids are derived
//! from the source's ids, and are the same each time.
//!
//! The source is read by pages, in the order of columns that are unique together. A row that
//! appears behind the page being read is missed. That, and everything else that may go wrong, is
//! found at the end: what there is to import, and what was imported, are counted and summed up, by
//! hashes, on both sides. A table that is still written to is followed: see `follow.rs`. What
//! subscribers of the old event bus left behind is carried over at the end: see `carry.rs`.
//!
//! Memory: one batch, bounded in rows and in bytes.

mod batch;
mod carry;
mod error;
mod follow;
mod source;
mod texts;

use headwater_core::{Json, NamespaceInfo};
use sqlx::postgres::{PgArguments, PgConnection, PgRow, Postgres};
use sqlx::query::Query;
use sqlx::{ConnectOptions, Connection, Row};

pub use self::carry::{ImportCheckpoints, ImportDeadLetters, ImportedSubscriber};
pub use self::error::ImportError;
pub use self::follow::ImportFollow;
pub use self::source::{ImportField, ImportSource};
use self::texts::Reader;
use crate::database::number::{bigints, sequence};
use crate::log::row::json;
use crate::{PgLog, Servers, sql};

/// What to import, and under which name.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportOptions {
    /// The name of the import. A run with the same name continues where the last one ended. Each
    /// event has the name in its header `import`.
    pub name: String,
    /// Where to import from.
    pub source: ImportSource,
    /// Rows per transaction, 1 to 10,000.
    pub batch: u32,
    /// Whether rows that are added to the source in the meantime are imported too. `None`: nobody
    /// writes to it.
    pub follow: Option<ImportFollow>,
    /// The checkpoints of the old event bus. When everything is imported, a subscriber is created
    /// for each.
    pub checkpoints: Option<ImportCheckpoints>,
    /// The dead letters of the old event bus. They are stored when everything is imported.
    pub dead_letters: Option<ImportDeadLetters>,
}

/// How far an import has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImportProgress {
    /// How many events were imported, including those of earlier runs.
    pub events: u64,
    /// About how many events there are to import, by the source's statistics.
    pub estimate: u64,
    /// What the import does at present.
    pub stage: ImportStage,
}

/// What an import does at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImportStage {
    /// It reads the existing rows.
    Reading,
    /// It waits to create or remove the trigger until open transactions that have written to the
    /// table have ended.
    Waiting {
        /// The backend with the oldest of these transactions; 0: a prepared transaction.
        pid: i32,
        /// How long that transaction has been open.
        seconds: u64,
    },
    /// It imports rows as they are added.
    Following,
    /// Everything is imported, and the trigger is removed: the application may write to Headwater.
    SwitchedOver,
    /// It compares what the source has with what was imported.
    Verifying,
}

/// A complete import: what the source has and what was imported are the same, by count and by
/// checksum. If the import continues to follow its source, that is true of the rows that it has
/// imported so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// How many events were imported in total.
    pub events: u64,
    /// How many of these events this run imported.
    pub new_events: u64,
    /// How many of all events were added while the import followed the source.
    pub followed_events: u64,
    /// The sum of the events' hashes.
    pub checksum: String,
    /// Where subscribers of the old event bus continue.
    pub subscribers: Vec<ImportedSubscriber>,
    /// How many dead letters this run stored.
    pub dead_letters: u64,
    /// How many dead letters of the old event bus were left out because their events are gone.
    pub dead_letters_without_event: u64,
}

impl PgLog {
    /// Imports what is not imported yet from a source, which may be in another database
    /// (`source_url`; `None`: in this one), and checks that everything was imported. Calls
    /// `progress` after each batch. With [`ImportOptions::follow`], writers to the source need not
    /// stop in the meantime. The future can be dropped at any moment, and the import called again.
    pub async fn import(
        &self,
        source_url: Option<&str>,
        options: &ImportOptions,
        mut progress: impl FnMut(ImportProgress),
    ) -> Result<Imported, ImportError> {
        options.validate()?;
        let mut source = self.import_source(source_url).await?;
        carry::check(&mut source, options).await?;
        let reader = Reader::new(&mut source, options, None).await?;
        let import = Import { log: self, options };
        import.begin().await?;
        let state = import.follow_state(None).await?;
        let before = state.events;
        let mut tell = |events: u64, stage| {
            progress(ImportProgress { events, estimate: reader.estimate.max(events), stage });
        };
        let mut imported = match (options.follow, state.state.as_deref()) {
            (None, None) => {
                let events = import.read_all(&mut source, &reader, state, &mut tell).await?;
                let checksum = import.verify(&mut source, &reader).await?;
                let mut imported = Imported::new(events, checksum);
                import.carry(&mut source, &mut imported).await?;
                imported
            }
            // It was followed to its end.
            (None | Some(ImportFollow::Finish), Some("ended")) => {
                let mut imported = Imported::new(state.events, String::new());
                import.carry(&mut source, &mut imported).await?;
                imported.checksum = import.verify(&mut source, &reader).await?;
                imported
            }
            (Some(_), Some("ended")) => return Err(ImportError::FollowEnded(options.name.clone())),
            (None, Some(_)) => return Err(ImportError::Followed(options.name.clone())),
            (Some(follow), _) => import.follow(&mut source, &reader, follow, &mut tell).await?,
        };
        imported.new_events = imported.events - before;
        imported.followed_events = import.follow_state(None).await?.followed_events;
        // If this fails, the server ends the session.
        _ = source.close().await;
        Ok(imported)
    }

    /// Finds the tables of epoch in a source, by their names, and returns how to import them:
    /// [`ImportSource::epoch`], with checkpoints and dead letters where the source has them.
    /// `table` names the event table, if it has another name.
    pub async fn epoch_import(
        &self,
        source_url: Option<&str>,
        table: Option<&str>,
    ) -> Result<ImportOptions, ImportError> {
        let mut source = self.import_source(source_url).await?;
        let row = sqlx::query(sql::import::SOURCE_EPOCH).fetch_one(&mut source).await.map_err(ImportError::source)?;
        _ = source.close().await;
        let Some(events) = table.map(str::to_owned).or_else(|| row.get("events")) else {
            let message = "there is no table \"epoch_events\" or \"events\" in the source".into();
            return Err(ImportError::Invalid(message));
        };
        Ok(ImportOptions {
            checkpoints: row.get::<Option<String>, _>("checkpoints").map(ImportCheckpoints::table),
            dead_letters: row.get::<Option<String>, _>("letters").map(ImportDeadLetters::table),
            ..ImportOptions::new("epoch", ImportSource::epoch(events))
        })
    }

    async fn import_source(&self, source_url: Option<&str>) -> Result<PgConnection, ImportError> {
        let connect = match source_url {
            Some(url) => {
                let invalid = |error| ImportError::Invalid(format!("invalid url of the source: {error}"));
                url.parse::<Servers>().map_err(invalid)?
            }
            None => self.database().servers(),
        };
        let connect = connect.resolve().await.map_err(ImportError::source)?;
        // Values of the cursor are kept as text, which must mean the same in the next run. A note
        // that was deleted must not come back after a crash of the source.
        let settings =
            [("datestyle", "ISO"), ("timezone", "UTC"), ("extra_float_digits", "1"), ("synchronous_commit", "on")];
        connect.options(settings).disable_statement_logging().connect().await.map_err(ImportError::source)
    }
}

impl Imported {
    fn new(events: u64, checksum: String) -> Self {
        Imported {
            events,
            new_events: 0,
            followed_events: 0,
            checksum,
            subscribers: Vec::new(),
            dead_letters: 0,
            dead_letters_without_event: 0,
        }
    }
}

impl ImportOptions {
    /// Imports all rows of a source, in batches of 1,000. Nobody writes to it in the meantime, and
    /// no subscribers are carried over.
    pub fn new(name: impl Into<String>, source: ImportSource) -> Self {
        ImportOptions { name: name.into(), source, batch: 1_000, follow: None, checkpoints: None, dead_letters: None }
    }

    fn validate(&self) -> Result<(), ImportError> {
        if !(1..=255).contains(&self.name.len()) || self.name.contains('\0') {
            return Err(ImportError::Invalid(format!("invalid import name {:?}: it has 1 to 255 bytes", self.name)));
        }
        if !(1..=10_000).contains(&self.batch) {
            return Err(ImportError::Invalid(format!("invalid batch {}: it is 1 to 10000 rows", self.batch)));
        }
        if self.checkpoints.is_some() {
            let Some(sequence) = &self.source.sequence else {
                let message = "checkpoints need to know which column of the source has the sequence that they name";
                return Err(ImportError::Invalid(message.into()));
            };
            if self.source.order_by.first() != Some(sequence) {
                let message =
                    format!("checkpoints need rows that are ordered by {sequence:?}, the column that they name");
                return Err(ImportError::Invalid(message));
            }
        }
        if self.follow.is_some() && self.source.tables.len() != 1 {
            return Err(ImportError::Invalid("only an import of one table can follow it".into()));
        }
        Ok(())
    }
}

struct Import<'a> {
    log: &'a PgLog,
    options: &'a ImportOptions,
}

/// How far an import has come, as the database has it.
struct State {
    /// `None`: it never followed its source.
    state: Option<String>,
    token: Option<String>,
    batch: i64,
    cursor: Option<Vec<String>>,
    notes: Vec<i64>,
    events: u64,
    followed_events: u64,
}

/// How an import moves on with a batch: from where it is known to be, or not at all.
enum Move<'a> {
    /// To this cursor, for rows that nobody adds to.
    Cursor(Option<&'a [String]>),
    /// By one batch, for rows that are followed.
    Batch { token: &'a str, from: i64 },
}

impl Import<'_> {
    fn info(&self) -> &NamespaceInfo {
        self.log.info()
    }

    fn id(&self) -> i32 {
        self.info().id
    }

    async fn begin(&self) -> Result<(), ImportError> {
        let source = Json::encode(&self.options.source).map_err(|error| ImportError::Invalid(error.to_string()))?;
        let begin = sqlx::query(sql::import::IMPORT_BEGIN).bind(self.id()).bind(&self.options.name).bind(json(&source));
        if self.row(begin).await?.get::<bool, _>("is_same") {
            Ok(())
        } else {
            Err(ImportError::Differs(self.options.name.clone()))
        }
    }

    /// Returns how far earlier runs have come. With a token, the import begins to follow its
    /// source, if it did not yet.
    async fn follow_state(&self, token: Option<&str>) -> Result<State, ImportError> {
        let state = sqlx::query(sql::import::IMPORT_FOLLOW).bind(self.id()).bind(&self.options.name).bind(token);
        let row = self.row(state).await?;
        Ok(State {
            state: row.get("state"),
            token: row.get("token"),
            batch: row.get("batch"),
            cursor: row.get("cursor"),
            notes: row.get("notes"),
            events: sequence(&row, "events").map_err(ImportError::target)?,
            followed_events: sequence(&row, "followed_events").map_err(ImportError::target)?,
        })
    }

    /// Imports all rows behind the cursor. Returns how many events there are then.
    async fn read_all(
        &self,
        source: &mut PgConnection,
        reader: &Reader,
        state: State,
        tell: &mut impl FnMut(u64, ImportStage),
    ) -> Result<u64, ImportError> {
        let State { mut cursor, mut events, .. } = state;
        while let Some(batch) = reader.page(source, cursor.as_deref(), &self.options.name).await? {
            self.store(&batch, Move::Cursor(cursor.as_deref())).await?;
            events += batch.len() as u64;
            cursor = batch.cursor;
            tell(events, ImportStage::Reading);
        }
        Ok(events)
    }

    /// Appends a batch and moves the import on, in one transaction.
    async fn store(&self, batch: &batch::Batch, from: Move<'_>) -> Result<(), ImportError> {
        let mut tx = self.log.database().begin("BEGIN").await.map_err(ImportError::target)?;
        let appended = self.log.append_in(&mut tx, &batch.events()).await;
        let appended = appended.map_err(|error| ImportError::Append { first: batch.first_id(), source: error })?;
        batch.check_versions(&appended)?;
        let places = bigints(appended.events.iter().map(|placed| placed.global_sequence));
        let places = places.map_err(|error| ImportError::Target(error.into()))?;
        let (id, name) = (self.id(), &self.options.name);
        let moved = match from {
            Move::Cursor(cursor) => {
                sqlx::query(sql::import::IMPORT_ADVANCE).bind(id).bind(name).bind(cursor).bind(batch.cursor.as_deref())
            }
            Move::Batch { token, from } => sqlx::query(sql::import::IMPORT_FOLLOW_ADVANCE)
                .bind(id)
                .bind(name)
                .bind(token)
                .bind(from)
                .bind(batch.cursor.as_deref())
                .bind(&batch.notes),
        };
        let moved = moved
            .bind(i64::try_from(appended.events.len()).unwrap_or(i64::MAX))
            .bind(places.iter().min())
            .bind(places.iter().max())
            .execute(&mut *tx)
            .await
            .map_err(ImportError::target)?;
        if moved.rows_affected() != 1 {
            return Err(ImportError::Busy(self.options.name.clone()));
        }
        tx.commit().await.map_err(ImportError::target)
    }

    /// Compares what the source has with what was imported. If the reader leaves out rows with a
    /// note, so does this.
    async fn verify(&self, source: &mut PgConnection, reader: &Reader) -> Result<String, ImportError> {
        let expected = reader.checksum(source).await?;
        let range = self.row(sqlx::query(sql::import::IMPORT_RANGE).bind(self.id()).bind(&self.options.name)).await?;
        let found = sqlx::query(sql::import::IMPORT_CHECKSUM)
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
        let noted = sqlx::query(sql::import::IMPORT_VERIFIED)
            .bind(self.id())
            .bind(&self.options.name)
            .execute(&mut *conn)
            .await;
        conn.end(noted.map_err(ImportError::target), ImportError::target).await?;
        Ok(found.1)
    }

    async fn row(&self, statement: Query<'_, Postgres, PgArguments>) -> Result<PgRow, ImportError> {
        let mut conn = self.log.database().pin().await.map_err(ImportError::target)?;
        let row = statement.fetch_one(&mut *conn).await;
        conn.end(row.map_err(ImportError::target), ImportError::target).await
    }
}
