//! Who holds appends or deliveries back: each is named, whether somebody waits for it or not.

use crate::common::{pid, run, until_it_waits};
use headwater_core::{NamespaceConfig, Ordering, Storage};
use headwater_postgres::{DoctorOptions, Holder, LogOptions};
use headwater_testing::TestDatabase;
use sqlx::postgres::PgListener;
use sqlx::{AssertSqlSafe, PgConnection};

/// `shop`, and `ledger`, which is gapless; with a holder's session.
async fn two() -> (TestDatabase, PgConnection) {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    let config = NamespaceConfig { ordering: Some(Ordering::Gapless), ..NamespaceConfig::new("ledger") };
    db.log_with(config, LogOptions::default()).await;
    let mut session = db.session().await;
    run(&mut session, "SET application_name = 'holder'").await;
    (db, session)
}

async fn holders(db: &TestDatabase, namespace: &str) -> Vec<Holder> {
    db.database.holders(Some(namespace)).await.unwrap()
}

/// The one holder of a namespace, which is a session.
async fn one(db: &TestDatabase, namespace: &str, session: &mut PgConnection) -> Holder {
    let found = holders(db, namespace).await;
    let [holder] = found.as_slice() else { panic!("{found:#?}") };
    let pid = pid(session).await;
    assert_eq!((holder.pid, holder.application_name.as_deref()), (Some(pid), Some("holder")));
    assert_eq!((holder.granted, holder.role.is_some(), holder.age.is_some()), (Some(true), true, true), "{holder:?}");
    assert_eq!(holder.ended_by, format!("SELECT pg_terminate_backend({pid})"));
    holder.clone()
}

#[tokio::test]
async fn nobody_is_named_where_nothing_is_held() {
    let (db, mut session) = two().await;
    run(
        &mut session,
        "SELECT headwater.register_subscriber('shop', 'work', mode => 'shared'); SELECT headwater.emit('shop', 'a');
         SELECT headwater.claim('shop', 'work'); SELECT headwater.emit('ledger', 'a')",
    )
    .await;
    assert_eq!((holders(&db, "shop").await, holders(&db, "ledger").await), (vec![], vec![]));
    assert_eq!(db.database.holders(None).await.unwrap(), []);
    assert!(db.database.holders(Some("nowhere")).await.is_err());
}

#[tokio::test]
async fn the_holder_of_a_counter_is_named_also_before_somebody_waits() {
    let (db, mut holder) = two().await;
    let mut other = db.session().await;
    for (begin, end) in [
        ("BEGIN; SELECT headwater.emit('ledger', 'a')", "ROLLBACK"),
        // The row was locked by a part of the transaction that is over.
        ("BEGIN; SAVEPOINT s; SELECT headwater.emit('ledger', 'a'); RELEASE s", "ROLLBACK"),
        ("BEGIN; SAVEPOINT s; SELECT headwater.emit('ledger', 'a')", "ROLLBACK"),
    ] {
        run(&mut holder, begin).await;
        let found = one(&db, "ledger", &mut holder).await;
        assert_eq!((found.holds.as_str(), found.waiting), ("counter", 0));
        assert_eq!(holders(&db, "shop").await, []);
        run(&mut holder, end).await;
        assert_eq!(holders(&db, "ledger").await, []);
    }

    run(&mut holder, "BEGIN; SELECT headwater.emit('ledger', 'a')").await;
    let waiting = pid(&mut other).await;
    let waiter = tokio::spawn(async move { run(&mut other, "SELECT headwater.emit('ledger', 'b')").await });
    until_it_waits(&mut db.session().await, waiting).await;
    let found = one(&db, "ledger", &mut holder).await;
    assert_eq!((found.holds.as_str(), found.waiting), ("counter", 1));
    run(&mut holder, "COMMIT").await;
    waiter.await.unwrap();
    assert_eq!(holders(&db, "ledger").await, []);
}

