//! Sealed months: reads open only the leaves that they need, and miss nothing by that.

use std::collections::BTreeSet;

use crate::common::months::{looked_into, seal, sessions};
use crate::common::{emit, raw, run, sqlstate_of, types_after};
use futures::TryStreamExt;
use headwater_core::{EventLog, LogQuery, NamespaceConfig, Ordering, Storage};
use headwater_postgres::{LogOptions, PgLog};
use headwater_testing::TestDatabase;

/// Returns how many events a page has, and how many past months were looked into for it: the higher
/// value of both kinds of plans.
async fn read(db: &TestDatabase, log: &PgLog, query: LogQuery) -> (usize, usize) {
    let (mut events, mut leaves) = (0, 0);
    for mut session in sessions(db).await {
        let page = log.log_page_in(&mut session, &query).await.unwrap();
        (events, leaves) = (events.max(page.events.len()), leaves.max(looked_into(&mut session).await.len()));
    }
    (events, leaves)
}

#[tokio::test]
async fn of_60_months_a_read_looks_only_into_those_that_it_needs() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    db.past_months("shop", 60, 20).await;
    log.append(raw("now").into()).await.unwrap();
    let mut session = db.session().await;

    assert_eq!(read(&db, &log, LogQuery::after(1_195)).await, (6, 60), "nothing is sealed yet");
    assert_eq!(seal(&mut session, "shop").await, 60);
    assert_eq!(seal(&mut session, "shop").await, 0);
    log.look_up_months().await.unwrap();

    assert_eq!(read(&db, &log, LogQuery::after(1_200)).await, (1, 0), "the tail is in this month");
    assert_eq!(read(&db, &log, LogQuery::after(1_195)).await, (6, 1));
    assert_eq!(read(&db, &log, LogQuery::after(405).page_size(10)).await, (10, 1));
    assert_eq!(read(&db, &log, LogQuery::after(405).page_size(50)).await, (50, 3));
    assert_eq!(read(&db, &log, LogQuery::after(405).up_to(412)).await, (7, 1));
    assert_eq!(read(&db, &log, LogQuery::after(0).backwards().page_size(10)).await, (10, 1));
    assert_eq!(read(&db, &log, LogQuery::after(0).up_to(705).backwards().page_size(10)).await, (10, 2));
    for (statement, leaves) in
        [("SELECT headwater.horizon('shop')", 0), ("SELECT headwater.read_log('shop', 405, 10)", 1)]
    {
        for mut session in sessions(&db).await {
            run(&mut session, statement).await;
            assert_eq!(looked_into(&mut session).await.len(), leaves, "{statement}");
        }
    }
}

#[tokio::test]
async fn the_statement_about_gaps_looks_only_into_their_months() {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    db.past_months("shop", 12, 20).await;
    seal(&mut db.session().await, "shop").await;
    for mut session in sessions(&db).await {
        let bounds: (chrono::DateTime<chrono::Utc>, chrono::DateTime<chrono::Utc>) =
            sqlx::query_as("SELECT from_at, until_at FROM headwater_private.log_bounds(1, 44, 47, NULL)")
                .fetch_one(&mut session)
                .await
                .unwrap();
        let rows = sqlx::query(include_str!("../../sql/log/gap_events.query.sql"))
            .bind(1)
            .bind(vec![45_i64, 47])
            .bind(vec![45_i64, 47])
            .bind(100)
            .bind(bounds.0)
            .bind(bounds.1)
            .bind(None::<uuid::Uuid>);
        assert_eq!(rows.fetch_all(&mut session).await.unwrap().len(), 2);
        assert_eq!(looked_into(&mut session).await.len(), 1);
    }
}

