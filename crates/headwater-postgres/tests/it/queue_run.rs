//! The short path of a claim: it takes the next events if nothing else needs attention. Otherwise
//! `tend_queue` runs. Two sessions, explicit steps.

use std::time::Duration;

use crate::common::queue::{Shop, delivered, request};
use crate::common::{emit, pid, run, sqlstate_of, until_it_waits};
use headwater_core::{ClaimRequest, DeadLetterQuery, OperatorStore, SubscriberError};
use sqlx::{AssertSqlSafe, PgConnection, Row};
use uuid::Uuid;

/// First and last of what is claimed, if anything is, and whether that took care.
async fn claim(session: &mut PgConnection, max_events: u32, acks: &str, types: &str) -> (Option<(i64, i64)>, bool) {
    run(session, "SET track_functions = 'all'").await;
    let query = format!(
        "WITH before AS MATERIALIZED (
             SELECT coalesce(sum(f.calls), 0) AS calls FROM pg_stat_xact_user_functions f WHERE f.funcname = 'tend_queue'),
         claimed AS MATERIALIZED (
             SELECT b.calls, min(c.global_sequence) AS first, max(c.global_sequence) AS last
               FROM before b
               LEFT JOIN LATERAL headwater.claim('shop', 'work', {max_events} + 0 * b.calls::int, '1 hour', {types}, 'worker', 4, {acks}) c ON true
              GROUP BY b.calls)
         SELECT c.first, c.last,
                coalesce((SELECT sum(f.calls) FROM pg_stat_xact_user_functions f
                           WHERE f.funcname = 'tend_queue' AND c.first IS NOT DISTINCT FROM c.first), 0) > c.calls
           FROM claimed c"
    );
    let row = sqlx::query(AssertSqlSafe(query)).fetch_one(session).await.expect("failed to claim");
    let first: Option<i64> = row.get(0);
    (first.map(|first| (first, row.get(1))), row.get(2))
}

/// What the short way takes.
async fn claim_run(session: &mut PgConnection, max_events: u32, acks: &str) -> Option<(i64, i64)> {
    let (claimed, care) = claim(session, max_events, acks, "NULL").await;
    assert!(!care, "{claimed:?} with care");
    claimed
}

/// It takes care to claim; nothing is claimed here.
async fn takes_care(shop: &mut Shop, why: &str) {
    takes_care_with(shop, "NULL", why).await;
}

async fn takes_care_with(shop: &mut Shop, acks: &str, why: &str) {
    run(&mut shop.session, "BEGIN").await;
    let (_, care) = claim(&mut shop.session, 10, acks, "NULL").await;
    run(&mut shop.session, "ROLLBACK").await;
    assert!(care, "{why}");
}

fn ids(claim_id: Uuid) -> String {
    format!("ARRAY['{claim_id}']::uuid[]")
}

#[tokio::test]
async fn the_next_events_are_taken_and_the_last_claim_is_acked() {
    let mut shop = Shop::open(9).await;
    let first = shop.claim(2).await.remove(0);
    shop.look_never().await;
    assert_eq!(claim_run(&mut shop.session, 3, &ids(first.claim_id)).await, Some((3, 5)));
    assert_eq!(shop.number("SELECT count(*) FROM headwater_private.claims").await, 1, "the first is done and gone");
    assert_eq!(shop.position().await, 2);
    assert_eq!(claim_run(&mut shop.session, 3, "NULL").await, Some((6, 8)));
    let newest = shop.claim(5).await.remove(0);
    assert_eq!(delivered(std::slice::from_ref(&newest)), [[9]]);
    shop.queue.ack(newest.claim_id, None).await.unwrap();
    shop.emit(&["event", "event"]).await;
    shop.look_never().await;
    assert_eq!(claim_run(&mut shop.session, 3, "NULL").await, Some((10, 11)));
    let of_newest = format!("SELECT count(*) FROM headwater_private.claims WHERE claim_id = '{}'", newest.claim_id);
    assert_eq!(shop.number(&of_newest).await, 0, "it was there for its state");
}

