//! What a queue passes and later returns to: gaps whose writers live, and events of types that
//! nobody asked for. Open transactions, explicit steps.

use crate::common::queue::{Shop, delivered, request, shared};
use crate::common::{emit, run};
use headwater_core::{ClaimRequest, GroupStore, OperatorStore, StartFrom};
use sqlx::PgConnection;

/// A log of 1 to 7 without 3 and 6, which are in flight in two sessions.
async fn in_flight() -> (Shop, PgConnection, PgConnection) {
    let mut shop = Shop::open(2).await;
    let (mut early, mut later) = (shop.db.session().await, shop.db.session().await);
    run(&mut early, "BEGIN").await;
    assert_eq!(emit(&mut early, "shop", "late").await, 3);
    shop.emit(&["event", "event"]).await;
    run(&mut later, "BEGIN").await;
    assert_eq!(emit(&mut later, "shop", "late").await, 6);
    shop.emit(&["event"]).await;
    (shop, early, later)
}

/// First and last of each gap that the queue has passed.
async fn gaps(shop: &Shop) -> Vec<(u64, u64)> {
    shop.store.subscriber("work").await.unwrap().pending_gaps
}

#[tokio::test]
async fn an_open_transaction_is_passed_and_its_event_claimed_when_it_comes() {
    let (shop, mut early, mut later) = in_flight().await;
    let claims = shop.claim(10).await;
    assert_eq!(delivered(&claims), [[1, 2, 4, 5, 7]]);
    assert_eq!(gaps(&shop).await, [(3, 3), (6, 6)]);
    assert_eq!(shop.claim(10).await, []);
    shop.queue.ack(claims[0].claim_id, None).await.unwrap();
    assert_eq!(shop.position().await, 2, "the gap is not settled");

    run(&mut later, "COMMIT").await;
    assert_eq!(delivered(&shop.claim(10).await), [[6]], "it need not wait for the earlier one");
    assert_eq!(gaps(&shop).await, [(3, 3)]);
    run(&mut early, "COMMIT").await;
    assert_eq!(shop.drain().await, [3]);
    assert_eq!(gaps(&shop).await, []);
}

#[tokio::test]
async fn a_claim_that_passed_a_gap_does_not_get_its_event_when_it_is_taken_over() {
    let (mut shop, mut early, mut later) = in_flight().await;
    let claim = shop.claim(10).await.remove(0);
    run(&mut early, "COMMIT").await;
    run(&mut later, "COMMIT").await;
    shop.expire(claim.claim_id).await;
    let claims = shop.claim_each(10).await;
    assert_eq!(delivered(&claims), [vec![1], vec![2], vec![4], vec![5], vec![7], vec![3, 6]]);
    assert_eq!((claims[0].redelivery_count, claims[5].redelivery_count), (1, 0));
}

#[tokio::test]
async fn a_rolled_back_gap_is_closed_by_proof() {
    let (mut shop, mut early, mut later) = in_flight().await;
    assert_eq!(shop.drain().await, [1, 2, 4, 5, 7]);
    run(&mut later, "ROLLBACK").await;
    assert_eq!(shop.claim(10).await, []);
    assert_eq!(gaps(&shop).await, [(3, 3), (6, 6)], "nothing is proved above a writer that lives");
    run(&mut early, "ROLLBACK").await;
    assert_eq!(shop.claim(10).await, []);
    assert_eq!((gaps(&shop).await, shop.position().await), (vec![], 7));
    shop.emit(&["event"]).await;
    assert_eq!(shop.drain().await, [8]);
}

#[tokio::test]
async fn a_gap_that_is_permanent_when_it_is_met_is_no_gap() {
    let mut shop = Shop::open(1).await;
    run(&mut shop.session, "BEGIN; SELECT headwater.emit('shop', 'gone') FROM generate_series(1, 3); ROLLBACK").await;
    shop.emit(&["event"]).await;
    assert_eq!(delivered(&shop.claim(10).await), [[1, 5]]);
    let ranges = "SELECT count(*) FROM headwater_private.claims WHERE first_sequence = 1 AND last_sequence = 5 AND sequences IS NULL";
    assert_eq!(shop.number(ranges).await, 1, "one row for the range");
    assert_eq!(gaps(&shop).await, []);
}

