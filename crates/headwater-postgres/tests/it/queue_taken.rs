//! What a queue takes: it is stored, checked, widened and narrowed, and what the queue does not
//! take is settled. Nothing that it takes is lost, whoever changes it, claims,
//! or commits late at the same time. Two sessions, explicit steps.

use crate::common::queue::{Shop, delivered, request, shared};
use crate::common::{emit, pid, run, sqlstate_of, until_it_waits};
use headwater_core::{
    ClaimRequest, DeadLetterQuery, GroupStore, NamespaceConfig, OperatorStore, StartFrom, Storage, SubscriberConfig,
    SubscriberError,
};
use headwater_postgres::{LogOptions, PgSubscribers, SubscribersOptions};
use headwater_testing::TestDatabase;

fn taking(event_types: &[&str]) -> SubscriberConfig {
    let event_types = event_types.iter().map(|event_type| event_type.to_string()).collect();
    SubscriberConfig { event_types, ..shared(StartFrom::Beginning) }
}

/// An empty log, and a queue that takes these.
async fn shop(event_types: &[&str]) -> Shop {
    let shop = Shop::open(0).await;
    set(&shop, event_types).await;
    shop
}

async fn set(shop: &Shop, event_types: &[&str]) {
    let mut session = shop.db.session().await;
    run(&mut session, &set_types(event_types)).await;
}

fn set_types(event_types: &[&str]) -> String {
    format!("SELECT headwater.set_event_types('shop', 'work', '{{{}}}')", event_types.join(","))
}

async fn takes(shop: &mut Shop) -> Option<Vec<String>> {
    let query = "SELECT event_types FROM headwater.queue_status('shop', 'work')";
    sqlx::query_scalar(query).fetch_one(&mut shop.session).await.unwrap()
}

/// What a step of maintenance does: sequences that were passed, and letters.
async fn settle(shop: &mut Shop) -> (i64, i64) {
    let query = "SELECT settled, letters FROM headwater.settle_untaken('shop', 'work')";
    sqlx::query_as(query).fetch_one(&mut shop.session).await.unwrap()
}

async fn left_behind(shop: &mut Shop) -> Vec<String> {
    let query = "SELECT left_behind FROM headwater.queue_status('shop', 'work')";
    sqlx::query_scalar(query).fetch_one(&mut shop.session).await.unwrap()
}

/// Claims and acks all there is, and finds the queue in order.
async fn drain(shop: &mut Shop) -> Vec<u64> {
    let all = shop.drain().await;
    assert_eq!(shop.number("SELECT count(*) FROM headwater.audit_queues('shop')").await, 0);
    all
}

#[tokio::test]
async fn what_a_queue_takes_is_stored_and_more_is_added() {
    let mut shop = Shop::open(0).await;
    assert_eq!(takes(&mut shop).await, None, "all");
    set(&shop, &["b", "a.*", "b"]).await;
    assert_eq!(takes(&mut shop).await.unwrap(), ["a.*", "b"]);
    // A worker that asks for less changes nothing, nor does one that asks for nothing.
    for asked in [&["a.x", "b"][..], &[]] {
        shop.store.register(&taking(asked)).await.unwrap();
        assert_eq!(takes(&mut shop).await.unwrap(), ["a.*", "b"]);
    }
    shop.store.register(&taking(&["b*", "c"])).await.unwrap();
    assert_eq!(takes(&mut shop).await.unwrap(), ["a.*", "b*", "c"], "b is part of b*");
    shop.store.register(&taking(&["*"])).await.unwrap();
    assert_eq!(takes(&mut shop).await, None);
    shop.store.register(&taking(&["a"])).await.unwrap();
    assert_eq!(takes(&mut shop).await, None, "all types hold that one");
    let made = SubscriberConfig { subscriber_id: "other".into(), ..taking(&["x", "y*"]) };
    shop.store.register(&made).await.unwrap();
    assert_eq!(
        shop.number("SELECT count(*) FROM headwater.queue_status('shop') WHERE event_types = '{x,y*}'").await,
        1
    );
}

