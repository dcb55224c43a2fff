//! Months that namespaces share, and sessions that use them at the same time: readers with an older
//! snapshot, maintainers with the same step in hand, tenants with an open transaction. Each test
//! makes the steps of one race by hand.

use crate::common::months::seal;
use crate::common::{emit, pid, run, sqlstate_of, until_it_waits};
use headwater_core::{NamespaceConfig, Ordering, Storage};
use headwater_postgres::{GrantKind, LogOptions};
use headwater_testing::{TestDatabase, TestRole};
use sqlx::{AssertSqlSafe, PgConnection};

/// The month after the next one: maintenance makes it ahead of time.
const COMING: &str =
    "to_char(date_trunc('month', now() AT TIME ZONE 'UTC') + interval '2 months', '\"events_\"YYYYMM')";
const PRESENT: &str = "to_char(now() AT TIME ZONE 'UTC', '\"events_\"YYYYMM')";

async fn text(session: &mut PgConnection, query: &str) -> String {
    sqlx::query_scalar(AssertSqlSafe(query.to_owned())).fetch_one(session).await.unwrap()
}

async fn count(session: &mut PgConnection, query: &str) -> i64 {
    sqlx::query_scalar(AssertSqlSafe(query.to_owned())).fetch_one(session).await.unwrap()
}

/// What `headwater.drop_steps` answers: the table, the step and its statement.
async fn steps(session: &mut PgConnection, namespace: &str) -> Vec<(String, String, Option<String>)> {
    let query = "SELECT leaf, step, statement FROM headwater.drop_steps($1)";
    sqlx::query_as(query).bind(namespace).fetch_all(session).await.unwrap()
}

/// Runs steps until one of this kind is next, and answers its statement.
async fn up_to(session: &mut PgConnection, namespace: &str, step: &str) -> String {
    loop {
        let next = steps(session, namespace).await;
        let (_, name, statement) = next.first().unwrap_or_else(|| panic!("no step {step}"));
        if name == step {
            return statement.clone().unwrap();
        }
        let note = format!("SELECT headwater.note_dropped('{namespace}')");
        run(session, &statement.clone().unwrap_or(note)).await;
    }
}

/// Runs all steps.
async fn all_steps(session: &mut PgConnection, namespace: &str) {
    while let Some((_, _, statement)) = steps(session, namespace).await.into_iter().next() {
        let note = format!("SELECT headwater.note_dropped('{namespace}')");
        run(session, &statement.unwrap_or(note)).await;
    }
}

/// Trims the oldest month of a namespace.
async fn trim(db: &TestDatabase, session: &mut PgConnection, namespace: &str, keep: u32) {
    db.keep_months(namespace, keep).await;
    run(
        session,
        &format!(
            "SELECT headwater.trim_month('{namespace}', (SELECT min(m.starts_at) FROM headwater_private.months m
              WHERE m.trimmed_at IS NULL AND m.namespace_id = (SELECT n.namespace_id FROM headwater_private.namespaces n WHERE n.namespace = '{namespace}')))"
        ),
    )
    .await;
}

async fn read(session: &mut PgConnection, namespace: &str) -> i64 {
    count(session, &format!("SELECT count(*) FROM headwater.read_log('{namespace}', 0, 1000)")).await
}

async fn granted(db: &TestDatabase, namespace: &str, kind: GrantKind) -> TestRole {
    let role = db.role().await;
    db.database.grant(namespace, &role.name, kind).await.unwrap();
    role
}

async fn end(db: &TestDatabase, role: TestRole) {
    for namespace in db.database.namespaces().await.unwrap() {
        db.database.revoke(&namespace.name, &role.name, None).await.unwrap();
    }
    db.drop_role(role).await;
}

/// As it is when a month has begun and nobody has maintained yet.
async fn without(session: &mut PgConnection, month: &str) {
    run(
        session,
        &format!(
            "DO $$ BEGIN EXECUTE 'DROP TABLE headwater_private.' || {month}; END $$;
             UPDATE headwater_private.namespaces SET leaves_until = to_timestamp(substr({month}, 8) || ' 00+00', 'YYYYMM HH24TZH')"
        ),
    )
    .await;
}

