//! What can happen to a durable slot, and to the server behind it. Each test has its own server.

use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::common::{Recorder, quick, soon, until};
use headwater::admin::NamespaceConfig;
use headwater::cdc::{CdcMode, CdcOptions, Live, LiveState};
use headwater::delivery::OperatorStore;
use headwater::{Event, Headwater, Json, Namespace, Node, Subscription};
use headwater_embedded::{Server, ServerBuilder, Shutdown};
use sqlx::{Connection, PgConnection};

fn inbox() -> Live {
    Live::Cdc(CdcOptions { mode: CdcMode::inbox(), ..CdcOptions::default() })
}

async fn open(url: &str, live: Live) -> (Headwater, Namespace) {
    let headwater = Headwater::builder().live(live).connect(url).await.unwrap();
    headwater.migrate().await.unwrap();
    headwater.create_namespace(NamespaceConfig::new("shop")).await.unwrap();
    let shop = headwater.namespace("shop").await.unwrap();
    (headwater, shop)
}

async fn start(shop: &Namespace, recorder: &Recorder) -> Node {
    shop.node("a").run(Subscription::of(recorder.clone()).config(quick())).start().await.unwrap()
}

async fn in_state(node: &Node, state: LiveState) {
    until(|| async { node.status().live.is_some_and(|live| live.state == state) }).await;
}

async fn emit(shop: &Namespace) -> u64 {
    shop.emit(Event::raw("e", Json::null())).await.unwrap().global_sequence()
}

async fn session(url: &str) -> PgConnection {
    PgConnection::connect(url).await.unwrap()
}

async fn run(session: &mut PgConnection, statement: &'static str) {
    sqlx::raw_sql(statement).execute(session).await.unwrap();
}

async fn is(url: &str, query: &'static str) -> bool {
    sqlx::query_scalar(query).fetch_one(&mut session(url).await).await.unwrap()
}

/// An event that is delivered, and came by the inbox.
async fn comes_from_the_wal(node: &Node, shop: &Namespace) -> u64 {
    in_state(node, LiveState::Streaming).await;
    let before = node.status().live.unwrap().received;
    let last = emit(shop).await;
    soon(node.wait_for("totals", last)).await.unwrap();
    until(|| async { node.status().live.unwrap().received > before }).await;
    last
}

/// The slot retains more than allowed, because a transaction stays open. The server invalidates the
/// slot and ends its reader. Until there is a new slot, nodes read the log. The new slot begins at
/// the current end of the WAL, and the events in between are read from the log.
#[tokio::test]
async fn a_slot_that_is_invalidated_is_made_anew_and_the_log_has_what_was_missed_own_server() {
    let server = Server::builder()
        .setting("max_slot_wal_keep_size", "16MB")
        .setting("max_wal_size", "32MB")
        .setting("min_wal_size", "32MB")
        .start()
        .expect("failed to start a server");
    let url = server.url("headwater");
    let (headwater, shop) = open(&url, inbox()).await;
    let recorder = Recorder::new("totals");
    let node = start(&shop, &recorder).await;
    comes_from_the_wal(&node, &shop).await;
    assert_eq!(node.status().live.unwrap().warnings, Vec::<String>::new());
    let slots = headwater.admin().replication_slots().await.unwrap();

    let mut holder = session(&url).await;
    let mut held = holder.begin().await.unwrap();
    sqlx::query("SELECT pg_current_xact_id()").execute(&mut *held).await.unwrap();
    let mut writer = session(&url).await;
    until(|| async {
        let mut writer = session(&url).await;
        run(&mut writer, "CREATE TABLE IF NOT EXISTS noise (); SELECT pg_switch_wal()").await;
        run(&mut writer, "DROP TABLE noise").await;
        run(&mut writer, "CHECKPOINT").await;
        // Lost, or dropped by the node already.
        is(&url, "SELECT NOT EXISTS (SELECT FROM pg_replication_slots WHERE wal_status <> 'lost' AND confirmed_flush_lsn IS NOT NULL)").await
    })
    .await;
    for _ in 0..3 {
        let last = emit(&shop).await;
        soon(node.wait_for("totals", last)).await.unwrap();
    }
    held.rollback().await.unwrap();
    let last = comes_from_the_wal(&node, &shop).await;
    assert_eq!(recorder.sequences(), (1..=last).collect::<Vec<_>>());
    let now = headwater.admin().replication_slots().await.unwrap();
    assert_eq!((now.len(), &now[0].slot), (1, &slots[0].slot));
    assert_ne!(now[0].wal_status.as_deref(), Some("lost"));
    run(&mut writer, "SELECT 1").await;
    node.shutdown().await.unwrap();
    assert_eq!(shop.subscribers().audit(&[]).await.unwrap().findings, []);
}

