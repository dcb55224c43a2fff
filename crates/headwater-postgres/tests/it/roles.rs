//! Roles: what a role with a grant may do, and that a role without it can do and see nothing.
//! Tested by trying.

use std::time::Duration;

use crate::common::{emit, pid, raw, run, sqlstate_of, until_it_waits};
use headwater_core::{
    AdminError, Append, AppendError, EventLog, ExpectedVersion, LogQuery, NamespaceConfig, Ordering, ReadError,
};
use headwater_postgres::{GrantKind, InboxRow, LogOptions, NamespaceChanges, PgInbox, PgLog};
use headwater_testing::{TestDatabase, TestRole};
use sqlx::{AssertSqlSafe, Executor, PgConnection, Row};
use uuid::Uuid;

const KINDS: [GrantKind; 3] = [GrantKind::Producer, GrantKind::Consumer, GrantKind::Admin];

/// A database with `shop`, and `bank`, which has a bit of everything and is nobody's.
async fn two() -> TestDatabase {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    db.log("bank").await;
    let fill = "
        SELECT headwater.append('bank', 'secret-1', '[{\"type\": \"Secret\", \"key\": \"k\"}, {\"type\": \"Secret\"}]');
        SELECT headwater.emit('bank', 'Secret', '\"hush\"', event_id => '018f0000-0000-7000-8000-000000000001',
                              correlation_id => '018f0000-0000-7000-8000-000000000002');
        SELECT headwater.emit_at('bank', 'Later', now() + interval '1 day', event_id => '018f0000-0000-7000-8000-000000000003');
        SELECT headwater.register_subscriber('bank', 'queue', mode => 'shared');
        SELECT headwater.register_subscriber('bank', 'group', mode => 'partitioned', partitions => 2);
        SELECT headwater.register_subscriber('bank', 'totals');
        SELECT headwater.claim('bank', 'queue', 1);
        SELECT headwater.claim('bank', 'queue', 1);
        SELECT headwater.nack('bank', 'queue', claim_id, permanent => true) FROM headwater_private.claims WHERE NOT done ORDER BY number LIMIT 1;
        INSERT INTO headwater_private.members SELECT namespace_id, 'group', gen_random_uuid(), 'node', now(), false FROM headwater_private.namespaces
         WHERE namespace = 'bank';
        INSERT INTO headwater_private.states SELECT namespace_id, 'totals', 'k', '1' FROM headwater_private.namespaces WHERE namespace = 'bank';
        INSERT INTO headwater_private.permanent_gaps SELECT namespace_id, 900, 901, 'aborted' FROM headwater_private.namespaces WHERE namespace = 'bank';
        SELECT setval(n.sequence, 902) FROM headwater_private.namespaces n WHERE n.namespace = 'bank';
        SELECT headwater.note_poison('bank', ARRAY[902], ARRAY['Secret']);
        SELECT headwater.cdc_own('bank', 'headwater_n' || (headwater_private.namespace_row('bank')).namespace_id || '_d1', 'node', '018f0000-0000-7000-8000-000000000009', NULL, 3600000);
        SELECT headwater.cdc_begin('bank', 'headwater_n' || (headwater_private.namespace_row('bank')).namespace_id || '_d1', s.term, '1', 1) FROM headwater_private.cdc_slots s;
        INSERT INTO headwater_private.cdc_nodes SELECT (headwater_private.namespace_row('bank')).namespace_id, r.node_id, r.instance_id, 'inbox', 'streaming', now(), now(), 0, 0,
               NULL, NULL, '{}' FROM headwater.register_node('bank', 'secret-node') r;
        SELECT headwater.cdc_receive('bank', 'headwater_n' || (headwater_private.namespace_row('bank')).namespace_id || '_d1', (SELECT s.term FROM headwater_private.cdc_slots s), ARRAY['0/1'::pg_lsn], ARRAY[0], ARRAY[1], ARRAY['{\"type\": \"Secret\"}'], ARRAY[NULL])";
    run(&mut db.session().await, fill).await;
    db
}

async fn granted(db: &TestDatabase, namespace: &str, kind: GrantKind) -> TestRole {
    let role = db.role().await;
    db.database.grant(namespace, &role.name, kind).await.unwrap();
    role
}

async fn namespace_id(db: &TestDatabase, namespace: &str) -> i32 {
    db.database.namespace(namespace).await.unwrap().id
}

/// Ends a role as its owner would: nothing is granted to it any more.
async fn end(db: &TestDatabase, role: TestRole) {
    for namespace in db.database.namespaces().await.unwrap() {
        db.database.revoke(&namespace.name, &role.name, None).await.unwrap();
    }
    db.drop_role(role).await;
}

async fn open(role: &TestRole, namespace: &str) -> PgLog {
    role.database().await.open_log(namespace, LogOptions::default()).await.unwrap()
}

