//! The inbox of a namespace: what whoever has its durable slot has stored, for all nodes.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use headwater_core::{Event, NamespaceInfo, ReadError};
use sqlx::Row;

use crate::error::read_error;
use crate::poison::Poisoned;
use crate::{Database, sql};

/// One row from the WAL, to be stored.
#[derive(Debug, Clone, PartialEq)]
pub struct InboxRow {
    /// Where its transaction ends in the WAL, and which of it it is.
    pub place: (u64, u32),
    /// Its place in the log, if that could be told.
    pub global_sequence: Option<u64>,
    /// The event; `None`: it is to be read from the log.
    pub event: Option<Event>,
    /// Why it is no event.
    pub error: Option<String>,
}

/// One row of the inbox, as nodes read it.
#[derive(Debug, Clone, PartialEq)]
pub struct Received {
    /// Its number: ascending in the order of commits.
    pub inbox_id: i64,
    /// The event; `None`: the log has to be read.
    pub event: Option<Event>,
}

/// The inbox of a namespace.
#[derive(Debug, Clone)]
pub struct PgInbox {
    database: Database,
    info: NamespaceInfo,
    slot: Arc<tokio::sync::OnceCell<String>>,
}

impl PgInbox {
    /// That of a namespace.
    pub fn new(database: Database, info: NamespaceInfo) -> Self {
        PgInbox { database, info, slot: Arc::default() }
    }

    /// The slot that fills it: named after the database too, since the names of slots are a server's.
    pub async fn slot(&self) -> Result<&str, ReadError> {
        let name = self.slot.get_or_try_init(|| async {
            let mut conn = self.database.pin().await.map_err(read_error)?;
            let oid = sqlx::query_scalar::<_, i64>(sql::DATABASE_OID).fetch_one(&mut *conn).await.map_err(read_error);
            let oid = conn.end(oid, read_error).await?;
            Ok(format!("headwater_n{}_d{oid}", self.info.id))
        });
        name.await.map(String::as_str)
    }

    /// Says who reads the slot. Answers whether what is in the inbox is of the same history; if not, it is gone.
    pub async fn begin(&self, system_identifier: &str, timeline: u32, node: &str) -> Result<bool, ReadError> {
        let slot = self.slot().await?;
        let mut conn = self.database.pin().await.map_err(read_error)?;
        let kept = sqlx::query_scalar(sql::CDC_BEGIN)
            .bind(&self.info.name)
            .bind(slot)
            .bind(system_identifier)
            .bind(timeline as i32)
            .bind(node)
            .fetch_one(&mut *conn)
            .await
            .map_err(read_error);
        conn.end(kept, read_error).await
    }

    /// Stores rows, durably, and wakes the nodes; what is there already stays. Answers how many are new.
    pub async fn receive(&self, rows: &[InboxRow]) -> Result<u32, ReadError> {
        let lsn = |lsn: u64| format!("{:X}/{:X}", lsn >> 32, lsn & 0xFFFF_FFFF);
        let event = |event: &Event| serde_json::to_string(event).ok();
        let slot = self.slot().await?;
        let mut conn = self.database.pin().await.map_err(read_error)?;
        let stored = sqlx::query_scalar::<_, i32>(sql::CDC_RECEIVE)
            .bind(&self.info.name)
            .bind(slot)
            .bind(rows.iter().map(|row| lsn(row.place.0)).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.place.1 as i32).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.global_sequence.map(|sequence| sequence as i64)).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.event.as_ref().and_then(event)).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.error.clone()).collect::<Vec<_>>())
            .fetch_one(&mut *conn)
            .await
            .map_err(read_error);
        conn.end(stored, read_error).await.map(|stored| stored as u32)
    }

    /// What was stored after a number, at most `limit` rows.
    pub async fn page(&self, after: i64, limit: u32) -> Result<Vec<Received>, ReadError> {
        let mut conn = self.database.pin().await.map_err(read_error)?;
        let rows = sqlx::query(sql::CDC_INBOX_PAGE)
            .bind(i32::from(self.info.id))
            .bind(after)
            .bind(i64::from(limit))
            .fetch_all(&mut *conn)
            .await
            .map_err(read_error);
        let received = |row: &sqlx::postgres::PgRow| {
            let event = row.get::<Option<&str>, _>("event").and_then(|event| serde_json::from_str(event).ok());
            Received { inbox_id: row.get("inbox_id"), event }
        };
        Ok(conn.end(rows, read_error).await?.iter().map(received).collect())
    }

    /// The number of the last row, and whether somebody reads the slot.
    pub async fn head(&self) -> Result<(i64, bool), ReadError> {
        let slot = self.slot().await?;
        let mut conn = self.database.pin().await.map_err(read_error)?;
        let row = sqlx::query(sql::CDC_INBOX_HEAD)
            .bind(i32::from(self.info.id))
            .bind(slot)
            .fetch_one(&mut *conn)
            .await
            .map_err(read_error);
        let row = conn.end(row, read_error).await?;
        Ok((row.get("head"), row.get("is_read")))
    }

    /// Marks what was dispatched, and removes what is older than `keep_for`. Answers how much was removed.
    pub async fn tidy(&self, up_to: i64, keep_for: Duration) -> Result<u32, ReadError> {
        let mut conn = self.database.pin().await.map_err(read_error)?;
        let removed = sqlx::query_scalar::<_, i32>(sql::CDC_TIDY)
            .bind(&self.info.name)
            .bind(up_to)
            .bind(keep_for.as_secs_f64())
            .fetch_one(&mut *conn)
            .await
            .map_err(read_error);
        conn.end(removed, read_error).await.map(|removed| removed as u32)
    }

    /// The event at a place of the log; an error that is no [`ReadError`] says why it is none: then it is noted as poison.
    pub async fn from_the_table(&self, global_sequence: u64) -> Result<Result<Option<Event>, String>, ReadError> {
        let mut conn = self.database.pin().await.map_err(read_error)?;
        let row = sqlx::query(sql::GAP_EVENTS)
            .bind(i32::from(self.info.id))
            .bind(vec![global_sequence as i64])
            .bind(vec![global_sequence as i64])
            .bind(1)
            .bind(None::<DateTime<Utc>>)
            .bind(None::<DateTime<Utc>>)
            .fetch_optional(&mut *conn)
            .await
            .map_err(read_error);
        let read = match row {
            Err(error) => Err(error),
            Ok(None) => Ok(Ok(None)),
            Ok(Some(row)) => match crate::row::event(&row) {
                Ok(event) => Ok(Ok(Some(event))),
                Err(error) => {
                    let mut poison = Poisoned::default();
                    let reason = error.to_string();
                    match poison.add(&row, &error) {
                        Ok(_) => poison.note(&mut conn, &self.info).await.map(|()| Err(reason)),
                        Err(error) => Err(error),
                    }
                }
            },
        };
        conn.end(read, read_error).await
    }
}