#[tokio::test]
async fn a_commit_between_the_look_at_the_gaps_and_at_what_was_left_is_not_lost_and_not_claimed_twice() {
    let mut shop = Shop::open(0).await;
    let mut early = shop.db.session().await;
    run(&mut early, "BEGIN").await;
    emit(&mut early, "shop", "b").await;
    shop.emit(&["b", "a", "b"]).await;
    assert_eq!(delivered(&shop.claim_types(10, &["a"]).await), [[3]], "what was left spans the gap");
    run(&mut early, "COMMIT").await;
    // As if the commit came after the look at the gaps: an event in a gap of the ledger does not
    // belong to the open range.
    let state = "SELECT t.taken FROM headwater_private.queue_states q, headwater_private.namespaces n,
                        headwater_private.take_open(q.namespace_id, n.tail_after, n.tail_from, '{b}', NULL, 10, NULL, q.state) t";
    let taken: Vec<i64> = sqlx::query_scalar(state).fetch_one(&mut shop.session).await.unwrap();
    assert_eq!(taken, [2, 4]);
    assert_eq!(shop.drain().await, [1, 2, 4]);
    assert_eq!(shop.drain().await, [0; 0]);
}

#[tokio::test]
async fn a_queue_that_begins_beyond_the_horizon_gets_what_is_in_flight() {
    let (shop, mut early, mut later) = in_flight().await;
    shop.store.remove("work", false).await.unwrap();
    shop.store.register(&shared(StartFrom::After(6))).await.unwrap();
    assert_eq!(shop.drain().await, [7]);
    run(&mut early, "COMMIT").await;
    run(&mut later, "COMMIT").await;
    assert_eq!(shop.drain().await, [3, 6]);
}

#[tokio::test]
async fn a_reset_keeps_the_gaps_below_it() {
    let (shop, mut early, mut later) = in_flight().await;
    assert_eq!(shop.drain().await, [1, 2, 4, 5, 7]);
    shop.store.reset("work", 5).await.unwrap();
    assert_eq!(gaps(&shop).await, [(3, 3)]);
    assert_eq!(shop.drain().await, [7]);
    run(&mut early, "COMMIT").await;
    run(&mut later, "COMMIT").await;
    assert_eq!(shop.drain().await, [3, 6]);
}

#[tokio::test]
async fn gaps_that_are_too_many_hold_the_rest_back() {
    let mut shop = Shop::open(0).await;
    let mut open = shop.db.session().await;
    run(&mut open, "BEGIN").await;
    for _ in 0..1_100 {
        emit(&mut open, "shop", "late").await;
        emit(&mut shop.session, "shop", "event").await;
    }
    let first = shop.claim(1_000).await;
    assert_eq!(first[0].events.len(), 1_000);
    assert_eq!(shop.claim(1_000).await, [], "as many gaps as are looked into");
    run(&mut open, "COMMIT").await;
    let mut rest = shop.drain().await;
    rest.extend(crate::common::queue::sequences(&first[0]));
    rest.sort_unstable();
    assert_eq!(rest, (1..=2_200).collect::<Vec<_>>());
}

#[tokio::test]
async fn events_of_other_types_are_left_for_others() {
    let mut shop = Shop::open(0).await;
    shop.emit(&["a", "b", "a", "c", "b", "a"]).await;
    assert_eq!(delivered(&shop.claim_types(2, &["a"]).await), [[1, 3]]);
    assert_eq!(delivered(&shop.claim_types(9, &["c"]).await), [[4]]);
    assert_eq!(delivered(&shop.claim_types(9, &["a"]).await), [[6]]);
    assert_eq!(delivered(&shop.claim_types(9, &["a", "c"]).await), [[0; 0]; 0]);
    assert_eq!(shop.position().await, 0);
    assert_eq!(delivered(&shop.claim(1).await), [[2]]);
    assert_eq!(delivered(&shop.claim(9).await), [[5]], "who names no types gets what is left");
}

#[tokio::test]
async fn a_type_that_nobody_handles_costs_one_range_however_much_is_claimed() {
    let mut shop = Shop::open(0).await;
    for round in 0..20 {
        // Two unhandled types, neither of them in every round.
        shop.emit(&["a", "b", if round % 3 == 0 { "x" } else { "a" }, if round % 4 == 0 { "y" } else { "b" }]).await;
        let handled = if round % 2 == 0 { ["a", "b"] } else { ["b", "a"] };
        for event_type in handled {
            for claim in shop.claim_types(100, &[event_type]).await {
                shop.queue.ack(claim.claim_id, None).await.unwrap();
            }
        }
        for claim in shop.claim_types(100, &handled).await {
            shop.queue.ack(claim.claim_id, None).await.unwrap();
        }
    }
    let open = "SELECT cardinality((state).open)::bigint FROM headwater_private.claims ORDER BY number DESC LIMIT 1";
    assert_eq!(shop.number(open).await, 2);
    assert_eq!(shop.number("SELECT count(*) FROM headwater_private.claims").await, 1);
    let unhandled = [3, 4, 15, 20, 27, 36, 39, 51, 52, 63, 68, 75];
    let mut left = shop.drain().await;
    left.sort_unstable();
    let expected: Vec<u64> = (0..20u64)
        .flat_map(|round| {
            let third = (round % 3 == 0).then_some(round * 4 + 3);
            third.into_iter().chain((round % 4 == 0).then_some(round * 4 + 4))
        })
        .collect();
    assert_eq!(left, expected);
    assert_eq!(left, unhandled);
    assert_eq!(shop.position().await, 80);
}

