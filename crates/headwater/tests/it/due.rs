//! Events that are due later, delivered by nodes: at their time, once, and without polling for
//! them.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::common::{Recorder, Shop, quick, until};
use chrono::{DateTime, TimeDelta, Utc};
use futures::TryStreamExt;
use headwater::admin::NamespaceConfig;
use headwater::delivery::StartFrom;
use headwater::node::WakeUpSource;
use headwater::{Event, Headwater, Json, RecordedEvent, Subscription};
use headwater_embedded::{Server, Shutdown};

fn raw(event_type: &str) -> Event {
    Event::raw(event_type, Json::null())
}

fn after(milliseconds: i64) -> DateTime<Utc> {
    Utc::now() + TimeDelta::milliseconds(milliseconds)
}

/// Well below the minute after which an unwoken node looks again.
async fn promptly<T>(wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), wait).await.expect("nobody was woken for it")
}

#[tokio::test]
async fn an_event_is_delivered_at_its_time() {
    let shop = Shop::open().await;
    let recorder = Recorder::new("reminders");
    let node = shop.shop.node("n1").run(Subscription::of(recorder.clone())).start().await.unwrap();
    let due_at = after(300);
    let id = shop.shop.emit_at(due_at, raw("due")).await.unwrap();
    shop.emit(&["now"]).await;
    promptly(recorder.handled(2)).await;
    assert_eq!(recorder.types(), ["now", "due"]);
    let event = shop.shop.event(id).await.unwrap().unwrap();
    let late = event.recorded_at.unwrap() - due_at;
    assert!(late >= TimeDelta::zero(), "it came {late} early");
    println!("fired {} µs after it was due", late.num_microseconds().unwrap());
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_node_asleep_until_much_later_is_woken_for_what_is_due_sooner() {
    let shop = Shop::open().await;
    let recorder = Recorder::new("reminders");
    let node = shop.shop.node("n1").run(Subscription::of(recorder.clone())).start().await.unwrap();
    until(|| async { node.status().listening }).await;
    shop.shop.emit_at(after(3_600_000), raw("much later")).await.unwrap();
    // Once it is there, the node sleeps until the next, an hour away.
    shop.shop.emit_at(after(50), raw("first")).await.unwrap();
    promptly(recorder.handled(1)).await;

    let by_sql = "SELECT headwater.emit_at('shop', 'by SQL', clock_timestamp() + interval '100 ms')";
    sqlx::query(by_sql).execute(&mut shop.db.session().await).await.unwrap();
    promptly(recorder.handled(2)).await;

    let elsewhere = Headwater::connect(&shop.db.url).await.unwrap();
    elsewhere.namespace("shop").await.unwrap().emit_at(after(100), raw("by another process")).await.unwrap();
    promptly(recorder.handled(3)).await;

    let mut session = shop.db.session().await;
    let mut tx = sqlx::Connection::begin(&mut session).await.unwrap();
    shop.shop.emit_at_in(&mut tx, after(100), raw("in a transaction")).await.unwrap();
    tx.commit().await.unwrap();
    promptly(recorder.handled(4)).await;
    assert_eq!(recorder.types(), ["first", "by SQL", "by another process", "in a transaction"]);
    assert_eq!(shop.shop.due_events(10).await.unwrap().len(), 1);
    elsewhere.shutdown().await;
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn two_nodes_fire_each_event_once_and_in_order() {
    let shop = Shop::open().await;
    let (one, two) = (Recorder::new("one"), Recorder::new("two"));
    let elsewhere = Headwater::connect(&shop.db.url).await.unwrap();
    let there = elsewhere.namespace("shop").await.unwrap();
    let first = shop.shop.node("n1").run(Subscription::of(one.clone())).start().await.unwrap();
    let second = there.node("n2").run(Subscription::of(two.clone())).start().await.unwrap();
    let emit = "SELECT headwater.emit_at('shop', 'e' || n, clock_timestamp() + interval '200 ms' + n * interval '1 ms')
                  FROM generate_series(1, 200) n";
    sqlx::query(emit).execute(&mut shop.db.session().await).await.unwrap();
    promptly(async { tokio::join!(one.handled(200), two.handled(200)) }).await;
    let expected: Vec<_> = (1..=200).map(|n| format!("e{n}")).collect();
    assert_eq!(one.types(), expected);
    assert_eq!(two.types(), expected);
    assert_eq!(shop.shop.due_events(10).await.unwrap(), []);
    first.shutdown().await.unwrap();
    second.shutdown().await.unwrap();
    elsewhere.shutdown().await;
}

#[tokio::test]
async fn a_node_that_cannot_be_woken_polls() {
    let shop = Shop::open().await;
    let recorder = Recorder::new("reminders");
    let builder = shop.shop.node("n1").run(Subscription::of(recorder.clone())).wake_ups(WakeUpSource::Poll);
    let node = builder.poll(Duration::from_millis(50)).start().await.unwrap();
    for n in 1..=2 {
        let by_sql = "SELECT headwater.emit_at('shop', 'by SQL', clock_timestamp() + interval '50 ms')";
        sqlx::query(by_sql).execute(&mut shop.db.session().await).await.unwrap();
        promptly(recorder.handled(n)).await;
    }
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn events_are_fired_without_nodes_for_all_namespaces() {
    let shop = Shop::open().await;
    let firing = tokio::spawn({
        let headwater = shop.headwater.clone();
        async move { headwater.keep_firing_due().await }
    });
    // A namespace that was not there when it began.
    shop.headwater.create_namespace(NamespaceConfig::new("bank")).await.unwrap();
    let bank = shop.headwater.namespace("bank").await.unwrap();
    for namespace in [&shop.shop, &bank, &shop.shop] {
        let before = namespace.horizon().await.unwrap().horizon;
        namespace.emit_at(after(100), raw("due")).await.unwrap();
        promptly(until(|| async { namespace.horizon().await.unwrap().horizon > before })).await;
    }
    let events: Vec<RecordedEvent> = shop.shop.read_all_events_since(0).try_collect().await.unwrap();
    assert_eq!(events.len(), 2);
    firing.abort();
}

#[tokio::test]
async fn what_is_due_while_the_server_restarts_comes_after_it_own_server() {
    let mut server = Server::builder().start().expect("failed to start a server");
    let headwater = Headwater::connect(&server.url("headwater")).await.unwrap();
    headwater.migrate().await.unwrap();
    headwater.create_namespace(NamespaceConfig::new("shop")).await.unwrap();
    let shop = headwater.namespace("shop").await.unwrap();
    let recorder = Recorder::new("survivor");
    let builder =
        shop.node("n1").run(Subscription::of(recorder.clone()).config(quick()).start_from(StartFrom::Beginning));
    let node = builder.start().await.unwrap();
    for (n, mode) in [(1, Shutdown::Fast), (2, Shutdown::Immediate)] {
        shop.emit_at(after(100), raw("due")).await.unwrap();
        let restart = move || {
            server.restart(mode).expect("failed to restart");
            server
        };
        server = tokio::task::spawn_blocking(restart).await.unwrap();
        // One may come twice, where the server went before its checkpoint was written.
        until(|| async { BTreeSet::from_iter(recorder.sequences()).len() == n }).await;
    }
    let mut sequences = recorder.sequences();
    sequences.dedup();
    assert_eq!(sequences.len(), 2);
    assert_eq!(shop.due_events(10).await.unwrap(), []);
    node.shutdown().await.unwrap();
    headwater.shutdown().await;
}

#[tokio::test]
async fn a_node_leaves_due_events_to_others_when_it_is_told_to() {
    let shop = Shop::open().await;
    shop.shop.emit_at(after(3_600_000), raw("due")).await.unwrap();
    let due = "UPDATE headwater_private.due_events SET fire_at = clock_timestamp() - interval '1 second'";
    sqlx::query(due).execute(&mut shop.db.session().await).await.unwrap();
    let recorder = Recorder::new("reminders");
    let node = shop.shop.node("n1").without_firing_due().run(Subscription::of(recorder.clone())).start().await.unwrap();
    shop.emit(&["now"]).await;
    recorder.handled(1).await;
    assert_eq!(shop.shop.fire_due(10).await.unwrap().fired, 1, "it was left");
    recorder.handled(2).await;
    assert_eq!(recorder.types(), ["now", "due"]);
    node.shutdown().await.unwrap();
}
