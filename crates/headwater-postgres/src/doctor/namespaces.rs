//! Findings about namespaces.

use headwater_core::{AdminError, Writer};
use sqlx::Row;
use sqlx::postgres::PgRow;

use super::Severity::{Problem, Warning};
use super::{DoctorOptions, Finding};
use crate::error::admin_error;
use crate::{Database, sql};

/// How many days a loss is spoken of.
const LOSS_DAYS: i32 = 30;

impl Database {
    pub(super) async fn diagnose_namespaces(&self, options: &DoctorOptions) -> Result<Vec<Finding>, AdminError> {
        if let Err(error) = self.require_migrated().await {
            let finding = Finding::new(Problem, "schema", error.to_string());
            return Ok(vec![finding.consequence("nothing works there").mend("headwater migrate")]);
        }
        let mut conn = self.pin().await.map_err(admin_error)?;
        let rows = sqlx::query(sql::DOCTOR_NAMESPACES).bind(LOSS_DAYS).fetch_all(&mut *conn).await.map_err(admin_error);
        let rows = conn.end(rows, admin_error).await?;
        let mut found = Vec::new();
        for row in &rows {
            let name: &str = row.get("namespace");
            // What cannot be proved on a standby, the server's findings say already.
            if let Ok(horizon) = self.horizon(name).await {
                let old = |writer: &&Writer| writer.age.is_none_or(|age| age >= options.old_writer);
                found.extend(horizon.writers.iter().filter(old).map(|writer| held_back(writer).of(name)));
            }
            found.extend(of_row(row, name).into_iter().map(|finding| finding.of(name)));
        }
        Ok(found)
    }
}

fn held_back(writer: &Writer) -> Finding {
    let application = writer.application_name.as_deref().unwrap_or("unknown");
    let age = writer.age.map_or(String::new(), |age| format!(" for {:.1} s", age.as_secs_f64()));
    let (who, mend) = match writer.pid {
        Some(pid) => (format!("pid {pid} ({application})"), format!("SELECT pg_terminate_backend({pid})")),
        None => (application.to_owned(), "ROLLBACK PREPARED or COMMIT PREPARED it: see pg_prepared_xacts".into()),
    };
    Finding::new(
        Warning,
        "horizon",
        format!("{who} may still commit events above {}, and is open{age}", writer.above_sequence),
    )
    .consequence("readers of the log stop there; subscribers pass it after hold_for, and keep it in their ledgers")
    .mend(mend)
}

fn of_row(row: &PgRow, name: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    let list = |column: &str| row.get::<Vec<String>, _>(column);
    if row.get::<i64, _>("months_ahead") == 0 {
        found.push(
            Finding::new(Warning, "months_ahead", "no partition of a coming month is there")
                .consequence("the first append of the month makes it, and others wait for that one")
                .mend(format!("headwater partitions maintain --namespace {name}")),
        );
    }
    if let Some(month) = row.get::<Option<String>, _>("missing_month") {
        found.push(
            Finding::new(
                Problem,
                "missing_month",
                format!("no partition is there for events of {month}, or of a part of it"),
            )
            .consequence("appends fail as long as that lasts, and nothing makes it by itself")
            .mend(format!("headwater partitions maintain --namespace {name}")),
        );
    }
    if let Some(leaf) = row.get::<Option<String>, _>("default_partition") {
        found.push(
            Finding::new(Problem, "default_partition", format!("the log has a default partition, {leaf}"))
                .consequence("what lies in it blocks new months, and no month can be detached without locks")
                .mend(format!("move its rows where they belong, then DROP TABLE headwater_private.{leaf}")),
        );
    }
    if row.get("without_partman") {
        found.push(
            Finding::new(Warning, "pg_partman", "its partitions are pg_partman's, which is not installed")
                .consequence("the months are made without it, with a warning in the server's log")
                .mend("CREATE EXTENSION pg_partman"),
        );
    }
    if let Some(held) = list("held").first() {
        found.push(
            Finding::new(Warning, "retention", format!("a month that is due is held: {held}"))
                .consequence("older events than the namespace is to keep stay, and the disk fills")
                .mend(format!(
                    "let the subscriber catch up, or `headwater subscribers remove --namespace {name} SUBSCRIBER`, or `headwater partitions maintain --namespace {name} --force`"
                )),
        );
    }
    if row.get::<i64, _>("not_dropped") > 0 {
        found.push(
            Finding::new(Warning, "not_dropped", "tables of months that were trimmed are still there after a day")
                .consequence("they take up room")
                .mend(format!("headwater partitions maintain --namespace {name}, and see who is in its way")),
        );
    }
    let losers = list("losers");
    if !losers.is_empty() {
        found.push(
            Finding::new(
                Warning,
                "loss",
                format!("events were trimmed that were not handled by {}", losers.join(", ")),
            )
            .consequence("these subscribers never get them")
            .mend(format!("headwater subscribers show --namespace {name} {}", losers[0])),
        );
    }
    let letters = list("dead_letters");
    if !letters.is_empty() {
        found.push(
            Finding::new(Warning, "dead_letters", format!("there are dead letters: {}", letters.join(", ")))
                .consequence("these events are not handled, and parked keys wait behind them")
                .mend(format!("headwater dead-letters list --namespace {name}")),
        );
    }
    let paused = list("paused");
    if !paused.is_empty() {
        found.push(
            Finding::new(Warning, "paused", format!("paused: {}", paused.join(", ")))
                .consequence("they handle nothing, and hold retention back")
                .mend(format!("headwater subscribers resume --namespace {name} {}", paused[0])),
        );
    }
    let failed = row.get::<i64, _>("failed_due");
    if failed > 0 {
        found.push(
            Finding::new(Warning, "due_events", format!("{failed} due events could not be appended"))
                .consequence("they are tried again, and come late or never")
                .mend(format!("headwater due list --namespace {name} --failed")),
        );
    }
    let stale = list("stale_nodes");
    if !stale.is_empty() {
        found.push(
            Finding::new(Warning, "stale_nodes", format!("not heard of: {}", stale.join(", ")))
                .consequence("they ended without saying so, or hang; what only they handle waits")
                .mend("restart them"),
        );
    }
    found
}
