//! Findings about the server.

use chrono::{DateTime, TimeDelta, Utc};
use sqlx::Row;
use sqlx::postgres::PgRow;

use super::Finding;
use super::Severity::{Hint, Problem, Warning};

/// What is looked at, in one row.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    pub(super) server_version: String,
    pub(super) version_num: i32,
    pub(super) in_recovery: bool,
    pub(super) fsync: bool,
    pub(super) full_page_writes: bool,
    pub(super) synchronous_commit: String,
    pub(super) wal_level: String,
    pub(super) autovacuum: bool,
    pub(super) connections: i64,
    pub(super) max_connections: i64,
    pub(super) relations: i64,
    pub(super) lock_room: i64,
    pub(super) notify_queue: f64,
    pub(super) extensions: Vec<String>,
}

impl Facts {
    pub(super) fn of(row: &PgRow) -> Self {
        Facts {
            server_version: row.get("server_version"),
            version_num: row.get("version_num"),
            in_recovery: row.get("in_recovery"),
            fsync: row.get("fsync"),
            full_page_writes: row.get("full_page_writes"),
            synchronous_commit: row.get("synchronous_commit"),
            wal_level: row.get("wal_level"),
            autovacuum: row.get("autovacuum"),
            connections: row.get("connections"),
            max_connections: row.get("max_connections"),
            relations: row.get("relations"),
            lock_room: row.get("lock_room"),
            notify_queue: row.get("notify_queue"),
            extensions: row.get("extensions"),
        }
    }
}

const CRASH: &str = "a crash of the machine loses committed events, or the whole database";

pub(super) fn settings(facts: &Facts, notify_queue: f64) -> Vec<Finding> {
    let mut found = Vec::new();
    if facts.version_num < 130_000 {
        let message = format!("PostgreSQL {} is older than 13", facts.server_version);
        found.push(
            Finding::new(Problem, "server_version", message)
                .consequence("Headwater does not work there")
                .mend("upgrade the server"),
        );
    } else if facts.version_num < 140_000 {
        let message = format!("PostgreSQL {} cannot detach a partition without a lock", facts.server_version);
        found.push(
            Finding::new(Hint, "server_version", message)
                .consequence("writers wait for a moment when a month is dropped")
                .mend("upgrade the server to 14 or later"),
        );
    }
    if facts.in_recovery {
        found.push(
            Finding::new(Problem, "standby", "the server is a standby")
                .consequence("nothing can be written or proved here (WH006)")
                .mend("connect to the primary"),
        );
    }
    if !facts.fsync {
        found.push(Finding::new(Problem, "fsync", "fsync is off").consequence(CRASH).mend(set("fsync", "on")));
    }
    if !facts.full_page_writes {
        let finding = Finding::new(Problem, "full_page_writes", "full_page_writes is off");
        found.push(finding.consequence(CRASH).mend(set("full_page_writes", "on")));
    }
    if facts.synchronous_commit == "off" {
        found.push(
            Finding::new(Problem, "synchronous_commit", "synchronous_commit is off")
                .consequence("a crash loses the events that were committed last, though appends had answered")
                .mend(set("synchronous_commit", "on")),
        );
    }
    if !facts.autovacuum {
        found.push(
            Finding::new(Problem, "autovacuum", "autovacuum or track_counts is off")
                .consequence("checkpoints and claims leave dead rows behind, until all is slow")
                .mend("ALTER SYSTEM SET autovacuum = on; ALTER SYSTEM SET track_counts = on; SELECT pg_reload_conf()"),
        );
    }
    if facts.connections * 5 >= facts.max_connections * 4 {
        let message = format!("{} of {} connections are in use", facts.connections, facts.max_connections);
        found.push(
            Finding::new(Warning, "connections", message)
                .consequence("nodes that start, or fail over, are refused")
                .mend("share connections (PgBouncer), or raise max_connections and restart the server"),
        );
    }
    if facts.relations * 2 >= facts.lock_room {
        let message = format!("{} tables and indexes, and room for {} locks", facts.relations, facts.lock_room);
        found.push(
            Finding::new(Warning, "locks", message)
                .consequence("whoever reads all months at once, as pg_dump does, can run out of locks")
                .mend("ALTER SYSTEM SET max_locks_per_transaction = 256, and restart the server"),
        );
    }
    if facts.notify_queue > 0.0 && facts.notify_queue >= notify_queue {
        let message = format!("the NOTIFY queue is full by {:.0} %", facts.notify_queue * 100.0);
        found.push(
            Finding::new(if facts.notify_queue >= 0.5 { Problem } else { Warning }, "notify_queue", message)
                .consequence("commits that notify fail when it is full")
                .mend("end the session that listens and is idle in a transaction: SELECT pid, query FROM pg_stat_activity WHERE state = 'idle in transaction'"),
        );
    }
    if facts.wal_level != "logical" {
        let message = format!("wal_level is {}", facts.wal_level);
        found.push(
            Finding::new(Hint, "wal_level", message)
                .consequence("events cannot be read by logical replication; polling and wake-ups work")
                .mend("ALTER SYSTEM SET wal_level = 'logical', and restart the server"),
        );
    }
    for (extension, gives) in [
        ("pg_partman", "a namespace may leave its partitions to it; the built-in ones do the same"),
        ("pg_cron", "schedules may be run by it; nodes run them without it"),
        ("pg_stat_statements", "it shows what the server's time goes to"),
    ] {
        if !facts.extensions.iter().any(|there| there == extension) {
            found.push(
                Finding::new(Hint, "extension", format!("{extension} is not installed"))
                    .consequence(gives)
                    .mend(format!("CREATE EXTENSION {extension}")),
            );
        }
    }
    found
}

