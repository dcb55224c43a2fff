//! Redriven letters and repeated acks of a queue: nothing waits forever, nothing is given up
//! untried, and nothing counts twice. Time passes by explicit steps.

use std::time::Duration;

use crate::common::queue::{Shop, delivered, request, sequences};
use crate::common::run;
use headwater_core::{ClaimRequest, DeadLetter, DeadLetterQuery, DeadLetterState, OperatorStore, SubscriberError};
use uuid::Uuid;

const NOW: Duration = Duration::ZERO;

/// A queue of which all is done, but for one letter of the type `a`, which is redriven.
async fn redriven() -> Shop {
    let mut shop = Shop::open(0).await;
    shop.emit(&["a", "b"]).await;
    let claim = shop.claim_types(1, &["a"]).await.remove(0);
    shop.queue.reject(claim.claim_id, None, "broken").await.unwrap();
    let claim = shop.claim_types(1, &["b"]).await.remove(0);
    shop.queue.ack(claim.claim_id, None).await.unwrap();
    // What claims are about is over: there is nothing to look for, and the queue knows.
    run(
        &mut shop.session,
        "UPDATE headwater_private.claims SET state.last_visible_at = '-infinity', visible_at = '-infinity', state.look_at = 'infinity'",
    )
    .await;
    assert_eq!(shop.store.redrive(&DeadLetterQuery::default()).await.unwrap(), 1);
    shop
}

async fn letter(shop: &Shop) -> DeadLetter {
    use DeadLetterState::*;
    let any = DeadLetterQuery { states: vec![Dead, Redriving, Redriven], ..DeadLetterQuery::default() };
    shop.store.dead_letters(&any).await.unwrap().remove(0)
}

#[tokio::test]
async fn a_letter_that_a_worker_of_other_types_came_upon_is_delivered_at_once() {
    let shop = redriven().await;
    assert_eq!(shop.claim_types(10, &["b"]).await, [], "it is not for this worker");
    assert_eq!(delivered(&shop.claim(10).await), [[1]]);
}

#[tokio::test]
async fn so_is_one_that_workers_claim_by_patterns() {
    let shop = redriven().await;
    let matching = |pattern: &str| ClaimRequest { event_types: vec![pattern.into()], ..request() };
    assert_eq!(shop.queue.claim(&matching("b*")).await.unwrap(), []);
    assert_eq!(delivered(&shop.queue.claim(&matching("a*")).await.unwrap()), [[1]]);
}

#[tokio::test]
async fn a_letter_that_is_handed_back_untouched_is_delivered_again() {
    let mut shop = redriven().await;
    let claim = shop.claim(10).await.remove(0);
    shop.queue.release(claim.claim_id, None).await.unwrap();
    let kept = letter(&shop).await;
    assert_eq!((kept.state, kept.attempts.len()), (DeadLetterState::Redriving, 1), "nobody tried it");

    let again = shop.claim(10).await.remove(0);
    assert_eq!((sequences(&again), again.redelivery_count), (vec![1], claim.redelivery_count));
    shop.queue.ack(again.claim_id, None).await.unwrap();
    assert_eq!(letter(&shop).await.state, DeadLetterState::Redriven);
    assert_eq!(shop.number("SELECT count(*) FROM headwater_private.retries").await, 0);
}

#[tokio::test]
async fn a_letter_that_is_discarded_while_it_is_handed_back_stays_so() {
    let shop = redriven().await;
    let claim = shop.claim(10).await.remove(0);
    shop.store.discard(&DeadLetterQuery::default(), "no use").await.unwrap();
    shop.queue.release(claim.claim_id, None).await.unwrap();
    assert_eq!(shop.claim(10).await, []);
}

/// After a commit with unknown outcome, the transaction is tried again with the same ack. Only one
/// of them may have effects.
#[tokio::test]
async fn an_ack_of_some_events_counts_once_in_transactions() {
    let mut shop = Shop::open(3).await;
    let claim = shop.claim(3).await.remove(0).claim_id;
    for (transaction, of, is_lost) in
        [(1, &[1][..], false), (2, &[1][..], true), (3, &[1, 2][..], true), (4, &[2][..], false)]
    {
        run(&mut shop.session, "BEGIN").await;
        let acked = shop.queue.ack_in(&mut shop.session, claim, Some(of)).await;
        assert_eq!(matches!(acked, Err(SubscriberError::ClaimLost(_))), is_lost, "{transaction}: {acked:?}");
        run(&mut shop.session, if is_lost { "ROLLBACK" } else { "COMMIT" }).await;
    }
    // For whoever only wants them to be done, they are.
    shop.queue.ack(claim, Some(&[1, 2])).await.unwrap();
    shop.queue.nack(claim, Some(&[3]), NOW, "failed").await.unwrap();
    assert_eq!(delivered(&shop.claim(10).await), [[3]]);
}

