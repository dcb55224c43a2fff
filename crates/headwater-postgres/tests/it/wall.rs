//! Attacks on the wall: by strangers who can only connect, and by roles that were granted something
//! in one namespace.

use crate::common::{emit, run, sqlstate_of};
use headwater_core::{Append, DeadLetterQuery, EventLog, LogQuery, OperatorStore};
use headwater_postgres::{GrantKind, LogOptions, PgSubscribers, SubscribersOptions};
use headwater_testing::{TestDatabase, TestRole};
use sqlx::{AssertSqlSafe, PgConnection};

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

async fn horizon(session: &mut PgConnection) -> (i64, i64) {
    sqlx::query_as("SELECT horizon, head FROM headwater.horizon('shop')").fetch_one(session).await.unwrap()
}

/// A rolled back append leaves a hole at the end, so that reads need a proof.
async fn leave_a_hole(db: &TestDatabase) {
    let mut session = db.session().await;
    emit(&mut session, "shop", "A").await;
    run(&mut session, "BEGIN; SELECT headwater.emit('shop', 'gone'); ROLLBACK").await;
    emit(&mut session, "shop", "B").await;
}

/// Whatever a stranger locks, the horizon stays between 0 and the head, and proofs about the log do
/// not change.
#[tokio::test]
async fn a_strangers_locks_move_nothing_and_hold_back_nothing() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    leave_a_hole(&db).await;
    let stranger = db.role().await;
    let mut theirs = stranger.session().await;
    let mut session = db.session().await;
    for low in ["4000000000", "4294967295", "2147483648", "0", "1", "2", "3"] {
        // In a session, in a transaction, and in one that writes; shared, and exclusive.
        for lock in [
            "SELECT pg_advisory_lock_shared(KEY)",
            "BEGIN; SELECT pg_advisory_xact_lock_shared(KEY)",
            "BEGIN; SELECT pg_current_xact_id(), pg_advisory_xact_lock_shared(KEY)",
            "SELECT pg_advisory_lock(KEY)",
        ] {
            let key = format!("(72::bigint << 56) | (1::bigint << 32) | {low}");
            run(&mut theirs, &lock.replace("KEY", &key)).await;
            assert_eq!(horizon(&mut session).await, (3, 3), "{lock} {low}");
            let pages = crate::common::pages_after(&log, 0).await;
            assert_eq!(pages.iter().map(|page| page.events.len()).sum::<usize>(), 2, "{lock} {low}");
            assert_eq!(crate::common::permanent(&pages), [(2, 2)], "{lock} {low}");
            run(&mut theirs, "ROLLBACK; SELECT pg_advisory_unlock_all()").await;
        }
    }
    drop(theirs);
    db.drop_role(stranger).await;
}

/// The lock of the horizon is shared. A stranger that holds its next keys exclusively delays no
/// append, and the appended events are still announced.
#[tokio::test]
async fn no_append_waits_for_a_lock_that_strangers_hold() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let stranger = db.role().await;
    let mut theirs = stranger.session().await;
    let locks = "SELECT pg_advisory_lock((72::bigint << 56) | (1::bigint << 32) | n) FROM generate_series(0, 50) n";
    run(&mut theirs, locks).await;
    let (mut writer, mut session) = (db.session().await, db.session().await);
    run(&mut writer, "SET lock_timeout = '10s'; BEGIN").await;
    let open = emit(&mut writer, "shop", "open").await;
    run(&mut writer, "SELECT headwater.emit('shop', 'open') FROM generate_series(1, 20)").await;
    let held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()";
    assert_eq!(sqlx::query_scalar::<_, i64>(held).fetch_one(&mut writer).await.unwrap(), 1);
    log.append(Append::new().event(crate::common::raw("later"))).await.unwrap();
    assert_eq!(horizon(&mut session).await.0, 0);
    let page = log.log_page(&LogQuery::after(0)).await.unwrap();
    assert!(page.cursor < open, "{page:?}");
    run(&mut writer, "COMMIT").await;
    assert_eq!(log.log_page(&LogQuery::after(0)).await.unwrap().events.len(), 22);
    drop(theirs);
    db.drop_role(stranger).await;
}

