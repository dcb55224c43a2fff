//! Appends in PostgreSQL: the caller's transaction, SQL callers, ids across months. The behaviour
//! of all backends is tested in headwater-conformance.

use crate::common::{emit, raw, run, sqlstate_of, types_after};
use headwater_core::{
    Append, AppendError, Event, EventLog, ExpectedVersion, Json, NamespaceConfig, Ordering, StreamQuery,
};
use headwater_postgres::LogOptions;
use headwater_testing::TestDatabase;
use sqlx::Connection;

#[tokio::test]
async fn an_append_in_the_callers_transaction_is_there_if_it_commits() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let mut session = db.session().await;
    run(&mut session, "CREATE TABLE orders (id int)").await;

    let mut tx = session.begin().await.unwrap();
    sqlx::query("INSERT INTO orders VALUES (1)").execute(&mut *tx).await.unwrap();
    log.append_in(&mut tx, &raw("rolled back").into()).await.unwrap();
    tx.rollback().await.unwrap();
    assert!(types_after(&log, 0).await.is_empty(), "an event of a rolled back transaction must not go out");

    let mut tx = session.begin().await.unwrap();
    sqlx::query("INSERT INTO orders VALUES (2)").execute(&mut *tx).await.unwrap();
    let appended = log.append_in(&mut tx, &raw("committed").into()).await.unwrap();
    assert!(types_after(&log, 0).await.is_empty());
    tx.commit().await.unwrap();
    let events = types_after(&log, 0).await;
    assert_eq!((events, appended.global_sequence()), (vec!["committed".to_owned()], 2));
}

#[tokio::test]
async fn a_conflict_leaves_the_callers_transaction_usable() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let mut session = db.session().await;
    let mut tx = session.begin().await.unwrap();
    let wrong = Append::to_stream("order-1", ExpectedVersion::Exact(7), [raw("wrong")]);
    let conflict = log.append_in(&mut tx, &wrong).await;
    assert!(matches!(conflict, Err(AppendError::Conflict { actual: 0, .. })), "{conflict:?}");
    let right = Append::to_stream("order-1", ExpectedVersion::NoStream, [raw("right")]);
    log.append_in(&mut tx, &right).await.unwrap();
    let own = log.stream_page_in(&mut tx, &StreamQuery::new("order-1")).await.unwrap();
    assert_eq!(own.len(), 1, "a transaction sees its own appends in a stream");
    tx.commit().await.unwrap();
    assert_eq!(types_after(&log, 0).await, ["right"]);
}

#[tokio::test]
async fn two_transactions_on_one_stream_follow_one_another() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let mut session = db.session().await;
    let mut tx = session.begin().await.unwrap();
    let first = Append::to_stream("order-1", ExpectedVersion::NoStream, [raw("first")]);
    log.append_in(&mut tx, &first).await.unwrap();
    // Both expect no stream; the second waits for the first, then conflicts.
    let second = Append::to_stream("order-1", ExpectedVersion::NoStream, [raw("second")]);
    let waiting = tokio::spawn({
        let log = log.clone();
        async move { log.append(second).await }
    });
    waits_for_a_lock(&db).await;
    tx.commit().await.unwrap();
    let conflict = waiting.await.unwrap();
    assert!(matches!(conflict, Err(AppendError::Conflict { actual: 1, .. })), "{conflict:?}");
}

/// Returns when some session of the database waits for a lock.
async fn waits_for_a_lock(db: &TestDatabase) {
    let waiting = "SELECT EXISTS (SELECT FROM pg_stat_activity
                    WHERE datname = current_database() AND wait_event_type = 'Lock')";
    while !sqlx::query_scalar::<_, bool>(waiting).fetch_one(db.database.pool()).await.unwrap() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn events_of_one_transaction_carry_its_id() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let mut session = db.session().await;
    run(&mut session, "BEGIN").await;
    emit(&mut session, "shop", "a").await;
    emit(&mut session, "shop", "b").await;
    run(&mut session, "COMMIT").await;
    emit(&mut session, "shop", "c").await;
    let page = log.log_page(&Default::default()).await.unwrap();
    let ids: Vec<_> = page.events.iter().map(|event| event.transaction_id.unwrap()).collect();
    assert!(ids[0] == ids[1] && ids[1] != ids[2], "{ids:?}");
}

