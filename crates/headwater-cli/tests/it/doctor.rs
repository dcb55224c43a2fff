//! `headwater doctor`: each finding is provoked, and named with its consequence and what mends it.

use crate::common::Cli;
use serde_json::Value;
use sqlx::{AssertSqlSafe, PgConnection};

async fn run(session: &mut PgConnection, script: &str) {
    sqlx::raw_sql(AssertSqlSafe(script.to_owned())).execute(session).await.unwrap();
}

/// Returns the doctor's findings for a check. Every age counts as old enough. The doctor also
/// reports other databases and sessions.
fn found(cli: &Cli, check: &str) -> Vec<Value> {
    let all = ["doctor", "--json", "--old-transaction", "0s", "--old-writer", "0s", "--retained-bytes", "0"];
    let said = cli.run(all);
    let json = said.json();
    let bad = json["findings"].as_array().unwrap().iter().any(|finding| finding["severity"] != "hint");
    assert_eq!((said.code == Some(7), json["healthy"] == false), (bad, bad), "{said:?}");
    let findings = json["findings"].as_array().unwrap().iter().filter(|finding| finding["check"] == check).cloned();
    let findings: Vec<_> = findings.collect();
    assert!(findings.iter().all(|finding| finding["consequence"] != "" && finding["mend"] != ""), "{findings:?}");
    findings
}

fn message(findings: &[Value]) -> &str {
    findings.first().and_then(|finding| finding["message"].as_str()).unwrap_or_default()
}

#[tokio::test]
async fn a_namespace_without_faults_has_no_findings() {
    let cli = Cli::with_shop().await;
    let json = cli.run(["doctor", "--json"]).json();
    let of_shop: Vec<_> =
        json["findings"].as_array().unwrap().iter().filter(|finding| finding["namespace"] == "shop").collect();
    assert!(of_shop.is_empty(), "{of_shop:?}");
}

#[tokio::test]
async fn settings_of_the_server_are_judged() {
    let cli = Cli::with_shop().await;
    let mut session = cli.db.session().await;
    let fsync: String = sqlx::query_scalar("SELECT current_setting('fsync')").fetch_one(&mut session).await.unwrap();
    assert_eq!(found(&cli, "fsync").len(), usize::from(fsync == "off"));
    let database: String = sqlx::query_scalar("SELECT current_database()").fetch_one(&mut session).await.unwrap();
    assert!(found(&cli, "synchronous_commit").is_empty());
    run(&mut session, &format!("ALTER DATABASE {database} SET synchronous_commit = off")).await;
    assert_eq!(found(&cli, "synchronous_commit").len(), 1);
    assert!(found(&cli, "extension").iter().any(|finding| finding["mend"] == "CREATE EXTENSION pg_partman"));
}

#[tokio::test]
async fn a_database_that_is_not_migrated_is_found() {
    let cli = Cli { db: headwater_testing::TestDatabase::create_empty().await };
    assert_eq!(found(&cli, "schema")[0]["mend"], "headwater migrate");
}

#[tokio::test]
async fn whoever_holds_readers_and_vacuum_back_is_named() {
    let cli = Cli::with_shop().await;
    let mut writer = cli.db.session().await;
    run(&mut writer, "SET application_name = 'sluggish'; BEGIN; SELECT headwater.emit('shop', 'slow')").await;
    assert!(message(&found(&cli, "horizon")).contains("(sluggish, role "));
    let old = found(&cli, "old_transaction");
    assert!(old.iter().any(|finding| message(std::slice::from_ref(finding)).contains("(sluggish, role ")));
    run(&mut writer, "COMMIT").await;
    assert!(found(&cli, "horizon").is_empty());
}

