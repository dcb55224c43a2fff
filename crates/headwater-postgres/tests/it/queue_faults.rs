//! Faults of a queue: strangers' locks, lost workers, clocks that jump, sessions with their own
//! settings. Explicit sessions and steps.

use std::time::Duration;

use crate::common::queue::{Shop, delivered, request, sequences};
use crate::common::{pid, run, sqlstate_of, until_it_waits};
use headwater_core::{Claim, ClaimRequest, DeadLetterQuery, OperatorStore, SubscriberError};

const NOW: Duration = Duration::ZERO;

/// Lets the time of all claims be over.
async fn expire_all(shop: &mut Shop) {
    let moment = "(SELECT (state).expired_from FROM headwater_private.claims ORDER BY number DESC LIMIT 1)";
    run(&mut shop.session, &format!("UPDATE headwater_private.claims SET visible_at = {moment}")).await;
    shop.look_again().await;
}

async fn letters(shop: &Shop) -> usize {
    shop.store.dead_letters(&DeadLetterQuery::default()).await.unwrap().len()
}

fn by(worker: &str, max_events: u32) -> ClaimRequest {
    ClaimRequest { worker: worker.into(), max_events, ..request() }
}

#[tokio::test]
async fn no_advisory_lock_of_a_stranger_keeps_workers_from_claiming() {
    let shop = Shop::open(2).await;
    let mut stranger = shop.db.session().await;
    // All keys that a queue's lock ever had.
    run(
        &mut stranger,
        "SELECT pg_advisory_lock((18513::bigint << 48) | (1::bigint << 32) | (hashtext('work')::bigint & 4294967295))",
    )
    .await;
    let claims = shop.queue.claim(&by("worker", 1)).await.expect("it waits for nobody");
    assert_eq!(delivered(&claims), [[1]]);
    shop.queue.nack(claims[0].claim_id, None, NOW, "no").await.unwrap();
    assert_eq!(delivered(&shop.claim(1).await), [[1]]);
}

#[tokio::test]
async fn who_makes_the_lock_of_a_queue_has_it() {
    let mut shop = Shop::open(2).await;
    // As after a crash of the server.
    run(&mut shop.session, "TRUNCATE headwater_private.queues").await;
    let (mut first, mut second) = (shop.db.session().await, shop.db.session().await);
    run(&mut first, "BEGIN; SELECT * FROM headwater.claim('shop', 'work', 1)").await;
    let waiting = pid(&mut second).await;
    let claiming = tokio::spawn(async move {
        run(&mut second, "SELECT * FROM headwater.claim('shop', 'work', 1)").await;
    });
    until_it_waits(&mut shop.session, waiting).await;
    run(&mut first, "COMMIT").await;
    claiming.await.unwrap();
    let claimed = "SELECT count(DISTINCT first_sequence) FROM headwater_private.claims WHERE NOT done";
    assert_eq!(shop.number(claimed).await, 2, "each has one");
}

#[tokio::test]
async fn who_finds_nothing_waits_for_nobody_and_writes_nothing() {
    let mut shop = Shop::open(1).await;
    shop.drain().await;
    shop.look_never().await;
    let mut holder = shop.db.session().await;
    run(
        &mut holder,
        "BEGIN; SELECT headwater_private.lock_queue(namespace_id, 'work') FROM headwater_private.namespaces",
    )
    .await;
    assert_eq!(shop.claim(1).await, []);
    assert_eq!(shop.queue.claim(&ClaimRequest { event_types: vec!["ev*".into()], ..request() }).await.unwrap(), []);
    run(&mut shop.session, "BEGIN; SELECT * FROM headwater.claim('shop', 'work')").await;
    assert_eq!(shop.number("SELECT count(pg_current_xact_id_if_assigned())").await, 0);
}

