//! The rate limit of a subscriber, in every mode and for handlers of every kind.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::common::{Shop, quick, soon, until};
use futures::future::BoxFuture;
use headwater::{
    CheckpointMode, Event, EventObserver, HandlerError, NodeBuilder, ReliableDeliveryConfig, SubscriberError,
    TransactionScope,
};
use sqlx::PgConnection;

/// A transactional handler that counts.
fn transaction(
    count: Count,
) -> impl for<'t> Fn(Arc<Event>, &'t mut PgConnection) -> BoxFuture<'t, Result<(), HandlerError>> {
    move |_, _| {
        count.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Ok(()) })
    }
}

#[derive(Clone, Default)]
struct Count(Arc<AtomicUsize>);

#[async_trait::async_trait]
impl EventObserver for Count {
    fn subscriber_id(&self) -> &str {
        "limited"
    }

    async fn on_event(&self, _: Arc<Event>) -> Result<(), HandlerError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

impl Count {
    fn seen(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    /// A node for each kind of handler, and each mode.
    fn nodes(&self, shop: &Shop) -> Vec<(&'static str, NodeBuilder)> {
        let node = || shop.shop.node("n").config(quick());
        let batch = |count: Count| {
            move |events: Vec<Arc<Event>>| {
                count.0.fetch_add(events.len(), Ordering::SeqCst);
                async { Ok(()) }
            }
        };
        let id = "limited";
        vec![
            ("one by one", node().subscribe(self.clone())),
            ("keys side by side", node().subscribe(self.clone()).concurrency(8)),
            ("batches", node().subscribe_batch(id, batch(self.clone()))),
            ("a transaction each", node().subscribe_transactional(id, transaction(self.clone()))),
            (
                "a transaction a batch",
                node().subscribe_transactional(id, transaction(self.clone())).transaction_per(TransactionScope::Batch),
            ),
            (
                "a transaction a key",
                node().subscribe_transactional(id, transaction(self.clone())).transaction_per(TransactionScope::Key),
            ),
            ("partitions", node().subscribe_partitioned(id, 4, self.clone())),
            ("shared", node().subscribe_shared(id, self.clone()).concurrency(8)),
            ("shared batches", node().subscribe_shared_batch(id, batch(self.clone())).concurrency(2)),
            (
                "shared transactions",
                node().subscribe_shared_transactional(id, transaction(self.clone())).concurrency(2),
            ),
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
        let node = node.rate_limit(0.001).start().await.unwrap();
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
        let node = node.rate_limit(20.0).start().await.unwrap();
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
    let node = shop.shop.node("n").subscribe(count.clone()).config(config).start().await.unwrap();
    until(|| async { shop.info("limited").await.position == first }).await;
    assert_eq!(count.seen(), 1);
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_rate_that_is_none_is_refused() {
    let shop = Shop::open().await;
    let refused = shop.shop.node("n").rate_limit(0.0).subscribe(Count::default()).start().await.err();
    assert!(matches!(&refused, Some(SubscriberError::InvalidInput(message)) if message.contains("rate_limit 0")));
}
