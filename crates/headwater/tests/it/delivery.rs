//! Catch-up, live, resume, filters: what a subscriber is told, and in which order.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Recorder, Shop, quick, soon, until};
use headwater::delivery::{CheckpointMode, ReliableDeliveryConfig, StartFrom};
use headwater::{Delivery, Event, EventData, EventObserver, HandlerError, RecordedEvent, Subscription};
use serde::{Deserialize, Serialize};

#[tokio::test]
async fn what_was_there_comes_first_then_what_is_new_in_order_and_once() {
    let shop = Shop::open().await;
    shop.emit_many(250).await;
    let recorder = Recorder::new("totals");
    let node = shop.shop.node("n1").run(Subscription::of(recorder.clone()).config(quick())).start().await.unwrap();
    let mut last = 0;
    for _ in 0..20 {
        last = shop.emit(&["live"]).await;
    }
    soon(node.wait_for("totals", last)).await.unwrap();
    let sequences = recorder.sequences();
    assert_eq!(sequences.len(), 270);
    assert!(sequences.is_sorted());
    node.shutdown().await.unwrap();
    assert_eq!(shop.info("totals").await.position, last);
}

#[tokio::test]
async fn a_restart_goes_on_from_the_checkpoint() {
    let shop = Shop::open().await;
    for mode in [CheckpointMode::Synchronous, CheckpointMode::Batched { batch_size: 1_000, max_delay_ms: 60_000 }] {
        let last = shop.emit_many(120).await;
        let (first, second) = (Recorder::new(&format!("{mode:?}")), Recorder::new(&format!("{mode:?}")));
        let config = ReliableDeliveryConfig { checkpoint_mode: mode, ..quick() };
        let node = shop
            .shop
            .node("n1")
            .default_config(config.clone())
            .run(Subscription::of(first.clone()))
            .start()
            .await
            .unwrap();
        soon(node.wait_for(first.subscriber_id(), last)).await.unwrap();
        node.shutdown().await.unwrap();
        let next = shop.emit(&["after the restart"]).await;
        let node =
            shop.shop.node("n1").default_config(config).run(Subscription::of(second.clone())).start().await.unwrap();
        soon(node.wait_for(second.subscriber_id(), next)).await.unwrap();
        node.shutdown().await.unwrap();
        assert_eq!(first.sequences().last(), Some(&last));
        assert_eq!(
            second.sequences(),
            (last + 1..=next).collect::<Vec<_>>(),
            "what a shutdown has written comes no more"
        );
    }
}

#[tokio::test]
async fn subscribers_have_checkpoints_of_their_own() {
    let shop = Shop::open().await;
    let last = shop.emit_many(10).await;
    let (early, late) = (Recorder::new("early"), Recorder::new("late"));
    let node = shop.shop.node("n1").run(Subscription::of(early.clone())).start().await.unwrap();
    soon(node.wait_for("early", last)).await.unwrap();
    node.shutdown().await.unwrap();
    let next = shop.emit_many(5).await;
    let node = shop
        .shop
        .node("n1")
        .run(Subscription::of(early.clone()))
        .run(Subscription::of(late.clone()))
        .start()
        .await
        .unwrap();
    soon(node.wait_for("early", next)).await.unwrap();
    soon(node.wait_for("late", next)).await.unwrap();
    node.shutdown().await.unwrap();
    assert_eq!((early.sequences().len(), late.sequences().len()), (15, 15));
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, EventData)]
enum OrderEvent {
    Placed { total: u32 },
    Shipped,
}

struct Placements(tokio::sync::mpsc::UnboundedSender<RecordedEvent<OrderEvent>>);

impl EventObserver<OrderEvent> for Placements {
    fn subscriber_id(&self) -> &str {
        "placements"
    }

    async fn on_event(&self, event: Delivery<OrderEvent>) -> Result<(), HandlerError> {
        self.0.send(RecordedEvent::clone(&event)).map_err(HandlerError::permanent)
    }
}

#[tokio::test]
async fn an_observer_is_told_only_about_its_types_and_streams() {
    let shop = Shop::open().await;
    let (told, mut events) = tokio::sync::mpsc::unbounded_channel();
    let by_type = Recorder::new("by-type");
    let by_stream = Recorder::new("by-stream");
    let node = shop
        .shop
        .node("n1")
        .run(Subscription::of(Placements(told)))
        .run(Subscription::of(by_type.clone()).event_types(["Shipped"]))
        .run(Subscription::of(by_stream.clone()).stream_prefix("order-"))
        .start()
        .await
        .unwrap();
    shop.emit(&["something.else"]).await;
    let any = headwater::ExpectedVersion::Any;
    shop.shop.append("order-1", any, [OrderEvent::Placed { total: 5 }]).await.unwrap();
    shop.shop.append("parcel-1", any, [OrderEvent::Shipped]).await.unwrap();
    let last = shop.emit(&["something.else"]).await;
    for id in ["placements", "by-type", "by-stream"] {
        soon(node.wait_for(id, last)).await.unwrap();
    }
    node.shutdown().await.unwrap();
    assert_eq!(events.recv().await.unwrap().data, Some(OrderEvent::Placed { total: 5 }));
    assert_eq!(events.recv().await.unwrap().data, Some(OrderEvent::Shipped));
    assert!(events.try_recv().is_err());
    assert_eq!(by_type.types(), ["Shipped"]);
    assert_eq!(by_stream.types(), ["Placed"]);
    assert_eq!(shop.info("by-stream").await.position, last, "what is not its own is settled all the same");
}

