//! The numbers of a gapless namespace: each once, none left out, in commit order, however many one
//! transaction takes.

use crate::common::{emit, pid, run, sqlstate_of, until_it_waits};
use headwater_testing::TestDatabase;
use sqlx::PgConnection;

async fn ledger() -> (TestDatabase, PgConnection, PgConnection) {
    let db = TestDatabase::create().await;
    let (mut session, other) = (db.session().await, db.session().await);
    run(&mut session, "SELECT headwater.create_namespace('ledger', ordering => 'gapless', notify => false)").await;
    (db, session, other)
}

async fn emit_next(session: &mut PgConnection) -> u64 {
    emit(session, "ledger", "event").await
}

/// The counter, the horizon, the end of the log, and the numbers that are there.
async fn state(session: &mut PgConnection) -> (i64, i64, i64, Vec<i64>) {
    let counter = "SELECT last_sequence FROM headwater_private.counters";
    let numbers =
        "SELECT coalesce(array_agg(global_sequence ORDER BY global_sequence), '{}') FROM headwater.read_log('ledger')";
    (
        sqlx::query_scalar(counter).fetch_one(&mut *session).await.unwrap(),
        sqlx::query_scalar("SELECT horizon FROM headwater.horizon('ledger')").fetch_one(&mut *session).await.unwrap(),
        sqlx::query_scalar("SELECT headwater.log_end('ledger')").fetch_one(&mut *session).await.unwrap(),
        sqlx::query_scalar(numbers).fetch_one(&mut *session).await.unwrap(),
    )
}

#[tokio::test]
async fn a_transaction_reads_what_it_appended_and_leaves_an_exact_counter() {
    let (_db, mut session, mut other) = ledger().await;
    run(&mut session, "BEGIN").await;
    for number in 1..=5 {
        assert_eq!(emit_next(&mut session).await, number);
    }
    let (_, horizon, end, numbers) = state(&mut session).await;
    assert_eq!((horizon, end, numbers), (5, 5, vec![1, 2, 3, 4, 5]));
    // It may settle up to there, in the same transaction.
    run(&mut session, "SELECT headwater_private.require_in_log(namespace_id, 5) FROM headwater_private.namespaces")
        .await;
    run(&mut session, "COMMIT").await;
    assert_eq!(state(&mut other).await, (5, 5, 5, vec![1, 2, 3, 4, 5]));
    assert_eq!(emit_next(&mut other).await, 6);
}

#[tokio::test]
async fn a_rollback_to_a_savepoint_takes_back_its_numbers_and_no_others() {
    let (_db, mut session, mut other) = ledger().await;
    // The first append is taken back, the second, and one of many.
    for (before, undone, after) in [(0, 1, 3), (1, 1, 3), (1, 4, 1), (2, 1, 0), (5, 3, 2)] {
        let first = state(&mut session).await.0.unsigned_abs();
        run(&mut session, "BEGIN").await;
        for number in 1..=before {
            assert_eq!(emit_next(&mut session).await, first + number);
        }
        run(&mut session, "SAVEPOINT here").await;
        for number in 1..=undone {
            assert_eq!(emit_next(&mut session).await, first + before + number);
        }
        run(&mut session, "ROLLBACK TO here").await;
        for number in 1..=after {
            assert_eq!(emit_next(&mut session).await, first + before + number, "{before} {undone} {after}");
        }
        run(&mut session, "COMMIT").await;
        let last = i64::try_from(first + before + after).unwrap();
        assert_eq!(state(&mut other).await, (last, last, last, (1..=last).collect()), "{before} {undone} {after}");
    }
}

#[tokio::test]
async fn numbers_of_deleted_events_are_not_handed_out_again() {
    let (_db, mut session, mut other) = ledger().await;
    run(&mut session, "BEGIN; SELECT headwater.emit('ledger', 'event') FROM generate_series(1, 10); COMMIT").await;
    run(&mut other, "DELETE FROM headwater_private.events").await;
    assert_eq!(emit_next(&mut other).await, 11);
}

#[tokio::test]
async fn a_session_that_asks_for_constraints_at_once_gets_the_same_numbers() {
    let (_db, mut session, _other) = ledger().await;
    run(&mut session, "BEGIN; SET CONSTRAINTS ALL IMMEDIATE").await;
    for number in 1..=4 {
        assert_eq!(emit_next(&mut session).await, number);
        assert_eq!(state(&mut session).await.0, i64::try_from(number).unwrap(), "closed after every append");
    }
    run(&mut session, "SET CONSTRAINTS ALL DEFERRED").await;
    for number in 5..=7 {
        assert_eq!(emit_next(&mut session).await, number);
    }
    run(&mut session, "COMMIT").await;
    assert_eq!(state(&mut session).await.0, 7);
}

