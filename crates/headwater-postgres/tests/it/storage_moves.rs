//! A namespace moves between shared tables and its own tables while it is in use: with writers,
//! claims and readers at every moment.

use crate::common::months::seal;
use crate::common::{emit, pid, raw, run, sqlstate_of, types_after, until_it_waits};
use headwater_core::{AdminError, Append, EventLog, NamespaceConfig, Ordering, Storage};
use headwater_postgres::{LogOptions, PgLog, StorageStep};
use headwater_testing::TestDatabase;
use sqlx::{AssertSqlSafe, PgConnection};
use std::time::Duration;

const STEP: &str = "SELECT step FROM headwater.set_storage($1, $2, 100)";

async fn step(session: &mut PgConnection, namespace: &str, storage: &str) -> String {
    sqlx::query_scalar(STEP).bind(namespace).bind(storage).fetch_one(session).await.unwrap()
}

/// Takes steps until `last`, and says which.
async fn steps_to(session: &mut PgConnection, storage: &str, last: &str) -> Vec<String> {
    let mut steps = Vec::new();
    while steps.last().map(String::as_str) != Some(last) {
        steps.push(step(session, "shop", storage).await);
        assert!(steps.len() < 100, "{steps:?}");
    }
    steps
}

async fn count(session: &mut PgConnection, query: &str) -> i64 {
    sqlx::query_scalar(AssertSqlSafe(query.to_owned())).fetch_one(session).await.unwrap()
}

async fn text(session: &mut PgConnection, query: &str) -> String {
    sqlx::query_scalar(AssertSqlSafe(query.to_owned())).fetch_one(session).await.unwrap()
}

/// Tables with rows of `shop`, each with how many.
async fn places(session: &mut PgConnection) -> Vec<(String, i64)> {
    let tables: Vec<String> = sqlx::query_scalar(
        "SELECT c.relname::text FROM pg_class c WHERE c.relnamespace = 'headwater_private'::regnamespace AND c.relkind = 'r'
            AND c.relname ~ '^events_' ORDER BY 1",
    )
    .fetch_all(&mut *session)
    .await
    .unwrap();
    let mut found = Vec::new();
    for table in tables {
        let rows =
            count(session, &format!("SELECT count(*) FROM headwater_private.{table} WHERE namespace_id = 1")).await;
        if rows > 0 {
            found.push((table, rows));
        }
    }
    found
}

async fn all(log: &PgLog) -> usize {
    log.look_up_months().await.unwrap();
    types_after(log, 0).await.len()
}

/// Nothing is wrong with `shop`, which has so many events.
async fn assert_sound(session: &mut PgConnection, log: &PgLog, events: usize) {
    assert_eq!(all(log).await, events);
    let faults: Vec<String> = sqlx::query_scalar(
        "SELECT fault || coalesce(' ' || name, '') FROM headwater.faults('shop') WHERE fault <> 'overdue'",
    )
    .fetch_all(&mut *session)
    .await
    .unwrap();
    assert_eq!(faults, [""; 0]);
    let counted = "SELECT events FROM headwater_private.count_events(1, ARRAY[1, 9223372036854775807])";
    assert_eq!(count(session, counted).await, events as i64);
}

async fn shop(db: &TestDatabase, storage: Storage) -> PgLog {
    db.log_with(NamespaceConfig::new("shop").storage(storage), LogOptions::default()).await
}

async fn append(log: &PgLog, event_type: &str) -> u64 {
    log.append(Append::new().event(raw(event_type))).await.unwrap().events[0].global_sequence
}

