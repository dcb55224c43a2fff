//! A queue's claims: taken, settled, lost, handed back, given up. Time passes by explicit steps.

use std::time::Duration;

use crate::common::queue::{Shop, delivered, request, sequences};
use crate::common::{pid, run, sqlstate_of, until_it_waits};
use headwater_core::{
    ClaimRequest, DeadLetterQuery, DeadLetterState, GroupStore, OperatorStore, StartFrom, SubscriberConfig,
    SubscriberError, SubscriberMode,
};
use headwater_postgres::PgQueue;
use sqlx::AssertSqlSafe;
use uuid::Uuid;

const NOW: Duration = Duration::ZERO;
const LATER: Duration = Duration::from_secs(3_600);

fn lost<T: std::fmt::Debug>(result: Result<T, SubscriberError>) -> bool {
    let error = result.expect_err("a claim that is not held");
    assert_eq!(error.code(), Some("WH014"), "{error}");
    matches!(error, SubscriberError::ClaimLost(_))
}

#[tokio::test]
async fn two_workers_never_have_the_same_event() {
    let shop = Shop::open(10).await;
    assert_eq!(delivered(&shop.claim(4).await), [[1, 2, 3, 4]]);
    assert_eq!(delivered(&shop.claim(4).await), [[5, 6, 7, 8]]);
    assert_eq!(delivered(&shop.claim(4).await), [[9, 10]]);
    assert_eq!(delivered(&shop.claim(4).await), [[0; 0]; 0]);
}

#[tokio::test]
async fn a_worker_claims_on_a_connection_of_its_own() {
    let shop = Shop::open(90).await;
    let mut own = shop.queue.connection();
    let mut forty = ClaimRequest { max_events: 40, ..request() };
    let first = own.claim(&forty).await.unwrap();
    assert_eq!(delivered(&first), [(1..=40).collect::<Vec<_>>()]);
    // It is committed: nobody waits, or gets the same.
    assert_eq!(delivered(&shop.claim(1).await), [[41]]);
    forty.acks = vec![first[0].claim_id];
    let second = own.claim(&forty).await.unwrap();
    assert_eq!(delivered(&second), [(42..=81).collect::<Vec<_>>()]);
    assert_eq!(shop.position().await, 40);
    assert!(lost(own.claim(&forty).await), "its ack is lost");
    forty.acks.clear();
    assert_eq!(
        delivered(&own.claim(&forty).await.unwrap()),
        [(82..=90).collect::<Vec<_>>()],
        "it goes on after an error"
    );
    own.close().await;
}

#[tokio::test]
async fn who_claims_second_waits_for_the_first_and_gets_what_is_left() {
    let mut shop = Shop::open(10).await;
    let mut other = shop.db.session().await;
    let (pid, queue) = (pid(&mut other).await, shop.queue.clone());
    run(&mut shop.session, "BEGIN").await;
    let first = queue.claim_in(&mut shop.session, &ClaimRequest { max_events: 4, ..request() }).await.unwrap();
    assert_eq!(delivered(&first), [[1, 2, 3, 4]]);
    let second = tokio::spawn(async move {
        let claims = queue.claim_in(&mut other, &ClaimRequest { max_events: 4, ..request() }).await.unwrap();
        delivered(&claims)
    });
    until_it_waits(&mut shop.db.session().await, pid).await;
    run(&mut shop.session, "COMMIT").await;
    assert_eq!(second.await.unwrap(), [[5, 6, 7, 8]]);
}

#[tokio::test]
async fn an_event_that_is_acked_is_not_delivered_again() {
    let mut shop = Shop::open(4).await;
    let claims = [shop.claim(2).await.remove(0), shop.claim(2).await.remove(0)];
    assert_eq!(shop.position().await, 0);
    for claim in &claims {
        shop.queue.ack(claim.claim_id, None).await.unwrap();
    }
    assert_eq!(shop.position().await, 4);
    assert_eq!(shop.claim(10).await, []);
    assert_eq!(
        shop.number("SELECT count(*) FROM headwater_private.claims").await,
        1,
        "the newest stays, for what it knows"
    );
    shop.emit(&["event"]).await;
    assert_eq!(delivered(&shop.claim(10).await), [[5]]);
    assert_eq!(shop.number("SELECT count(*) FROM headwater_private.claims").await, 1, "until there is a newer one");
}

