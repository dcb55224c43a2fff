//! Follows a table that is still written to, until the application has been switched over.
//!
//! A trigger notes each new row in a table of notes beside the source, in the transaction that adds
//! the row. CREATE TRIGGER waits for all open transactions that have written to the table. So a row
//! without a note was committed before the trigger existed. Those rows are read first, by pages:
//! their number does not grow. Then rows are imported by their notes, and the notes are deleted. A
//! sequence is never taken as a sign of what was committed, so no order of commits can hide a row.
//!
//! Who has authority: the row in `headwater_private.imports`. A batch's events, the number of the
//! batch and the notes of its rows commit together there, from the batch that this run knows, or
//! not at all. Only then are these notes deleted in the source, and only then is the next batch
//! read. A run that continues after a killed one finds the notes of the last batch in the target,
//! and deletes them first. The token in the names of the trigger and the notes is new each time, so
//! a run that hung for long never deletes notes of a later one. A session lock in the source keeps
//! a second run out; it decides nothing.
//!
//! Order: rows come in the order of the table, up to the last one that was visible when a round
//! began. Before they are read, the round waits for transactions that were writing at that time:
//! they had their place in the order before. After [`PATIENCE`] it no longer waits for them, and
//! their rows come later.
//!
//! The end: the trigger is dropped in a transaction that keeps writers out, the last notes are
//! imported in it, and the notes are dropped. The state `finishing` is written before that, so that
//! a run which was killed after that transaction knows that it was its own.
//!
//! States: preparing → backlog → following → finishing → ended.

use std::time::Duration;

use headwater_core::Backoff;
use sqlx::postgres::{PgConnection, Postgres};
use sqlx::{AssertSqlSafe, Connection, Row, Transaction};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::batch::Batch;
use super::texts::NoteTexts;
use super::{Import, ImportError, ImportOptions, ImportProgress, ImportStage, Imported, Move, Reader, State};
use crate::{PgLog, sql};

/// How long a run without new rows waits.
const POLL: Duration = Duration::from_millis(100);
/// How long a round waits for open writers, so that their rows come in order.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long to wait for another run's session: the session of a killed run ends when the server
/// notices.
const OTHERS_END: Duration = Duration::from_secs(10);
/// The pause between two attempts to lock the table. Writers queue behind an attempt, but no longer
/// than its `lock_timeout` (500 ms).
const BETWEEN_ATTEMPTS: Duration = Duration::from_secs(1);

/// How long an import follows its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportFollow {
    /// Until the future is dropped. The trigger stays, and the next run continues.
    Forever,
    /// Until everything that existed at the last look is imported. The trigger stays, and the next
    /// run continues.
    UntilCaughtUp,
    /// To its end: the application no longer writes to the source. The trigger is removed when
    /// everything is imported, and then checkpoints and dead letters are carried over.
    Finish,
}

impl PgLog {
    /// Stops following a source, without importing the rest: the trigger and the notes are removed
    /// from the source. Returns whether there was something to remove.
    pub async fn stop_following(
        &self,
        source_url: Option<&str>,
        options: &ImportOptions,
        mut progress: impl FnMut(ImportProgress),
    ) -> Result<bool, ImportError> {
        options.validate()?;
        let mut source = self.import_source(source_url).await?;
        let import = Import { log: self, options };
        import.begin().await?;
        let state = import.follow_state(None).await?;
        let mut tell = |events, stage| progress(ImportProgress { events, estimate: events, stage });
        let Some(token) = state.token else { return Ok(false) };
        let reader = Reader::new(&mut source, options, Some(&token)).await?;
        let follower = Follower::new(&import, &reader, token);
        follower.keep_others_out(&mut source).await?;
        while !follower.give_up(&mut source).await? {
            follower.wait_for_writers(&mut source, state.events, &mut tell).await?;
        }
        let any = ["preparing", "backlog", "following", "finishing"];
        let moved = import.follow_move(&follower.token, &any, None).await?;
        if !moved && !import.follow_move(&follower.token, &any, Some("ended")).await? {
            return Err(ImportError::Busy(options.name.clone()));
        }
        Ok(true)
    }
}