#[tokio::test]
async fn a_namespace_is_moved_there_and_back() {
    let db = TestDatabase::create().await;
    let log = shop(&db, Storage::Shared).await;
    db.log("other").await;
    for namespace in ["shop", "other"] {
        db.past_months(namespace, 4, 50).await;
    }
    let mut session = db.session().await;
    for _ in 0..250 {
        emit(&mut session, "shop", "now").await;
    }
    emit(&mut session, "other", "now").await;

    let steps = steps_to(&mut session, "own", "done").await;
    assert_eq!(steps[..3], ["begun", "copied", "copied"]);
    assert_eq!(steps.iter().filter(|step| *step == "moved").count(), 4, "{steps:?}");
    assert_sound(&mut session, &log, 450).await;
    append(&log, "after").await;
    assert_sound(&mut session, &log, 451).await;
    // All its events are in its own tables. Tables of past months that it shared are rewritten
    // without it.
    let own: i64 =
        places(&mut session).await.iter().filter(|place| place.0.starts_with("events_n1_")).map(|place| place.1).sum();
    assert_eq!(own, 451);
    db.database.maintain("other", false).await.unwrap();
    let shared: Vec<_> =
        places(&mut session).await.into_iter().filter(|place| !place.0.starts_with("events_n1_")).collect();
    assert_eq!(shared.len(), 2, "only those that are part of the table of current months: {shared:?}");
    for (table, _) in &shared {
        let attached =
            format!("SELECT count(*) FROM pg_inherits WHERE inhrelid = 'headwater_private.{table}'::regclass");
        assert_eq!(count(&mut session, &attached).await, 1, "{table}");
    }
    assert_eq!(count(&mut session, "SELECT count(*) FROM headwater.drop_steps('other')").await, 0);

    let steps = steps_to(&mut session, "shared", "done").await;
    assert_eq!(steps.iter().filter(|step| *step == "moved").count(), 4, "{steps:?}");
    assert_eq!(steps[steps.len() - 2], "dropped");
    assert_sound(&mut session, &log, 451).await;
    append(&log, "back").await;
    assert_sound(&mut session, &log, 452).await;
    let places = places(&mut session).await;
    assert!(places.iter().all(|place| !place.0.starts_with("events_n1")), "{places:?}");
    db.database.maintain("shop", false).await.unwrap();
    assert_sound(&mut session, &log, 452).await;
    let other = db.log("other").await;
    assert_eq!(all(&other).await, 201);
}

#[tokio::test]
async fn many_that_are_moved_to_shared_months_are_in_few_tables() {
    let db = TestDatabase::create().await;
    for i in 0..6 {
        let name = format!("shop-{i}");
        db.log_with(NamespaceConfig::new(&name).storage(Storage::Own), LogOptions::default()).await;
        db.past_months(&name, 1, 50).await;
    }
    for i in 0..6 {
        let info =
            db.database.set_storage(&format!("shop-{i}"), Storage::Shared, Duration::ZERO, |_| {}).await.unwrap();
        assert_eq!(info.storage, Storage::Shared);
    }
    db.database.maintain("shop-0", false).await.unwrap();
    let mut session = db.session().await;
    let tables = count(&mut session, "SELECT count(DISTINCT leaf) FROM headwater_private.months").await;
    assert!(tables <= 2, "{tables}");
    let standing = "SELECT count(*) FROM pg_class WHERE relnamespace = 'headwater_private'::regnamespace AND relkind = 'r' AND relname ~ '^events_.*_r'";
    assert_eq!(count(&mut session, standing).await, tables, "those that were merged are dropped");
    for i in 0..6 {
        assert_eq!(all(&db.log(&format!("shop-{i}")).await).await, 50);
    }
}