#[tokio::test]
async fn claims_are_acked_with_the_next_claim() {
    let mut shop = Shop::open(6).await;
    let claims = [shop.claim(2).await.remove(0), shop.claim(2).await.remove(0)];
    let acks = claims.iter().map(|claim| claim.claim_id).collect();
    let next = shop.claim_with(ClaimRequest { acks, ..request() }).await;
    assert_eq!(delivered(&next), [[5, 6]]);
    assert_eq!(shop.number("SELECT count(*) FROM headwater_private.claims").await, 1);
    assert_eq!(shop.position().await, 4);

    let acks = vec![next[0].claim_id];
    assert_eq!(shop.claim_with(ClaimRequest { acks: acks.clone(), ..request() }).await, [], "also if there is none");
    assert_eq!(shop.position().await, 6);
    assert!(lost(shop.queue.claim(&ClaimRequest { acks, ..request() }).await));
}

#[tokio::test]
async fn a_lost_ack_fails_the_claim_that_carries_it() {
    let shop = Shop::open(4).await;
    let first = shop.claim(2).await.remove(0);
    let acks = vec![first.claim_id, Uuid::now_v7()];
    assert!(lost(shop.queue.claim(&ClaimRequest { acks, ..request() }).await));
    assert_eq!(shop.position().await, 0, "none is acked");
    assert_eq!(delivered(&shop.claim(10).await), [[3, 4]], "and none was claimed");
}

#[tokio::test]
async fn an_expired_claim_is_taken_over_and_its_old_owner_refused() {
    let mut shop = Shop::open(3).await;
    let first = shop.claim(3).await.remove(0);
    assert_eq!(first.redelivery_count, 0);
    shop.expire(first.claim_id).await;
    let second = shop.claim_each(3).await;
    assert_eq!(delivered(&second), [[1], [2], [3]]);
    assert!(second.iter().all(|claim| claim.redelivery_count == 1 && claim.claim_id != first.claim_id));

    assert!(lost(shop.queue.ack(first.claim_id, None).await));
    assert!(lost(shop.queue.ack(first.claim_id, Some(&[1])).await));
    assert!(lost(shop.queue.nack(first.claim_id, None, NOW, "late").await));
    assert!(lost(shop.queue.extend(first.claim_id, LATER).await));
    assert_eq!(shop.claim(3).await, [], "none of it was honoured");
    for claim in &second {
        shop.queue.ack(claim.claim_id, None).await.unwrap();
    }
    assert_eq!(shop.position().await, 3);
    assert!(lost(shop.queue.ack(second[0].claim_id, None).await), "once is enough");
}

#[tokio::test]
async fn a_claim_of_another_queue_is_not_this_ones() {
    let shop = Shop::open(1).await;
    let other =
        SubscriberConfig { subscriber_id: "other".into(), ..crate::common::queue::shared(StartFrom::Beginning) };
    shop.store.register(&other).await.unwrap();
    let other = PgQueue::new(shop.db.database.clone(), shop.log.info().clone(), "other");
    let claim = shop.claim(1).await.remove(0);
    assert!(lost(other.ack(claim.claim_id, None).await));
    assert_eq!(delivered(&other.claim(&request()).await.unwrap()), [[1]], "each queue has all events");
}

#[tokio::test]
async fn an_expired_claim_that_nobody_took_over_may_still_be_acked() {
    let mut shop = Shop::open(3).await;
    let claim = shop.claim(3).await.remove(0);
    shop.expire(claim.claim_id).await;
    shop.queue.ack(claim.claim_id, None).await.unwrap();
    assert_eq!(shop.claim(3).await, []);
}

