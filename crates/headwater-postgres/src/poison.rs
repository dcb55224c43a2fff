//! Rows of the log that cannot be turned into events.
//!
//! They hold nobody up: whoever reads the log notes them, with the error, and steps over them as over a permanent gap. Whoever repairs the row has it
//! delivered late to those that are past it.

use chrono::{DateTime, Utc};
use headwater_core::{AdminError, NamespaceInfo, ReadError};
use serde::Serialize;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use crate::error::{admin_error, read_error};
use crate::months::Months;
use crate::namespaces::of_read;
use crate::{Database, sql};

/// A row of the log that cannot be turned into an event.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PoisonEvent {
    /// Its place in the log.
    pub global_sequence: u64,
    /// Why it is no event.
    pub error: String,
    /// When it was found.
    pub found_at: DateTime<Utc>,
    /// When it was given to be delivered after all.
    pub redelivered_at: Option<DateTime<Utc>>,
}

/// What a page holds that is no event.
#[derive(Debug, Default)]
pub(crate) struct Poisoned {
    sequences: Vec<i64>,
    errors: Vec<String>,
}

impl Poisoned {
    /// Notes a row; fails if not even its place can be told.
    pub(crate) fn add(&mut self, row: &PgRow, error: &ReadError) -> Result<u64, ReadError> {
        let sequence: i64 = row.try_get(0).map_err(read_error)?;
        self.sequences.push(sequence);
        self.errors.push(error.to_string());
        Ok(sequence as u64)
    }

    /// Writes it down. Until that has worked, nobody steps over them.
    pub(crate) async fn note(self, conn: &mut PgConnection, info: &NamespaceInfo) -> Result<(), ReadError> {
        if self.sequences.is_empty() {
            return Ok(());
        }
        let new: i32 = sqlx::query_scalar(sql::NOTE_POISON)
            .bind(&info.name)
            .bind(&self.sequences)
            .bind(&self.errors)
            .fetch_one(conn)
            .await
            .map_err(read_error)?;
        if new > 0 {
            tracing::error!(namespace = info.name, sequences = ?self.sequences, errors = ?self.errors, "the log has rows that are no events: they are stepped over");
        }
        Ok(())
    }
}

impl Database {
    /// Rows of a namespace's log that cannot be turned into events, the first one first; with those that were redelivered, if asked for.
    pub async fn poison(&self, namespace: &str, redelivered: bool, limit: u32) -> Result<Vec<PoisonEvent>, AdminError> {
        let info = self.namespace(namespace).await?;
        let mut conn = self.pin().await.map_err(admin_error)?;
        let rows = sqlx::query(sql::POISON)
            .bind(i32::from(info.id))
            .bind(redelivered)
            .bind(i64::from(limit))
            .fetch_all(&mut *conn)
            .await
            .map_err(admin_error);
        let poison = |row: &PgRow| PoisonEvent {
            global_sequence: row.get::<i64, _>("global_sequence") as u64,
            error: row.get("error"),
            found_at: row.get("found_at"),
            redelivered_at: row.get("redelivered_at"),
        };
        Ok(conn.end(rows, admin_error).await?.iter().map(poison).collect())
    }

    /// Has an event delivered that was poison and has been repaired, to whoever is past it: late, and in a new term. Answers how many will be told.
    pub async fn redeliver_poison(&self, namespace: &str, global_sequence: u64) -> Result<u32, AdminError> {
        let info = self.namespace(namespace).await?;
        let mut conn = self.pin().await.map_err(admin_error)?;
        let sequence = i64::try_from(global_sequence).unwrap_or(i64::MAX);
        let readable = self.is_readable(&mut conn, &info, sequence).await;
        let told = match readable {
            Ok(()) => {
                let statement = sqlx::query_scalar::<_, i32>(sql::REDELIVER_POISON).bind(namespace).bind(sequence);
                statement.fetch_one(&mut *conn).await.map_err(admin_error)
            }
            Err(error) => Err(error),
        };
        conn.end(told, admin_error).await.map(|told| told as u32)
    }

    /// Whether the row is an event by now.
    async fn is_readable(
        &self,
        conn: &mut PgConnection,
        info: &NamespaceInfo,
        sequence: i64,
    ) -> Result<(), AdminError> {
        // What is trimmed is no event any more, though its month may still be there.
        let months = Months::load(&mut *conn, i32::from(info.id)).await.map_err(of_read)?;
        let bounds = months.forwards(sequence.unsigned_abs().saturating_sub(1), Some(sequence.unsigned_abs()), None);
        let row = sqlx::query(sql::GAP_EVENTS)
            .bind(i32::from(info.id))
            .bind(vec![sequence])
            .bind(vec![sequence])
            .bind(1)
            .bind(bounds.from)
            .bind(bounds.until)
            .fetch_optional(conn)
            .await
            .map_err(admin_error)?;
        let row = row.ok_or_else(|| AdminError::InvalidInput(format!("there is no event {sequence}")))?;
        crate::row::event(&row)
            .map(drop)
            .map_err(|error| AdminError::InvalidInput(format!("event {sequence} is not repaired: {error}")))
    }
}
