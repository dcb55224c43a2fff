//! Migrations: embedded, versioned, checksummed, and safe when many processes start at once.
//!
//! The database has the authority: its table of migrations says which version it has. One
//! transaction under one lock does all the work. So a second process finds it done, and a failure
//! leaves nothing half done. Tables migrate and are frozen once shipped. Functions are replaced
//! whole, never by an older build.

use std::time::Duration;

use headwater_core::AdminError;
use sha2::{Digest, Sha256};
use sqlx::{PgConnection, Row};

use crate::Database;
use crate::database::error::{admin_error, sqlstate};
use crate::sql;

/// What a migration did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migrated {
    /// The schema version before; 0: there was no schema.
    pub from: i64,
    /// The schema version now.
    pub to: i64,
    /// Whether the functions were replaced.
    pub functions_replaced: bool,
}

/// How many times processes that start for the first time together may collide.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(50);

const KNOWN: i64 = sql::MIGRATIONS.len().cast_signed() as i64;

impl Database {
    /// Brings the database's schema to this build's version. Does nothing if it has that version.
    pub async fn migrate(&self) -> Result<Migrated, AdminError> {
        self.prepare_to_migrate().await?;
        let mut tx = self.begin("BEGIN").await.map_err(admin_error)?;
        let migrated = migrate(&mut tx).await?;
        self.forget_statements(&mut tx).await.map_err(admin_error)?;
        tx.commit().await.map_err(admin_error)?;
        Ok(migrated)
    }

    /// Creates the schema and the table that a migration locks, in a transaction of its own, so
    /// that a second process finds it. Two processes that do this together may collide. PostgreSQL
    /// then gives one of them an error, and that one tries again.
    async fn prepare_to_migrate(&self) -> Result<(), AdminError> {
        for _ in 1..TRIES {
            match self.make_migrations_table().await {
                Err(error) if matches!(sqlstate(&error), Some("23505" | "42P06" | "42P07" | "XX000")) => {
                    tokio::time::sleep(PAUSE).await;
                }
                made => return made.map_err(admin_error),
            }
        }
        self.make_migrations_table().await.map_err(admin_error)
    }

    async fn make_migrations_table(&self) -> Result<(), sqlx::Error> {
        let mut tx = self.begin("BEGIN").await?;
        if !sqlx::query_scalar(sql::admin::SCHEMA_VERSION).fetch_one(&mut *tx).await? {
            sqlx::raw_sql(sql::admin::MIGRATIONS_TABLE).execute(&mut *tx).await?;
        }
        self.forget_statements(&mut tx).await?;
        tx.commit().await
    }

    /// Returns the database's schema version; 0: not migrated.
    pub async fn schema_version(&self) -> Result<i64, AdminError> {
        let mut conn = self.pin().await.map_err(admin_error)?;
        let version = schema_version(&mut conn).await;
        conn.end(version, admin_error).await
    }

    /// Identifies the schema that this build migrates to: builds with the same tables and functions
    /// have the same fingerprint, in hexadecimal digits.
    pub fn schema_fingerprint() -> String {
        checksum(sql::MIGRATIONS.iter().chain(sql::FUNCTIONS).map(|(_, text)| *text))
    }

    /// Fails unless the database has this build's schema.
    pub(crate) async fn require_migrated(&self) -> Result<(), AdminError> {
        match self.schema_version().await? {
            KNOWN => Ok(()),
            database if database > KNOWN => Err(AdminError::DatabaseTooNew { database, known: KNOWN }),
            database => Err(AdminError::NotMigrated { database, needed: KNOWN }),
        }
    }
}

async fn schema_version(conn: &mut PgConnection) -> Result<i64, AdminError> {
    let present: bool =
        sqlx::query_scalar(sql::admin::SCHEMA_VERSION).fetch_one(&mut *conn).await.map_err(admin_error)?;
    if !present {
        return Ok(0);
    }
    Ok(applied(conn).await?.last().map_or(0, |(version, _)| *version))
}

async fn migrate(conn: &mut PgConnection) -> Result<Migrated, AdminError> {
    sqlx::raw_sql(sql::session::MIGRATE_SAFELY).execute(&mut *conn).await.map_err(admin_error)?;
    sqlx::query(sql::admin::MIGRATION_LOCK).execute(&mut *conn).await.map_err(admin_error)?;
    let applied = applied(conn).await?;
    let from = applied.last().map_or(0, |(version, _)| *version);
    if from > KNOWN {
        return Err(AdminError::DatabaseTooNew { database: from, known: KNOWN });
    }
    for (version, (name, text)) in (1i64..).zip(sql::MIGRATIONS) {
        let checksum = checksum([*text]);
        match applied.iter().find(|(there, _)| *there == version) {
            Some((_, there)) if *there == checksum => {}
            Some(_) => return Err(AdminError::MigrationChanged { version }),
            None => {
                sqlx::raw_sql(*text).execute(&mut *conn).await.map_err(admin_error)?;
                sqlx::query(sql::admin::NOTE_MIGRATION)
                    .bind(version)
                    .bind(*name)
                    .bind(checksum)
                    .execute(&mut *conn)
                    .await
                    .map_err(admin_error)?;
                tracing::info!(version, name, "migrated");
            }
        }
    }
    let functions_replaced = replace_functions(conn).await?;
    Ok(Migrated { from, to: KNOWN, functions_replaced })
}

async fn applied(conn: &mut PgConnection) -> Result<Vec<(i64, String)>, AdminError> {
    let rows = sqlx::query(sql::admin::APPLIED_MIGRATIONS).fetch_all(conn).await.map_err(admin_error)?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

async fn replace_functions(conn: &mut PgConnection) -> Result<bool, AdminError> {
    let checksum = checksum(sql::FUNCTIONS.iter().map(|(_, text)| *text));
    let row = sqlx::query(sql::admin::FUNCTIONS_REVISION_ROW).fetch_optional(&mut *conn).await.map_err(admin_error)?;
    if let Some(row) = row {
        let (revision, there): (i64, String) = (row.get(0), row.get(1));
        if revision > sql::FUNCTIONS_REVISION || there == checksum {
            return Ok(false);
        }
    }
    for (_, text) in sql::FUNCTIONS {
        sqlx::raw_sql(*text).execute(&mut *conn).await.map_err(admin_error)?;
    }
    sqlx::raw_sql(sql::roles::OWN_FUNCTIONS).execute(&mut *conn).await.map_err(admin_error)?;
    // Let roles with grants call new functions, and nobody else.
    sqlx::query(sql::roles::APPLY_GRANTS).execute(&mut *conn).await.map_err(admin_error)?;
    sqlx::query(sql::admin::NOTE_FUNCTIONS)
        .bind(sql::FUNCTIONS_REVISION)
        .bind(checksum)
        .execute(&mut *conn)
        .await
        .map_err(admin_error)?;
    Ok(true)
}

fn checksum<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let mut hasher = Sha256::new();
    texts.into_iter().for_each(|text| hasher.update(text));
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
