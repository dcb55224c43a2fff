//! The horizon: it waits for events in flight and passes events that will never come, each by
//! proof. Two sessions, explicit steps.

use crate::common::{emit, pages_after, permanent, pid, raw, run, sqlstate_of, types_after, until_it_waits};
use futures::TryStreamExt;
use headwater_core::{EventLog, GapState, Gaps, LogQuery, Look, LookAhead, NamespaceConfig, Ordering, ReadError};
use headwater_embedded::{Server, Shutdown};
use headwater_postgres::{Database, DatabaseOptions, LogOptions};
use headwater_testing::TestDatabase;
use sqlx::{Connection, Row};
use uuid::Uuid;

#[tokio::test]
async fn an_event_that_commits_late_is_waited_for() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let (mut early, mut late) = (db.session().await, db.session().await);
    run(&mut early, "BEGIN").await;
    let first = emit(&mut early, "shop", "first").await;
    let second = emit(&mut late, "shop", "second").await;
    assert_eq!((first, second), (1, 2));

    assert_eq!(types_after(&log, 0).await, [] as [&str; 0], "nothing may pass what is in flight below it");
    run(&mut early, "COMMIT").await;
    assert_eq!(types_after(&log, 0).await, ["first", "second"]);
}

#[tokio::test]
async fn a_restarted_reader_waits_too() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let mut writer = db.session().await;
    emit(&mut writer, "shop", "done").await;
    let mut early = db.session().await;
    run(&mut early, "BEGIN").await;
    emit(&mut early, "shop", "in flight").await;
    emit(&mut writer, "shop", "later").await;
    let cursor = pages_after(&log, 0).await.last().unwrap().cursor;
    assert_eq!(cursor, 1, "a checkpoint at this cursor loses nothing");

    // The process ends; the next one starts with the checkpoint alone.
    let restarted = db.log("shop").await;
    run(&mut early, "COMMIT").await;
    assert_eq!(types_after(&restarted, cursor).await, ["in flight", "later"]);
}

#[tokio::test]
async fn a_commit_between_the_rows_and_the_locks_is_not_lost() {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    let (mut early, mut late, mut reader) = (db.session().await, db.session().await, db.session().await);
    run(&mut early, "BEGIN").await;
    emit(&mut early, "shop", "first").await;
    emit(&mut late, "shop", "second").await;

    let page = "SELECT event_type FROM headwater.log_page(1, 0, $1, 10, NULL, NULL, NULL)";
    let seen: Vec<String> = sqlx::query_scalar(page).bind(None::<i64>).fetch_all(&mut reader).await.unwrap();
    assert_eq!(seen, ["second"], "the rows are read while the first is in flight");
    run(&mut early, "COMMIT").await;
    let horizon: i64 =
        sqlx::query_scalar("SELECT horizon FROM headwater.horizon('shop')").fetch_one(&mut reader).await.unwrap();
    assert_eq!(horizon, 2, "its lock is gone");
    let again: Vec<String> = sqlx::query_scalar(page).bind(Some(horizon)).fetch_all(&mut reader).await.unwrap();
    assert_eq!(again, ["first", "second"], "a new snapshot after the locks shows it");
}

#[tokio::test]
async fn a_writer_is_waited_for_however_long_it_takes() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let (mut slow, mut other) = (db.session().await, db.session().await);
    run(&mut slow, "SET application_name = 'month-end'; BEGIN").await;
    emit(&mut slow, "shop", "slow").await;
    for _ in 0..50 {
        emit(&mut other, "shop", "fast").await;
        assert_eq!(types_after(&log, 0).await, [] as [&str; 0]);
    }
    run(&mut slow, "COMMIT").await;
    assert_eq!(types_after(&log, 0).await.len(), 51);
    assert_eq!(types_after(&log, 0).await[0], "slow");
}