#[tokio::test]
async fn who_waited_for_the_queue_sees_what_was_claimed_meanwhile() {
    let mut shop = Shop::open(6).await;
    shop.claim(1).await;
    shop.look_never().await;
    let (mut first, mut second) = (shop.db.session().await, shop.db.session().await);
    let second_pid = pid(&mut second).await;
    run(&mut first, "BEGIN").await;
    assert_eq!(claim_run(&mut first, 2, "NULL").await, Some((2, 3)));
    let waiting = tokio::spawn(async move { claim_run(&mut second, 2, "NULL").await });
    until_it_waits(&mut shop.session, second_pid).await;
    run(&mut first, "COMMIT").await;
    assert_eq!(waiting.await.unwrap(), Some((4, 5)));
}

#[tokio::test]
async fn an_ack_that_is_lost_while_it_waits_claims_nothing() {
    let mut shop = Shop::open(6).await;
    let claim_id = shop.claim(1).await[0].claim_id;
    shop.claim(1).await;
    let (mut first, mut second) = (shop.db.session().await, shop.db.session().await);
    let second_pid = pid(&mut second).await;
    run(&mut first, "BEGIN").await;
    shop.queue.ack_in(&mut first, claim_id, None).await.unwrap();
    let queue = shop.queue.clone();
    let waiting = tokio::spawn(async move {
        let acking = ClaimRequest { acks: vec![claim_id], ..request() };
        queue.claim_in(&mut second, &acking).await
    });
    until_it_waits(&mut shop.session, second_pid).await;
    run(&mut first, "COMMIT").await;
    let error = waiting.await.unwrap().unwrap_err();
    assert!(matches!(error, SubscriberError::ClaimLost(_)), "{error}");
    assert_eq!(delivered(&shop.claim(9).await), [[3, 4, 5, 6]]);
}

#[tokio::test]
async fn an_ack_of_what_is_lost_claims_nothing() {
    let mut shop = Shop::open(6).await;
    let held = shop.claim(1).await[0].claim_id;
    for acks in [vec![Uuid::nil()], vec![held, Uuid::nil()]] {
        let error = shop.queue.claim(&ClaimRequest { acks, ..request() }).await.unwrap_err();
        assert!(matches!(error, SubscriberError::ClaimLost(_)), "{error}");
    }
    assert_eq!(shop.position().await, 0, "nor is the other one acked");
    shop.look_never().await;
    assert_eq!(claim_run(&mut shop.session, 10, &ids(held)).await, Some((2, 6)));
}

#[tokio::test]
async fn a_run_ends_before_a_hole() {
    let mut shop = Shop::open(2).await;
    shop.claim(1).await;
    let mut writer = shop.db.session().await;
    run(&mut writer, "BEGIN").await;
    assert_eq!(emit(&mut writer, "shop", "late").await, 3);
    shop.emit(&["event"]).await;
    shop.look_never().await;
    assert_eq!(claim_run(&mut shop.session, 10, "NULL").await, Some((2, 2)));
    run(&mut shop.session, "BEGIN").await;
    assert_eq!(claim_run(&mut shop.session, 10, "NULL").await, Some((4, 4)), "the hole is a gap");
    run(&mut shop.session, "ROLLBACK").await;
    run(&mut writer, "COMMIT").await;
    assert_eq!(claim_run(&mut shop.session, 10, "NULL").await, Some((3, 4)));
}

#[tokio::test]
async fn what_was_seen_without_a_hole_is_taken_without_another_look() {
    let mut shop = Shop::open(8).await;
    shop.claim(1).await;
    let mut writer = shop.db.session().await;
    run(&mut writer, "BEGIN").await;
    assert_eq!(emit(&mut writer, "shop", "late").await, 9);
    shop.emit(&["event"]).await;
    shop.look_never().await;
    let known = "SELECT (state).known FROM headwater_private.claims ORDER BY number DESC LIMIT 1";
    assert_eq!(claim_run(&mut shop.session, 2, "NULL").await, Some((2, 3)));
    assert_eq!(shop.number(known).await, 8, "it ends before the hole");
    // What it takes it does not look at.
    run(&mut shop.session, "CREATE TABLE aside AS SELECT * FROM headwater_private.events WHERE global_sequence = 5")
        .await;
    run(&mut shop.session, "DELETE FROM headwater_private.events WHERE global_sequence = 5").await;
    assert_eq!(claim_run(&mut shop.session, 2, "NULL").await, Some((4, 4)));
    assert_eq!(shop.number("SELECT max(last_sequence) FROM headwater_private.claims").await, 5);
    run(&mut shop.session, "INSERT INTO headwater_private.events SELECT * FROM aside").await;
    // Where that does not reach, it looks again.
    assert_eq!(claim_run(&mut shop.session, 5, "NULL").await, Some((6, 8)));
    run(&mut writer, "COMMIT").await;
    assert_eq!(claim_run(&mut shop.session, 1, "NULL").await, Some((9, 9)));
    assert_eq!(shop.number(known).await, 10);
}

