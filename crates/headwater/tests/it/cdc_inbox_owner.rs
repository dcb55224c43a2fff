//! Who owns the slot: a former owner's session that still reads it is ended or waited for. Slots
//! belong to a server, so each test has its own server.

use crate::common::{Recorder, quick, soon, until};
use headwater::admin::{GrantKind, NamespaceConfig};
use headwater::cdc::{CdcMode, CdcOptions, Live, LiveState, Plugin};
use headwater::delivery::OperatorStore;
use headwater::{Event, Headwater, Json, Namespace, Subscription};
use headwater_cdc::{Endpoint, Replication, SlotKind};
use headwater_embedded::Server;
use sqlx::{Connection, PgConnection};

fn inbox() -> Live {
    Live::Cdc(CdcOptions { mode: CdcMode::inbox(), ..CdcOptions::default() })
}

async fn emit(shop: &Namespace) -> u64 {
    shop.emit(Event::raw("e", Json::null())).await.unwrap().global_sequence()
}

/// Like an owner that lost its machine or hangs: its session reads the slot, its row says so, and
/// its lease is over.
async fn former_owner(server: &Server, shop: &Namespace, headwater: &Headwater) -> Replication {
    let publication = headwater.admin().publish_namespace("shop").await.unwrap();
    let mut session = PgConnection::connect(&server.url("headwater")).await.unwrap();
    let slot: String = sqlx::query_scalar(
        "SELECT format('headwater_n1_d%s', oid) FROM pg_database WHERE datname = current_database()",
    )
    .fetch_one(&mut session)
    .await
    .unwrap();
    let options = [("proto_version", "1".to_owned()), ("publication_names", format!("\"{publication}\""))];
    let endpoint = Endpoint::parse(&server.url("headwater")).unwrap();
    let reading = Replication::start(&endpoint, &slot, SlotKind::Durable, Plugin::Pgoutput, &options).await.unwrap();
    let (system, timeline) = reading.system();
    sqlx::query(
        "INSERT INTO headwater_private.cdc_slots (namespace_id, slot, term, owner_node, owner_instance, lease_until, reading, caught_up,
                                          system_identifier, timeline)
         VALUES (1, $1, nextval('headwater_private.terms'), 'former', gen_random_uuid(), clock_timestamp(), true, true, $2, $3)",
    )
    .bind(&slot)
    .bind(system)
    .bind(timeline as i32)
    .execute(&mut session)
    .await
    .unwrap();
    emit(shop).await;
    reading
}

async fn open(url: &str) -> (Headwater, Namespace) {
    let headwater = Headwater::builder().live(inbox()).connect(url).await.unwrap();
    headwater.migrate().await.unwrap();
    headwater.create_namespace(NamespaceConfig::new("shop").notify(false)).await.unwrap();
    let shop = headwater.namespace("shop").await.unwrap();
    (headwater, shop)
}

#[tokio::test]
async fn a_former_owners_session_is_ended_by_who_takes_over_own_server() {
    // Long before the server would do it.
    let server = Server::builder().setting("wal_sender_timeout", "1h").start().expect("failed to start a server");
    let (headwater, shop) = open(&server.url("headwater")).await;
    let _reading = former_owner(&server, &shop, &headwater).await;
    let recorder = Recorder::new("totals");
    let node = shop.node("a").run(Subscription::of(recorder.clone()).config(quick())).start().await.unwrap();
    until(|| async { node.status().live.is_some_and(|live| live.state == LiveState::Streaming) }).await;
    let last = emit(&shop).await;
    soon(node.wait_for("totals", last)).await.unwrap();
    until(|| async { node.status().live.unwrap().received > 0 }).await;
    let readers = headwater.admin().replication_slots().await.unwrap();
    assert_eq!(readers[0].application_name.as_deref(), Some("headwater-cdc shop a"));
    assert_eq!(recorder.sequences(), (1..=last).collect::<Vec<_>>());
    node.shutdown().await.unwrap();
    assert_eq!(shop.subscribers().audit(&[]).await.unwrap().findings, []);
}