/// A role with a grant in another namespace can hold a lock that looks like an append's. It delays
/// the proof of a hole, and moves nothing.
#[tokio::test]
async fn a_tenants_forged_lock_only_delays_a_proof() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    db.log("bank").await;
    leave_a_hole(&db).await;
    let tenant = granted(&db, "bank", GrantKind::Producer).await;
    let mut theirs = tenant.session().await;
    let mut session = db.session().await;
    for (low, expected) in [("4000000000", 3), ("0", 0), ("1", 1), ("3", 3)] {
        let lock = format!(
            "BEGIN; SELECT headwater.emit('bank', 'A'), pg_advisory_xact_lock_shared((72::bigint << 56) | (1::bigint << 32) | {low})"
        );
        run(&mut theirs, &lock).await;
        assert_eq!(horizon(&mut session).await, (expected, 3), "{low}");
        let page = log.log_page(&LogQuery::after(0)).await.unwrap();
        assert!(page.cursor <= 3 && !page.events.is_empty(), "{low}: {page:?}");
        run(&mut theirs, "ROLLBACK").await;
    }
    assert_eq!(horizon(&mut session).await, (3, 3));
    drop(theirs);
    end(&db, tenant).await;
}

/// A producer may write anything into the note that an append leaves in its transaction: its events
/// are still announced.
#[tokio::test]
async fn no_setting_of_a_session_hides_an_append() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let producer = granted(&db, "shop", GrantKind::Producer).await;
    let mut theirs = producer.session().await;
    let mut session = db.session().await;
    let mut before = emit(&mut session, "shop", "first").await;
    for note in [
        "pg_current_xact_id()::text",
        "'9223372036854775807'",
        "'99999999999999999999999'",
        "'4294967295'",
        "'-1'",
        "'0'",
        "''",
        "'x'",
        "' 1'",
        "'1e3'",
    ] {
        for local in ["true", "false"] {
            run(&mut theirs, &format!("BEGIN; SELECT set_config('headwater.entered_n1', {note}, {local})")).await;
            let open = emit(&mut theirs, "shop", "open").await;
            let later = emit(&mut session, "shop", "later").await;
            let (horizon, head) = horizon(&mut session).await;
            assert!((0..open as i64).contains(&horizon), "{note}: horizon {horizon}, open {open}");
            assert_eq!(head, later as i64, "{note}");
            let page = log.log_page(&LogQuery::after(before)).await.unwrap();
            assert!(page.cursor < open, "{note}: {page:?}");
            run(&mut theirs, "COMMIT; RESET ALL").await;
            let page = log.log_page(&LogQuery::after(before)).await.unwrap();
            assert_eq!(page.events.len(), 2, "{note}");
            before = later;
        }
    }
    drop(theirs);
    end(&db, producer).await;
}

/// The setting notes which lock is held: a transaction of many appends has one.
#[tokio::test]
async fn a_transaction_of_many_appends_holds_one_lock() {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    let mut session = db.session().await;
    let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()";
    run(&mut session, "BEGIN; SELECT headwater.emit('shop', 'A') FROM generate_series(1, 50)").await;
    assert_eq!(sqlx::query_scalar::<_, i64>(locks).fetch_one(&mut session).await.unwrap(), 1);
    run(
        &mut session,
        "SAVEPOINT s; SELECT headwater.emit('shop', 'A'); ROLLBACK TO s; SELECT headwater.emit('shop', 'A')",
    )
    .await;
    assert_eq!(sqlx::query_scalar::<_, i64>(locks).fetch_one(&mut session).await.unwrap(), 1);
    run(&mut session, "COMMIT").await;
}

