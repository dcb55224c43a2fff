//! The audit of queues: what contradicts itself in them.

use std::time::Duration;

use crate::common::queue::Shop;
use crate::common::run;
use headwater_core::{AuditFinding, DeadLetterQuery, OperatorStore};

/// Problem, first and last event, and how many.
async fn problems(shop: &Shop) -> Vec<(String, u64, u64, u64)> {
    let report = shop.store.audit(&["work".into()]).await.unwrap();
    let problem = |finding| match finding {
        AuditFinding::QueueContradicts { problem, first, last, events, .. } => (problem, first, last, events),
        other => panic!("{other:?}"),
    };
    report.findings.into_iter().map(problem).collect()
}

#[tokio::test]
async fn whatever_a_queue_goes_through_leaves_no_contradiction() {
    let mut shop = Shop::open(10).await;
    assert_eq!(problems(&shop).await, []);
    shop.emit(&["other", "event", "other"]).await;
    let claims = [shop.claim(4).await.remove(0), shop.claim_types(4, &["event"]).await.remove(0)];
    assert_eq!(problems(&shop).await, []);
    shop.queue.ack(claims[0].claim_id, Some(&[2])).await.unwrap();
    shop.queue.nack(claims[0].claim_id, Some(&[1]), Duration::ZERO, "no").await.unwrap();
    shop.queue.reject(claims[1].claim_id, Some(&[5]), "never").await.unwrap();
    assert_eq!(problems(&shop).await, []);
    shop.expire(claims[0].claim_id).await;
    // Claims the rest, which leaves events of the other type behind, and what has expired.
    while !shop.claim_types(100, &["event"]).await.is_empty() {
        assert_eq!(problems(&shop).await, []);
    }
    assert_eq!(problems(&shop).await, []);
    assert_eq!(shop.store.redrive(&DeadLetterQuery::default()).await.unwrap(), 1);
    assert_eq!(problems(&shop).await, []);
    let letter = shop.claim(1).await.remove(0);
    assert_eq!((letter.events[0].global_sequence, problems(&shop).await), (Some(5), vec![]));
    shop.queue.ack(letter.claim_id, None).await.unwrap();
    shop.store.reset("work", 3).await.unwrap();
    assert_eq!(problems(&shop).await, []);
    shop.db.hand_out("shop", 1_000).await;
    shop.store.reset("work", 1_000).await.unwrap();
    assert_eq!(problems(&shop).await, []);
    shop.store.reset("work", 0).await.unwrap();
    shop.drain().await;
    assert_eq!(problems(&shop).await, []);
}

#[tokio::test]
async fn a_writer_that_is_passed_leaves_none() {
    let mut shop = Shop::open(2).await;
    let mut writer = shop.db.session().await;
    run(&mut writer, "BEGIN; SELECT headwater.emit('shop', 'late')").await;
    shop.emit(&["event", "event"]).await;
    shop.claim(10).await;
    assert_eq!(problems(&shop).await, []);
    run(&mut writer, "COMMIT").await;
    assert_eq!(problems(&shop).await, []);
    shop.claim(10).await;
    assert_eq!(problems(&shop).await, []);
}

#[tokio::test]
async fn contradictions_are_found() {
    let mut shop = Shop::open(10).await;
    shop.emit(&["other"]).await;
    let one = shop.claim_types(5, &["event"]).await.remove(0);
    let two = shop.claim_types(5, &["event"]).await.remove(0);
    shop.claim_types(5, &["none"]).await;
    assert_eq!(problems(&shop).await, []);
    let change =
        |set: &str, claim: uuid::Uuid| format!("UPDATE headwater_private.claims SET {set} WHERE claim_id = '{claim}'");
    run(&mut shop.session, &change("sequences = '{4,5,6}'", two.claim_id)).await;
    assert_eq!(problems(&shop).await, [("held_twice".into(), 4, 5, 2)]);
    run(&mut shop.session, &change("sequences = '{8,12}'", two.claim_id)).await;
    assert_eq!(problems(&shop).await, [("beyond_frontier".into(), 12, 12, 1)]);
    run(&mut shop.session, &change("sequences = '{11}'", two.claim_id)).await;
    assert_eq!(problems(&shop).await, [("held_and_open".into(), 11, 11, 1)]);
    run(&mut shop.session, &change("sequences = '{7}'", two.claim_id)).await;
    assert_eq!(problems(&shop).await, []);
    shop.queue.reject(one.claim_id, Some(&[1]), "never").await.unwrap();
    shop.store.redrive(&DeadLetterQuery::default()).await.unwrap();
    run(&mut shop.session, "UPDATE headwater_private.dead_letters SET queued = true").await;
    assert_eq!(problems(&shop).await, [("letter_forgotten".into(), 1, 1, 1)]);
    run(&mut shop.session, "UPDATE headwater_private.dead_letters SET queued = false").await;
    run(&mut shop.session, "UPDATE headwater_private.claims SET state.frontier = 20").await;
    assert_eq!(problems(&shop).await, [("frontier_beyond_log".into(), 20, 20, 1)]);
}