/// The move waits 200 ms for a transaction that appends, and names it. Nothing is changed then.
/// Afterwards the move goes on.
async fn is_in_the_way(begin: &str, prepared: bool, storage: Storage, ordering: Ordering) {
    let db = TestDatabase::create().await;
    // A prepared transaction cannot NOTIFY.
    let config = NamespaceConfig::new("shop").storage(storage).ordering(ordering).notify(false);
    let log = db.log_with(config, LogOptions::default()).await;
    let target = if storage == Storage::Shared { "own" } else { "shared" };
    let (mut session, mut writer) = (db.session().await, db.session().await);
    emit(&mut session, "shop", "before").await;
    steps_to(&mut session, target, "begun").await;
    run(&mut writer, "SET application_name = 'slow-writer'").await;
    run(&mut writer, begin).await;
    emit(&mut writer, "shop", "open").await;
    let gid = format!("slow-{}", pid(&mut writer).await);
    if prepared {
        run(&mut writer, &format!("PREPARE TRANSACTION '{gid}'")).await;
    }
    let refused = sqlx::query(STEP).bind("shop").bind(target).execute(&mut session).await.unwrap_err();
    let refused = refused.as_database_error().unwrap();
    assert_eq!(refused.code().unwrap(), "WH038", "{refused}");
    let name = if prepared { &*gid } else { "slow-writer" };
    assert!(refused.message().contains(name), "{refused}");
    run(&mut writer, &if prepared { format!("COMMIT PREPARED '{gid}'") } else { "COMMIT".into() }).await;
    steps_to(&mut session, target, "done").await;
    emit(&mut session, "shop", "after").await;
    assert_sound(&mut session, &log, 3).await;
}

#[tokio::test]
async fn open_writers_are_waited_for_and_named() {
    for storage in [Storage::Shared, Storage::Own] {
        for ordering in [Ordering::Sequence, Ordering::Gapless] {
            is_in_the_way("BEGIN", false, storage, ordering).await;
            is_in_the_way("BEGIN ISOLATION LEVEL REPEATABLE READ", false, storage, ordering).await;
            is_in_the_way("BEGIN", true, storage, ordering).await;
        }
    }
}

/// The mover waits for an open writer, and another append waits behind the mover. That append
/// continues when the mover gives up, while the writer is still open.
#[tokio::test]
async fn an_append_behind_a_move_that_waits_goes_on_when_that_gives_up() {
    for ordering in [Ordering::Sequence, Ordering::Gapless] {
        let db = TestDatabase::create().await;
        let log = db.log_with(NamespaceConfig::new("shop").ordering(ordering), LogOptions::default()).await;
        let [mut mover, mut writer, mut other, mut watcher] =
            [db.session().await, db.session().await, db.session().await, db.session().await];
        emit(&mut mover, "shop", "before").await;
        steps_to(&mut mover, "own", "begun").await;
        run(&mut writer, "BEGIN").await;
        emit(&mut writer, "shop", "open").await;
        let mover_pid = pid(&mut mover).await;
        let mut behind = tokio::spawn(async move {
            // It waits for 200 ms: whoever looks too late finds that it has given up.
            let waits = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1 AND (wait_event_type = 'Lock'
                             OR query LIKE 'SELECT headwater.set_storage(%' AND state <> 'active'))";
            while !sqlx::query_scalar::<_, bool>(waits).bind(mover_pid).fetch_one(&mut watcher).await.unwrap() {
                tokio::task::yield_now().await;
            }
            emit(&mut other, "shop", "behind").await
        });
        let refused = sqlstate_of(&mut mover, "SELECT headwater.set_storage('shop', 'own')").await;
        assert_eq!(refused, "WH038");
        if ordering == Ordering::Sequence {
            (&mut behind).await.unwrap();
        }
        // In a gapless namespace, one append waits for the other anyway.
        run(&mut writer, "COMMIT").await;
        if ordering == Ordering::Gapless {
            behind.await.unwrap();
        }
        steps_to(&mut mover, "own", "done").await;
        assert_sound(&mut mover, &log, 3).await;
    }
}

#[tokio::test]
async fn a_stranger_that_forges_a_writers_lock_is_not_in_the_way() {
    let db = TestDatabase::create().await;
    let log = shop(&db, Storage::Shared).await;
    let (mut session, mut stranger) = (db.session().await, db.session().await);
    emit(&mut session, "shop", "before").await;
    run(
        &mut stranger,
        "BEGIN; SELECT pg_advisory_xact_lock_shared(headwater_private.writer_key(1, 0)), pg_advisory_xact_lock(headwater_private.writer_key(1, 1)),
                pg_advisory_xact_lock(headwater_private.writer_key(1, 2)); SELECT count(*) FROM headwater.namespace_status()",
    )
    .await;
    steps_to(&mut session, "own", "done").await;
    run(&mut stranger, "ROLLBACK").await;
    emit(&mut session, "shop", "after").await;
    assert_sound(&mut session, &log, 2).await;
}

