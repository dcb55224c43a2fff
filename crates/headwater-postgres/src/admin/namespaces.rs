//! Namespaces: create, list, show, alter.

use std::time::Duration;

use headwater_core::{
    AdminError, Horizon, Index, IndexState, Json, LARGEST_MAX_PAYLOAD_BYTES, NamespaceConfig, NamespaceInfo, Ordering,
    ReadError, check_retention,
};
use sqlx::Row;
use sqlx::postgres::PgRow;
use tokio::time::timeout;

use crate::database::error::admin_error;
use crate::database::number::{count, int, sequence};
use crate::log::month_bounds::Months;
use crate::log::row::json;
use crate::{Database, LogOptions, PgLog, sql};

/// Settings of a namespace to change. A setting that is `None` stays unchanged.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NamespaceChanges {
    /// Whether SQL callers NOTIFY in their own transaction.
    pub notify: Option<bool>,
    /// How long events are kept; `Some(None)`: forever.
    pub retention: Option<Option<Duration>>,
    /// Largest payload of an event.
    pub max_payload_bytes: Option<u32>,
    /// Anything that the owner wants to note.
    pub metadata: Option<Json>,
    /// Which index the namespace keeps.
    pub index: Option<Index>,
}

/// A namespace in a list of all namespaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceStatus {
    /// The namespace's name.
    pub name: String,
    /// How its sequences are handed out.
    pub ordering: Ordering,
    /// The highest event that can be read; 0 if the log is empty.
    pub last_sequence: u64,
    /// How many open transactions may still commit events.
    pub writers: u64,
    /// Whether somebody holds rows of the namespace that others need. [`Database::holders`] says
    /// who.
    pub is_held: bool,
}

/// The limit for making a publication, which may have to wait for locks.
const PUBLISH_TIMEOUT: Duration = Duration::from_secs(60);

impl Database {
    /// Creates a namespace, or returns the existing one. If a given setting differs from the
    /// existing namespace, the error is [`AdminError::NamespaceDiffers`].
    pub async fn create_namespace(&self, config: &NamespaceConfig) -> Result<NamespaceInfo, AdminError> {
        config.validate()?;
        self.require_migrated().await?;
        let mut conn = self.pin().await.map_err(admin_error)?;
        let row = sqlx::query(sql::admin::CREATE_NAMESPACE)
            .bind(&config.name)
            .bind(config.ordering.map(|ordering| ordering.as_str()))
            .bind(config.notify)
            .bind(config.retention.map(|retention| retention.as_secs_f64()))
            .bind(config.max_payload_bytes.map(int))
            .bind(config.metadata.as_ref().map(json))
            .bind(config.months_made_by.map(|by| by.as_str()))
            .bind(config.storage.map(|storage| storage.as_str()))
            .bind(config.index.map(|index| index.as_str()))
            .fetch_one(&mut *conn)
            .await
            .map_err(admin_error);
        namespace_info(&conn.end(row, admin_error).await?)
    }

    /// Changes settings of a namespace. An index that is switched on is filled before this returns,
    /// and one that is switched off is emptied, in batches. If the call is cut off, maintenance
    /// continues the work.
    pub async fn alter_namespace(&self, name: &str, changes: &NamespaceChanges) -> Result<NamespaceInfo, AdminError> {
        if let Some(bytes) = changes.max_payload_bytes
            && !(1..=LARGEST_MAX_PAYLOAD_BYTES).contains(&bytes)
        {
            return Err(AdminError::InvalidInput(format!(
                "invalid max_payload_bytes {bytes}: it is 1 to {LARGEST_MAX_PAYLOAD_BYTES}"
            )));
        }
        changes.retention.flatten().map(check_retention).transpose()?;
        self.require_migrated().await?;
        let mut conn = self.pin().await.map_err(admin_error)?;
        let row = sqlx::query(sql::admin::ALTER_NAMESPACE)
            .bind(name)
            .bind(changes.notify)
            .bind(changes.retention.flatten().map(|retention| retention.as_secs_f64()))
            .bind(changes.max_payload_bytes.map(int))
            .bind(changes.metadata.as_ref().map(json))
            .bind(changes.retention == Some(None))
            .bind(changes.index.map(|index| index.as_str()))
            .fetch_one(&mut *conn)
            .await
            .map_err(admin_error);
        let info = namespace_info(&conn.end(row, admin_error).await?)?;
        if changes.index.is_none() || matches!(info.index_state, IndexState::None | IndexState::Ready) {
            return Ok(info);
        }
        while self.maintain_index(name).await? > 0 {}
        self.namespace(name).await
    }

