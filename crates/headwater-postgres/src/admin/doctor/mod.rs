//! What is wrong with a server, or will be. Each finding has its consequence, and the command that
//! mends it.

mod namespaces;
mod server;

use std::time::Duration;

use chrono::Utc;
use headwater_core::AdminError;
use serde::Serialize;
use sqlx::Row;

use crate::database::error::admin_error;
use crate::{Database, sql};

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Committed events can be lost, or nothing makes progress.
    Problem,
    /// It will become a problem, or holds something back.
    Warning,
    /// Something that would help and is not in use.
    Hint,
}

/// Something that `headwater doctor` found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What was checked: one word, the same in every version.
    pub check: &'static str,
    /// The namespace that it concerns; `None`: the server.
    pub namespace: Option<String>,
    /// What is wrong.
    pub message: String,
    /// What follows from it.
    pub consequence: String,
    /// The command, or the statement, that mends it.
    pub mend: String,
}

impl Finding {
    fn new(severity: Severity, check: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Finding { severity, check, namespace: None, message, consequence: String::new(), mend: String::new() }
    }

    fn consequence(mut self, consequence: impl Into<String>) -> Self {
        self.consequence = consequence.into();
        self
    }

    fn mend(mut self, mend: impl Into<String>) -> Self {
        self.mend = mend.into();
        self
    }

    fn of(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }
}

/// Limits above which [`Database::diagnose`] reports something.
#[derive(Debug, Clone, PartialEq)]
pub struct DoctorOptions {
    /// A transaction that has been open for this long holds back vacuum.
    pub old_transaction: Duration,
    /// A transaction or replication slot that holds back vacuum for this many transactions, where
    /// its age is not visible.
    pub old_snapshot: u32,
    /// A writer that has been open for this long holds back readers.
    pub old_writer: Duration,
    /// A slot that nobody reads and that retains this many bytes of WAL.
    pub retained_bytes: u64,
    /// How full the NOTIFY queue may be, from 0 to 1.
    pub notify_queue: f64,
}

impl Default for DoctorOptions {
    fn default() -> Self {
        DoctorOptions {
            old_transaction: Duration::from_secs(300),
            old_snapshot: 10_000,
            old_writer: Duration::from_secs(30),
            retained_bytes: 64 * 1024 * 1024,
            notify_queue: 0.1,
        }
    }
}

impl Database {
    /// Lists what is wrong with the server and the namespaces, or will be, the worst first. Reads
    /// catalogs and a few rows, never the log.
    pub async fn diagnose(&self, options: &DoctorOptions) -> Result<Vec<Finding>, AdminError> {
        let mut conn = self.pin().await.map_err(admin_error)?;
        let asked_at = Utc::now();
        let facts = sqlx::query(sql::admin::DOCTOR_SERVER).fetch_one(&mut *conn).await.map_err(admin_error);
        let facts = conn.end(facts, admin_error).await?;
        let answered_at = Utc::now();
        let mut findings = server::settings(&server::Facts::of(&facts), options.notify_queue);
        findings.extend(server::clock(asked_at, facts.get("now"), answered_at));

        let mut conn = self.pin().await.map_err(admin_error)?;
        let old = options.old_transaction.as_secs_f64();
        let behind = i32::try_from(options.old_snapshot).unwrap_or(i32::MAX);
        let found = async {
            let snapshots =
                sqlx::query(sql::admin::DOCTOR_SNAPSHOTS).bind(old).bind(behind).fetch_all(&mut *conn).await?;
            let slots = sqlx::query(sql::admin::DOCTOR_SLOTS).fetch_all(&mut *conn).await?;
            Ok((snapshots, slots))
        };
        let (snapshots, slots) = {
            let found = found.await.map_err(admin_error);
            conn.end(found, admin_error).await?
        };
        findings.extend(snapshots.iter().map(server::snapshot));
        let keep: &str = facts.get("max_slot_wal_keep_size");
        findings.extend(slots.iter().filter_map(|slot| server::slot(slot, options.retained_bytes, keep)));
        findings.extend(self.diagnose_namespaces(options).await?);
        findings.sort_by_key(|finding| finding.severity);
        Ok(findings)
    }
}
