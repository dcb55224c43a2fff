//! What a claim costs while a snapshot is held elsewhere, so that no row that is gone can be removed: as much as without.

use crate::common::queue::Shop;
use crate::common::run;
use sqlx::{AssertSqlSafe, PgConnection, Row};

const CYCLES: usize = 1_500;

/// Pages that a statement touches, at best: the first to use a page may have to look for one.
async fn pages(session: &mut PgConnection, statement: &str) -> u64 {
    let mut least = u64::MAX;
    for _ in 0..5 {
        run(session, "BEGIN").await;
        let explain = format!("EXPLAIN (ANALYZE, BUFFERS) {statement}");
        let plan = sqlx::query(AssertSqlSafe(explain)).fetch_all(&mut *session).await.unwrap();
        run(session, "ROLLBACK").await;
        let line = plan.iter().map(|row| row.get::<String, _>(0)).find(|line| line.contains("Buffers: shared"));
        let counts = line.expect("it reads something").replace("Buffers: shared", "");
        let touched =
            counts.split_whitespace().filter(|count| !count.starts_with("dirtied") && !count.starts_with("written"));
        least = least.min(touched.filter_map(|count| count.split_once('=')?.1.parse::<u64>().ok()).sum());
    }
    least
}

/// Claims and settles again and again, beside a held snapshot; answers the pages of a claim, early and late, and of an ack.
async fn cycles(claim: &str, settle: &str) -> ([u64; 2], [u64; 2]) {
    let mut shop = Shop::open(0).await;
    run(&mut shop.session, "SELECT headwater.emit('shop', 'event') FROM generate_series(1, 2000)").await;
    let mut holder = shop.db.session().await;
    run(&mut holder, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM headwater_private.claims").await;
    let cycle = format!(
        "DO $$ DECLARE claim record; BEGIN FOR claim IN SELECT claim_id, redelivery_count FROM {claim} LOOP {settle} END LOOP; END $$"
    );
    let ack = "SELECT headwater.ack('shop', 'work', claim_id) FROM headwater_private.claims WHERE number =
                 (SELECT max(number) FROM headwater_private.claims WHERE NOT done)";
    let (mut claims, mut acks) = ([0; 2], [0; 2]);
    for (nth, count) in [50, CYCLES].into_iter().enumerate() {
        for _ in 0..count {
            run(&mut shop.session, &cycle).await;
        }
        claims[nth] = pages(&mut shop.session, &format!("SELECT * FROM {claim}")).await;
        run(&mut shop.session, &format!("SELECT * FROM {claim}")).await;
        // One that names its claim: the search for it is not what is measured.
        let mut queries = sqlx::query_scalar::<_, uuid::Uuid>(
            "SELECT claim_id FROM headwater_private.claims WHERE NOT done ORDER BY number DESC LIMIT 1",
        )
        .fetch_all(&mut shop.session)
        .await
        .unwrap();
        let claim_id = queries.remove(0);
        acks[nth] = pages(&mut shop.session, &format!("SELECT headwater.ack('shop', 'work', '{claim_id}')")).await;
        run(&mut shop.session, ack).await;
    }
    let gone = "SELECT pg_relation_size('headwater_private.claims') / 8192";
    assert!(shop.number(gone).await > 30, "the rows that are gone are there, or this test would show nothing");
    (claims, acks)
}

fn does_not_grow([early, late]: [u64; 2]) {
    assert!(late <= early + early / 2, "{early} pages early, {late} late");
}

#[tokio::test]
async fn a_claim_does_not_pass_over_claims_that_are_gone() {
    let claim = "headwater.claim('shop', 'work', 1, visibility => '1 hour')";
    let (claims, acks) = cycles(claim, "PERFORM headwater.ack('shop', 'work', claim.claim_id);").await;
    does_not_grow(claims);
    does_not_grow(acks);
}

#[tokio::test]
async fn a_claim_does_not_pass_over_claims_whose_time_has_come_and_gone() {
    let claim = "headwater.claim('shop', 'work', 1, visibility => '1 microsecond')";
    let (claims, acks) = cycles(claim, "PERFORM headwater.ack('shop', 'work', claim.claim_id);").await;
    does_not_grow(claims);
    does_not_grow(acks);
}

#[tokio::test]
async fn a_claim_does_not_pass_over_retries_that_are_gone() {
    let claim = "headwater.claim('shop', 'work', 1)";
    let settle = "IF claim.redelivery_count = 0 THEN PERFORM headwater.nack('shop', 'work', claim.claim_id);
                  ELSE PERFORM headwater.ack('shop', 'work', claim.claim_id); END IF;";
    let (claims, acks) = cycles(claim, settle).await;
    does_not_grow(claims);
    does_not_grow(acks);
}
