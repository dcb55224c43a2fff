//! Events that end the process of their handler.

use std::time::Duration;

use crate::common::{Shop, quick, soon};
use headwater::delivery::{CheckpointMode, DeadLetterQuery, OperatorStore, ReliableDeliveryConfig};
use headwater::{Delivery, EventObserver, HandlerError, Headwater, Node, Subscription};
use tokio::sync::watch;

/// Notes what it begins. One event never ends: its process does, sooner or later.
#[derive(Clone)]
struct Fragile {
    begun: watch::Sender<Vec<u64>>,
    kills: u64,
}

impl EventObserver for Fragile {
    fn subscriber_id(&self) -> &str {
        "fragile"
    }

    async fn on_event(&self, event: Delivery) -> Result<(), HandlerError> {
        let sequence = event.global_sequence.expect("it is stored");
        self.begun.send_modify(|begun| begun.push(sequence));
        if sequence == self.kills {
            std::future::pending::<()>().await;
        }
        Ok(())
    }
}

async fn start(url: &str, fragile: &Fragile, concurrency: u32) -> (Headwater, Node) {
    let config = ReliableDeliveryConfig {
        max_retries: 1,
        handler_timeout: Duration::from_secs(3_600),
        checkpoint_mode: CheckpointMode::Batched { batch_size: 1_000, max_delay_ms: 60_000 },
        ..quick()
    };
    let headwater = Headwater::connect(url).await.unwrap();
    let shop = headwater.namespace("shop").await.unwrap();
    let node = shop
        .node("n1")
        .run(Subscription::of(fragile.clone()).config(config).concurrency(concurrency))
        .start()
        .await
        .unwrap();
    (headwater, node)
}

/// A process that begins the event, and ends by it: nothing of it goes on, and nothing is said.
async fn die(url: &str, fragile: &Fragile, concurrency: u32) {
    fragile.begun.send_modify(Vec::clear);
    let process = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (url, theirs) = (url.to_owned(), fragile.clone());
    process.spawn(async move {
        let _lives = start(&url, &theirs, concurrency).await;
        std::future::pending::<()>().await;
    });
    let mut begun = fragile.begun.subscribe();
    soon(begun.wait_for(|begun| begun.contains(&fragile.kills))).await.unwrap();
    process.shutdown_background();
}

async fn an_event_that_ends_its_process_is_given_up(concurrency: u32) {
    let shop = Shop::open().await;
    shop.emit_many(5).await;
    let kills = shop.emit(&["kills"]).await;
    let last = shop.emit(&["next"]).await;
    let fragile = Fragile { begun: watch::Sender::new(Vec::new()), kills };
    // The first death only tells that there was one. Then it is begun with care, twice.
    for _ in 0..3 {
        die(&shop.db.url, &fragile, concurrency).await;
    }
    fragile.begun.send_modify(Vec::clear);
    let (headwater, node) = start(&shop.db.url, &fragile, concurrency).await;
    soon(node.wait_for("fragile", last)).await.unwrap();
    assert_eq!(*fragile.begun.borrow(), [last], "those before were written down, one by one");
    node.shutdown().await.unwrap();
    headwater.shutdown().await;
    let letters = shop.shop.subscribers().dead_letters(&DeadLetterQuery::default()).await.unwrap();
    let letters: Vec<_> = letters.iter().map(|letter| (letter.global_sequence(), letter.attempts.len())).collect();
    assert_eq!(letters, [(kills, 2)]);
    assert_eq!(shop.shop.subscribers().audit(&[]).await.unwrap().findings, []);

    // A turn that ends in order leaves nothing behind: the next is as any other.
    let one = shop.emit(&["one"]).await;
    let (headwater, node) = start(&shop.db.url, &fragile, concurrency).await;
    soon(node.wait_for("fragile", one)).await.unwrap();
    node.shutdown().await.unwrap();
    headwater.shutdown().await;
}

#[tokio::test]
async fn an_event_that_ends_its_process_becomes_a_dead_letter() {
    an_event_that_ends_its_process_is_given_up(1).await;
}

#[tokio::test]
async fn an_event_that_ends_its_process_beside_others_becomes_a_dead_letter() {
    an_event_that_ends_its_process_is_given_up(4).await;
}
