//! The inbox: one durable slot, one node that receives, all nodes dispatch. Slots belong to a
//! server, so each test has its own server.

use std::time::Duration;

use crate::common::{Recorder, quick, soon, until};
use headwater::admin::NamespaceConfig;
use headwater::cdc::{CdcMode, CdcOptions, Live, LiveState};
use headwater::delivery::OperatorStore;
use headwater::{Event, Headwater, Json, Namespace, Node, Subscription};
use headwater_embedded::Server;
use sqlx::{Connection, PgConnection};

fn inbox(keep_for: Duration) -> Live {
    Live::Cdc(CdcOptions { mode: CdcMode::Inbox { keep_for }, ..CdcOptions::default() })
}

const HOUR: Duration = Duration::from_secs(3600);

async fn open(server: &Server, live: Live) -> (Headwater, Namespace) {
    let headwater = Headwater::builder().live(live).connect(&server.url("headwater")).await.unwrap();
    headwater.migrate().await.unwrap();
    headwater.create_namespace(NamespaceConfig::new("shop").notify(false)).await.unwrap();
    let shop = headwater.namespace("shop").await.unwrap();
    (headwater, shop)
}

async fn session(server: &Server) -> PgConnection {
    PgConnection::connect(&server.url("headwater")).await.unwrap()
}

async fn start(shop: &Namespace, name: &str, recorder: &Recorder) -> Node {
    let node = shop.node(name).run(Subscription::of(recorder.clone()).config(quick())).start().await.unwrap();
    streaming(&node).await;
    node
}

async fn streaming(node: &Node) {
    until(|| async { node.status().live.is_some_and(|live| live.state == LiveState::Streaming) }).await;
}

async fn emit(shop: &Namespace) -> u64 {
    shop.emit(Event::raw("e", Json::null())).await.unwrap().global_sequence()
}

async fn number(session: &mut PgConnection, query: &'static str) -> i64 {
    sqlx::query_scalar(query).fetch_one(session).await.unwrap()
}

#[tokio::test]
async fn one_slot_serves_all_nodes_and_the_next_takes_it_over_own_server() {
    let server = Server::builder().start().expect("failed to start a server");
    let (first, shop) = open(&server, inbox(HOUR)).await;
    let (_second, same) = open(&server, inbox(HOUR)).await;
    let mut session = session(&server).await;
    let (ours, theirs) = (Recorder::new("ours"), Recorder::new("theirs"));
    let a = start(&shop, "a", &ours).await;
    let b = start(&same, "b", &theirs).await;
    let mut last = 0;
    for _ in 0..50 {
        last = emit(&same).await;
    }
    soon(a.wait_for("ours", last)).await.unwrap();
    soon(b.wait_for("theirs", last)).await.unwrap();
    assert_eq!((ours.sequences(), theirs.sequences()), ((1..=last).collect(), (1..=last).collect()));
    assert_eq!(number(&mut session, "SELECT count(*) FROM pg_replication_slots").await, 1);
    for node in [&a, &b] {
        let live = node.status().live.unwrap();
        assert!(live.received > 0, "{live:?}");
    }
    until(|| async {
        let mut session = PgConnection::connect(&server.url("headwater")).await.unwrap();
        number(&mut session, "SELECT count(*) FROM headwater_private.cdc_inbox WHERE status <> 'DISPATCHED'").await == 0
    })
    .await;
    let owner: String =
        sqlx::query_scalar("SELECT owner_node FROM headwater_private.cdc_slots").fetch_one(&mut session).await.unwrap();
    assert_eq!(owner, "a");
    // As a crash.
    drop(a);
    first.shutdown().await;
    until(|| async {
        let mut session = PgConnection::connect(&server.url("headwater")).await.unwrap();
        let owner: String = sqlx::query_scalar("SELECT owner_node FROM headwater_private.cdc_slots")
            .fetch_one(&mut session)
            .await
            .unwrap();
        owner == "b"
    })
    .await;
    streaming(&b).await;
    let before = b.status().live.unwrap().received;
    for _ in 0..50 {
        last = emit(&same).await;
    }
    soon(b.wait_for("theirs", last)).await.unwrap();
    until(|| async { b.status().live.unwrap().received > before }).await;
    assert_eq!(theirs.sequences(), (1..=last).collect::<Vec<_>>());
    let twice = "SELECT count(*) - count(DISTINCT global_sequence) FROM headwater_private.cdc_inbox";
    assert_eq!(number(&mut session, twice).await, 0);
    b.shutdown().await.unwrap();
    assert_eq!(same.subscribers().audit(&[]).await.unwrap().findings, []);
}

