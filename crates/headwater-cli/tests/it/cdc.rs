//! `cdc`, and `consume --live cdc`: in processes of their own, which die.

use std::time::Instant;

use crate::common::{Cli, Said};
use rustix::process::Signal;
use serde_json::Value;

/// Shows the slots again and again, until they are as expected.
#[track_caller]
fn slots_until(cli: &Cli, as_expected: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let begin = Instant::now();
    loop {
        let slots = lines(cli, "slot");
        if as_expected(&slots) {
            return slots;
        }
        assert!(begin.elapsed().as_secs() < 30, "{slots:#?}");
    }
}

/// Shows the nodes again and again, until they are as expected.
#[track_caller]
fn nodes_until(cli: &Cli, as_expected: impl Fn(&[Value]) -> bool) {
    let begin = Instant::now();
    loop {
        let nodes = lines(cli, "node");
        if as_expected(&nodes) {
            return;
        }
        assert!(begin.elapsed().as_secs() < 30, "{nodes:#?}");
    }
}

/// What the status says of slots, or of nodes.
#[track_caller]
fn lines(cli: &Cli, kind: &str) -> Vec<Value> {
    let mut lines = cli.run(["cdc", "status", "--json"]).ok().json_lines();
    lines.retain(|line| line["kind"] == kind);
    lines
}

fn is_read_by(slots: &[Value], node: &str) -> bool {
    slots.len() == 1 && slots[0]["application_name"] == format!("headwater-cdc shop {node}")
}

#[tokio::test]
async fn a_consumer_that_is_killed_leaves_no_slot_behind() {
    let cli = Cli::with_shop().await;
    assert_eq!(cli.run(["cdc", "status"]).ok().out, "nobody follows the WAL\n");
    let consumer = cli.consume("m", &["--live", "cdc", "--node", "n1"]);
    let slots = slots_until(&cli, |slots| is_read_by(slots, "n1"));
    assert_eq!((&slots[0]["temporary"], &slots[0]["plugin"]), (&true.into(), &"pgoutput".into()));
    cli.emit(1..=3);
    assert_eq!([(); 3].map(|()| consumer.sequence()), [1, 2, 3]);
    let status = cli.run(["cdc", "status"]).ok().out;
    assert!(status.contains("shop n1") && status.contains("temporary"), "{status}");
    let slot = slots[0]["slot"].as_str().unwrap();
    cli.run(["cdc", "drop-slot", slot, "--yes"]).fails(5, "is being read");
    nodes_until(&cli, |nodes| nodes[0]["state"] == "streaming");
    consumer.stop(Signal::KILL);
    slots_until(&cli, <[Value]>::is_empty);
    assert_eq!(lines(&cli, "node")[0]["state"], "interrupted", "it cannot say so itself");
    let status = cli.run(["cdc", "status"]).ok().out;
    assert!(status.contains("interrupted") && !status.contains("streaming"), "{status}");
    cli.run(["cdc", "drop-slot", slot, "--yes"]).fails(4, "does not exist");
    cli.run(["cdc", "drop-slot", "theirs", "--yes"]).fails(2, "not Headwater's");
    let again = cli.consume_all("m", &["--live", "cdc"]).ok();
    assert!(again.sequences().iter().all(|sequence| *sequence == 3), "at most what was not written: {again:?}");
}