#[tokio::test]
async fn an_extended_claim_stays_and_is_never_made_shorter() {
    let mut shop = Shop::open(3).await;
    let claim = shop.claim(3).await.remove(0);
    shop.expire(claim.claim_id).await;
    let until = shop.queue.extend(claim.claim_id, LATER).await.unwrap();
    assert_eq!(shop.claim(3).await, []);
    assert_eq!(shop.queue.extend(claim.claim_id, Duration::from_millis(1)).await.unwrap(), until);
}

#[tokio::test]
async fn some_events_of_a_claim_are_acked() {
    let mut shop = Shop::open(5).await;
    let claim = shop.claim(5).await.remove(0);
    shop.queue.ack(claim.claim_id, Some(&[2, 4])).await.unwrap();
    shop.queue.ack(claim.claim_id, Some(&[4, 1])).await.unwrap();
    assert_eq!(shop.position().await, 2);
    let error = shop.queue.ack(claim.claim_id, Some(&[6])).await.unwrap_err();
    assert_eq!(error.code(), Some("WH002"), "{error}");
    shop.expire(claim.claim_id).await;
    let rest = shop.claim_each(5).await;
    assert_eq!(delivered(&rest), [[3], [5]]);
    for claim in rest {
        shop.queue.ack(claim.claim_id, None).await.unwrap();
    }
    assert_eq!(shop.position().await, 5);
    shop.emit(&["event", "event"]).await;
    let last = shop.claim(5).await.remove(0);
    shop.queue.ack(last.claim_id, Some(&[6])).await.unwrap();
    shop.queue.ack(last.claim_id, Some(&[7])).await.unwrap();
    assert!(lost(shop.queue.ack(last.claim_id, None).await), "with its last event it is done");
}

#[tokio::test]
async fn events_are_handed_back_at_once_or_with_a_delay() {
    let mut shop = Shop::open(6).await;
    let claim = shop.claim(4).await.remove(0);
    shop.queue.nack(claim.claim_id, Some(&[2]), NOW, "busy").await.unwrap();
    shop.queue.nack(claim.claim_id, Some(&[3, 2]), LATER, "broken").await.unwrap();
    let next = shop.claim(10).await;
    assert_eq!(delivered(&next), [vec![2], vec![5, 6]], "what failed comes first");
    assert_eq!((next[0].redelivery_count, next[1].redelivery_count), (1, 0));
    shop.queue.ack(claim.claim_id, None).await.unwrap();
    assert_eq!(shop.position().await, 1);
    assert_eq!(shop.claim(10).await, [], "3 waits");
    shop.pass_delays().await;
    let again = shop.claim(10).await;
    assert_eq!((delivered(&again), again[0].redelivery_count), (vec![vec![3]], 1));
    shop.queue.nack(again[0].claim_id, None, NOW, "broken").await.unwrap();
    assert_eq!(shop.claim(10).await[0].redelivery_count, 2);
}

#[tokio::test]
async fn fewer_events_than_were_handed_back_leave_the_rest() {
    let shop = Shop::open(5).await;
    let claim = shop.claim(5).await.remove(0);
    shop.queue.nack(claim.claim_id, None, NOW, "no").await.unwrap();
    assert_eq!(delivered(&shop.claim(2).await), [[1, 2]]);
    assert_eq!(delivered(&shop.claim(2).await), [[3, 4]]);
    assert_eq!(delivered(&shop.claim(2).await), [[5]]);
}

