//! Findings about namespaces.

use headwater_core::AdminError;
use sqlx::Row;
use sqlx::postgres::PgRow;

use super::Severity::{Problem, Warning};
use super::{DoctorOptions, Finding};
use crate::database::error::admin_error;
use crate::{Database, Holder, sql};

/// For how many days a loss is reported.
const LOSS_DAYS: i32 = 30;

impl Database {
    /// Returns the findings about the namespaces. If a table is locked, it returns only that
    /// finding.
    pub(super) async fn diagnose_namespaces(&self, options: &DoctorOptions) -> Result<Vec<Finding>, AdminError> {
        match self.unless_locked(self.look_at_namespaces(options)).await {
            Ok(found) => found,
            Err(holder) => Ok(vec![held_back(&holder)]),
        }
    }

    async fn look_at_namespaces(&self, options: &DoctorOptions) -> Result<Vec<Finding>, AdminError> {
        if let Err(error) = self.require_migrated().await {
            let finding = Finding::new(Problem, "schema", error.to_string());
            return Ok(vec![finding.consequence("nothing works there").mend("headwater migrate")]);
        }
        let mut conn = self.pin().await.map_err(admin_error)?;
        let rows =
            sqlx::query(sql::admin::DOCTOR_NAMESPACES).bind(LOSS_DAYS).fetch_all(&mut *conn).await.map_err(admin_error);
        let rows = conn.end(rows, admin_error).await?;
        let mut found = Vec::new();
        for row in &rows {
            let name: &str = row.get("namespace");
            let (holders, faults) = match (self.holders(Some(name)).await, self.faults(name).await) {
                // It was dropped or renamed in the meantime.
                (Err(AdminError::NamespaceNotFound(_)), _) | (_, Err(AdminError::NamespaceNotFound(_))) => continue,
                (holders, faults) => (holders?, faults?),
            };
            let old = |holder: &&Holder| holder.is_lasting(options.old_writer);
            found.extend(holders.iter().filter(old).map(|holder| held_back(holder).of(name)));
            found.extend(faults.into_iter().map(|finding| finding.of(name)));
            found.extend(of_row(row, name).into_iter().map(|finding| finding.of(name)));
        }
        Ok(found)
    }
}

impl Database {
    /// Returns what contradicts the laws.
    async fn faults(&self, name: &str) -> Result<Vec<Finding>, AdminError> {
        let mut conn = self.pin().await.map_err(admin_error)?;
        let rows = sqlx::query(sql::admin::FAULTS).bind(name).fetch_all(&mut *conn).await.map_err(admin_error);
        Ok(conn.end(rows, admin_error).await?.iter().map(|row| fault(row, name)).collect())
    }
}