#[tokio::test]
async fn without_triggers_the_last_event_counts() {
    let (_db, mut session, mut other) = ledger().await;
    run(&mut session, "SET session_replication_role = replica").await;
    run(&mut session, "SELECT headwater.emit('ledger', 'event') FROM generate_series(1, 3)").await;
    assert_eq!(state(&mut other).await, (1, 3, 3, vec![1, 2, 3]), "nobody closed the counter");
    run(&mut other, "SELECT headwater.emit('ledger', 'event') FROM generate_series(1, 2)").await;
    assert_eq!(state(&mut other).await, (5, 5, 5, vec![1, 2, 3, 4, 5]));
}

#[tokio::test]
async fn a_writer_waits_for_the_other_and_goes_on_after_its_last_number() {
    let (db, mut first, mut second) = ledger().await;
    for end in ["COMMIT", "ROLLBACK"] {
        let before = state(&mut first).await.0.unsigned_abs();
        run(&mut first, "BEGIN; SELECT headwater.emit('ledger', 'event') FROM generate_series(1, 3)").await;
        let waiting = pid(&mut second).await;
        let appended = tokio::spawn(async move {
            let number = emit_next(&mut second).await;
            (second, number)
        });
        until_it_waits(&mut db.session().await, waiting).await;
        run(&mut first, end).await;
        let (back, number) = appended.await.unwrap();
        second = back;
        assert_eq!(number, before + if end == "COMMIT" { 4 } else { 1 });
    }
}

#[tokio::test]
async fn who_has_an_older_snapshot_gets_a_serialization_failure_and_no_number() {
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        let (db, mut first, mut second) = ledger().await;
        // The other one has committed: once, or more than once in one transaction.
        for others in [1, 3] {
            run(
                &mut second,
                &format!("BEGIN ISOLATION LEVEL {level}; SELECT count(*) FROM headwater_private.namespaces"),
            )
            .await;
            run(&mut first, &format!("SELECT headwater.emit('ledger', 'event') FROM generate_series(1, {others})"))
                .await;
            assert_eq!(sqlstate_of(&mut second, "SELECT headwater.emit('ledger', 'event')").await, "40001");
            run(&mut second, "ROLLBACK").await;
        }
        // The other one is under way.
        run(&mut first, "BEGIN; SELECT headwater.emit('ledger', 'event') FROM generate_series(1, 3)").await;
        run(&mut second, &format!("BEGIN ISOLATION LEVEL {level}")).await;
        let waiting = pid(&mut second).await;
        let refused = tokio::spawn(async move {
            let code = sqlstate_of(&mut second, "SELECT headwater.emit('ledger', 'event')").await;
            (second, code)
        });
        until_it_waits(&mut db.session().await, waiting).await;
        run(&mut first, "COMMIT").await;
        let (mut second, code) = refused.await.unwrap();
        assert_eq!(code, "40001");
        run(&mut second, "ROLLBACK").await;
        // Nobody else appends: any number of times.
        run(
            &mut second,
            &format!(
                "BEGIN ISOLATION LEVEL {level}; SELECT headwater.emit('ledger', 'event') FROM generate_series(1, 5)"
            ),
        )
        .await;
        assert_eq!(emit_next(&mut second).await, 13);
        run(&mut second, "COMMIT").await;
        assert_eq!(state(&mut first).await, (13, 13, 13, (1..=13).collect()));
    }
}

#[tokio::test]
async fn a_prepared_transaction_leaves_an_exact_counter() {
    let (_db, mut session, mut other) = ledger().await;
    let name = uuid::Uuid::now_v7();
    run(
        &mut session,
        &format!(
            "BEGIN; SELECT headwater.emit('ledger', 'event') FROM generate_series(1, 3); PREPARE TRANSACTION '{name}'"
        ),
    )
    .await;
    run(&mut other, &format!("COMMIT PREPARED '{name}'")).await;
    assert_eq!(state(&mut other).await, (3, 3, 3, vec![1, 2, 3]));
}

#[tokio::test]
async fn a_transaction_writes_the_counter_no_more_often_than_three_times() {
    let (_db, mut session, _other) = ledger().await;
    run(
        &mut session,
        "BEGIN; SELECT headwater.emit('ledger', 'event') FROM generate_series(1, 100); SET CONSTRAINTS ALL IMMEDIATE",
    )
    .await;
    let versions: i64 = sqlx::query_scalar("SELECT n_tup_upd FROM pg_stat_xact_user_tables WHERE relname = 'counters'")
        .fetch_one(&mut session)
        .await
        .unwrap();
    assert_eq!(versions, 3);
    run(&mut session, "COMMIT").await;
}

#[tokio::test]
async fn an_append_that_waited_while_the_namespace_was_dropped_fails() {
    let (db, mut session, mut dropping) = ledger().await;
    run(&mut dropping, "BEGIN; SELECT headwater.drop_namespace('ledger', confirm => 'ledger')").await;
    let waiting = pid(&mut session).await;
    let append =
        tokio::spawn(async move { sqlstate_of(&mut session, "SELECT headwater.emit('ledger', 'event')").await });
    until_it_waits(&mut db.session().await, waiting).await;
    run(&mut dropping, "COMMIT").await;
    assert_eq!(append.await.unwrap(), "WH001");
}
