//! The inbox of a namespace: what the owner of its durable slot has stored, for all nodes.
//!
//! The slot's row has the authority: who owns it, until when by the database's clock, in which term. Each write of an owner carries its term, and is refused
//! (WH040) when that is over.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures::TryStreamExt;
use headwater_core::{Event, History, Instance, NamespaceInfo, ReadError};
use sqlx::Row;

use crate::error::read_error;
use crate::number::{PgCount, PgSequence, bigint, int, milliseconds};
use crate::poison::Poisoned;
use crate::pooled::within;
use crate::{Database, sql};

/// A page ends when its events reach so many bytes: memory is bounded, whatever is in the inbox.
const PAGE_BYTES: usize = 8 * 1024 * 1024;

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

/// What is in the inbox after a number.
#[derive(Debug, Clone, PartialEq)]
pub struct InboxPage {
    /// In which term of the slot's owner that is.
    pub term: Option<i64>,
    /// Whether what commits comes into the inbox at once; else there is a backlog.
    pub caught_up: bool,
    /// The rows.
    pub rows: Vec<Received>,
    /// Whether there may be more at once.
    pub more: bool,
}

/// The inbox and its slot, as they are now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboxHead {
    /// The number of the last row.
    pub head: i64,
    /// The term of the slot's owner.
    pub term: i64,
    /// Who owns the slot, or did so last.
    pub owner_node: Option<String>,
    /// Whether the owner reads it, and has its lease.
    pub is_read: bool,
    /// Whether what commits comes into the inbox at once.
    pub caught_up: bool,
    /// Whether whoever asks could own it.
    pub is_takeable: bool,
}