#[tokio::test]
async fn a_claim_gets_all_that_it_asks_for_in_small_claims_while_there_are_retries() {
    let shop = Shop::open(6).await;
    let first = shop.claim(3).await.remove(0);
    shop.queue.nack(first.claim_id, None, NOW, "again").await.unwrap();
    let claims = shop.claim_with(ClaimRequest { max_events: 5, per_claim: Some(2), ..request() }).await;
    assert_eq!(delivered(&claims), [vec![1, 2], vec![3], vec![4, 5]]);
    assert_eq!(claims.iter().map(|claim| claim.redelivery_count).collect::<Vec<_>>(), [1, 1, 0]);
    shop.queue.nack(claims[1].claim_id, None, LATER, "later").await.unwrap();
    shop.queue.nack(claims[2].claim_id, None, NOW, "again").await.unwrap();
    let claims = shop.claim_with(ClaimRequest { max_events: 100, per_claim: Some(1), ..request() }).await;
    assert_eq!(delivered(&claims), [[4], [5], [6]]);
}

#[tokio::test]
async fn after_its_last_attempt_an_event_is_a_dead_letter() {
    let mut shop = Shop::open(2).await;
    let twice = || ClaimRequest { max_attempts: 2, ..request() };
    let claim = shop.claim_with(twice()).await.remove(0);
    shop.queue.nack(claim.claim_id, Some(&[2]), NOW, "no stock").await.unwrap();
    shop.expire(claim.claim_id).await;
    // What expired with another does not count, and comes alone.
    let first = shop.claim_with(twice()).await;
    assert_eq!(delivered(&first), [[1]]);
    let second = shop.claim_with(twice()).await;
    assert_eq!(delivered(&second), [[2]]);
    shop.queue.nack(second[0].claim_id, None, NOW, "still no stock").await.unwrap();
    shop.expire(first[0].claim_id).await;
    let first = shop.claim_with(twice()).await;
    assert_eq!((delivered(&first), first[0].redelivery_count), (vec![vec![1]], 2));
    shop.expire(first[0].claim_id).await;
    assert_eq!(shop.claim_with(twice()).await, []);
    assert_eq!(shop.position().await, 2, "they are settled");

    let letters = shop.store.dead_letters(&DeadLetterQuery::default()).await.unwrap();
    let errors =
        |nth: usize| letters[nth].attempts.iter().map(|attempt| attempt.errors[0].as_str()).collect::<Vec<_>>();
    assert_eq!(letters.len(), 2);
    assert_eq!(errors(1), ["no stock", "still no stock"]);
    assert_eq!(errors(0).len(), 3);
    assert!(errors(0).iter().all(|error| error.starts_with("claim expired: ")), "{:?}", errors(0));
    assert_eq!(letters[1].attempts[0].node, "worker");
    assert_eq!((letters[1].state, letters[1].error()), (DeadLetterState::Dead, "still no stock"));
    let stored = headwater_core::EventLog::event(&shop.log, letters[1].event.id).await.unwrap();
    assert_eq!(Some(&letters[1].event), stored.as_ref(), "the letter has the whole event");
    assert_eq!(letters[1].order_key, letters[1].event.id.to_string());
}