/// The wall, as the catalog has it: what is not listed here is not open.
#[tokio::test]
async fn nothing_is_for_the_public_and_no_table_is_for_roles_with_grants() {
    let db = two().await;
    let role = granted(&db, "shop", GrantKind::Admin).await;
    let schemas = "('headwater'::regnamespace, 'headwater_private'::regnamespace)";
    let open = format!(
        "SELECT 'a table among the entry points: ' || c.relname FROM pg_class c
          WHERE c.relnamespace = 'headwater'::regnamespace AND c.relkind IN ('r', 'p', 'S', 'm')
            AND c.relname NOT IN ('migrations', 'functions_revision')
         UNION ALL
         SELECT 'open: ' || c.relname FROM pg_class c, aclexplode(c.relacl) g
          WHERE c.relnamespace = 'headwater_private'::regnamespace AND g.grantee <> c.relowner
         UNION ALL
         SELECT 'open: ' || a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid, aclexplode(a.attacl) g
          WHERE c.relnamespace IN {schemas} AND g.grantee <> c.relowner
         UNION ALL
         SELECT 'open: ' || p.proname FROM pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) g
          WHERE p.pronamespace IN {schemas} AND g.grantee <> p.proowner
            AND (p.pronamespace = 'headwater_private'::regnamespace OR g.grantee = 0)
         UNION ALL
         SELECT 'more than looking: ' || c.relname FROM pg_class c, aclexplode(c.relacl) g
          WHERE c.relnamespace = 'headwater'::regnamespace AND g.grantee <> c.relowner
            AND (g.grantee = 0 OR g.privilege_type <> 'SELECT')
         UNION ALL
         SELECT 'open: schema ' || n.nspname FROM pg_namespace n, aclexplode(n.nspacl) g
          WHERE n.oid IN {schemas} AND g.grantee <> n.nspowner
            AND (n.nspname = 'headwater_private' OR g.grantee = 0 OR g.privilege_type <> 'USAGE')
         UNION ALL
         SELECT 'open: domain' FROM pg_type t, aclexplode(coalesce(t.typacl, acldefault('T', t.typowner))) g
          WHERE t.oid = 'headwater.caller'::regtype AND g.grantee <> t.typowner"
    );
    let found: Vec<String> = sqlx::query_scalar(AssertSqlSafe(open)).fetch_all(db.database.pool()).await.unwrap();
    assert_eq!(found, [] as [String; 0]);
    end(&db, role).await;
}

/// A function that does not pin its search_path runs what its caller, or anybody who can write to a
/// schema in it, has put there.
#[tokio::test]
async fn every_function_pins_its_path_and_every_entry_point_asks_who_calls() {
    let db = TestDatabase::create().await;
    let unpinned = "SELECT p.oid::regprocedure::text FROM pg_proc p
                     WHERE p.pronamespace IN ('headwater'::regnamespace, 'headwater_private'::regnamespace)
                       AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (p.proconfig), false)
                       -- One that pins its path is not inlined. This one selects from one table, which it names with its schema.
                       AND NOT (p.proname = 'tail_events' AND p.prosrc ~ '^SELECT [a-z_, *]+ FROM headwater_private[.]events[0-9_]*$')";
    let found: Vec<String> = sqlx::query_scalar(unpinned).fetch_all(db.database.pool()).await.unwrap();
    assert_eq!(found, [] as [String; 0]);
    let unasked = "SELECT p.proname::text FROM pg_proc p
                    WHERE p.pronamespace = 'headwater'::regnamespace
                      AND NOT (p.prosecdef AND p.proargtypes[p.pronargs - 1] = 'headwater.caller'::regtype AND p.pronargdefaults > 0)
                    ORDER BY 1";
    let found: Vec<String> = sqlx::query_scalar(unasked).fetch_all(db.database.pool()).await.unwrap();
    // These look at no table, and run as whoever calls.
    let pure = [
        "append",
        "dead_letter_queue_name_for_namespace",
        "next_runs",
        "partition_of",
        "queue_name_for_namespace",
        "uuid_v7",
    ];
    assert_eq!(found, pure);
    // Nobody calls a trigger's function directly. A deferred trigger runs as the role that commits,
    // which need not have access to the tables.
    let definers = "SELECT p.proname::text FROM pg_proc p
                     WHERE p.pronamespace = 'headwater_private'::regnamespace AND p.prosecdef AND p.prorettype <> 'trigger'::regtype";
    let found: Vec<String> = sqlx::query_scalar(definers).fetch_all(db.database.pool()).await.unwrap();
    assert_eq!(found, [] as [String; 0]);
}

#[tokio::test]
async fn without_a_grant_nothing_can_be_called_or_read() {
    let db = two().await;
    let role = db.role().await;
    let mut session = role.session().await;
    for script in [
        "SELECT headwater.emit('shop', 'A')",
        "SELECT headwater.emit('missing', 'A')",
        "SELECT * FROM headwater.read_log('shop')",
        "SELECT * FROM headwater_private.namespaces",
        "SELECT * FROM headwater_private.grants",
        "SELECT * FROM headwater_private.events",
        "SELECT headwater.uuid_v7()",
        "SELECT headwater_private.namespace_row('shop')",
        "SELECT last_value FROM headwater_private.sequence_n1",
        "CREATE TABLE headwater.mine ()",
    ] {
        assert_eq!(sqlstate_of(&mut session, script).await, "42501", "{script}");
    }
    let refused = role.database().await.namespaces().await;
    assert!(matches!(refused, Err(AdminError::NotGranted(_))), "{refused:?}");
    db.drop_role(role).await;
}