#[tokio::test]
async fn what_holds_the_log_back_is_named() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let (mut slow, mut other) = (db.session().await, db.session().await);
    emit(&mut other, "shop", "before").await;
    run(&mut slow, "SET application_name = 'month-end'; BEGIN").await;
    emit(&mut slow, "shop", "slow").await;
    emit(&mut slow, "shop", "slow").await;
    emit(&mut other, "shop", "after").await;

    let page = log.log_page(&LogQuery::after(1)).await.unwrap();
    assert_eq!((page.events.len(), page.cursor, page.more), (0, 1, false));
    let [gap] = &page.gaps[..] else { panic!("one gap, not {:?}", page.gaps) };
    assert_eq!((gap.first, gap.last), (2, 3));
    let GapState::Pending(writers) = &gap.state else { panic!("pending, not {:?}", gap.state) };
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut slow).await.unwrap();
    assert_eq!(writers.len(), 1);
    assert_eq!((writers[0].pid, writers[0].above_sequence), (Some(pid), 1));
    assert_eq!(writers[0].application_name.as_deref(), Some("month-end"));
    assert!(writers[0].age.is_some() && writers[0].started_at.is_some());

    let horizon = log.horizon().await.unwrap();
    assert_eq!((horizon.horizon, horizon.head), (1, 4));
    assert_eq!(horizon.writers[0].pid, Some(pid));
}

#[tokio::test]
async fn a_rolled_back_batch_is_passed_at_once() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let mut writer = db.session().await;
    run(&mut writer, "BEGIN").await;
    run(&mut writer, "SELECT headwater.emit('shop', 'gone') FROM generate_series(1, 1000)").await;
    run(&mut writer, "ROLLBACK").await;
    // Sequences that were never committed may never have reached the disk: after a crash, the
    // server hands them out again.
    let horizon = log.horizon().await.unwrap();
    assert_eq!((horizon.horizon, horizon.head), (0, 1000), "nothing is settled beyond what is visible");
    assert_eq!(emit(&mut writer, "shop", "kept").await, 1001);

    let small = LogQuery::after(0).page_size(100);
    let page = log.log_page(&small).await.unwrap();
    assert_eq!(page.events.len(), 1, "one read passes the whole gap, whatever the page size");
    assert_eq!(permanent(&[page]), [(1, 1000)]);
}

#[tokio::test]
async fn holes_between_committed_events_are_permanent_gaps() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let mut writer = db.session().await;
    for rolled_back in [false, true, false, true, true, false] {
        run(&mut writer, "BEGIN").await;
        emit(&mut writer, "shop", "event").await;
        run(&mut writer, if rolled_back { "ROLLBACK" } else { "COMMIT" }).await;
    }
    let pages = pages_after(&log, 0).await;
    assert_eq!(permanent(&pages), [(2, 2), (4, 5)]);
    let sequences: Vec<_> = pages.iter().flat_map(|page| &page.events).map(|event| event.sequence().get()).collect();
    assert_eq!(sequences, [1, 3, 6]);
}

#[tokio::test]
async fn what_was_proved_but_not_handled_is_read_again() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let (mut early, mut late) = (db.session().await, db.session().await);
    run(&mut early, "BEGIN").await;
    emit(&mut early, "shop", "healed").await;
    emit(&mut late, "shop", "later").await;
    assert!(types_after(&log, 0).await.is_empty());
    run(&mut early, "COMMIT").await;
    assert_eq!(types_after(&log, 0).await, ["healed", "later"]);
    // The reader is killed here, before it handled anything; what it proved died with it.
    assert_eq!(types_after(&db.log("shop").await, 0).await, ["healed", "later"]);
}

#[tokio::test]
async fn the_first_event_of_a_namespace_is_waited_for() {
    let db = TestDatabase::create().await;
    let log = db.log("fresh").await;
    let (mut early, mut late) = (db.session().await, db.session().await);
    run(&mut early, "BEGIN").await;
    assert_eq!(emit(&mut early, "fresh", "very first").await, 1);
    emit(&mut late, "fresh", "second").await;
    assert_eq!(log.horizon().await.unwrap().horizon, 0);
    assert!(types_after(&log, 0).await.is_empty());
    run(&mut early, "COMMIT").await;
    assert_eq!(types_after(&log, 0).await, ["very first", "second"]);
}