fn set(name: &str, value: &str) -> String {
    format!("ALTER SYSTEM SET {name} = {value}; SELECT pg_reload_conf()")
}

/// More than the answer took, and a second.
pub(super) fn clock(asked_at: DateTime<Utc>, server: DateTime<Utc>, answered_at: DateTime<Utc>) -> Option<Finding> {
    let (allowed, ahead, behind) = (TimeDelta::seconds(1), server - answered_at, asked_at - server);
    let (by, way) = if ahead > allowed { (ahead, "ahead of") } else { (behind, "behind") };
    (by > allowed).then(|| {
        let message =
            format!("the server's clock is {:.1} s {way} this machine's", by.num_milliseconds() as f64 / 1000.0);
        Finding::new(Warning, "clock", message)
            .consequence("leases and due times go by the server's clock: times in logs do not match")
            .mend("keep both clocks by NTP: timedatectl set-ntp true")
    })
}

/// A transaction that holds back vacuum.
pub(super) fn snapshot(row: &PgRow) -> Finding {
    let (kind, name) = (row.get::<&str, _>("kind"), row.get::<&str, _>("name"));
    let minutes = row.get::<f64, _>("seconds") / 60.0;
    let (message, mend) = match row.get::<Option<i32>, _>("pid") {
        Some(pid) => {
            let what = if kind == "idle" { "is idle in a transaction" } else { "runs a transaction" };
            let end = format!("SELECT pg_terminate_backend({pid})");
            (format!("pid {pid} ({name}) {what} for {minutes:.1} minutes"), end)
        }
        None => {
            let end = format!("ROLLBACK PREPARED '{}', or COMMIT PREPARED", name.replace('\'', "''"));
            (format!("prepared transaction {name} is open for {minutes:.1} minutes"), end)
        }
    };
    Finding::new(Warning, if kind == "prepared" { "prepared_transaction" } else { "old_transaction" }, message)
        .consequence(
            "vacuum removes nothing that died since: checkpoints and claims become slow; a trimmed month's table stays",
        )
        .mend(mend)
}

