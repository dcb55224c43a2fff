//! Grants: which roles of the database may do what in which namespace.
//!
//! The database has the authority: its entry points and privileges refuse everything that was not
//! granted, whichever client asks. Only the owner of Headwater's tables (the role that migrated)
//! and superusers can grant and revoke.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use headwater_core::AdminError;
use serde::Serialize;
use sqlx::Row;

use crate::database::error::admin_error;
use crate::database::number::PgSequence;
use crate::{Database, sql};

/// What a role may do in a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum GrantKind {
    /// Appends. It reads only what its own transaction wrote, and the versions of streams.
    Producer,
    /// Reads the log, and does everything that subscribers do.
    Consumer,
    /// Does both, and changes the settings of the namespace.
    Admin,
}

impl GrantKind {
    /// The name of the kind in the database.
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

/// A grant of one kind to one role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Grant {
    /// The namespace in which it was granted.
    pub namespace: String,
    /// The role that has the grant.
    pub role: String,
    /// What the role may do.
    pub kind: GrantKind,
    /// When it was granted.
    pub granted_at: DateTime<Utc>,
}

impl Database {
    /// Lets a role work in a namespace. A second call does nothing.
    pub async fn grant(&self, namespace: &str, role: &str, kind: GrantKind) -> Result<(), AdminError> {
        self.require_migrated().await?;
        let mut conn = self.pin().await.map_err(admin_error)?;
        let granting = sqlx::query(sql::roles::GRANT_ROLE).bind(namespace).bind(role).bind(kind.as_str());
        let granted = granting.execute(&mut *conn).await.map_err(admin_error);
        conn.end(granted, admin_error).await.map(|_| ())
    }

    /// Takes a grant back from a role, or all its grants in a namespace (`None`). Returns how many
    /// grants were taken back.
    pub async fn revoke(&self, namespace: &str, role: &str, kind: Option<GrantKind>) -> Result<u64, AdminError> {
        self.require_migrated().await?;
        let mut conn = self.pin().await.map_err(admin_error)?;
        let revoking =
            sqlx::query_scalar(sql::roles::REVOKE_ROLE).bind(namespace).bind(role).bind(kind.map(GrantKind::as_str));
        let revoked = revoking.fetch_one(&mut *conn).await.map_err(admin_error);
        conn.end(revoked, admin_error).await.map(|PgSequence(revoked)| revoked)
    }

    /// Lists the grants in a namespace, or in all (`None`). A caller that is not the owner sees
    /// only grants of its own roles.
    pub async fn grants(&self, namespace: Option<&str>) -> Result<Vec<Grant>, AdminError> {
        self.require_migrated().await?;
        let mut conn = self.pin().await.map_err(admin_error)?;
        let rows =
            sqlx::query(sql::roles::ROLE_GRANTS).bind(namespace).fetch_all(&mut *conn).await.map_err(admin_error);
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