#[tokio::test]
async fn who_has_the_slot_is_killed_and_the_next_receives() {
    let cli = Cli::with_shop().await;
    let args = |node: &'static str| ["--live", "cdc", "--cdc-mode", "inbox", "--node", node];
    let first = cli.consume("ours", &args("n1"));
    slots_until(&cli, |slots| is_read_by(slots, "n1"));
    let second = cli.consume("theirs", &args("n2"));
    cli.emit(1..=3);
    assert_eq!([(); 3].map(|()| first.sequence()), [1, 2, 3]);
    assert_eq!([(); 3].map(|()| second.sequence()), [1, 2, 3]);
    first.stop(Signal::KILL);
    let slots = slots_until(&cli, |slots| is_read_by(slots, "n2"));
    assert_eq!(slots[0]["temporary"], false);
    nodes_until(&cli, |nodes| nodes[0]["state"] == "interrupted" && nodes[1]["state"] == "streaming");
    cli.emit(4..=6);
    assert_eq!([(); 3].map(|()| second.sequence()), [4, 5, 6]);
    let slot = slots[0]["slot"].as_str().unwrap();
    let last = second.stop(Signal::TERM).ok();
    assert!(last.err.contains(&format!("headwater cdc drop-slot {slot}")), "{}", last.err);
    slots_until(&cli, |slots| slots[0]["active_pid"].is_null());
    let status = cli.run(["cdc", "status"]).ok().out;
    assert!(status.contains(&format!("warning: nobody reads slot {slot}")), "{status}");
    let warned = cli.run(["cdc", "doctor"]).ok().out;
    assert!(warned.contains("read by nobody") && warned.contains("max_slot_wal_keep_size: no limit"), "{warned}");
    let dropped = cli.run(["cdc", "drop-slot", "--orphans", "--yes"]).ok().out;
    assert!(dropped.starts_with("dropped headwater_n1_d"), "{dropped}");
    assert_eq!(lines(&cli, "slot"), Vec::<Value>::new());
    let nodes = lines(&cli, "node");
    assert_eq!((nodes.len(), &nodes[1]["node_id"], &nodes[1]["alive"]), (2, &"n2".into(), &false.into()), "{nodes:#?}");
    let audit: Said = cli.run(["audit", "-n", "shop"]);
    audit.ok();
}

/// A node is paused for longer than its lease, as by a debugger or a host that is moved. Its
/// connections stay open. Then it continues.
#[tokio::test]
async fn who_has_the_slot_and_is_paused_is_replaced_and_writes_no_more() {
    let cli = Cli::with_shop().await;
    let mut session = cli.db.session().await;
    let args = |node: &'static str| ["--live", "cdc", "--cdc-mode", "inbox", "--node", node];
    let first = cli.consume("ours", &args("n1"));
    slots_until(&cli, |slots| is_read_by(slots, "n1"));
    let second = cli.consume("theirs", &args("n2"));
    let state_of = |node: &str, expected: &str| {
        let begin = Instant::now();
        loop {
            let nodes = lines(&cli, "node");
            let found = nodes.iter().find(|line| line["node_id"] == node);
            if let Some(found) = found.filter(|found| found["state"] == expected) {
                return found.clone();
            }
            assert!(begin.elapsed().as_secs() < 30, "{nodes:#?}");
        }
    };
    assert_eq!(state_of("n1", "streaming")["receives"], true);
    assert_eq!(state_of("n2", "streaming")["receives"], false);
    let shown = cli.run(["cdc", "status"]).ok().out;
    assert!(shown.contains("inbox, receives") && shown.contains("warning: max_slot_wal_keep_size is -1"), "{shown}");
    cli.emit(1..=2);
    assert_eq!([(); 2].map(|()| first.sequence()), [1, 2]);
    first.signal(Signal::STOP);
    sqlx::query("UPDATE headwater_private.cdc_slots SET lease_until = clock_timestamp()")
        .execute(&mut session)
        .await
        .unwrap();
    // While the one that is paused has its connection: the server would end it after a minute.
    slots_until(&cli, |slots| is_read_by(slots, "n2"));
    cli.emit(3..=4);
    assert_eq!([(); 4].map(|()| second.sequence()), [1, 2, 3, 4]);
    let term = "SELECT term FROM headwater_private.cdc_slots WHERE owner_node = 'n2'";
    let term_of_second: i64 = sqlx::query_scalar(term).fetch_one(&mut session).await.unwrap();
    first.signal(Signal::CONT);
    cli.emit(5..=6);
    assert_eq!([(); 4].map(|()| first.sequence()), [3, 4, 5, 6]);
    assert_eq!([(); 2].map(|()| second.sequence()), [5, 6]);
    assert_eq!(state_of("n1", "streaming")["receives"], false);
    assert_eq!(state_of("n2", "streaming")["receives"], true);
    let now: i64 = sqlx::query_scalar(term).fetch_one(&mut session).await.unwrap();
    assert_eq!(now, term_of_second, "it was nobody else's in between");
    let twice = "SELECT count(*) - count(DISTINCT global_sequence) FROM headwater_private.cdc_inbox";
    assert_eq!(sqlx::query_scalar::<_, i64>(twice).fetch_one(&mut session).await.unwrap(), 0);
    first.stop(Signal::TERM).ok();
    second.stop(Signal::TERM).ok();
    slots_until(&cli, |slots| slots[0]["active_pid"].is_null());
    cli.run(["cdc", "drop-slot", "--orphans", "--yes"]).ok();
    cli.run(["audit", "-n", "shop"]).ok();
}