/// What a call answers, or how it fails, in a transaction that is rolled back.
async fn answer(session: &mut PgConnection, call: &str) -> String {
    session.execute("BEGIN").await.unwrap();
    let rows =
        sqlx::query_scalar::<_, Option<String>>(AssertSqlSafe(format!("SELECT to_jsonb(r)::text FROM {call} r")));
    let answer = match rows.fetch_all(&mut *session).await {
        Ok(rows) => format!("{rows:?}"),
        Err(error) => error.as_database_error().map_or_else(
            || panic!("{call}: {error}"),
            |error| format!("{}: {}", error.code().unwrap_or_default(), error.message()),
        ),
    };
    session.execute("ROLLBACK").await.unwrap();
    answer
}

/// What a function is called with: something that is there in `bank`, by the parameter's name.
fn argument(name: &str, r#type: &str, claim: Uuid) -> String {
    match name {
        "subscriber_id" | "only_subscriber" | "owner" => "'queue'".into(),
        "subscriber_ids" => "ARRAY['queue']".into(),
        "caller" => "current_user".into(),
        "stream_id" | "stream" => "'secret-1'".into(),
        "event_id" | "correlation_id" => "'018f0000-0000-7000-8000-000000000001'::uuid".into(),
        "event_ids" if r#type == "uuid[]" => "ARRAY['018f0000-0000-7000-8000-000000000001'::uuid]".into(),
        "claim_id" => format!("'{claim}'::uuid"),
        "incarnation" => "'018f0000-0000-7000-8000-000000000004'::uuid".into(),
        "max_events" | "partitions" if r#type == "integer" => "2".into(),
        "after_sequence" | "position" | "to_position" | "target" => "0::bigint".into(),
        "event_type" => "'Secret'".into(),
        "visibility" => "interval '1 s'".into(),
        "lease_ms" => "1000::bigint".into(),
        "role" => "current_user::text".into(),
        "kind" => "'admin'".into(),
        "at" | "due_at" | "moment" => "now()".into(),
        "writes" => "'[{\"events\": [{\"type\": \"A\"}]}]'::jsonb".into(),
        "events" => "'{\"type\": \"A\"}'::jsonb".into(),
        _ => format!("NULL::{type}"),
    }
}

/// For a namespace of others, every function with a namespace argument answers as for a namespace
/// that does not exist, whatever the caller's grants elsewhere.
#[tokio::test]
async fn a_namespace_of_others_is_as_one_that_does_not_exist_to_every_function() {
    let db = two().await;
    let functions = "
        SELECT p.proname::text, p.proargnames[1 : p.pronargs] AS names,
               ARRAY(SELECT format_type(t, NULL) FROM unnest(p.proargtypes) WITH ORDINALITY AS u(t, nth) ORDER BY nth) AS types,
               p.pronargs - p.pronargdefaults AS required
          FROM pg_proc p
         WHERE p.pronamespace = 'headwater'::regnamespace AND p.pronargs > 0 AND p.proargnames[1] IN ('namespace', 'namespace_id', 'only_namespace')
         ORDER BY 1, 2";
    let functions = sqlx::query(functions).fetch_all(db.database.pool()).await.unwrap();
    assert!(functions.len() > 60, "{}", functions.len());
    let bank = namespace_id(&db, "bank").await;
    let claim: Uuid = sqlx::query_scalar("SELECT claim_id FROM headwater_private.claims WHERE NOT done")
        .fetch_one(db.database.pool())
        .await
        .unwrap();
    for kind in KINDS {
        let role = granted(&db, "shop", kind).await;
        let mut session = role.session().await;
        for function in &functions {
            let (name, names, types): (String, Vec<String>, Vec<String>) =
                (function.get(0), function.get(1), function.get(2));
            let rest: Vec<String> = (1..names.len())
                .filter(|nth| {
                    *nth < function.get::<i16, _>("required") as usize
                        || argument(&names[*nth], &types[*nth], claim).starts_with("'q")
                })
                .map(|nth| format!("{} => {}", names[nth], argument(&names[nth], &types[nth], claim)))
                .collect();
            let call = |first: String| {
                let mut all = vec![format!("{} => {first}", names[0])];
                all.extend(rest.iter().cloned());
                format!("headwater.{name}({})", all.join(", "))
            };
            let of_number = types[0] == "integer";
            let (others, missing) = if of_number {
                (call(bank.to_string()), call("60000".into()))
            } else {
                (call("'bank'".into()), call("'void'".into()))
            };
            let (theirs, nobodys) = (answer(&mut session, &others).await, answer(&mut session, &missing).await);
            let as_nobodys = theirs.replace("bank", "void").replace(&format!(" {bank} "), " 60000 ");
            assert_eq!(as_nobodys, nobodys, "{kind}: {others}");
            assert!(!theirs.contains("Secret") && !theirs.contains("hush"), "{kind}: {others}: {theirs}");
        }
        end(&db, role).await;
    }
}

