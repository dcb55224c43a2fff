//! A whole namespace as JSON lines: exported from one database, and imported into another one, or
//! into the same one under another name.
//!
//! An export is one snapshot. The first line has the settings of the namespace. The last line says
//! how many lines there are, so a file that was cut off is noticed. An import is one transaction:
//! everything or nothing. The database writes and reads the lines. This code passes them on, and
//! holds at most one batch of them.

use std::io;

use futures::TryStreamExt;
use headwater_core::{AdminError, NamespaceInfo};
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Row};

use crate::admin::namespaces::namespace_info;
use crate::database::error::admin_error;
use crate::database::number::{bound, sequence};
use crate::{Database, sql};

/// Events per call of an export.
const PAGE: i32 = 1_000;
/// Most lines and bytes per call of an import.
const BATCH_LINES: usize = 1_000;
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// What an export or import of a namespace transferred.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Transferred {
    /// How many events.
    pub events: u64,
    /// How many other rows: streams, subscribers, dead letters, schedules and so on.
    pub rows: u64,
}

/// Why an export or import of a namespace failed. A failed import leaves nothing behind.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// The database refused it, or failed.
    #[error(transparent)]
    Database(#[from] AdminError),
    /// The lines could not be written or read.
    #[error("failed to write or read the export: {0}")]
    File(#[from] io::Error),
}

impl Database {
    /// Renames a namespace. While nodes or leases are alive it is refused, unless `force` is set:
    /// running programs know the old name, and fail.
    pub async fn rename_namespace(&self, name: &str, new_name: &str, force: bool) -> Result<NamespaceInfo, AdminError> {
        self.require_migrated().await?;
        let mut conn = self.pin().await.map_err(admin_error)?;
        let statement = sqlx::query(sql::admin::RENAME_NAMESPACE).bind(name).bind(new_name).bind(force);
        let row = statement.fetch_one(&mut *conn).await.map_err(admin_error);
        namespace_info(&conn.end(row, admin_error).await.map_err(taken)?)
    }

    /// Writes a namespace as JSON lines, each without its line end, as one snapshot shows it:
    /// settings, events, streams, subscribers, dead letters, schedules and events that are not due
    /// yet. It does not include what open transactions commit later.
    pub async fn export_namespace(
        &self,
        name: &str,
        mut write: impl FnMut(&str) -> io::Result<()>,
    ) -> Result<Transferred, TransferError> {
        self.require_migrated().await?;
        let mut conn = self.session().await.map_err(admin_error)?;
        let mut done = Transferred::default();
        let mut tx = conn.begin_with(sql::session::BEGIN_SNAPSHOT).await.map_err(admin_error)?;
        let mut rows = sqlx::query_scalar::<_, String>(sql::import::EXPORT_ROWS).bind(name).fetch(&mut *tx);
        let mut is_first = true;
        while let Some(line) = rows.try_next().await.map_err(admin_error)? {
            write(&line)?;
            // The first line is the namespace itself.
            done.rows += u64::from(!is_first);
            is_first = false;
        }
        drop(rows);
        let mut after = 0_i64;
        loop {
            let mut page = sqlx::query(sql::import::EXPORT_EVENTS).bind(name).bind(after).bind(PAGE).fetch(&mut *tx);
            let before = done.events;
            while let Some(row) = page.try_next().await.map_err(admin_error)? {
                after = row.get("global_sequence");
                write(row.get("line"))?;
                done.events += 1;
            }
            if done.events - before < PAGE.unsigned_abs().into() {
                break;
            }
        }
        write(&format!(r#"{{"kind": "end", "events": {}, "rows": {}}}"#, done.events, done.rows))?;
        tx.rollback().await.map_err(admin_error)?;
        conn.close().await.map_err(admin_error)?;
        Ok(done)
    }

    /// Creates a namespace from the lines of an export, under its own name or another one, which
    /// must not exist yet. It imports everything or nothing.
    pub async fn import_namespace(
        &self,
        lines: impl IntoIterator<Item = io::Result<String>>,
        new_name: Option<&str>,
    ) -> Result<(NamespaceInfo, Transferred), TransferError> {
        self.require_migrated().await?;
        let mut conn = self.session().await.map_err(admin_error)?;
        let mut tx = conn.begin().await.map_err(admin_error)?;
        let mut lines = lines.into_iter();
        let header = lines.next().transpose()?.unwrap_or_default();
        let name: String = sqlx::query_scalar(sql::import::IMPORT_NAMESPACE)
            .bind(header)
            .bind(new_name)
            .fetch_one(&mut *tx)
            .await
            .map_err(|error| taken(admin_error(error)))?;
        let mut import =
            Import { name, first_line: 2, lines: Vec::new(), bytes: 0, ending: None, done: Transferred::default() };
        for line in lines {
            import.add(&mut tx, line?).await?;
        }
        import.flush(&mut tx).await?;
        let row = sqlx::query(sql::import::IMPORT_FINISH)
            .bind(&import.name)
            .bind(&import.ending)
            .bind(bound(import.done.events))
            .bind(bound(import.done.rows))
            .fetch_one(&mut *tx)
            .await
            .map_err(admin_error)?;
        tx.commit().await.map_err(admin_error)?;
        conn.close().await.map_err(admin_error)?;
        Ok((namespace_info(&row)?, import.done))
    }
}

/// Says that another namespace has the new name.
fn taken(error: AdminError) -> AdminError {
    match error {
        AdminError::NamespaceDiffers(name) => {
            AdminError::InvalidInput(format!("namespace {name:?} exists already: choose another name"))
        }
        error => error,
    }
}

/// An import under way: the lines of the next call, and what the earlier calls imported.
struct Import {
    name: String,
    /// The number of the first of `lines` in the file.
    first_line: i64,
    lines: Vec<String>,
    bytes: usize,
    /// The last line of the export, once it was read.
    ending: Option<String>,
    done: Transferred,
}

impl Import {
    async fn add(&mut self, conn: &mut PgConnection, line: String) -> Result<(), AdminError> {
        self.bytes += line.len();
        self.lines.push(line);
        if self.lines.len() >= BATCH_LINES || self.bytes >= BATCH_BYTES {
            self.flush(conn).await?;
        }
        Ok(())
    }

    async fn flush(&mut self, conn: &mut PgConnection) -> Result<(), AdminError> {
        if self.lines.is_empty() {
            return Ok(());
        }
        let statement = sqlx::query(sql::import::IMPORT_LINES).bind(&self.name).bind(&self.lines).bind(self.first_line);
        let row = statement.fetch_one(conn).await.map_err(admin_error)?;
        self.done.events += sequence(&row, "events").map_err(admin_error)?;
        self.done.rows += sequence(&row, "rows").map_err(admin_error)?;
        self.ending = row.get::<Option<String>, _>("ending").or(self.ending.take());
        self.first_line += bound(self.lines.len() as u64);
        self.lines.clear();
        self.bytes = 0;
        Ok(())
    }
}