/// A step that comes late, after others have gone on, drops nothing that is in use.
#[tokio::test]
async fn a_late_drop_does_not_meet_a_newer_table() {
    let db = TestDatabase::create().await;
    let mut session = db.session().await;
    for namespace in ["a", "b", "c", "d"] {
        db.log(namespace).await;
        db.past_months(namespace, 3, 30).await;
    }
    run(&mut session, "SELECT headwater.maintain_shared()").await;
    trim(&db, &mut session, "a", 2).await;
    all_steps(&mut session, "c").await;
    trim(&db, &mut session, "b", 2).await;
    let late = up_to(&mut session, "c", "drop").await;
    // Meanwhile somebody else does that, and writes the month anew once more.
    all_steps(&mut session, "c").await;
    trim(&db, &mut session, "d", 2).await;
    all_steps(&mut session, "c").await;
    assert_eq!(read(&mut session, "c").await, 90);
    run(&mut session, &late).await;
    assert_eq!(read(&mut session, "c").await, 90);
    // Nor does it drop a table that it should never have been told of.
    let used = "SELECT leaf FROM headwater_private.months WHERE trimmed_at IS NULL ORDER BY starts_at LIMIT 1";
    for leaf in
        [text(&mut session, used).await, text(&mut session, &format!("SELECT {PRESENT}")).await, "streams".into()]
    {
        let drop = format!("SELECT headwater_private.drop_month('{leaf}')");
        assert_eq!(sqlstate_of(&mut session, &drop).await, "WH002", "{leaf}");
    }
}

#[tokio::test]
async fn a_month_is_rewritten_once_though_two_were_told_to() {
    let db = TestDatabase::create().await;
    let mut session = db.session().await;
    for namespace in ["a", "b"] {
        db.log(namespace).await;
        db.past_months(namespace, 3, 30).await;
    }
    run(&mut session, "SELECT headwater.maintain_shared()").await;
    trim(&db, &mut session, "a", 2).await;
    let rewrite = up_to(&mut session, "b", "rewrite").await;
    run(&mut session, &rewrite).await;
    run(&mut session, &rewrite).await;
    all_steps(&mut session, "b").await;
    run(&mut session, &rewrite).await;
    let unnamed = "SELECT count(*) FROM pg_class c
                    WHERE c.relnamespace = 'headwater_private'::regnamespace AND c.relkind = 'r' AND NOT c.relispartition
                      AND c.relname ~ '^events_[0-9]' AND NOT EXISTS (SELECT FROM headwater_private.months m WHERE m.leaf = c.relname)";
    assert_eq!(count(&mut session, unnamed).await, 0);
    assert_eq!(read(&mut session, "b").await, 90);
}

/// A month is rewritten without some namespaces. Events that are trimmed meanwhile are in the new
/// table, and are removed from there.
#[tokio::test]
async fn what_is_trimmed_during_a_rewrite_is_not_forgotten() {
    let db = TestDatabase::create().await;
    let (mut session, mut trimmer) = (db.session().await, db.session().await);
    for namespace in ["a", "b", "c"] {
        db.log(namespace).await;
        db.past_months(namespace, 3, 30).await;
    }
    run(&mut session, "SELECT headwater.maintain_shared()").await;
    trim(&db, &mut session, "a", 2).await;
    let rewrite = up_to(&mut session, "c", "rewrite").await;
    // However long this test takes.
    run(&mut session, "ALTER FUNCTION headwater_private.rewrite_month(text) RESET lock_timeout").await;
    run(&mut trimmer, "BEGIN").await;
    trim(&db, &mut trimmer, "b", 2).await;
    // It has copied what `b` has when it comes to the rows that the trimmer holds.
    let mut rewriter = db.session().await;
    let its = pid(&mut rewriter).await;
    let rewriting = tokio::spawn(async move {
        run(&mut rewriter, &rewrite).await;
    });
    until_it_waits(&mut session, its).await;
    run(&mut trimmer, "COMMIT").await;
    rewriting.await.unwrap();
    all_steps(&mut session, "c").await;
    let tables: Vec<String> = sqlx::query_scalar(
        "SELECT c.relname::text FROM pg_class c
          WHERE c.relnamespace = 'headwater_private'::regnamespace AND c.relkind = 'r' AND c.relname ~ '^events_[0-9]+_r'",
    )
    .fetch_all(&mut session)
    .await
    .unwrap();
    for table in tables {
        let others = format!("SELECT count(*) FROM headwater_private.{table} WHERE namespace_id <> 3");
        assert_eq!(count(&mut session, &others).await, 0, "{table}");
    }
    assert_eq!(read(&mut session, "c").await, 90);
}

