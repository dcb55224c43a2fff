//! A subscriber that handles a given number of events and then stops: the first ones in the log,
//! whichever finishes first.

use std::sync::Arc;

use crate::common::{Shop, quick, soon, until};
use headwater::delivery::{DeadLetterQuery, OperatorStore, ReliableDeliveryConfig};
use headwater::log::Append;
use headwater::{Delivery, Event, EventObserver, HandlerError, Json, Queue, Subscription};
use tokio::sync::{Semaphore, watch};

/// Handles events with the key `slow` when it is allowed to, and others at once. Events with the
/// key `bad` fail.
#[derive(Clone)]
struct Worker {
    began: watch::Sender<Vec<u64>>,
    done: watch::Sender<Vec<u64>>,
    leave: Arc<Semaphore>,
}

impl Worker {
    fn new() -> Self {
        Worker { began: watch::Sender::default(), done: watch::Sender::default(), leave: Arc::new(Semaphore::new(0)) }
    }
}

impl EventObserver for Worker {
    fn subscriber_id(&self) -> &str {
        "some"
    }

    async fn on_event(&self, event: Delivery) -> Result<(), HandlerError> {
        self.began.send_modify(|began| began.extend(event.global_sequence));
        match event.key.as_deref() {
            Some("slow") => _ = self.leave.acquire().await.map(|leave| leave.forget()),
            Some("bad") => return Err(HandlerError::message("bad")),
            _ => {}
        }
        self.done.send_modify(|done| done.extend(event.global_sequence));
        Ok(())
    }
}

async fn append(shop: &Shop, keys: &[&str]) -> Vec<u64> {
    let keyed = |key: &str| Event { key: Some(key.into()), ..Event::raw("e", Json::null()) };
    let append = keys.iter().fold(Append::new(), |append, key| append.event(keyed(key)));
    shop.shop.append_all(append).await.unwrap().events.iter().map(|event| event.global_sequence).collect()
}

fn sorted(sequences: &watch::Sender<Vec<u64>>) -> Vec<u64> {
    let mut sequences = sequences.borrow().clone();
    sequences.sort_unstable();
    sequences
}

/// Of a key that is slow, later events are counted before those of keys that are fast.
#[tokio::test]
async fn the_first_events_of_the_log_are_counted() {
    let shop = Shop::open().await;
    let s = append(&shop, &["slow", "slow", "a", "b", "c"]).await;
    let worker = Worker::new();
    let node = shop.shop.node("n1").run(Subscription::of(worker.clone()).config(quick()).concurrency(4).at_most(3));
    let node = node.start().await.unwrap();
    soon(worker.done.subscribe().wait_for(|done| *done == [s[2]])).await.unwrap();
    worker.leave.close();
    until(|| async { shop.info("some").await.position == s[2] }).await;
    node.shutdown().await.unwrap();
    assert_eq!((sorted(&worker.began), sorted(&worker.done)), (s[..3].to_vec(), s[..3].to_vec()));
    assert_eq!(shop.info("some").await.position, s[2]);
    assert_eq!(shop.shop.subscribers().audit(&[]).await.unwrap().findings, []);
}

/// An event that is given up does not count: the next one has its place.
#[tokio::test]
async fn one_that_is_given_up_gives_its_place_to_the_next() {
    for concurrency in [1, 4] {
        let shop = Shop::open().await;
        let s = append(&shop, &["bad", "a", "bad", "b", "c"]).await;
        let worker = Worker::new();
        let config = ReliableDeliveryConfig { max_retries: 1, ..quick() };
        let node = shop
            .shop
            .node("n1")
            .run(Subscription::of(worker.clone()).config(config).concurrency(concurrency).at_most(2));
        let node = node.start().await.unwrap();
        until(|| async { shop.info("some").await.position == s[3] }).await;
        node.shutdown().await.unwrap();
        assert_eq!(sorted(&worker.done), [s[1], s[3]], "with {concurrency} at once");
        assert!(!worker.began.borrow().contains(&s[4]), "the rest was not begun");
        let letters = shop.shop.subscribers().dead_letters(&DeadLetterQuery::default()).await.unwrap();
        assert_eq!(letters.iter().map(|letter| letter.global_sequence()).collect::<Vec<_>>(), [s[0], s[2]]);
    }
}

#[tokio::test]
async fn of_a_queue_the_rest_is_left_to_others() {
    let shop = Shop::open().await;
    let s = append(&shop, &["slow", "a", "b", "c"]).await;
    let worker = Worker::new();
    let node = shop.shop.node("n1").run(Queue::of(worker.clone()).workers(4).at_most(2));
    let node = node.start().await.unwrap();
    soon(worker.done.subscribe().wait_for(|done| done.len() == 1)).await.unwrap();
    worker.leave.close();
    soon(worker.done.subscribe().wait_for(|done| done.len() == 2)).await.unwrap();
    node.shutdown().await.unwrap();
    assert_eq!(sorted(&worker.began), s[..2]);
    let rest = Worker::new();
    let other = shop.shop.node("n2").run(Queue::of(rest.clone())).start().await.unwrap();
    soon(rest.done.subscribe().wait_for(|done| done.len() == 2)).await.unwrap();
    assert_eq!(sorted(&rest.done), s[2..]);
    other.shutdown().await.unwrap();
}

#[tokio::test]
async fn handlers_of_many_events_are_given_no_more_than_that() {
    let shop = Shop::open().await;
    let s = append(&shop, &["a", "b", "c", "d", "e"]).await;
    let given = watch::Sender::new(Vec::new());
    let (note, mut seen) = (given.clone(), given.subscribe());
    let batch = move |events: Vec<Delivery>| {
        note.send_modify(|given| given.extend(events.iter().filter_map(|event| event.global_sequence)));
        async { Ok(()) }
    };
    let node = shop.shop.node("n1").run(Subscription::new("some").batch(batch).at_most(2)).start().await.unwrap();
    soon(seen.wait_for(|given| given.len() == 2)).await.unwrap();
    node.shutdown().await.unwrap();
    assert_eq!(*given.borrow(), s[..2]);
}