/// The move has switched and is not committed yet. `writer` runs `text` until it waits for the
/// move. It began with the old row of the namespace.
async fn across_the_switch(
    db: &TestDatabase,
    target: &str,
    writer: &mut PgConnection,
    text: &str,
) -> Result<i64, sqlx::Error> {
    let (mut mover, mut watcher) = (db.session().await, db.session().await);
    steps_to(&mut mover, target, "begun").await;
    run(&mut mover, "BEGIN").await;
    steps_to(&mut mover, target, "switched").await;
    let writer_pid = pid(writer).await;
    let (sequence, ()) = tokio::join!(sqlx::query_scalar(AssertSqlSafe(text.to_owned())).fetch_one(writer), async {
        until_it_waits(&mut watcher, writer_pid).await;
        run(&mut mover, "COMMIT").await;
    });
    sequence
}

#[tokio::test]
async fn an_append_that_read_the_namespace_before_the_switch_goes_to_the_new_place() {
    for storage in [Storage::Shared, Storage::Own] {
        for ordering in [Ordering::Sequence, Ordering::Gapless] {
            let db = TestDatabase::create().await;
            let config = NamespaceConfig::new("shop").storage(storage).ordering(ordering);
            let log = db.log_with(config, LogOptions::default()).await;
            let target = if storage == Storage::Shared { "own" } else { "shared" };
            let (mut session, mut writer) = (db.session().await, db.session().await);
            // A plan for all values, made before.
            run(&mut writer, "SET plan_cache_mode = force_generic_plan").await;
            emit(&mut writer, "shop", "before").await;
            let placed = across_the_switch(&db, target, &mut writer, "SELECT headwater.emit('shop', 'across')").await;
            assert_eq!(placed.unwrap(), 2);
            let table = if target == "own" { "events_n1" } else { "events" };
            let stored = format!(
                "SELECT string_agg(event_type, ' ' ORDER BY global_sequence) FROM headwater_private.{table} WHERE namespace_id = 1"
            );
            assert_eq!(text(&mut session, &stored).await, "before across");
            steps_to(&mut session, target, "done").await;
            assert_sound(&mut session, &log, 2).await;
        }
    }
}

#[tokio::test]
async fn an_append_by_the_short_way_stores_nothing_in_the_old_place() {
    let db = TestDatabase::create().await;
    let log = shop(&db, Storage::Shared).await;
    let (mut session, mut writer) = (db.session().await, db.session().await);
    emit(&mut session, "shop", "before").await;
    let one = "SELECT headwater.emit_one('shop', headwater.uuid_v7(), 'across', '{}', now(), NULL, NULL, NULL, NULL, NULL, NULL, 0)";
    let refused = across_the_switch(&db, "own", &mut writer, one).await.unwrap_err();
    assert_eq!(refused.as_database_error().unwrap().code().unwrap(), "2200H");
    steps_to(&mut session, "own", "done").await;
    assert_eq!(types_after(&log, 0).await, ["before"]);
    // A client goes on with the long way.
    steps_to(&mut session, "shared", "done").await;
    let (mut mover, mut watcher) = (db.session().await, db.session().await);
    steps_to(&mut mover, "own", "begun").await;
    run(&mut mover, "BEGIN").await;
    steps_to(&mut mover, "own", "switched").await;
    let waits =
        "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')";
    let (sequence, ()) = tokio::join!(append(&log, "client"), async {
        while !sqlx::query_scalar::<_, bool>(waits).fetch_one(&mut watcher).await.unwrap() {
            tokio::task::yield_now().await;
        }
        run(&mut mover, "COMMIT").await;
    });
    assert_eq!(sequence, 2);
    assert_sound(&mut session, &log, 2).await;
    assert_eq!(count(&mut session, "SELECT count(*) FROM headwater_private.events_n1").await, 2);
}