#[tokio::test]
async fn a_role_that_may_not_end_it_waits_and_says_so_own_server() {
    let server = Server::builder().setting("wal_sender_timeout", "1h").start().expect("failed to start a server");
    let mut admin = PgConnection::connect(&server.url("headwater")).await.unwrap();
    // Entry points run as the owner of the tables, who is no superuser here.
    let roles =
        "CREATE ROLE app LOGIN REPLICATION PASSWORD 'app'; CREATE ROLE plain LOGIN REPLICATION PASSWORD 'plain';
                 GRANT CREATE ON DATABASE headwater TO plain";
    sqlx::raw_sql(roles).execute(&mut admin).await.unwrap();
    let (headwater, shop) = open(&format!("postgres://plain:plain@127.0.0.1:{}/headwater", server.port())).await;
    headwater.admin().grant("shop", "app", GrantKind::Consumer).await.unwrap();
    let reading = former_owner(&server, &shop, &headwater).await;
    let url = format!("postgres://app:app@127.0.0.1:{}/headwater", server.port());
    let theirs = Headwater::builder().live(inbox()).connect(&url).await.unwrap();
    let recorder = Recorder::new("totals");
    let builder =
        theirs.namespace("shop").await.unwrap().node("a").run(Subscription::of(recorder.clone()).config(quick()));
    let node = builder.without_maintenance().start().await.unwrap();
    until(|| async {
        let error = node.status().live.and_then(|live| live.error);
        error.is_some_and(|error| error.contains("waiting for wal_sender_timeout"))
    })
    .await;
    let last = emit(&shop).await;
    soon(node.wait_for("totals", last)).await.unwrap();
    assert_ne!(node.status().live.unwrap().state, LiveState::Streaming);
    // The server ends it, in its time.
    drop(reading);
    until(|| async { node.status().live.is_some_and(|live| live.state == LiveState::Streaming) }).await;
    let last = emit(&shop).await;
    soon(node.wait_for("totals", last)).await.unwrap();
    assert_eq!(recorder.sequences(), (1..=last).collect::<Vec<_>>());
    node.shutdown().await.unwrap();
}

/// The slot was made for another plugin than this node asks for. No node can read it that way, so
/// it is made again, even while another session reads it.
#[tokio::test]
async fn a_slot_of_another_plugin_is_made_anew_own_server() {
    let server = Server::builder().start().expect("failed to start a server");
    let (headwater, shop) = open(&server.url("headwater")).await;
    let mut admin = PgConnection::connect(&server.url("headwater")).await.unwrap();
    let make = "SELECT slot_name::text FROM pg_database d,
                       pg_create_logical_replication_slot(format('headwater_n1_d%s', d.oid), $1) WHERE d.datname = current_database()";
    let mut made: Option<String> = None;
    for plugin in ["test_decoding", "wal2json"] {
        if made.is_none() {
            made = sqlx::query_scalar(make).bind(plugin).fetch_one(&mut admin).await.ok();
        }
    }
    let slot = made.expect("the server has one of these plugins");
    let before = emit(&shop).await;
    let recorder = Recorder::new("totals");
    let node = shop.node("a").run(Subscription::of(recorder.clone()).config(quick())).start().await.unwrap();
    until(|| async { node.status().live.is_some_and(|live| live.state == LiveState::Streaming) }).await;
    let last = emit(&shop).await;
    soon(node.wait_for("totals", last)).await.unwrap();
    until(|| async { node.status().live.unwrap().received > 0 }).await;
    let slots = headwater.admin().replication_slots().await.unwrap();
    assert_eq!(slots.iter().map(|slot| (&*slot.slot, &*slot.plugin)).collect::<Vec<_>>(), [(&*slot, "pgoutput")]);
    assert_eq!(recorder.sequences(), (before..=last).collect::<Vec<_>>());
    node.shutdown().await.unwrap();
    assert_eq!(shop.subscribers().audit(&[]).await.unwrap().findings, []);
}

/// There is no room for the node's slot. The node fails, says so, and gives up the slot, so that
/// others that can have it need not wait for a lease.
#[tokio::test]
async fn a_node_that_cannot_read_the_slot_does_not_keep_it_from_others_own_server() {
    let server = Server::builder().setting("max_replication_slots", "1").start().expect("failed to start a server");
    let (_headwater, shop) = open(&server.url("headwater")).await;
    let mut admin = PgConnection::connect(&server.url("headwater")).await.unwrap();
    sqlx::raw_sql("SELECT pg_create_physical_replication_slot('theirs')").execute(&mut admin).await.unwrap();
    let cannot = shop.node("a").run(Subscription::of(Recorder::new("ours")).config(quick())).start().await.unwrap();
    until(|| async {
        let error = cannot.status().live.and_then(|live| live.error);
        error.is_some_and(|error| error.contains("raise max_replication_slots"))
    })
    .await;
    let released = "SELECT owner_instance IS NULL AND term > 0 FROM headwater_private.cdc_slots";
    until(|| async {
        let mut admin = PgConnection::connect(&server.url("headwater")).await.unwrap();
        sqlx::query_scalar(released).fetch_one(&mut admin).await.unwrap()
    })
    .await;
    sqlx::raw_sql("SELECT pg_drop_replication_slot('theirs')").execute(&mut admin).await.unwrap();
    let able = shop.node("b").run(Subscription::of(Recorder::new("theirs")).config(quick())).start().await.unwrap();
    for node in [&able, &cannot] {
        until(|| async { node.status().live.is_some_and(|live| live.state == LiveState::Streaming) }).await;
    }
    let last = emit(&shop).await;
    soon(able.wait_for("theirs", last)).await.unwrap();
    soon(cannot.wait_for("ours", last)).await.unwrap();
    able.shutdown().await.unwrap();
    cannot.shutdown().await.unwrap();
}