/// Nobody can call as somebody else.
#[tokio::test]
async fn the_name_of_another_caller_is_refused() {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    db.log("bank").await;
    emit(&mut db.session().await, "bank", "Secret").await;
    let owner: String =
        sqlx::query_scalar("SELECT current_user::text").fetch_one(&mut db.session().await).await.unwrap();
    let (tenant, other) = (granted(&db, "shop", GrantKind::Admin).await, granted(&db, "bank", GrantKind::Admin).await);
    let mut theirs = tenant.session().await;
    for name in [&owner, &other.name] {
        for script in [
            format!("SELECT * FROM headwater.read_log('bank', caller => '{name}')"),
            format!("SELECT * FROM headwater.read_log('bank', caller => '{name}'::name)"),
            format!("SELECT * FROM headwater.read_log('bank', caller => '{name}'::headwater.caller)"),
            format!("SELECT headwater.grant_role('bank', current_user::text, 'admin', '{name}')"),
            format!(
                "SELECT r.* FROM (SELECT '{name}'::name AS n OFFSET 0) x, headwater.read_log('bank', caller => x.n) r"
            ),
            format!(
                "DO $$ DECLARE v headwater.caller; BEGIN v := '{name}'; PERFORM headwater.read_log('bank', caller => v); END $$"
            ),
        ] {
            assert_eq!(sqlstate_of(&mut theirs, &script).await, "23514", "{script}");
        }
    }
    // Nobody, and a value that was made by somebody else and kept.
    let nobody = "SELECT * FROM headwater.read_log('bank', caller => NULL)";
    assert_eq!(sqlstate_of(&mut theirs, nobody).await, "WH001");
    let outer = "SELECT r.* FROM (SELECT 1 AS one) a LEFT JOIN (SELECT 2 AS two, current_user::headwater.caller AS c OFFSET 0) b ON one = two,
                        headwater.read_log('bank', caller => b.c) r";
    assert_eq!(sqlstate_of(&mut theirs, outer).await, "WH001");
    for script in [
        "CREATE TEMP TABLE kept (c headwater.caller)",
        "CREATE TEMP TABLE kept AS SELECT current_user::headwater.caller AS c",
        "CREATE FUNCTION pg_temp.f(c headwater.caller) RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "CREATE DOMAIN pg_temp.mine AS headwater.caller",
    ] {
        assert_eq!(sqlstate_of(&mut theirs, script).await, "42501", "{script}");
    }
    drop(theirs);
    end(&db, tenant).await;
    end(&db, other).await;
}