impl Import<'_> {
    pub(super) async fn follow(
        &self,
        source: &mut PgConnection,
        plain: &Reader,
        follow: ImportFollow,
        tell: &mut impl FnMut(u64, ImportStage),
    ) -> Result<Imported, ImportError> {
        if !plain.table.followable {
            let message =
                format!("{} cannot be followed: only a table can, and none that others inherit from", plain.table.name);
            return Err(ImportError::Invalid(message));
        }
        let token = Uuid::new_v4().simple().to_string();
        let state = self.follow_state(Some(&token)).await?;
        let busy = || ImportError::Busy(self.options.name.clone());
        let token = state.token.ok_or_else(busy)?;
        let reader = Reader::new(source, self.options, Some(&token)).await?;
        let mut follower = Follower::new(self, &reader, token);
        follower.keep_others_out(source).await?;
        // Another run may have moved it in the meantime.
        let state = self.follow_state(None).await?;
        if state.token.as_deref() != Some(&follower.token) {
            return Err(busy());
        }
        follower.batch = state.batch;
        let mut events = state.events;
        if follower.resume(source, &state, events, tell).await? {
            events = follower.read_backlog(source, state, tell).await?;
            events = follower.run(source, follow, events, tell).await?;
        }
        let mut imported = Imported::new(events, String::new());
        if follow == ImportFollow::Finish {
            tell(events, ImportStage::SwitchedOver);
            self.carry(source, &mut imported).await?;
        }
        tell(events, ImportStage::Verifying);
        let reader = if follow == ImportFollow::Finish { plain } else { &reader };
        imported.checksum = self.verify(source, reader).await?;
        Ok(imported)
    }

    async fn follow_move(&self, token: &str, from: &[&str], to: Option<&str>) -> Result<bool, ImportError> {
        let moved = sqlx::query(sql::import::IMPORT_FOLLOW_MOVE)
            .bind(self.id())
            .bind(&self.options.name)
            .bind(token)
            .bind(from)
            .bind(to);
        Ok(self.row(moved).await?.get(0))
    }
}

/// A run that follows.
struct Follower<'a> {
    import: &'a Import<'a>,
    reader: &'a Reader,
    notes: &'a NoteTexts,
    token: String,
    /// The number of the last batch that was imported.
    batch: i64,
    /// Writers for which a round waited in vain.
    slow: Vec<String>,
}

impl<'a> Follower<'a> {
    fn new(import: &'a Import<'a>, reader: &'a Reader, token: String) -> Self {
        let notes = reader.notes.as_ref().expect("a reader that was made with a token");
        Follower { import, reader, notes, token, batch: 0, slow: Vec::new() }
    }

    fn name(&self) -> &str {
        &self.import.options.name
    }

    async fn keep_others_out(&self, source: &mut PgConnection) -> Result<(), ImportError> {
        let mut key = [0; 8];
        let token = Uuid::parse_str(&self.token).map_err(|error| ImportError::Invalid(error.to_string()))?;
        key.copy_from_slice(&token.as_bytes()[..8]);
        let until = Instant::now() + OTHERS_END;
        loop {
            let locked =
                sqlx::query(sql::import::NOTES_LOCK).bind(i64::from_be_bytes(key)).fetch_one(&mut *source).await;
            if locked.map_err(ImportError::source)?.get("locked") {
                return Ok(());
            } else if Instant::now() >= until {
                return Err(ImportError::Busy(self.name().into()));
            }
            sleep(POLL).await;
        }
    }

    async fn move_to(&self, from: &[&str], to: &str) -> Result<(), ImportError> {
        let moved = self.import.follow_move(&self.token, from, Some(to)).await?;
        if moved { Ok(()) } else { Err(ImportError::Busy(self.name().into())) }
    }

    /// Brings the source into the state that the import has; `false`: everything is done.
    async fn resume(
        &self,
        source: &mut PgConnection,
        state: &State,
        events: u64,
        tell: &mut impl FnMut(u64, ImportStage),
    ) -> Result<bool, ImportError> {
        let there = sqlx::query(sql::import::NOTES_THERE)
            .bind(&self.notes.table)
            .bind(&self.reader.table.name)
            .bind(&self.notes.trigger)
            .fetch_one(&mut *source)
            .await
            .map_err(ImportError::source)?;
        let (notes, trigger) = (there.get::<bool, _>("notes"), there.get::<bool, _>("trigger"));
        match state.state.as_deref() {
            Some("preparing") => {
                if !notes {
                    self.prepare(source, events, tell).await?;
                }
                self.move_to(&["preparing"], "backlog").await?;
            }
            // The last run removed them, and was killed before it could record that.
            Some("finishing") if !notes && !trigger => {
                self.move_to(&["finishing"], "ended").await?;
                return Ok(false);
            }
            _ if !notes || !trigger => {
                let (table, trigger) = (self.reader.table.name.clone(), self.notes.trigger.clone());
                return Err(ImportError::TriggerGone { table, trigger });
            }
            _ => Reader::forget(source, self.notes, &state.notes).await?,
        }
        Ok(true)
    }

