//! The rate limit of a subscriber, in every mode and for handlers of every kind.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::common::{Per, Shop, effects_per, quick, soon, until};
use headwater::delivery::{CheckpointMode, ReliableDeliveryConfig, SubscriberError, Transactional};
use headwater::node::NodeBuilder;
use headwater::{Bundle, Delivery, EventObserver, HandlerError, Queue, Subscription, Transaction};

/// Says how fast a subscription or a queue may go, and puts it on a node.
type Limited = Box<dyn FnOnce(f64) -> NodeBuilder>;

/// A subscription whose transactional handler counts.
fn transactions(count: &Count, per: Per) -> Subscription<Transactional> {
    let count = count.clone();
    effects_per("limited", per, move |_, _| {
        count.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Ok(()) })
    })
}

#[derive(Clone, Default)]
struct Count(Arc<AtomicUsize>);

impl EventObserver for Count {
    fn subscriber_id(&self) -> &str {
        "limited"
    }

    async fn on_event(&self, _: Delivery) -> Result<(), HandlerError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

impl Count {
    fn seen(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    /// A node for each kind of handler, and each mode.
    fn nodes(&self, shop: &Shop) -> Vec<(&'static str, Limited)> {
        let node = || shop.shop.node("n").default_config(quick());
        macro_rules! limited {
            ($subscription:expr) => {{
                let (node, subscription) = (node(), $subscription);
                Box::new(move |rate| node.run(subscription.rate_limit(rate)))
            }};
        }
        let batch = |count: Count| {
            move |events: Vec<Delivery>| {
                count.0.fetch_add(events.len(), Ordering::SeqCst);
                async { Ok(()) }
            }
        };
        let id = "limited";
        let transaction = |count: Count| {
            move |_: Delivery, _: Transaction| {
                count.0.fetch_add(1, Ordering::SeqCst);
                async { Ok(()) }
            }
        };
        let of = || Subscription::of(self.clone());
        vec![
            ("one by one", limited!(of())),
            ("keys side by side", limited!(of().concurrency(8))),
            ("batches", limited!(Subscription::new(id).batch(batch(self.clone())))),
            ("a transaction each", limited!(transactions(self, Per::Event))),
            ("a transaction a batch", limited!(transactions(self, Per::Batch))),
            ("a transaction a key", limited!(transactions(self, Per::Bundle(Bundle::Key)))),
            ("partitions", limited!(of().partitions(4))),
            ("shared", limited!(Queue::of(self.clone()).workers(8))),
            ("shared batches", limited!(Queue::new(id).batch(batch(self.clone())).workers(2))),
            ("shared transactions", limited!(Queue::new(id).transactional(transaction(self.clone())).workers(2))),
        ]
    }
}

#[tokio::test]
async fn one_event_a_quarter_of_an_hour_is_one_event() {
    let kinds = Count::default().nodes(&Shop::open().await).len();
    for kind in 0..kinds {
        let shop = Shop::open().await;
        let count = Count::default();
        let (name, node) = count.nodes(&shop).remove(kind);
        let first = shop.emit_many(20).await - 19;
        let node = node(0.001).start().await.unwrap();
        // The whole log was looked at, and one event done; it can be stopped while it waits.
        until(|| async { count.seen() > 0 }).await;
        soon(node.shutdown()).await.unwrap();
        assert_eq!(count.seen(), 1, "{name}");
        if !["partitions", "keys side by side"].contains(&name) {
            assert_eq!(shop.info("limited").await.position, first, "{name}");
        }
    }
}

#[tokio::test]
async fn no_more_than_a_burst_and_what_comes_in_the_time() {
    let kinds = Count::default().nodes(&Shop::open().await).len();
    let each = (0..kinds).map(|kind| async move {
        let shop = Shop::open().await;
        let count = Count::default();
        let (name, node) = count.nodes(&shop).remove(kind);
        let last = shop.emit_many(50).await;
        let begun = Instant::now();
        let node = node(20.0).start().await.unwrap();
        until(|| async {
            let (seen, seconds) = (count.seen(), begun.elapsed().as_secs_f64());
            assert!(seen as f64 <= 20.0 + 20.0 * seconds, "{name}: {seen} events in {seconds} s");
            seen == 50
        })
        .await;
        assert!(begun.elapsed() >= Duration::from_millis(1_500), "{name}: {:?}", begun.elapsed());
        soon(node.wait_for("limited", last)).await.unwrap();
        node.shutdown().await.unwrap();
    });
    futures::future::join_all(each).await;
}

#[tokio::test]
async fn progress_is_written_while_events_wait() {
    let shop = Shop::open().await;
    let count = Count::default();
    let first = shop.emit_many(5).await - 4;
    let checkpoint_mode = CheckpointMode::Batched { batch_size: 100, max_delay_ms: 10 };
    let config = ReliableDeliveryConfig { checkpoint_mode, rate_limit: Some(0.001), ..quick() };
    let node = shop.shop.node("n").run(Subscription::of(count.clone()).config(config)).start().await.unwrap();
    until(|| async { shop.info("limited").await.position == first }).await;
    assert_eq!(count.seen(), 1);
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_rate_that_is_none_is_refused() {
    let shop = Shop::open().await;
    let refused = shop.shop.node("n").run(Subscription::of(Count::default()).rate_limit(0.0)).start().await.err();
    assert!(matches!(&refused, Some(SubscriberError::InvalidInput(message)) if message.contains("rate_limit 0")));
}