#[tokio::test]
async fn wrong_types_are_refused() {
    let mut shop = Shop::open(0).await;
    for script in [
        "SELECT headwater.set_event_types('shop', 'work', '{}')",
        "SELECT headwater.set_event_types('shop', 'work', '{a,NULL}')",
        "SELECT headwater.register_subscriber('shop', 'new', mode => 'shared', event_types => '{}')",
        "SELECT headwater.register_subscriber('shop', 'new', event_types => '{a}')",
    ] {
        assert_eq!(sqlstate_of(&mut shop.session, script).await, "WH002", "{script}");
    }
    let unknown = "SELECT headwater.set_event_types('shop', 'nobody', '{a}')";
    assert_eq!(sqlstate_of(&mut shop.session, unknown).await, "WH012");
    run(&mut shop.session, "SELECT headwater.register_subscriber('shop', 'alone')").await;
    let alone = "SELECT headwater.set_event_types('shop', 'alone', '{a}')";
    assert_eq!(sqlstate_of(&mut shop.session, alone).await, "WH013");
}

#[tokio::test]
async fn a_claim_gets_what_the_queue_takes_and_settles_the_rest() {
    for wanted in [&["a", "b"][..], &["a*", "b*"]] {
        let mut shop = shop(wanted).await;
        shop.emit(&["a", "x", "b", "y", "x", "a", "z"]).await;
        let claims = shop.claim(10).await;
        assert_eq!(delivered(&claims), [[1, 3, 6]]);
        assert_eq!(left_behind(&mut shop).await, [""; 0]);
        for claim in claims {
            shop.queue.ack(claim.claim_id, None).await.unwrap();
        }
        assert_eq!(shop.claim(10).await, []);
        assert_eq!(shop.position().await, 7, "all of it is settled");
        assert_eq!(drain(&mut shop).await, [0; 0]);
    }
}

#[tokio::test]
async fn many_claims_pass_what_is_not_taken_on_every_path() {
    for (index, wanted) in [("none", "a"), ("types", "a"), ("none", "a*"), ("types", "a*")] {
        let mut shop = shop(&[wanted]).await;
        let types = format!("SELECT headwater.alter_namespace('shop', index => '{index}')");
        run(&mut shop.session, &types).await;
        run(
            &mut shop.session,
            "SELECT headwater.emit('shop', CASE WHEN i % 7 = 0 OR i BETWEEN 600 AND 900 THEN 'a' ELSE 'x' || i % 3 END)
               FROM generate_series(1, 3000) i",
        )
        .await;
        while shop.number("SELECT headwater.maintain_index('shop')").await > 0 {}
        let expected: Vec<u64> = (1..=3000).filter(|i| i % 7 == 0 || (600..=900).contains(i)).collect();
        let mut all = Vec::new();
        for room in [1, 3, 10, 40].into_iter().cycle() {
            let claims = shop.claim(room).await;
            if claims.is_empty() {
                break;
            }
            for claim in claims {
                all.extend(claim.events.iter().filter_map(|event| event.global_sequence));
                shop.queue.ack(claim.claim_id, None).await.unwrap();
            }
        }
        assert_eq!(all, expected, "{index} {wanted}");
        assert_eq!((shop.position().await, left_behind(&mut shop).await), (3000, vec![]));
        assert_eq!(drain(&mut shop).await, [0; 0]);
    }
}

#[tokio::test]
async fn workers_of_some_of_its_types_leave_only_those_of_others() {
    let mut shop = shop(&["a", "b*"]).await;
    shop.emit(&["b.1", "x", "a", "y", "b.2", "a"]).await;
    assert_eq!(delivered(&shop.claim_types(10, &["a"]).await), [[3, 6]]);
    assert_eq!(left_behind(&mut shop).await, ["b.1", "b.2"]);
    assert_eq!(delivered(&shop.claim_types(10, &["b.*"]).await), [[1, 5]]);
    assert_eq!(left_behind(&mut shop).await, [""; 0]);
    let all = ClaimRequest { event_types: vec!["*".into()], ..request() };
    shop.emit(&["b", "a", "x"]).await;
    assert_eq!(delivered(&shop.claim_with(all).await), [[7, 8]], "* is all that it takes");
}

