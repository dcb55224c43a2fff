//! Events from the WAL: a node delivers the same events whether they come from the WAL or from the
//! log, whatever happens meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{Recorder, Shop, quick, soon, until};
use headwater::admin::{GrantKind, NamespaceConfig};
use headwater::cdc::{CdcOptions, Live, LiveState};
use headwater::delivery::{CheckpointMode, OperatorStore, ReliableDeliveryConfig};
use headwater::node::WakeUpSource;
use headwater::{Bundle, Delivery, Event, Headwater, Json, Namespace, Node, Queue, Subscription, Transaction};
use headwater_embedded::{Server, Shutdown};
use sqlx::Connection;

fn cdc() -> Live {
    Live::Cdc(CdcOptions::default())
}

/// So rare that an event that is delivered soon did not come by polling, and that a test that waits
/// for a poll fails.
const NEVER: Duration = Duration::from_secs(3600);

fn taken(node: &Node) -> u64 {
    node.status().live.expect("it has a live source").taken
}

async fn streaming(node: &Node) {
    until(|| async { node.status().live.is_some_and(|live| live.state == LiveState::Streaming) }).await;
}

/// Waits until the tail has read the log, as the start of a stream requires. From then on it has
/// only the WAL.
async fn settled(node: &Node, shop: &Shop, recorder: &Recorder) {
    streaming(node).await;
    let last = shop.emit(&["first"]).await;
    until(|| async { recorder.sequences().last() == Some(&last) }).await;
}

#[tokio::test]
async fn events_come_from_the_wal_without_notify_or_polling() {
    let shop = Shop::open().await;
    let silent = NamespaceConfig::new("silent").notify(false);
    shop.headwater.create_namespace(silent).await.unwrap();
    let writer = Headwater::connect(&shop.db.url).await.unwrap();
    // Another process, as it were: its commits wake nobody here.
    let theirs = writer.namespace("silent").await.unwrap();
    let ours = shop.headwater.namespace("silent").await.unwrap();
    let recorder = Recorder::new("totals");
    let node = ours
        .node("n1")
        .run(Subscription::of(recorder.clone()))
        .live(cdc())
        .wake_ups(WakeUpSource::Poll)
        .poll(NEVER)
        .start()
        .await
        .unwrap();
    streaming(&node).await;
    let mut session = shop.db.session().await;
    for n in 0..20 {
        // By SQL and by Rust.
        sqlx::query("SELECT headwater.emit('silent', 'BySql', '{}')").execute(&mut session).await.unwrap();
        theirs.emit(Event::raw("ByRust", Json::null())).await.unwrap();
        recorder.handled(2 * (n + 1)).await;
    }
    assert!(recorder.sequences().is_sorted());
    assert_eq!(recorder.sequences().len(), 40);
    let live = node.status().live.unwrap();
    assert!(live.taken >= 38, "{live:?}");
    assert_eq!((live.state, live.error), (LiveState::Streaming, None));
    node.shutdown().await.unwrap();
    assert_eq!(ours.subscribers().audit(&[]).await.unwrap().findings, []);
}

#[tokio::test]
async fn all_nodes_of_a_connection_follow_the_wal_if_it_says_so() {
    let shop = Shop::open().await;
    let headwater = Headwater::connect(&shop.db.url).live(cdc()).await.unwrap();
    let by_namespace = Headwater::connect(&shop.db.url).live(cdc()).namespace("shop").await.unwrap();
    for namespace in [headwater.namespace("shop").await.unwrap(), by_namespace] {
        let recorder = Recorder::new("totals");
        let node = namespace.node("n1").run(Subscription::of(recorder.clone())).start().await.unwrap();
        settled(&node, &shop, &recorder).await;
        node.shutdown().await.unwrap();
    }
    let node = shop.shop.node("n1").run(Subscription::of(Recorder::new("totals"))).start().await.unwrap();
    assert_eq!(node.status().live, None);
    node.shutdown().await.unwrap();
}