#[tokio::test]
async fn a_redriven_letter_is_claimed_once_and_done_or_dead_again() {
    let mut shop = Shop::open(3).await;
    let once = || ClaimRequest { max_attempts: 1, ..request() };
    let claim = shop.claim_with(once()).await.remove(0);
    shop.queue.nack(claim.claim_id, None, NOW, "broken").await.unwrap();
    let all = DeadLetterQuery::default();
    let states = async |shop: &Shop| {
        use DeadLetterState::*;
        let any = DeadLetterQuery { states: vec![Dead, Redriving, Redriven, Discarded], ..DeadLetterQuery::default() };
        let letters = shop.store.dead_letters(&any).await.unwrap();
        letters.iter().map(|letter| letter.state.name()).collect::<Vec<_>>()
    };
    assert_eq!(states(&shop).await, ["dead"; 3]);

    assert_eq!(shop.store.redrive(&all).await.unwrap(), 3);
    let again = shop.claim(10).await;
    assert_eq!(delivered(&again), [[1], [2], [3]]);
    assert_eq!(again[0].redelivery_count, 1);
    assert_eq!(shop.store.redrive(&all).await.unwrap(), 0);
    assert_eq!(shop.claim(10).await, [], "each is claimed once");
    shop.queue.ack(again[0].claim_id, None).await.unwrap();
    shop.queue.nack(again[1].claim_id, None, NOW, "broken again").await.unwrap();
    // It had others with it, so it is tried once more, alone.
    shop.expire(again[2].claim_id).await;
    let alone = shop.claim(10).await;
    assert_eq!(delivered(&alone), [[3]]);
    shop.expire(alone[0].claim_id).await;
    assert_eq!(shop.claim(10).await, []);
    assert_eq!(states(&shop).await, ["redriven", "dead", "dead"]);

    assert_eq!(shop.store.redrive(&all).await.unwrap(), 2);
    let acks = shop.claim(1).await.into_iter().map(|claim| claim.claim_id).collect();
    let second = DeadLetterQuery { global_sequence: Some(3), ..DeadLetterQuery::default() };
    shop.store.discard(&second, "no use").await.unwrap();
    assert_eq!(shop.claim_with(ClaimRequest { acks, ..request() }).await, [], "what was discarded is not delivered");
    assert_eq!(states(&shop).await, ["redriven", "redriven", "discarded"]);
    let attempts = shop.number(
        "SELECT jsonb_array_length(attempts)::bigint FROM headwater_private.dead_letters WHERE global_sequence = 2",
    );
    assert_eq!(attempts.await, 2);
}

#[tokio::test]
async fn a_rolled_back_claim_or_ack_leaves_nothing() {
    let mut shop = Shop::open(2).await;
    let mut other = shop.db.session().await;
    run(&mut other, "BEGIN").await;
    let claims = shop.queue.claim_in(&mut other, &request()).await.unwrap();
    shop.queue.ack_in(&mut other, claims[0].claim_id, None).await.unwrap();
    run(&mut other, "ROLLBACK").await;
    assert_eq!(shop.number("SELECT count(*) FROM headwater_private.claims").await, 0);

    let claim = shop.claim(10).await.remove(0);
    assert_eq!(sequences(&claim), [1, 2]);
    run(&mut other, "BEGIN").await;
    shop.queue.nack_in(&mut other, claim.claim_id, Some(&[1]), NOW, "taken back").await.unwrap();
    shop.queue.ack_in(&mut other, claim.claim_id, None).await.unwrap();
    run(&mut other, "ROLLBACK").await;
    assert_eq!(shop.claim(10).await, [], "it is claimed as before");
    shop.queue.ack(claim.claim_id, None).await.unwrap();
    assert_eq!(shop.position().await, 2);
}

#[tokio::test]
async fn a_callers_transaction_waits_for_the_disk_as_it_always_does() {
    let mut shop = Shop::open(1).await;
    let setting = async |session: &mut sqlx::PgConnection| -> String {
        sqlx::query_scalar("SHOW synchronous_commit").fetch_one(session).await.unwrap()
    };
    let (mut other, before) = (shop.db.session().await, setting(&mut shop.session).await);
    assert_ne!(before, "off", "or this test would show nothing");
    run(&mut other, "BEGIN").await;
    let claims = shop.queue.claim_in(&mut other, &request()).await.unwrap();
    shop.queue.ack_in(&mut other, claims[0].claim_id, None).await.unwrap();
    assert_eq!(setting(&mut other).await, before);
}

#[tokio::test]
async fn a_paused_queue_gives_nothing_out_and_takes_acks() {
    let mut shop = Shop::open(4).await;
    let claims = [shop.claim(2).await.remove(0), shop.claim(1).await.remove(0)];
    shop.expire(claims[1].claim_id).await;
    shop.store.set_paused("work", true).await.unwrap();
    assert_eq!(shop.claim(10).await, []);
    let acks = vec![claims[0].claim_id];
    assert_eq!(shop.claim_with(ClaimRequest { acks, ..request() }).await, []);
    assert_eq!(shop.position().await, 2);
    shop.store.set_paused("work", false).await.unwrap();
    assert_eq!(delivered(&shop.claim_each(10).await), [[3], [4]]);
}

