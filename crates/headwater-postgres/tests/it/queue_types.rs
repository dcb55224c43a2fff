//! Workers that name the types they want: an empty answer means that nothing is left, and nobody
//! gets another worker's events.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::common::queue::{Shop, delivered, request, sequences};
use crate::common::{emit, raw, run};
use headwater_core::{Append, ClaimRequest, EventLog, OperatorStore};
use sqlx::{AssertSqlSafe, Row};

/// Claims in SQL: the sequences; NULL where there may be more.
async fn claim(shop: &mut Shop, types: &str, more: &str) -> Vec<Option<i64>> {
    let query = format!("SELECT global_sequence FROM headwater.claim('shop', 'work', event_types => {types}{more})");
    let rows = sqlx::query(AssertSqlSafe(query)).fetch_all(&mut shop.session).await.expect("failed to claim");
    rows.iter().map(|row| row.get(0)).collect()
}

#[tokio::test]
async fn a_loop_until_nothing_is_left_finds_what_is_rare() {
    let mut shop = Shop::open(0).await;
    for _ in 0..20 {
        let many = (0..10_000).fold(Append::new(), |append, _| append.event(raw("a")));
        shop.log.append(many).await.unwrap();
    }
    shop.emit(&["b", "c", "b.other"]).await;
    assert_eq!(claim(&mut shop, "'{b}'", "").await, [Some(200_001)], "the first answer has it");
    assert_eq!(claim(&mut shop, "'{b}'", "").await, []);
    assert_eq!(delivered(&shop.claim_types(10, &["none", "c"]).await), [[200_002]], "left behind by the claim before");
    assert_eq!(claim(&mut shop, "'{*.other}'", "").await, [Some(200_003)]);
    // Another queue, and patterns.
    shop.store.reset("work", 0).await.unwrap();
    assert_eq!(delivered(&shop.claim_types(10, &["b*", "c"]).await), [[200_001, 200_002, 200_003]]);
    assert_eq!(shop.claim(1_000).await[0].events.len(), 1_000);
}

#[tokio::test]
async fn what_is_left_behind_is_looked_through_to_its_end() {
    let mut shop = Shop::open(0).await;
    run(
        &mut shop.session,
        "SELECT headwater.emit('shop', CASE WHEN i IN (1, 12000) THEN 'rare' WHEN i % 2 = 0 THEN 'a' ELSE 'b' END)
           FROM generate_series(1, 12000) i",
    )
    .await;
    let last = shop.claim_types(1, &["none"]).await;
    assert_eq!(
        (last, shop.number("SELECT max((state).frontier) FROM headwater_private.claims").await),
        (vec![], 12_000)
    );
    assert_eq!(claim(&mut shop, "'{rare}'", ", max_events => 1").await, [Some(1)]);
    assert_eq!(claim(&mut shop, "'{rare}'", ", max_events => 1").await, [Some(12_000)]);
    assert_eq!(claim(&mut shop, "'{rare}'", "").await, []);
    let both = claim(&mut shop, "'{a,b}'", ", max_events => 5").await;
    assert_eq!(both, [Some(2), Some(3), Some(4), Some(5), Some(6)], "in the order of the log");
}

#[tokio::test]
async fn a_call_that_may_look_no_further_says_so_and_the_next_goes_on() {
    let mut shop = Shop::open(0).await;
    run(&mut shop.session, "SELECT headwater.emit('shop', 'a') FROM generate_series(1, 3000)").await;
    shop.emit(&["b"]).await;
    let mut calls = 0;
    loop {
        let found = claim(&mut shop, "'{b}'", ", max_scan => 500").await;
        calls += 1;
        match found[..] {
            [None] => continue,
            [Some(3_001)] => break,
            _ => panic!("{found:?}"),
        }
    }
    assert!((3..=7).contains(&calls), "{calls} calls");
    assert_eq!(claim(&mut shop, "'{b}'", ", max_scan => 500").await, []);
    // In what was left behind as well.
    assert_eq!(claim(&mut shop, "'{c}'", ", max_scan => 500").await, []);
    run(&mut shop.session, "UPDATE headwater_private.claims SET state.open = array_append((state).open, ROW(1, 3001, 'x')::headwater_private.open_range)").await;
    assert_eq!(claim(&mut shop, "'{x}'", ", max_scan => 500").await, [None]);
    assert_eq!(claim(&mut shop, "'{x}'", ", max_scan => 5000").await, []);
    let refused =
        crate::common::sqlstate_of(&mut shop.session, "SELECT headwater.claim('shop', 'work', max_scan => 0)").await;
    assert_eq!(refused, "WH002");
}