#[tokio::test]
async fn a_prepared_transaction_is_found() {
    let cli = Cli::with_shop().await;
    let mut session = cli.db.session().await;
    let name = cli.db.url.rsplit('/').next().unwrap().to_owned();
    run(&mut session, "ALTER TABLE headwater.migrations ADD COLUMN note text").await;
    run(&mut session, &format!("BEGIN; UPDATE headwater.migrations SET note = 'x'; PREPARE TRANSACTION '{name}'"))
        .await;
    let prepared = found(&cli, "prepared_transaction");
    run(&mut session, &format!("ROLLBACK PREPARED '{name}'")).await;
    assert!(prepared.iter().any(|finding| finding["mend"].as_str().unwrap().contains(&name)), "{prepared:?}");
}

#[tokio::test]
async fn a_slot_that_nobody_reads_is_found() {
    let cli = Cli::with_shop().await;
    let mut session = cli.db.session().await;
    let name = format!("slot_{}", cli.db.url.rsplit('/').next().unwrap());
    run(&mut session, &format!("SELECT pg_create_physical_replication_slot('{name}', true)")).await;
    let slots = found(&cli, "slot");
    run(&mut session, &format!("SELECT pg_drop_replication_slot('{name}')")).await;
    assert!(slots.iter().any(|finding| finding["mend"].as_str().unwrap().contains(&name)), "{slots:?}");
}

#[tokio::test]
async fn partitions_and_retention_are_looked_at() {
    let cli = Cli::with_shop().await;
    let mut session = cli.db.session().await;
    cli.db.past_months("shop", 6, 3).await;
    run(&mut session, "SELECT headwater.seal_months('shop'); SELECT headwater.register_subscriber('shop', 'slow')")
        .await;
    assert!(found(&cli, "retention").is_empty());
    run(&mut session, "SELECT headwater.alter_namespace('shop', retention => interval '1 month')").await;
    assert!(message(&found(&cli, "retention")).contains("(slow: stands at 0)"));
    cli.run(["months", "maintain", "-n", "shop", "--force", "--yes"]).ok();
    assert!(message(&found(&cli, "loss")).ends_with("not handled by slow"));
    run(&mut session, "UPDATE headwater_private.months SET dropped_at = NULL, trimmed_at = now() - interval '2 days' WHERE dropped_at IS NOT NULL").await;
    assert_eq!(found(&cli, "not_dropped").len(), 1);
    run(
        &mut session,
        "CREATE TABLE headwater_private.events_default PARTITION OF headwater_private.events DEFAULT;
         DO $$ DECLARE leaf text; BEGIN
             FOR leaf IN SELECT l.leaf FROM headwater_private.leaves(1) l WHERE l.starts_at > now() LOOP EXECUTE 'DROP TABLE headwater_private.' || leaf; END LOOP;
         END $$",
    )
    .await;
    assert_eq!(found(&cli, "default_partition").len(), 1);
    assert!(found(&cli, "months_ahead")[0]["mend"].as_str().unwrap().starts_with("headwater months maintain"));
}

#[tokio::test]
async fn subscribers_due_events_and_nodes_are_looked_at() {
    let cli = Cli::with_shop().await;
    let mut session = cli.db.session().await;
    run(
        &mut session,
        "SELECT headwater.register_subscriber('shop', 'queue', mode => 'shared'); SELECT headwater.emit('shop', 'bad');
         SELECT headwater.nack('shop', 'queue', c.claim_id, permanent => true) FROM headwater.claim('shop', 'queue') c;
         SELECT headwater.pause_subscriber('shop', 'queue');
         SELECT headwater.emit_at('shop', 'late', now() + interval '1 day'); UPDATE headwater_private.due_events SET failures = 1, error = 'x'",
    )
    .await;
    assert!(message(&found(&cli, "dead_letters")).ends_with("queue (1)"));
    assert_eq!(message(&found(&cli, "paused")), "paused: queue");
    assert!(message(&found(&cli, "due_events")).starts_with("1 due events"));
    assert!(found(&cli, "stale_nodes").is_empty());
    assert!(found(&cli, "pg_partman").is_empty());
    run(&mut session, "UPDATE headwater_private.namespaces SET months_made_by = 'pg_partman'").await;
    assert_eq!(found(&cli, "pg_partman")[0]["mend"], "CREATE EXTENSION pg_partman");
}