#[tokio::test]
async fn a_new_subscriber_starts_where_it_is_told() {
    let shop = Shop::open().await;
    let third = shop.emit(&["a", "b", "c"]).await;
    until(|| async { shop.shop.horizon().await.unwrap().horizon == third }).await;
    let starts = [
        ("beginning", StartFrom::Beginning, vec!["a", "b", "c", "d"]),
        ("now", StartFrom::Now, vec!["d"]),
        ("after", StartFrom::After(third - 1), vec!["c", "d"]),
    ];
    let recorders: Vec<_> = starts.iter().map(|(id, ..)| Recorder::new(id)).collect();
    let mut node = shop.shop.node("n1");
    for (recorder, (_, start, _)) in recorders.iter().zip(&starts) {
        node = node.run(Subscription::of(recorder.clone()).start_from(*start));
    }
    let node = node.start().await.unwrap();
    let last = shop.emit(&["d"]).await;
    for (recorder, (id, _, expected)) in recorders.iter().zip(&starts) {
        soon(node.wait_for(id, last)).await.unwrap();
        assert_eq!(recorder.types(), *expected, "{id}");
    }
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_batch_handler_gets_many_at_once_and_keeps_order() {
    let shop = Shop::open().await;
    let last = shop.emit_many(1_000).await;
    let (told, mut batches) = tokio::sync::mpsc::unbounded_channel();
    let node = shop
        .shop
        .node("n1")
        .run(Subscription::new("batches").batch(move |events: Vec<Delivery>| {
            let told = told.clone();
            async move {
                told.send(events.iter().filter_map(|event| event.global_sequence).collect::<Vec<_>>())?;
                Ok(())
            }
        }))
        .start()
        .await
        .unwrap();
    soon(node.wait_for("batches", last)).await.unwrap();
    node.shutdown().await.unwrap();
    let mut all = Vec::new();
    let mut largest = 0;
    while let Ok(batch) = batches.try_recv() {
        largest = largest.max(batch.len());
        all.extend(batch);
    }
    assert_eq!(all.len(), 1_000);
    assert!(all.is_sorted());
    assert_eq!(largest, 100, "catch_up_batch_size is the most");
}

#[tokio::test]
async fn events_of_different_keys_are_handled_at_once_those_of_one_in_order() {
    let shop = Shop::open().await;
    let keys = ["a", "b", "c", "d"];
    let mut append = headwater::log::Append::new();
    for n in 0..40 {
        let event = Event::raw(format!("e{n}"), headwater::Json::null()).into_builder().key(keys[n % 4]);
        append = append.event(event.build().unwrap());
    }
    let last = shop.shop.append_all(append).await.unwrap().events.last().unwrap().global_sequence;
    let meeting = Arc::new(tokio::sync::Barrier::new(4));
    let order = Arc::new(std::sync::Mutex::new(std::collections::BTreeMap::<String, Vec<u64>>::new()));
    struct Meets(Arc<tokio::sync::Barrier>, Arc<std::sync::Mutex<std::collections::BTreeMap<String, Vec<u64>>>>);
    impl EventObserver for Meets {
        fn subscriber_id(&self) -> &str {
            "meets"
        }
        async fn on_event(&self, event: Delivery) -> Result<(), HandlerError> {
            // Nobody gets through alone: four keys must be handled at once.
            self.0.wait().await;
            let (key, sequence) = (event.key.clone().unwrap_or_default(), event.global_sequence.unwrap_or_default());
            self.1.lock().unwrap().entry(key).or_default().push(sequence);
            Ok(())
        }
    }
    let meets = Subscription::of(Meets(meeting, order.clone())).config(quick()).concurrency(4);
    let node = shop.shop.node("n1").run(meets).start().await.unwrap();
    soon(node.wait_for("meets", last)).await.unwrap();
    node.shutdown().await.unwrap();
    assert_eq!(shop.info("meets").await.position, last);
    let order = order.lock().unwrap();
    assert_eq!(order.len(), 4);
    assert!(order.values().all(|sequences| sequences.len() == 10 && sequences.is_sorted()));
}

#[tokio::test]
async fn wrong_options_are_errors_at_the_start() {
    let shop = Shop::open().await;
    let message =
        |result: Result<headwater::Node, headwater::delivery::SubscriberError>| result.err().unwrap().to_string();
    assert!(message(shop.shop.node("n1").start().await).contains("runs nothing"));
    let twice =
        shop.shop.node("n1").run(Subscription::of(Recorder::new("a"))).run(Subscription::of(Recorder::new("a")));
    assert!(message(twice.start().await).contains("runs twice"));
    let node = shop.shop.node("n1").run(Subscription::of(Recorder::new("a")).concurrency(0));
    assert_eq!(message(node.start().await), "subscriber \"a\": invalid concurrency 0: it is 1 to 1000");
    let node = shop.shop.node("n1").run(Subscription::of(Recorder::new(""))).lease(Duration::from_secs(9));
    assert!(message(node.start().await).contains("invalid subscriber_id \"\""));
}