#[tokio::test]
async fn a_sealed_month_takes_nothing_more_and_appends_never_try() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    db.past_months("shop", 1, 3).await;
    let mut session = db.session().await;
    seal(&mut session, "shop").await;
    let insert = "INSERT INTO headwater_private.events (global_sequence, transaction_id, created_at, recorded_at, namespace_id, event_id, event_type, data)
                  VALUES (99, 1, now(), date_trunc('month', now(), 'UTC') - interval '1 hour', 1, gen_random_uuid(), 'late', '1')";
    assert_eq!(sqlstate_of(&mut session, insert).await, "WH035");
    // The clock was set back into the sealed month. The sealed months are then ahead of the clock.
    run(
        &mut session,
        "UPDATE headwater_private.namespaces SET sealed_before = date_trunc('month', now(), 'UTC') + interval '1 month'",
    )
    .await;
    let sequence = emit(&mut session, "shop", "in SQL").await;
    log.append(raw("in Rust").into()).await.unwrap();
    let recorded: Vec<bool> = sqlx::query_scalar(
        "SELECT e.recorded_at = n.sealed_before FROM headwater_private.events e, headwater_private.namespaces n WHERE e.global_sequence >= $1",
    )
    .bind(sequence as i64)
    .fetch_all(&mut session)
    .await
    .unwrap();
    assert_eq!(recorded, [true, true]);
}

#[tokio::test]
async fn sealing_waits_for_whoever_adds_to_the_month() {
    let db = TestDatabase::create().await;
    db.log_with(NamespaceConfig::new("shop").storage(Storage::Own), LogOptions::default()).await;
    db.past_months("shop", 1, 3).await;
    let (mut writer, mut session) = (db.session().await, db.session().await);
    run(
        &mut writer,
        "BEGIN; INSERT INTO headwater_private.events_n1 (global_sequence, transaction_id, created_at, recorded_at, namespace_id, event_id, event_type, data)
                SELECT nextval(n.sequence), 1, now(), n.sealed_before - interval '1 hour', 1, gen_random_uuid(), 'slow', '1' FROM headwater_private.namespaces n",
    )
    .await;
    assert_eq!(sqlstate_of(&mut session, "SELECT headwater.seal_months('shop')").await, "55P03");
    run(&mut writer, "COMMIT").await;
    assert_eq!(seal(&mut session, "shop").await, 1);
    let last: i64 =
        sqlx::query_scalar("SELECT last_sequence FROM headwater_private.months").fetch_one(&mut session).await.unwrap();
    assert_eq!(last, 4);
}

#[tokio::test]
async fn what_is_in_flight_while_a_month_is_sealed_is_read_later() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    db.past_months("shop", 2, 3).await;
    let (mut writer, mut session) = (db.session().await, db.session().await);
    run(&mut writer, "BEGIN").await;
    assert_eq!(emit(&mut writer, "shop", "slow").await, 7);
    assert_eq!(emit(&mut session, "shop", "quick").await, 8);
    seal(&mut session, "shop").await;
    log.look_up_months().await.unwrap();
    let complete: i64 = sqlx::query_scalar("SELECT max(complete_to) FROM headwater_private.months")
        .fetch_one(&mut session)
        .await
        .unwrap();
    assert_eq!(complete, 6);
    assert_eq!(types_after(&log, 6).await, [""; 0]);
    run(&mut writer, "COMMIT").await;
    assert_eq!(types_after(&log, 6).await, ["slow", "quick"]);
}

#[tokio::test]
async fn a_gapless_namespace_is_sealed_too() {
    let db = TestDatabase::create().await;
    let config = NamespaceConfig::new("ledger").ordering(Ordering::Gapless);
    let log = db.log_with(config, LogOptions::default()).await;
    for _ in 0..6 {
        log.append(raw("entry").into()).await.unwrap();
    }
    db.backdate("ledger", 1, 2, 2).await;
    db.backdate("ledger", 3, 4, 1).await;
    let mut session = db.session().await;
    assert_eq!(seal(&mut session, "ledger").await, 2);
    log.look_up_months().await.unwrap();
    let rows: Vec<(i64, i64, i64)> = sqlx::query_as(
        "SELECT last_sequence, high_sequence, complete_to FROM headwater_private.months ORDER BY starts_at",
    )
    .fetch_all(&mut session)
    .await
    .unwrap();
    assert_eq!(rows, [(2, 2, 2), (4, 4, 4)]);
    assert_eq!(types_after(&log, 0).await.len(), 6);
}