#[tokio::test]
async fn what_is_behind_a_discarded_letter_comes_before_new_events() {
    let mut shop = Shop::open(3).await;
    let mut claims = Vec::new();
    for _ in 0..3 {
        claims.push(shop.claim(1).await.remove(0).claim_id);
    }
    shop.queue.nack(claims[0], None, NOW, "again").await.unwrap();
    shop.queue.reject(claims[1], None, "broken").await.unwrap();
    shop.store.redrive(&DeadLetterQuery::default()).await.unwrap();
    assert_eq!(shop.claim_types(1, &["other"]).await, [], "but it queues the letter");
    shop.queue.nack(claims[2], None, NOW, "again").await.unwrap();
    shop.store.discard(&DeadLetterQuery::default(), "no use").await.unwrap();
    shop.emit(&["event"]).await;
    assert_eq!(delivered(&shop.claim(2).await), [[1], [3]]);
    assert_eq!(delivered(&shop.claim(2).await), [[4]]);
}

/// Event 1 is in two claims: as a redriven letter, and as an event that is new again. The latter
/// fails for good, so the letter is dead while its claim is held. Returns that claim.
async fn failed_while_redriven() -> (Shop, Uuid) {
    let shop = Shop::open(1).await;
    let claim = shop.claim(1).await.remove(0);
    shop.queue.reject(claim.claim_id, None, "broken").await.unwrap();
    shop.store.redrive(&DeadLetterQuery::default()).await.unwrap();
    shop.store.reset("work", 0).await.unwrap();
    let claims = shop.claim(10).await;
    assert_eq!(delivered(&claims), [[1], [1]]);
    assert_eq!((claims[0].redelivery_count, claims[1].redelivery_count), (1, 0), "the letter, then the event");
    shop.queue.reject(claims[1].claim_id, None, "broken again").await.unwrap();
    assert_eq!(letter(&shop).await.state, DeadLetterState::Dead);
    (shop, claims[0].claim_id)
}

async fn contradictions(shop: &mut Shop) -> i64 {
    shop.number("SELECT count(*) FROM headwater.audit_queues('shop')").await
}

#[tokio::test]
async fn a_letter_that_is_redriven_again_while_a_worker_has_it_is_not_handed_to_another() {
    let (mut shop, held) = failed_while_redriven().await;
    assert_eq!(shop.store.redrive(&DeadLetterQuery::default()).await.unwrap(), 1);
    assert_eq!(shop.claim(10).await, []);
    assert_eq!(contradictions(&mut shop).await, 0);
    shop.queue.ack(held, None).await.unwrap();
    assert_eq!(letter(&shop).await.state, DeadLetterState::Redriven);
    assert_eq!(shop.claim(10).await, []);
}

#[tokio::test]
async fn a_letter_that_failed_elsewhere_stays_dead_however_its_claim_ends_and_can_be_redriven() {
    for end in ["ack", "ack with the next claim", "nack", "release", "expire"] {
        let (mut shop, held) = failed_while_redriven().await;
        match end {
            "ack" => shop.queue.ack(held, None).await.unwrap(),
            "nack" => shop.queue.nack(held, None, NOW, "no").await.unwrap(),
            "release" => shop.queue.release(held, None).await.unwrap(),
            "expire" => shop.expire(held).await,
            _ => assert_eq!(shop.claim_with(ClaimRequest { acks: vec![held], ..request() }).await, []),
        }
        assert_eq!(shop.claim(10).await, [], "{end}");
        let kept = letter(&shop).await;
        assert_eq!((kept.state, kept.error()), (DeadLetterState::Dead, "broken again"), "{end}");
        assert_eq!(shop.store.redrive(&DeadLetterQuery::default()).await.unwrap(), 1, "{end}");
        let again = shop.claim(10).await;
        assert_eq!(delivered(&again), [[1]], "{end}");
        assert_eq!(contradictions(&mut shop).await, 0, "{end}");
        shop.queue.ack(again[0].claim_id, None).await.unwrap();
        assert_eq!(letter(&shop).await.state, DeadLetterState::Redriven, "{end}");
    }
}