#[tokio::test]
async fn a_claim_for_what_is_not_taken_names_it() {
    let mut shop = shop(&["a", "b.*"]).await;
    for events in [&[][..], &["a", "x"]] {
        shop.emit(events).await;
        let event_types = ["a", "b.c", "b*", "x"].map(String::from).to_vec();
        let refused = shop.queue.claim(&ClaimRequest { event_types, ..request() }).await;
        let Err(SubscriberError::InvalidInput(message)) = refused else { panic!("{refused:?}") };
        assert!(message.contains("does not take b*, x: it takes a, b.*"), "{message}");
    }
    assert_eq!(delivered(&shop.claim_types(10, &["b.*", "a"]).await), [[1]]);
}

#[tokio::test]
async fn what_no_claim_has_passed_goes_by_the_new_types() {
    let mut shop = shop(&["a"]).await;
    shop.emit(&["b", "a", "b"]).await;
    assert_eq!(delivered(&shop.claim(1).await), [[2]], "1 is settled");
    set(&shop, &["a", "b"]).await;
    assert_eq!(delivered(&shop.claim(9).await), [[3]]);
    shop.emit(&["b", "a", "c"]).await;
    assert_eq!(delivered(&shop.claim(9).await), [[4, 5]]);
    // Back to what was settled.
    shop.store.reset("work", 0).await.unwrap();
    assert_eq!(drain(&mut shop).await, [1, 2, 3, 4, 5]);
}

#[tokio::test]
async fn what_is_taken_no_more_is_not_left_behind_and_what_a_worker_had_becomes_a_letter() {
    let mut shop = shop(&["a", "b", "c"]).await;
    shop.emit(&["a", "b", "b", "c"]).await;
    assert_eq!(delivered(&shop.claim_types(1, &["b"]).await), [[2]], "1 is left behind");
    assert_eq!(delivered(&shop.claim_types(9, &["c"]).await), [[4]], "3 is left behind");
    let held = shop.number("SELECT count(*) FROM headwater_private.claims WHERE NOT done").await;
    assert_eq!((held, left_behind(&mut shop).await), (2, vec!["a".into(), "b".into()]));
    set(&shop, &["a"]).await;
    assert_eq!(left_behind(&mut shop).await, ["a"]);
    // Claims that are held go on: one is done, one fails.
    let claims = "SELECT claim_id FROM headwater_private.claims WHERE NOT done ORDER BY first_sequence";
    let held: Vec<uuid::Uuid> = sqlx::query_scalar(claims).fetch_all(&mut shop.session).await.unwrap();
    shop.queue.nack(held[0], None, std::time::Duration::ZERO, "no").await.unwrap();
    shop.queue.ack(held[1], None).await.unwrap();
    assert_eq!(drain(&mut shop).await, [1], "2 is no worker's");
    assert_eq!(shop.position().await, 4, "the claim that found it settled it");
    assert_eq!(settle(&mut shop).await, (0, 0));
    let letters = shop.store.dead_letters(&DeadLetterQuery::default()).await.unwrap();
    assert_eq!(letters.iter().map(|letter| letter.global_sequence()).collect::<Vec<_>>(), [2]);
    assert!(letters[0].error().contains("does not take events of this type"), "{}", letters[0].error());
    assert_eq!(letters[0].attempts.len(), 2, "the failure is kept");
    assert_eq!(drain(&mut shop).await, [0; 0]);
}