#[tokio::test]
async fn sql_callers_get_clear_errors() {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    let mut session = db.session().await;
    let cases = [
        ("SELECT headwater.emit('nowhere', 'a')", "WH001"),
        ("SELECT headwater.emit('shop', '')", "WH002"),
        ("SELECT headwater.emit('shop', NULL)", "WH002"),
        ("SELECT headwater.emit('shop', repeat('x', 256))", "WH002"),
        ("SELECT headwater.emit('shop', E'a\\nb')", "WH002"),
        ("SELECT headwater.emit('shop', 'a', key => '')", "WH002"),
        ("SELECT headwater.emit('shop', 'a', headers => '{\"a\": 1}')", "WH002"),
        ("SELECT headwater.emit('shop', 'a', headers => '[]')", "WH002"),
        ("SELECT headwater.emit('shop', 'a', schema_version => 0)", "WH002"),
        ("SELECT headwater.emit('shop', 'a', to_jsonb(repeat('x', 1048576)))", "WH004"),
        ("SELECT headwater.append('shop', '', '{\"type\": \"a\"}')", "WH002"),
        ("SELECT headwater.append('shop', 's', '[]')", "WH002"),
        ("SELECT headwater.append('shop', 's', '3')", "WH002"),
        ("SELECT headwater.append('shop', 's', NULL)", "WH002"),
        ("SELECT headwater.append('shop', 's', '{\"data\": 1}')", "WH002"),
        ("SELECT headwater.append('shop', 's', '{\"type\": \"a\", \"colour\": 1}')", "WH002"),
        ("SELECT headwater.append('shop', 's', '{\"type\": \"a\"}', -2)", "WH002"),
        ("SELECT headwater.append('shop', 's', '{\"type\": \"a\"}', 1)", "WH007"),
        ("SELECT headwater.append('shop', 's', '{\"type\": \"a\"}', -1)", "WH007"),
        ("SELECT headwater.append('shop', '[]'::jsonb)", "WH002"),
        (
            "SELECT headwater.append('shop', '[{\"stream_id\": \"a\", \"events\": {\"type\": \"x\"}}, {\"stream_id\": \"a\", \"events\": {\"type\": \"y\"}}]'::jsonb)",
            "WH002",
        ),
        (
            "SELECT headwater.append('shop', '[{\"expected_version\": 1, \"events\": {\"type\": \"x\"}}]'::jsonb)",
            "WH002",
        ),
        ("SELECT * FROM headwater.read_log('nowhere')", "WH001"),
        ("SELECT * FROM headwater.read_log('shop', max_events => 0)", "WH002"),
        ("SELECT * FROM headwater.read_stream('shop', '')", "WH002"),
        ("SELECT * FROM headwater.read_stream('shop', 's', max_events => 100001)", "WH002"),
        ("SELECT * FROM headwater.horizon('nowhere')", "WH001"),
    ];
    for (script, expected) in cases {
        assert_eq!(sqlstate_of(&mut session, script).await, expected, "{script}");
    }
    let stored: i64 =
        sqlx::query_scalar("SELECT count(*) FROM headwater_private.events").fetch_one(&mut session).await.unwrap();
    assert_eq!(stored, 0);
}

