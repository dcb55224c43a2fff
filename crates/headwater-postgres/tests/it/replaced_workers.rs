//! A process that registers under the id of another one gets what that one had claimed at once, and
//! whoever was replaced settles nothing of it. Two sessions, explicit steps.

use std::time::Duration;

use crate::common::queue::{Shop, delivered, request, sequences};
use crate::common::{pid, run, until_it_waits};
use headwater_core::{Claim, ClaimRequest, GroupStore, Instance, NodeOptions, OperatorStore, SubscriberError};
use headwater_postgres::PgNodes;

const REGISTER: &str = "SELECT headwater.register_node('shop', 'a')";

/// A queue with four events, of which the node `a` has claimed two, which are also others' for an
/// hour.
async fn claimed() -> (Shop, Claim) {
    let mut shop = Shop::open(4).await;
    run(&mut shop.session, REGISTER).await;
    let claim = shop.claim_with(ClaimRequest { max_events: 2, ..of("a") }).await.remove(0);
    (shop, claim)
}

fn of(worker: &str) -> ClaimRequest {
    ClaimRequest { worker: worker.into(), ..request() }
}

fn is_lost<T: std::fmt::Debug>(settled: Result<T, SubscriberError>) -> bool {
    matches!(settled, Err(SubscriberError::ClaimLost(_)))
}

#[tokio::test]
async fn what_a_replaced_worker_had_claimed_is_free_at_once_and_not_its_any_more() {
    let (mut shop, stale) = claimed().await;
    let others = shop.claim_with(ClaimRequest { max_events: 1, ..of("b") }).await.remove(0);
    assert_eq!(delivered(&shop.claim_with(of("b")).await), [[4]]);
    assert_eq!(shop.claim_with(of("b")).await, []);
    run(&mut shop.session, REGISTER).await;
    // Each alone: nobody knows which one its worker died of.
    let again = shop.claim_with(of("a")).await.remove(0);
    assert_eq!((sequences(&again), again.redelivery_count), (vec![1], 1));
    assert!(is_lost(shop.queue.ack(stale.claim_id, None).await));
    assert!(is_lost(shop.queue.ack(stale.claim_id, Some(&[2])).await));
    assert!(is_lost(shop.queue.extend(stale.claim_id, Duration::from_secs(1)).await));
    assert!(is_lost(shop.queue.nack(stale.claim_id, None, Duration::ZERO, "late").await));
    assert_eq!(delivered(&shop.claim_with(of("c")).await), [[2]]);
    shop.queue.ack(others.claim_id, None).await.expect("it is another worker's");
    shop.queue.ack(again.claim_id, None).await.unwrap();
    assert_eq!(shop.number("SELECT count(*) FROM headwater.audit_queues('shop')").await, 0);
}

#[tokio::test]
async fn an_event_that_each_process_dies_of_becomes_a_letter() {
    let mut shop = Shop::open(1).await;
    for attempt in 0..3 {
        run(&mut shop.session, REGISTER).await;
        let claim = shop.claim_with(ClaimRequest { max_attempts: 3, ..of("a") }).await.remove(0);
        assert_eq!(claim.redelivery_count, attempt);
    }
    run(&mut shop.session, REGISTER).await;
    let letter = shop.store.dead_letters(&headwater_core::DeadLetterQuery::default()).await.unwrap().remove(0);
    assert!(letter.error().contains("was replaced by a new process"), "{}", letter.error());
    assert_eq!((letter.attempts.len(), shop.position().await), (3, 1));
}

#[tokio::test]
async fn an_ack_that_is_not_committed_keeps_its_claim_from_being_returned() {
    for commits in [true, false] {
        let (mut shop, stale) = claimed().await;
        let mut owner = shop.db.session().await;
        run(&mut owner, "BEGIN").await;
        shop.queue.ack_in(&mut owner, stale.claim_id, None).await.unwrap();
        run(&mut shop.session, REGISTER).await;
        assert_eq!(delivered(&shop.claim_with(of("a")).await), [[3, 4]]);
        run(&mut owner, if commits { "COMMIT" } else { "ROLLBACK" }).await;
        assert_eq!(shop.claim_with(of("a")).await, []);
        // It expires by itself, if there is something of it.
        assert_eq!(shop.queue.ack(stale.claim_id, None).await.is_ok(), !commits);
        assert_eq!(shop.position().await, 2);
    }
}