#[tokio::test]
async fn after_a_reset_nothing_is_known_of_the_log() {
    let mut shop = Shop::open(1).await;
    run(&mut shop.session, "BEGIN; SELECT headwater.emit('shop', 'never', '{}'); ROLLBACK").await;
    shop.emit(&["event"; 3]).await;
    assert_eq!(delivered(&shop.claim(1).await), [[1]]);
    assert_eq!(delivered(&shop.claim(1).await), [[3]], "the hole is proved to stay");
    shop.look_never().await;
    assert_eq!(claim_run(&mut shop.session, 1, "NULL").await, Some((4, 4)));
    assert_eq!(shop.number("SELECT max((state).known) FROM headwater_private.claims").await, 5);
    shop.store.reset("work", 0).await.unwrap();
    assert_eq!(delivered(&shop.claim(1).await), [[1]]);
    assert_eq!(delivered(&shop.claim(9).await), [[3, 4, 5]], "not the hole");
}

#[tokio::test]
async fn what_is_handed_back_is_noticed_at_once() {
    let mut shop = Shop::open(9).await;
    let first = shop.claim(1).await[0].claim_id;
    let second = shop.claim(1).await[0].claim_id;
    shop.look_never().await;
    shop.queue.nack(second, None, Duration::from_secs(3_600), "later").await.unwrap();
    assert_eq!(delivered(&shop.claim(1).await), [[3]]);
    shop.queue.release(first, None).await.unwrap();
    assert_eq!(delivered(&shop.claim(9).await)[0], [1]);
    shop.pass_delays().await;
    assert_eq!(delivered(&shop.claim(9).await), [[2]]);
}

#[tokio::test]
async fn a_claim_that_was_extended_is_looked_for() {
    let mut shop = Shop::open(1).await;
    let claim_id = shop.claim(1).await[0].claim_id;
    shop.queue.extend(claim_id, Duration::from_secs(7_200)).await.unwrap();
    // As if all that was claimed had expired by now, had it not been extended.
    run(&mut shop.session, "UPDATE headwater_private.claims SET state.last_visible_at = '-infinity'").await;
    shop.look_again().await;
    assert_eq!(shop.claim(1).await, []);
    assert_eq!(
        shop.number("SELECT count(*) FROM headwater_private.claims WHERE (state).look_at = 'infinity'").await,
        0
    );
    shop.expire(claim_id).await;
    assert_eq!(delivered(&shop.claim(1).await), [[1]]);
    shop.drain().await;
}