#[tokio::test]
async fn a_savepoint_gives_back_only_what_is_its_own() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let (mut writer, mut other) = (db.session().await, db.session().await);
    // The append took its lock inside the savepoint. A rollback to the savepoint releases the lock,
    // and the next append takes a new one.
    run(&mut writer, "BEGIN; SAVEPOINT s").await;
    emit(&mut writer, "shop", "undone").await;
    run(&mut writer, "ROLLBACK TO s").await;
    assert_eq!(log.horizon().await.unwrap().writers, [], "nothing in flight now");
    emit(&mut writer, "shop", "kept").await;
    emit(&mut other, "shop", "other").await;
    assert_eq!(log.horizon().await.unwrap().horizon, 1, "the second append is in flight");
    assert_eq!(log.horizon().await.unwrap().writers.len(), 1);
    assert!(types_after(&log, 0).await.is_empty());
    run(&mut writer, "COMMIT").await;
    assert_eq!(types_after(&log, 0).await, ["kept", "other"]);

    // The lock was taken before the savepoint: it outlives the rollback.
    run(&mut writer, "BEGIN").await;
    emit(&mut writer, "shop", "before").await;
    run(&mut writer, "SAVEPOINT s").await;
    emit(&mut writer, "shop", "undone").await;
    run(&mut writer, "ROLLBACK TO s").await;
    emit(&mut other, "shop", "other").await;
    assert!(types_after(&log, 3).await.is_empty());
    run(&mut writer, "COMMIT").await;
    assert_eq!(types_after(&log, 3).await, ["before", "other"]);

    // A released savepoint keeps its lock.
    run(&mut writer, "BEGIN; SAVEPOINT s").await;
    emit(&mut writer, "shop", "released").await;
    run(&mut writer, "RELEASE s").await;
    emit(&mut other, "shop", "other").await;
    assert!(types_after(&log, 6).await.is_empty());
    run(&mut writer, "COMMIT").await;
    assert_eq!(types_after(&log, 6).await, ["released", "other"]);
}

#[tokio::test]
async fn a_prepared_transaction_is_waited_for_and_named() {
    let db = TestDatabase::create().await;
    // NOTIFY cannot be prepared, so a namespace for two-phase commit has it off.
    let log = db.log_with(NamespaceConfig::new("shop").notify(false), LogOptions::default()).await;
    let (mut writer, mut other) = (db.session().await, db.session().await);
    let name = format!("tx-{}", uuid::Uuid::now_v7());
    run(&mut writer, "BEGIN").await;
    emit(&mut writer, "shop", "prepared").await;
    run(&mut writer, &format!("PREPARE TRANSACTION '{name}'")).await;
    emit(&mut other, "shop", "other").await;
    drop(writer);

    let page = log.log_page(&LogQuery::after(0)).await.unwrap();
    let GapState::Pending(writers) = &page.gaps[0].state else { panic!("pending, not {:?}", page.gaps) };
    assert_eq!(writers[0].pid, None);
    assert_eq!(writers[0].application_name.as_deref(), Some(format!("prepared transaction {name}").as_str()));
    run(&mut other, &format!("COMMIT PREPARED '{name}'")).await;
    assert_eq!(types_after(&log, 0).await, ["prepared", "other"]);
}

#[tokio::test]
async fn a_terminated_writer_leaves_a_permanent_gap() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let (mut writer, mut other) = (db.session().await, db.session().await);
    run(&mut writer, "BEGIN").await;
    emit(&mut writer, "shop", "killed").await;
    emit(&mut other, "shop", "other").await;
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut writer).await.unwrap();
    // Waits until the backend is gone.
    sqlx::query("SELECT pg_terminate_backend($1, 10000)").bind(pid).execute(&mut other).await.unwrap();
    let pages = pages_after(&log, 0).await;
    assert_eq!(permanent(&pages), [(1, 1)]);
    assert_eq!(types_after(&log, 0).await, ["other"]);
}

#[tokio::test]
async fn strangers_locks_hold_nothing_back() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let elsewhere = TestDatabase::create().await;
    elsewhere.log("shop").await;
    let (mut writer, mut stranger, mut abroad) = (db.session().await, db.session().await, elsewhere.session().await);
    emit(&mut writer, "shop", "one").await;
    // The key that a writer at 0 would take, but exclusive; any other key; and a writer in another
    // database.
    run(&mut stranger, "SELECT pg_advisory_lock((72::bigint << 56) | (1::bigint << 32))").await;
    run(
        &mut stranger,
        "SELECT pg_advisory_lock_shared(0), pg_advisory_lock_shared(1), pg_advisory_lock_shared(72 << 24, 1)",
    )
    .await;
    run(&mut abroad, "BEGIN").await;
    emit(&mut abroad, "shop", "abroad").await;
    let horizon = log.horizon().await.unwrap();
    assert_eq!((horizon.horizon, horizon.writers.len()), (1, 0));
}