fn fault(row: &PgRow, namespace: &str) -> Finding {
    let kind: &str = row.get("fault");
    let name = row.get::<Option<&str>, _>("name").unwrap_or_default();
    let detail = row.get::<Option<&str>, _>("detail").unwrap_or_default();
    let number = |column: &str| row.get::<Option<i64>, _>(column).unwrap_or_default();
    let (first, last) = (number("first_sequence"), number("last_sequence"));
    let mended_by = row.get::<Option<String>, _>("mended_by").unwrap_or_default();
    let reset = || format!("headwater subscribers reset --namespace {namespace} {name} --to {first}");
    let maintain = || format!("headwater months maintain --namespace {namespace}");
    let (severity, check, message, consequence, mend) = match kind {
        "position_beyond_head" => (
            Problem,
            "position_beyond_head",
            format!("subscriber {name} stands at {last}, and the log ends at {first}"),
            "events that come up to there are skipped",
            reset(),
        ),
        "ledger_beyond_head" => (
            Problem,
            "ledger_beyond_head",
            format!("subscriber {name} waits for gaps up to {last}, and the log ends at {first}"),
            "its ledger is not true: events may be delivered twice or never",
            reset(),
        ),
        "claim_beyond_head" => (
            Problem,
            "claim_beyond_head",
            format!("the queue of subscriber {name} has claims up to {last}, and the log ends at {first}"),
            "events that come up to there are taken for claimed",
            reset(),
        ),
        "gap_beyond_head" => (
            Problem,
            "gap_beyond_head",
            format!("{first} to {last} are recorded as gaps for ever ({detail}), and the log has not come so far"),
            "events that come there are taken for gaps",
            mended_by,
        ),
        "sequence_behind_log" => (
            Problem,
            "sequence_behind_log",
            format!("{name} stands at {first}, and the log has events up to {last}"),
            "their sequences are handed out again: appends fail, or readers miss events",
            mended_by,
        ),
        "sequence_settings" => (
            Problem,
            "sequence_settings",
            format!("sequence {name} was altered: {detail}"),
            "the horizon does not hold: readers pass events that are not committed yet",
            mended_by,
        ),
        "month_gone" => (
            Problem,
            "sealed_month",
            format!("partition {name} is gone, which held {first} to {last}, and was not trimmed"),
            "its events are lost, and readers take them for gaps",
            "attach the table again if it was only detached; else restore it from a backup".into(),
        ),
        "missing_index" => (
            Problem,
            "missing_index",
            format!("partition {name} has not its index {detail}, or an invalid one"),
            "an event can be stored twice, or is found by reading the whole month",
            mended_by,
        ),
        "sealed_month_changed" => (
            Problem,
            "sealed_month",
            format!("partition {name} is sealed up to {first}, and has events up to {last}"),
            "readers do not look for these events",
            "delete them there and append them anew".into(),
        ),
        "seal_broken" => (
            Problem,
            "sealed_month",
            format!("partition {name} is sealed, and has not the trigger that refuses events"),
            "events can be put where no reader looks",
            mended_by,
        ),
        "month_detaching" => (
            Warning,
            "month_detaching",
            format!("partition {name} is neither attached nor detached"),
            "its events are not visible",
            maintain(),
        ),
        "move_unfinished" => (
            Warning,
            "move_unfinished",
            format!("a move to storage {name} was begun more than a day ago, and is not finished"),
            "copies of its events take room",
            format!("headwater namespace set-storage {namespace} {name}, or back to the storage that it has"),
        ),
        "trigger_disabled" => (
            Problem,
            "trigger",
            format!("trigger {detail} of {name} is disabled"),
            "rows that break a law are not refused",
            mended_by,
        ),
        "missing_partition" => (
            Problem,
            "missing_partition",
            format!("subscriber {name} has {detail} partitions"),
            "events of the others go to nobody",
            format!("headwater subscribers remove --namespace {namespace} {name}, and register it anew"),
        ),
        "letter_of_another_event" => (
            Warning,
            "dead_letter",
            format!("a dead letter of subscriber {name} is of event {detail}, and {first} is another one"),
            "the server was replaced by one that lacked the end of the log: that event is in its dead letter alone",
            format!("headwater dead-letters show --namespace {namespace} {name} {first}"),
        ),
        "lease_too_long" => (
            Warning,
            "lease",
            format!("the lease of subscriber {name} ends at {detail}, later than it can be"),
            "if its owner is gone, nobody takes over until then",
            reset(),
        ),
        "overdue" => (
            Warning,
            "overdue",
            format!("what was due two minutes ago was not fired: {}", format!("{detail} {name}").trim()),
            "it comes late, or never",
            format!("run a node, or headwater due fire --namespace {namespace}"),
        ),
        other => (Problem, "fault", format!("{other} {name} {first} {last} {detail}"), "a law is broken", mended_by),
    };
    Finding::new(severity, check, message).consequence(consequence).mend(mend)
}

fn held_back(holder: &Holder) -> Finding {
    let (check, consequence) = match holder.holds.as_str() {
        "log" => (
            "horizon",
            "readers of the log stop there; subscribers pass it after hold_for, and keep it in their ledgers",
        ),
        "counter" => ("counter", "nothing can be appended"),
        "queue" | "claim" => ("queue", "workers get nothing of it, though there are events"),
        "subscriber" => ("subscriber", "its events are handled and not settled, or not handled"),
        "table" => ("table_lock", "whatever reads or writes that table waits"),
        "slot" => ("slot", "the disk fills, and vacuum of the catalogs is held back"),
        "standby" => ("standby", "appends do not return"),
        _ => ("held", "what needs it waits"),
    };
    Finding::new(Warning, check, holder.to_string()).consequence(consequence).mend(&holder.ended_by)
}

fn of_row(row: &PgRow, name: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    let list = |column: &str| row.get::<Vec<String>, _>(column);
    if row.get::<i64, _>("months_ahead") == 0 {
        found.push(
            Finding::new(Warning, "months_ahead", "no partition of a coming month is there")
                .consequence("the first append of the month makes it, and others wait for that one")
                .mend(format!("headwater months maintain --namespace {name}")),
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
            .mend(format!("headwater months maintain --namespace {name}")),
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
            Finding::new(Warning, "pg_partman", "its months are made by pg_partman, which is not installed")
                .consequence("the months are made without it, with a warning in the server's log")
                .mend("CREATE EXTENSION pg_partman"),
        );
    }
    if let Some(held) = list("held").first() {
        found.push(
            Finding::new(Warning, "retention", format!("a month that is due is held: {held}"))
                .consequence("older events than the namespace is to keep stay, and the disk fills")
                .mend(format!(
                    "let the subscriber catch up, or `headwater subscribers remove --namespace {name} SUBSCRIBER`, or `headwater months maintain --namespace {name} --force`"
                )),
        );
    }
    if row.get::<i64, _>("not_dropped") > 0 {
        found.push(
            Finding::new(Warning, "not_dropped", "tables of months that were trimmed are still there after a day")
                .consequence("they take up room")
                .mend(format!("headwater months maintain --namespace {name}, and see who is in its way")),
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