/// Direct access to the tables: no role with a grant gets there, neither in its own namespace nor
/// in another.
#[tokio::test]
async fn no_table_can_be_reached_or_locked() {
    let db = two().await;
    let tables = "SELECT c.relname::text FROM pg_class c WHERE c.relnamespace = 'headwater_private'::regnamespace AND c.relkind IN ('r', 'p', 'S')";
    let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(db.database.pool()).await.unwrap();
    assert!(tables.len() > 25, "{tables:?}");
    for kind in KINDS {
        let role = granted(&db, "shop", kind).await;
        let mut session = role.session().await;
        for table in &tables {
            for statement in [
                format!("SELECT FROM headwater_private.{table}"),
                format!("DELETE FROM headwater_private.{table}"),
                format!("INSERT INTO headwater_private.{table} DEFAULT VALUES"),
                format!("BEGIN; LOCK TABLE headwater_private.{table} IN ACCESS SHARE MODE"),
                format!("ROLLBACK; PREPARE p AS SELECT FROM headwater_private.{table}"),
                format!("CREATE TEMP VIEW v AS SELECT FROM headwater_private.{table}"),
            ] {
                assert_eq!(sqlstate_of(&mut session, &statement).await, "42501", "{kind}: {statement}");
                run(&mut session, "ROLLBACK").await;
            }
        }
        end(&db, role).await;
    }
}

#[tokio::test]
async fn a_producer_appends_and_reads_nothing() {
    let db = two().await;
    let role = granted(&db, "shop", GrantKind::Producer).await;
    let log = open(&role, "shop").await;
    // Through the queue's own statement, through append_batch, and again as after a lost answer.
    let event = raw("A");
    let first = log.append(Append::new().event(event.clone())).await.unwrap();
    let again = log.append(Append::new().event(event.clone())).await.unwrap();
    assert_eq!(first.events[0].global_sequence, again.events[0].global_sequence);
    let stream = Append::to_stream("order-1", ExpectedVersion::NoStream, [raw("B"), raw("C")]);
    let stored = log.append(stream.clone()).await.unwrap();
    assert_eq!(log.append(stream).await.unwrap().events, stored.events);
    let conflict = log.append(Append::to_stream("order-1", ExpectedVersion::NoStream, [raw("D")])).await;
    assert!(matches!(&conflict, Err(AppendError::Conflict { actual: 2, .. })), "{conflict:?}");
    let many = (0..100).map(|n| log.append(Append::new().event(raw(&format!("e{n}")))));
    for appended in futures::future::join_all(many).await {
        appended.unwrap();
    }

    let read = log.log_page(&LogQuery::after(0)).await;
    assert!(matches!(&read, Err(ReadError::NotGranted(_))), "{read:?}");
    let mut session = role.session().await;
    assert_eq!(sqlstate_of(&mut session, "SELECT * FROM headwater.read_log('shop')").await, "WH015");
    assert_eq!(sqlstate_of(&mut session, "SELECT * FROM headwater.read_stream('shop', 'order-1')").await, "WH015");
    let other = role.database().await.open_log("bank", LogOptions::default()).await;
    assert!(matches!(other, Err(AdminError::NamespaceNotFound(_))), "{other:?}");
    log.close().await;
    end(&db, role).await;
}

/// Requests of many callers go as one batch. A request that conflicts fails alone, even if the role
/// may not read what it appended.
#[tokio::test]
async fn a_producers_conflict_fails_nothing_else_in_its_batch() {
    let db = two().await;
    let role = granted(&db, "shop", GrantKind::Producer).await;
    let mut session = role.session().await;
    let batch = "SELECT succeeded, sequences, echoes FROM headwater.append_batch('shop', ARRAY[1, 2, 3],
                     ARRAY[gen_random_uuid(), gen_random_uuid(), gen_random_uuid()], ARRAY['a', 'b', 'c'], ARRAY['1', '2', '3'],
                     ARRAY['s', 't', NULL], ARRAY[1, 2, NULL], ARRAY[1, 1, NULL], NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                     ARRAY[1, 2], ARRAY['s', 't'], ARRAY[1, 1], ARRAY[7, NULL], false, NULL)";
    let (succeeded, sequences, echoes): (Vec<bool>, Vec<Option<i64>>, Vec<i32>) =
        sqlx::query_as(batch).fetch_one(&mut session).await.unwrap();
    assert_eq!(&succeeded[..2], [false, true]);
    assert_eq!(sequences.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true, true]);
    assert!(echoes.is_empty());
    // The same through the queue of the Rust client.
    let log = open(&role, "shop").await;
    let append = |stream: &str, version| Append::to_stream(stream, version, [raw("event")]);
    let appends = (0..40).map(|n| {
        let version = if n % 2 == 0 { ExpectedVersion::Exact(9) } else { ExpectedVersion::NoStream };
        let log = log.clone();
        let request = append(&format!("s{n}"), version);
        async move { log.append(request).await }
    });
    for (n, outcome) in futures::future::join_all(appends).await.into_iter().enumerate() {
        match outcome {
            Ok(_) => assert_eq!(n % 2, 1),
            Err(error) => assert!(n % 2 == 0 && matches!(error, AppendError::Conflict { .. }), "{n}: {error}"),
        }
    }
    end(&db, role).await;
}