#[tokio::test]
async fn namespaces_do_not_hold_each_other_back() {
    let db = TestDatabase::create().await;
    let (one, two) = (db.log("one").await, db.log("two").await);
    let (mut a, mut b) = (db.session().await, db.session().await);
    run(&mut a, "BEGIN").await;
    emit(&mut a, "one", "in flight").await;
    emit(&mut b, "two", "free").await;
    assert_eq!(types_after(&two, 0).await, ["free"]);
    assert!(types_after(&one, 0).await.is_empty());
}

#[tokio::test]
async fn the_upper_half_of_a_sequence_is_rebuilt() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let (mut writer, mut other) = (db.session().await, db.session().await);
    // The writer's lock lies just below a multiple of 2^32, the tail just above.
    let edge = (7i64 << 32) - 1;
    run(&mut other, &format!("SELECT setval('headwater_private.sequence_n1', {edge})")).await;
    run(&mut writer, "BEGIN").await;
    let in_flight = emit(&mut writer, "shop", "in flight").await;
    assert_eq!(in_flight, 7 << 32);
    emit(&mut other, "shop", "other").await;
    let horizon = log.horizon().await.unwrap();
    assert_eq!((horizon.horizon, horizon.head), (edge as u64, (7 << 32) + 1));
    run(&mut writer, "COMMIT").await;
    assert_eq!(types_after(&log, 0).await, ["in flight", "other"]);
}

#[tokio::test]
async fn a_transaction_of_many_appends_takes_one_lock() {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    let mut writer = db.session().await;
    run(&mut writer, "BEGIN").await;
    run(&mut writer, "SELECT headwater.emit('shop', 'many') FROM generate_series(1, 500)").await;
    let locks: i64 =
        sqlx::query("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()")
            .fetch_one(&mut writer)
            .await
            .unwrap()
            .get(0);
    assert_eq!(locks, 1);
}

#[tokio::test]
async fn a_reader_with_one_snapshot_is_refused() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let mut reader = db.session().await;
    for isolation in ["REPEATABLE READ", "SERIALIZABLE"] {
        run(&mut reader, &format!("BEGIN ISOLATION LEVEL {isolation}")).await;
        assert_eq!(sqlstate_of(&mut reader, "SELECT * FROM headwater.read_log('shop')").await, "WH006");
        run(&mut reader, &format!("ROLLBACK; BEGIN ISOLATION LEVEL {isolation}")).await;
        let refused = log.log_page_in(&mut reader, &LogQuery::after(0)).await;
        assert!(matches!(refused, Err(ReadError::NoProof(_))), "{refused:?}");
        run(&mut reader, "ROLLBACK").await;
    }
}

#[tokio::test]
async fn a_reader_in_its_own_transaction_sees_what_is_committed() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let (mut session, mut other) = (db.session().await, db.session().await);
    emit(&mut other, "shop", "committed").await;
    run(&mut session, "BEGIN").await;
    emit(&mut session, "shop", "own").await;
    let page = log.log_page_in(&mut session, &LogQuery::after(0)).await.unwrap();
    assert_eq!(page.events.len(), 1, "its own append lies beyond the horizon");
    run(&mut session, "COMMIT").await;
    assert_eq!(log.log_page_in(&mut session, &LogQuery::after(0)).await.unwrap().events.len(), 2);
}

#[tokio::test]
async fn filters_do_not_hide_what_is_in_flight() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let (mut early, mut late) = (db.session().await, db.session().await);
    emit(&mut late, "shop", "other").await;
    run(&mut early, "BEGIN").await;
    emit(&mut early, "shop", "wanted").await;
    emit(&mut late, "shop", "wanted").await;
    let wanted = LogQuery::after(0).event_types(["wanted"]);
    let page = log.log_page(&wanted).await.unwrap();
    assert_eq!((page.events.len(), page.cursor), (0, 1), "the cursor stops below what is in flight");
    run(&mut early, "COMMIT").await;
    let page = log.log_page(&LogQuery { after: page.cursor, ..wanted }).await.unwrap();
    assert_eq!(page.events.iter().map(|event| event.sequence().get()).collect::<Vec<_>>(), [2, 3]);
}