#[tokio::test]
async fn a_transaction_that_keeps_an_old_snapshot_stores_nothing() {
    for ordering in [Ordering::Sequence, Ordering::Gapless] {
        let db = TestDatabase::create().await;
        let log = db.log_with(NamespaceConfig::new("shop").ordering(ordering), LogOptions::default()).await;
        let (mut session, mut writer) = (db.session().await, db.session().await);
        emit(&mut session, "shop", "before").await;
        for (target, sequence) in [("own", 2), ("shared", 3)] {
            run(
                &mut writer,
                "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM headwater_private.namespaces",
            )
            .await;
            steps_to(&mut session, target, "done").await;
            assert_eq!(sqlstate_of(&mut writer, "SELECT headwater.emit('shop', 'stale')").await, "40001");
            run(&mut writer, "ROLLBACK").await;
            run(&mut writer, "BEGIN ISOLATION LEVEL REPEATABLE READ").await;
            assert_eq!(emit(&mut writer, "shop", "again").await, sequence);
            run(&mut writer, "COMMIT").await;
        }
        assert_sound(&mut session, &log, 3).await;
    }
}

#[tokio::test]
async fn a_claim_that_waited_for_the_queue_across_the_switch_gets_events() {
    let db = TestDatabase::create().await;
    let log = shop(&db, Storage::Shared).await;
    let (mut session, mut first, mut second) = (db.session().await, db.session().await, db.session().await);
    run(
        &mut session,
        "SELECT headwater.register_subscriber('shop', 'work', mode => 'shared', start_from => 'beginning')",
    )
    .await;
    for _ in 0..4 {
        emit(&mut session, "shop", "before").await;
    }
    let claim = "SELECT coalesce(string_agg(global_sequence::text, ' ' ORDER BY global_sequence), '') FROM headwater.claim('shop', 'work', 2)";
    // Plans for all values, made before the move.
    for session in [&mut first, &mut second] {
        run(session, &format!("BEGIN; {claim}; {claim}; ROLLBACK")).await;
    }
    run(&mut first, "BEGIN").await;
    assert_eq!(text(&mut first, claim).await, "1 2");
    let second_pid = pid(&mut second).await;
    let (claimed, ()) = tokio::join!(text(&mut second, claim), async {
        until_it_waits(&mut session, second_pid).await;
        steps_to(&mut session, "own", "done").await;
        for _ in 0..8 {
            emit(&mut session, "shop", "after").await;
        }
        // The one that has the lock goes on into the new place: 3 to 6.
        assert_eq!(text(&mut first, claim).await, "3 4");
        assert_eq!(text(&mut first, claim).await, "5 6");
        run(&mut first, "COMMIT").await;
    });
    assert_eq!(claimed, "7 8");
    assert_eq!(text(&mut second, claim).await, "9 10");
    // And back, between two claims of one session.
    steps_to(&mut session, "shared", "done").await;
    assert_eq!(text(&mut second, claim).await, "11 12");
    emit(&mut session, "shop", "last").await;
    assert_eq!(text(&mut second, claim).await, "13");
    assert_sound(&mut session, &log, 13).await;
}

