//! Expired claims that one session holds while others search for them: whatever the order, every
//! claim stays findable. Two sessions, explicit steps.

use std::time::Duration;

use crate::common::queue::{Shop, delivered, request, sequences};
use crate::common::{pid, run, until_it_waits};
use headwater_core::{DeadLetterQuery, OperatorStore, SubscriberError};
use sqlx::AssertSqlSafe;
use uuid::Uuid;

/// How far claims have looked for expired ones is past this claim's time.
async fn is_passed(shop: &mut Shop, claim_id: Uuid) -> bool {
    let query = format!(
        "SELECT c.visible_at < (SELECT (n.state).expired_from FROM headwater_private.claims n ORDER BY n.number DESC LIMIT 1)
           FROM headwater_private.claims c WHERE c.claim_id = '{claim_id}'"
    );
    sqlx::query_scalar(AssertSqlSafe(query)).fetch_one(&mut shop.session).await.unwrap()
}

/// An expired claim of 1 and 2, and two more events, which a later claim will take.
async fn expired() -> (Shop, Uuid) {
    let mut shop = Shop::open(4).await;
    let claim_id = shop.claim(2).await[0].claim_id;
    shop.expire(claim_id).await;
    (shop, claim_id)
}

#[tokio::test]
async fn a_claim_that_is_locked_when_it_expires_is_found_later() {
    let (mut shop, claim_id) = expired().await;
    let mut owner = shop.db.session().await;
    run(&mut owner, "BEGIN").await;
    shop.queue.ack_in(&mut owner, claim_id, Some(&[1])).await.unwrap();
    assert_eq!(delivered(&shop.claim(1).await), [[3]], "nobody waits for it");
    assert_eq!(delivered(&shop.claim(1).await), [[4]]);
    assert!(is_passed(&mut shop, claim_id).await, "or this test would show nothing");
    run(&mut owner, "COMMIT").await;
    assert_eq!(delivered(&shop.claim(9).await), [[2]], "the rest of it");
}