/// A slot that retains WAL, or has lost it.
pub(super) fn slot(row: &PgRow, retained_bytes: u64, keep: &str) -> Option<Finding> {
    let (name, status) = (row.get::<&str, _>("slot_name"), row.get::<&str, _>("wal_status"));
    let retained = row.get::<i64, _>("retained").max(0) as u64;
    let mend = format!("SELECT pg_drop_replication_slot('{}'), if nobody needs it", name.replace('\'', "''"));
    if matches!(status, "lost" | "unreserved") {
        let message = format!("replication slot {name} has lost its WAL, or is about to ({status})");
        let finding = Finding::new(Problem, "slot", message);
        return Some(finding.consequence("its reader must begin anew, from the log").mend(mend));
    }
    (!row.get::<bool, _>("active") && retained >= retained_bytes).then(|| {
        let message = format!("nobody reads replication slot {name}, which retains {} MB of WAL", retained / 1_000_000);
        let limit = if keep == "-1" { ", without limit (max_slot_wal_keep_size)" } else { "" };
        Finding::new(Warning, "slot", message).consequence(format!("the disk fills{limit}")).mend(mend)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn healthy() -> Facts {
        Facts {
            server_version: "17.2".into(),
            version_num: 170_002,
            in_recovery: false,
            fsync: true,
            full_page_writes: true,
            synchronous_commit: "on".into(),
            wal_level: "logical".into(),
            autovacuum: true,
            connections: 10,
            max_connections: 100,
            relations: 500,
            lock_room: 6_400,
            notify_queue: 0.0,
            extensions: ["pg_partman", "pg_cron", "pg_stat_statements"].map(String::from).into(),
        }
    }

    #[test]
    fn a_healthy_server_has_no_findings() {
        assert_eq!(settings(&healthy(), 0.1), []);
    }

    #[test]
    fn each_fault_is_found_by_itself() {
        type Fault = fn(&mut Facts);
        let faults: [(&str, super::super::Severity, Fault); 14] = [
            ("server_version", Problem, |facts| facts.version_num = 120_009),
            ("server_version", Hint, |facts| facts.version_num = 130_009),
            ("standby", Problem, |facts| facts.in_recovery = true),
            ("fsync", Problem, |facts| facts.fsync = false),
            ("full_page_writes", Problem, |facts| facts.full_page_writes = false),
            ("synchronous_commit", Problem, |facts| facts.synchronous_commit = "off".into()),
            ("autovacuum", Problem, |facts| facts.autovacuum = false),
            ("connections", Warning, |facts| facts.connections = 80),
            ("locks", Warning, |facts| facts.relations = 3_200),
            ("notify_queue", Warning, |facts| facts.notify_queue = 0.1),
            ("notify_queue", Problem, |facts| facts.notify_queue = 0.9),
            ("wal_level", Hint, |facts| facts.wal_level = "replica".into()),
            ("extension", Hint, |facts| _ = facts.extensions.pop()),
            ("extension", Hint, |facts| _ = facts.extensions.remove(0)),
        ];
        for (check, severity, fault) in faults {
            let mut facts = healthy();
            fault(&mut facts);
            let found = settings(&facts, 0.1);
            assert_eq!(found.iter().map(|f| (f.check, f.severity)).collect::<Vec<_>>(), [(check, severity)]);
            assert!(found.iter().all(|f| !f.consequence.is_empty() && !f.mend.is_empty()), "{found:?}");
        }
    }

    #[test]
    fn clocks_may_differ_by_what_the_answer_took() {
        let at = |seconds: i64| DateTime::<Utc>::from_timestamp(1_000 + seconds, 0).unwrap();
        assert_eq!(clock(at(0), at(3), at(5)), None);
        assert_eq!(clock(at(0), at(6), at(5)), None);
        assert!(clock(at(0), at(9), at(5)).unwrap().message.contains("4.0 s ahead of"));
        assert!(clock(at(10), at(7), at(11)).unwrap().message.contains("3.0 s behind"));
    }
}