#[tokio::test]
async fn many_late_events_hide_none_of_another_type() {
    let mut shop = Shop::open(1).await;
    let mut early = shop.db.session().await;
    run(&mut early, "BEGIN; SELECT headwater.emit('shop', CASE i WHEN 10500 THEN 'y' ELSE 'x' || i % 2 END) FROM generate_series(1, 10500) i").await;
    shop.emit(&["event"]).await;
    assert_eq!(delivered(&shop.claim(9).await), [[1, 10_502]]);
    run(&mut early, "COMMIT").await;
    assert_eq!(claim(&mut shop, "'{y}'", "").await, [Some(10_501)]);
    let ranges = "SELECT cardinality((state).open)::bigint FROM headwater_private.claims ORDER BY number DESC LIMIT 1";
    assert!(shop.number(ranges).await <= 4, "a range for each type, or one more where a look ended");
    let all = shop.drain().await;
    assert_eq!((all.len(), all.iter().collect::<BTreeSet<_>>().len()), (10_499, 10_499));
}

/// The same numbers each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// Workers with all kinds of types claim, ack and hand back, while events appear late and
/// transactions are rolled back. Each event is acked once.
#[tokio::test]
async fn workers_of_any_types_get_each_event_once() {
    for seed in 1..=4 {
        each_event_once(seed, false).await;
    }
}

#[tokio::test]
async fn workers_of_any_types_get_each_event_once_by_the_index() {
    for seed in 1..=4 {
        each_event_once(seed, true).await;
    }
}

