//! The inbox of a namespace: what the owner of its durable slot has stored, for all nodes.
//!
//! The slot's row has the authority: who owns the slot, until when by the database's clock, and in
//! which term. Each write of an owner carries its term, and is refused (WH040) when that term is
//! over.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures::TryStreamExt;
use headwater_core::{History, Instance, NamespaceInfo, ReadError, RecordedEvent};
use sqlx::Row;

use crate::database::acquire::within;
use crate::database::error::read_error;
use crate::database::number::{PgCount, PgSequence, bigint, int, milliseconds};
use crate::log::poison::Poisoned;
use crate::{Database, sql};

/// A page ends when its events reach this many bytes. So memory is bounded, whatever the inbox
/// holds.
const PAGE_BYTES: usize = 8 * 1024 * 1024;

/// A row from the WAL, to be stored.
#[derive(Debug, Clone, PartialEq)]
pub struct InboxRow {
    /// Where its transaction ends in the WAL, and its number in that transaction.
    pub place: (u64, u32),
    /// Its place in the log, if that is known.
    pub global_sequence: Option<u64>,
    /// The event; `None`: read it from the log.
    pub event: Option<RecordedEvent>,
    /// Why it could not be turned into an event.
    pub error: Option<String>,
}

/// A row of the inbox, as nodes read it.
#[derive(Debug, Clone, PartialEq)]
pub struct Received {
    /// Its number, ascending in commit order.
    pub inbox_id: i64,
    /// The event; `None`: the log has to be read.
    pub event: Option<RecordedEvent>,
}

/// What is in the inbox after a number.
#[derive(Debug, Clone, PartialEq)]
pub struct InboxPage {
    /// The present term of the slot's owner.
    pub term: Option<i64>,
    /// Whether commits reach the inbox at once. Otherwise there is a backlog.
    pub caught_up: bool,
    /// The rows.
    pub rows: Vec<Received>,
    /// Whether there may be more rows now.
    pub more: bool,
}

/// The present state of the inbox and its slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboxHead {
    /// The number of the last row.
    pub head: i64,
    /// The term of the slot's owner.
    pub term: i64,
    /// The node that owns the slot, or owned it last.
    pub owner_node: Option<String>,
    /// Whether the owner reads it, and has its lease.
    pub is_read: bool,
    /// Whether commits reach the inbox at once.
    pub caught_up: bool,
    /// Whether the calling instance could own it.
    pub is_takeable: bool,
}