#[tokio::test]
async fn a_producer_cannot_forge_change_or_take_away() {
    let db = two().await;
    let role = granted(&db, "shop", GrantKind::Producer).await;
    let mut session = role.session().await;
    emit(&mut session, "shop", "A").await;
    let (shop, bank) = (namespace_id(&db, "shop").await, namespace_id(&db, "bank").await);
    for script in [
        "UPDATE headwater_private.events SET data = '1'".into(),
        "DELETE FROM headwater_private.events".into(),
        "TRUNCATE headwater_private.events".into(),
        "SELECT * FROM headwater_private.events".to_owned(),
        format!("SELECT nextval('headwater_private.sequence_n{bank}')"),
        format!("SELECT setval('headwater_private.sequence_n{shop}', 1)"),
        "SELECT * FROM headwater_private.subscribers".into(),
    ] {
        assert_eq!(sqlstate_of(&mut session, &script).await, "42501", "{script}");
    }
    for script in [
        "SELECT headwater.apply_grants()",
        "SELECT headwater.grant_role('shop', current_user::text, 'admin')",
        "SELECT headwater.revoke_role('shop', current_user::text)",
        "SELECT headwater.alter_namespace('shop', notify => false)",
        "SELECT headwater.create_namespace('mine')",
        "SELECT headwater.trim_month('shop', now(), allow_loss => true)",
        "SELECT headwater.note_poison('shop', ARRAY[1], ARRAY['bad'])",
        "SELECT headwater.record_gaps(1, ARRAY[1], ARRAY[9])",
    ] {
        assert_eq!(sqlstate_of(&mut session, script).await, "WH015", "{script}");
    }
    end(&db, role).await;
}

#[tokio::test]
async fn a_producer_of_one_namespace_that_consumes_another_reads_only_that() {
    let db = two().await;
    let role = granted(&db, "shop", GrantKind::Producer).await;
    db.database.grant("bank", &role.name, GrantKind::Consumer).await.unwrap();
    let mut session = role.session().await;
    emit(&mut session, "shop", "A").await;
    let seen: Vec<String> = sqlx::query_scalar("SELECT DISTINCT event_type FROM headwater.read_log('bank')")
        .fetch_all(&mut session)
        .await
        .unwrap();
    assert_eq!(seen, ["Secret"]);
    assert_eq!(sqlstate_of(&mut session, "SELECT headwater.emit('bank', 'A')").await, "WH015");
    assert_eq!(sqlstate_of(&mut session, "SELECT * FROM headwater.read_log('shop')").await, "WH015");
    end(&db, role).await;
}

#[tokio::test]
async fn a_producer_carries_a_namespace_over_the_end_of_a_month() {
    let db = two().await;
    let role = granted(&db, "shop", GrantKind::Producer).await;
    let mut session = role.session().await;
    let twice = "SELECT headwater.emit('shop', 'A', event_id => '018f0000-0000-7000-8000-000000000009')";
    let first: i64 = sqlx::query_scalar(twice).fetch_one(&mut session).await.unwrap();
    // As after months without maintenance: no leaf is known to exist, and the last months are not
    // sealed.
    let as_before = "UPDATE headwater_private.namespaces SET leaves_until = '2001-01-01', sealed_before = '2001-01-01' WHERE namespace = 'shop'";
    run(&mut db.session().await, as_before).await;
    let again: i64 = sqlx::query_scalar(twice).fetch_one(&mut session).await.unwrap();
    assert_eq!(first, again);
    emit(&mut session, "shop", "B").await;
    let kept = "SELECT leaves_until > now() FROM headwater_private.namespaces WHERE namespace = 'shop'";
    assert!(sqlx::query_scalar::<_, bool>(kept).fetch_one(&mut db.session().await).await.unwrap());
    end(&db, role).await;
}

#[tokio::test]
async fn a_gapless_namespace_and_due_events_have_producers_too() {
    let db = two().await;
    let ledger = NamespaceConfig { ordering: Some(Ordering::Gapless), ..NamespaceConfig::new("ledger") };
    db.log_with(ledger, LogOptions::default()).await;
    let role = granted(&db, "ledger", GrantKind::Producer).await;
    let log = open(&role, "ledger").await;
    for sequence in 1..=3 {
        assert_eq!(log.append(Append::new().event(raw("A"))).await.unwrap().events[0].global_sequence, sequence);
    }
    let mut session = role.session().await;
    let due = "SELECT headwater.emit_at('ledger', 'Later', now() + interval '1 day', event_id => '018f0000-0000-7000-8000-00000000000a')";
    run(&mut session, due).await;
    run(&mut session, due).await;
    let ledger = namespace_id(&db, "ledger").await;
    let waiting = format!("SELECT count(*) FROM headwater.list_due({ledger}, false, 10)");
    let waiting = || sqlx::query_scalar::<_, i64>(AssertSqlSafe(waiting.clone()));
    assert_eq!(waiting().fetch_one(&mut session).await.unwrap(), 1, "its own, and not the one of bank");
    run(&mut db.session().await, "UPDATE headwater_private.due_events SET fire_at = now() - interval '1 s'").await;
    let fired: i32 =
        sqlx::query_scalar("SELECT fired FROM headwater.fire_all_due()").fetch_one(&mut session).await.unwrap();
    assert_eq!(fired, 1);
    run(&mut session, due).await;
    let left = waiting().fetch_one(&mut session).await.unwrap();
    assert_eq!(left, 0, "a retry finds it in the log, which its producer cannot read");
    // A consumer finds none of them, and that is no error.
    let consumer = granted(&db, "ledger", GrantKind::Consumer).await;
    let fired = consumer.database().await.fire_all_due(10).await.unwrap();
    assert_eq!((fired.fired, fired.next_due_in), (0, None));
    end(&db, role).await;
    end(&db, consumer).await;
}