/// A durable slot, by what may become of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotHealth {
    /// Who turns the WAL into messages, as it was made.
    pub plugin: Option<String>,
    /// `reserved` is well; `extended` and `unreserved` are on the way to `lost`.
    pub wal_status: Option<String>,
    /// So much more can be written before it may be lost; `None`: no limit.
    pub safe_wal_bytes: Option<i64>,
    /// So much WAL the server keeps for it.
    pub retained_bytes: i64,
    /// How much WAL a slot may make the server keep; `None`: all of it.
    pub keep_bytes: Option<i64>,
    /// Whether somebody reads it.
    pub active: bool,
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
            let oid = within(
                self.database.call_timeout,
                sqlx::query_scalar::<_, i64>(sql::DATABASE_OID).fetch_one(&mut *conn),
            )
            .await
            .map_err(read_error);
            let oid = conn.end(oid, read_error).await?;
            Ok(format!("headwater_n{}_d{oid}", self.info.id))
        });
        name.await.map(String::as_str)
    }

    /// Wishes to own the slot (`term` is `None`), or to go on owning it. Answers in which term it does, if it does; and with the end of the WAL.
    pub async fn own(
        &self,
        owner: &Instance,
        term: Option<i64>,
        lease: Duration,
    ) -> Result<(Option<i64>, u64), ReadError> {
        let slot = self.slot().await?;
        let mut conn = self.database.pin().await.map_err(read_error)?;
        let owned = within(
            self.database.call_timeout,
            sqlx::query_as::<_, (Option<i64>, PgSequence)>(sql::CDC_OWN)
                .bind(&self.info.name)
                .bind(slot)
                .bind(&owner.node)
                .bind(owner.incarnation)
                .bind(term)
                .bind(milliseconds(lease))
                .fetch_one(&mut *conn),
        )
        .await
        .map_err(read_error);
        conn.end(owned, read_error).await.map(|(term, wal_end)| (term, wal_end.0))
    }

    /// Says that the owner reads the slot. Answers whether what is in the inbox is of the same history (if not, it is gone), and with the end of the WAL:
    /// what comes up to there is a backlog.
    pub async fn begin(
        &self,
        term: i64,
        history: Option<History>,
        system_identifier: &str,
        timeline: u32,
    ) -> Result<(bool, u64), ReadError> {
        let slot = self.slot().await?;
        let mut conn = self.database.pin().await.map_err(read_error)?;
        let begun = within(
            self.database.call_timeout,
            sqlx::query_as::<_, (bool, PgSequence)>(sql::CDC_BEGIN)
                .bind(&self.info.name)
                .bind(slot)
                .bind(term)
                .bind(system_identifier)
                .bind(int(timeline))
                .bind(history.map(History::id))
                .fetch_one(&mut *conn),
        )
        .await
        .map_err(read_error);
        conn.end(begun, read_error).await.map(|(kept, wal_end)| (kept, wal_end.0))
    }

    /// Says whether what commits comes into the inbox at once.
    pub async fn set_caught_up(&self, term: i64, caught_up: bool) -> Result<(), ReadError> {
        let mut conn = self.database.pin().await.map_err(read_error)?;
        let said = sqlx::query(sql::CDC_CAUGHT_UP).bind(&self.info.name).bind(term).bind(caught_up);
        let said = within(self.database.call_timeout, said.execute(&mut *conn)).await.map(drop).map_err(read_error);
        conn.end(said, read_error).await
    }

    /// Gives the slot up. Answers whether it was this term's still.
    pub async fn release(&self, term: i64) -> Result<bool, ReadError> {
        let mut conn = self.database.pin().await.map_err(read_error)?;
        let released = sqlx::query_scalar(sql::CDC_RELEASE).bind(&self.info.name).bind(term);
        let released = within(self.database.call_timeout, released.fetch_one(&mut *conn)).await.map_err(read_error);
        conn.end(released, read_error).await
    }

    /// Ends the session of a former owner that reads the slot still. Answers whether that was done: the role may not be allowed to.
    pub async fn evict(&self, term: i64) -> Result<bool, ReadError> {
        let slot = self.slot().await?;
        let mut conn = self.database.pin().await.map_err(read_error)?;
        let evicted = sqlx::query_scalar(sql::CDC_EVICT).bind(&self.info.name).bind(slot).bind(term);
        let evicted = within(self.database.call_timeout, evicted.fetch_one(&mut *conn)).await.map_err(read_error);
        conn.end(evicted, read_error).await
    }

    /// Stores rows that came in a history (`None`: any), durably, for the owner, and wakes the nodes; what is there already stays. Answers how many are new.
    pub async fn receive(&self, term: i64, history: Option<History>, rows: &[InboxRow]) -> Result<u32, ReadError> {
        let lsn = |lsn: u64| format!("{:X}/{:X}", lsn >> 32, lsn & 0xFFFF_FFFF);
        let event = |event: &Event| serde_json::to_string(event).ok();
        let sequences = rows.iter().map(|row| row.global_sequence.map(bigint).transpose());
        let sequences = sequences.collect::<Result<Vec<_>, _>>()?;
        let slot = self.slot().await?;
        let mut conn = self.database.pin().await.map_err(read_error)?;
        let stored = within(
            self.database.call_timeout,
            sqlx::query_scalar(sql::CDC_RECEIVE)
                .bind(&self.info.name)
                .bind(slot)
                .bind(term)
                .bind(rows.iter().map(|row| lsn(row.place.0)).collect::<Vec<_>>())
                .bind(rows.iter().map(|row| int(row.place.1)).collect::<Vec<_>>())
                .bind(sequences)
                .bind(rows.iter().map(|row| row.event.as_ref().and_then(event)).collect::<Vec<_>>())
                .bind(rows.iter().map(|row| row.error.clone()).collect::<Vec<_>>())
                .bind(history.map(History::id))
                .fetch_one(&mut *conn),
        )
        .await
        .map_err(read_error);
        conn.end(stored, read_error).await.map(|PgCount(stored)| stored)
    }

    /// What was stored after a number, at most `limit` rows, and fewer if they are large, read in a history (`None`: any).
    pub async fn page(&self, history: Option<History>, after: i64, limit: u32) -> Result<InboxPage, ReadError> {
        let mut conn = self.database.pin().await.map_err(read_error)?;
        let page = async {
            let mut page = InboxPage { term: None, caught_up: false, rows: Vec::new(), more: false };
            let (mut bytes, mut count) = (0, 0);
            let query = sqlx::query(sql::CDC_INBOX_PAGE).bind(self.info.id).bind(after);
            let mut rows = query.bind(i64::from(limit)).bind(history.map(History::id)).fetch(&mut *conn);
            while let Some(row) = rows.try_next().await? {
                page.term = row.get("term");
                page.caught_up = row.get::<Option<bool>, _>("caught_up").unwrap_or_default();
                let Some(inbox_id) = row.get::<Option<i64>, _>("inbox_id") else { continue };
                let text = row.get::<Option<&str>, _>("event").unwrap_or_default();
                page.rows.push(Received { inbox_id, event: serde_json::from_str(text).ok() });
                (bytes, count) = (bytes + text.len(), count + 1);
                page.more = bytes >= PAGE_BYTES || count >= limit;
                if page.more {
                    break;
                }
            }
            Ok(page)
        };
        let page = within(self.database.call_timeout, page).await.map_err(read_error);
        conn.end(page, read_error).await
    }

    /// The end of the inbox, and what becomes of its slot.
    pub async fn head(&self, asking: &Instance) -> Result<InboxHead, ReadError> {
        let slot = self.slot().await?;
        let mut conn = self.database.pin().await.map_err(read_error)?;
        let row = within(
            self.database.call_timeout,
            sqlx::query(sql::CDC_INBOX_HEAD)
                .bind(self.info.id)
                .bind(slot)
                .bind(asking.incarnation)
                .fetch_one(&mut *conn),
        )
        .await
        .map_err(read_error);
        let row = conn.end(row, read_error).await?;
        Ok(InboxHead {
            head: row.get("head"),
            term: row.get("term"),
            owner_node: row.get("owner_node"),
            is_read: row.get("is_read"),
            caught_up: row.get("caught_up"),
            is_takeable: row.get("is_takeable"),
        })
    }

    /// Marks, for the owner, what was dispatched, above what was marked before, and removes what is older than `keep_for`. Answers how much was removed.
    pub async fn tidy(&self, term: i64, above: i64, up_to: i64, keep_for: Duration) -> Result<u32, ReadError> {
        let mut conn = self.database.pin().await.map_err(read_error)?;
        let removed = within(
            self.database.call_timeout,
            sqlx::query_scalar(sql::CDC_TIDY)
                .bind(&self.info.name)
                .bind(term)
                .bind(above)
                .bind(up_to)
                .bind(keep_for.as_secs_f64())
                .fetch_one(&mut *conn),
        )
        .await
        .map_err(read_error);
        conn.end(removed, read_error).await.map(|PgCount(removed)| removed)
    }

    /// The slot, by what may become of it; `None`: there is none.
    pub async fn health(&self) -> Result<Option<SlotHealth>, ReadError> {
        let slot = self.slot().await?;
        let mut conn = self.database.pin().await.map_err(read_error)?;
        let row =
            within(self.database.call_timeout, sqlx::query(sql::CDC_SLOT_HEALTH).bind(slot).fetch_optional(&mut *conn))
                .await
                .map_err(read_error);
        let health = |row: sqlx::postgres::PgRow| SlotHealth {
            plugin: row.get("plugin"),
            wal_status: row.get("wal_status"),
            safe_wal_bytes: row.get("safe_wal_size"),
            retained_bytes: row.get::<Option<i64>, _>("retained_bytes").unwrap_or_default(),
            keep_bytes: Some(row.get::<i64, _>("keep_bytes")).filter(|bytes| *bytes >= 0),
            active: row.get("active"),
        };
        Ok(conn.end(row, read_error).await?.map(health))
    }

    /// The event at a place of the log; an error that is no [`ReadError`] says why it is none: then it is noted as poison.
    pub async fn from_the_table(
        &self,
        history: Option<History>,
        global_sequence: u64,
    ) -> Result<Result<Option<Event>, String>, ReadError> {
        let sequence = bigint(global_sequence)?;
        let mut conn = self.database.pin().await.map_err(read_error)?;
        let row = within(
            self.database.call_timeout,
            sqlx::query(sql::GAP_EVENTS)
                .bind(self.info.id)
                .bind(vec![sequence])
                .bind(vec![sequence])
                .bind(1)
                .bind(None::<DateTime<Utc>>)
                .bind(None::<DateTime<Utc>>)
                .bind(history.map(History::id))
                .fetch_optional(&mut *conn),
        )
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