#[tokio::test]
async fn sql_readers_obey_the_horizon() {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    let (mut early, mut late, mut reader) = (db.session().await, db.session().await, db.session().await);
    run(&mut early, "BEGIN").await;
    emit(&mut early, "shop", "first").await;
    emit(&mut late, "shop", "second").await;
    let read = "SELECT event_type FROM headwater.read_log('shop')";
    assert!(sqlx::query(read).fetch_all(&mut reader).await.unwrap().is_empty());
    run(&mut early, "COMMIT").await;
    let types: Vec<String> = sqlx::query_scalar(read).fetch_all(&mut reader).await.unwrap();
    assert_eq!(types, ["first", "second"]);
}

#[tokio::test]
async fn a_gapless_namespace_has_no_holes_after_rollbacks() {
    let db = TestDatabase::create().await;
    let log = db.log_with(NamespaceConfig::new("ledger").ordering(Ordering::Gapless), LogOptions::default()).await;
    let mut writer = db.session().await;
    for (rolled_back, expected) in [(false, 1), (true, 2), (true, 2), (false, 2), (false, 3)] {
        run(&mut writer, "BEGIN").await;
        assert_eq!(emit(&mut writer, "ledger", "entry").await, expected);
        run(&mut writer, if rolled_back { "ROLLBACK" } else { "COMMIT" }).await;
    }
    let pages = pages_after(&log, 0).await;
    assert_eq!(permanent(&pages), []);
    assert_eq!(pages.iter().map(|page| page.events.len()).sum::<usize>(), 3);
    assert_eq!(log.horizon().await.unwrap().horizon, 3);
}

/// Sequences that were rolled back and never reached the disk are handed out again after a crash.
/// No reader may have passed them by then.
#[tokio::test]
async fn a_crash_after_rollbacks_hides_no_event_own_server() {
    let settings = Server::builder().setting("wal_writer_delay", "10s").setting("bgwriter_delay", "10s");
    let mut server = settings.start().expect("failed to start a server");
    let database = Database::connect(&server.url("headwater"), DatabaseOptions::default()).await.unwrap();
    database.migrate().await.unwrap();
    database.create_namespace(&NamespaceConfig::new("shop")).await.unwrap();
    let log = database.open_log("shop", LogOptions::default()).await.unwrap();
    let mut cursor = 0;
    let mut expected = Vec::new();
    for round in 0..3 {
        let kept = log.append(raw(&format!("kept {round}")).into()).await.unwrap().global_sequence();
        expected.push(kept);
        let mut session = sqlx::PgConnection::connect(&server.url("headwater")).await.unwrap();
        let burn = "BEGIN; SELECT headwater.emit('shop', 'burnt') FROM generate_series(1, 100); ROLLBACK";
        run(&mut session, burn).await;
        // A reader goes as far as it may.
        let pages: Vec<_> = log.read_log_pages(LogQuery::after(cursor)).try_collect().await.unwrap();
        cursor = pages.last().map_or(cursor, |page| page.cursor);
        let horizon = log.horizon().await.unwrap().horizon;
        assert!(horizon >= cursor);
        cursor = cursor.max(horizon);
        let restart = move || {
            server.restart(Shutdown::Immediate).expect("failed to restart");
            server
        };
        server = tokio::task::spawn_blocking(restart).await.unwrap();
        let after = log.append(raw(&format!("after the crash {round}")).into()).await.unwrap().global_sequence();
        expected.push(after);
        assert!(after > cursor, "the reader has passed {cursor}, and would never see {after}");
    }
    let events: Vec<_> = log.read_all_events_since(0).try_collect::<Vec<_>>().await.unwrap();
    assert_eq!(events.iter().filter_map(|event| event.global_sequence).collect::<Vec<_>>(), expected);
}