#[tokio::test]
async fn an_admin_changes_the_settings_of_its_own_namespace() {
    let db = two().await;
    let role = granted(&db, "shop", GrantKind::Admin).await;
    let database = role.database().await;
    let changes = NamespaceChanges { max_payload_bytes: Some(5000), ..NamespaceChanges::default() };
    assert_eq!(database.alter_namespace("shop", &changes).await.unwrap().max_payload_bytes, 5000);
    let others = database.alter_namespace("bank", &changes).await;
    assert!(matches!(others, Err(AdminError::NamespaceNotFound(_))), "{others:?}");
    let listed: Vec<String> = database.namespaces().await.unwrap().into_iter().map(|info| info.name).collect();
    assert_eq!(listed, ["shop"]);
    // What is there is found, as programs do at their start; what is not cannot be made.
    assert_eq!(database.create_namespace(&NamespaceConfig::new("shop")).await.unwrap().name, "shop");
    for name in ["bank", "void"] {
        let made = database.create_namespace(&NamespaceConfig::new(name)).await;
        assert!(matches!(made, Err(AdminError::NotGranted(_))), "{made:?}");
    }
    let mine: Vec<_> = database.grants(None).await.unwrap().into_iter().map(|grant| (grant.role, grant.kind)).collect();
    assert_eq!(mine, [(role.name.clone(), GrantKind::Admin)]);
    let mut session = role.session().await;
    let renamed = "UPDATE headwater_private.namespaces SET namespace = 'stolen'";
    assert_eq!(sqlstate_of(&mut session, renamed).await, "42501");
    end(&db, role).await;
}

#[tokio::test]
async fn members_have_what_their_group_has_and_set_role_decides() {
    let db = two().await;
    let (group, member, stranger) = (granted(&db, "shop", GrantKind::Consumer).await, db.role().await, db.role().await);
    let join = format!("GRANT {} TO {}; GRANT {} TO {}", group.name, member.name, stranger.name, member.name);
    run(&mut db.session().await, &join).await;
    let mut session = member.session().await;
    run(&mut session, "SELECT * FROM headwater.read_log('shop')").await;
    run(&mut session, &format!("SET ROLE {}", stranger.name)).await;
    assert_eq!(sqlstate_of(&mut session, "SELECT * FROM headwater.read_log('shop')").await, "42501");
    run(&mut session, &format!("SET ROLE {}", group.name)).await;
    run(&mut session, "SELECT * FROM headwater.read_log('shop')").await;
    run(&mut session, "RESET ROLE").await;
    run(
        &mut db.session().await,
        &format!("ALTER ROLE {} NOINHERIT; REVOKE {1} FROM {0}; GRANT {1} TO {0}", member.name, group.name),
    )
    .await;
    assert_eq!(sqlstate_of(&mut session, "SELECT * FROM headwater.read_log('shop')").await, "42501");
    run(&mut session, &format!("SET ROLE {}", group.name)).await;
    run(&mut session, "SELECT * FROM headwater.read_log('shop')").await;
    drop(session);
    for role in [member, stranger] {
        db.drop_role(role).await;
    }
    end(&db, group).await;
}

/// An application's function that runs as its owner has the owner's grants. It gives its callers no
/// more than it does itself.
#[tokio::test]
async fn a_function_of_the_applications_runs_with_its_owners_grant() {
    let db = two().await;
    let (owner, caller) = (granted(&db, "shop", GrantKind::Producer).await, db.role().await);
    let made = format!(
        "CREATE FUNCTION public.place_order(id uuid) RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
             AS $$ SELECT headwater.emit('shop', 'OrderPlaced', event_id => id) $$;
         ALTER FUNCTION public.place_order OWNER TO {}",
        owner.name
    );
    run(&mut db.session().await, &made).await;
    let mut session = caller.session().await;
    let call = "SELECT public.place_order('018f0000-0000-7000-8000-00000000000b')";
    let first: i64 = sqlx::query_scalar(call).fetch_one(&mut session).await.unwrap();
    let again: i64 = sqlx::query_scalar(call).fetch_one(&mut session).await.unwrap();
    assert_eq!(first, again, "a retry is known, though neither of them can read");
    assert_eq!(sqlstate_of(&mut session, "SELECT headwater.emit('shop', 'A')").await, "42501");
    run(&mut db.session().await, "DROP FUNCTION public.place_order").await;
    end(&db, owner).await;
    db.drop_role(caller).await;
}