#[tokio::test]
async fn a_letter_that_is_redriven_and_taken_no_more_is_dead_again() {
    let mut shop = shop(&["a", "b"]).await;
    shop.emit(&["b"]).await;
    let claim = shop.claim(1).await.remove(0);
    shop.queue.reject(claim.claim_id, None, "hopeless").await.unwrap();
    set(&shop, &["a"]).await;
    for attempts in 2..4 {
        assert_eq!(shop.store.redrive(&DeadLetterQuery::default()).await.unwrap(), 1);
        assert_eq!(shop.claim(9).await, []);
        let letters = shop.store.dead_letters(&DeadLetterQuery::default()).await.unwrap();
        assert_eq!((letters.len(), letters[0].state.name(), letters[0].attempts.len()), (1, "dead", attempts));
        assert!(letters[0].error().contains("does not take events of this type"), "{}", letters[0].error());
        // If it stayed, the queue would never be idle, and each poll would look for it.
        assert_eq!(shop.number("SELECT count(*) FROM headwater_private.retries").await, 0);
    }
    assert_eq!(settle(&mut shop).await, (0, 0));
    assert_eq!(drain(&mut shop).await, [0; 0]);
}

/// Without a claim, what a worker handed back is settled by maintenance.
#[tokio::test]
async fn maintenance_settles_what_was_handed_back_and_is_taken_no_more() {
    let mut shop = shop(&["a", "b"]).await;
    shop.emit(&["b", "a", "b"]).await;
    let claim = shop.claim(3).await.remove(0);
    shop.queue.nack(claim.claim_id, None, std::time::Duration::ZERO, "no").await.unwrap();
    set(&shop, &["a"]).await;
    assert_eq!(settle(&mut shop).await, (0, 2));
    assert_eq!(settle(&mut shop).await, (0, 0));
    let letters = shop.store.dead_letters(&DeadLetterQuery::default()).await.unwrap();
    assert_eq!(letters.iter().map(|letter| letter.global_sequence()).collect::<Vec<_>>(), [1, 3]);
    assert_eq!(drain(&mut shop).await, [2]);
    assert_eq!(shop.position().await, 3);
}

/// A type for which there is only such an event is not given up for its new events.
#[tokio::test]
async fn what_is_taken_no_more_is_not_given_up_as_unhandled() {
    let mut shop = shop(&["a", "b"]).await;
    shop.emit(&["b"]).await;
    let claim = shop.claim(1).await.remove(0);
    shop.queue.nack(claim.claim_id, None, std::time::Duration::ZERO, "no").await.unwrap();
    set(&shop, &["a"]).await;
    let producer = "SELECT headwater.emit('shop', 'b', headers => '{\"producer_node_id\": \"n\"}')";
    run(&mut shop.session, producer).await;
    let reap = "SELECT letters FROM headwater.reap_unhandled('shop', '0', 'work')";
    assert_eq!(shop.number(reap).await, 0);
    assert_eq!(drain(&mut shop).await, [0; 0]);
    let letters = shop.store.dead_letters(&DeadLetterQuery::default()).await.unwrap();
    assert_eq!(letters.iter().map(|letter| letter.global_sequence()).collect::<Vec<_>>(), [1]);
    assert!(letters[0].error().contains("does not take events of this type"), "{}", letters[0].error());
    assert_eq!(shop.position().await, 2);
}

#[tokio::test]
async fn maintenance_passes_what_is_not_taken_and_stops_before_what_is() {
    let mut shop = shop(&["a"]).await;
    assert_eq!(settle(&mut shop).await, (0, 0));
    shop.emit(&["x", "y", "x", "a", "x"]).await;
    assert_eq!(settle(&mut shop).await, (3, 0));
    assert_eq!(shop.position().await, 3);
    assert_eq!(settle(&mut shop).await, (0, 0));
    assert_eq!(shop.number("SELECT count(*) FROM headwater_private.claims").await, 1, "and writes nothing again");
    assert_eq!(delivered(&shop.claim(9).await), [[4]]);
    assert_eq!(settle(&mut shop).await, (0, 0), "the claim has passed the rest");
    // Bounded: a step looks through a limited number of events.
    run(&mut shop.session, "SELECT headwater.emit('shop', 'x') FROM generate_series(1, 5000)").await;
    let step = "SELECT settled, more FROM headwater.settle_untaken('shop', 'work', 500)";
    let (settled, more): (i64, bool) = sqlx::query_as(step).fetch_one(&mut shop.session).await.unwrap();
    assert!((500..2_500).contains(&settled) && more, "{settled}");
}

