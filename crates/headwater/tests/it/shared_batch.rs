//! Batch handlers of shared subscribers, and how their events are claimed.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Shop, quick, soon, state, until};
use headwater::delivery::{Batch, DeadLetterQuery, OperatorStore, ReliableDeliveryConfig, RunnerState};
use headwater::queue::ClaimRequest;
use headwater::{Delivery, HandlerError, Queue};
use tokio::sync::{Semaphore, watch};

/// What the handlers of a test were given.
#[derive(Clone)]
struct Witness {
    batches: watch::Sender<Vec<Vec<u64>>>,
    /// One for each batch that may be handled; closed: all may.
    gate: Arc<Semaphore>,
}

impl Witness {
    fn closed() -> Self {
        Witness { batches: watch::Sender::new(Vec::new()), gate: Arc::new(Semaphore::new(0)) }
    }

    fn open() -> Self {
        let witness = Witness::closed();
        witness.gate.close();
        witness
    }

    /// A queue whose handler fails for events of the type "bad", and does not stop at the gate for
    /// "quick" ones.
    fn queue(&self) -> Queue<Batch> {
        let witness = self.clone();
        Queue::new("work")
            .batch(move |events: Vec<Delivery>| {
                let witness = witness.clone();
                async move {
                    let sequences = events.iter().filter_map(|event| event.global_sequence).collect();
                    witness.batches.send_modify(|batches| batches.push(sequences));
                    if events[0].event_type != "quick"
                        && let Ok(permit) = witness.gate.acquire().await
                    {
                        permit.forget();
                    }
                    match events.iter().any(|event| event.event_type == "bad") {
                        true => Err(HandlerError::message("a bad one")),
                        false => Ok(()),
                    }
                }
            })
            .config(quick())
    }

    async fn began(&self, batches: usize) {
        soon(self.batches.subscribe().wait_for(|began| began.len() >= batches)).await.unwrap();
    }

    fn sizes(&self) -> Vec<usize> {
        self.batches.borrow().iter().map(Vec::len).collect()
    }

    fn sequences(&self) -> Vec<u64> {
        let mut sequences = self.batches.borrow().concat();
        sequences.sort_unstable();
        sequences
    }
}

async fn settled(shop: &Shop, last: u64) {
    until(|| async { shop.info("work").await.position >= last }).await;
}

/// Claims that are held, and their events.
async fn held(shop: &Shop) -> (i64, i64) {
    let status = "SELECT claims, in_flight FROM headwater.queue_status('shop', 'work')";
    sqlx::query_as(status).fetch_one(shop.headwater.pool()).await.unwrap()
}

#[tokio::test]
async fn one_claim_is_many_batches_and_each_event_is_handled_once() {
    let shop = Shop::open().await;
    let last = shop.emit_many(200).await;
    let witness = Witness::closed();
    let node =
        shop.shop.node("one").run(witness.queue().batch_size(10).workers(2).prefetch(100)).start().await.unwrap();
    witness.began(2).await;
    assert_eq!((witness.sizes(), held(&shop).await), (vec![10, 10], (1, 120)));
    witness.gate.close();
    settled(&shop, last).await;
    node.shutdown().await.unwrap();
    assert_eq!(witness.sequences(), (last - 199..=last).collect::<Vec<_>>());
    let claims: i64 = sqlx::query_scalar("SELECT last_value FROM headwater_private.claim_numbers")
        .fetch_one(shop.headwater.pool())
        .await
        .unwrap();
    assert!(claims < 10, "{claims} claims");
}

#[tokio::test]
async fn a_batch_that_fails_is_tried_one_by_one() {
    let shop = Shop::open().await;
    let last = shop.emit(&["a", "bad", "b", "c"]).await;
    let witness = Witness::open();
    let config = ReliableDeliveryConfig { max_retries: 1, ..quick() };
    let node = shop.shop.node("one").run(witness.queue().config(config)).start().await.unwrap();
    until(|| async { shop.info("work").await.dead_letters == 1 }).await;
    settled(&shop, last).await;
    node.shutdown().await.unwrap();
    let bad = last - 2;
    let alone = |sequence| vec![sequence];
    let all = (last - 3..=last).collect();
    let expected = [all, alone(last - 3), alone(bad), alone(last - 1), alone(last), alone(bad)];
    assert_eq!(*witness.batches.borrow(), expected);
    let letters = shop.shop.subscribers().dead_letters(&DeadLetterQuery::default()).await.unwrap();
    assert_eq!((letters.len(), letters[0].attempts.len()), (1, 2));
}

