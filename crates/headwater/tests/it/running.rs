//! Subscriptions that are added to a running node and taken from it, and how a node ends.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Recorder, Shop, quick, soon, until};
use futures::poll;
use headwater::delivery::{Each, InstanceMode, OperatorStore, ReliableDeliveryConfig, SubscriberError};
use headwater::log::EventLog;
use headwater::node::{NodeBuilder, NodeOptions};
use headwater::{Delivery, Event, HandlerError, Json, Node, Queue, Subscription};
use headwater_memory::{MemoryLog, MemorySubscribers};
use tokio::sync::Semaphore;

fn nothing() -> Subscription<Each> {
    Subscription::of(Recorder::new("nothing")).config(quick())
}

/// A handler that says when it has begun, and waits until it may end.
#[derive(Clone)]
struct Gated {
    begun: Arc<Semaphore>,
    gate: Arc<Semaphore>,
}

impl Gated {
    fn new() -> Self {
        Gated { begun: Arc::new(Semaphore::new(0)), gate: Arc::new(Semaphore::new(0)) }
    }

    fn subscription(&self, id: &str) -> Subscription<Each> {
        let gated = self.clone();
        Subscription::new(id).config(quick()).each(move |_: Delivery| {
            let gated = gated.clone();
            async move {
                gated.begun.add_permits(1);
                gated.gate.acquire().await?.forget();
                Ok(())
            }
        })
    }

    async fn has_begun(&self) {
        soon(self.begun.acquire()).await.unwrap().forget();
    }

    fn open(&self) {
        self.gate.add_permits(1);
    }
}

/// A node in memory that is handling an event.
async fn busy_node(gated: &Gated) -> Node {
    let log = MemoryLog::new("shop");
    let store = MemorySubscribers::new(log.clone());
    log.append(Event::raw("a", Json::null()).into()).await.unwrap();
    let builder = NodeBuilder::new("one", Arc::new(log), Arc::new(store));
    let node = builder.run(gated.subscription("x")).start().await.unwrap();
    gated.has_begun().await;
    node
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

#[tokio::test]
async fn a_stop_that_nobody_waits_for_goes_on_to_its_end() {
    let shop = Shop::open().await;
    let gated = Gated::new();
    let node = shop.shop.node("one").run(nothing()).start().await.unwrap();
    node.run(gated.subscription("x")).await.unwrap();
    let first = shop.emit(&["a"]).await;
    gated.has_begun().await;
    {
        let mut stopping = std::pin::pin!(node.stop("x"));
        assert!(poll!(stopping.as_mut()).is_pending(), "an event is at hand");
    }
    gated.open();
    until(|| async { node.status().subscribers.iter().all(|subscriber| subscriber.subscriber_id != "x") }).await;
    until(|| async { shop.info("x").await.owner.is_none() }).await;
    assert_eq!(shop.info("x").await.position, first);
    let again = Recorder::new("x");
    soon(node.run(Subscription::of(again.clone()).config(quick()))).await.unwrap();
    let last = shop.emit(&["b"]).await;
    soon(node.wait_for("x", last)).await.unwrap();
    assert_eq!(again.types(), ["b"]);
    node.shutdown().await.unwrap();
}

/// The stop holds the node's plan for as long as the handler runs.
#[tokio::test]
async fn a_shutdown_does_not_wait_for_a_stop() {
    let gated = Gated::new();
    let node = busy_node(&gated).await;
    let mut stopping = std::pin::pin!(node.stop("x"));
    assert!(poll!(stopping.as_mut()).is_pending(), "an event is at hand");
    soon(node.shutdown_within(Duration::ZERO)).await.unwrap();
    soon(stopping).await.unwrap();
    assert!(node.status().subscribers.is_empty(), "{:?}", node.status());
}

#[tokio::test]
async fn a_start_or_run_that_waits_for_the_database_ends_with_the_node() {
    let shop = Shop::open().await;
    for (started, id) in [(true, "late"), (false, "early")] {
        let node = Arc::new(shop.shop.register_node(NodeOptions::new("one")).await.unwrap());
        match started {
            true => node.start().await.unwrap(),
            false => node.run(Subscription::of(Recorder::new(id))).await.unwrap(),
        }
        let mut session = shop.db.session().await;
        let lock = "BEGIN; LOCK TABLE headwater_private.subscribers IN EXCLUSIVE MODE";
        sqlx::raw_sql(lock).execute(&mut session).await.unwrap();
        let waiting = tokio::spawn({
            let node = node.clone();
            async move {
                match started {
                    true => node.run(Subscription::of(Recorder::new(id))).await,
                    false => node.start().await,
                }
            }
        });
        let registers = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()
                             AND wait_event_type = 'Lock' AND query LIKE '%register_subscriber%')";
        let waits = || async { sqlx::query_scalar::<_, bool>(registers).fetch_one(shop.headwater.pool()).await };
        until(|| async { waits().await.unwrap() }).await;
        let ending = tokio::spawn({
            let node = node.clone();
            async move { node.shutdown().await }
        });
        let refused = soon(waiting).await.unwrap().unwrap_err();
        assert!(refused.to_string().contains("shut down"), "{refused}");
        sqlx::raw_sql("ROLLBACK").execute(&mut session).await.unwrap();
        soon(ending).await.unwrap().unwrap();
        assert!(node.status().subscribers.is_empty(), "{:?}", node.status());
    }
}