#[tokio::test]
async fn sql_callers_append_to_several_streams_at_once() {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    let mut session = db.session().await;
    let both = "SELECT stream_id, stream_version FROM headwater.append('shop', '[
        {\"stream_id\": \"a\", \"expected_version\": 0, \"events\": [{\"type\": \"x\"}, {\"type\": \"y\"}]},
        {\"events\": {\"type\": \"loose\"}},
        {\"stream_id\": \"b\", \"events\": {\"type\": \"z\", \"headers\": {\"traceparent\": \"00-1\"}}}]'::jsonb)";
    let rows: Vec<(Option<String>, Option<i64>)> = sqlx::query_as(both).fetch_all(&mut session).await.unwrap();
    let expected = [(Some("a"), Some(1)), (Some("a"), Some(2)), (None, None), (Some("b"), Some(1))];
    assert_eq!(rows, expected.map(|(stream, version)| (stream.map(str::to_owned), version)));
    let conflict = "SELECT headwater.append('shop', '[
        {\"stream_id\": \"c\", \"events\": {\"type\": \"x\"}},
        {\"stream_id\": \"a\", \"expected_version\": 1, \"events\": {\"type\": \"y\"}}]'::jsonb)";
    assert_eq!(sqlstate_of(&mut session, conflict).await, "WH007");
    let streams: Vec<(String, i64)> =
        sqlx::query_as("SELECT stream_id, version FROM headwater_private.streams ORDER BY 1")
            .fetch_all(&mut session)
            .await
            .unwrap();
    assert_eq!(streams, [("a".to_owned(), 2), ("b".to_owned(), 1)], "a conflict leaves nothing behind");
}

#[tokio::test]
async fn a_failed_append_to_several_streams_leaves_no_stream_behind() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let both = Append::new()
        .expect("old", ExpectedVersion::Exists)
        .event(raw("x").in_stream("new"))
        .event(raw("y").in_stream("old"));
    assert!(log.append(both).await.unwrap_err().is_conflict());
    let streams: i64 = sqlx::query_scalar("SELECT count(*) FROM headwater_private.streams")
        .fetch_one(db.database.pool())
        .await
        .unwrap();
    assert_eq!(streams, 0);
    let fresh = Append::to_stream("new", ExpectedVersion::NoStream, [raw("x")]);
    assert_eq!(log.append(fresh).await.unwrap().stream_version(), Some(1));
}

#[tokio::test]
async fn an_id_is_remembered_across_months() {
    for ordering in [Ordering::Sequence, Ordering::Gapless] {
        let db = TestDatabase::create().await;
        let log = db.log_with(NamespaceConfig::new("shop").ordering(ordering), LogOptions::default()).await;
        let event = raw("old");
        let first = log.append(event.clone().into()).await.unwrap();
        // As if the event had been stored last month.
        let mut session = db.session().await;
        run(&mut session, "SELECT headwater_private.create_leaf(1, now() - interval '1 month')").await;
        run(
            &mut session,
            "UPDATE headwater_private.events SET recorded_at = date_trunc('month', now(), 'UTC') - interval '1 day'",
        )
        .await;
        run(
            &mut session,
            "UPDATE headwater_private.namespaces SET sealed_before = sealed_before - interval '2 months', tail_from = tail_from - interval '2 months'",
        )
        .await;

        let unsealed = log.append(event.clone().into()).await.unwrap();
        assert!(unsealed.retried && unsealed.events == first.events, "found in a month that is not sealed");
        run(&mut session, "SELECT headwater.maintain_namespace('shop')").await;
        let sealed: bool = sqlx::query_scalar("SELECT sealed_max_id IS NOT NULL FROM headwater_private.namespaces")
            .fetch_one(&mut session)
            .await
            .unwrap();
        assert!(sealed);
        let after = log.append(event.clone().into()).await.unwrap();
        assert!(after.retried && after.events == first.events, "found in a month that is sealed");
        let mixed = Append::new().event(raw("new")).event(event.clone());
        assert!(matches!(log.append(mixed).await, Err(AppendError::IdReused { .. })));
        assert_eq!(types_after(&log, 0).await, ["old"]);
    }
}

#[tokio::test]
async fn a_month_that_somebody_may_still_add_to_is_not_sealed() {
    let db = TestDatabase::create().await;
    db.log_with(NamespaceConfig::new("shop").notify(false), LogOptions::default()).await;
    let (mut writer, mut other) = (db.session().await, db.session().await);
    // A prepared transaction may be from any month.
    let name = uuid::Uuid::now_v7();
    run(&mut writer, "BEGIN").await;
    emit(&mut writer, "shop", "in flight").await;
    run(&mut writer, &format!("PREPARE TRANSACTION '{name}'")).await;
    run(&mut other, "UPDATE headwater_private.namespaces SET sealed_before = sealed_before - interval '1 month'").await;
    let sealed = "SELECT sealed_before = date_trunc('month', now(), 'UTC') FROM headwater_private.namespaces";
    for (end, expected) in [("SELECT 1".to_owned(), false), (format!("COMMIT PREPARED '{name}'"), true)] {
        run(&mut other, &end).await;
        run(&mut other, "SELECT headwater.maintain_namespace('shop')").await;
        assert_eq!(sqlx::query_scalar::<_, bool>(sealed).fetch_one(&mut other).await.unwrap(), expected);
    }
}

#[tokio::test]
async fn a_missing_month_is_made_by_the_append_that_needs_it() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let mut session = db.session().await;
    run(
        &mut session,
        "DO $$ DECLARE leaf regclass; BEGIN
             FOR leaf IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'headwater_private.events'::regclass LOOP
                 EXECUTE 'DROP TABLE ' || leaf;
             END LOOP;
         END $$;
         UPDATE headwater_private.namespaces SET leaves_until = date_trunc('month', now(), 'UTC')",
    )
    .await;
    log.append(raw("needs a leaf").into()).await.unwrap();
    assert_eq!(types_after(&log, 0).await, ["needs a leaf"]);
}

#[tokio::test]
async fn what_postgresql_cannot_hold_is_invalid_input() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    for text in [r#""\u0000""#, r#""\ud800""#, "1e999999", "not json"] {
        let refused = log.append(Event::raw("bad", Json::from_trusted(text)).into()).await;
        assert!(matches!(refused, Err(AppendError::InvalidInput(_))), "{text}: {refused:?}");
    }
    assert!(types_after(&log, 0).await.is_empty());
}

#[tokio::test]
async fn a_month_is_not_sealed_under_one_snapshot() {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    let mut session = db.session().await;
    let unseal = "UPDATE headwater_private.namespaces SET sealed_before = sealed_before - interval '1 month'";
    run(&mut session, unseal).await;
    let sealed = "SELECT sealed_before = date_trunc('month', now(), 'UTC') FROM headwater_private.namespaces";
    for (isolation, expected) in [("REPEATABLE READ", false), ("SERIALIZABLE", false), ("READ COMMITTED", true)] {
        let maintain =
            format!("BEGIN ISOLATION LEVEL {isolation}; SELECT headwater.maintain_namespace('shop'); COMMIT");
        run(&mut session, &maintain).await;
        assert_eq!(
            sqlx::query_scalar::<_, bool>(sealed).fetch_one(&mut session).await.unwrap(),
            expected,
            "{isolation}"
        );
    }
}