#[tokio::test]
async fn holders_of_a_queue_a_claim_and_a_subscriber_are_named() {
    let (db, mut holder) = two().await;
    run(
        &mut holder,
        "SELECT headwater.register_subscriber('shop', 'work', mode => 'shared'); SELECT headwater.register_subscriber('shop', 'mailer');
         SELECT headwater.emit('shop', 'a'); SELECT headwater.emit('shop', 'b')",
    )
    .await;
    run(&mut holder, "BEGIN; SELECT headwater.claim('shop', 'work', 1)").await;
    let found = one(&db, "shop", &mut holder).await;
    assert_eq!((found.holds.as_str(), found.name.as_deref()), ("queue", Some("work")));
    // Its row is in an unlogged table, which a crash empties. The first claim after that makes the
    // row again.
    run(
        &mut holder,
        "ROLLBACK; DELETE FROM headwater_private.queues; BEGIN; SELECT headwater.claim('shop', 'work', 1)",
    )
    .await;
    let found = one(&db, "shop", &mut holder).await;
    assert_eq!((found.holds.as_str(), found.name.as_deref()), ("queue", Some("work")));
    run(&mut holder, "COMMIT; BEGIN; SELECT headwater.pause_subscriber('shop', 'mailer')").await;
    let found = one(&db, "shop", &mut holder).await;
    assert_eq!((found.holds.as_str(), found.name.as_deref()), ("subscriber", Some("mailer")));
    run(&mut holder, "ROLLBACK; SELECT c.claim_id FROM headwater.claim('shop', 'work', 1) c").await;
    let claim = "SELECT headwater.claim('shop', 'work', 1)";
    run(&mut holder, claim).await;
    let of_claim = "CREATE TEMP TABLE mine AS SELECT c.claim_id FROM headwater.claim('shop', 'work', 1) c";
    run(
        &mut holder,
        &format!(
            "SELECT headwater.emit('shop', 'c'); {of_claim}; {claim}; SELECT headwater.emit('shop', 'd'); {claim}"
        ),
    )
    .await;
    run(&mut holder, "BEGIN; SELECT headwater.ack('shop', 'work', m.claim_id) FROM mine m").await;
    let found = one(&db, "shop", &mut holder).await;
    assert_eq!((found.holds.as_str(), found.name.as_deref()), ("claim", Some("work")));
}

#[tokio::test]
async fn a_prepared_transaction_is_named_with_what_ends_it() {
    let (db, mut holder) = two().await;
    let gid = format!("it's {}", db.url.rsplit('/').next().unwrap());
    let quoted = gid.replace('\'', "''");
    run(
        &mut holder,
        "SELECT headwater.alter_namespace('shop', notify => false); SELECT headwater.alter_namespace('ledger', notify => false)",
    )
    .await;
    run(
        &mut holder,
        &format!(
            "BEGIN; SELECT headwater.emit('shop', 'a'); SELECT headwater.emit('ledger', 'a'); PREPARE TRANSACTION '{quoted}'"
        ),
    )
    .await;
    for (namespace, held, above) in [("shop", "log", Some(0)), ("ledger", "counter", None)] {
        let found = holders(&db, namespace).await;
        let [holder] = found.as_slice() else { panic!("{found:#?}") };
        assert_eq!((holder.holds.as_str(), holder.pid, holder.above_sequence), (held, None, above));
        assert_eq!(holder.application_name, Some(format!("prepared transaction {gid}")));
        assert_eq!(holder.ended_by, format!("ROLLBACK PREPARED '{quoted}'"));
        assert!(holder.age.is_some() && holder.role.is_some(), "{holder:?}");
    }
    let end = holders(&db, "shop").await.remove(0).ended_by;
    run(&mut holder, &end).await;
    assert_eq!((holders(&db, "shop").await, holders(&db, "ledger").await), (vec![], vec![]));
}

#[tokio::test]
async fn a_lock_on_a_table_is_named_and_so_is_whom_it_waits_for() {
    let (db, mut holder) = two().await;
    db.log_with(NamespaceConfig::new("large").storage(Storage::Own), LogOptions::default()).await;
    let leaf =
        "SELECT format('%s', min(c.oid::regclass::text)) FROM pg_class c WHERE c.relname ~ '^events_n[0-9]+_[0-9]+$'";
    let leaf: String = sqlx::query_scalar(leaf).fetch_one(&mut holder).await.unwrap();
    let letters = "SELECT c.oid::regclass::text FROM pg_class c WHERE c.relname = 'dead_letters' AND c.relkind = 'r'";
    let letters: String = sqlx::query_scalar(letters).fetch_one(&mut holder).await.unwrap();
    // Of one namespace's month, which the other does not need.
    run(&mut holder, &format!("BEGIN; LOCK TABLE {leaf} IN SHARE MODE")).await;
    let found = one(&db, "large", &mut holder).await;
    assert_eq!((found.holds.as_str(), leaf.ends_with(found.name.as_deref().unwrap())), ("table", true));
    assert_eq!(holders(&db, "ledger").await, []);
    // Of all, in the mode that nobody can read beside.
    run(&mut holder, &format!("ROLLBACK; BEGIN; LOCK TABLE {letters}")).await;
    for namespace in ["shop", "ledger"] {
        let found = one(&db, namespace, &mut holder).await;
        assert_eq!((found.holds.as_str(), found.name.as_deref()), ("table", Some("dead_letters")));
    }
    // A reader is in nobody's way, until somebody waits for it in that mode.
    run(&mut holder, &format!("ROLLBACK; BEGIN; SELECT count(*) FROM {letters}")).await;
    assert_eq!(holders(&db, "shop").await, []);
    let mut other = db.session().await;
    let waiting = pid(&mut other).await;
    let lock = format!("BEGIN; LOCK TABLE {letters}; ROLLBACK");
    let waiter = tokio::spawn(async move { run(&mut other, &lock).await });
    until_it_waits(&mut db.session().await, waiting).await;
    let found = holders(&db, "shop").await;
    let reader = pid(&mut holder).await;
    let by = |pid: i32| found.iter().find(|found| found.pid == Some(pid)).unwrap_or_else(|| panic!("{found:#?}"));
    assert_eq!((by(reader).holds.as_str(), by(reader).waiting, by(waiting).waiting), ("table", 1, 0));
    run(&mut holder, "ROLLBACK").await;
    waiter.await.unwrap();
}