#[tokio::test]
async fn a_reset_queue_begins_there_and_old_claims_are_lost() {
    let mut shop = Shop::open(5).await;
    let claims = [shop.claim(3).await.remove(0), shop.claim(1).await.remove(0)];
    shop.queue.nack(claims[0].claim_id, Some(&[2]), LATER, "later").await.unwrap();
    shop.store.reset("work", 1).await.unwrap();
    assert!(lost(shop.queue.ack(claims[0].claim_id, None).await));
    assert_eq!(shop.position().await, 1);
    assert_eq!(shop.drain().await, [2, 3, 4, 5]);
    shop.store.reset("work", 4).await.unwrap();
    assert_eq!(shop.drain().await, [5]);
    assert_eq!(shop.number("SELECT count(*) FROM headwater_private.retries").await, 0);
}

#[tokio::test]
async fn a_reset_queue_redrives_letters_that_were_claimed() {
    let shop = Shop::open(2).await;
    let claim = shop.claim_with(ClaimRequest { max_attempts: 1, ..request() }).await.remove(0);
    shop.queue.nack(claim.claim_id, Some(&[1]), NOW, "broken").await.unwrap();
    shop.store.redrive(&DeadLetterQuery::default()).await.unwrap();
    assert_eq!(delivered(&shop.claim(10).await), [[1]]);
    shop.store.reset("work", 2).await.unwrap();
    assert_eq!(delivered(&shop.claim(10).await), [[1]]);
}

#[tokio::test]
async fn a_removed_queue_leaves_nothing() {
    let mut shop = Shop::open(3).await;
    let claims = [shop.claim(1).await.remove(0), shop.claim(1).await.remove(0)];
    shop.queue.nack(claims[0].claim_id, None, LATER, "later").await.unwrap();
    shop.store.remove("work", false).await.unwrap();
    let left =
        "SELECT (SELECT count(*) FROM headwater_private.claims) + (SELECT count(*) FROM headwater_private.retries)";
    assert_eq!(shop.number(left).await, 0);
    let error = shop.queue.claim(&request()).await.unwrap_err();
    assert!(matches!(&error, SubscriberError::NotFound(id) if id == "work"), "{error}");
}

#[tokio::test]
async fn a_queue_starts_where_its_subscriber_was_registered() {
    let mut shop = Shop::open(3).await;
    shop.store.remove("work", false).await.unwrap();
    shop.store.register(&crate::common::queue::shared(StartFrom::Now)).await.unwrap();
    shop.emit(&["event"]).await;
    assert_eq!(shop.drain().await, [4]);
}

#[tokio::test]
async fn the_status_of_a_queue_is_looked_up() {
    let mut shop = Shop::open(10).await;
    let info = shop.store.subscriber("work").await.unwrap();
    assert_eq!((info.position, info.lag_events), (0, 10));
    let claims = [shop.claim(2).await.remove(0), shop.claim(3).await.remove(0), shop.claim(2).await.remove(0)];
    shop.queue.ack(claims[0].claim_id, None).await.unwrap();
    shop.queue.nack(claims[1].claim_id, Some(&[4]), LATER, "later").await.unwrap();
    let info = shop.store.subscriber("work").await.unwrap();
    assert_eq!((info.position, info.lag_events), (2, 3), "3 to 7 are claimed or wait, 8 to 10 are ahead");
    let status: (i64, i64, i64, i64, i64) = sqlx::query_as(
        "SELECT position, frontier, claims, in_flight, retries FROM headwater.queue_status('shop', 'work')",
    )
    .fetch_one(&mut shop.session)
    .await
    .unwrap();
    assert_eq!(status, (2, 7, 2, 4, 1));
}