#[tokio::test]
async fn a_queue_holds_no_month_for_what_it_does_not_take() {
    let db = TestDatabase::create().await;
    let log = db.log_with(NamespaceConfig::new("shop").storage(Storage::Own), LogOptions::default()).await;
    db.past_months("shop", 3, 3).await;
    db.keep_months("shop", 1).await;
    let store = PgSubscribers::new(db.database.clone(), log.info().clone(), SubscribersOptions::default());
    store.register(&taking(&["never"])).await.unwrap();
    store.register(&SubscriberConfig { subscriber_id: "all".into(), ..shared(StartFrom::Beginning) }).await.unwrap();
    let done = db.database.maintain("shop", false).await.unwrap();
    let (_, holders) = done.held.unwrap();
    assert!(holders.len() == 1 && holders[0].starts_with("all"), "{holders:?}");
    store.remove("all", true).await.unwrap();
    let done = db.database.maintain("shop", false).await.unwrap();
    assert!(done.held.is_none() && !done.trimmed.is_empty(), "{done:?}");
    assert!(done.trimmed.iter().all(|month| month.losers.is_empty()), "{done:?}");
}

#[tokio::test]
async fn a_change_waits_for_a_claim_that_is_open_and_counts_after_it() {
    let mut shop = shop(&["a"]).await;
    shop.emit(&["b", "a", "b"]).await;
    let (mut claimer, mut changer) = (shop.db.session().await, shop.db.session().await);
    run(&mut claimer, "BEGIN").await;
    assert_eq!(
        delivered(&shop.queue.claim_in(&mut claimer, &request()).await.unwrap()),
        [[2]],
        "it passes 3 as well, or not"
    );
    let waiting = pid(&mut changer).await;
    let change = tokio::spawn(async move { run(&mut changer, &set_types(&["a", "b"])).await });
    until_it_waits(&mut shop.session, waiting).await;
    // Committed before the change is.
    shop.emit(&["b"]).await;
    run(&mut claimer, "COMMIT").await;
    change.await.unwrap();
    shop.emit(&["b"]).await;
    assert!(drain(&mut shop).await.ends_with(&[4, 5]), "what came after the claim is taken");
}

#[tokio::test]
async fn a_claim_that_waited_for_a_change_goes_by_it() {
    let mut shop = shop(&["a"]).await;
    shop.emit(&["b", "a"]).await;
    let mut changer = shop.db.session().await;
    run(&mut changer, &format!("BEGIN; {}", set_types(&["a", "b"]))).await;
    let mut claimer = shop.db.session().await;
    let waiting = pid(&mut claimer).await;
    let queue = shop.queue.clone();
    let claim = tokio::spawn(async move { queue.claim_in(&mut claimer, &request()).await });
    until_it_waits(&mut shop.session, waiting).await;
    run(&mut changer, "COMMIT").await;
    assert_eq!(delivered(&claim.await.unwrap().unwrap()), [[1, 2]], "what it knew before it waited counts no more");
}