    async fn maintain_index(&self, name: &str) -> Result<i64, AdminError> {
        let mut conn = self.pin().await.map_err(admin_error)?;
        let changed = sqlx::query_scalar(sql::log::MAINTAIN_INDEX).bind(name).fetch_one(&mut *conn).await;
        conn.end(changed.map_err(admin_error), admin_error).await
    }

    /// Removes a namespace for good, with all its events, subscribers, dead letters and schedules.
    /// Only the owner of the tables can do that. While its nodes are alive the error is
    /// [`AdminError::NamespaceInUse`], unless `force` is set. The namespace is gone at once; its
    /// rows are deleted in batches before this returns. If the call is cut off, maintenance
    /// continues the work.
    pub async fn drop_namespace(&self, name: &str, force: bool) -> Result<(), AdminError> {
        self.require_migrated().await?;
        let mut conn = self.pin().await.map_err(admin_error)?;
        let dropped = sqlx::query(sql::admin::DROP_NAMESPACE).bind(name).bind(force).execute(&mut *conn).await;
        conn.end(dropped.map(drop).map_err(admin_error), admin_error).await?;
        while self.purge_dropped().await? > 0 {}
        Ok(())
    }

    async fn purge_dropped(&self) -> Result<i64, AdminError> {
        let mut conn = self.pin().await.map_err(admin_error)?;
        let purged = sqlx::query_scalar(sql::retention::PURGE_DROPPED).fetch_one(&mut *conn).await;
        conn.end(purged.map_err(admin_error), admin_error).await
    }

    /// Lists all namespaces, by name.
    pub async fn namespaces(&self) -> Result<Vec<NamespaceInfo>, AdminError> {
        self.require_migrated().await?;
        let mut conn = self.pin().await.map_err(admin_error)?;
        let rows = sqlx::query(sql::admin::NAMESPACES).fetch_all(&mut *conn).await.map_err(admin_error);
        conn.end(rows, admin_error).await?.iter().map(namespace_info).collect()
    }

    /// Lists the state of all namespaces, by name. It is one statement, however many namespaces
    /// there are.
    pub async fn namespace_statuses(&self) -> Result<Vec<NamespaceStatus>, AdminError> {
        self.require_migrated().await?;
        let mut conn = self.pin().await.map_err(admin_error)?;
        let rows = sqlx::query(sql::admin::NAMESPACE_STATUS).fetch_all(&mut *conn).await.map_err(admin_error);
        conn.end(rows, admin_error).await?.iter().map(namespace_status).collect()
    }

    /// Returns one namespace.
    pub async fn namespace(&self, name: &str) -> Result<NamespaceInfo, AdminError> {
        self.require_migrated().await?;
        let mut conn = self.pin().await.map_err(admin_error)?;
        let row = sqlx::query(sql::admin::NAMESPACE).bind(name).fetch_one(&mut *conn).await.map_err(admin_error);
        namespace_info(&conn.end(row, admin_error).await?)
    }

    /// Returns how far a namespace's log is settled, and who may still commit beyond that.
    pub async fn horizon(&self, name: &str) -> Result<Horizon, AdminError> {
        let info = self.namespace(name).await?;
        let mut conn = self.pin().await.map_err(admin_error)?;
        let horizon =
            crate::log::read::horizon(&mut conn, &info, None).await.map(|(horizon, _)| horizon).map_err(of_read);
        conn.end(horizon, admin_error).await
    }

