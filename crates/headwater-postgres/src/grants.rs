//! Grants: which roles of the database may do what in which namespace.
//!
//! The database has the authority: row-level security and privileges refuse whatever was not granted, whichever client asks. Only the owner of Headwater's
//! tables (who migrated), and superusers, grant and revoke.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use headwater_core::AdminError;
use serde::Serialize;
use sqlx::Row;

use crate::error::admin_error;
use crate::number::PgSequence;
use crate::{Database, sql};

/// What a role may do in a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum GrantKind {
    /// Appends. It reads nothing but what its own transaction wrote, and the versions of streams.
    Producer,
    /// Reads the log, and does all that subscribers do.
    Consumer,
    /// Both, and changes the settings of the namespace.
    Admin,
}

impl GrantKind {
    /// As the database calls it.
    pub fn as_str(self) -> &'static str {
        match self {
            GrantKind::Producer => "producer",
            GrantKind::Consumer => "consumer",
            GrantKind::Admin => "admin",
        }
    }
}

impl fmt::Display for GrantKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for GrantKind {
    type Err = AdminError;

    fn from_str(text: &str) -> Result<Self, AdminError> {
        let kinds = [GrantKind::Producer, GrantKind::Consumer, GrantKind::Admin];
        kinds.into_iter().find(|kind| kind.as_str() == text).ok_or_else(|| {
            AdminError::InvalidInput(format!("invalid grant {text:?}: it is producer, consumer or admin"))
        })
    }
}

/// What was granted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Grant {
    /// Where.
    pub namespace: String,
    /// To whom.
    pub role: String,
    /// What.
    pub kind: GrantKind,
    /// When.
    pub granted_at: DateTime<Utc>,
}

impl Database {
    /// Lets a role work in a namespace. A second time, it does nothing.
    pub async fn grant(&self, namespace: &str, role: &str, kind: GrantKind) -> Result<(), AdminError> {
        self.require_migrated().await?;
        let mut conn = self.pin().await.map_err(admin_error)?;
        let granting = sqlx::query(sql::GRANT_ROLE).bind(namespace).bind(role).bind(kind.as_str());
        let granted = granting.execute(&mut *conn).await.map_err(admin_error);
        conn.end(granted, admin_error).await.map(|_| ())
    }

    /// Takes a grant of a role back, or (`None`) all that it has in a namespace. Answers how many it had.
    pub async fn revoke(&self, namespace: &str, role: &str, kind: Option<GrantKind>) -> Result<u64, AdminError> {
        self.require_migrated().await?;
        let mut conn = self.pin().await.map_err(admin_error)?;
        let revoking =
            sqlx::query_scalar(sql::REVOKE_ROLE).bind(namespace).bind(role).bind(kind.map(GrantKind::as_str));
        let revoked = revoking.fetch_one(&mut *conn).await.map_err(admin_error);
        conn.end(revoked, admin_error).await.map(|PgSequence(revoked)| revoked)
    }

    /// The grants in a namespace, or (`None`) in all. Others than the owner see those of their own roles.
    pub async fn grants(&self, namespace: Option<&str>) -> Result<Vec<Grant>, AdminError> {
        self.require_migrated().await?;
        let mut conn = self.pin().await.map_err(admin_error)?;
        let rows = sqlx::query(sql::ROLE_GRANTS).bind(namespace).fetch_all(&mut *conn).await.map_err(admin_error);
        let rows = conn.end(rows, admin_error).await?;
        rows.iter()
            .map(|row| {
                Ok(Grant {
                    namespace: row.get("namespace"),
                    role: row.get("role"),
                    kind: row.get::<&str, _>("kind").parse()?,
                    granted_at: row.get("granted_at"),
                })
            })
            .collect()
    }
}