#[tokio::test]
async fn a_reader_with_an_old_snapshot_gets_all_or_an_error() {
    let db = TestDatabase::create().await;
    let log = shop(&db, Storage::Shared).await;
    db.log("other").await;
    for namespace in ["shop", "other"] {
        db.past_months(namespace, 3, 10).await;
    }
    let (mut session, mut reader) = (db.session().await, db.session().await);
    seal(&mut session, "shop").await;
    for _ in 0..5 {
        emit(&mut session, "shop", "now").await;
    }
    db.database.maintain("other", false).await.unwrap();
    let old = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM headwater_private.namespaces";
    let read = "SELECT count(*) FROM headwater.log_page(1, 0, NULL, 1000, NULL, NULL, NULL)";

    run(&mut reader, old).await;
    steps_to(&mut session, "own", "done").await;
    emit(&mut session, "shop", "after").await;
    assert_eq!(count(&mut reader, read).await, 35, "all that its snapshot shows, in the old place");
    run(&mut reader, "ROLLBACK").await;
    run(&mut reader, old).await;
    assert_eq!(count(&mut reader, read).await, 36);
    run(&mut reader, "ROLLBACK").await;

    // Tables that it shared are written anew, and dropped.
    run(&mut reader, old).await;
    let tables = places(&mut session).await.len();
    db.database.maintain("other", false).await.unwrap();
    assert!(places(&mut session).await.len() < tables);
    assert_eq!(count(&mut reader, read).await, 36);
    run(&mut reader, "ROLLBACK").await;

    // The tree goes as a whole.
    run(&mut reader, old).await;
    steps_to(&mut session, "shared", "switched").await;
    emit(&mut session, "shop", "back").await;
    assert_eq!(count(&mut reader, read).await, 36);
    run(&mut reader, "ROLLBACK").await;
    run(&mut reader, old).await;
    assert_eq!(count(&mut reader, read).await, 37, "past months are in its own tables still, and are read there");
    // A read releases the tables; this session locks the tree. Nobody waits for it longer than 200
    // ms.
    run(&mut reader, "LOCK TABLE headwater_private.events_n1 IN ACCESS SHARE MODE").await;
    steps_to(&mut session, "shared", "moved").await;
    assert_eq!(step(&mut session, "shop", "shared").await, "moved");
    assert_eq!(step(&mut session, "shop", "shared").await, "moved");
    assert_eq!(sqlstate_of(&mut session, "SELECT headwater.set_storage('shop', 'shared')").await, "55P03");
    run(&mut reader, "ROLLBACK").await;
    run(&mut reader, old).await;
    // This session has read nothing yet. Its snapshot is from before the drop, and names tables
    // that exist.
    assert_eq!(steps_to(&mut session, "shared", "done").await, ["dropped", "done"]);
    assert_eq!(count(&mut reader, read).await, 37);
    run(&mut reader, "ROLLBACK").await;
    assert_sound(&mut session, &log, 37).await;
}