#[tokio::test]
async fn a_registration_that_waited_for_another_adds_to_it() {
    let mut shop = shop(&["a"]).await;
    let mut first = shop.db.session().await;
    let register = |types: &str| {
        format!("SELECT headwater.register_subscriber('shop', 'work', mode => 'shared', event_types => '{{{types}}}')")
    };
    run(&mut first, &format!("BEGIN; {}", register("b"))).await;
    let mut second = shop.db.session().await;
    let (waiting, also) = (pid(&mut second).await, register("c"));
    let other = tokio::spawn(async move { run(&mut second, &also).await });
    until_it_waits(&mut shop.session, waiting).await;
    run(&mut first, "COMMIT").await;
    other.await.unwrap();
    assert_eq!(takes(&mut shop).await.unwrap(), ["a", "b", "c"]);
}

#[tokio::test]
async fn two_that_make_a_queue_at_the_same_time_make_it_for_both() {
    let mut shop = Shop::open(0).await;
    let make = |types: &str| {
        format!("SELECT headwater.register_subscriber('shop', 'new', mode => 'shared', event_types => '{{{types}}}')")
    };
    let (mut first, mut second) = (shop.db.session().await, shop.db.session().await);
    run(&mut first, &format!("BEGIN; {}", make("a"))).await;
    let (waiting, also) = (pid(&mut second).await, make("b"));
    let other = tokio::spawn(async move { run(&mut second, &also).await });
    until_it_waits(&mut shop.session, waiting).await;
    run(&mut first, "COMMIT").await;
    other.await.unwrap();
    let both = "SELECT count(*) FROM headwater.queue_status('shop', 'new') WHERE event_types = '{a,b}'";
    assert_eq!(shop.number(both).await, 1);
}

#[tokio::test]
async fn maintenance_leaves_a_queue_that_is_claimed_from_to_the_claim() {
    let mut shop = shop(&["a"]).await;
    shop.emit(&["x", "a", "x"]).await;
    let mut claimer = shop.db.session().await;
    run(&mut claimer, "BEGIN").await;
    assert_eq!(delivered(&shop.queue.claim_in(&mut claimer, &request()).await.unwrap()), [[2]]);
    let rows = "SELECT count(*) FROM headwater.settle_untaken('shop')";
    assert_eq!(shop.number(rows).await, 0, "it does not wait");
    run(&mut claimer, "ROLLBACK").await;
    assert_eq!(settle(&mut shop).await, (1, 0));
    assert_eq!(drain(&mut shop).await, [2]);
}

/// A queue that another session is making is locked by it, though its row cannot be seen yet.
#[tokio::test]
async fn maintenance_leaves_a_queue_that_is_being_made() {
    let mut shop = shop(&["a"]).await;
    shop.emit(&["x"]).await;
    run(&mut shop.session, "DELETE FROM headwater_private.queues").await;
    let mut claimer = shop.db.session().await;
    run(&mut claimer, "BEGIN").await;
    assert_eq!(shop.queue.claim_in(&mut claimer, &request()).await.unwrap(), []);
    run(&mut shop.session, "SET statement_timeout = '10s'").await;
    assert_eq!(shop.number("SELECT count(*) FROM headwater.settle_untaken('shop')").await, 0, "it does not wait");
    run(&mut claimer, "ROLLBACK").await;
    assert_eq!(settle(&mut shop).await, (1, 0));
}

/// Its claims would wait until the call has settled the others.
#[tokio::test]
async fn a_step_of_maintenance_that_has_done_enough_locks_no_other_queue() {
    let mut shop = shop(&["a"]).await;
    let other = SubscriberConfig { subscriber_id: "other".into(), ..taking(&["a"]) };
    shop.store.register(&other).await.unwrap();
    run(&mut shop.session, "SELECT headwater.emit('shop', 'x') FROM generate_series(1, 3000)").await;
    shop.emit(&["a"]).await;
    let step = "SELECT subscriber_id, settled > 0, more FROM headwater.settle_untaken('shop', max_scan => 500)";
    let mut keeper = shop.db.session().await;
    run(&mut keeper, "BEGIN").await;
    let done: Vec<(String, bool, bool)> = sqlx::query_as(step).fetch_all(&mut keeper).await.unwrap();
    assert_eq!(done, [("other".into(), true, true), ("work".into(), false, true)]);
    let mut claimer = shop.db.session().await;
    run(&mut claimer, "SET statement_timeout = '10s'").await;
    assert_eq!(delivered(&shop.queue.claim_in(&mut claimer, &request()).await.unwrap()), [[3001]]);
    run(&mut keeper, "ROLLBACK").await;
    // The queue that is furthest behind has its turn, and all is done after some steps.
    let mut steps = 0;
    while shop.number("SELECT count(*) FROM headwater.settle_untaken('shop', max_scan => 500) WHERE more").await > 0 {
        steps += 1;
        assert!(steps < 20);
    }
    let there = "SELECT min(frontier) FROM headwater.queue_status('shop')";
    assert_eq!((shop.number(there).await, steps > 0), (3000, true));
}