#[tokio::test]
async fn without_prefetch_a_worker_claims_what_it_handles_and_nothing_else() {
    let shop = Shop::open().await;
    let last = shop.emit_many(5).await;
    let witness = Witness::closed();
    let node = shop.shop.node("one").run(witness.queue().batch_size(1).prefetch(0)).start().await.unwrap();
    for begun in 1..=5 {
        witness.began(begun).await;
        assert_eq!((witness.batches.borrow().len(), held(&shop).await), (begun, (1, 1)));
        witness.gate.add_permits(1);
    }
    settled(&shop, last).await;
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_claim_that_hangs_holds_up_neither_handlers_nor_acks() {
    let shop = Shop::open_impatient().await;
    let last = shop.emit_many(20).await;
    let witness = Witness::closed();
    // The server makes a claim that its client gave up: it is for others when its time has come.
    let visibility = Duration::from_secs(1);
    let node = shop
        .shop
        .node("one")
        .run(witness.queue().batch_size(5).prefetch(5).visibility(visibility))
        .start()
        .await
        .unwrap();
    witness.began(1).await;
    assert_eq!(held(&shop).await, (1, 10));
    // Whoever claims now waits for this transaction.
    let mut tx = shop.headwater.pool().begin().await.unwrap();
    let request = ClaimRequest { max_events: 1, ..ClaimRequest::new("other") };
    let queue = shop.shop.queue("work");
    assert_eq!(queue.claim_in(&mut tx, &request).await.unwrap()[0].events[0].global_sequence, Some(last - 9));
    witness.gate.close();
    settled(&shop, last - 10).await;
    tx.rollback().await.unwrap();
    settled(&shop, last).await;
    node.shutdown().await.unwrap();
    assert_eq!(witness.sequences().len(), 20);
}

#[tokio::test]
async fn a_shutdown_hands_back_what_was_claimed_ahead() {
    let shop = Shop::open().await;
    let last = shop.emit_many(50).await;
    let witness = Witness::closed();
    let node = shop.shop.node("one").run(witness.queue().batch_size(5).prefetch(100)).start().await.unwrap();
    witness.began(1).await;
    assert_eq!(held(&shop).await, (1, 50));
    let stopping = tokio::spawn(async move { node.shutdown().await });
    // Others need not wait for what it has begun.
    until(|| async { held(&shop).await == (1, 5) }).await;
    let queue = shop.shop.queue("work");
    let claims = queue.claim(&ClaimRequest::new("other")).await.unwrap();
    let taken: Vec<_> = claims.iter().map(|claim| (claim.events.len(), claim.redelivery_count)).collect();
    assert_eq!(taken, [(45, 0)]);
    witness.gate.close();
    soon(stopping).await.unwrap().unwrap();
    assert_eq!((witness.sizes(), held(&shop).await), (vec![5], (1, 45)));
    queue.ack(claims[0].claim_id, None).await.unwrap();
    assert_eq!(shop.info("work").await.position, last);
}

#[tokio::test]
async fn a_pause_ends_what_has_begun_and_hands_back_the_rest_on_all_nodes() {
    let shop = Shop::open().await;
    let first = shop.emit_many(50).await - 49;
    let (one, two) = (Witness::closed(), Witness::closed());
    let node = |witness: &Witness, name: &str| shop.shop.node(name).run(witness.queue().batch_size(5).prefetch(20));
    let nodes = [node(&one, "one").start().await.unwrap(), node(&two, "two").start().await.unwrap()];
    one.began(1).await;
    two.began(1).await;
    let subscribers = shop.shop.subscribers();
    subscribers.set_paused("work", true).await.unwrap();
    until(|| async { held(&shop).await == (2, 10) }).await;
    for node in &nodes {
        until(|| async { state(node).0 == RunnerState::Paused }).await;
    }
    one.gate.close();
    two.gate.close();
    until(|| async { held(&shop).await == (0, 0) }).await;
    assert_eq!((one.sizes(), two.sizes()), (vec![5], vec![5]));
    let last = shop.emit_many(5).await;
    subscribers.set_paused("work", false).await.unwrap();
    settled(&shop, last).await;
    let mut all = [one.sequences(), two.sequences()].concat();
    all.sort_unstable();
    assert_eq!(all, (first..=last).collect::<Vec<_>>());
    for node in nodes {
        until(|| async { state(&node).0 == RunnerState::Live }).await;
        node.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn what_was_claimed_ahead_is_handed_back_when_the_handler_is_stuck() {
    let shop = Shop::open().await;
    let witness = Witness::closed();
    let node = shop
        .shop
        .node("one")
        .run(witness.queue().batch_size(1).visibility(Duration::from_secs(1)))
        .start()
        .await
        .unwrap();
    // It learns that they are handled quickly, and claims many ahead.
    let last = shop.emit(&["quick"; 20]).await;
    settled(&shop, last).await;
    shop.emit_many(50).await;
    witness.began(21).await;
    until(|| async { held(&shop).await == (1, 1) }).await;
    let claims = shop.shop.queue("work").claim(&ClaimRequest::new("other")).await.unwrap();
    assert_eq!(claims.iter().map(|claim| claim.events.len()).sum::<usize>(), 49);
    assert!(claims.iter().all(|claim| claim.redelivery_count == 0), "{claims:?}");
    assert_eq!(witness.batches.borrow().len(), 21);
    witness.gate.close();
    node.shutdown().await.unwrap();
}