    /// Creates the notes and the trigger.
    async fn prepare(
        &self,
        source: &mut PgConnection,
        events: u64,
        tell: &mut impl FnMut(u64, ImportStage),
    ) -> Result<(), ImportError> {
        loop {
            let mut tx = locking(source).await?;
            match sqlx::raw_sql(AssertSqlSafe(self.notes.make.clone())).execute(&mut *tx).await {
                Ok(_) => return tx.commit().await.map_err(ImportError::source),
                Err(error) if is(&error, LOCK_NOT_AVAILABLE) => {
                    tx.rollback().await.map_err(ImportError::source)?;
                    self.wait_for_writers(source, events, tell).await?;
                }
                Err(error) if is(&error, INSUFFICIENT_PRIVILEGE) => {
                    let table = &self.reader.table;
                    let reason = error.as_database_error().map(|error| error.message().to_owned()).unwrap_or_default();
                    return Err(ImportError::MayNotFollow {
                        table: table.name.clone(),
                        schema: table.schema.clone(),
                        reason,
                    });
                }
                Err(error) => return Err(ImportError::source(error)),
            }
        }
    }

    /// Reports who uses the table, and waits a little.
    async fn wait_for_writers(
        &self,
        source: &mut PgConnection,
        events: u64,
        tell: &mut impl FnMut(u64, ImportStage),
    ) -> Result<(), ImportError> {
        if let Some((_, pid, seconds)) = self.writers(source).await?.first() {
            tell(events, ImportStage::Waiting { pid: *pid, seconds: u64::try_from(*seconds).unwrap_or_default() });
        }
        sleep(BETWEEN_ATTEMPTS).await;
        Ok(())
    }

    /// Lists the open transactions that have written to the table, oldest first: name, backend, age
    /// in seconds.
    async fn writers(&self, source: &mut PgConnection) -> Result<Vec<(String, i32, i64)>, ImportError> {
        let writers = sqlx::query_as(sql::import::SOURCE_WRITERS).bind(&self.reader.table.name).fetch_all(source).await;
        writers.map_err(ImportError::source)
    }

    /// Imports the rows that are older than the trigger, and checks that all of them were imported.
    async fn read_backlog(
        &mut self,
        source: &mut PgConnection,
        state: State,
        tell: &mut impl FnMut(u64, ImportStage),
    ) -> Result<u64, ImportError> {
        let State { mut cursor, mut events, state, .. } = state;
        if !matches!(state.as_deref(), Some("preparing" | "backlog")) {
            return Ok(events);
        }
        while let Some(batch) = self.reader.page(source, cursor.as_deref(), self.name()).await? {
            self.store(&batch).await?;
            events += batch.len() as u64;
            cursor = batch.cursor;
            tell(events, ImportStage::Reading);
        }
        // An earlier run that did not follow may have missed rows.
        self.import.verify(source, self.reader).await?;
        self.move_to(&["backlog"], "following").await?;
        Ok(events)
    }

    /// Imports rows by their notes.
    async fn run(
        &mut self,
        source: &mut PgConnection,
        follow: ImportFollow,
        mut events: u64,
        tell: &mut impl FnMut(u64, ImportStage),
    ) -> Result<u64, ImportError> {
        tell(events, ImportStage::Following);
        loop {
            let before = events;
            events = self.round(source, events, tell).await?;
            let is_near = events - before < u64::from(self.import.options.batch);
            match follow {
                ImportFollow::Forever if before == events => sleep(POLL).await,
                ImportFollow::UntilCaughtUp if is_near => return Ok(events),
                ImportFollow::Finish if is_near => {
                    self.move_to(&["following", "finishing"], "finishing").await?;
                    if self.finish(source, &mut events, tell).await? {
                        self.move_to(&["finishing"], "ended").await?;
                        return Ok(events);
                    }
                }
                _ => {}
            }
        }
    }

    /// Imports all rows up to the last one that exists now.
    async fn round(
        &mut self,
        source: &mut PgConnection,
        mut events: u64,
        tell: &mut impl FnMut(u64, ImportStage),
    ) -> Result<u64, ImportError> {
        let Some(last) = Reader::last_noted(source, self.notes).await? else { return Ok(events) };
        self.let_writers_end(source).await?;
        while let Some(batch) = self.reader.noted(source, self.notes, Some(&last), self.name()).await? {
            self.store(&batch).await?;
            Reader::forget(source, self.notes, &batch.notes).await?;
            events += batch.len() as u64;
            tell(events, ImportStage::Following);
        }
        Ok(events)
    }