#[tokio::test]
async fn a_reader_whose_snapshot_names_a_tree_that_is_gone_gets_an_error() {
    let db = TestDatabase::create().await;
    let _log = shop(&db, Storage::Own).await;
    let (mut session, mut reader) = (db.session().await, db.session().await);
    emit(&mut session, "shop", "now").await;
    run(&mut reader, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM headwater_private.namespaces").await;
    steps_to(&mut session, "shared", "done").await;
    let read = "SELECT count(*) FROM headwater.log_page(1, 0, NULL, 1000, NULL, NULL, NULL)";
    assert_eq!(sqlstate_of(&mut reader, read).await, "42P01");
}

#[tokio::test]
async fn whoever_is_killed_between_steps_leaves_a_state_from_which_the_next_call_goes_on() {
    let db = TestDatabase::create().await;
    let log = shop(&db, Storage::Shared).await;
    db.past_months("shop", 2, 20).await;
    let mut session = db.session().await;
    for _ in 0..150 {
        emit(&mut session, "shop", "now").await;
    }
    for target in ["own", "shared"] {
        for last in ["begun", "copied", "copied", "switched", "moved", "moved", "dropped"] {
            if target == "own" && last == "dropped" {
                continue;
            }
            // Once before the step commits, then in earnest.
            let mut killed = db.session().await;
            run(&mut killed, "BEGIN").await;
            assert_eq!(step(&mut killed, "shop", target).await, last);
            let killed_pid = pid(&mut killed).await;
            run(&mut session, &format!("SELECT pg_terminate_backend({killed_pid}, 10000)")).await;
            emit(&mut session, "shop", "between").await;
            assert_eq!(step(&mut session, "shop", target).await, last);
            emit(&mut session, "shop", "between").await;
            let events = count(&mut session, "SELECT head FROM headwater.horizon('shop')").await;
            assert_sound(&mut session, &log, events as usize).await;
        }
        assert_eq!(step(&mut session, "shop", target).await, "done");
    }
}

#[tokio::test]
async fn a_move_that_has_not_switched_is_taken_back() {
    for storage in [Storage::Shared, Storage::Own] {
        let db = TestDatabase::create().await;
        let log = shop(&db, storage).await;
        let target = if storage == Storage::Shared { "own" } else { "shared" };
        let mut session = db.session().await;
        for _ in 0..150 {
            emit(&mut session, "shop", "now").await;
        }
        steps_to(&mut session, target, "copied").await;
        // Who forgets it is told.
        run(&mut session, "UPDATE headwater_private.storage_moves SET began_at = began_at - interval '2 days'").await;
        let told = text(&mut session, "SELECT fault || ' ' || mended_by FROM headwater.faults('shop')").await;
        assert_eq!(told, format!("move_unfinished SELECT headwater.set_storage('shop', '{target}')"));
        assert_eq!(steps_to(&mut session, storage.as_str(), "done").await, ["undone", "done"]);
        assert_sound(&mut session, &log, 150).await;
        assert_eq!(count(&mut session, "SELECT count(*) FROM headwater_private.storage_moves").await, 0);
        let left = count(&mut session, "SELECT count(*) FROM headwater_private.left_behind WHERE leaf ~ to_char(now() AT TIME ZONE 'UTC', 'YYYYMM')").await;
        assert_eq!(left, i64::from(storage == Storage::Own), "what was copied is known to lie there");
        // And moved all the same.
        steps_to(&mut session, target, "done").await;
        emit(&mut session, "shop", "after").await;
        assert_sound(&mut session, &log, 151).await;
    }
}

#[tokio::test]
async fn a_move_over_the_end_of_a_month_is_begun_anew() {
    for storage in [Storage::Shared, Storage::Own] {
        let db = TestDatabase::create().await;
        let log = shop(&db, storage).await;
        let target = if storage == Storage::Shared { "own" } else { "shared" };
        let mut session = db.session().await;
        for _ in 0..150 {
            emit(&mut session, "shop", "now").await;
        }
        steps_to(&mut session, target, "copied").await;
        // As if it had begun last month.
        run(&mut session, "UPDATE headwater_private.storage_moves SET from_at = from_at - interval '30 days'").await;
        assert_eq!(step(&mut session, "shop", target).await, "begun");
        steps_to(&mut session, target, "done").await;
        assert_sound(&mut session, &log, 150).await;
    }
}

#[tokio::test]
async fn a_repair_during_the_move_is_not_lost() {
    for storage in [Storage::Shared, Storage::Own] {
        let db = TestDatabase::create().await;
        let _log = shop(&db, storage).await;
        let [here, there] = if storage == Storage::Shared { ["events", "events_n1"] } else { ["events_n1", "events"] };
        let target = if storage == Storage::Shared { "own" } else { "shared" };
        let mut session = db.session().await;
        for _ in 0..150 {
            emit(&mut session, "shop", "now").await;
        }
        run(&mut session, &format!("UPDATE headwater_private.{here} SET headers = '[1]' WHERE global_sequence = 5"))
            .await;
        run(&mut session, "INSERT INTO headwater_private.poison_events (namespace_id, global_sequence, error) VALUES (1, 5, 'broken')").await;
        steps_to(&mut session, target, "copied").await;
        run(
            &mut session,
            &format!("UPDATE headwater_private.{here} SET headers = '{{\"a\": \"b\"}}' WHERE global_sequence = 5"),
        )
        .await;
        steps_to(&mut session, target, "switched").await;
        let headers = format!("SELECT headers::text FROM headwater_private.{there} WHERE global_sequence = 5");
        assert_eq!(text(&mut session, &headers).await, r#"{"a": "b"}"#);
    }
}

#[tokio::test]
async fn a_publication_follows_its_namespace() {
    let db = TestDatabase::create().await;
    let _log = shop(&db, Storage::Shared).await;
    let mut session = db.session().await;
    db.database.publish_namespace("shop").await.unwrap();
    let published = "SELECT string_agg(tablename || coalesce(' ' || rowfilter, ''), ', ') FROM pg_publication_tables WHERE pubname = 'headwater_n1'";
    let before = text(&mut session, published).await;
    steps_to(&mut session, "own", "done").await;
    assert_eq!(text(&mut session, published).await, "events_n1");
    steps_to(&mut session, "shared", "done").await;
    assert_eq!(text(&mut session, published).await, before);
}

#[tokio::test]
async fn retention_drop_export_and_rename_work_while_a_move_is_not_completed() {
    for storage in [Storage::Shared, Storage::Own] {
        let db = TestDatabase::create().await;
        let log = shop(&db, storage).await;
        let target = if storage == Storage::Shared { "own" } else { "shared" };
        db.past_months("shop", 4, 10).await;
        let mut session = db.session().await;
        emit(&mut session, "shop", "now").await;
        steps_to(&mut session, target, "switched").await;
        db.keep_months("shop", 2).await;
        let done = db.database.maintain("shop", false).await.unwrap();
        assert_eq!((done.trimmed.len(), done.left), (2, vec![]));
        // Maintenance has completed the move, too.
        assert_eq!(step(&mut session, "shop", target).await, "done");
        assert_sound(&mut session, &log, 21).await;
        let places = places(&mut session).await;
        let attached = "SELECT count(*) FROM headwater_private.leaves_of('events')";
        assert!(count(&mut session, attached).await > 0);
        if target == "shared" {
            assert!(places.iter().all(|place| !place.0.starts_with("events_n1")), "{places:?}");
        }
        let mut lines = 0;
        db.database
            .export_namespace("shop", |_| {
                lines += 1;
                Ok(())
            })
            .await
            .unwrap();
        assert!(lines > 21);
        steps_to(&mut session, storage.as_str(), "switched").await;
        db.database.rename_namespace("shop", "store", false).await.unwrap();
        db.database.drop_namespace("store", false).await.unwrap();
        let left = "SELECT count(*) FROM pg_class WHERE relname ~ '^(events|sequence)_n1'";
        assert_eq!(count(&mut session, left).await, 0);
        assert_eq!(count(&mut session, "SELECT count(*) FROM headwater_private.events").await, 0);
    }
}

#[tokio::test]
async fn what_cannot_be_moved_is_refused() {
    let db = TestDatabase::create().await;
    let _log = shop(&db, Storage::Own).await;
    let mut session = db.session().await;
    assert_eq!(sqlstate_of(&mut session, "SELECT headwater.set_storage('shop', 'elsewhere')").await, "WH002");
    assert_eq!(sqlstate_of(&mut session, "SELECT headwater.set_storage('shop', NULL)").await, "WH002");
    assert_eq!(sqlstate_of(&mut session, "SELECT headwater.set_storage('nobody', 'own')").await, "WH001");
    assert_eq!(
        sqlstate_of(
            &mut session,
            "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT headwater.set_storage('shop', 'shared')"
        )
        .await,
        "WH006"
    );
    run(&mut session, "ROLLBACK; UPDATE headwater_private.namespaces SET months_made_by = 'pg_partman'").await;
    assert_eq!(sqlstate_of(&mut session, "SELECT headwater.set_storage('shop', 'shared')").await, "WH002");
}

#[tokio::test]
async fn the_client_tells_each_step_and_gives_up_after_its_patience() {
    let db = TestDatabase::create().await;
    let log = shop(&db, Storage::Shared).await;
    append(&log, "before").await;
    let mut writer = db.session().await;
    run(&mut writer, "BEGIN").await;
    emit(&mut writer, "shop", "open").await;
    let held = db.database.set_storage("shop", Storage::Own, Duration::ZERO, |_| {}).await;
    assert!(matches!(held, Err(AdminError::NamespaceHeld(_))), "{held:?}");
    run(&mut writer, "COMMIT").await;
    let mut steps = Vec::new();
    let on_step = |step: &StorageStep| steps.push(step.step.clone());
    let info = db.database.set_storage("shop", Storage::Own, Duration::from_secs(60), on_step).await.unwrap();
    assert_eq!((info.storage, &*steps), (Storage::Own, &["switched".to_owned(), "done".to_owned()][..]));
    assert_eq!(all(&log).await, 2);
}
