//! Subscriptions that are added to a running node and taken from it, and how a node ends.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Recorder, Shop, quick, soon, until};
use headwater::delivery::{OperatorStore, SubscriberError};
use headwater::node::NodeOptions;
use headwater::{Delivery, HandlerError, Queue, Subscription};
use tokio::sync::Semaphore;

fn nothing() -> Subscription<headwater::delivery::Each> {
    Subscription::of(Recorder::new("nothing")).config(quick())
}

#[tokio::test]
async fn what_is_added_begins_and_what_is_taken_away_goes_to_others_at_once() {
    let shop = Shop::open().await;
    let first = shop.emit(&["a", "b"]).await;
    let node = shop.shop.node("one").run(nothing()).start().await.unwrap();
    let recorder = Recorder::new("totals");
    node.run(Subscription::of(recorder.clone()).config(quick())).await.unwrap();
    soon(node.wait_for("totals", first)).await.unwrap();
    assert_eq!(recorder.types(), ["a", "b"]);
    soon(node.stop("totals")).await.unwrap();
    assert!(node.status().subscribers.iter().all(|subscriber| subscriber.subscriber_id != "totals"));
    // Its checkpoint is written and its lease is free, long before it would have ended.
    let info = shop.info("totals").await;
    assert_eq!((info.position, info.owner), (first, None));
    let other = Recorder::new("totals");
    let two = shop.shop.node("two").run(Subscription::of(other.clone()).config(quick())).start().await.unwrap();
    let last = shop.emit(&["c"]).await;
    soon(two.wait_for("totals", last)).await.unwrap();
    assert_eq!((recorder.types().len(), other.types()), (2, vec!["c".to_owned()]));
    // And back.
    two.shutdown().await.unwrap();
    node.run(Subscription::of(recorder.clone()).config(quick())).await.unwrap();
    let last = shop.emit(&["d"]).await;
    soon(node.wait_for("totals", last)).await.unwrap();
    assert_eq!(recorder.types(), ["a", "b", "d"]);
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn events_at_hand_end_before_their_group_is_left() {
    let shop = Shop::open().await;
    let (begun, gate) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (told, waits) = (begun.clone(), gate.clone());
    let group = Subscription::new("g").partitions(4).each(move |_: Delivery| {
        let (told, waits) = (told.clone(), waits.clone());
        async move {
            told.add_permits(1);
            waits.acquire().await?.forget();
            Ok(())
        }
    });
    let node = Arc::new(shop.shop.node("one").run(nothing()).start().await.unwrap());
    node.run(group).await.unwrap();
    let last = shop.emit(&["a"]).await;
    soon(begun.acquire()).await.unwrap().forget();
    let stopping = tokio::spawn({
        let node = node.clone();
        async move { node.stop("g").await }
    });
    tokio::task::yield_now().await;
    assert!(!stopping.is_finished(), "the event is at hand");
    gate.add_permits(1);
    soon(stopping).await.unwrap().unwrap();
    let group = shop.shop.subscribers().group("g").await.unwrap();
    assert!(group.partitions.iter().all(|partition| partition.owner.is_none()), "{group:?}");
    assert!(group.partitions.iter().any(|partition| partition.position >= last));
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_queue_that_is_taken_away_hands_back_what_it_has_not_begun() {
    let shop = Shop::open().await;
    let gate = Arc::new(Semaphore::new(0));
    let waits = gate.clone();
    let queue = Queue::new("work").prefetch(10).each(move |_: Delivery| {
        let waits = waits.clone();
        async move {
            waits.acquire().await?.forget();
            Ok(())
        }
    });
    let node = shop.shop.node("one").run(nothing()).start().await.unwrap();
    let last = shop.emit_many(5).await;
    node.run(queue).await.unwrap();
    let in_flight = "SELECT in_flight FROM headwater.queue_status('shop', 'work')";
    let in_flight = || async { sqlx::query_scalar::<_, i64>(in_flight).fetch_one(shop.shop.pool()).await };
    until(|| async { in_flight().await.is_ok_and(|events| events == 5) }).await;
    gate.add_permits(1);
    soon(node.stop("work")).await.unwrap();
    assert_eq!(in_flight().await.unwrap(), 0, "nothing is left with this node");
    let done = Recorder::new("work");
    let two = shop.shop.node("two").run(Queue::of(done.clone()).config(quick())).start().await.unwrap();
    soon(two.wait_for("work", last)).await.unwrap();
    assert!((4..=5).contains(&done.types().len()), "{:?}", done.types());
    two.shutdown().await.unwrap();
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_run_is_refused_and_the_node_goes_on() {
    let shop = Shop::open().await;
    let node = shop.shop.node("one").run(nothing()).start().await.unwrap();
    let message = |outcome: Result<(), SubscriberError>| outcome.unwrap_err().to_string();
    assert!(message(node.run(nothing()).await).contains("runs twice"));
    assert!(message(node.run(Subscription::of(Recorder::new(""))).await).contains("invalid subscriber_id \"\""));
    assert!(message(node.stop("other").await).contains("other"));
    node.shutdown().await.unwrap();
    assert!(message(node.run(Subscription::of(Recorder::new("late"))).await).contains("shut down"));
}

#[tokio::test]
async fn before_the_start_a_node_is_told_what_to_run() {
    let shop = Shop::open().await;
    let node = shop.shop.register_node(NodeOptions::new("one")).await.unwrap();
    let (kept, dropped) = (Recorder::new("kept"), Recorder::new("dropped"));
    node.run(Subscription::of(kept.clone()).config(quick())).await.unwrap();
    node.run(Subscription::of(dropped.clone()).config(quick())).await.unwrap();
    node.stop("dropped").await.unwrap();
    node.start().await.unwrap();
    let last = shop.emit(&["a"]).await;
    soon(node.wait_for("kept", last)).await.unwrap();
    node.shutdown().await.unwrap();
    assert_eq!((kept.types().len(), dropped.types().len()), (1, 0));
}

#[tokio::test]
async fn a_node_that_is_replaced_stops_with_an_error_and_one_that_is_shut_down_without() {
    let shop = Shop::open().await;
    let often = || NodeOptions::new("same").heartbeat(Duration::from_millis(100));
    let first = shop.shop.register_node(often()).await.unwrap();
    first.on_event("x", |_: Delivery, _| async { Ok::<(), HandlerError>(()) }).unwrap();
    first.start().await.unwrap();
    let second = shop.shop.node("same").run(nothing()).start().await.unwrap();
    let replaced = soon(first.stopped()).await.unwrap_err();
    assert!(matches!(&replaced, SubscriberError::NodeReplaced(message) if message.contains("\"same\"")), "{replaced}");
    // What a program's main does with it: it ends, with the error.
    assert!(matches!(soon(first.run_until_signal()).await, Err(SubscriberError::NodeReplaced(_))));
    let waits = Arc::new(second);
    let waiting = tokio::spawn({
        let second = waits.clone();
        async move { second.stopped().await }
    });
    waits.shutdown().await.unwrap();
    soon(waiting).await.unwrap().unwrap();
}