/// A transaction that took its snapshot before months were sealed finds all of them, whatever
/// maintenance does meanwhile.
#[tokio::test]
async fn a_month_is_not_detached_under_a_snapshot_that_does_not_know_it_as_sealed() {
    for storage in [Storage::Shared, Storage::Own] {
        let db = TestDatabase::create().await;
        db.log_with(NamespaceConfig::new("shop").storage(storage), LogOptions::default()).await;
        db.past_months("shop", 4, 10).await;
        let (mut reader, mut session) = (db.session().await, db.session().await);
        run(&mut reader, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT headwater.export_rows('shop')").await;
        db.keep_months("shop", 3).await;
        let done = db.database.maintain("shop", false).await.unwrap();
        assert_eq!((done.sealed, done.trimmed.len(), done.dropped.len()), (4, 1, 0), "{done:?}");
        // Whoever is in the way is named.
        let reader_pid = pid(&mut reader).await;
        assert!(done.left[0].1.contains(&format!("pid {reader_pid}")), "{:?}", done.left);
        let export = "SELECT count(*) FROM headwater.export_events('shop', 0, 1000)";
        assert_eq!(count(&mut reader, export).await, 40, "{storage:?}");
        run(&mut reader, "COMMIT").await;
        let done = db.database.maintain("shop", false).await.unwrap();
        assert_eq!((done.dropped.len(), done.left.len()), (1, 0), "{done:?}");
        assert_eq!(read(&mut session, "shop").await, 30);
    }
}

/// A claim reads where the tail of the log begins, and then waits for the queue.
#[tokio::test]
async fn a_claim_that_waits_while_months_are_sealed_gets_all_events() {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    db.past_months("shop", 3, 10).await;
    let (mut holder, mut waiter, mut session) = (db.session().await, db.session().await, db.session().await);
    run(&mut session, "SELECT headwater.register_subscriber('shop', 'queue', mode => 'shared')").await;
    run(&mut holder, "BEGIN; SELECT headwater.claim('shop', 'queue', 8)").await;
    let its = pid(&mut waiter).await;
    let waiting = tokio::spawn(async move {
        let claim =
            "SELECT array_agg(global_sequence)::text FROM headwater.claim('shop', 'queue', 3, event_types => '{past}')";
        text(&mut waiter, claim).await
    });
    until_it_waits(&mut session, its).await;
    let done = db.database.maintain("shop", false).await.unwrap();
    assert!(done.left[0].1.contains(&format!("pid {its}")), "{:?}", done.left);
    run(&mut holder, "COMMIT").await;
    assert_eq!(waiting.await.unwrap(), "{9,10,11}");
    let done = db.database.maintain("shop", false).await.unwrap();
    assert_eq!(done.left, []);
    assert_eq!(count(&mut session, "SELECT count(*) FROM headwater_private.leaves(1)").await, 4);
}

/// The proof is asked for again when a note is another server's, which a dump brought along.
#[tokio::test]
async fn a_note_of_another_server_proves_nothing() {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    db.past_months("shop", 3, 10).await;
    let mut session = db.session().await;
    seal(&mut session, "shop").await;
    let detach = up_to(&mut session, "shop", "detach").await;
    assert!(detach.starts_with("ALTER TABLE"), "{detach}");
    run(
        &mut session,
        "UPDATE headwater_private.leaving_months SET sealed_below = '9000000000000000000', proved = false",
    )
    .await;
    assert_eq!(steps(&mut session, "shop").await[0].1, "retire");
    all_steps(&mut session, "shop").await;
    assert_eq!(read(&mut session, "shop").await, 30);
    let current = format!("SELECT headwater_private.retire_month({PRESENT})");
    assert_eq!(sqlstate_of(&mut session, &current).await, "WH002");
}

/// A namespace gets its own tables again under the same names. A reader that knows only the former
/// tables must not find the new ones, which look empty to it.
#[tokio::test]
async fn a_reader_of_tables_that_were_dropped_does_not_meet_new_ones_of_the_same_name() {
    let db = TestDatabase::create().await;
    db.log_with(NamespaceConfig::new("shop").storage(Storage::Own), LogOptions::default()).await;
    let (mut reader, mut session) = (db.session().await, db.session().await);
    for _ in 0..3 {
        emit(&mut session, "shop", "old").await;
    }
    run(&mut reader, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM headwater_private.months").await;
    let to_shared = "SELECT step FROM headwater.set_storage('shop', 'shared')";
    while text(&mut session, to_shared).await != "done" {}
    run(&mut session, "SELECT headwater.note_dropped('shop')").await;
    let to_own = "SELECT step FROM headwater.set_storage('shop', 'own')";
    let refused = sqlx::query(to_own).execute(&mut session).await.unwrap_err().into_database_error().unwrap();
    assert_eq!(refused.code().as_deref(), Some("WH038"));
    let reader_pid = pid(&mut reader).await;
    assert!(refused.message().contains(&format!("pid {reader_pid}")), "{refused}");
    // It does not take what is gone for an empty log.
    assert_eq!(sqlstate_of(&mut reader, "SELECT headwater.export_events('shop', 0, 100)").await, "42P01");
    run(&mut reader, "ROLLBACK").await;
    while text(&mut session, to_own).await != "done" {}
    assert_eq!(read(&mut session, "shop").await, 3);
}

/// A tenant maintains its namespace in a transaction and leaves it open: nobody else waits for it.
#[tokio::test]
async fn a_tenant_that_maintains_holds_up_no_other() {
    let db = TestDatabase::create().await;
    for namespace in ["tenant", "other", "gone"] {
        db.log(namespace).await;
        db.past_months(namespace, 1, 5).await;
    }
    let mut session = db.session().await;
    run(&mut session, "SELECT headwater.drop_namespace('gone', 'gone')").await;
    without(&mut session, COMING).await;
    run(&mut session, "UPDATE headwater_private.namespaces SET leaves_until = sealed_before WHERE namespace = 'other'")
        .await;
    for call in [
        "SELECT headwater.maintain_namespace('tenant', now() + interval '2 years')",
        "SELECT headwater.maintain('tenant', now() + interval '2 years')",
        "SELECT headwater.seal_months('tenant')",
    ] {
        let role = granted(&db, "tenant", GrantKind::Consumer).await;
        let mut tenant = role.session().await;
        run(&mut tenant, &format!("BEGIN; {call}")).await;
        let strong = "SELECT count(*) FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
                       WHERE l.pid = $1 AND c.relname ~ '^events' AND l.mode NOT IN ('AccessShareLock', 'RowShareLock', 'RowExclusiveLock')";
        let theirs = pid(&mut tenant).await;
        assert_eq!(
            sqlx::query_scalar::<_, i64>(strong).bind(theirs).fetch_one(&mut session).await.unwrap(),
            0,
            "{call}"
        );
        run(&mut session, "SET lock_timeout = '2s'").await;
        emit(&mut session, "other", "at once").await;
        run(&mut session, "SELECT headwater.create_namespace('new'); SELECT headwater.maintain_namespace('other')")
            .await;
        run(&mut session, "SELECT headwater.maintain_shared(); SELECT headwater.purge_dropped()").await;
        let made = format!("SELECT count(*) FROM headwater_private.leaves_of('events') l WHERE l.leaf = {COMING}");
        assert_eq!(count(&mut session, &made).await, 1, "the owner makes it: {call}");
        run(&mut session, "SELECT headwater.drop_namespace('new', 'new')").await;
        run(&mut tenant, "ROLLBACK").await;
        without(&mut session, COMING).await;
        drop(tenant);
        end(&db, role).await;
    }
}

/// A granted role seals the months of its namespace without the trigger that guards them. The owner
/// then makes the trigger.
#[tokio::test]
async fn the_owner_guards_what_a_tenant_has_sealed() {
    let db = TestDatabase::create().await;
    db.log("tenant").await;
    db.past_months("tenant", 3, 5).await;
    let role = granted(&db, "tenant", GrantKind::Consumer).await;
    let done = role.database().await.maintain("tenant", false).await.unwrap();
    assert_eq!((done.sealed, done.left.len()), (3, 0), "{done:?}");
    let mut session = db.session().await;
    let broken = "SELECT count(*) FROM headwater.faults('tenant')";
    assert_eq!(count(&mut session, broken).await, 3);
    run(&mut session, "SELECT headwater.maintain_shared()").await;
    assert_eq!(count(&mut session, broken).await, 0);
    assert_eq!(read(&mut session, "tenant").await, 15);
    end(&db, role).await;
}

/// An append that makes the month it needs holds a lock until it ends. An append that has its month
/// does not wait for the lock. An append without a month is told who holds it.
#[tokio::test]
async fn a_month_that_an_open_append_makes_is_waited_for_only_by_appends_that_need_it() {
    let db = TestDatabase::create().await;
    db.log("first").await;
    db.log("second").await;
    let (mut writer, mut session) = (db.session().await, db.session().await);
    run(
        &mut session,
        "DO $$ DECLARE l record; BEGIN
             FOR l IN SELECT * FROM headwater_private.leaves_of('events') LOOP EXECUTE 'DROP TABLE headwater_private.' || l.leaf; END LOOP;
         END $$;
         UPDATE headwater_private.namespaces SET leaves_until = sealed_before",
    )
    .await;
    run(&mut writer, "SET application_name = 'slow-writer'; BEGIN").await;
    emit(&mut writer, "first", "open").await;
    // Only the month that it needs.
    assert_eq!(count(&mut writer, "SELECT count(*) FROM headwater_private.leaves_of('events')").await, 1);
    for call in [
        "SELECT headwater.create_namespace('third')",
        "SELECT headwater.maintain_namespace('second')",
        "SELECT headwater.maintain_shared()",
    ] {
        run(&mut session, call).await;
    }
    run(&mut session, "SET lock_timeout = '100ms'").await;
    let refused = sqlx::query("SELECT headwater.emit('second', 'refused')").execute(&mut session).await.unwrap_err();
    let refused = refused.into_database_error().unwrap();
    assert_eq!(refused.code().as_deref(), Some("55P03"));
    let writer_pid = pid(&mut writer).await;
    assert!(refused.message().contains(&format!("slow-writer (pid {writer_pid}")), "{refused}");
    assert_eq!(text(&mut session, "SHOW lock_timeout").await, "100ms");
    run(&mut writer, "COMMIT").await;
    emit(&mut session, "second", "now").await;
    emit(&mut session, "third", "now").await;
    assert_eq!(count(&mut session, "SELECT count(*) FROM headwater_private.leaves_of('events')").await, 1);
    run(&mut session, "SELECT headwater.maintain_namespace('second')").await;
    assert_eq!(count(&mut session, "SELECT count(*) FROM headwater_private.leaves_of('events')").await, 3);
}

/// An append whose month exists waits neither for the session that makes the next month, nor for
/// the row of its namespace.
#[tokio::test]
async fn an_append_whose_month_is_there_waits_for_nobody() {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    let (mut maker, mut holder, mut session) = (db.session().await, db.session().await, db.session().await);
    without(&mut session, COMING).await;
    run(&mut session, "UPDATE headwater_private.namespaces SET leaves_until = sealed_before").await;
    run(&mut holder, "BEGIN; UPDATE headwater_private.namespaces SET notify = notify").await;
    run(&mut maker, "BEGIN; SELECT headwater_private.create_leaf(1, now() + interval '2 months')").await;
    run(&mut session, "SET lock_timeout = '1ms'").await;
    emit(&mut session, "shop", "at once").await;
    run(&mut maker, "COMMIT").await;
    run(&mut holder, "COMMIT").await;
}

#[tokio::test]
async fn only_the_owner_publishes_months_that_namespaces_share() {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    db.log_with(NamespaceConfig::new("large").storage(Storage::Own), LogOptions::default()).await;
    let role = granted(&db, "shop", GrantKind::Consumer).await;
    db.database.grant("large", &role.name, GrantKind::Consumer).await.unwrap();
    let (mut tenant, mut session) = (role.session().await, db.session().await);
    let publish = "SELECT headwater.publish_namespace('shop')";
    assert_eq!(sqlstate_of(&mut tenant, publish).await, "WH015");
    run(&mut tenant, "SELECT headwater.publish_namespace('large')").await;
    run(&mut session, publish).await;
    assert_eq!(text(&mut tenant, publish).await, "headwater_n1");
    run(&mut session, "DROP PUBLICATION headwater_n1; DROP PUBLICATION headwater_n2").await;
    drop(tenant);
    end(&db, role).await;
}

/// An open transaction of one namespace, gapless or not, does not stop the sealing of other
/// namespaces, nor the purge of dropped ones.
#[tokio::test]
async fn an_open_transaction_of_one_namespace_keeps_no_other_from_being_maintained() {
    let db = TestDatabase::create().await;
    db.log_with(NamespaceConfig::new("gapless").ordering(Ordering::Gapless), LogOptions::default()).await;
    for namespace in ["locked", "zoo", "gone"] {
        db.log(namespace).await;
        db.past_months(namespace, 3, 10).await;
    }
    let role = granted(&db, "locked", GrantKind::Consumer).await;
    let (mut writer, mut locker, mut session) = (db.session().await, role.session().await, db.session().await);
    run(
        &mut session,
        "UPDATE headwater_private.namespaces SET sealed_before = sealed_before - interval '1 month', tail_from = tail_from - interval '1 month'
          WHERE namespace = 'gapless';
         SELECT headwater.drop_namespace('gone', 'gone')",
    )
    .await;
    run(&mut writer, "BEGIN; SELECT headwater.emit('gapless', 'open')").await;
    run(&mut locker, "BEGIN; SELECT headwater.seal_months('locked')").await;
    // Also by whoever maintains the one that is held.
    for namespace in ["gapless", "locked"] {
        _ = db.database.maintain(namespace, false).await;
    }
    let past = "SELECT count(*) FROM headwater_private.months m JOIN headwater_private.namespaces n USING (namespace_id) WHERE n.namespace = 'zoo'";
    assert_eq!(count(&mut session, past).await, 3);
    assert_eq!(count(&mut session, "SELECT count(*) FROM headwater_private.dropped_namespaces").await, 0);
    run(&mut writer, "COMMIT").await;
    run(&mut locker, "COMMIT").await;
    db.database.maintain("gapless", false).await.unwrap();
    let behind =
        "SELECT count(*) FROM headwater_private.namespaces WHERE tail_from < date_trunc('month', now(), 'UTC')";
    assert_eq!(count(&mut session, behind).await, 0);
    drop(locker);
    end(&db, role).await;
}

/// Months leave the table of current months while rows of a dropped namespace are still in them.
#[tokio::test]
async fn a_dropped_namespace_leaves_no_events_in_months_that_were_detached_meanwhile() {
    let db = TestDatabase::create().await;
    for namespace in ["gone", "kept"] {
        db.log(namespace).await;
        db.past_months(namespace, 3, 50).await;
    }
    let mut session = db.session().await;
    seal(&mut session, "kept").await;
    run(&mut session, "SELECT headwater.drop_namespace('gone', 'gone')").await;
    assert_eq!(count(&mut session, "SELECT headwater.purge_dropped(10)").await, 10);
    let rewrite = up_to(&mut session, "kept", "rewrite").await;
    while count(&mut session, "SELECT headwater.purge_dropped()").await > 0 {}
    run(&mut session, &rewrite).await;
    all_steps(&mut session, "kept").await;
    let tables: Vec<String> = sqlx::query_scalar(
        "SELECT c.relname::text FROM pg_class c
          WHERE c.relnamespace = 'headwater_private'::regnamespace AND c.relkind = 'r' AND c.relname ~ '^events_[0-9]'",
    )
    .fetch_all(&mut session)
    .await
    .unwrap();
    for table in tables {
        let left = format!("SELECT count(*) FROM headwater_private.{table} WHERE namespace_id = 1");
        assert_eq!(count(&mut session, &left).await, 0, "{table}");
    }
    for table in ["dropped_namespaces", "left_behind", "months WHERE namespace_id = 1"] {
        assert_eq!(count(&mut session, &format!("SELECT count(*) FROM headwater_private.{table}")).await, 0, "{table}");
    }
    assert_eq!(read(&mut session, "kept").await, 150);
}

#[tokio::test]
async fn a_dropped_namespace_takes_its_detached_months_with_it() {
    let db = TestDatabase::create().await;
    db.log_with(NamespaceConfig::new("large").storage(Storage::Own), LogOptions::default()).await;
    db.past_months("large", 4, 10).await;
    let mut session = db.session().await;
    run(&mut session, "SELECT headwater.maintain('large')").await;
    trim(&db, &mut session, "large", 3).await;
    up_to(&mut session, "large", "drop").await;
    run(&mut session, "SELECT headwater.drop_namespace('large', 'large')").await;
    run(&mut session, "DO $$ BEGIN WHILE headwater.purge_dropped() > 0 LOOP END LOOP; END $$").await;
    let left = "SELECT count(*) FROM pg_class WHERE relname ~ '^events_n'";
    assert_eq!(count(&mut session, left).await, 0);
}

/// Where a table is stored does not depend on the session in which it is made.
#[tokio::test]
async fn no_setting_of_a_session_decides_where_months_are_stored() {
    let db = TestDatabase::create().await;
    let mut session = db.session().await;
    db.log("shop").await;
    db.past_months("shop", 3, 10).await;
    without(&mut session, COMING).await;
    // A tablespace that is always there, and in which no such table can be made.
    run(&mut session, "SET default_tablespace = 'pg_global'").await;
    run(
        &mut session,
        "SELECT headwater.maintain_namespace('shop'); SELECT headwater.create_namespace('other');
         SELECT headwater.create_namespace('large', storage => 'own')",
    )
    .await;
    db.log("trimmed").await;
    db.past_months("trimmed", 3, 10).await;
    run(&mut session, "SELECT headwater.maintain_shared()").await;
    trim(&db, &mut session, "trimmed", 2).await;
    all_steps(&mut session, "shop").await;
    for storage in ["own", "shared"] {
        while text(&mut session, &format!("SELECT step FROM headwater.set_storage('shop', '{storage}')")).await
            != "done"
        {}
    }
    let elsewhere =
        "SELECT count(*) FROM pg_class WHERE relnamespace = 'headwater_private'::regnamespace AND reltablespace <> 0";
    assert_eq!(count(&mut session, elsewhere).await, 0);
    // Every function that makes a table, an index or a sequence pins both settings.
    let unpinned: Vec<String> = sqlx::query_scalar(
        r"SELECT p.proname::text FROM pg_proc p
           WHERE p.pronamespace IN ('headwater'::regnamespace, 'headwater_private'::regnamespace)
             AND p.prosrc ~ '\yCREATE (TABLE|SEQUENCE|UNIQUE INDEX|INDEX|%s INDEX)\y|create_parent\('
             AND NOT coalesce(p.proconfig @> ARRAY['default_tablespace=', 'default_table_access_method=heap'], false)",
    )
    .fetch_all(&mut session)
    .await
    .unwrap();
    assert_eq!(unpinned, [] as [String; 0]);
}