#[tokio::test]
async fn a_node_with_an_inbox_warns_of_what_may_become_of_the_slot_own_server() {
    let server = Server::builder().start().expect("failed to start a server");
    let live = CdcOptions { mode: CdcMode::inbox(), warn_retained_bytes: 0, ..CdcOptions::default() };
    let (headwater, shop) = open(&server.url("headwater"), Live::Cdc(live)).await;
    let recorder = Recorder::new("totals");
    let node = start(&shop, &recorder).await;
    emit(&shop).await;
    let warned = |warnings: &[String]| {
        warnings.iter().any(|warning| warning.starts_with("max_slot_wal_keep_size is -1"))
            && warnings.iter().any(|warning| warning.contains("makes the server keep"))
    };
    until(|| async { warned(&node.status().live.unwrap().warnings) }).await;
    // Whoever asks the database hears of it too.
    until(|| async {
        let nodes = headwater.admin().live_nodes().await.unwrap();
        nodes.first().is_some_and(|node| node.state == "streaming" && node.receives && warned(&node.warnings))
    })
    .await;
    let mut admin = session(&server.url("headwater")).await;
    run(&mut admin, "ALTER SYSTEM SET max_slot_wal_keep_size = '1GB'").await;
    run(&mut admin, "SELECT pg_reload_conf()").await;
    until(|| async { !warned(&node.status().live.unwrap().warnings) }).await;
    node.shutdown().await.unwrap();
    assert!(!headwater.admin().live_nodes().await.unwrap()[0].alive);
}

#[tokio::test]
async fn nodes_that_follow_the_wal_drop_slots_that_nobody_will_read_own_server() {
    let server = Server::builder().start().expect("failed to start a server");
    let url = server.url("headwater");
    let (_headwater, shop) = open(&url, Live::Cdc(CdcOptions::default())).await;
    let mut admin = session(&url).await;
    run(
        &mut admin,
        "SELECT pg_create_logical_replication_slot(format('headwater_n%s_d%s', n, d.oid), 'pgoutput')
           FROM pg_database d, unnest(ARRAY[1, 999]) n WHERE d.datname = current_database();
         SELECT pg_create_logical_replication_slot('theirs', 'pgoutput')",
    )
    .await;
    let node = start(&shop, &Recorder::new("totals")).await;
    until(|| async {
        is(&url, "SELECT array_agg(slot_name::text) = '{theirs}' FROM pg_replication_slots WHERE NOT temporary").await
    })
    .await;
    node.shutdown().await.unwrap();
}

fn owner_of(path: &Path) -> (u32, u32) {
    let metadata = path.metadata().unwrap();
    (metadata.uid(), metadata.gid())
}

fn give(path: &Path, owner: (u32, u32)) {
    chown(path, Some(owner.0), Some(owner.1)).unwrap();
    if path.is_dir() {
        path.read_dir().unwrap().for_each(|entry| give(&entry.unwrap().path(), owner));
    }
}

