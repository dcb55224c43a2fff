//! `headwater doctor` on a server with a fault. Each fault is made for real, is found, and is gone
//! after the repair.

use crate::common::{Cli, Said};
use serde_json::Value;
use sqlx::{AssertSqlSafe, PgConnection};

async fn run(session: &mut PgConnection, script: &str) {
    sqlx::raw_sql(AssertSqlSafe(script.to_owned())).execute(session).await.unwrap();
}

/// Returns the doctor's findings for a check, as `message (mend)`. Every age counts as old enough.
/// The doctor also reports other databases and sessions.
fn found(cli: &Cli, check: &str) -> Vec<String> {
    let all = [
        "doctor",
        "--json",
        "--old-transaction",
        "0s",
        "--old-writer",
        "0s",
        "--retained-bytes",
        "0",
        "--notify-queue",
        "0",
    ];
    let json = cli.run(all).json();
    let findings = json["findings"].as_array().unwrap().iter().filter(|finding| finding["check"] == check);
    let told =
        |finding: &Value| format!("{} ({})", finding["message"].as_str().unwrap(), finding["mend"].as_str().unwrap());
    findings.map(told).collect()
}

fn database(cli: &Cli) -> String {
    cli.db.url.rsplit('/').next().unwrap().to_owned()
}