#[tokio::test]
async fn the_doctor_says_what_is_missing() {
    let cli = Cli::with_shop().await;
    let found = cli.run(["cdc", "doctor"]).ok().out;
    assert!(found.contains("ok    wal_level: logical") && found.contains("not published yet: shop"), "{found}");
    let findings = cli.run(["cdc", "doctor", "--json"]).ok().json_lines();
    assert!(findings.iter().any(|finding| finding["check"] == "role" && finding["verdict"] == "ok"), "{findings:#?}");
    let role = cli.db.role().await;
    cli.run(["grant", "-n", "shop", "--role", &role.name, "consumer"]).ok();
    let refused = cli.run(["cdc", "doctor", "--database-url", &role.url]).fails(7, "nodes poll the log");
    // A consumer may not publish months that namespaces share; once the owner has, it need not.
    assert!(refused.out.contains("FAIL  role") && refused.out.contains("FAIL  publications"), "{}", refused.out);
    let mut session = cli.db.session().await;
    sqlx::query("SELECT headwater.publish_namespace('shop')").execute(&mut session).await.unwrap();
    let refused = cli.run(["cdc", "doctor", "--database-url", &role.url]).fails(7, "nodes poll the log");
    assert!(!refused.out.contains("FAIL  publications"), "{}", refused.out);
    cli.run(["revoke", "-n", "shop", "--role", &role.name]).ok();
    cli.db.drop_role(role).await;
}

#[tokio::test]
async fn poison_is_listed_and_redelivered() {
    let cli = Cli::with_shop().await;
    cli.emit(1..=1);
    let insert = "INSERT INTO headwater_private.events (global_sequence, transaction_id, created_at, recorded_at, namespace_id, event_id,
                                                event_type, headers, data)
                  SELECT nextval(n.sequence), pg_current_xact_id()::text::bigint, now(), now(), n.namespace_id, gen_random_uuid(),
                         'Broken', '[1]', '{}' FROM headwater_private.namespaces n";
    let mut session = cli.db.session().await;
    sqlx::query(insert).execute(&mut session).await.unwrap();
    cli.emit(3..=3);
    assert_eq!(cli.consume_all("m", &[]).ok().sequences(), [1, 3]);
    assert_eq!(cli.run(["cdc", "poison", "-n", "shop", "--json"]).ok().json()["global_sequence"], 2);
    let read = cli.run(["read", "-n", "shop", "--gaps"]).ok().out;
    assert!(read.contains("2  gap, poison") && !read.contains("rolled back"), "{read}");
    let read = cli.run(["read", "-n", "shop", "--gaps", "--json"]).ok().json_lines();
    assert_eq!(read[1]["gap"], serde_json::json!({"first": 2, "last": 2, "state": "poison"}));
    cli.run(["cdc", "redeliver", "-n", "shop", "2"]).fails(2, "not repaired");
    cli.run(["cdc", "redeliver", "-n", "shop", "9"]).fails(2, "there is no event 9");
    sqlx::query("UPDATE headwater_private.events SET headers = NULL WHERE global_sequence = 2")
        .execute(&mut session)
        .await
        .unwrap();
    assert_eq!(cli.run(["cdc", "redeliver", "-n", "shop", "2"]).ok().out, "1 partition will be told of event 2\n");
    let late = cli.run(["consume", "-n", "shop", "-s", "m", "--count", "1"]).ok();
    assert_eq!(late.sequences(), [2]);
    assert_eq!(cli.run(["cdc", "poison", "-n", "shop"]).ok().out, "there is no poison\n");
    assert!(cli.run(["cdc", "poison", "-n", "shop", "--all"]).ok().out.contains("JSON"), "with its error");

    cli.run(["cdc", "redeliver", "-n", "shop", "--in-order", "2"]).fails(2, "not poison");
    sqlx::query(insert).execute(&mut session).await.unwrap();
    cli.emit(4..=4);
    assert_eq!(cli.consume_all("m", &[]).ok().sequences(), [5]);
    sqlx::query("UPDATE headwater_private.events SET headers = NULL").execute(&mut session).await.unwrap();
    let redelivered = cli.run(["cdc", "redeliver", "-n", "shop", "--in-order", "4"]).ok();
    assert_eq!(redelivered.out, "moved 0 partitions back, and 1 partition will be told late\n", "nobody runs it");
    assert_eq!(cli.run(["consume", "-n", "shop", "-s", "m", "--count", "1"]).ok().sequences(), [4]);
}