/// `indexed`: with an index by type, and now and then so many events at once that it is asked.
async fn each_event_once(seed: u64, indexed: bool) {
    const TYPES: [&str; 5] = ["a", "b", "b.x", "c", "c.y"];
    const ASKED: [&[&str]; 7] = [&[], &["a"], &["b*"], &["a", "c"], &["*.y", "b"], &["c*", "a"], &["none"]];
    let mut dice = Dice(seed);
    let mut shop = Shop::open(0).await;
    if indexed {
        run(&mut shop.session, "SELECT headwater.alter_namespace('shop', index => 'types')").await;
    }
    let mut writers = [shop.db.session().await, shop.db.session().await];
    let mut open = [false; 2];
    let mut acked: Vec<u64> = Vec::new();
    let mut held = Vec::new();
    for step in 0..250 {
        for _ in 0..dice.roll(6) {
            emit(&mut shop.session, "shop", TYPES[dice.roll(5) as usize]).await;
        }
        if indexed && dice.roll(50) == 0 {
            let many = format!(
                "SELECT headwater.emit('shop', '{}') FROM generate_series(1, 300)",
                TYPES[dice.roll(5) as usize]
            );
            run(&mut shop.session, &many).await;
        }
        let nth = dice.roll(2) as usize;
        match (open[nth], dice.roll(4)) {
            (false, 0) => {
                run(&mut writers[nth], "BEGIN").await;
                for _ in 0..1 + dice.roll(3) {
                    emit(&mut writers[nth], "shop", TYPES[dice.roll(5) as usize]).await;
                }
                open[nth] = true;
            }
            (true, 0) => {
                run(&mut writers[nth], if dice.roll(3) == 0 { "ROLLBACK" } else { "COMMIT" }).await;
                open[nth] = false;
            }
            _ => {}
        }
        let types = ASKED[dice.roll(7) as usize];
        let per_claim = (dice.roll(2) == 0).then(|| 1 + dice.roll(3) as u32);
        let asked = ClaimRequest {
            max_events: 1 + dice.roll(6) as u32,
            event_types: types.iter().map(|event_type| event_type.to_string()).collect(),
            per_claim,
            // Nothing becomes a dead letter.
            max_attempts: 1_000,
            ..request()
        };
        let claims = shop.claim_with(asked.clone()).await;
        let events: usize = claims.iter().map(|claim| claim.events.len()).sum();
        assert!(events <= asked.max_events as usize, "seed {seed}, step {step}: {claims:?}");
        held.extend(claims);
        while held.len() > 4 {
            let claim: headwater_core::Claim = held.swap_remove(dice.roll(held.len() as u64) as usize);
            if dice.roll(5) == 0 {
                shop.queue.nack(claim.claim_id, None, Duration::ZERO, "no").await.unwrap();
            } else {
                acked.extend(sequences(&claim));
                shop.queue.ack(claim.claim_id, None).await.unwrap();
            }
        }
        if step % 10 == 0 {
            let problems = "SELECT count(*) FROM headwater.audit_queues('shop')";
            assert_eq!(shop.number(problems).await, 0, "seed {seed}, step {step}");
        }
    }
    for writer in &mut writers {
        run(writer, "COMMIT").await;
    }
    for claim in held {
        acked.extend(sequences(&claim));
        shop.queue.ack(claim.claim_id, None).await.unwrap();
    }
    // By their types, and at last by none.
    for types in [&["a"][..], &["b*"], &["c", "c.y"], &[]] {
        loop {
            let claims = shop.claim_types(if indexed { 50 } else { 7 }, types).await;
            for claim in &claims {
                acked.extend(sequences(claim));
                shop.queue.ack(claim.claim_id, None).await.unwrap();
            }
            if claims.is_empty() {
                break;
            }
            assert_ne!(types.len(), 0, "seed {seed}: {claims:?} was left when each type had been asked for");
        }
    }
    acked.sort_unstable();
    let all: Vec<i64> =
        sqlx::query_scalar("SELECT global_sequence FROM headwater.read_log('shop', max_events => 100000) ORDER BY 1")
            .fetch_all(&mut shop.session)
            .await
            .unwrap();
    assert_eq!(acked, all.iter().map(|sequence| *sequence as u64).collect::<Vec<_>>(), "seed {seed}");
}