#[tokio::test]
async fn one_snapshot_for_all_neither_claims_nor_hands_back() {
    let shop = Shop::open(3).await;
    let claim = shop.claim(1).await.remove(0);
    let mut old = shop.db.session().await;
    run(&mut old, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM headwater_private.claims").await;
    // What its snapshot does not show.
    let second = shop.claim(1).await.remove(0);
    shop.queue.ack(second.claim_id, None).await.unwrap();
    let nack = format!("SELECT headwater.nack('shop', 'work', '{}')", claim.claim_id);
    assert_eq!(sqlstate_of(&mut old, &nack).await, "WH006");
    run(&mut old, "ROLLBACK; BEGIN ISOLATION LEVEL SERIALIZABLE").await;
    assert_eq!(sqlstate_of(&mut old, "SELECT headwater.claim('shop', 'work')").await, "WH006");
    run(&mut old, "ROLLBACK").await;
    shop.queue.nack(claim.claim_id, None, NOW, "no").await.unwrap();
    assert_eq!(shop.drain().await, [1, 3], "what was acked does not come again");
}

#[tokio::test]
async fn workers_that_die_make_no_dead_letters_of_what_they_did_not_begin() {
    let mut shop = Shop::open(40).await;
    for worker in 1..=6 {
        let claims = shop.claim_with(by(&format!("worker-{worker}"), 40)).await;
        let events: usize = claims.iter().map(|claim| claim.events.len()).sum();
        assert_eq!(events, if worker == 1 { 40 } else { 1 }, "of worker {worker}");
        expire_all(&mut shop).await;
    }
    let mut again = shop.drain().await;
    again.sort_unstable();
    assert_eq!(again, (1..=40).collect::<Vec<_>>());
    assert_eq!(letters(&shop).await, 0);
}

#[tokio::test]
async fn the_event_that_kills_its_workers_is_found_and_its_neighbours_are_not_punished() {
    let mut shop = Shop::open(5).await;
    shop.claim(5).await;
    expire_all(&mut shop).await;
    // Three dies with whom it is handled; two lets its worker die before it is begun.
    let mut handled = Vec::new();
    while let Some(claim) = shop.claim(5).await.pop() {
        let Claim { claim_id, events, redelivery_count } = &claim;
        assert_eq!(events.len(), 1, "alone");
        assert!(*redelivery_count >= 1, "it was delivered before");
        if sequences(&claim) == [3] {
            expire_all(&mut shop).await;
        } else {
            shop.queue.ack(*claim_id, None).await.unwrap();
            handled.extend(sequences(&claim));
        }
    }
    handled.sort_unstable();
    assert_eq!(handled, [1, 2, 4, 5]);
    let letters = shop.store.dead_letters(&DeadLetterQuery::default()).await.unwrap();
    assert_eq!(letters.iter().map(|letter| letter.event.global_sequence).collect::<Vec<_>>(), [Some(3)]);
    assert_eq!(letters[0].attempts.len(), 5, "four attempts, and the claim that had others");
}

#[tokio::test]
async fn a_worker_has_one_suspect_at_a_time_and_others_besides() {
    let mut shop = Shop::open(3).await;
    shop.claim(3).await;
    expire_all(&mut shop).await;
    shop.emit(&["event", "event"]).await;
    let first = shop.claim_with(by("a", 10)).await;
    assert_eq!(delivered(&first), [[1]]);
    assert_eq!(delivered(&shop.claim_with(by("a", 10)).await), [[4, 5]], "no other suspect");
    assert_eq!(delivered(&shop.claim_with(by("b", 10)).await), [[2]], "another worker has its own");
    assert_eq!(shop.claim_with(by("a", 10)).await, []);
    let acks = vec![first[0].claim_id];
    assert_eq!(delivered(&shop.claim_with(ClaimRequest { acks, ..by("a", 10) }).await), [[3]]);
}

#[tokio::test]
async fn a_suspect_that_is_handed_back_untouched_stays_one_and_one_that_fails_does_not() {
    let mut shop = Shop::open(2).await;
    shop.claim(2).await;
    expire_all(&mut shop).await;
    let claim = shop.claim(10).await.remove(0);
    shop.queue.release(claim.claim_id, None).await.unwrap();
    let suspects = "SELECT sum(cardinality(sequences)) FROM headwater_private.retries WHERE suspect";
    assert_eq!(shop.number(suspects).await, 2);
    let claim = shop.claim(10).await.remove(0);
    shop.queue.nack(claim.claim_id, None, NOW, "no").await.unwrap();
    assert_eq!(shop.number(suspects).await, 1);
}

#[tokio::test]
async fn redriven_letters_of_a_worker_that_died_are_dead_again_only_if_it_was_them() {
    let mut shop = Shop::open(3).await;
    let claim = shop.claim(3).await.remove(0);
    shop.queue.reject(claim.claim_id, None, "broken").await.unwrap();
    shop.store.redrive(&DeadLetterQuery::default()).await.unwrap();
    assert_eq!(delivered(&shop.claim(3).await), [[1], [2], [3]]);
    expire_all(&mut shop).await;
    for sequence in [1, 2, 3] {
        let claims = shop.claim(3).await;
        assert_eq!(delivered(&claims), [[sequence]], "still to be delivered, alone");
        if sequence == 2 {
            expire_all(&mut shop).await;
        } else {
            shop.queue.ack(claims[0].claim_id, None).await.unwrap();
        }
    }
    assert_eq!(shop.claim(3).await, []);
    let dead = "SELECT global_sequence FROM headwater_private.dead_letters WHERE state = 'dead'";
    assert_eq!(shop.number(dead).await, 2);
    assert_eq!(shop.number(&dead.replace("global_sequence", "count(*)")).await, 1);
}

/// As if everything had happened while the clock was an hour ahead.
const AN_HOUR_AHEAD: &str =
    "UPDATE headwater_private.claims SET visible_at = visible_at + '1 hour', state.moment = (state).moment + '1 hour',
            state.expired_from = (state).expired_from + '1 hour', state.due_from = (state).due_from + '1 hour',
            state.look_at = (state).look_at + '1 hour', state.last_visible_at = (state).last_visible_at + '1 hour';
     UPDATE headwater_private.retries SET due_at = due_at + '1 hour'";

#[tokio::test]
async fn what_was_due_before_the_clock_went_back_is_delivered_at_once() {
    let mut shop = Shop::open(2).await;
    let [lost, failed] = [shop.claim(1).await.remove(0), shop.claim(1).await.remove(0)];
    shop.queue.nack(failed.claim_id, None, NOW, "no").await.unwrap();
    // The other claim has expired, and nobody has looked yet.
    shop.expire(lost.claim_id).await;
    run(&mut shop.session, AN_HOUR_AHEAD).await;
    assert_eq!(delivered(&shop.claim_each(1).await), [[1], [2]]);
}

#[tokio::test]
async fn a_clock_that_jumps_forward_and_back_freezes_nothing() {
    let mut shop = Shop::open(4).await;
    let claims = [shop.claim(1).await.remove(0), shop.claim(1).await.remove(0)];
    shop.queue.nack(claims[1].claim_id, None, Duration::from_secs(60), "later").await.unwrap();
    run(&mut shop.session, AN_HOUR_AHEAD).await;
    let third = shop.claim(1).await.remove(0);
    assert_eq!(sequences(&third), [3]);
    let late = "SELECT count(*) FROM headwater_private.retries WHERE due_at > clock_timestamp() + interval '70 s'";
    assert_eq!(shop.number(late).await, 0, "the retry is due after its delay, or ten seconds later");
    let long = "SELECT count(*) FROM headwater_private.claims WHERE visible_at > clock_timestamp() + interval '1 hour'";
    assert_eq!(shop.number(long).await, 0, "no claim lasts longer than it was asked for");
    shop.queue.nack(third.claim_id, None, NOW, "no").await.unwrap();
    assert_eq!(delivered(&shop.claim(1).await), [[3]], "due at once");
    shop.expire(claims[0].claim_id).await;
    assert_eq!(delivered(&shop.claim(1).await), [[1]]);
    let hidden = "SELECT count(*) FROM headwater_private.claims c WHERE c.visible_at <
                   (SELECT (n.state).expired_from FROM headwater_private.claims n ORDER BY n.number DESC LIMIT 1)";
    assert_eq!(shop.number(hidden).await, 0, "no claim expires before where the search begins");
}

#[tokio::test]
async fn what_is_handed_back_waits_for_the_disk_whatever_the_session_says() {
    let mut shop = Shop::open(1).await;
    let claim = shop.claim(1).await.remove(0);
    run(&mut shop.session, "SET synchronous_commit = off; BEGIN").await;
    run(&mut shop.session, &format!("SELECT headwater.nack('shop', 'work', '{}')", claim.claim_id)).await;
    let setting: String = sqlx::query_scalar("SHOW synchronous_commit").fetch_one(&mut shop.session).await.unwrap();
    assert_eq!(setting, "on");
    run(&mut shop.session, "COMMIT").await;
    let setting: String = sqlx::query_scalar("SHOW synchronous_commit").fetch_one(&mut shop.session).await.unwrap();
    assert_eq!(setting, "off", "for this transaction alone");
}

#[tokio::test]
async fn what_is_handed_back_at_the_same_time_is_one_transaction() {
    let mut shop = Shop::open(60).await;
    let mut claims = Vec::new();
    for _ in 0..60 {
        claims.push(shop.claim(1).await.remove(0).claim_id);
    }
    let mut holder = shop.db.session().await;
    run(
        &mut holder,
        "BEGIN; SELECT headwater_private.lock_queue(namespace_id, 'work') FROM headwater_private.namespaces",
    )
    .await;
    let returns = claims.iter().map(|claim_id| shop.queue.nack(*claim_id, None, NOW, "no"));
    let all = futures::future::join_all(returns);
    // The first call waits for the lock before the others are sent, or together with them: at most
    // two transactions.
    let (answers, ()) = tokio::join!(all, async {
        tokio::task::yield_now().await;
        run(&mut holder, "ROLLBACK").await;
    });
    answers.into_iter().for_each(|answer| answer.unwrap());
    let transactions = "SELECT count(DISTINCT xmin::text) FROM headwater_private.retries";
    assert!(shop.number(transactions).await <= 2);
    assert_eq!(shop.number("SELECT count(*) FROM headwater_private.retries").await, 60);
}

#[tokio::test]
async fn who_hands_back_what_is_lost_is_told_so_and_the_others_are_not_held_up() {
    let shop = Shop::open(3).await;
    let claims = [shop.claim(1).await.remove(0), shop.claim(1).await.remove(0), shop.claim(1).await.remove(0)];
    shop.queue.ack(claims[1].claim_id, None).await.unwrap();
    let back = |nth: usize| shop.queue.nack(claims[nth].claim_id, None, NOW, "no");
    let (first, second, third) = tokio::join!(back(0), back(1), back(2));
    assert!(matches!(second, Err(SubscriberError::ClaimLost(_))), "{second:?}");
    first.unwrap();
    third.unwrap();
    assert_eq!(shop.drain().await, [1, 3]);
}