/// A cloned database has none yet.
#[tokio::test]
async fn those_who_begin_a_history_at_once_begin_the_same() {
    let db = TestDatabase::create().await;
    let begin = "SELECT headwater.begin_history()";
    let (mut first, mut second) = (db.session().await, db.session().await);
    run(&mut first, "DELETE FROM headwater_private.histories").await;
    run(&mut first, "BEGIN").await;
    let begun: Uuid = sqlx::query_scalar(begin).fetch_one(&mut first).await.unwrap();
    let pid = pid(&mut second).await;
    let other = tokio::spawn(async move { sqlx::query_scalar::<_, Uuid>(begin).fetch_one(&mut second).await });
    until_it_waits(&mut db.session().await, pid).await;
    run(&mut first, "COMMIT").await;
    assert_eq!(other.await.unwrap().unwrap(), begun);
}

#[tokio::test]
async fn a_history_that_somebody_begins_for_ever_does_not_keep_others_from_theirs() {
    let db = TestDatabase::create().await;
    let begin = "SELECT headwater.begin_history()";
    let (mut first, mut second) = (db.session().await, db.session().await);
    run(&mut first, "DELETE FROM headwater_private.histories").await;
    run(&mut first, "BEGIN").await;
    let open: Uuid = sqlx::query_scalar(begin).fetch_one(&mut first).await.unwrap();
    let begun: Option<Uuid> = sqlx::query_scalar(begin).fetch_one(&mut second).await.unwrap();
    assert!(begun.is_some_and(|begun| begun != open));
}

/// The proof in two steps, for a reader that has the events from elsewhere: which writers have
/// ended, then what is in the holes up to there.
#[tokio::test]
async fn a_hole_is_proved_without_reading_what_lies_around_it() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let (mut early, mut never, mut late) = (db.session().await, db.session().await, db.session().await);
    for session in [&mut early, &mut never] {
        run(session, "BEGIN").await;
    }
    let first = emit(&mut early, "shop", "first").await;
    let gone = emit(&mut never, "shop", "never").await;
    let seen = emit(&mut late, "shop", "late").await;
    assert_eq!((first, gone, seen), (1, 2, 3));
    let holes: Gaps = [(1, 2)].into_iter().collect();

    run(&mut never, "ROLLBACK").await;
    let open = log.settled_up_to(3).await.unwrap();
    assert_eq!((open.horizon, open.writers.len()), (0, 1), "the first may still come");
    assert_eq!(open.writers[0].pid, Some(pid(&mut early).await));
    assert_eq!(log.in_gaps(&holes, 1000).await.unwrap().filled, []);

    run(&mut early, "COMMIT").await;
    let proved = log.settled_up_to(3).await.unwrap();
    assert_eq!((proved.horizon, proved.writers.len()), (3, 0));
    let found = log.in_gaps(&holes, 1000).await.unwrap();
    assert_eq!(found.filled.iter().filter_map(|event| event.global_sequence).collect::<Vec<_>>(), [1]);
    assert_eq!(found.seen, u64::MAX);

    // What was handed out since, and is in flight, lies beyond what was seen.
    run(&mut early, "BEGIN").await;
    emit(&mut early, "shop", "in flight").await;
    assert_eq!(log.settled_up_to(3).await.unwrap().horizon, 3);
    assert_eq!(log.settled_up_to(9).await.unwrap().horizon, 3);
    let other = log.under(headwater_core::History::new(Uuid::new_v4()));
    assert!(other.settled_up_to(3).await.unwrap_err().is_other_history());
    assert!(other.in_gaps(&holes, 1000).await.unwrap_err().is_other_history());
}

/// Whatever the planner knows of the table: nothing, as of one that has just been filled, or all.
#[tokio::test]
async fn a_look_into_gaps_reads_what_is_in_them_and_nothing_else() {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    run(&mut db.session().await, "SELECT headwater.emit('shop', 'e') FROM generate_series(1, 2000)").await;
    for analysed in [false, true] {
        // A session of its own: what it counts includes what it has not reported yet.
        let mut session = db.session().await;
        run(&mut session, "SET plan_cache_mode = force_generic_plan").await;
        if analysed {
            run(&mut db.session().await, "ANALYZE headwater_private.events").await;
        }
        let mut reader = session.begin().await.unwrap();
        let look =
            "SELECT count(*) FROM headwater.gap_events(1, '{100, 300, 5000}', '{100, 305, 9000}', 1000, NULL, NULL)";
        let found: i64 = sqlx::query_scalar(look).fetch_one(&mut *reader).await.unwrap();
        let read = "SELECT sum(coalesce(s.idx_tup_fetch, 0) + s.seq_tup_read)::bigint FROM pg_stat_xact_user_tables s
                      JOIN pg_partition_tree('headwater_private.events') t ON t.relid = s.relid WHERE t.isleaf";
        let rows: i64 = sqlx::query_scalar(read).fetch_one(&mut *reader).await.unwrap();
        assert_eq!((found, rows), (7, 7), "analysed: {analysed}");
        reader.rollback().await.unwrap();
    }
}