#[tokio::test]
async fn a_slot_that_is_dropped_under_way_is_made_anew_own_server() {
    let server = Server::builder().start().expect("failed to start a server");
    let (_headwater, shop) = open(&server, inbox(Duration::ZERO)).await;
    let mut session = session(&server).await;
    let recorder = Recorder::new("totals");
    let node = start(&shop, "a", &recorder).await;
    let mut last = emit(&shop).await;
    for _ in 0..3 {
        // The reader is ended and the slot gone before it is back; else it is tried again.
        let drop_slot = "DO $$ BEGIN
            LOOP
                PERFORM pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active;
                BEGIN
                    PERFORM pg_drop_replication_slot(slot_name) FROM pg_replication_slots;
                    EXIT;
                EXCEPTION WHEN object_in_use THEN
                    PERFORM pg_sleep(0.01);
                END;
            END LOOP; END $$";
        sqlx::raw_sql(drop_slot).execute(&mut session).await.unwrap();
        for _ in 0..20 {
            last = emit(&shop).await;
        }
        soon(node.wait_for("totals", last)).await.unwrap();
        until(|| async {
            let mut session = PgConnection::connect(&server.url("headwater")).await.unwrap();
            number(&mut session, "SELECT count(*) FROM pg_replication_slots WHERE active").await == 1
        })
        .await;
        streaming(&node).await;
    }
    let before = node.status().live.unwrap().received;
    last = emit(&shop).await;
    soon(node.wait_for("totals", last)).await.unwrap();
    until(|| async { node.status().live.unwrap().received > before }).await;
    assert_eq!(recorder.sequences(), (1..=last).collect::<Vec<_>>());
    // What was dispatched is not kept.
    until(|| async {
        let mut session = PgConnection::connect(&server.url("headwater")).await.unwrap();
        number(&mut session, "SELECT count(*) FROM headwater_private.cdc_inbox").await == 0
    })
    .await;
    node.shutdown().await.unwrap();
    assert_eq!(shop.subscribers().audit(&[]).await.unwrap().findings, []);
}

#[tokio::test]
async fn poison_is_marked_in_the_inbox_and_an_idle_log_writes_nothing_own_server() {
    let server = Server::builder().start().expect("failed to start a server");
    let (_headwater, shop) = open(&server, inbox(HOUR)).await;
    let mut session = session(&server).await;
    let recorder = Recorder::new("totals");
    let node = start(&shop, "a", &recorder).await;
    emit(&shop).await;
    let insert = "INSERT INTO headwater_private.events (global_sequence, transaction_id, created_at, recorded_at, namespace_id, event_id,
                                                event_type, headers, data)
                  SELECT nextval(n.sequence), pg_current_xact_id()::text::bigint, now(), now(), n.namespace_id, gen_random_uuid(),
                         'Broken', '[1]', '{}' FROM headwater_private.namespaces n";
    sqlx::query(insert).execute(&mut session).await.unwrap();
    let last = emit(&shop).await;
    soon(node.wait_for("totals", last)).await.unwrap();
    assert_eq!(recorder.sequences(), [1, 3]);
    until(|| async {
        let mut session = PgConnection::connect(&server.url("headwater")).await.unwrap();
        number(&mut session, "SELECT count(*) FROM headwater_private.cdc_inbox").await == 3
    })
    .await;
    let (sequence, error): (i64, String) =
        sqlx::query_as("SELECT global_sequence, error FROM headwater_private.cdc_inbox WHERE status = 'POISON'")
            .fetch_one(&mut session)
            .await
            .unwrap();
    assert_eq!(sequence, 2);
    assert!(error.contains("JSON"), "{error}");
    assert_eq!(shop.poison(false, 10).await.unwrap()[0].global_sequence, 2);
    // Transactions without events of ours make no rows: writing rows for them would make more WAL.
    for _ in 0..20 {
        sqlx::query("CREATE TABLE theirs ()").execute(&mut session).await.unwrap();
        sqlx::query("DROP TABLE theirs").execute(&mut session).await.unwrap();
    }
    let next = emit(&shop).await;
    soon(node.wait_for("totals", next)).await.unwrap();
    until(|| async { recorder.sequences().len() == 3 }).await;
    assert_eq!(
        number(&mut session, "SELECT count(*) FROM headwater_private.cdc_inbox WHERE global_sequence <= 3").await,
        3
    );
    node.shutdown().await.unwrap();
    assert_eq!(shop.subscribers().audit(&[]).await.unwrap().findings, []);
}

