//! Queues take what their workers are for, and settle the rest; what is given up is said.

use std::fmt;
use std::sync::{Arc, Mutex};

use crate::common::{Shop, quick, until};
use headwater::delivery::{OperatorStore, ReliableDeliveryConfig};
use headwater::node::NodeBuilder;
use headwater::{Delivery, HandlerError, Queue};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Level, Metadata};

/// A node with a worker, which fails with events of type `bad`.
fn node(shop: &Shop, name: &str, types: &[&str], handled: &Arc<Mutex<Vec<u64>>>) -> NodeBuilder {
    let config = ReliableDeliveryConfig { max_retries: 1, ..quick() };
    let handled = handled.clone();
    let handle = move |event: Delivery| {
        let handled = handled.clone();
        async move {
            if event.event_type == "bad" {
                return Err(HandlerError::message("boom"));
            }
            handled.lock().unwrap().push(event.sequence().get());
            Ok(())
        }
    };
    shop.shop.node(name).run(Queue::new("work").config(config).event_types(types.iter().copied()).each(handle))
}

#[tokio::test]
async fn a_queue_takes_the_types_of_its_workers_and_settles_the_rest() {
    let shop = Shop::open().await;
    let (ones, twos) = (Arc::default(), Arc::default());
    let one = node(&shop, "one", &["A", "B.*"], &ones).start().await.unwrap();
    let last = shop.emit(&["A", "other", "B.x", "other"]).await;
    until(|| async { shop.info("work").await.position == last }).await;
    assert_eq!(*ones.lock().unwrap(), [last - 3, last - 1]);
    // Another program works on it too. Neither gets what is the other's.
    let two = node(&shop, "two", &["C"], &twos).start().await.unwrap();
    let queue = || async { shop.headwater.admin().queues().await.unwrap().remove(0) };
    until(|| async { queue().await.workers == 2 }).await;
    assert_eq!(queue().await.event_types.unwrap(), ["A", "B.*", "C"]);
    let last = shop.emit(&["C", "other", "A"]).await;
    until(|| async { shop.info("work").await.position == last }).await;
    assert_eq!((ones.lock().unwrap().len(), twos.lock().unwrap().clone()), (3, vec![last - 2]));
    one.shutdown().await.unwrap();
    two.shutdown().await.unwrap();
}

/// A worker of all types does not have to say so.
#[tokio::test]
async fn a_worker_of_all_types_makes_its_queue_take_all() {
    let shop = Shop::open().await;
    let (typed, all) = (Arc::default(), Arc::default());
    let one = node(&shop, "one", &["A"], &typed).start().await.unwrap();
    let last = shop.emit(&["A"]).await;
    until(|| async { shop.info("work").await.position == last }).await;
    let two = node(&shop, "two", &[], &all).start().await.unwrap();
    assert_eq!(shop.headwater.admin().queues().await.unwrap()[0].event_types, None);
    let last = shop.emit(&["B", "C"]).await;
    until(|| async { shop.info("work").await.position == last }).await;
    assert_eq!(*all.lock().unwrap(), [last - 1, last]);
    one.shutdown().await.unwrap();
    two.shutdown().await.unwrap();
}

#[tokio::test]
async fn workers_go_on_when_an_operator_takes_some_of_their_types_from_the_queue() {
    let shop = Shop::open().await;
    let handled = Arc::default();
    let urgent = Queue::new("work").config(quick()).priority(["urgent"]).event_types(["A", "B", "urgent"]).each({
        let handled: Arc<Mutex<Vec<u64>>> = Arc::clone(&handled);
        move |event: Delivery| {
            handled.lock().unwrap().push(event.sequence().get());
            async { Ok(()) }
        }
    });
    let one = shop.shop.node("one").run(urgent).start().await.unwrap();
    let last = shop.emit(&["A"]).await;
    until(|| async { shop.info("work").await.position == last }).await;
    let before = shop.shop.subscribers().set_event_types("work", &["A".into()]).await.unwrap();
    assert_eq!(before.unwrap(), ["A", "B", "urgent"]);
    let last = shop.emit(&["B", "A", "urgent"]).await;
    until(|| async { shop.info("work").await.position == last }).await;
    assert_eq!(*handled.lock().unwrap(), [last - 3, last - 1]);
    let last = shop.emit(&["A", "A"]).await;
    until(|| async { shop.info("work").await.position == last }).await;
    assert_eq!(handled.lock().unwrap().len(), 4);
    one.shutdown().await.unwrap();
}

/// Errors that were logged, each with its fields.
#[derive(Clone, Default)]
struct Errors(Arc<Mutex<Vec<String>>>);

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.push_str(&format!("{field}={value:?} "));
    }
}

impl tracing::Subscriber for Errors {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::ERROR
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().unwrap().push(text.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn an_event_that_becomes_a_dead_letter_is_logged_as_an_error() {
    let errors = Errors::default();
    // Each test is a process of its own.
    tracing::subscriber::set_global_default(errors.clone()).expect("nobody else logs here");
    let shop = Shop::open().await;
    let one = node(&shop, "one", &["bad"], &Arc::default()).start().await.unwrap();
    let last = shop.emit(&["bad"]).await;
    until(|| async { shop.info("work").await.dead_letters == 1 }).await;
    until(|| async { !errors.0.lock().unwrap().is_empty() }).await;
    one.shutdown().await.unwrap();
    let logged = errors.0.lock().unwrap().clone();
    assert_eq!(logged.len(), 1, "the first attempt is none: {logged:?}");
    for part in ["gave up on an event".to_owned(), format!("sequence={last}"), "boom".into(), "\"work\"".into()] {
        assert!(logged[0].contains(&part), "{part}: {logged:?}");
    }
}