/// Functions, aggregates, operators and casts in a caller's schema, or in a `public` schema that
/// anybody can write to, are never found by our code: neither when a tenant calls, nor when the
/// owner does.
#[tokio::test]
async fn shadowed_functions_are_never_called() {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    db.log("bank").await;
    emit(&mut db.session().await, "bank", "Secret").await;
    let tenant = granted(&db, "shop", GrantKind::Admin).await;
    let mut owner = db.session().await;
    // An exact match wins over a polymorphic function of pg_catalog, wherever pg_catalog is in the
    // path.
    let mut traps = String::from("CREATE SCHEMA eve; GRANT ALL ON SCHEMA eve, public TO PUBLIC;");
    for schema in ["eve", "public"] {
        traps += &format!(
            "CREATE FUNCTION {schema}.trap() RETURNS void LANGUAGE plpgsql AS $$ BEGIN RAISE 'trap as %', current_user; END $$;
             CREATE FUNCTION {schema}.s(int[], int) RETURNS int[] LANGUAGE plpgsql AS $$ BEGIN PERFORM {schema}.trap(); RETURN NULL; END $$;
             CREATE AGGREGATE {schema}.array_agg(int) (SFUNC = {schema}.s, STYPE = int[]);"
        );
        for element in ["int", "bigint", "text", "uuid", "boolean", "timestamptz", "jsonb"] {
            traps += &format!(
                "CREATE FUNCTION {schema}.cardinality({element}[]) RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM {schema}.trap(); RETURN 1; END $$;
                 CREATE FUNCTION {schema}.unnest({element}[]) RETURNS SETOF {element} LANGUAGE plpgsql AS $$ BEGIN PERFORM {schema}.trap(); END $$;
                 CREATE FUNCTION {schema}.array_position({element}[], {element}) RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM {schema}.trap(); RETURN 1; END $$;
                 CREATE FUNCTION {schema}.same({element}[], {element}[]) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN PERFORM {schema}.trap(); RETURN true; END $$;
                 CREATE OPERATOR {schema}.= (LEFTARG = {element}[], RIGHTARG = {element}[], FUNCTION = {schema}.same);
                 CREATE OPERATOR {schema}.<> (LEFTARG = {element}[], RIGHTARG = {element}[], FUNCTION = {schema}.same);
                 CREATE FUNCTION {schema}.format(text, {element}) RETURNS text LANGUAGE plpgsql AS $$ BEGIN PERFORM {schema}.trap(); RETURN ''; END $$;
                 CREATE FUNCTION {schema}.pg_column_size({element}[]) RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM {schema}.trap(); RETURN 1; END $$;
                 CREATE FUNCTION {schema}.to_jsonb({element}) RETURNS jsonb LANGUAGE plpgsql AS $$ BEGIN PERFORM {schema}.trap(); RETURN '1'; END $$;"
            );
        }
        traps += &format!(
            "CREATE FUNCTION {schema}.make_interval(secs double precision) RETURNS interval LANGUAGE plpgsql AS $$ BEGIN PERFORM {schema}.trap(); RETURN '1 s'; END $$;"
        );
    }
    run(&mut owner, &traps).await;
    let work = "
        SELECT headwater.emit('shop', 'A', headers => '{\"a\": \"b\"}');
        SELECT headwater.append('shop', 'order-1', '[{\"type\": \"B\"}, {\"type\": \"C\"}]');
        SELECT * FROM headwater.read_log('shop');
        SELECT headwater.register_subscriber('shop', 'queue', mode => 'shared');
        SELECT headwater.claim('shop', 'queue', 1);
        SELECT headwater.claim('shop', 'queue', 1, '1 s', ARRAY['B*']);
        SELECT headwater.nack('shop', 'queue', c.claim_id, permanent => true) FROM headwater.claim('shop', 'queue', 1) c;
        SELECT headwater.redrive('shop');
        SELECT * FROM headwater.subscriber_lag; SELECT * FROM headwater.queue_metrics; SELECT * FROM headwater.node_status;
        SELECT headwater.schedule('shop', 'nightly', 'N', '0 2 * * *'); SELECT headwater.run_schedule_now('shop', 'nightly');
        SELECT headwater.audit_subscribers('shop'); SELECT headwater.audit_queues('shop'); SELECT headwater.maintain('shop')";
    let mut theirs = tenant.session().await;
    for path in ["eve, pg_catalog", "public, pg_catalog", "pg_catalog, eve", "pg_temp, eve"] {
        for session in [&mut theirs, &mut owner] {
            run(session, &format!("BEGIN; SET LOCAL search_path = {path}; {work}; ROLLBACK")).await;
        }
        run(&mut theirs, &format!("SET search_path = {path}")).await;
        assert_eq!(sqlstate_of(&mut theirs, "SELECT * FROM headwater.read_log('bank')").await, "WH001");
    }
    // The client of the owner, whose sessions have `public` in their path as every session does.
    let log = db.database.open_log("shop", LogOptions::default()).await.unwrap();
    for n in 0..3 {
        log.append(Append::new().event(crate::common::raw(&format!("e{n}")))).await.unwrap();
    }
    assert!(log.log_page(&LogQuery::after(0)).await.unwrap().events.len() >= 3);
    log.close().await;
    drop(theirs);
    run(&mut owner, "DROP SCHEMA eve CASCADE").await;
    end(&db, tenant).await;
}

/// What waits for an advisory lock waits for whoever can connect.
#[tokio::test]
async fn no_operation_takes_an_advisory_lock_but_that_of_the_horizon() {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    let role = db.role().await;
    let mut session = db.session().await;
    let work = format!(
        "BEGIN;
         SELECT headwater.create_namespace('second');
         SELECT headwater.create_namespace('third', ordering => 'gapless');
         SELECT headwater.grant_role('second', '{0}', 'admin'); SELECT headwater.revoke_role('second', '{0}');
         SELECT headwater.maintain('shop', now() + interval '100 days');
         SELECT headwater.emit_at('shop', 'Due', now() + interval '1 hour');
         UPDATE headwater_private.due_events SET fire_at = now() - interval '1 s';
         SELECT headwater.fire_due('shop'); SELECT headwater.fire_all_due();
         SELECT headwater.schedule('shop', 's', 'A', '* * * * *'); SELECT headwater.fire_all_schedules();
         SELECT headwater.register_subscriber('shop', 'queue', mode => 'shared'); SELECT headwater.claim('shop', 'queue', 1);
         SELECT headwater.register_subscriber('shop', 'group', mode => 'partitioned', partitions => 2);
         SELECT headwater.resize_group('shop', 'group', 3); SELECT headwater.reset_subscriber('shop', 'group', 0);
         SELECT headwater.redrive('shop'); SELECT headwater.publish_namespace('shop'); SELECT headwater.seal_months('shop')",
        role.name
    );
    run(&mut session, &work).await;
    let others = "SELECT format('%s %s %s', classid, objid, mode) FROM pg_locks
                   WHERE locktype = 'advisory' AND pid = pg_backend_pid() AND NOT (classid::bigint >> 24 = 72 AND mode = 'ShareLock')";
    let found: Vec<String> = sqlx::query_scalar(others).fetch_all(&mut session).await.unwrap();
    assert_eq!(found, [] as [String; 0]);
    run(&mut session, "ROLLBACK").await;
    db.drop_role(role).await;
}