/// A lagging standby is promoted. Its WAL continues below places that were already stored. The
/// inbox rows at those places belong to a history that is over. If they were trusted, they would
/// block the events that have those places now.
#[tokio::test]
async fn after_a_promotion_what_was_received_before_is_not_trusted_own_server() {
    let server = Server::builder().start().expect("failed to start a server");
    // Only full installations have pg_basebackup.
    if !server.bin_dir().join("pg_basebackup").exists() {
        eprintln!("no pg_basebackup in {}: there are no standbys here", server.bin_dir().display());
        return;
    }
    let (first, shop) = open(&server.url("headwater"), inbox()).await;
    let recorder = Recorder::new("totals");
    let node = start(&shop, &recorder).await;
    comes_from_the_wal(&node, &shop).await;

    let home = tempfile::Builder::new().prefix("headwater-standby-").tempdir_in(std::env::temp_dir()).unwrap();
    let folder = home.path().join("server");
    std::fs::create_dir(&folder).unwrap();
    let copied = Command::new(server.bin_dir().join("pg_basebackup"))
        .args(["-d", &server.url("postgres"), "-X", "stream", "-c", "fast"])
        .arg("-D")
        .arg(folder.join("pgdata"))
        .output()
        .unwrap();
    assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
    // This one the copy does not have, and never will.
    let lost = comes_from_the_wal(&node, &shop).await;
    node.shutdown().await.unwrap();
    first.shutdown().await;

    std::fs::write(folder.join("pgdata/standby.signal"), "").unwrap();
    let owner = owner_of(server.data_dir());
    give(home.path(), owner);
    drop(server);
    let standby = tokio::task::spawn_blocking(move || {
        ServerBuilder::durable(folder).start().expect("failed to start the standby")
    });
    let standby = standby.await.unwrap();
    let url = standby.url("headwater");
    let mut admin = session(&url).await;
    let before: i32 =
        sqlx::query_scalar("SELECT timeline FROM headwater_private.cdc_slots").fetch_one(&mut admin).await.unwrap();
    assert!(is(&url, "SELECT pg_is_in_recovery() AND pg_promote()").await);
    // The other history was further ahead. The place of a future commit is unknown, so each place
    // is taken, from the point where the WAL continues.
    run(
        &mut admin,
        "DO $$ DECLARE
             goes_on pg_lsn := '0/0'::pg_lsn + (ceil((pg_current_wal_lsn() - '0/0') / 16777216) + 4) * 16777216;
         BEGIN
             INSERT INTO headwater_private.cdc_inbox (namespace_id, slot, commit_lsn, nth, global_sequence, status)
             SELECT s.namespace_id, s.slot, goes_on + 8 * i, 1, 0, 'DISPATCHED' FROM headwater_private.cdc_slots s, generate_series(0, 60000) i;
             WHILE pg_current_wal_lsn() < goes_on LOOP
                 PERFORM pg_logical_emit_message(false, 'noise', ''), pg_switch_wal();
             END LOOP;
         END $$",
    )
    .await;

    let (second, shop) = open(&url, inbox()).await;
    let recorder = Recorder::new("totals");
    let node = start(&shop, &recorder).await;
    let again = comes_from_the_wal(&node, &shop).await;
    assert_eq!(again, lost, "the log goes on where the copy ends");
    assert!(recorder.sequences().ends_with(&[again]));
    let (timeline, old): (i32, i64) = sqlx::query_as(
        "SELECT s.timeline, (SELECT count(*) FROM headwater_private.cdc_inbox i WHERE i.global_sequence = 0) FROM headwater_private.cdc_slots s",
    )
    .fetch_one(&mut admin)
    .await
    .unwrap();
    assert_eq!((timeline, old), (before + 1, 0));
    node.shutdown().await.unwrap();
    assert_eq!(shop.subscribers().audit(&[]).await.unwrap().findings, []);
    second.shutdown().await;
    drop(admin);
    tokio::task::spawn_blocking(move || standby.stop(Shutdown::Fast).map(drop)).await.unwrap().unwrap();
}