#[tokio::test]
async fn a_consumer_notes_poison_and_has_the_inbox() {
    let db = two().await;
    let role = granted(&db, "shop", GrantKind::Consumer).await;
    let database = role.database().await;
    let inbox = PgInbox::new(database.clone(), database.namespace("shop").await.unwrap());
    let owner = headwater_core::Instance::new("node");
    let term = inbox.own(&owner, None, Duration::from_secs(60)).await.unwrap().0.unwrap();
    assert!(inbox.begin(term, None, "1", 1).await.unwrap().0);
    let row = InboxRow { place: (16, 0), global_sequence: Some(1), event: None, error: None };
    assert_eq!(inbox.receive(term, None, std::slice::from_ref(&row)).await.unwrap(), 1);
    assert_eq!(inbox.receive(term, None, &[row]).await.unwrap(), 0);
    let page = inbox.page(None, 0, 10).await.unwrap().rows;
    assert_eq!(page.len(), 1, "and not that of the other namespace");
    assert_eq!(inbox.head(&owner).await.unwrap().head, page[0].inbox_id);
    assert_eq!(inbox.tidy(term, 0, page[0].inbox_id, Duration::ZERO).await.unwrap(), 1);
    assert!(!inbox.evict(term).await.unwrap(), "nobody reads it");
    assert!(!inbox.begin(term, None, "1", 2).await.unwrap().0, "another timeline");
    assert_eq!(database.live_nodes().await.unwrap(), [], "and not those of the other namespace");

    let (note, redeliver) = (
        "SELECT headwater.note_poison('shop', ARRAY[7], ARRAY['bad'])",
        "SELECT headwater.redeliver_poison('shop', 7)",
    );
    db.hand_out("shop", 7).await;
    let mut session = role.session().await;
    let noted: i32 = sqlx::query_scalar(note).fetch_one(&mut session).await.unwrap();
    assert_eq!((noted, database.poison("shop", true, 10).await.unwrap().len()), (1, 1));
    assert_eq!(sqlx::query_scalar::<_, i32>(redeliver).fetch_one(&mut session).await.unwrap(), 0);
    end(&db, role).await;

    let role = granted(&db, "shop", GrantKind::Producer).await;
    let mut session = role.session().await;
    for script in [
        note,
        redeliver,
        "SELECT headwater.cdc_begin('shop', 'slot', 1, '1', 1)",
        "SELECT headwater.cdc_receive('shop', 'slot', 1, NULL, NULL, NULL, NULL, NULL)",
    ] {
        assert_eq!(sqlstate_of(&mut session, script).await, "WH015", "{script}");
    }
    end(&db, role).await;
}

/// A reader that knows a range to be settled must not take an empty answer for gaps.
#[tokio::test]
async fn a_log_is_refused_not_empty_once_the_grant_is_taken_back() {
    let db = two().await;
    let role = granted(&db, "shop", GrantKind::Consumer).await;
    db.database.grant("bank", &role.name, GrantKind::Consumer).await.unwrap();
    emit(&mut db.session().await, "shop", "A").await;
    let log = open(&role, "shop").await;
    assert_eq!(log.log_page(&LogQuery::after(0)).await.unwrap().events.len(), 1);
    assert_eq!(db.database.revoke("shop", &role.name, Some(GrantKind::Consumer)).await.unwrap(), 1);
    assert_eq!(db.database.revoke("shop", &role.name, None).await.unwrap(), 0);
    let read = log.log_page(&LogQuery::after(0)).await;
    assert!(matches!(&read, Err(ReadError::NotGranted(_) | ReadError::NamespaceNotFound(_))), "{read:?}");
    let mut session = role.session().await;
    let page =
        format!("SELECT * FROM headwater.log_page({}, 0, NULL, 10, NULL, NULL, NULL)", namespace_id(&db, "shop").await);
    assert_eq!(sqlstate_of(&mut session, &page).await, "WH001");
    db.database.grant("shop", &role.name, GrantKind::Consumer).await.unwrap();
    assert_eq!(log.log_page(&LogQuery::after(0)).await.unwrap().events.len(), 1);
    log.close().await;
    end(&db, role).await;
}

/// The role holds the lock of its queue and does nothing more: that must not keep the grant alive,
/// or hold up grants of others.
#[tokio::test]
async fn a_claim_that_is_open_holds_up_no_revocation_and_no_grant() {
    let db = two().await;
    let (role, other) = (granted(&db, "shop", GrantKind::Consumer).await, db.role().await);
    // So that its functions can still be called.
    db.database.grant("bank", &role.name, GrantKind::Producer).await.unwrap();
    let mut owner = db.session().await;
    run(&mut owner, "SELECT headwater.register_subscriber('shop', 'work', mode => 'shared')").await;
    run(&mut owner, "SELECT headwater.emit('shop', 'A') FROM generate_series(1, 10)").await;
    let mut session = role.session().await;
    run(&mut session, "BEGIN").await;
    run(&mut session, "SELECT headwater.claim('shop', 'work', 5)").await;

    run(&mut owner, "SET statement_timeout = '10s'").await;
    let revoke = format!("SELECT headwater.revoke_role('shop', '{}')", role.name);
    let revoked: i64 = sqlx::query_scalar(AssertSqlSafe(revoke)).fetch_one(&mut owner).await.unwrap();
    assert_eq!(revoked, 1);
    run(&mut owner, &format!("SELECT headwater.grant_role('bank', '{}', 'producer')", other.name)).await;

    assert_eq!(sqlstate_of(&mut session, "SELECT headwater.claim('shop', 'work', 5)").await, "WH001");
    run(&mut session, "ROLLBACK").await;
    // The queue is as it was: each event is claimed, in order.
    let claim = "SELECT array_agg(global_sequence) FROM headwater.claim('shop', 'work', 20)";
    let claimed: Vec<i64> = sqlx::query_scalar(claim).fetch_one(&mut owner).await.unwrap();
    assert_eq!(claimed, (1..=10).collect::<Vec<_>>());
    end(&db, role).await;
    end(&db, other).await;
}

