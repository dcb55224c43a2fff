//! Several instances of one subscriber: one handles events, the others take over.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Recorder, Shop, quick, soon, until};
use headwater::delivery::{InstanceMode, OperatorStore, ReliableDeliveryConfig};
use headwater::{Delivery, EventObserver, HandlerError, Node, Subscription};

async fn owner(shop: &Shop) -> Option<String> {
    shop.info("pool").await.owner.map(|instance| instance.node)
}

async fn start(shop: &Shop, name: &str, recorder: &Recorder) -> Node {
    shop.shop.node(name).run(Subscription::of(recorder.clone()).config(quick())).start().await.unwrap()
}

#[tokio::test]
async fn one_instance_handles_events_and_hands_over_when_it_leaves() {
    let shop = Shop::open().await;
    let (first, second) = (Recorder::new("pool"), Recorder::new("pool"));
    let one = start(&shop, "one", &first).await;
    until(|| async { owner(&shop).await.as_deref() == Some("one") }).await;
    let two = start(&shop, "two", &second).await;
    let last = shop.emit_many(50).await;
    soon(two.wait_for("pool", last)).await.unwrap();
    assert_eq!((first.sequences().len(), second.sequences().len()), (50, 0));
    one.shutdown().await.unwrap();
    let next = shop.emit_many(50).await;
    soon(two.wait_for("pool", next)).await.unwrap();
    assert_eq!((first.sequences().len(), second.sequences().len()), (50, 50));
    two.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_standby_takes_over_when_the_owner_is_gone() {
    let shop = Shop::open().await;
    let (first, second) = (Recorder::new("pool"), Recorder::new("pool"));
    // Long leases: only the end of the owner's session can be the reason.
    let lease = Duration::from_secs(600);
    let one = shop.shop.node("one").run(Subscription::of(first.clone())).lease(lease).start().await.unwrap();
    until(|| async { owner(&shop).await.as_deref() == Some("one") }).await;
    let two = shop.shop.node("two").run(Subscription::of(second.clone())).lease(lease).start().await.unwrap();
    let last = shop.emit_many(5).await;
    soon(two.wait_for("pool", last)).await.unwrap();
    let term = shop.info("pool").await.term;
    drop(one);
    until(|| async { owner(&shop).await.as_deref() == Some("two") }).await;
    assert!(shop.info("pool").await.term > term);
    let next = shop.emit_many(5).await;
    soon(two.wait_for("pool", next)).await.unwrap();
    assert_eq!((first.sequences().len(), second.sequences().len()), (5, 5));
    two.shutdown().await.unwrap();
}

/// Handles its first event only when it is let go.
struct Slow(Arc<tokio::sync::Semaphore>, tokio::sync::mpsc::UnboundedSender<u64>);

impl EventObserver for Slow {
    fn subscriber_id(&self) -> &str {
        "pool"
    }

    async fn on_event(&self, event: Delivery) -> Result<(), HandlerError> {
        self.1.send(event.global_sequence.unwrap_or_default())?;
        self.0.acquire().await?.forget();
        Ok(())
    }
}

#[tokio::test]
async fn an_owner_that_was_replaced_in_the_middle_of_an_event_moves_no_checkpoint() {
    let shop = Shop::open().await;
    let last = shop.emit_many(10).await;
    let let_go = Arc::new(tokio::sync::Semaphore::new(0));
    let (told, mut begun) = tokio::sync::mpsc::unbounded_channel();
    let zombie = shop.shop.node("zombie").run(Subscription::of(Slow(let_go.clone(), told))).start().await.unwrap();
    assert_eq!(soon(begun.recv()).await, Some(last - 9));
    // Another takes its place while it handles the event.
    shop.shop.subscribers().reset("pool", last).await.unwrap();
    let_go.add_permits(1);
    until(|| async { zombie.status().subscribers[0].position.is_none_or(|position| position >= last) }).await;
    assert_eq!(shop.info("pool").await.position, last, "the zombie's checkpoint came to nothing");
    zombie.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_reset_delivers_again_from_there() {
    let shop = Shop::open().await;
    let last = shop.emit_many(10).await;
    let recorder = Recorder::new("pool");
    let node = start(&shop, "one", &recorder).await;
    soon(node.wait_for("pool", last)).await.unwrap();
    shop.shop.subscribers().reset("pool", last - 3).await.unwrap();
    recorder.handled(13).await;
    assert_eq!(recorder.sequences()[10..], [last - 2, last - 1, last]);
    assert_eq!(shop.shop.subscribers().audit(&[]).await.unwrap().findings, []);
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_pause_ends_the_event_at_hand_and_a_resume_goes_on() {
    let shop = Shop::open().await;
    let recorder = Recorder::new("pool");
    let node = start(&shop, "one", &recorder).await;
    let last = shop.emit_many(3).await;
    soon(node.wait_for("pool", last)).await.unwrap();
    shop.shop.subscribers().set_paused("pool", true).await.unwrap();
    until(|| async { node.status().subscribers[0].report.state == headwater::delivery::RunnerState::Paused }).await;
    let next = shop.emit_many(3).await;
    assert_eq!(shop.info("pool").await.position, last);
    shop.shop.subscribers().set_paused("pool", false).await.unwrap();
    soon(node.wait_for("pool", next)).await.unwrap();
    assert_eq!(recorder.sequences().len(), 6);
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_single_instance_takes_no_lease_and_no_lock() {
    let shop = Shop::open().await;
    let recorder = Recorder::new("pool");
    let config = ReliableDeliveryConfig { instance_mode: InstanceMode::SingleInstance, ..quick() };
    let node = shop.shop.node("one").run(Subscription::of(recorder.clone()).config(config)).start().await.unwrap();
    let last = shop.emit_many(3).await;
    soon(node.wait_for("pool", last)).await.unwrap();
    until(|| async { shop.info("pool").await.position == last }).await;
    let info = shop.info("pool").await;
    assert_eq!((info.owner, info.lease_left), (None, None));
    let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2
                    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    let held: i64 = sqlx::query_scalar(locks).fetch_one(shop.headwater.pool()).await.unwrap();
    assert_eq!(held, 0);
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_node_without_session_locks_hands_over_at_the_end_of_the_lease() {
    let shop = Shop::open().await;
    let (first, second) = (Recorder::new("pool"), Recorder::new("pool"));
    let lease = Duration::from_secs(2);
    let node = |name: &str| {
        shop.shop.node(name).session_locks(false).wake_ups(headwater::node::WakeUpSource::Poll).lease(lease)
    };
    let one = node("one").run(Subscription::of(first.clone())).start().await.unwrap();
    until(|| async { owner(&shop).await.as_deref() == Some("one") }).await;
    let two = node("two").run(Subscription::of(second.clone())).start().await.unwrap();
    drop(one);
    until(|| async { owner(&shop).await.as_deref() == Some("two") }).await;
    let last = shop.emit_many(5).await;
    soon(two.wait_for("pool", last)).await.unwrap();
    assert_eq!((first.sequences().len(), second.sequences().len()), (0, 5));
    two.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_single_instance_follows_a_reset() {
    let shop = Shop::open().await;
    let recorder = Recorder::new("pool");
    let config = ReliableDeliveryConfig { instance_mode: InstanceMode::SingleInstance, ..quick() };
    let node = shop.shop.node("one").run(Subscription::of(recorder.clone()).config(config)).start().await.unwrap();
    let last = shop.emit_many(2).await;
    until(|| async { shop.info("pool").await.position == last }).await;
    shop.shop.subscribers().reset("pool", 0).await.unwrap();
    recorder.handled(4).await;
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_owner_of_a_subscriber_that_was_made_anew_moves_nothing() {
    let shop = Shop::open().await;
    let last = shop.emit_many(10).await;
    let let_go = Arc::new(tokio::sync::Semaphore::new(0));
    let (told, mut begun) = tokio::sync::mpsc::unbounded_channel();
    let node = shop.shop.node("zombie").run(Subscription::of(Slow(let_go.clone(), told))).start().await.unwrap();
    assert_eq!(soon(begun.recv()).await, Some(last - 9));
    shop.shop.subscribers().remove("pool", true).await.unwrap();
    let register = "SELECT headwater.register_subscriber('shop', 'pool')";
    sqlx::query(register).execute(shop.headwater.pool()).await.unwrap();
    until(|| async { owner(&shop).await.as_deref() == Some("zombie") }).await;
    let_go.add_permits(100);
    let mut handled = 1;
    while handled < 11 {
        soon(begun.recv()).await.unwrap();
        handled += 1;
    }
    until(|| async { shop.info("pool").await.position == last }).await;
    assert_eq!(shop.shop.subscribers().audit(&[]).await.unwrap().findings, []);
    node.shutdown().await.unwrap();
}