/// The health of a durable slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotHealth {
    /// The plugin that turns the WAL into messages.
    pub plugin: Option<String>,
    /// `reserved` is fine; `extended` and `unreserved` are on the way to `lost`.
    pub wal_status: Option<String>,
    /// How much more WAL can be written before the slot may be lost; `None`: no limit.
    pub safe_wal_bytes: Option<i64>,
    /// How much WAL the server keeps for it.
    pub retained_bytes: i64,
    /// How much WAL a slot may make the server keep; `None`: no limit.
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
    /// Creates the inbox of a namespace.
    pub fn new(database: Database, info: NamespaceInfo) -> Self {
        PgInbox { database, info, slot: Arc::default() }
    }

    /// Returns the name of the slot that fills it. The name includes the database, because slot
    /// names are shared by the whole server.
    pub async fn slot(&self) -> Result<&str, ReadError> {
        let name = self.slot.get_or_try_init(|| async {
            let mut conn = self.database.pin().await.map_err(read_error)?;
            let oid = within(
                self.database.call_timeout,
                sqlx::query_scalar::<_, i64>(sql::admin::DATABASE_OID).fetch_one(&mut *conn),
            )
            .await
            .map_err(read_error);
            let oid = conn.end(oid, read_error).await?;
            Ok(format!("headwater_n{}_d{oid}", self.info.id))
        });
        name.await.map(String::as_str)
    }

    /// Asks to own the slot (`term` is `None`), or to keep owning it. Returns the term in which it
    /// is owned, if it is, and the end of the WAL.
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
            sqlx::query_as::<_, (Option<i64>, PgSequence)>(sql::cdc::CDC_OWN)
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

    /// Records that the owner reads the slot. Returns whether the inbox belongs to the same history
    /// (if not, it was emptied), and the end of the WAL: everything up to there is a backlog.
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
            sqlx::query_as::<_, (bool, PgSequence)>(sql::cdc::CDC_BEGIN)
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

    /// Records whether commits reach the inbox at once.
    pub async fn set_caught_up(&self, term: i64, caught_up: bool) -> Result<(), ReadError> {
        let mut conn = self.database.pin().await.map_err(read_error)?;
        let said = sqlx::query(sql::cdc::CDC_CAUGHT_UP).bind(&self.info.name).bind(term).bind(caught_up);
        let said = within(self.database.call_timeout, said.execute(&mut *conn)).await.map(drop).map_err(read_error);
        conn.end(said, read_error).await
    }

    /// Releases the slot. Returns whether this term still owned it.
    pub async fn release(&self, term: i64) -> Result<bool, ReadError> {
        let mut conn = self.database.pin().await.map_err(read_error)?;
        let released = sqlx::query_scalar(sql::cdc::CDC_RELEASE).bind(&self.info.name).bind(term);
        let released = within(self.database.call_timeout, released.fetch_one(&mut *conn)).await.map_err(read_error);
        conn.end(released, read_error).await
    }

    /// Ends the session of a former owner that still reads the slot. Returns whether it did: the
    /// role may not be allowed to.
    pub async fn evict(&self, term: i64) -> Result<bool, ReadError> {
        let slot = self.slot().await?;
        let mut conn = self.database.pin().await.map_err(read_error)?;
        let evicted = sqlx::query_scalar(sql::cdc::CDC_EVICT).bind(&self.info.name).bind(slot).bind(term);
        let evicted = within(self.database.call_timeout, evicted.fetch_one(&mut *conn)).await.map_err(read_error);
        conn.end(evicted, read_error).await
    }

    /// Stores rows that came in a history (`None`: any), durably, for the owner, and wakes the
    /// nodes. Rows that exist already stay unchanged. Returns how many are new.
    pub async fn receive(&self, term: i64, history: Option<History>, rows: &[InboxRow]) -> Result<u32, ReadError> {
        let lsn = |lsn: u64| format!("{:X}/{:X}", lsn >> 32, lsn & 0xFFFF_FFFF);
        let event = |event: &RecordedEvent| serde_json::to_string(event).ok();
        let sequences = rows.iter().map(|row| row.global_sequence.map(bigint).transpose());
        let sequences = sequences.collect::<Result<Vec<_>, _>>()?;
        let slot = self.slot().await?;
        let mut conn = self.database.pin().await.map_err(read_error)?;
        let stored = within(
            self.database.call_timeout,
            sqlx::query_scalar(sql::cdc::CDC_RECEIVE)
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

    /// Returns what was stored after a number, read in a history (`None`: any): at most `limit`
    /// rows, and fewer if they are large.
    pub async fn page(&self, history: Option<History>, after: i64, limit: u32) -> Result<InboxPage, ReadError> {
        let mut conn = self.database.pin().await.map_err(read_error)?;
        let page = async {
            let mut page = InboxPage { term: None, caught_up: false, rows: Vec::new(), more: false };
            let (mut bytes, mut count) = (0, 0);
            let query = sqlx::query(sql::cdc::CDC_INBOX_PAGE).bind(self.info.id).bind(after);
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

    /// Returns the end of the inbox, and the state of its slot.
    pub async fn head(&self, asking: &Instance) -> Result<InboxHead, ReadError> {
        let slot = self.slot().await?;
        let mut conn = self.database.pin().await.map_err(read_error)?;
        let row = within(
            self.database.call_timeout,
            sqlx::query(sql::cdc::CDC_INBOX_HEAD)
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

    /// Marks, for the owner, what was dispatched, above what was marked before. Removes what is
    /// older than `keep_for`, and returns how many rows it removed.
    pub async fn tidy(&self, term: i64, above: i64, up_to: i64, keep_for: Duration) -> Result<u32, ReadError> {
        let mut conn = self.database.pin().await.map_err(read_error)?;
        let removed = within(
            self.database.call_timeout,
            sqlx::query_scalar(sql::cdc::CDC_TIDY)
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

    /// Returns the health of the slot; `None`: there is no slot.
    pub async fn health(&self) -> Result<Option<SlotHealth>, ReadError> {
        let slot = self.slot().await?;
        let mut conn = self.database.pin().await.map_err(read_error)?;
        let row = within(
            self.database.call_timeout,
            sqlx::query(sql::cdc::CDC_SLOT_HEALTH).bind(slot).fetch_optional(&mut *conn),
        )
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

    /// Reads the event at a place of the log. The inner error says why the row cannot be turned
    /// into an event; the row is then noted as poison.
    pub async fn from_the_table(
        &self,
        history: Option<History>,
        global_sequence: u64,
    ) -> Result<Result<Option<RecordedEvent>, String>, ReadError> {
        let sequence = bigint(global_sequence)?;
        let mut conn = self.database.pin().await.map_err(read_error)?;
        let row = within(
            self.database.call_timeout,
            sqlx::query(sql::log::GAP_EVENTS)
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
            Ok(Some(row)) => match crate::log::row::event(&row) {
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