#[tokio::test]
async fn a_rare_type_is_found_far_behind_others() {
    let mut shop = Shop::open(0).await;
    run(&mut shop.session, "SELECT headwater.emit('shop', 'a') FROM generate_series(1, 900)").await;
    shop.emit(&["b"]).await;
    assert_eq!(delivered(&shop.claim_types(1, &["b"]).await), [[901]], "pages without it are passed");
    assert_eq!(shop.claim(1_000).await[0].events.len(), 900);
}

#[tokio::test]
async fn expired_and_failed_events_wait_for_a_worker_of_their_type() {
    let mut shop = Shop::open(0).await;
    shop.emit(&["a", "b", "c"]).await;
    let claim = shop.claim(10).await.remove(0);
    shop.queue.nack(claim.claim_id, Some(&[3]), std::time::Duration::ZERO, "no").await.unwrap();
    shop.expire(claim.claim_id).await;
    let second = shop.claim_types(10, &["b"]).await;
    assert_eq!(delivered(&second), [[2]]);
    assert_eq!(shop.claim_types(10, &["b"]).await, []);
    shop.queue.ack(second[0].claim_id, None).await.unwrap();
    assert_eq!(delivered(&shop.claim_types(10, &["c"]).await), [[3]]);
    assert_eq!(delivered(&shop.claim_types(10, &["a"]).await), [[1]]);
}

#[tokio::test]
async fn a_claim_by_types_is_taken_over_as_it_was() {
    let mut shop = Shop::open(0).await;
    shop.emit(&["a", "b", "a", "b"]).await;
    let claim = shop.claim_types(10, &["b"]).await.remove(0);
    assert_eq!(delivered(&shop.claim_types(10, &["a"]).await), [[1, 3]]);
    shop.expire(claim.claim_id).await;
    let again = shop.claim_each(10).await;
    assert_eq!((delivered(&again), again[0].redelivery_count), (vec![vec![2], vec![4]], 1));
}

#[tokio::test]
async fn a_late_event_goes_to_a_worker_of_its_type() {
    let mut shop = Shop::open(0).await;
    let mut open = shop.db.session().await;
    run(&mut open, "BEGIN").await;
    emit(&mut open, "shop", "a").await;
    emit(&mut open, "shop", "b").await;
    shop.emit(&["a", "b"]).await;
    let typed = async |shop: &Shop, event_type: &str| delivered(&shop.claim_types(10, &[event_type]).await);
    assert_eq!(typed(&shop, "a").await, [[3]]);
    assert_eq!(typed(&shop, "b").await, [[4]]);
    run(&mut open, "COMMIT").await;
    assert_eq!(typed(&shop, "b").await, [[2]]);
    assert_eq!(typed(&shop, "a").await, [[1]]);
    assert_eq!(shop.claim_with(ClaimRequest { max_events: 10, ..request() }).await, []);
}

#[tokio::test]
async fn a_queue_in_a_gapless_namespace_needs_no_proof() {
    use headwater_core::{NamespaceConfig, Ordering};
    use headwater_postgres::{LogOptions, PgQueue, PgSubscribers, SubscribersOptions};
    let shop = Shop::open(0).await;
    let config = NamespaceConfig { ordering: Some(Ordering::Gapless), ..NamespaceConfig::new("strict") };
    let log = shop.db.log_with(config, LogOptions::default()).await;
    let mut session = shop.db.session().await;
    for _ in 0..3 {
        emit(&mut session, "strict", "event").await;
    }
    let database = shop.db.database.clone();
    let store = PgSubscribers::new(database.clone(), log.info().clone(), SubscribersOptions::default());
    store.register(&shared(StartFrom::After(1))).await.unwrap();
    let queue = PgQueue::new(database, log.info().clone(), "work");
    assert_eq!(delivered(&queue.claim(&request()).await.unwrap()), [[2, 3]]);
}

#[tokio::test]
async fn a_rare_type_is_found_behind_thousands_of_others() {
    let mut shop = Shop::open(0).await;
    run(&mut shop.session, "SELECT headwater.emit('shop', 'a') FROM generate_series(1, 8000)").await;
    shop.emit(&["b"]).await;
    assert_eq!(delivered(&shop.claim_types(1, &["b"]).await), [[8001]], "one claim is enough");
    assert_eq!(shop.claim(1_000).await[0].events.len(), 1_000);
}