#[tokio::test]
async fn what_needs_care_is_cared_for() {
    let mut shop = Shop::open(4).await;
    takes_care(&mut shop, "a queue that is new").await;
    let claim = shop.claim(2).await.remove(0);
    let nothing = "SELECT headwater.claim('shop', 'work', acks => ARRAY[NULL]::uuid[])";
    assert_eq!(sqlstate_of(&mut shop.session, nothing).await, "WH014");
    shop.store.set_paused("work", true).await.unwrap();
    takes_care(&mut shop, "a paused subscriber").await;
    shop.store.set_paused("work", false).await.unwrap();

    shop.expire(claim.claim_id).await;
    takes_care(&mut shop, "a claim that has expired").await;
    takes_care_with(&mut shop, &ids(claim.claim_id), "the same, though it is acked").await;
    for worker in ["a", "b"] {
        let alone = shop.claim_with(ClaimRequest { worker: worker.into(), max_events: 2, ..request() }).await.remove(0);
        shop.queue.nack(alone.claim_id, None, Duration::ZERO, "no").await.unwrap();
    }
    takes_care(&mut shop, "a retry that is due").await;
    for last in shop.claim_with(ClaimRequest { max_events: 2, max_attempts: 1, ..request() }).await {
        shop.queue.nack(last.claim_id, None, Duration::ZERO, "no").await.unwrap();
    }
    let letters = DeadLetterQuery::default();
    assert_eq!(shop.store.redrive(&letters).await.unwrap(), 2);
    takes_care(&mut shop, "letters that are redriven").await;
    let letters = shop.claim(2).await;
    assert_eq!(delivered(&letters), [[1], [2]]);
    let redriving = "SELECT count(*) FROM headwater_private.dead_letters WHERE state = 'redriving'";
    assert_eq!(shop.number(redriving).await, 2);
    shop.look_never().await;
    assert_eq!(claim_run(&mut shop.session, 10, &ids(letters[0].claim_id)).await, Some((3, 4)));
    assert_eq!(shop.number(redriving).await, 1, "the letter that was acked is handled");
    shop.drain().await;
}

#[tokio::test]
async fn an_empty_queue_is_idle_unless_there_is_something_to_ack_or_to_note() {
    let mut shop = Shop::open(1).await;
    let claim_id = shop.claim(1).await[0].claim_id;
    let idle =
        "SELECT headwater_private.is_idle(n.namespace_id, 'work', n.tail_after, n.tail_from, NULL, NULL)::int::bigint
                  FROM headwater_private.namespaces n";
    // As if the clock had stood still since the claim, and as if it had not for long.
    let looked = |at: &str, look_at: &str| {
        format!(
            "UPDATE headwater_private.claims SET state.expired_from = {at}, state.due_from = {at}, state.last_visible_at = 'infinity',
                    state.look_at = {look_at}"
        )
    };
    run(&mut shop.session, &looked("now()", "'infinity'")).await;
    assert_eq!(shop.number(idle).await, 1);
    run(&mut shop.session, &looked("now() - interval '1 hour'", "now() - interval '59 minutes'")).await;
    assert_eq!(shop.number(idle).await, 0, "how far it has looked is to be noted");
    shop.claim_with(ClaimRequest { acks: vec![claim_id], ..request() }).await;
    assert_eq!(shop.position().await, 1);
    shop.emit(&["event"]).await;
    assert_eq!(delivered(&shop.claim(9).await), [[2]]);
}

#[tokio::test]
async fn what_was_passed_is_not_forgotten() {
    let mut shop = Shop::open(1).await;
    shop.claim(1).await;
    let mut writer = shop.db.session().await;
    run(&mut writer, "BEGIN").await;
    assert_eq!(emit(&mut writer, "shop", "late").await, 2);
    shop.emit(&["event"]).await;
    assert_eq!(delivered(&shop.claim(9).await), [[3]]);
    shop.emit(&["event"]).await;
    takes_care(&mut shop, "a gap").await;
    run(&mut writer, "COMMIT").await;
    assert_eq!(shop.drain().await, [2, 4]);

    shop.emit(&["event", "other", "event"]).await;
    assert_eq!(delivered(&shop.claim_types(9, &["event"]).await), [[5, 7]]);
    shop.emit(&["event"]).await;
    shop.look_never().await;
    assert_eq!(claim_run(&mut shop.session, 1, "NULL").await, Some((6, 6)), "what was left behind");
    assert_eq!(shop.drain().await, [8]);
}

#[tokio::test]
async fn one_snapshot_for_all_is_refused() {
    let mut shop = Shop::open(4).await;
    shop.claim(1).await;
    shop.look_never().await;
    run(&mut shop.session, "BEGIN ISOLATION LEVEL REPEATABLE READ").await;
    assert_eq!(sqlstate_of(&mut shop.session, "SELECT headwater.claim('shop', 'work')").await, "WH006");
    run(&mut shop.session, "ROLLBACK").await;
    assert_eq!(claim_run(&mut shop.session, 1, "NULL").await, Some((2, 2)));
}