/// Claims by type are quick where the log has runs of one type, or two types in turn: they remember
/// what they saw. Whatever the order of claims, each claim gets only the types it asked for, and
/// each event goes to one claim.
#[tokio::test]
async fn runs_of_a_type_are_claimed_once_and_by_those_who_want_it() {
    const ASKED: [&[&str]; 7] = [&[], &["a"], &["b"], &["a", "b"], &["b", "a", "c"], &["a*", "b*"], &["c"]];
    for seed in 1..=6 {
        let mut dice = Dice(seed);
        let mut shop = Shop::open(0).await;
        let (mut emitted, mut acked) = (0, Vec::new());
        for step in 0..200 {
            if dice.roll(3) == 0 {
                let kind =
                    ["'a'", "'a'", "'b'", "(ARRAY['a', 'b'])[1 + n % 2]", "(ARRAY['a', 'a', 'b', 'c'])[1 + n % 4]"];
                let count = 1 + dice.roll(120);
                let kind = kind[dice.roll(5) as usize];
                let emit = format!("SELECT headwater.emit('shop', {kind}) FROM generate_series(1, {count}) n");
                run(&mut shop.session, &emit).await;
                emitted += count;
            }
            // Now and then a claim looks for what has expired, which takes the longer way.
            if dice.roll(4) > 0 {
                shop.look_never().await;
            }
            // Most often the same ones claim again.
            let types = ASKED[if dice.roll(4) == 0 { dice.roll(7) } else { seed } as usize];
            for claim in shop.claim_types(1 + dice.roll(12) as u32 * (1 + dice.roll(6) as u32), types).await {
                for event in &claim.events {
                    let wanted = types.iter().any(|wanted| wanted.trim_end_matches('*') == event.event_type);
                    assert!(types.is_empty() || wanted, "seed {seed}, step {step}: {types:?} got {event:?}");
                }
                acked.extend(sequences(&claim));
                shop.queue.ack(claim.claim_id, None).await.unwrap();
            }
        }
        for types in [&["a", "b"][..], &["c"]] {
            loop {
                let claims = shop.claim_types(50, types).await;
                for claim in &claims {
                    acked.extend(sequences(claim));
                    shop.queue.ack(claim.claim_id, None).await.unwrap();
                }
                if claims.is_empty() {
                    break;
                }
            }
        }
        acked.sort_unstable();
        let sequences = "SELECT array_agg(global_sequence) FROM headwater.read_log('shop', max_events => 100000)";
        let all: Vec<i64> = sqlx::query_scalar(sequences).fetch_one(&mut shop.session).await.unwrap();
        assert_eq!(all.len() as u64, emitted, "seed {seed}");
        assert_eq!(acked, all.iter().map(|sequence| *sequence as u64).collect::<Vec<_>>(), "seed {seed}");
    }
}

/// A late event is left behind for its type, and so are the next events of this type, but not the
/// claimed events between them.
#[tokio::test]
async fn what_is_passed_does_not_join_what_was_left_far_behind() {
    let mut shop = Shop::open(0).await;
    let mut late = shop.db.session().await;
    run(&mut late, "BEGIN").await;
    assert_eq!(emit(&mut late, "shop", "b").await, 1);
    shop.emit(&["b", "b", "a"]).await;
    assert_eq!(claim(&mut shop, "NULL", "").await, [Some(2), Some(3), Some(4)]);
    run(&mut late, "COMMIT").await;
    assert_eq!(claim(&mut shop, "'{a}'", "").await, []);
    shop.emit(&["b", "a", "b", "a"]).await;
    shop.look_never().await;
    assert_eq!(claim(&mut shop, "'{a}'", ", max_events => 2").await, [Some(6), Some(8)]);
    shop.look_never().await;
    assert_eq!(claim(&mut shop, "'{b}'", "").await, [Some(1), Some(5), Some(7)]);
    assert_eq!(claim(&mut shop, "NULL", "").await, []);
}

/// What a claim by patterns saw says nothing to one that names a type of the same letters.
#[tokio::test]
async fn a_pattern_is_no_type_of_its_letters() {
    let mut shop = Shop::open(0).await;
    shop.emit(&["a"; 3]).await;
    assert_eq!(claim(&mut shop, "'{a}'", ", max_events => 2").await, [Some(1), Some(2)]);
    shop.look_never().await;
    shop.emit(&["ab"; 40]).await;
    assert_eq!(claim(&mut shop, "'{a,a*}'", ", max_events => 2").await, [Some(3), Some(4)]);
    let of_patterns = "SELECT count(*) FROM headwater_private.claims WHERE 'a*' = ANY ((state).known_of)";
    assert_eq!(shop.number(of_patterns).await, 0);
}

/// Events from beyond the frontier can have every type, even if events of one type were left behind
/// and are taken first.
#[tokio::test]
async fn what_is_new_is_not_narrowed_to_the_type_that_was_left_behind() {
    let mut shop = Shop::open(0).await;
    shop.emit(&["a", "b", "c", "c", "c", "c", "c"]).await;
    // This one looks at all of them.
    assert_eq!(delivered(&shop.claim(1).await), [[1]]);
    shop.look_never().await;
    assert_eq!(delivered(&shop.claim_types(1, &["c"]).await), [[3]]);
    assert_eq!(delivered(&shop.claim(3).await), [vec![2], vec![4, 5]]);
    assert_eq!(delivered(&shop.claim(10).await), [[6, 7]]);
}