/// A position that no server handed out would step over what is yet to come.
#[tokio::test]
async fn no_position_or_gap_beyond_the_head_is_written() {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    emit(&mut db.session().await, "shop", "A").await;
    let mut session = db.session().await;
    run(&mut session, "SELECT headwater.register_subscriber('shop', 'mailer')").await;
    for sequence in ["2", "9223372036854775807", "-1"] {
        for script in [
            format!("SELECT headwater.advance(1, 'mailer', NULL, {sequence}, NULL, '{{}}', 1, '1', 0, '0', 0, NULL)"),
            format!(
                "SELECT headwater.advance_in(1, 'mailer', NULL, {sequence}, NULL, '{{}}', 1, '1', 0, '0', 0, '{{}}', 0, NULL)"
            ),
            format!("SELECT headwater.settle_ahead_in(1, 'mailer', 0, NULL, ARRAY[{sequence}]::bigint[], 0, '{{}}')"),
            format!("SELECT headwater.record_gaps(1, ARRAY[1]::bigint[], ARRAY[{sequence}]::bigint[])"),
        ] {
            assert_eq!(sqlstate_of(&mut session, &script).await, "WH016", "{script}");
        }
    }
    let beyond = "SELECT headwater.advance(1, 'mailer', NULL, 1, NULL, '{2,2}', 1, '1', 0, '0', 0, NULL)";
    assert_eq!(sqlstate_of(&mut session, beyond).await, "WH016");
    for script in [
        "SELECT headwater.reset_subscriber('shop', 'mailer', 2)",
        "SELECT headwater.register_subscriber('shop', 'other', 'after', 2)",
    ] {
        assert_eq!(sqlstate_of(&mut session, script).await, "WH016", "{script}");
    }
    let beyond = sqlx::query(AssertSqlSafe("SELECT FROM headwater_private.subscribers WHERE position > 0"));
    assert_eq!(beyond.fetch_all(&mut session).await.unwrap().len(), 0);
}