#[tokio::test]
async fn events_of_large_claims_are_those_that_were_claimed() {
    let mut shop = Shop::open(3).await;
    let first = shop.claim(2).await.remove(0);
    shop.queue.nack(first.claim_id, Some(&[2]), Duration::ZERO, "no").await.unwrap();
    shop.emit(&["other", "event"]).await;
    let claims = shop.claim_types(100, &["event"]).await;
    assert_eq!(delivered(&claims), [vec![2], vec![3, 5]], "a retry, and a range without the other type");
    assert_eq!((claims[0].redelivery_count, claims[1].redelivery_count), (1, 0));
    assert_eq!(delivered(&shop.claim(100).await), [[4]], "what was left behind");
    shop.emit(&["event", "other"]).await;
    assert_eq!(delivered(&shop.claim(100).await), [[6, 7]]);
}

#[tokio::test]
async fn a_run_can_come_in_several_claims_each_settled_by_itself() {
    let mut shop = Shop::open(8).await;
    let first = shop.claim(1).await.remove(0);
    shop.look_never().await;
    let request = ClaimRequest { max_events: 5, per_claim: Some(2), acks: vec![first.claim_id], ..request() };
    let claims = shop.claim_with(request.clone()).await;
    assert_eq!(delivered(&claims), [vec![2, 3], vec![4, 5], vec![6]]);
    shop.queue.ack(claims[1].claim_id, None).await.unwrap();
    shop.queue.nack(claims[0].claim_id, None, Duration::ZERO, "broken").await.unwrap();
    assert_eq!(shop.position().await, 1);
    let again = shop.claim_with(ClaimRequest { acks: Vec::new(), ..request.clone() }).await;
    assert_eq!(delivered(&again), [[2, 3], [7, 8]], "what failed, and then new events, each in small claims");
    assert_eq!((again[0].redelivery_count, again[1].redelivery_count), (1, 0));
    for claim in [&again[0], &again[1], &claims[2]] {
        shop.queue.ack(claim.claim_id, None).await.unwrap();
    }
    assert_eq!(shop.drain().await, [0; 0]);
    assert_eq!(shop.position().await, 8);
}

#[tokio::test]
async fn claims_by_pattern_come_in_several_too() {
    let mut shop = Shop::open(1).await;
    let first = shop.claim(1).await.remove(0);
    shop.emit(&["order.placed", "order.paid", "order.sent", "order.lost", "order.placed"]).await;
    shop.look_never().await;
    let request = ClaimRequest {
        max_events: 4,
        per_claim: Some(2),
        event_types: vec!["order.*".into()],
        acks: vec![first.claim_id],
        ..request()
    };
    let claims = shop.queue.claim(&request).await.unwrap();
    assert_eq!(delivered(&claims), [[2, 3], [4, 5]]);
    assert_ne!(claims[0].claim_id, claims[1].claim_id);
}

#[tokio::test]
async fn a_claim_has_one_event_at_least() {
    let mut shop = Shop::open(1).await;
    for call in ["claim('shop', 'work', per_claim => 0)", "claim('shop', 'work', 1, '1 s', '{event}', per_claim => 0)"]
    {
        let call = AssertSqlSafe(format!("SELECT FROM headwater.{call}"));
        let refused = sqlx::query(call).fetch_all(&mut shop.session).await.unwrap_err();
        let refused = refused.as_database_error().unwrap();
        assert_eq!((refused.code().as_deref(), refused.message()), (Some("WH002"), "invalid per_claim 0"));
    }
}

#[tokio::test]
async fn workers_that_name_their_types_take_the_short_way() {
    let mut shop = Shop::open(6).await;
    shop.claim(1).await;
    shop.emit(&["other", "event", "more", "other"]).await;
    shop.look_never().await;
    for (types, expected) in [
        ("'{event}'", Some((2, 4))),
        ("'{ev*}'", Some((5, 8))),
        ("'{none}'", None),
        ("'{other,more}'", Some((7, 10))),
        ("'{event,other}'", None),
    ] {
        let (claimed, care) = claim(&mut shop.session, 3, "NULL", types).await;
        assert_eq!((claimed, care), (expected, false), "{types}");
    }
}