/// Months whose sequences overlap, as with slow transactions at the end of a month. Some months are
/// empty.
async fn ragged(db: &TestDatabase) -> PgLog {
    let log = db.log("shop").await;
    for n in 0..60 {
        log.append(raw(if n % 3 == 0 { "third" } else { "other" }).into()).await.unwrap();
    }
    for (first, last, months_ago) in [
        (1, 9, 9),
        (10, 12, 8),
        (12, 12, 7),
        (11, 11, 7),
        (13, 20, 5),
        (19, 24, 4),
        (22, 22, 3),
        (25, 40, 2),
        (38, 38, 1),
    ] {
        db.backdate("shop", first, last, months_ago).await;
    }
    let mut session = db.session().await;
    run(&mut session, "DELETE FROM headwater_private.events WHERE global_sequence IN (5, 23, 24, 33)").await;
    run(&mut session, "SELECT headwater_private.create_leaf(1, now() - interval '6 months')").await;
    seal(&mut session, "shop").await;
    log.look_up_months().await.unwrap();
    log
}

#[tokio::test]
async fn a_read_of_ragged_months_misses_nothing() {
    let db = TestDatabase::create().await;
    let log = ragged(&db).await;
    let mut session = db.session().await;
    let all: Vec<i64> = sqlx::query_scalar("SELECT global_sequence FROM headwater_private.events ORDER BY 1")
        .fetch_all(&mut session)
        .await
        .unwrap();
    let all: Vec<u64> = all.into_iter().map(|sequence| sequence as u64).collect();
    assert_eq!(all.len(), 56);
    for after in 0..=60 {
        for (up_to, page_size) in [(None, 1), (None, 4), (None, 9), (Some(after + 3), 100), (Some(after + 17), 5)] {
            let within = |sequence: &u64| *sequence > after && up_to.is_none_or(|up_to| *sequence <= up_to);
            let expected: Vec<u64> = all.iter().copied().filter(within).take(page_size as usize).collect();
            let query = LogQuery { up_to, ..LogQuery::after(after).page_size(page_size) };
            let page = log.log_page_in(&mut session, &query).await.unwrap();
            let got: Vec<u64> = page.events.iter().filter_map(|event| event.global_sequence).collect();
            assert_eq!(got, expected, "after {after}, {up_to:?}, {page_size}");
            let mut expected: Vec<u64> = all.iter().copied().filter(within).collect();
            expected.reverse();
            expected.truncate(page_size as usize);
            let page = log.log_page_in(&mut session, &query.clone().backwards()).await.unwrap();
            let got: Vec<u64> = page.events.iter().filter_map(|event| event.global_sequence).collect();
            assert_eq!(got, expected, "backwards after {after}, {up_to:?}, {page_size}");
        }
        let sql: Vec<i64> = sqlx::query_scalar("SELECT global_sequence FROM headwater.read_log('shop', $1, 4)")
            .bind(after as i64)
            .fetch_all(&mut session)
            .await
            .unwrap();
        let expected: Vec<i64> = all.iter().filter(|at| **at > after).take(4).map(|at| *at as i64).collect();
        assert_eq!(sql, expected, "in SQL after {after}");
        let thirds: Vec<_> =
            log.read_log(LogQuery::after(after).event_types(["third"]).page_size(3)).try_collect().await.unwrap();
        let thirds: BTreeSet<u64> = thirds.iter().filter_map(|event| event.global_sequence).collect();
        assert_eq!(thirds, all.iter().copied().filter(|at| *at > after && at % 3 == 1).collect());
    }
}