/// In both modes: the node polls while the server writes too little into its WAL. It streams once
/// the server was restarted with more. The node is not restarted.
#[tokio::test]
async fn a_server_that_is_restarted_with_logical_wal_is_followed_own_server() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("server");
    let begin = |level: &'static str, port: Option<u16>| {
        let builder = ServerBuilder::durable(&folder).setting("wal_level", level);
        let builder = port.into_iter().fold(builder, ServerBuilder::port);
        tokio::task::spawn_blocking(move || builder.start().expect("failed to start a server"))
    };
    let end = |server: Server| tokio::task::spawn_blocking(move || server.stop(Shutdown::Fast).map(drop));
    // Its folder is not for root, and the way there is for all.
    std::fs::set_permissions(home.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let server = begin("replica", None).await.unwrap();
    let (url, port) = (server.url("headwater"), server.port());
    let (headwater, shop) = open(&url, inbox()).await;
    let (mine, direct) = (Recorder::new("totals"), Recorder::new("direct"));
    let node = start(&shop, &mine).await;
    let other =
        shop.node("b").live(Live::Cdc(CdcOptions::default())).run(Subscription::of(direct.clone()).config(quick()));
    let other = other.start().await.unwrap();
    for node in [&node, &other] {
        in_state(node, LiveState::Degraded).await;
        until(|| async {
            node.status().live.unwrap().error.is_some_and(|error| error.contains("wal_level is replica"))
        })
        .await;
    }
    let polled = emit(&shop).await;
    soon(node.wait_for("totals", polled)).await.unwrap();
    soon(other.wait_for("direct", polled)).await.unwrap();
    until(|| async {
        let nodes = headwater.admin().live_nodes().await.unwrap();
        nodes.len() == 2 && nodes.iter().all(|node| node.state == "degraded" || node.state == "recovering")
    })
    .await;

    end(server).await.unwrap().unwrap();
    let server = begin("logical", Some(port)).await.unwrap();
    let last = comes_from_the_wal(&node, &shop).await;
    in_state(&other, LiveState::Streaming).await;
    soon(other.wait_for("direct", last)).await.unwrap();
    // A checkpoint in flight when the server stopped may let an event come again, but none is left
    // out.
    for recorder in [&mine, &direct] {
        let mut handled = recorder.sequences();
        handled.dedup();
        assert_eq!(handled, (1..=last).collect::<Vec<_>>());
    }
    until(|| async { headwater.admin().live_nodes().await.unwrap().iter().all(|node| node.state == "streaming") })
        .await;
    node.shutdown().await.unwrap();
    other.shutdown().await.unwrap();
    assert_eq!(shop.subscribers().audit(&[]).await.unwrap().findings, []);
    headwater.shutdown().await;
    end(server).await.unwrap().unwrap();
}

/// Waiting for something that must not happen proves nothing, however long. What is tested here is
/// that the state is written on a change, and not for each event.
#[tokio::test]
async fn the_state_is_written_when_it_changes_and_not_for_events_own_server() {
    let server = Server::builder().start().expect("failed to start a server");
    let url = server.url("headwater");
    let (headwater, shop) = open(&url, Live::Cdc(CdcOptions::default())).await;
    let recorder = Recorder::new("totals");
    let node = start(&shop, &recorder).await;
    in_state(&node, LiveState::Streaming).await;
    until(|| async {
        headwater.admin().live_nodes().await.unwrap().first().is_some_and(|node| node.state == "streaming")
    })
    .await;
    let version = async || {
        let version = "SELECT ctid::text || xmin::text FROM headwater_private.cdc_nodes";
        sqlx::query_scalar::<_, String>(version).fetch_one(&mut session(&url).await).await.unwrap()
    };
    let before = version().await;
    let mut last = 0;
    for _ in 0..100 {
        last = emit(&shop).await;
    }
    soon(node.wait_for("totals", last)).await.unwrap();
    assert_eq!(version().await, before);
    let mut admin = session(&url).await;
    run(&mut admin, "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots").await;
    until(|| async { version().await != before }).await;
    in_state(&node, LiveState::Streaming).await;
    node.shutdown_within(Duration::from_secs(5)).await.unwrap();
}