/// Lists that are in no order, or are no lists: their last element says nothing of the others.
#[tokio::test]
async fn no_list_hides_a_sequence_beyond_the_head() {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    let mut session = db.session().await;
    for _ in 0..3 {
        emit(&mut session, "shop", "A").await;
    }
    run(&mut session, "SELECT headwater.register_subscriber('shop', 'mailer')").await;
    for (script, code) in [
        ("SELECT headwater.settle_ahead_in(1, 'mailer', 0, NULL, '{5,6,7,1}', 0, '{}')", "WH016"),
        ("SELECT headwater.settle_ahead_in(1, 'mailer', 0, NULL, '{2,1}', 0, '{}')", "WH002"),
        ("SELECT headwater.advance(1, 'mailer', NULL, 1, NULL, '{1000,2000,1,1}', 0, '0', 0, '0', 0, NULL)", "WH016"),
        ("SELECT headwater.advance(1, 'mailer', NULL, 1, NULL, '[5:6]={1,1}', 0, '0', 0, '0', 0, NULL)", "WH002"),
        ("SELECT headwater.advance(1, 'mailer', NULL, 1, NULL, '{-9223372036854775808,1}', 0, '0', 0, '0', 0, NULL)", "WH016"),
        ("SELECT headwater.advance_in(1, 'mailer', NULL, 1, NULL, '{{1,1}}', 0, '0', 0, '0', 0, '{}', 0, NULL)", "WH002"),
        ("SELECT headwater.advance(1, 'mailer', NULL, 1, NULL, '{}', 1, 'NaN', 0, '0', 0, NULL)", "WH002"),
        ("SELECT headwater.advance(1, 'mailer', NULL, 1, NULL, '{}', 9223372036854775807, '1', 0, '0', 0, NULL)", "WH002"),
        ("SELECT headwater.note_poison('shop', '{1000}', '{x}')", "WH016"),
        ("SELECT headwater.note_poison('shop', '{-1}', '{x}')", "WH002"),
        ("SELECT headwater.put_state(1, 'mailer', 'k', '1', global_sequence => 1000)", "WH016"),
        (
            "SELECT headwater.append_batch('shop', NULL, '{}', '{}', '{}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                                           '{2147483647}', '{x}', '{1}', '{1}', false, NULL)",
            "WH002",
        ),
        (
            "SELECT headwater.append_batch('shop', NULL, '{}', '{}', '{}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                                           '{1}', '{x}', '{-2}', NULL, false, NULL)",
            "WH002",
        ),
        ("SELECT headwater.emit('shop', 'A', headers => jsonb_build_object('x', repeat('y', 2000000)))", "WH004"),
        ("SELECT headwater.cdc_own('shop', 'headwater_n2_d1', 'n', gen_random_uuid(), NULL, 1000)", "WH002"),
    ] {
        assert_eq!(sqlstate_of(&mut session, script).await, code, "{script}");
    }
}

/// A producer has nodes of its own, and speaks for no other.
#[tokio::test]
async fn a_producer_does_not_speak_for_the_node_of_a_consumer() {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    run(&mut db.session().await, "SELECT headwater.register_node('shop', 'worker')").await;
    let role = db.role().await;
    db.database.grant("shop", &role.name, GrantKind::Producer).await.unwrap();
    let mut session = role.session().await;
    run(&mut session, "SELECT headwater.register_node('shop', 'own'); SELECT headwater.touch_node_heartbeat('own')")
        .await;
    for script in [
        "SELECT headwater.register_node('shop', 'worker')",
        "SELECT headwater.heartbeat('shop', 'worker', 1, '{}')",
        "SELECT headwater.note_handled('shop', 'worker', 1, '{}')",
        "SELECT headwater.stop_node('shop', 'worker', 1)",
        "SELECT headwater.touch_node_heartbeat('worker')",
    ] {
        assert_eq!(sqlstate_of(&mut session, script).await, "WH015", "{script}");
    }
    run(&mut session, "SELECT * FROM headwater.next_runs('0 * * * *')").await;
    assert_eq!(sqlstate_of(&mut session, "SELECT headwater.partition_of('k', 0)").await, "WH002");
    drop(session);
    db.database.revoke("shop", &role.name, None).await.unwrap();
    db.drop_role(role).await;
}

#[tokio::test]
async fn a_task_of_another_namespace_is_as_none() {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    db.log("other").await;
    let role = granted(&db, "shop", GrantKind::Producer).await;
    let task: uuid::Uuid = sqlx::query_scalar("SELECT headwater.schedule('other', 'nightly', 'Night', '0 3 * * *')")
        .fetch_one(&mut db.session().await)
        .await
        .unwrap();
    let mut session = role.session().await;
    let [foreign, none] = [task, uuid::Uuid::nil()].map(|id| format!("SELECT headwater.run_scheduled_task('{id}')"));
    for script in [&foreign, &none] {
        assert_eq!(sqlstate_of(&mut session, script).await, "WH030", "{script}");
    }
    drop(session);
    end(&db, role).await;
}

#[tokio::test]
async fn a_granted_roles_lease_of_maintenance_does_not_hold_up_the_owner() {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    let role = granted(&db, "shop", GrantKind::Producer).await;
    let begin = format!("SELECT headwater.begin_maintenance({}, '1 hour')", db.log("shop").await.info().id);
    let take = async |mut session: PgConnection| -> bool {
        sqlx::query_scalar(AssertSqlSafe(begin.clone())).fetch_one(&mut session).await.unwrap()
    };
    assert!(take(role.session().await).await);
    assert!(!take(role.session().await).await, "a role's lease counts among those of roles");
    assert!(take(db.session().await).await);
    assert!(!take(db.session().await).await);
    end(&db, role).await;
}

