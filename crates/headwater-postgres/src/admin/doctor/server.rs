//! Findings about the server.

use chrono::{DateTime, TimeDelta, Utc};
use sqlx::Row;
use sqlx::postgres::PgRow;

use super::Finding;
use super::Severity::{Hint, Problem, Warning};

/// What is checked in the server, in one row.
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
    /// The role with the most connections.
    pub(super) connections_of: Option<String>,
    pub(super) locks: i64,
    /// The process with the most locks, as text and as its pid; 0: a prepared transaction.
    pub(super) locks_of: Option<String>,
    pub(super) locks_pid: Option<i32>,
    /// The oldest open transaction, as text and as its pid.
    pub(super) oldest: Option<String>,
    pub(super) oldest_pid: Option<i32>,
    /// Whether this role sees when the transactions of others began.
    pub(super) sees_all: bool,
    pub(super) role: String,
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
            connections_of: row.get("connections_of"),
            locks: row.get("locks"),
            locks_of: row.get("locks_of"),
            locks_pid: row.get("locks_pid"),
            oldest: row.get("oldest"),
            oldest_pid: row.get("oldest_pid"),
            sees_all: row.get("sees_all"),
            role: row.get("role"),
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
        let of = facts.connections_of.as_ref().map(|of| format!(": {of}")).unwrap_or_default();
        let message = format!("{} of {} connections are in use{of}", facts.connections, facts.max_connections);
        found.push(
            Finding::new(Warning, "connections", message)
                .consequence("nodes that start, or fail over, are refused")
                .mend("share connections (PgBouncer), bound a role's (ALTER ROLE … CONNECTION LIMIT), or raise max_connections and restart the server"),
        );
    }
    if facts.locks * 2 >= facts.lock_room {
        let of = facts.locks_of.as_ref().map(|of| format!(": {of}")).unwrap_or_default();
        let message = format!("{} locks are held, and there is room for {}{of}", facts.locks, facts.lock_room);
        let mend = match facts.locks_pid {
            Some(pid) if pid > 0 => format!("SELECT pg_terminate_backend({pid})"),
            _ => "end the prepared transaction: see pg_prepared_xacts".into(),
        };
        found.push(
            Finding::new(Problem, "lock_table", message)
                .consequence("when the room is used up, every statement that needs a lock fails, of all databases")
                .mend(mend),
        );
    }
    if !facts.sees_all {
        let message = format!("role {} does not see when transactions of other roles began", facts.role);
        found.push(
            Finding::new(Hint, "visibility", message)
                .consequence("holders are named without their age, and old transactions by what they hold back alone")
                .mend(format!("GRANT pg_read_all_stats TO {}", facts.role)),
        );
    }
    if facts.relations * 2 >= facts.lock_room {
        let message =
            format!("{} tables, indexes and sequences, and room for {} locks", facts.relations, facts.lock_room);
        found.push(
            Finding::new(Warning, "locks", message)
                .consequence("pg_dump holds a lock on each table and sequence until it ends, and can run out of locks")
                .mend("ALTER SYSTEM SET max_locks_per_transaction = 256, and restart the server"),
        );
    }
    if facts.notify_queue > 0.0 && facts.notify_queue >= notify_queue {
        let of =
            facts.oldest.as_ref().map(|of| format!("; the oldest transaction is that of {of}")).unwrap_or_default();
        let message = format!("the NOTIFY queue is full by {:.0} %{of}", facts.notify_queue * 100.0);
        found.push(
            Finding::new(if facts.notify_queue >= 0.5 { Problem } else { Warning }, "notify_queue", message)
                .consequence("from half on, Headwater wakes nobody, and readers poll; when it is full, commits that notify fail")
                .mend(match facts.oldest_pid {
                    Some(pid) => format!("SELECT pg_terminate_backend({pid}), if that session listens"),
                    None => "end the session that listens and is in a transaction: SELECT pid, state, query FROM pg_stat_activity WHERE state <> 'idle'".into(),
                }),
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
        ("pg_partman", "a namespace may let it make its months; the built-in way does the same"),
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

/// Reports a clock that differs by more than the call took, plus a second.
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

/// Reports a transaction, or a slot, that holds back vacuum.
pub(super) fn snapshot(row: &PgRow) -> Finding {
    let (kind, name) = (row.get::<&str, _>("kind"), row.get::<&str, _>("name"));
    let role = row.get::<Option<&str>, _>("role").unwrap_or("unknown");
    let open = match row.get::<Option<f64>, _>("seconds") {
        Some(seconds) => format!("for {:.1} minutes", seconds / 60.0),
        None => format!("and holds back {} transactions", row.get::<i32, _>("transactions")),
    };
    let (check, message, mend) = match (kind, row.get::<Option<i32>, _>("pid")) {
        ("slot", _) => {
            let drop = format!("SELECT pg_drop_replication_slot('{}'), if nobody needs it", name.replace('\'', "''"));
            ("old_slot", format!("replication slot {name} is there {open}"), drop)
        }
        (kind, Some(pid)) => {
            let what = if kind == "idle" { "is idle in a transaction" } else { "runs a transaction" };
            let end = format!("SELECT pg_terminate_backend({pid})");
            ("old_transaction", format!("pid {pid} ({name}, role {role}) {what} {open}"), end)
        }
        (_, None) => {
            let end = format!("ROLLBACK PREPARED '{}', or COMMIT PREPARED", name.replace('\'', "''"));
            ("prepared_transaction", format!("prepared transaction {name} (role {role}) is open {open}"), end)
        }
    };
    Finding::new(Warning, check, message)
        .consequence(
            "vacuum removes nothing that died since: checkpoints and claims become slow; a trimmed month's table stays",
        )
        .mend(mend)
}

/// Reports a slot that retains WAL, or has lost it.
pub(super) fn slot(row: &PgRow, retained_bytes: u64, keep: &str) -> Option<Finding> {
    let (name, status) = (row.get::<&str, _>("slot_name"), row.get::<&str, _>("wal_status"));
    let retained = u64::try_from(row.get::<i64, _>("retained")).unwrap_or_default();
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
            connections_of: Some("role app has 7, as web".into()),
            locks: 100,
            locks_of: Some("pid 5 (web, role app) has 50".into()),
            locks_pid: Some(5),
            oldest: Some("pid 6 (psql, role eve, idle in transaction)".into()),
            oldest_pid: Some(6),
            sees_all: true,
            role: "owner".into(),
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
        let faults: [(&str, super::super::Severity, Fault); 16] = [
            ("server_version", Problem, |facts| facts.version_num = 120_009),
            ("server_version", Hint, |facts| facts.version_num = 130_009),
            ("standby", Problem, |facts| facts.in_recovery = true),
            ("fsync", Problem, |facts| facts.fsync = false),
            ("full_page_writes", Problem, |facts| facts.full_page_writes = false),
            ("synchronous_commit", Problem, |facts| facts.synchronous_commit = "off".into()),
            ("autovacuum", Problem, |facts| facts.autovacuum = false),
            ("connections", Warning, |facts| facts.connections = 80),
            ("locks", Warning, |facts| facts.relations = 3_200),
            ("lock_table", Problem, |facts| facts.locks = 3_200),
            ("visibility", Hint, |facts| facts.sees_all = false),
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

    /// Every finding about a used-up resource names the culprit, with the statement that ends it.
    #[test]
    fn exhaustion_has_its_culprit() {
        type Fault = fn(&mut Facts);
        let faults: [(Fault, &str, &str); 3] = [
            (|facts| facts.connections = 90, "role app has 7, as web", "ALTER ROLE"),
            (|facts| facts.locks = 6_000, "pid 5 (web, role app) has 50", "SELECT pg_terminate_backend(5)"),
            (|facts| facts.notify_queue = 0.6, "pid 6 (psql, role eve, idle", "SELECT pg_terminate_backend(6)"),
        ];
        for (fault, culprit, mend) in faults {
            let mut facts = healthy();
            fault(&mut facts);
            let found = settings(&facts, 0.1);
            assert!(found[0].message.contains(culprit) && found[0].mend.contains(mend), "{found:?}");
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
