//! An inbox that is behind: a node reads the log until the inbox has caught up, and says so. The
//! nodes here never poll, so nothing else delivers. Slots belong to a server, so each test has its
//! own server.

use std::time::Duration;

use crate::common::{Recorder, quick, soon, until};
use headwater::admin::NamespaceConfig;
use headwater::cdc::{CdcMode, CdcOptions, Live, LiveState};
use headwater::delivery::OperatorStore;
use headwater::{Event, Headwater, Json, Namespace, Node, Subscription};
use headwater_embedded::Server;
use sqlx::{Connection, PgConnection};

const HOUR: Duration = Duration::from_secs(3600);

async fn open(server: &Server) -> (Headwater, Namespace) {
    let live = Live::Cdc(CdcOptions { mode: CdcMode::inbox(), ..CdcOptions::default() });
    let headwater = Headwater::builder().live(live).connect(&server.url("headwater")).await.unwrap();
    headwater.migrate().await.unwrap();
    headwater.create_namespace(NamespaceConfig::new("shop").notify(false)).await.unwrap();
    let shop = headwater.namespace("shop").await.unwrap();
    (headwater, shop)
}

async fn start(shop: &Namespace, name: &str, recorder: &Recorder) -> Node {
    shop.node(name).run(Subscription::of(recorder.clone()).config(quick())).poll(HOUR).start().await.unwrap()
}

async fn streaming(node: &Node) {
    until(|| async { node.status().live.is_some_and(|live| live.state == LiveState::Streaming) }).await;
}

async fn emit(shop: &Namespace) -> u64 {
    shop.emit(Event::raw("e", Json::null())).await.unwrap().global_sequence()
}

async fn session(server: &Server) -> PgConnection {
    PgConnection::connect(&server.url("headwater")).await.unwrap()
}

/// Somebody who stores waits for a lock.
async fn storing_is_held(server: &Server) {
    until(|| async {
        let held = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE query LIKE '%cdc_receive%' AND wait_event_type = 'Lock')";
        sqlx::query_scalar(held).fetch_one(&mut session(server).await).await.unwrap()
    })
    .await;
}

/// The slot has a backlog, as after a time in which nobody read it. New commits are behind the
/// backlog, and do not wait for it.
#[tokio::test]
async fn while_a_backlog_is_stored_the_log_is_read_own_server() {
    let server = Server::builder().start().expect("failed to start a server");
    let (_headwater, shop) = open(&server).await;
    let recorder = Recorder::new("totals");
    let node = start(&shop, "a", &recorder).await;
    streaming(&node).await;
    node.shutdown().await.unwrap();
    for _ in 0..5 {
        emit(&shop).await;
    }
    let mut holder = session(&server).await;
    let mut held = holder.begin().await.unwrap();
    sqlx::query("LOCK TABLE headwater_private.cdc_inbox IN SHARE MODE").execute(&mut *held).await.unwrap();
    let node = start(&shop, "b", &recorder).await;
    storing_is_held(&server).await;
    for _ in 0..3 {
        let last = emit(&shop).await;
        soon(node.wait_for("totals", last)).await.unwrap();
        let live = node.status().live.unwrap();
        assert_ne!(live.state, LiveState::Streaming, "{live:?}");
    }
    held.rollback().await.unwrap();
    streaming(&node).await;
    let before = node.status().live.unwrap().received;
    let last = emit(&shop).await;
    soon(node.wait_for("totals", last)).await.unwrap();
    until(|| async { node.status().live.unwrap().received > before }).await;
    assert_eq!(recorder.sequences(), (1..=last).collect::<Vec<_>>());
    node.shutdown().await.unwrap();
    assert_eq!(shop.subscribers().audit(&[]).await.unwrap().findings, []);
}

/// Storing stops in the middle. The nodes soon read the log, the owner's node and others, and later
/// return to the inbox.
#[tokio::test]
async fn an_inbox_that_falls_behind_is_left_for_the_log_own_server() {
    let server = Server::builder().start().expect("failed to start a server");
    let (_headwater, shop) = open(&server).await;
    let (_other, same) = open(&server).await;
    let (ours, theirs) = (Recorder::new("ours"), Recorder::new("theirs"));
    let a = start(&shop, "a", &ours).await;
    streaming(&a).await;
    let b = start(&same, "b", &theirs).await;
    streaming(&b).await;
    let mut holder = session(&server).await;
    let mut held = holder.begin().await.unwrap();
    sqlx::query("LOCK TABLE headwater_private.cdc_inbox IN SHARE MODE").execute(&mut *held).await.unwrap();
    let last = emit(&same).await;
    storing_is_held(&server).await;
    soon(a.wait_for("ours", last)).await.unwrap();
    soon(b.wait_for("theirs", last)).await.unwrap();
    for node in [&a, &b] {
        until(|| async { node.status().live.is_some_and(|live| live.state == LiveState::Recovering) }).await;
    }
    held.rollback().await.unwrap();
    for node in [&a, &b] {
        streaming(node).await;
    }
    let last = emit(&same).await;
    soon(a.wait_for("ours", last)).await.unwrap();
    soon(b.wait_for("theirs", last)).await.unwrap();
    for (node, recorder) in [(&a, &ours), (&b, &theirs)] {
        assert_eq!(recorder.sequences(), (1..=last).collect::<Vec<_>>());
        node.shutdown().await.unwrap();
    }
    assert_eq!(shop.subscribers().audit(&[]).await.unwrap().findings, []);
}