/// A role could keep its own claims waiting, and read later what it is not granted any more.
#[tokio::test]
async fn a_claim_that_waits_while_its_grant_is_revoked_gets_nothing() {
    let db = two().await;
    let role = granted(&db, "shop", GrantKind::Consumer).await;
    // So that its functions can still be called.
    db.database.grant("bank", &role.name, GrantKind::Producer).await.unwrap();
    let mut owner = db.session().await;
    run(&mut owner, "SELECT headwater.register_subscriber('shop', 'work', mode => 'shared')").await;
    run(&mut owner, "SELECT headwater.emit('shop', 'A') FROM generate_series(1, 10)").await;
    let mut session = role.session().await;
    let waiter = pid(&mut session).await;
    let mut holder = db.session().await;
    run(&mut holder, "BEGIN").await;
    run(&mut holder, "SELECT headwater.claim('shop', 'work', 1)").await;
    let waiting =
        tokio::spawn(async move { sqlstate_of(&mut session, "SELECT headwater.claim('shop', 'work', 20)").await });
    until_it_waits(&mut owner, waiter).await;
    assert_eq!(db.database.revoke("shop", &role.name, None).await.unwrap(), 1);
    run(&mut owner, "SELECT headwater.emit('shop', 'A')").await;
    run(&mut holder, "ROLLBACK").await;
    assert_eq!(waiting.await.unwrap(), "WH001");
    // The queue is as it was.
    let claim = "SELECT array_agg(global_sequence) FROM headwater.claim('shop', 'work', 20)";
    let claimed: Vec<i64> = sqlx::query_scalar(claim).fetch_one(&mut owner).await.unwrap();
    assert_eq!(claimed, (1..=11).collect::<Vec<_>>());
    end(&db, role).await;
}

#[tokio::test]
async fn wrong_roles_and_kinds_are_refused_and_others_grants_are_not_seen() {
    let db = two().await;
    let mut owner = db.session().await;
    for script in [
        "SELECT headwater.grant_role('shop', 'nobody', 'admin')",
        "SELECT headwater.grant_role('shop', NULL, 'admin')",
        "SELECT headwater.grant_role('shop', current_user::text, 'king')",
        "SELECT headwater.grant_role('shop', current_user::text, NULL)",
        "SELECT headwater.revoke_role('shop', 'nobody')",
    ] {
        assert_eq!(sqlstate_of(&mut owner, script).await, "WH002", "{script}");
    }
    assert_eq!(
        sqlstate_of(&mut owner, "SELECT headwater.grant_role('void', current_user::text, 'admin')").await,
        "WH001"
    );
    let (one, other) =
        (granted(&db, "shop", GrantKind::Producer).await, granted(&db, "shop", GrantKind::Consumer).await);
    db.database.grant("shop", &one.name, GrantKind::Producer).await.unwrap();
    let seen: Vec<String> =
        one.database().await.grants(Some("shop")).await.unwrap().into_iter().map(|g| g.role).collect();
    assert_eq!(seen, std::slice::from_ref(&one.name));
    assert_eq!(db.database.grants(Some("shop")).await.unwrap().len(), 2);
    let others = one.database().await.grants(Some("bank")).await;
    assert!(matches!(others, Err(AdminError::NamespaceNotFound(_))), "{others:?}");
    end(&db, one).await;
    end(&db, other).await;
}

/// Any session of a database can LISTEN: what it hears must not name a namespace.
#[tokio::test]
async fn wake_ups_tell_no_names() {
    let db = two().await;
    let role = db.role().await;
    let pool = sqlx::postgres::PgPoolOptions::new().max_connections(1).connect(&role.url).await.unwrap();
    let mut listener = sqlx::postgres::PgListener::connect_with(&pool).await.unwrap();
    listener.listen("headwater.due").await.unwrap();
    run(&mut db.session().await, "SELECT headwater.emit_at('bank', 'Soon', now() + interval '1 minute')").await;
    run(&mut db.session().await, "SELECT headwater.wake_due('bank')").await;
    run(&mut db.session().await, "SELECT headwater.schedule('bank', 'nightly', 'Night', '0 2 * * *')").await;
    for _ in 0..3 {
        assert_eq!(listener.recv().await.unwrap().payload(), namespace_id(&db, "bank").await.to_string());
    }
    drop(listener);
    pool.close().await;
    db.drop_role(role).await;
}