#[tokio::test]
async fn a_locked_claim_whose_owner_gives_up_is_found_later() {
    let (mut shop, claim_id) = expired().await;
    let mut owner = shop.db.session().await;
    run(&mut owner, "BEGIN").await;
    shop.queue.ack_in(&mut owner, claim_id, None).await.unwrap();
    assert_eq!(delivered(&shop.claim(2).await), [[3, 4]]);
    assert!(is_passed(&mut shop, claim_id).await);
    drop(owner);
    // The server sees the end of the session when it sees it.
    let claims = loop {
        let claims = shop.claim(9).await;
        if !claims.is_empty() {
            break claims;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(delivered(&claims), [[1]], "one at a time");
}

#[tokio::test]
async fn an_extension_that_commits_when_its_time_is_over_too_is_found() {
    let (mut shop, claim_id) = expired().await;
    let mut owner = shop.db.session().await;
    run(&mut owner, "BEGIN").await;
    // Just beyond what it was: over by the time that it is committed.
    run(&mut owner, &format!("SELECT headwater.extend('shop', 'work', '{claim_id}', '1 microsecond')")).await;
    assert_eq!(delivered(&shop.claim(2).await), [[3, 4]]);
    run(&mut owner, "COMMIT").await;
    assert!(is_passed(&mut shop, claim_id).await, "it committed a time that claims have passed");
    assert_eq!(delivered(&shop.claim_each(9).await), [[1], [2]]);
}

#[tokio::test]
async fn an_extension_in_time_keeps_a_claim_that_others_have_seen_expired() {
    let (mut shop, claim_id) = expired().await;
    let mut owner = shop.db.session().await;
    run(&mut owner, "BEGIN").await;
    run(&mut owner, &format!("SELECT headwater.extend('shop', 'work', '{claim_id}', '1 hour')")).await;
    assert_eq!(delivered(&shop.claim(2).await), [[3, 4]]);
    run(&mut owner, "COMMIT").await;
    assert_eq!(shop.claim(9).await, []);
    let skipped =
        "SELECT cardinality((state).skipped)::bigint FROM headwater_private.claims ORDER BY number DESC LIMIT 1";
    assert_eq!(shop.number(skipped).await, 0, "its time finds it when that comes");
    shop.expire(claim_id).await;
    assert_eq!(delivered(&shop.claim_each(9).await), [[1], [2]]);
}

#[tokio::test]
async fn who_settles_a_claim_that_is_being_taken_over_waits_and_is_refused() {
    let (mut shop, claim_id) = expired().await;
    let (mut owner, mut taker) = (shop.db.session().await, shop.db.session().await);
    let owner_pid = pid(&mut owner).await;
    run(&mut taker, "BEGIN").await;
    let taken = shop.queue.claim_in(&mut taker, &crate::common::queue::request()).await.unwrap();
    assert_eq!(delivered(&taken), [[1]]);
    let queue = shop.queue.clone();
    let late = tokio::spawn(async move { queue.ack_in(&mut owner, claim_id, None).await });
    until_it_waits(&mut shop.session, owner_pid).await;
    run(&mut taker, "COMMIT").await;
    let error = late.await.unwrap().unwrap_err();
    assert!(matches!(error, SubscriberError::ClaimLost(_)), "{error}");
    shop.queue.ack(taken[0].claim_id, None).await.unwrap();
    assert_eq!(shop.position().await, 1);
}

#[tokio::test]
async fn a_takeover_that_is_rolled_back_leaves_the_claim_to_its_owner() {
    let (shop, claim_id) = expired().await;
    let mut taker = shop.db.session().await;
    run(&mut taker, "BEGIN").await;
    assert_eq!(delivered(&shop.queue.claim_in(&mut taker, &crate::common::queue::request()).await.unwrap()), [[1]]);
    run(&mut taker, "ROLLBACK").await;
    shop.queue.ack(claim_id, None).await.unwrap();
    assert_eq!(delivered(&shop.claim(9).await), [[3, 4]]);
}

#[tokio::test]
async fn an_ack_that_took_a_claim_for_the_newest_is_cleaned_up() {
    let mut shop = Shop::open(4).await;
    let first = shop.claim(2).await[0].claim_id;
    let mut owner = shop.db.session().await;
    run(&mut owner, "BEGIN").await;
    shop.queue.ack_in(&mut owner, first, None).await.unwrap();
    let second = shop.claim(2).await.remove(0);
    assert_eq!(sequences(&second), [3, 4]);
    run(&mut owner, "COMMIT").await;
    assert_eq!(
        shop.number("SELECT count(*) FROM headwater_private.claims").await,
        2,
        "it stays as done, and is not the newest"
    );
    shop.queue.ack(second.claim_id, None).await.unwrap();
    assert_eq!(shop.position().await, 4);
    shop.expire(first).await;
    assert_eq!(shop.claim(9).await, []);
    shop.emit(&["event"]).await;
    assert_eq!(delivered(&shop.claim(9).await), [[5]]);
    assert_eq!(shop.number("SELECT count(*) FROM headwater_private.claims").await, 1);
}

#[tokio::test]
async fn more_expired_claims_than_one_look_takes_are_all_found() {
    let mut shop = Shop::open(250).await;
    for _ in 0..250 {
        shop.claim(1).await;
    }
    let moment = "(SELECT (state).expired_from FROM headwater_private.claims ORDER BY number DESC LIMIT 1)";
    run(&mut shop.session, &format!("UPDATE headwater_private.claims SET visible_at = {moment}")).await;
    shop.look_again().await;
    let mut again = shop.drain().await;
    again.sort_unstable();
    assert_eq!(again, (1..=250).collect::<Vec<_>>());
}

/// Claims that one call made expire at the same time. Their rows may be stored in any order.
#[tokio::test]
async fn claims_that_expire_at_the_same_time_are_delivered_in_the_order_in_which_they_were_made() {
    let mut shop = Shop::open(2).await;
    let [first, second] = [shop.claim(1).await.remove(0), shop.claim(1).await.remove(0)];
    shop.expire(second.claim_id).await;
    shop.expire(first.claim_id).await;
    let moments = shop.number("SELECT count(DISTINCT visible_at) FROM headwater_private.claims").await;
    assert_eq!(moments, 1, "both expire at the same time");
    assert_eq!(delivered(&shop.claim_each(1).await), [[1], [2]]);
}

#[tokio::test]
async fn letters_that_are_redriven_while_others_are_queued_are_found() {
    let shop = Shop::open(2).await;
    let once = headwater_core::ClaimRequest { max_attempts: 1, ..crate::common::queue::request() };
    let claim = shop.claim_with(once).await.remove(0);
    shop.queue.nack(claim.claim_id, None, Duration::ZERO, "broken").await.unwrap();
    let letter = |sequence| DeadLetterQuery { global_sequence: Some(sequence), ..DeadLetterQuery::default() };
    shop.store.redrive(&letter(1)).await.unwrap();
    assert_eq!(delivered(&shop.claim(9).await), [[1]]);
    let mut operator = shop.db.session().await;
    run(&mut operator, "BEGIN; SELECT headwater.redrive('shop', 'work', global_sequence => 2)").await;
    assert_eq!(shop.claim(9).await, [], "it is not committed, and nobody waits for it");
    run(&mut operator, "COMMIT").await;
    assert_eq!(delivered(&shop.claim(9).await), [[2]]);
}

/// A claim waits while its namespace's name goes to another namespace. It proves gaps with the
/// horizon of its own namespace.
#[tokio::test]
async fn a_claim_that_waited_for_a_swap_of_names_passes_no_open_gap() {
    let mut shop = Shop::open(1).await;
    let (mut holder, mut writer, mut waiter) =
        (shop.db.session().await, shop.db.session().await, shop.db.session().await);
    run(
        &mut shop.session,
        "SELECT headwater.create_namespace('green'); SELECT headwater.emit('green', 'g') FROM generate_series(1, 9)",
    )
    .await;
    run(&mut holder, "BEGIN; SELECT headwater.claim('shop', 'work', 1)").await;
    run(&mut writer, "BEGIN; SELECT headwater.emit('shop', 'late')").await;
    run(&mut shop.session, "SELECT headwater.emit('shop', 'third')").await;
    let waiting = pid(&mut waiter).await;
    let claim = tokio::spawn(async move {
        let claim = "SELECT global_sequence FROM headwater.claim('shop', 'work', 10)";
        (sqlx::query_scalar::<_, i64>(claim).fetch_all(&mut waiter).await, waiter)
    });
    until_it_waits(&mut shop.session, waiting).await;
    run(
        &mut shop.session,
        "SELECT headwater.rename_namespace('shop', 'old'), headwater.rename_namespace('green', 'shop')",
    )
    .await;
    run(&mut holder, "COMMIT").await;
    let (claimed, _) = claim.await.unwrap();
    let mut got = claimed.unwrap_or_default();
    run(&mut writer, "COMMIT").await;
    let rest = "SELECT global_sequence FROM headwater.claim('old', 'work', 10)";
    got.extend(sqlx::query_scalar::<_, i64>(rest).fetch_all(&mut shop.session).await.unwrap());
    got.sort_unstable();
    assert_eq!(got, [2, 3], "the event that committed late comes too");
}

/// A claim that is under way while the tests' clock moves does not hide what is due by then.
#[tokio::test]
async fn time_that_passes_during_a_claim_passes_for_it_too() {
    let mut shop = Shop::open(2).await;
    let claim = shop.claim(1).await.remove(0);
    shop.queue.nack(claim.claim_id, None, Duration::from_secs(3_600), "later").await.unwrap();
    let mut claimer = shop.db.session().await;
    run(&mut claimer, "BEGIN").await;
    assert_eq!(delivered(&shop.queue.claim_in(&mut claimer, &request()).await.unwrap()), [[2]]);
    let db = shop.db.clone();
    let pass = tokio::spawn(async move { db.pass("shop", Duration::from_secs(7_200)).await });
    while !pass.is_finished() && shop.number("SELECT count(*) FROM pg_locks WHERE NOT granted").await == 0 {
        tokio::task::yield_now().await;
    }
    run(&mut claimer, "COMMIT").await;
    pass.await.unwrap();
    // The other claim has expired too, so its event comes alone.
    let mut all = delivered(&shop.claim_each(1).await);
    all.sort_unstable();
    assert_eq!(all, [[1], [2]]);
}
