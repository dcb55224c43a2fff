//! What following the WAL needs and leaves behind, for operators. The following itself is in
//! `headwater-cdc`.

use std::time::Duration;

use headwater_core::AdminError;
use serde::Serialize;
use sqlx::Row;

use crate::database::acquire::within;
use crate::database::error::{admin_error, sqlstate};
use crate::{Database, sql};

/// The prefix of Headwater's slot names.
const SLOTS: &str = "headwater_n";

/// One of Headwater's slots in this database.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReplicationSlot {
    /// Its name.
    pub slot: String,
    /// The plugin that turns the WAL into messages.
    pub plugin: String,
    /// Whether it is dropped with the session that reads it.
    pub temporary: bool,
    /// The process that reads it; `None`: nobody does.
    pub active_pid: Option<i32>,
    /// The application_name of that session: the namespace and the node.
    pub application_name: Option<String>,
    /// `reserved` is fine; `lost` cannot be repaired, and the next reader creates another slot.
    pub wal_status: Option<String>,
    /// How much more WAL can be written before the slot may be lost; `None`: no limit.
    pub safe_wal_bytes: Option<i64>,
    /// How much WAL the server keeps for it.
    pub retained_bytes: Option<i64>,
    /// How much WAL was not acknowledged.
    pub behind_bytes: Option<i64>,
}

/// What following the WAL needs from the server and from the role.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReplicationSettings {
    /// Must be `logical`.
    pub wal_level: String,
    /// How many slots the server allows.
    pub max_slots: i32,
    /// How many slots exist, in all databases.
    pub slots: i32,
    /// How many WAL senders the server allows.
    pub max_senders: i32,
    /// How many WAL senders run.
    pub senders: i32,
    /// How much WAL a slot may make the server keep; `None`: no limit.
    pub max_slot_wal_keep_bytes: Option<i64>,
    /// Whether the server is a standby.
    pub is_standby: bool,
    /// The calling role.
    pub role: String,
    /// Whether the role may replicate.
    pub may_replicate: bool,
    /// Whether the role may create publications of Headwater's tables.
    pub may_publish: bool,
    /// Namespaces without a publication. The first node that follows them creates it.
    pub not_published: Vec<String>,
}

/// A durable slot that nobody reads, and nobody will.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OrphanedSlot {
    /// Its name.
    pub slot: String,
    /// Its namespace, if that exists.
    pub namespace: Option<String>,
    /// Why nobody will read it.
    pub reason: String,
}

/// The result of dropping a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotDropped {
    /// The slot is gone.
    Dropped,
    /// There is no slot of this name.
    NotFound,
    /// Somebody reads it.
    InUse,
}

impl Database {
    /// Lists Headwater's slots in this database.
    pub async fn replication_slots(&self) -> Result<Vec<ReplicationSlot>, AdminError> {
        let mut conn = self.pin().await.map_err(admin_error)?;
        let rows = within(self.call_timeout, sqlx::query(sql::cdc::REPLICATION_SLOTS).fetch_all(&mut *conn))
            .await
            .map_err(admin_error);
        let slot = |row: &sqlx::postgres::PgRow| ReplicationSlot {
            slot: row.get("slot"),
            plugin: row.get("plugin"),
            temporary: row.get("temporary"),
            active_pid: row.get("active_pid"),
            application_name: row.get("application_name"),
            wal_status: row.get("wal_status"),
            safe_wal_bytes: row.get("safe_wal_size"),
            retained_bytes: row.get("retained_bytes"),
            behind_bytes: row.get("behind_bytes"),
        };
        Ok(conn.end(rows, admin_error).await?.iter().map(slot).collect())
    }

    /// Returns the present settings that following the WAL needs.
    pub async fn replication_settings(&self) -> Result<ReplicationSettings, AdminError> {
        self.require_migrated().await?;
        let mut conn = self.pin().await.map_err(admin_error)?;
        let row = within(self.call_timeout, sqlx::query(sql::cdc::REPLICATION_SETTINGS).fetch_one(&mut *conn))
            .await
            .map_err(admin_error);
        let row = conn.end(row, admin_error).await?;
        Ok(ReplicationSettings {
            wal_level: row.get("wal_level"),
            max_slots: row.get("max_slots"),
            slots: row.get("slots"),
            max_senders: row.get("max_senders"),
            senders: row.get("senders"),
            max_slot_wal_keep_bytes: Some(row.get::<i64, _>("max_slot_wal_keep_bytes")).filter(|bytes| *bytes >= 0),
            is_standby: row.get("is_standby"),
            role: row.get("role"),
            may_replicate: row.get("may_replicate"),
            may_publish: row.get("may_publish"),
            not_published: row.get("not_published"),
        })
    }

    /// Lists Headwater's durable slots that nobody reads and nobody will: their namespace is gone,
    /// or has another slot by now, or no live node of it wants an inbox and nobody has owned the
    /// slot for `unread_for`.
    pub async fn orphaned_slots(&self, unread_for: Duration) -> Result<Vec<OrphanedSlot>, AdminError> {
        let mut conn = self.pin().await.map_err(admin_error)?;
        let rows = sqlx::query(sql::cdc::CDC_ORPHANS).bind(unread_for.as_secs_f64());
        let rows = within(self.call_timeout, rows.fetch_all(&mut *conn)).await.map_err(admin_error);
        let orphan = |row: &sqlx::postgres::PgRow| OrphanedSlot {
            slot: row.get("slot"),
            namespace: row.get("namespace"),
            reason: row.get("reason"),
        };
        Ok(conn.end(rows, admin_error).await?.iter().map(orphan).collect())
    }

    /// Drops one of Headwater's slots that nobody reads, so that the server need not keep WAL for
    /// it. What was not read from it is in the log.
    pub async fn drop_replication_slot(&self, slot: &str) -> Result<SlotDropped, AdminError> {
        if !slot.starts_with(SLOTS) {
            return Err(AdminError::InvalidInput(format!(
                "slot {slot:?} is not Headwater's: its slots begin with {SLOTS}"
            )));
        }
        let mut conn = self.pin().await.map_err(admin_error)?;
        let dropped =
            match within(self.call_timeout, sqlx::query(sql::cdc::DROP_SLOT).bind(slot).execute(&mut *conn)).await {
                Ok(done) if done.rows_affected() == 0 => Ok(SlotDropped::NotFound),
                Ok(_) => Ok(SlotDropped::Dropped),
                Err(error) => match sqlstate(&error) {
                    Some("42704") => Ok(SlotDropped::NotFound),
                    Some("55006") => Ok(SlotDropped::InUse),
                    _ => Err(admin_error(error)),
                },
            };
        conn.end(dropped, admin_error).await
    }
}