#[tokio::test]
async fn a_claim_without_its_events_is_read_later() {
    let mut shop = Shop::open(0).await;
    shop.emit(&["a", "b", "a", "a"]).await;
    let claim = "SELECT claim_id, global_sequence FROM headwater.claim('shop', 'work', 2, event_types => '{a}', with_events => false)";
    let rows = sqlx::query(claim).fetch_all(&mut shop.session).await.unwrap();
    let claim_id: uuid::Uuid = rows[0].get(0);
    assert_eq!((rows.len(), rows[0].get::<Option<i64>, _>(1)), (1, None));
    let read = "SELECT global_sequence FROM headwater.read_claims($1, 'work', ARRAY[$2, gen_random_uuid(), NULL])";
    let read = async |session: &mut sqlx::PgConnection, namespace: &str| {
        sqlx::query_scalar::<_, i64>(read).bind(namespace).bind(claim_id).fetch_all(session).await
    };
    assert_eq!(read(&mut shop.session, "shop").await.unwrap(), [1, 3]);
    run(&mut shop.session, "SELECT headwater.create_namespace('other')").await;
    assert_eq!(read(&mut shop.session, "other").await.unwrap(), [] as [i64; 0], "it is a claim of another namespace");
    run(&mut shop.session, &format!("SELECT headwater.ack('shop', 'work', '{claim_id}', '{{1}}')")).await;
    assert_eq!(read(&mut shop.session, "shop").await.unwrap(), [3]);
    shop.queue.ack(claim_id, None).await.unwrap();
    assert_eq!(read(&mut shop.session, "shop").await.unwrap(), [] as [i64; 0]);
    assert!(read(&mut shop.session, "none").await.is_err());
}

/// A claim that has looked far and found nothing answers a row without a claim, which can be acked,
/// handed back and extended like any other: so a call that does both at once is not rolled back,
/// and the next one looks on.
#[tokio::test]
async fn what_found_nothing_can_be_acked() {
    let mut shop = Shop::open(0).await;
    run(
        &mut shop.session,
        "SELECT headwater.emit('shop', CASE i WHEN 30000 THEN 'rare' ELSE 'common' END) FROM generate_series(1, 30000) i",
    )
    .await;
    for settle in [
        "ack('shop', 'work', c.claim_id)",
        "ack('shop', 'work', c.claim_id, ARRAY[c.global_sequence])",
        "nack('shop', 'work', c.claim_id)",
        "extend('shop', 'work', c.claim_id, '1 minute')",
    ] {
        let call = format!(
            "SELECT c.global_sequence, headwater.{settle}::text FROM headwater.claim('shop', 'work', event_types => '{{rare}}', max_scan => 500) c"
        );
        let (sequence, _): (Option<i64>, Option<String>) =
            sqlx::query_as(sqlx::AssertSqlSafe(call)).fetch_one(&mut shop.session).await.unwrap();
        assert_eq!(sequence, None);
    }
    let call = "SELECT c.global_sequence, headwater.ack('shop', 'work', c.claim_id)::text
                  FROM headwater.claim('shop', 'work', event_types => '{rare}', max_scan => 500) c";
    let mut calls = 4;
    loop {
        let (sequence, _): (Option<i64>, Option<String>) =
            sqlx::query_as(call).fetch_one(&mut shop.session).await.unwrap();
        calls += 1;
        if sequence == Some(30_000) {
            break;
        }
        assert!(calls < 40, "each goes on where the last one stopped");
    }
    let none = sqlx::query(call).fetch_all(&mut shop.session).await.unwrap();
    assert_eq!(none.len(), 0);
}