    /// Returns the highest sequence of a namespace that can be read now; 0: its log is empty.
    /// Higher sequences that were handed out belong to transactions that are open or were rolled
    /// back.
    pub async fn log_end(&self, name: &str) -> Result<u64, AdminError> {
        let info = self.namespace(name).await?;
        let mut conn = self.pin().await.map_err(admin_error)?;
        let end = crate::log::read::log_end(&mut conn, &info).await.map_err(of_read);
        conn.end(end, admin_error).await
    }

    /// Creates the publication that makes a namespace's new events available from the WAL, unless
    /// it exists. Returns its name.
    pub async fn publish_namespace(&self, name: &str) -> Result<String, AdminError> {
        let mut conn = self.pin().await.map_err(admin_error)?;
        let made = sqlx::query_scalar(sql::cdc::PUBLISH_NAMESPACE).bind(name);
        match timeout(PUBLISH_TIMEOUT, made.fetch_one(&mut *conn)).await {
            Ok(made) => conn.end(made.map_err(admin_error), admin_error).await,
            // The connection may be half open: nobody else may get it.
            Err(_) => {
                conn.discard();
                Err(admin_error(sqlx::Error::PoolTimedOut))
            }
        }
    }

    /// Opens the log of a namespace. A log is cheap to clone and costly to open: open it once.
    pub async fn open_log(&self, name: &str, options: LogOptions) -> Result<PgLog, AdminError> {
        options.validate()?;
        self.require_migrated().await?;
        let mut conn = self.pin().await.map_err(admin_error)?;
        let row = sqlx::query(sql::admin::NAMESPACE).bind(name).fetch_one(&mut *conn).await.map_err(admin_error);
        let row = conn.end(row, admin_error).await?;
        let info = namespace_info(&row)?;
        let mut conn = self.pin().await.map_err(admin_error)?;
        let maintained =
            sqlx::query(sql::retention::MAINTAIN_NAMESPACE).bind(name).execute(&mut *conn).await.map_err(admin_error);
        let months = match maintained {
            Ok(_) => Months::load(&mut conn, info.id).await.map_err(of_read),
            Err(error) => Err(error),
        };
        let months = conn.end(months, admin_error).await?;
        Ok(PgLog::start(self.clone(), info, months, options))
    }
}

pub(crate) fn of_read(error: ReadError) -> AdminError {
    match error {
        ReadError::NamespaceNotFound(name) => AdminError::NamespaceNotFound(name),
        ReadError::Unavailable(fault) => AdminError::Unavailable(fault),
        error => AdminError::InvalidInput(error.to_string()),
    }
}

pub(crate) fn namespace_info(row: &PgRow) -> Result<NamespaceInfo, AdminError> {
    let id = row.get::<i32, _>("namespace_id");
    Ok(NamespaceInfo {
        name: row.get("namespace"),
        id,
        ordering: row.get::<&str, _>("ordering").parse()?,
        notify: row.get("notify"),
        retention: row.get::<Option<f64>, _>("retention").map(Duration::from_secs_f64),
        max_payload_bytes: count(row, "max_payload_bytes").map_err(admin_error)?,
        metadata: row.get::<crate::log::row::PgJson, _>("metadata").0,
        created_at: row.get("created_at"),
        months_made_by: row.get::<&str, _>("months_made_by").parse()?,
        storage: row.get::<&str, _>("storage").parse()?,
        index: row.get::<&str, _>("index").parse()?,
        index_state: row.get::<&str, _>("index_state").parse()?,
    })
}

fn namespace_status(row: &PgRow) -> Result<NamespaceStatus, AdminError> {
    Ok(NamespaceStatus {
        name: row.get("namespace"),
        ordering: row.get::<&str, _>("ordering").parse()?,
        last_sequence: sequence(row, "last_sequence").map_err(admin_error)?,
        writers: sequence(row, "writers").map_err(admin_error)?,
        is_held: row.get("is_held"),
    })
}