/// A snapshot alone, of a transaction that has written nothing.
#[tokio::test]
async fn an_old_snapshot_that_holds_back_vacuum_is_named() {
    let cli = Cli::with_shop().await;
    let name = format!("reader of {}", database(&cli));
    let named = |found: &[String]| found.iter().filter(|told| told.contains(&name)).count();
    let mut reader = cli.db.session().await;
    run(&mut reader, &format!("SET application_name = '{name}'; SELECT count(*) FROM pg_class")).await;
    assert_eq!(named(&found(&cli, "old_transaction")), 0, "it is idle, and holds nothing");
    run(&mut reader, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class").await;
    let old = found(&cli, "old_transaction");
    assert_eq!(named(&old), 1, "{old:?}");
    let told = old.iter().find(|told| told.contains(&name)).unwrap();
    assert!(told.contains("is idle in a transaction") && told.contains("(SELECT pg_terminate_backend("), "{told}");
    // The command that it gives mends it.
    let mend = told.rsplit_once(" (").unwrap().1.trim_end_matches(')').to_owned() + ")";
    run(&mut cli.db.session().await, &mend).await;
    while named(&found(&cli, "old_transaction")) > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_prepared_transaction_that_holds_readers_back_is_named() {
    let cli = Cli::with_shop().await;
    let mut session = cli.db.session().await;
    let gid = database(&cli);
    run(&mut session, "SELECT headwater.alter_namespace('shop', notify => false)").await;
    run(&mut session, &format!("BEGIN; SELECT headwater.emit('shop', 'slow'); PREPARE TRANSACTION '{gid}'")).await;
    let (horizon, prepared) = (found(&cli, "horizon"), found(&cli, "prepared_transaction"));
    run(&mut session, &format!("COMMIT PREPARED '{gid}'")).await;
    assert_eq!(horizon.len(), 1, "{horizon:?}");
    assert!(horizon[0].contains("may still commit events above 0"), "{horizon:?}");
    assert!(horizon[0].ends_with(&format!("(ROLLBACK PREPARED '{gid}')")), "{horizon:?}");
    assert!(prepared.iter().any(|told| told.contains(&format!("ROLLBACK PREPARED '{gid}'"))), "{prepared:?}");
    assert!(found(&cli, "horizon").is_empty());
}

#[tokio::test]
async fn a_logical_slot_that_nobody_reads_is_named() {
    let cli = Cli::with_shop().await;
    let mut session = cli.db.session().await;
    let slot = format!("slot_{}", database(&cli));
    run(&mut session, &format!("SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')")).await;
    run(&mut session, "SELECT headwater.emit('shop', 'retained')").await;
    let slots = found(&cli, "slot");
    run(&mut session, &format!("SELECT pg_drop_replication_slot('{slot}')")).await;
    assert!(slots.iter().any(|told| told.contains(&format!("nobody reads replication slot {slot}"))), "{slots:?}");
    let gone = found(&cli, "slot");
    assert!(gone.iter().all(|told| !told.contains(&slot)), "{gone:?}");
}

/// Whoever listens and stays in a transaction keeps what was notified since.
#[tokio::test]
async fn a_notify_queue_that_fills_is_found() {
    let cli = Cli::with_shop().await;
    let (mut listener, mut session) = (cli.db.session().await, cli.db.session().await);
    run(&mut listener, "LISTEN doctor").await;
    run(&mut listener, "BEGIN; SELECT 1").await;
    run(&mut session, "SELECT pg_notify('doctor', repeat('x', 7900) || n) FROM generate_series(1, 8) n").await;
    let used: f64 = sqlx::query_scalar("SELECT pg_notification_queue_usage()").fetch_one(&mut session).await.unwrap();
    assert!(used > 0.0);
    let queue = found(&cli, "notify_queue");
    assert!(queue.len() == 1 && queue[0].starts_with("the NOTIFY queue is full by 0 %"), "{queue:?}");
    // Of whichever transaction is the oldest of the server, which may be another test's.
    assert!(queue[0].contains("; the oldest transaction is that of pid "), "{queue:?}");
    assert!(queue[0].contains("(SELECT pg_terminate_backend("), "{queue:?}");
    let json = cli.run(["doctor", "--json"]).json();
    let by_default = json["findings"].as_array().unwrap().iter().any(|finding| finding["check"] == "notify_queue");
    assert!(!by_default, "far from full");
    drop(listener);
}

/// With libfaketime, this machine's clock is an hour behind, as far as the doctor can tell.
#[tokio::test]
async fn a_clock_that_is_off_is_found() {
    let cli = Cli::with_shop().await;
    assert_eq!(found(&cli, "clock"), [""; 0]);
    let folders = std::fs::read_dir("/usr/lib").unwrap().flatten().map(|entry| entry.path());
    let library = folders.map(|folder| folder.join("faketime/libfaketime.so.1")).find(|library| library.is_file());
    let mut doctor = cli.command(["doctor", "--json"]);
    doctor.env("LD_PRELOAD", library.expect("scripts/test installs libfaketime")).env("FAKETIME", "-3600s");
    let json = Said::from(doctor.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").output().unwrap()).json();
    let clock = json["findings"].as_array().unwrap().iter().find(|finding| finding["check"] == "clock").unwrap();
    let (message, mend) = (clock["message"].as_str().unwrap(), clock["mend"].as_str().unwrap());
    assert!(message.contains(" s ahead of this machine's") && mend.contains("keep both clocks by NTP"), "{clock}");
    assert!(message.contains("is 3599.") || message.contains("is 3600."), "{clock}");
}

#[tokio::test]
async fn nodes_that_are_not_heard_of_are_named() {
    let cli = Cli::with_shop().await;
    let mut session = cli.db.session().await;
    run(
        &mut session,
        "SELECT headwater.register_node('shop', 'alive'), headwater.register_node('shop', 'silent'), headwater.register_node('shop', 'done');
         SELECT headwater.stop_node('shop', 'done', incarnation) FROM headwater_private.nodes WHERE node_id = 'done'",
    )
    .await;
    assert_eq!(found(&cli, "stale_nodes"), [""; 0]);
    run(
        &mut session,
        "UPDATE headwater_private.nodes SET last_heartbeat = last_heartbeat - 6 * heartbeat_every WHERE node_id IN ('silent', 'done')",
    )
    .await;
    assert_eq!(found(&cli, "stale_nodes"), ["not heard of: silent (restart them)"]);
}