    /// Transactions that write now may have rows that come before the last visible one. This waits
    /// for each of them once.
    async fn let_writers_end(&mut self, source: &mut PgConnection) -> Result<(), ImportError> {
        let writers = self.writers(source).await?.into_iter().map(|(writer, ..)| writer);
        let (slow, others): (Vec<_>, Vec<_>) = writers.partition(|writer| self.slow.contains(writer));
        self.slow = slow;
        let until = Instant::now() + PATIENCE;
        let mut pauses = Backoff::new(Duration::from_millis(1), POLL);
        while !others.is_empty() {
            let left = sqlx::query(sql::import::SOURCE_WRITERS_LEFT).bind(&others).fetch_one(&mut *source).await;
            if !left.map_err(ImportError::source)?.get::<bool, _>("open") {
                break;
            } else if Instant::now() >= until {
                self.slow.extend(others);
                break;
            }
            sleep(pauses.pause()).await;
        }
        Ok(())
    }

    async fn store(&mut self, batch: &Batch) -> Result<(), ImportError> {
        if batch.len() > 0 {
            self.import.store(batch, Move::Batch { token: &self.token, from: self.batch }).await?;
            self.batch += 1;
        }
        Ok(())
    }

    /// Removes the trigger and imports the last rows; `false`: there are more rows, or somebody is
    /// writing.
    async fn finish(
        &mut self,
        source: &mut PgConnection,
        events: &mut u64,
        tell: &mut impl FnMut(u64, ImportStage),
    ) -> Result<bool, ImportError> {
        let mut tx = locking(source).await?;
        if !self.locks(&mut tx, &[&self.notes.drop_trigger, &self.notes.keep]).await? {
            tx.rollback().await.map_err(ImportError::source)?;
            self.wait_for_writers(source, *events, tell).await?;
            return Ok(false);
        }
        // Nobody can write now. The deletion of notes counts only if this transaction commits, so
        // what is left must fit in one batch.
        if let Some(rest) = self.reader.noted(&mut tx, self.notes, None, self.name()).await? {
            if rest.notes.len() > self.import.options.batch as usize || rest.is_full() {
                tx.rollback().await.map_err(ImportError::source)?;
                return Ok(false);
            }
            self.store(&rest).await?;
            *events += rest.len() as u64;
        }
        self.locks(&mut tx, &[&self.notes.drop]).await?;
        tx.commit().await.map_err(ImportError::source)?;
        Ok(true)
    }

    /// Removes the trigger and the notes as they are; `false`: somebody is writing.
    async fn give_up(&self, source: &mut PgConnection) -> Result<bool, ImportError> {
        let mut tx = locking(source).await?;
        let locked = self.locks(&mut tx, &[&self.notes.drop_trigger, &self.notes.drop]).await?;
        if locked { tx.commit().await } else { tx.rollback().await }.map_err(ImportError::source)?;
        Ok(locked)
    }

    /// Runs statements that take locks; `false`: somebody holds one of them.
    async fn locks(&self, tx: &mut PgConnection, texts: &[&String]) -> Result<bool, ImportError> {
        for text in texts {
            match sqlx::raw_sql(AssertSqlSafe((*text).clone())).execute(&mut *tx).await {
                Ok(_) => {}
                Err(error) if is(&error, LOCK_NOT_AVAILABLE) => return Ok(false),
                Err(error) => return Err(ImportError::source(error)),
            }
        }
        Ok(true)
    }
}

const LOCK_NOT_AVAILABLE: &str = "55P03";
const INSUFFICIENT_PRIVILEGE: &str = "42501";

fn is(error: &sqlx::Error, code: &str) -> bool {
    error.as_database_error().and_then(|error| error.code()).is_some_and(|there| there == code)
}

/// Begins a transaction that locks the table: it does not wait for long, and does not make others
/// wait for long.
async fn locking(source: &mut PgConnection) -> Result<Transaction<'_, Postgres>, ImportError> {
    let mut tx = source.begin().await.map_err(ImportError::source)?;
    sqlx::raw_sql(sql::import::SOURCE_LOCKING).execute(&mut *tx).await.map_err(ImportError::source)?;
    Ok(tx)
}