#[tokio::test]
async fn a_claim_waits_for_maintenance_and_loses_nothing_to_it() {
    let mut shop = shop(&["a"]).await;
    shop.emit(&["x", "x", "a"]).await;
    let mut keeper = shop.db.session().await;
    run(&mut keeper, "BEGIN; SELECT headwater.settle_untaken('shop')").await;
    let mut claimer = shop.db.session().await;
    let waiting = pid(&mut claimer).await;
    let queue = shop.queue.clone();
    let claim = tokio::spawn(async move { queue.claim_in(&mut claimer, &request()).await });
    until_it_waits(&mut shop.session, waiting).await;
    run(&mut keeper, "COMMIT").await;
    assert_eq!(delivered(&claim.await.unwrap().unwrap()), [[3]]);
}

/// The first event of `late` is in flight while the queue passes it, with this many claims or steps
/// of maintenance. Then the types change, and it commits.
async fn late(late: &str, by_claim: bool, before: &[&str], after: &[&str]) -> (Shop, Vec<u64>) {
    let mut shop = shop(before).await;
    let mut early = shop.db.session().await;
    run(&mut early, "BEGIN").await;
    assert_eq!(emit(&mut early, "shop", late).await, 1);
    shop.emit(&["x", "x"]).await;
    if by_claim {
        assert_eq!(shop.claim(9).await, []);
    } else {
        assert_eq!(settle(&mut shop).await, (3, 0));
    }
    assert_eq!(shop.store.subscriber("work").await.unwrap().pending_gaps, [(1, 1)]);
    set(&shop, after).await;
    run(&mut early, "COMMIT").await;
    let all = drain(&mut shop).await;
    (shop, all)
}

#[tokio::test]
async fn an_event_that_commits_late_goes_by_the_types_of_then() {
    for by_claim in [true, false] {
        for (types_before, types_after, taken) in [
            (&["late"][..], &["late"][..], true),
            (&["other"], &["other"], false),
            (&["other"], &["other", "la*"], true),
            (&["late", "other"], &["other"], false),
            (&["other"], &["*"], true),
        ] {
            let (mut shop, all) = late("late", by_claim, types_before, types_after).await;
            assert_eq!(all, if taken { &[1][..] } else { &[] }, "{types_before:?} {types_after:?}");
            assert_eq!((shop.position().await, left_behind(&mut shop).await), (3, vec![]));
        }
    }
}

#[tokio::test]
async fn maintenance_closes_gaps_and_leaves_what_is_taken_to_claims() {
    for (event_type, position) in [("late", 0), ("x", 3)] {
        let mut shop = shop(&["late"]).await;
        let mut early = shop.db.session().await;
        run(&mut early, "BEGIN").await;
        emit(&mut early, "shop", event_type).await;
        shop.emit(&["x", "x"]).await;
        assert_eq!(shop.claim(9).await, []);
        run(&mut early, "COMMIT").await;
        settle(&mut shop).await;
        assert_eq!(shop.position().await, position);
        assert_eq!(drain(&mut shop).await.len(), usize::from(position == 0));
        assert_eq!(shop.position().await, 3);
    }
}