/// Of holes that rollbacks left among many events, as a proof looks into them: one in ten.
#[tokio::test]
async fn a_look_into_holes_that_stay_empty_reads_no_rows() {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    let mut session = db.session().await;
    run(&mut session, "SELECT headwater.emit('shop', 'e') FROM generate_series(1, 2000)").await;
    run(&mut session, "DELETE FROM headwater_private.events WHERE global_sequence % 10 = 0").await;
    let mut session = db.session().await;
    let mut reader = session.begin().await.unwrap();
    let look = "SELECT count(*) FROM headwater.gap_events(1, (SELECT array_agg(i * 10) FROM generate_series(1, 200) i),
                                                          (SELECT array_agg(i * 10) FROM generate_series(1, 200) i), 1000, NULL, NULL)";
    let found: i64 = sqlx::query_scalar(look).fetch_one(&mut *reader).await.unwrap();
    let read = "SELECT sum(coalesce(s.idx_tup_fetch, 0) + s.seq_tup_read)::bigint FROM pg_stat_xact_user_tables s
                  JOIN pg_partition_tree('headwater_private.events') t ON t.relid = s.relid WHERE t.isleaf";
    let rows: i64 = sqlx::query_scalar(read).fetch_one(&mut *reader).await.unwrap();
    assert_eq!((found, rows), (0, 0));
}

/// A hole that was empty after the writers were listed is looked into again only when one of these
/// writers has ended.
#[tokio::test]
async fn new_holes_are_looked_into_when_a_writer_has_ended() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let (mut long, mut short, mut others) = (db.session().await, db.session().await, db.session().await);
    for session in [&mut long, &mut short] {
        run(session, "BEGIN").await;
    }
    assert_eq!(emit(&mut long, "shop", "1").await, 1);
    assert_eq!(emit(&mut others, "shop", "2").await, 2);
    assert_eq!(emit(&mut short, "shop", "3").await, 3);
    assert_eq!(emit(&mut others, "shop", "4").await, 4);
    let sequences =
        |events: &[headwater_core::RecordedEvent]| events.iter().map(|event| event.sequence().get()).collect();
    let seen = |look: &LookAhead| -> (Vec<u64>, Vec<u64>) { (sequences(&look.events), sequences(&look.filled)) };
    let none = Gaps::new();
    let first = log.look_again(Look { after: 0, limit: 10, gaps: &none, looked_to: 0, writers: &[], kept_after: 0 });
    let first = first.await.unwrap();
    assert_eq!((seen(&first), first.looked_to, first.writers.len()), ((vec![2, 4], vec![]), 4, 2));

    // 2 is no hole. If it is found, somebody has looked.
    let gaps: Gaps = [(1, 3)].into_iter().collect();
    let again = Look { after: 4, limit: 10, gaps: &gaps, looked_to: 4, writers: &first.writers, kept_after: 0 };
    assert_eq!(seen(&log.look_again(again).await.unwrap()), (vec![], vec![]), "nobody has ended");
    run(&mut short, "COMMIT").await;
    let second = log.look_again(again).await.unwrap();
    assert_eq!(seen(&second), (vec![], vec![3]), "what lies above the one that has ended");
    assert_eq!((second.settled, second.writers.len(), second.ended.len()), (0, 1, 0));
    run(&mut long, "COMMIT").await;
    let third = log.look_again(Look { writers: &second.writers, ..again }).await.unwrap();
    assert_eq!((seen(&third), third.settled), ((vec![], vec![1, 2, 3]), 4));
}