/// The views add up what all tenants wrote: no value may make that fail for the others.
#[tokio::test]
async fn no_rate_and_no_claim_makes_the_views_fail() {
    let mut shop = Shop::open(4).await;
    for (node, rate) in
        [("a", "1.7e308"), ("b", "1.7e308"), ("c", "infinity"), ("d", "NaN"), ("e", "-1"), ("f", "NULL")]
    {
        let attend = format!(
            "SELECT headwater.attend_queues(n.namespace_id, '{node}', gen_random_uuid(), '{{work}}', ARRAY['{rate}']::float8[], 60000)
               FROM headwater_private.namespaces n"
        )
        .replace("'NULL'", "NULL");
        run(&mut shop.session, &attend).await;
    }
    assert_eq!((shop.claim(2).await.len(), shop.claim(2).await.len()), (1, 1));
    run(&mut shop.session, "UPDATE headwater_private.claims SET last_sequence = 9223372036854775807").await;
    for view in ["queue_metrics", "subscriber_lag"] {
        let query = format!("SELECT in_flight, workers, rate FROM headwater.{view}");
        let found: (i64, i64, f64) =
            sqlx::query_as(AssertSqlSafe(query)).fetch_one(&mut shop.session).await.expect("the view must answer");
        assert_eq!(found, (i64::MAX, 7, 3e9), "{view}");
    }
}

#[tokio::test]
async fn what_cannot_be_asked_is_refused() {
    let mut shop = Shop::open(1).await;
    let exclusive = SubscriberConfig::new("alone", StartFrom::Beginning, SubscriberMode::Exclusive);
    shop.store.register(&exclusive).await.unwrap();
    let claim = shop.claim(1).await.remove(0).claim_id;
    for (call, state) in [
        ("claim('nowhere', 'work')".to_owned(), "WH001"),
        ("claim('shop', 'nobody')".into(), "WH012"),
        ("claim('shop', NULL)".into(), "WH012"),
        ("claim('shop', 'alone')".into(), "WH013"),
        ("claim('shop', 'work', 0)".into(), "WH002"),
        ("claim('shop', 'work', visibility => '0')".into(), "WH002"),
        ("claim('shop', 'work', visibility => '-1 s')".into(), "WH002"),
        ("claim('shop', 'work', visibility => NULL)".into(), "WH002"),
        ("claim('shop', 'work', event_types => '{}')".into(), "WH002"),
        ("claim('shop', 'work', event_types => '{a,NULL}')".into(), "WH002"),
        ("claim('shop', 'work', worker => '')".into(), "WH002"),
        ("claim('shop', 'work', max_attempts => 0)".into(), "WH002"),
        (format!("ack('shop', 'work', '{claim}', '{{7}}')"), "WH002"),
        (format!("ack('shop', 'work', '{claim}', '{{NULL}}')"), "WH002"),
        (format!("ack('shop', 'nobody', '{claim}')"), "WH014"),
        // Only as a whole: what claims answer where they found nothing (queue_types.rs).
        ("ack('shop', 'work', NULL, '{1}')".into(), "WH014"),
        ("nack('shop', 'work', NULL, '{1}')".into(), "WH014"),
        ("ack('nowhere', 'work', NULL)".into(), "WH001"),
        (format!("nack('shop', 'work', '{claim}', delay => '-1 s')"), "WH002"),
        (format!("nack('shop', 'work', '{claim}', delay => NULL)"), "WH002"),
        (format!("extend('shop', 'work', '{claim}', NULL)"), "WH002"),
    ] {
        assert_eq!(sqlstate_of(&mut shop.session, &format!("SELECT * FROM headwater.{call}")).await, state, "{call}");
    }
    let one_snapshot = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM headwater.claim('shop', 'work')";
    assert_eq!(sqlstate_of(&mut shop.session, one_snapshot).await, "WH006");
}