#[tokio::test]
async fn an_ack_that_comes_while_its_worker_is_replaced_waits_and_is_refused() {
    let (mut shop, stale) = claimed().await;
    let (mut successor, mut owner) = (shop.db.session().await, shop.db.session().await);
    run(&mut successor, &format!("BEGIN; {REGISTER}")).await;
    let waiting = pid(&mut owner).await;
    let queue = shop.queue.clone();
    let late = tokio::spawn(async move { queue.ack_in(&mut owner, stale.claim_id, None).await });
    until_it_waits(&mut shop.session, waiting).await;
    run(&mut successor, "COMMIT").await;
    assert!(is_lost(late.await.unwrap()));
    assert_eq!(delivered(&shop.claim_each(9).await), [vec![1], vec![2], vec![3, 4]]);
}

#[tokio::test]
async fn a_registration_waits_for_a_claim_but_not_for_long() {
    let (mut shop, stale) = claimed().await;
    let mut claimer = shop.db.session().await;
    run(&mut claimer, "BEGIN").await;
    assert_eq!(delivered(&shop.queue.claim_in(&mut claimer, &of("b")).await.unwrap()), [[3, 4]]);
    run(&mut shop.session, REGISTER).await;
    run(&mut claimer, "COMMIT").await;
    // Nobody could return them: they are its own until they expire.
    assert_eq!(shop.claim_with(of("a")).await, []);
    shop.queue.ack(stale.claim_id, None).await.unwrap();
}

#[tokio::test]
async fn nodes_that_work_on_a_queue_are_shown_and_a_replaced_one_is_not() {
    let mut shop = Shop::open(0).await;
    let nodes = PgNodes::new(shop.db.database.clone(), shop.log.info());
    let hour = Duration::from_secs(3_600);
    let workers = "SELECT workers FROM headwater.queue_metrics";
    let mut first = None;
    for (node, rate) in [("a", 2.5), ("b", 0.0)] {
        let registration = nodes.register(&NodeOptions::new(node), &[]).await.unwrap();
        let instance = Instance { node: node.into(), incarnation: registration.instance_id };
        let queues = [("work".into(), rate), ("none".into(), 1.0)];
        assert_eq!(shop.store.attend_queues(&instance, &queues, hour).await.unwrap(), [""; 0]);
        first.get_or_insert(instance);
    }
    assert_eq!(shop.number(workers).await, 2);
    assert_eq!(shop.number("SELECT (10 * rate)::bigint FROM headwater.subscriber_lag").await, 25);
    shop.emit(&["event", "event"]).await;
    // One of them, and one that says nothing.
    for worker in ["a", "c"] {
        shop.claim_with(ClaimRequest { max_events: 1, ..of(worker) }).await;
    }
    assert_eq!(shop.number(workers).await, 3);
    assert_eq!(shop.number("SELECT in_flight FROM headwater.subscriber_lag").await, 2);
    run(&mut shop.session, "SELECT headwater.register_node('shop', 'b')").await;
    assert_eq!(shop.number(workers).await, 2);
    // Paused, and over.
    shop.store.set_paused("work", true).await.unwrap();
    let queues = [("work".into(), 1.0)];
    let paused = shop.store.attend_queues(&first.unwrap(), &queues, Duration::from_millis(1)).await.unwrap();
    assert_eq!(paused, ["work"]);
    run(&mut shop.session, "UPDATE headwater_private.queue_workers SET seen_until = '-infinity'").await;
    assert_eq!(shop.number(workers).await, 2, "those that hold claims");
}