/// Whoever claims takes nothing from the stream: it only tells that there may be something.
#[tokio::test]
async fn a_queue_claims_from_the_log_though_the_node_follows_the_wal() {
    let shop = Shop::open().await;
    shop.headwater.create_namespace(NamespaceConfig::new("silent").notify(false)).await.unwrap();
    let ours = shop.headwater.namespace("silent").await.unwrap();
    let recorder = Recorder::new("queue");
    let node = ours
        .node("n1")
        .run(Queue::of(recorder.clone()))
        .live(cdc())
        .wake_ups(WakeUpSource::Poll)
        .poll(NEVER)
        .start()
        .await
        .unwrap();
    streaming(&node).await;
    let mut session = shop.db.session().await;
    for n in 0..10 {
        sqlx::query("SELECT headwater.emit('silent', 'BySql', '{}')").execute(&mut session).await.unwrap();
        recorder.handled(n + 1).await;
    }
    assert_eq!(node.status().live.unwrap().taken, 0);
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_backlog_comes_first_then_what_is_live_in_order_and_once() {
    let shop = Shop::open().await;
    shop.emit_many(2_500).await;
    let recorder = Recorder::new("totals");
    let node =
        shop.shop.node("n1").run(Subscription::of(recorder.clone()).config(quick())).live(cdc()).start().await.unwrap();
    let mut last = 0;
    for _ in 0..300 {
        last = shop.emit(&["live"]).await;
    }
    soon(node.wait_for("totals", last)).await.unwrap();
    assert_eq!(recorder.sequences(), (1..=last).collect::<Vec<_>>());
    node.shutdown().await.unwrap();
    assert_eq!(shop.shop.subscribers().audit(&[]).await.unwrap().findings, []);
}

#[tokio::test]
async fn what_commits_out_of_order_is_delivered_in_order() {
    let shop = Shop::open().await;
    let recorder = Recorder::new("totals");
    let strict = ReliableDeliveryConfig { hold_for: Duration::MAX, ..quick() };
    let node = shop
        .shop
        .node("n1")
        .run(Subscription::of(recorder.clone()).config(strict))
        .live(cdc())
        .wake_ups(WakeUpSource::Poll)
        .start()
        .await
        .unwrap();
    settled(&node, &shop, &recorder).await;
    for _ in 0..10 {
        let mut session = shop.db.session().await;
        let mut early = session.begin().await.unwrap();
        shop.shop.emit_in(&mut early, Event::raw("early", Json::null())).await.unwrap();
        let late = shop.emit(&["late"]).await;
        early.commit().await.unwrap();
        soon(node.wait_for("totals", late)).await.unwrap();
    }
    assert!(recorder.sequences().is_sorted());
    assert_eq!(recorder.sequences().len(), 21);
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_rollback_is_a_gap_that_holds_nothing_up() {
    let shop = Shop::open().await;
    let recorder = Recorder::new("totals");
    let strict = ReliableDeliveryConfig { hold_for: Duration::MAX, ..quick() };
    let node =
        shop.shop.node("n1").run(Subscription::of(recorder.clone()).config(strict)).live(cdc()).start().await.unwrap();
    settled(&node, &shop, &recorder).await;
    for n in 0..10 {
        let mut session = shop.db.session().await;
        let mut never = session.begin().await.unwrap();
        shop.shop.emit_in(&mut never, Event::raw("never", Json::null())).await.unwrap();
        never.rollback().await.unwrap();
        shop.emit(&["after"]).await;
        recorder.handled(n + 2).await;
    }
    assert!(recorder.types()[1..].iter().all(|event_type| event_type == "after"));
    node.shutdown().await.unwrap();
    assert_eq!(shop.shop.subscribers().audit(&[]).await.unwrap().findings, []);
}

#[tokio::test]
async fn a_stream_that_breaks_again_and_again_loses_and_repeats_nothing() {
    let shop = Shop::open().await;
    let recorder = Recorder::new("survivor");
    let node =
        shop.shop.node("n1").run(Subscription::of(recorder.clone()).config(quick())).live(cdc()).start().await.unwrap();
    settled(&node, &shop, &recorder).await;
    let mut session = shop.db.session().await;
    for _ in 0..5 {
        let kill = "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots
                     WHERE database = current_database() AND active_pid IS NOT NULL";
        let emit = async {
            for _ in 0..40 {
                shop.emit(&["live"]).await;
            }
        };
        let broken = async {
            let before = node.status().live.unwrap().streams;
            sqlx::query(kill).execute(&mut session).await.unwrap();
            until(|| async { node.status().live.unwrap().streams > before }).await;
        };
        tokio::join!(emit, broken);
    }
    let last = shop.emit(&["last"]).await;
    soon(node.wait_for("survivor", last)).await.unwrap();
    assert_eq!(recorder.sequences(), (1..=last).collect::<Vec<_>>());
    assert!(taken(&node) > 0);
    node.shutdown().await.unwrap();
    assert_eq!(shop.shop.subscribers().audit(&[]).await.unwrap().findings, []);
}

#[tokio::test]
async fn without_the_privilege_events_come_by_wake_ups_and_it_says_so_until_it_is_granted() {
    let shop = Shop::open().await;
    let role = shop.db.role().await;
    shop.headwater.admin().grant("shop", &role.name, GrantKind::Consumer).await.unwrap();
    let mut session = shop.db.session().await;
    sqlx::query("SELECT headwater.publish_namespace('shop')").execute(&mut session).await.unwrap();
    let headwater = Headwater::builder().live(cdc()).connect(&role.url).await.unwrap();
    let theirs = headwater.namespace("shop").await.unwrap();
    let recorder = Recorder::new("totals");
    let node = theirs.node("n1").run(Subscription::of(recorder.clone()).config(quick())).start().await.unwrap();
    until(|| async { node.status().live.is_some_and(|live| live.state == LiveState::Degraded) }).await;
    let error = node.status().live.unwrap().error.unwrap();
    assert!(error.contains("REPLICATION"), "{error}");
    let last = shop.emit(&["a", "b"]).await;
    soon(node.wait_for("totals", last)).await.unwrap();
    assert_eq!(taken(&node), 0);
    let grant = format!("ALTER ROLE {} REPLICATION", role.name);
    sqlx::raw_sql(sqlx::AssertSqlSafe(grant)).execute(&mut session).await.unwrap();
    streaming(&node).await;
    settled(&node, &shop, &recorder).await;
    shop.emit(&["c"]).await;
    recorder.handled(4).await;
    assert_eq!(recorder.types(), ["a", "b", "first", "c"]);
    node.shutdown().await.unwrap();
    headwater.shutdown().await;
    shop.headwater.admin().revoke("shop", &role.name, None).await.unwrap();
    shop.db.drop_role(role).await;
}

#[tokio::test]
async fn twenty_subscribers_are_told_everything_by_one_stream() {
    let shop = Shop::open().await;
    let recorders: Vec<_> = (0..20).map(|n| Recorder::new(&format!("s{n}"))).collect();
    // 100,000 checkpoints would be what takes long here.
    let checkpoint_mode = CheckpointMode::Batched { batch_size: 1_000, max_delay_ms: 100 };
    let config = ReliableDeliveryConfig { checkpoint_mode, ..quick() };
    let mut builder = shop.shop.node("n1").default_config(config).live(cdc());
    for recorder in &recorders {
        builder = builder.run(Subscription::of(recorder.clone()));
    }
    let node = builder.start().await.unwrap();
    streaming(&node).await;
    // A large transaction beside small ones.
    let small = async {
        for _ in 0..50 {
            shop.emit(&["small"]).await;
        }
    };
    tokio::join!(shop.emit_many(5_000), small);
    let last = shop.emit(&["last"]).await;
    for n in 0..20 {
        soon(node.wait_for(&format!("s{n}"), last)).await.unwrap();
    }
    for recorder in &recorders {
        assert_eq!(recorder.sequences(), (1..=last).collect::<Vec<_>>());
    }
    let slots: i64 =
        sqlx::query_scalar("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()")
            .fetch_one(&mut shop.db.session().await)
            .await
            .unwrap();
    assert_eq!(slots, 1);
    node.shutdown().await.unwrap();
    assert_eq!(shop.shop.subscribers().audit(&[]).await.unwrap().findings, []);
}

#[tokio::test]
async fn a_feed_that_is_too_small_costs_speed_and_no_event() {
    let shop = Shop::open().await;
    let recorder = Recorder::new("totals");
    let options = CdcOptions { max_buffered_events: 3, ..CdcOptions::default() };
    let node = shop
        .shop
        .node("n1")
        .run(Subscription::of(recorder.clone()).config(quick()))
        .live(Live::Cdc(options))
        .wake_ups(WakeUpSource::Poll)
        .poll(NEVER)
        .start()
        .await
        .unwrap();
    streaming(&node).await;
    for _ in 0..10 {
        shop.emit_many(100).await;
    }
    let last = shop.emit(&["last"]).await;
    recorder.handled(1_001).await;
    assert_eq!(recorder.sequences(), (1..=last).collect::<Vec<_>>());
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_transaction_per_key_is_whole_though_its_events_come_from_the_wal() {
    let shop = Shop::open().await;
    let calls = Arc::new(std::sync::Mutex::new(BTreeMap::<String, Vec<u64>>::new()));
    let record = calls.clone();
    let node = shop
        .shop
        .node("n1")
        .default_config(quick())
        .live(cdc())
        .run(Subscription::new("keys").bundled_by(Bundle::Key).transactional(
            move |event: Delivery, mut tx: Transaction| {
                let record = record.clone();
                async move {
                    let xid = sqlx::query_scalar("SELECT pg_current_xact_id()::text").fetch_one(&mut *tx).await?;
                    record.lock().unwrap().entry(xid).or_default().extend(event.global_sequence);
                    Ok(())
                }
            },
        ))
        .start()
        .await
        .unwrap();
    streaming(&node).await;
    let mut last = 0;
    for _ in 0..10 {
        let of_one_key = (0..5).fold(headwater::log::Append::new(), |append, n| {
            let mut event = Event::raw(format!("e{n}"), Json::null());
            event.key = Some("k".into());
            append.event(event)
        });
        last = shop.shop.append_all(of_one_key).await.unwrap().events[4].global_sequence;
    }
    soon(node.wait_for("keys", last)).await.unwrap();
    let calls: Vec<Vec<u64>> = calls.lock().unwrap().values().cloned().collect();
    let mut all = calls.concat();
    all.sort();
    assert_eq!(all, (1..=last).collect::<Vec<_>>());
    // The five events of one transaction are never in two.
    assert!(calls.iter().all(|call| call.len() % 5 == 0 && call[0] % 5 == 1), "{calls:?}");
    node.shutdown().await.unwrap();
}

/// More than one batch waits at the end of the log, and nobody has read it since. So the node asks
/// the log where its transactions end.
#[tokio::test]
async fn a_transaction_per_key_does_not_wait_for_more_than_a_batch_to_be_followed() {
    let shop = Shop::open().await;
    let (open, gate) = tokio::sync::watch::channel(false);
    let begun = Arc::new(tokio::sync::Notify::new());
    let told = begun.clone();
    let node = shop
        .shop
        .node("n1")
        .default_config(ReliableDeliveryConfig { catch_up_batch_size: 2, ..quick() })
        .live(cdc())
        .wake_ups(WakeUpSource::Poll)
        .poll(NEVER)
        .run(Subscription::new("keys").bundled_by(Bundle::Key).transactional(move |_: Delivery, _| {
            let (mut gate, told) = (gate.clone(), told.clone());
            async move {
                told.notify_one();
                _ = gate.wait_for(|open| *open).await;
                Ok(())
            }
        }))
        .start()
        .await
        .unwrap();
    streaming(&node).await;
    shop.emit(&["first"]).await;
    soon(begun.notified()).await;
    // The start of the stream may require one more read of the log. Later events are taken from the
    // WAL.
    let before = taken(&node);
    let mut last = 0;
    while taken(&node) < before + 5 {
        last = soon(shop.emit(&["more"])).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    open.send_replace(true);
    soon(node.wait_for("keys", last)).await.unwrap();
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_exclusive_subscriber_fails_over_and_its_events_stay_live() {
    let shop = Shop::open().await;
    let other = Headwater::builder().live(cdc()).connect(&shop.db.url).await.unwrap();
    let theirs = other.namespace("shop").await.unwrap();
    let (first, second) = (Recorder::new("totals"), Recorder::new("totals"));
    let a = shop.shop.node("a").run(Subscription::of(first.clone()).config(quick())).live(cdc()).start().await.unwrap();
    settled(&a, &shop, &first).await;
    let b = theirs.node("b").run(Subscription::of(second.clone()).config(quick())).start().await.unwrap();
    streaming(&b).await;
    for _ in 0..20 {
        shop.emit(&["before"]).await;
    }
    first.handled(21).await;
    // As a crash: nothing is given up in order.
    drop(a);
    shop.headwater.shutdown().await;
    let mut last = 0;
    for _ in 0..20 {
        last = theirs.emit(Event::raw("after", Json::null())).await.unwrap().global_sequence();
    }
    soon(b.wait_for("totals", last)).await.unwrap();
    let before = taken(&b);
    let mut next = last;
    // One or the other may be found by a poll that happens to look just then.
    while taken(&b) == before {
        next = theirs.emit(Event::raw("live", Json::null())).await.unwrap().global_sequence();
        soon(b.wait_for("totals", next)).await.unwrap();
    }
    let mut all = [first.sequences(), second.sequences()].concat();
    all.sort();
    all.dedup();
    assert_eq!(all, (1..=next).collect::<Vec<_>>());
    b.shutdown().await.unwrap();
    assert_eq!(theirs.subscribers().audit(&[]).await.unwrap().findings, []);
}

async fn on_server(url: &str) -> (Headwater, Namespace) {
    let headwater = Headwater::builder().live(cdc()).connect(url).await.unwrap();
    headwater.migrate().await.unwrap();
    headwater.create_namespace(NamespaceConfig::new("shop")).await.unwrap();
    let shop = headwater.namespace("shop").await.unwrap();
    (headwater, shop)
}

async fn emit(shop: &Namespace) -> u64 {
    shop.emit(Event::raw("e", Json::null())).await.unwrap().global_sequence()
}

async fn restart(mut server: Server, mode: Shutdown) -> Server {
    tokio::task::spawn_blocking(move || {
        server.restart(mode).expect("failed to restart");
        server
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn restarts_of_the_server_end_the_stream_and_cost_no_event_own_server() {
    let mut server = Server::builder().start().expect("failed to start a server");
    let (headwater, shop) = on_server(&server.url("headwater")).await;
    let recorder = Recorder::new("survivor");
    let node = shop.node("n1").run(Subscription::of(recorder.clone()).config(quick())).start().await.unwrap();
    let mut sent = Vec::new();
    for mode in [Shutdown::Fast, Shutdown::Immediate] {
        streaming(&node).await;
        sent.push(emit(&shop).await);
        server = restart(server, mode).await;
        sent.push(emit(&shop).await);
        sent.push(emit(&shop).await);
    }
    streaming(&node).await;
    sent.push(emit(&shop).await);
    soon(node.wait_for("survivor", *sent.last().unwrap())).await.unwrap();
    let mut seen = recorder.sequences();
    seen.dedup();
    assert_eq!(seen, sent);
    node.shutdown().await.unwrap();
    assert_eq!(shop.subscribers().audit(&[]).await.unwrap().findings, []);
    headwater.shutdown().await;
}

#[tokio::test]
async fn a_server_without_logical_wal_is_polled_and_it_says_so_own_server() {
    let server = Server::builder().setting("wal_level", "replica").start().expect("failed to start a server");
    let (headwater, shop) = on_server(&server.url("headwater")).await;
    let recorder = Recorder::new("survivor");
    let node = shop.node("n1").run(Subscription::of(recorder.clone()).config(quick())).start().await.unwrap();
    until(|| async { node.status().live.is_some_and(|live| live.state == LiveState::Degraded) }).await;
    let error = node.status().live.unwrap().error.unwrap();
    assert_eq!(error, "the server's wal_level is replica: set wal_level = logical and restart it");
    let sent = emit(&shop).await;
    soon(node.wait_for("survivor", sent)).await.unwrap();
    assert_eq!(taken(&node), 0);
    node.shutdown().await.unwrap();
    headwater.shutdown().await;
}

/// A transaction with more bytes than are kept of one. The rest is read from the log, and all of it
/// comes in order, once.
#[tokio::test]
async fn a_transaction_larger_than_is_kept_comes_whole_and_in_order() {
    let shop = Shop::open().await;
    let recorder = Recorder::new("totals");
    let node =
        shop.shop.node("n1").live(cdc()).run(Subscription::of(recorder.clone()).config(quick())).start().await.unwrap();
    streaming(&node).await;
    let large = "SELECT max(headwater.emit('shop', 'e', to_jsonb(repeat('x', 900000)))) FROM generate_series(1, 25)";
    let last: i64 = sqlx::query_scalar(large).fetch_one(&mut shop.db.session().await).await.unwrap();
    soon(node.wait_for("totals", last as u64)).await.unwrap();
    let last = shop.emit(&["after"]).await;
    soon(node.wait_for("totals", last)).await.unwrap();
    assert_eq!(recorder.sequences(), (1..=last).collect::<Vec<_>>());
    until(|| async { node.status().live.unwrap().overflows > 0 }).await;
    node.shutdown().await.unwrap();
    assert_eq!(shop.shop.subscribers().audit(&[]).await.unwrap().findings, []);
}