/// A transaction with more poison than is kept of one transaction, around one event. It delays
/// nothing, all poison is noted, and nothing is lost.
#[tokio::test]
async fn a_transaction_full_of_poison_is_passed_and_noted_own_server() {
    let server = Server::builder().start().expect("failed to start a server");
    let (_headwater, shop) = open(&server, inbox(HOUR)).await;
    let mut session = session(&server).await;
    let recorder = Recorder::new("totals");
    let node = start(&shop, "a", &recorder).await;
    let first = emit(&shop).await;
    let insert = "INSERT INTO headwater_private.events (global_sequence, transaction_id, created_at, recorded_at, namespace_id, event_id,
                                                event_type, headers, data)
                  SELECT nextval(n.sequence), pg_current_xact_id()::text::bigint, now(), now(), n.namespace_id, gen_random_uuid(),
                         'Broken', CASE WHEN i <> 60 THEN '[1]'::jsonb END, '{}' FROM headwater_private.namespaces n, generate_series(1, 250) i";
    sqlx::query(insert).execute(&mut session).await.unwrap();
    let last = emit(&shop).await;
    soon(node.wait_for("totals", last)).await.unwrap();
    assert_eq!(recorder.sequences(), [first, first + 60, last]);
    assert_eq!(shop.poison(false, 10_000).await.unwrap().len(), 249);
    // One transaction is one place in the WAL. It keeps part of the poison, and a row that says
    // that there is more.
    until(|| async {
        let mut session = PgConnection::connect(&server.url("headwater")).await.unwrap();
        number(&mut session, "SELECT count(*) FROM headwater_private.cdc_inbox WHERE status = 'POISON'").await == 100
    })
    .await;
    node.shutdown().await.unwrap();
    assert_eq!(shop.subscribers().audit(&[]).await.unwrap().findings, []);
}

/// The stream ends again and again before stored events are acknowledged. They are sent again, and
/// are in the inbox once.
#[tokio::test]
async fn what_is_sent_again_is_stored_once_own_server() {
    let server = Server::builder().start().expect("failed to start a server");
    let (_headwater, shop) = open(&server, inbox(HOUR)).await;
    let mut session = session(&server).await;
    let recorder = Recorder::new("totals");
    let node = start(&shop, "a", &recorder).await;
    let mut last = 0;
    for _ in 0..3 {
        for _ in 0..20 {
            last = emit(&shop).await;
        }
        soon(node.wait_for("totals", last)).await.unwrap();
        until(|| async {
            let mut session = PgConnection::connect(&server.url("headwater")).await.unwrap();
            number(&mut session, "SELECT max(global_sequence) FROM headwater_private.cdc_inbox").await as u64 == last
        })
        .await;
        let stop = "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active";
        sqlx::raw_sql(stop).execute(&mut session).await.unwrap();
        until(|| async { node.status().live.is_some_and(|live| live.state != LiveState::Streaming) }).await;
        streaming(&node).await;
    }
    assert_eq!(recorder.sequences(), (1..=last).collect::<Vec<_>>());
    let twice = "SELECT count(*) - count(DISTINCT global_sequence) FROM headwater_private.cdc_inbox";
    assert_eq!(number(&mut session, twice).await, 0);
    node.shutdown().await.unwrap();
    assert_eq!(shop.subscribers().audit(&[]).await.unwrap().findings, []);
}