/// Also of the tables that the question itself needs.
#[tokio::test]
async fn a_lock_on_any_table_is_named_without_waiting_for_it() {
    let (db, mut holder) = two().await;
    let tables = "SELECT c.oid::regclass::text, c.relname::text FROM pg_class c
                   WHERE c.relname IN ('namespaces', 'counters', 'subscribers', 'claims', 'schedules', 'due_events', 'grants') AND c.relkind = 'r'";
    let tables: Vec<(String, String)> = sqlx::query_as(tables).fetch_all(&mut holder).await.unwrap();
    assert_eq!(tables.len(), 7, "{tables:?}");
    for (table, name) in tables {
        run(&mut holder, &format!("BEGIN; LOCK TABLE {table}")).await;
        let found = one(&db, "shop", &mut holder).await;
        assert_eq!((found.holds.as_str(), found.name.as_deref()), ("table", Some(name.as_str())));
        run(&mut holder, "ROLLBACK").await;
    }
}

#[tokio::test]
async fn a_slot_that_nobody_reads_is_named_with_what_drops_it() {
    let (db, mut session) = two().await;
    let id = db.database.namespace("shop").await.unwrap().id;
    let unique: i64 = sqlx::query_scalar("SELECT oid::bigint FROM pg_database WHERE datname = current_database()")
        .fetch_one(&mut session)
        .await
        .unwrap();
    let slot = format!("headwater_n{id}_d{unique}");
    run(&mut session, &format!("SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')")).await;
    let found = holders(&db, "shop").await;
    let end = format!("SELECT pg_drop_replication_slot('{slot}')");
    run(&mut session, &end).await;
    let [holder] = found.as_slice() else { panic!("{found:#?}") };
    assert_eq!((holder.holds.as_str(), holder.name.as_deref(), holder.pid), ("slot", Some(slot.as_str()), None));
    assert_eq!(holder.ended_by, end);
    assert_eq!(holders(&db, "shop").await, []);
}

#[tokio::test]
async fn rows_of_schedules_and_due_events_that_somebody_holds_are_named() {
    let (db, mut holder) = two().await;
    run(
        &mut holder,
        "SELECT headwater.schedule('shop', 'nightly', 'night', '0 3 * * *'); SELECT headwater.emit_at('shop', 'late', now() - interval '1 hour')",
    )
    .await;
    run(&mut holder, "BEGIN; SELECT headwater.pause_schedule('shop', 'nightly')").await;
    let found = one(&db, "shop", &mut holder).await;
    assert_eq!((found.holds.as_str(), found.name.as_deref()), ("schedule", Some("nightly")));
    run(&mut holder, "ROLLBACK; BEGIN; SELECT headwater.alter_namespace('shop', notify => false)").await;
    assert_eq!(one(&db, "shop", &mut holder).await.holds, "settings");
}

/// An owner as managed services give it: not a superuser, and not a member of pg_read_all_stats. It
/// sees who holds what, but not since when.
#[tokio::test]
async fn an_owner_without_privileges_names_holders_of_other_roles() {
    let db = TestDatabase::create_empty().await;
    let owner = db.role().await;
    let mut session = db.session().await;
    let name = db.url.rsplit('/').next().unwrap();
    run(&mut session, &format!("ALTER DATABASE {name} OWNER TO {}", owner.name)).await;
    let database = owner.database().await;
    database.migrate().await.unwrap();
    database.create_namespace(&NamespaceConfig::new("shop")).await.unwrap();
    run(&mut session, "SET application_name = 'superuser'; BEGIN; SELECT headwater.emit('shop', 'a')").await;
    let found = database.holders(Some("shop")).await.unwrap();
    let [holder] = found.as_slice() else { panic!("{found:#?}") };
    let pid = pid(&mut session).await;
    assert_eq!(
        (holder.holds.as_str(), holder.pid, holder.application_name.as_deref()),
        ("log", Some(pid), Some("superuser"))
    );
    assert_eq!((holder.role.is_some(), holder.granted, holder.age), (true, Some(true), None));
    assert_eq!((holder.waiting, holder.waiting_for), (0, None));
    assert!(holder.to_string().contains("since when is not visible to this role"), "{holder}");
    let findings = database.diagnose(&DoctorOptions { old_snapshot: 0, ..DoctorOptions::default() }).await.unwrap();
    let about = |check: &str, text: &str| findings.iter().any(|f| f.check == check && f.message.contains(text));
    assert!(about("horizon", &format!("pid {pid} (superuser, ")), "{findings:#?}");
    assert!(about("old_transaction", &format!("pid {pid} (superuser, ")), "{findings:#?}");
    assert!(about("visibility", &owner.name), "{findings:#?}");
    run(&mut session, "ROLLBACK").await;
    database.close().await;
    run(
        &mut session,
        &format!("ALTER DATABASE {name} OWNER TO CURRENT_USER; REASSIGN OWNED BY {} TO CURRENT_USER", owner.name),
    )
    .await;
    db.drop_role(owner).await;
}

