//! What a claim costs while a snapshot is held elsewhere, so that no dead row can be removed: the
//! same as without the snapshot.

use crate::common::queue::Shop;
use crate::common::run;
use headwater_testing::TestDatabase;
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

/// Sets when the queue of `shop` must search again for expired or due work. Otherwise the clock
/// would decide what a claim does.
async fn look_at(session: &mut PgConnection, when: &str) -> uuid::Uuid {
    let set = format!(
        "UPDATE headwater_private.claims SET state.look_at = '{when}'
          WHERE number = (SELECT max(c.number) FROM headwater_private.claims c JOIN headwater_private.namespaces n USING (namespace_id)
                           WHERE n.namespace = 'shop') RETURNING claim_id"
    );
    sqlx::query_scalar(AssertSqlSafe(set)).fetch_one(session).await.unwrap()
}

/// Claims and settles again and again, beside a held snapshot. Returns the pages of a claim that
/// searches for nothing else, of a claim that searches for everything, and of an ack: each early
/// and late.
async fn cycles(claim: &str, settle: &str) -> [[u64; 2]; 3] {
    let mut shop = Shop::open(0).await;
    run(&mut shop.session, "SELECT headwater.emit('shop', 'event') FROM generate_series(1, 2000)").await;
    let mut holder = shop.db.session().await;
    run(&mut holder, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM headwater_private.claims").await;
    let cycle = format!(
        "DO $$ DECLARE claim record; BEGIN FOR claim IN SELECT claim_id, redelivery_count FROM {claim} LOOP {settle} END LOOP; END $$"
    );
    let ack = "SELECT headwater.ack('shop', 'work', claim_id) FROM headwater_private.claims WHERE number =
                 (SELECT max(number) FROM headwater_private.claims WHERE NOT done)";
    let mut touched = [[0; 2]; 3];
    for (nth, count) in [50, CYCLES].into_iter().enumerate() {
        for _ in 0..count {
            run(&mut shop.session, &cycle).await;
        }
        for (kind, when) in ["infinity", "-infinity"].into_iter().enumerate() {
            look_at(&mut shop.session, when).await;
            touched[kind][nth] = pages(&mut shop.session, &format!("SELECT * FROM {claim}")).await;
        }
        run(&mut shop.session, &format!("SELECT * FROM {claim}")).await;
        // One that names its claim: the search for it is not what is measured.
        let mut queries = sqlx::query_scalar::<_, uuid::Uuid>(
            "SELECT claim_id FROM headwater_private.claims WHERE NOT done ORDER BY number DESC LIMIT 1",
        )
        .fetch_all(&mut shop.session)
        .await
        .unwrap();
        let claim_id = queries.remove(0);
        touched[2][nth] =
            pages(&mut shop.session, &format!("SELECT headwater.ack('shop', 'work', '{claim_id}')")).await;
        run(&mut shop.session, ack).await;
    }
    let gone = "SELECT pg_relation_size('headwater_private.claims') / 8192";
    assert!(shop.number(gone).await > 30, "the rows that are gone are there, or this test would show nothing");
    touched
}

fn does_not_grow(touched: [[u64; 2]; 3]) {
    for [early, late] in touched {
        assert!(late <= early + early / 2, "{early} pages early, {late} late: {touched:?}");
    }
}

#[tokio::test]
async fn a_claim_does_not_pass_over_claims_that_are_gone() {
    let claim = "headwater.claim('shop', 'work', 1, visibility => '1 hour')";
    does_not_grow(cycles(claim, "PERFORM headwater.ack('shop', 'work', claim.claim_id);").await);
}

#[tokio::test]
async fn a_claim_does_not_pass_over_claims_whose_time_has_come_and_gone() {
    let claim = "headwater.claim('shop', 'work', 1, visibility => '1 microsecond')";
    does_not_grow(cycles(claim, "PERFORM headwater.ack('shop', 'work', claim.claim_id);").await);
}

#[tokio::test]
async fn a_claim_does_not_pass_over_retries_that_are_gone() {
    let claim = "headwater.claim('shop', 'work', 1)";
    let settle = "IF claim.redelivery_count = 0 THEN PERFORM headwater.nack('shop', 'work', claim.claim_id);
                  ELSE PERFORM headwater.ack('shop', 'work', claim.claim_id); END IF;";
    does_not_grow(cycles(claim, settle).await);
}

/// How many events the claims of these tests have.
const BATCH: i32 = 100;

/// A queue of `shop` at the end of the log, with events to claim.
async fn waiting(db: &TestDatabase) -> PgConnection {
    let mut session = db.session().await;
    let fill = format!(
        "SELECT headwater.register_subscriber('shop', 'work', 'now', mode => 'shared');
         SELECT count(headwater.emit('shop', 'event')) FROM generate_series(1, {});
         SELECT headwater.claim('shop', 'work', 1, '1 hour')",
        20 * BATCH
    );
    run(&mut session, &fill).await;
    session
}

/// Claims, acks the claim before, and returns the number of locks of the transaction. It does so in
/// a new session, which plans its statements and so locks all indexes of their tables, and in a
/// session with plans. Both run once with nothing else to search for, and once with everything.
async fn locks(db: &TestDatabase, types: &str) -> [i64; 4] {
    let mut locks = [0; 4];
    for (nth, when) in ["infinity", "-infinity"].into_iter().enumerate() {
        let mut session = db.session().await;
        let mut planned = i64::MAX;
        for round in 0..4 {
            let claim_id = look_at(&mut db.session().await, when).await;
            run(&mut session, "BEGIN").await;
            let claim = format!(
                "SELECT count(*) FROM headwater.claim('shop', 'work', {BATCH}, '1 hour', {types}, acks => ARRAY['{claim_id}'::uuid])"
            );
            assert_eq!(number(&mut session, &claim).await, i64::from(BATCH));
            let held = "SELECT count(*) FROM pg_locks
                         WHERE pid = pg_backend_pid() AND relation IS DISTINCT FROM 'pg_locks'::regclass";
            let held = number(&mut session, held).await;
            if round == 0 {
                locks[2 * nth] = held;
            } else {
                // The server may drop plans at any time, where others make and drop tables.
                planned = planned.min(held);
            }
            run(&mut session, "COMMIT").await;
        }
        locks[2 * nth + 1] = planned;
    }
    locks
}

async fn number(session: &mut PgConnection, query: &str) -> i64 {
    sqlx::query_scalar(AssertSqlSafe(query.to_owned())).fetch_one(session).await.unwrap()
}

const ANY_TYPE: &str = "NULL";
const TYPED: &str = "ARRAY['event', 'other']";

#[tokio::test]
async fn the_locks_of_a_claim_do_not_grow_with_the_months_of_the_log() {
    let mut held = Vec::new();
    for months in [2, 60] {
        let db = TestDatabase::create().await;
        db.log("shop").await;
        db.past_months("shop", months, 5).await;
        db.database.maintain("shop", false).await.unwrap();
        waiting(&db).await;
        held.push([locks(&db, ANY_TYPE).await, locks(&db, TYPED).await]);
    }
    assert_eq!(held[0], held[1]);
    assert!(held[0].iter().flatten().all(|locks| *locks <= 30), "{held:?}");
}

#[tokio::test]
async fn the_locks_of_a_claim_do_not_grow_with_the_namespaces() {
    let mut held = Vec::new();
    for namespaces in [3, 300] {
        let db = TestDatabase::create().await;
        db.log("shop").await;
        let mut session = waiting(&db).await;
        let others = format!(
            "SELECT headwater.create_namespace('tenant-' || n) FROM generate_series(2, {namespaces}) n;
             SELECT headwater.emit('tenant-' || n, 'event') FROM generate_series(2, {namespaces}) n, generate_series(1, 3);
             SELECT headwater.register_subscriber('tenant-' || n, 'work', mode => 'shared') FROM generate_series(2, {namespaces}) n;
             SELECT headwater.claim('tenant-' || n, 'work', 2) FROM generate_series(2, {namespaces}) n"
        );
        run(&mut session, &others).await;
        run(&mut session, "ANALYZE").await;
        held.push([locks(&db, ANY_TYPE).await, locks(&db, TYPED).await]);
    }
    assert_eq!(held[0], held[1]);
    assert!(held[0].iter().flatten().all(|locks| *locks <= 30), "{held:?}");
}

/// A claim that follows a look at the log touches the rows that it returns and little else,
/// whatever else is in the tables.
#[tokio::test]
async fn a_claim_touches_few_pages() {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    let mut session = waiting(&db).await;
    for types in [ANY_TYPE, TYPED] {
        let claim = format!("SELECT * FROM headwater.claim('shop', 'work', {BATCH}, '1 hour', {types})");
        for _ in 0..3 {
            run(&mut session, &claim).await;
        }
        let touched = pages(&mut session, &claim).await;
        // 100 rows are read, and if types are asked for, they are looked at before.
        let rows = if types == TYPED { 200 } else { 100 };
        assert!(touched <= rows + 80, "{touched} pages: {claim}");
    }
}

/// The month after the one that claims read by name begins, and is then named. Events in both
/// months are claimed in order, each once.
#[tokio::test]
async fn claims_go_on_when_another_month_is_named() {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    let mut session = waiting(&db).await;
    let claim = "SELECT array_agg(global_sequence) FROM headwater.claim('shop', 'work', 100, '1 hour')";
    let mut seen: Vec<i64> = sqlx::query_scalar(claim).fetch_one(&mut session).await.unwrap();
    // That claim has looked further, but not as far as the events that are moved to the next month
    // here.
    let known = "SELECT (state).known FROM headwater_private.claims ORDER BY number DESC LIMIT 1";
    let (known, moved) = (number(&mut session, known).await, seen[0] + 1_850);
    assert!((seen[99] + 200..moved).contains(&known), "{known}");
    let begin = format!(
        "UPDATE headwater_private.events SET recorded_at = recorded_at + interval '31 days' WHERE global_sequence >= {moved};
         DO $$ BEGIN
             EXECUTE format('CREATE OR REPLACE FUNCTION headwater_private.tail_events() RETURNS SETOF headwater_private.events
                             LANGUAGE sql STABLE AS %L', 'SELECT * FROM headwater_private.events_'
                 || to_char(date_trunc('month', clock_timestamp() AT TIME ZONE 'UTC') + interval '1 month', 'YYYYMM'));
         END $$"
    );
    run(&mut session, &begin).await;
    assert!(number(&mut session, "SELECT count(*) FROM headwater_private.tail_events()").await > 100);
    while let Some(more) = sqlx::query_scalar::<_, Option<Vec<i64>>>(claim).fetch_one(&mut session).await.unwrap() {
        seen.extend(more);
    }
    let expected: Vec<i64> = (seen[0]..seen[0] + i64::from(20 * BATCH) - 1).collect();
    assert_eq!(seen, expected);
}