#[tokio::test]
async fn what_a_node_says_that_it_handles_is_what_it_runs() {
    let shop = Shop::open().await;
    let of = |id: &str, types: &[&'static str]| Subscription::of(Recorder::new(id)).event_types(types.to_vec());
    let says = |types: &'static [&'static str]| {
        let nodes = shop.shop.nodes();
        until(move || {
            let nodes = nodes.clone();
            async move { nodes.list(Some("one")).await.unwrap()[0].event_types == types }
        })
    };
    // No heartbeat comes by itself.
    let options = NodeOptions::new("one").heartbeat(Duration::from_secs(3600));
    let node = shop.shop.register_node(options).await.unwrap();
    node.run(of("early", &["a", "b"])).await.unwrap();
    node.run(of("dropped", &["d"])).await.unwrap();
    node.stop("dropped").await.unwrap();
    node.start().await.unwrap();
    says(&["a", "b"]).await;
    node.run(of("late", &["b", "c"])).await.unwrap();
    says(&["a", "b", "c"]).await;
    node.stop("early").await.unwrap();
    says(&["b", "c"]).await;
    node.stop("late").await.unwrap();
    says(&[]).await;
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn another_shutdown_waits_for_the_one_that_is_under_way() {
    let gated = Gated::new();
    let node = busy_node(&gated).await;
    let (mut first, mut second) = (std::pin::pin!(node.shutdown()), std::pin::pin!(node.shutdown()));
    let mut stopped = std::pin::pin!(node.stopped());
    assert!(poll!(first.as_mut()).is_pending(), "an event is at hand");
    assert!(poll!(second.as_mut()).is_pending(), "an event is at hand");
    assert!(poll!(stopped.as_mut()).is_pending(), "an event is at hand");
    gated.open();
    soon(async { tokio::try_join!(first, second, stopped) }).await.unwrap();
    assert_eq!(node.status().subscribers[0].handled, 1);
}

#[tokio::test]
async fn another_shutdown_with_less_time_ends_both() {
    let gated = Gated::new();
    let node = busy_node(&gated).await;
    let mut first = std::pin::pin!(node.shutdown_within(Duration::from_secs(3600)));
    assert!(poll!(first.as_mut()).is_pending(), "an event is at hand");
    soon(node.shutdown_within(Duration::ZERO)).await.unwrap();
    soon(first).await.unwrap();
    assert_eq!(node.status().subscribers[0].handled, 0);
}

/// Otherwise its keeper would renew the leases for ever, and nobody would handle anything.
#[tokio::test]
async fn a_node_whose_shutdown_is_given_up_ends() {
    let gated = Gated::new();
    let node = busy_node(&gated).await;
    {
        let mut first = std::pin::pin!(node.shutdown_within(Duration::from_secs(3600)));
        assert!(poll!(first.as_mut()).is_pending(), "an event is at hand");
        let mut second = Box::pin(node.shutdown_within(Duration::from_secs(3600)));
        assert!(poll!(second.as_mut()).is_pending(), "it waits for the first");
        drop(second);
        assert!(poll!(std::pin::pin!(node.stopped())).is_pending(), "the first is under way");
    }
    soon(node.stopped()).await.unwrap();
}

#[tokio::test]
async fn a_subscription_without_a_lease_begins_at_once() {
    let log = MemoryLog::new("shop");
    let store = MemorySubscribers::new(log.clone());
    let node = NodeBuilder::new("one", Arc::new(log), Arc::new(store)).run(nothing()).start().await.unwrap();
    // The keeper has looked at such subscribers, and looks again four seconds later or more.
    until(|| async { node.status().subscribers[0].owned }).await;
    let config = ReliableDeliveryConfig { instance_mode: InstanceMode::SingleInstance, ..quick() };
    node.run(Subscription::of(Recorder::new("alone")).config(config)).await.unwrap();
    let begins = until(|| async { node.status().subscribers[1].owned });
    tokio::time::timeout(Duration::from_secs(3), begins).await.expect("it begins at once");
    node.shutdown().await.unwrap();
}