/// Creating a replication slot waits for every transaction of the server that was open then. A
/// session in another database that waits for this does not wait for the namespace.
#[tokio::test]
async fn whoever_waits_in_another_database_is_not_counted() {
    let (db, mut session) = two().await;
    run(&mut session, "BEGIN; SELECT headwater.emit('shop', 'a')").await;
    let writer = pid(&mut session).await;
    for (elsewhere, waiting) in [(true, 0), (false, 1)] {
        let other = if elsewhere { TestDatabase::create().await } else { db.clone() };
        let mut maker = other.session().await;
        let pid = pid(&mut maker).await;
        let make =
            "SELECT pg_create_logical_replication_slot('holders_' || pg_backend_pid(), 'pgoutput', temporary => true)";
        let making = tokio::spawn(async move { sqlx::query(make).execute(&mut maker).await.map(drop) });
        // It may wait for transactions of other tests first.
        let waits = format!("SELECT {writer} = ANY (pg_blocking_pids({pid}))");
        let mut look = db.session().await;
        while !sqlx::query_scalar::<_, bool>(AssertSqlSafe(waits.clone())).fetch_one(&mut look).await.unwrap() {
            tokio::task::yield_now().await;
        }
        assert_eq!(one(&db, "shop", &mut session).await.waiting, waiting);
        run(&mut db.session().await, &format!("SELECT pg_terminate_backend({pid})")).await;
        assert!(making.await.unwrap().is_err());
    }
}

/// A stranger who holds what looks like a writer's lock, and has no grant.
#[tokio::test]
async fn who_holds_the_log_back_without_a_grant_is_named_as_such() {
    let (db, mut session) = two().await;
    let stranger = db.role().await;
    let mut other = stranger.session().await;
    let id = db.database.namespace("shop").await.unwrap().id;
    run(&mut other, &format!("SELECT pg_advisory_lock_shared((72::bigint << 56) | ({id}::bigint << 32) | 0)")).await;
    run(&mut session, "SELECT headwater.emit('shop', 'a')").await;
    // A lock of somebody who never wrote here may be left out altogether.
    for holder in holders(&db, "shop").await {
        assert_eq!((holder.pid, holder.granted), (Some(pid(&mut other).await), Some(false)));
        assert!(holder.to_string().contains(&format!("role {}, without a grant, ", stranger.name)), "{holder}");
    }
    run(&mut other, "SELECT pg_advisory_unlock_all()").await;
    db.drop_role(stranger).await;
}

/// A full NOTIFY queue fails every commit that notifies, and any session that listens inside a
/// transaction can fill it.
#[tokio::test]
async fn nobody_is_notified_while_the_queue_is_half_full() {
    let (db, mut session) = two().await;
    let mut listener = PgListener::connect(&db.url).await.unwrap();
    listener.listen_all(["headwater_shop", "headwater.due"]).await.unwrap();
    run(&mut session, "SELECT headwater.emit('shop', 'a')").await;
    assert_eq!(listener.recv().await.unwrap().payload(), "");
    let schema: String =
        sqlx::query_scalar("SELECT pronamespace::regnamespace::text FROM pg_proc WHERE proname = 'may_notify'")
            .fetch_one(&mut session)
            .await
            .unwrap();
    run(
        &mut session,
        &format!(
            "CREATE OR REPLACE FUNCTION {schema}.may_notify() RETURNS boolean LANGUAGE sql VOLATILE AS 'SELECT false'"
        ),
    )
    .await;
    run(
        &mut session,
        "SELECT headwater.emit('shop', 'b'); SELECT headwater.wake('shop'); SELECT headwater.emit_at('shop', 'c', now() + interval '1 minute');
         NOTIFY headwater_shop, 'last'",
    )
    .await;
    assert_eq!(listener.recv().await.unwrap().payload(), "last");
}