/// What nobody could read is left to the careful append, which says what is wrong.
#[tokio::test]
async fn a_batch_with_names_or_headers_that_nobody_could_read_is_not_taken() {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    let mut session = db.session().await;
    let emit = async |session: &mut PgConnection,
                      event_type: &str,
                      key: Option<&str>,
                      headers: Option<&str>|
           -> usize {
        let one = "SELECT headwater.emit_one('shop', headwater.uuid_v7(), $1, '{}', now(), NULL, $2, NULL, NULL, NULL, $3, 1000)";
        let one = sqlx::query_scalar(one).bind(event_type).bind(key).bind(headers);
        let one: Option<i64> = one.fetch_one(&mut *session).await.unwrap();
        let emit = "SELECT headwater.emit_batch('shop', ARRAY[headwater.uuid_v7()], ARRAY[$1], ARRAY['{}'], ARRAY[now()], NULL, ARRAY[$2],
                                                NULL, NULL, NULL, ARRAY[$3], 1000)";
        let emit = sqlx::query(emit).bind(event_type).bind(key).bind(headers);
        let taken = emit.fetch_all(session).await.unwrap().len();
        assert_eq!(usize::from(one.is_some()), taken, "one is as a batch of one");
        taken
    };
    assert_eq!(emit(&mut session, "Paid", Some("k"), Some(r#"{"a": "b"}"#)).await, 1);
    assert_eq!(emit(&mut session, "Paid", None, None).await, 1);
    assert_eq!(emit(&mut session, "Pa\nid", None, None).await, 0);
    assert_eq!(emit(&mut session, "Paid", Some("\u{7f}"), None).await, 0);
    for (name, taken) in [("", 0), ("é", 1)] {
        assert_eq!(emit(&mut session, name, None, None).await, taken, "{name:?}");
        assert_eq!(emit(&mut session, "Paid", Some(name), None).await, taken, "{name:?}");
    }
    assert_eq!(emit(&mut session, &"é".repeat(127), Some(&"é".repeat(256)), None).await, 1);
    assert_eq!(emit(&mut session, &"é".repeat(128), None, None).await, 0);
    assert_eq!(emit(&mut session, "Paid", Some(&"é".repeat(257)), None).await, 0);
    for headers in ["[]", "1", "null", r#"{"a": 1}"#, r#"{"a": "b", "c": {"d": "e"}}"#, r#"{"a": null}"#] {
        assert_eq!(emit(&mut session, "Paid", None, Some(headers)).await, 0, "{headers}");
    }
}

#[tokio::test]
async fn no_letter_of_an_event_beyond_the_head_is_kept() {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    let mut session = db.session().await;
    run(&mut session, "SELECT headwater.emit('shop', 'A'); SELECT headwater.register_subscriber('shop', 's')").await;
    let id = db.log("shop").await.info().id;
    let bury = |sequence: i64| {
        format!(
            "SELECT headwater.bury({id}, 's', NULL, ARRAY[{sequence}], ARRAY[headwater.uuid_v7()], ARRAY['A'], ARRAY['k'], ARRAY['dead'], ARRAY[false],
                                   ARRAY['e'], ARRAY['n'], ARRAY['[]'], ARRAY[(SELECT headwater_private.event_json(e)::text
                                       FROM headwater_private.events e)], 0)"
        )
    };
    for sequence in [2, -1, i64::MAX] {
        assert_eq!(sqlstate_of(&mut session, &bury(sequence)).await, "WH016", "{sequence}");
    }
    run(&mut session, &bury(1)).await;
}

/// What one role stores is in the lists of all. Whoever lists letters must be able to read each.
#[tokio::test]
async fn no_letter_that_cannot_be_read_is_kept() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let store = PgSubscribers::new(db.database.clone(), log.info().clone(), SubscribersOptions::default());
    let mut session = db.session().await;
    run(&mut session, "SELECT headwater.emit('shop', 'A'); SELECT headwater.register_subscriber('shop', 's')").await;
    let id = log.info().id;
    let bury = |attempts: &str, change: &str| {
        format!(
            "SELECT headwater.bury({id}, 's', NULL, ARRAY[1], ARRAY[e.event_id], ARRAY['A'], ARRAY['k'], ARRAY['dead'], ARRAY[false], ARRAY['e'],
                                   ARRAY['n'], ARRAY['{attempts}'], ARRAY[(headwater_private.event_json(e) {change})::text], 0)
               FROM headwater_private.events e"
        )
    };
    let attempt = r#"{"at": "2026-01-01T00:00:00Z", "node": "n", "errors": ["e"]}"#;
    for attempts in
        ["{}", "[1]", r#"[{"at": "infinity", "node": "n", "errors": []}]"#, r#"[{"node": "n", "errors": []}]"#]
    {
        assert_eq!(sqlstate_of(&mut session, &bury(attempts, "")).await, "WH002", "{attempts}");
    }
    for change in [
        "- 'id'",
        "- 'event_type'",
        "- 'recorded_at'",
        r#"|| '{"global_sequence": -1}'"#,
        r#"|| '{"global_sequence": 1.5}'"#,
        r#"|| '{"schema_version": "1"}'"#,
        r#"|| '{"schema_version": 2147483648}'"#,
        r#"|| '{"stream_version": 9223372036854775808}'"#,
        r#"|| '{"created_at": "infinity"}'"#,
        r#"|| '{"recorded_at": "2026-02-30T00:00:00Z"}'"#,
        r#"|| '{"correlation_id": "x"}'"#,
        r#"|| '{"headers": {"a": 1}}'"#,
        r#"|| '{"key": 1}'"#,
        r#"|| '{"other": 1}'"#,
    ] {
        assert_eq!(sqlstate_of(&mut session, &bury("[]", change)).await, "WH002", "{change}");
    }
    run(
        &mut session,
        &bury(&format!("[{attempt}]"), r#"|| '{"data": {"a": 1}, "key": "k", "schema_version": 2147483647}'"#),
    )
    .await;
    let redriven = |attempt: &str| format!("SELECT headwater.redriven({id}, 's', NULL, 1, '{attempt}', 'e', 'n', 0)");
    for attempt in ["1", "{}", r#"{"at": "x", "node": "n", "errors": []}"#] {
        assert_eq!(sqlstate_of(&mut session, &redriven(attempt)).await, "WH002", "{attempt}");
    }
    run(&mut session, &redriven(attempt)).await;
    let import = |attempts: &str, at: &str| {
        format!(
            "SELECT headwater.import_letters({id}, ARRAY['t'], ARRAY[e.event_id], ARRAY['e'], ARRAY['{attempts}'], ARRAY['{at}'::timestamptz],
                                             ARRAY['{at}'::timestamptz]) FROM headwater_private.events e"
        )
    };
    assert_eq!(sqlstate_of(&mut session, &import("[1]", "2026-01-01")).await, "WH002");
    assert_eq!(sqlstate_of(&mut session, &import("[]", "infinity")).await, "WH002");
    run(&mut session, &import(&format!("[{attempt}]"), "2026-01-01")).await;
    let letters = store.dead_letters(&DeadLetterQuery::default()).await.unwrap();
    assert_eq!(letters.iter().map(|letter| letter.attempts.len()).collect::<Vec<_>>(), [1, 1]);
}

#[tokio::test]
async fn nobody_waits_for_a_history_that_a_tenant_begins() {
    let db = TestDatabase::create().await;
    db.log("a").await;
    let eve = granted(&db, "a", GrantKind::Consumer).await;
    let (mut owner, mut tenant) = (db.session().await, eve.session().await);
    let forget = "DELETE FROM headwater_private.histories";
    // Twice: the latch is made the first time.
    run(&mut owner, &format!("{forget}; SELECT headwater.begin_history(); {forget}")).await;
    run(&mut tenant, "BEGIN; SELECT headwater.begin_history()").await;
    let latched =
        "SELECT count(*) FROM (SELECT FROM headwater_private.latches WHERE what = 'history' FOR UPDATE NOWAIT) l";
    run(&mut owner, latched).await;
    run(&mut owner, "SET statement_timeout = '30s'; SELECT headwater.begin_history()").await;
    drop(tenant);
    end(&db, eve).await;
}
