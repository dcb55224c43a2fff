//! Calls every function and view of the schema, from the catalog, as roles of one namespace with
//! arguments of another. The answer reveals nothing of the other namespace, and nothing of it
//! changes. A new function is found here by its first argument, or must be added.

use std::collections::BTreeMap;

use crate::common::run;
use headwater_postgres::GrantKind;
use headwater_testing::{TestDatabase, TestRole};
use sqlx::{AssertSqlSafe, PgConnection, Row};

const KINDS: [GrantKind; 3] = [GrantKind::Producer, GrantKind::Consumer, GrantKind::Admin];

/// Functions without a namespace in their first argument, and how to call them with things of the
/// bank. Functions without a call only compute from their arguments and read no table.
const OTHERS: &[(&str, &[&str])] = &[
    ("all_dead_letters", &["headwater.all_dead_letters()", "headwater.all_dead_letters('bank')"]),
    ("all_groups", &["headwater.all_groups()"]),
    ("all_schedules", &["headwater.all_schedules()"]),
    ("append_event_log", &["headwater.append_event_log('bank', 'Secret', '{}', 'vault')"]),
    ("apply_grants", &["headwater.apply_grants()", "headwater.apply_grants(current_user::regrole)"]),
    ("begin_history", &["headwater.begin_history()"]),
    ("cdc_orphans", &["headwater.cdc_orphans('0')"]),
    ("cdc_status", &["headwater.cdc_status()"]),
    ("count_dead_letters", &["headwater.count_dead_letters()"]),
    ("dead_letter_queue_name_for_namespace", &[]),
    ("doctor_namespaces", &["headwater.doctor_namespaces(30)"]),
    ("fire_all_due", &["headwater.fire_all_due()"]),
    ("fire_all_schedules", &["headwater.fire_all_schedules()"]),
    (
        "import_namespace",
        &[
            r#"headwater.import_namespace('{"kind": "namespace", "format": 1, "head": 0, "trimmed_to": 0, "namespace": "bank"}')"#,
        ],
    ),
    ("maintain_shared", &["headwater.maintain_shared()"]),
    ("namespace_status", &["headwater.namespace_status()"]),
    ("next_runs", &[]),
    ("node_statuses", &["headwater.node_statuses()"]),
    ("partition_lags", &["headwater.partition_lags()"]),
    ("partition_of", &[]),
    ("purge_dropped", &["headwater.purge_dropped()"]),
    ("queue_lags", &["headwater.queue_lags()"]),
    ("queue_name_for_namespace", &[]),
    ("readable_namespaces", &["headwater.readable_namespaces()"]),
    ("require_history", &["headwater.require_history(NULL)"]),
    ("run_scheduled_task", &["headwater.run_scheduled_task('{task}')"]),
    ("subscriber_lags", &["headwater.subscriber_lags()"]),
    ("touch_node_heartbeat", &["headwater.touch_node_heartbeat('vault')"]),
    ("uuid_v7", &[]),
];

const BY_NAMESPACE: [&str; 3] = ["namespace", "namespace_id", "only_namespace"];

/// A database with `shop`, and `bank`, which has a bit of everything and is nobody's.
async fn two() -> TestDatabase {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    db.log("bank").await;
    let fill = "
        SELECT headwater.append('bank', 'secret-1', '[{\"type\": \"Secret\", \"key\": \"k\"}, {\"type\": \"Secret\"}]');
        SELECT headwater.emit('bank', 'Secret', '\"hush\"', event_id => '018f0000-0000-7000-8000-000000000001') FROM generate_series(1, 1);
        SELECT headwater.emit('bank', 'Secret', '\"hush\"') FROM generate_series(1, 7);
        SELECT headwater.emit_at('bank', 'Secret', now() + interval '1 day', event_id => '018f0000-0000-7000-8000-000000000003');
        UPDATE headwater_private.due_events SET fire_at = now() - interval '1 s';
        SELECT headwater.register_subscriber('bank', 'queue', mode => 'shared');
        SELECT headwater.register_subscriber('bank', 'group', mode => 'partitioned', partitions => 2);
        SELECT headwater.claim('bank', 'queue', 1);
        SELECT headwater.claim('bank', 'queue', 1);
        SELECT headwater.claim('bank', 'queue', 2);
        SELECT headwater.nack('bank', 'queue', claim_id, permanent => true) FROM headwater_private.claims WHERE NOT done ORDER BY number LIMIT 1;
        SELECT headwater.nack('bank', 'queue', claim_id) FROM headwater_private.claims WHERE NOT done ORDER BY number LIMIT 1;
        SELECT headwater.put_state((headwater_private.namespace_row('bank')).namespace_id, 'group', 'secret', '\"hush\"');
        SELECT headwater.register_node('bank', 'vault', event_types => ARRAY['Secret']);
        SELECT headwater.schedule('bank', 'nightly', 'Secret', '0 2 * * *', payload => '\"hush\"');
        SELECT headwater.run_schedule_now('bank', 'nightly');
        SELECT setval(n.sequence, 902) FROM headwater_private.namespaces n WHERE n.namespace = 'bank';
        SELECT headwater.note_poison('bank', ARRAY[902], ARRAY['Secret']);
        SELECT headwater.cdc_own('bank', 'headwater_n' || (headwater_private.namespace_row('bank')).namespace_id || '_d1', 'node', '018f0000-0000-7000-8000-000000000004', NULL, 60000);
        SELECT headwater.cdc_begin('bank', 'headwater_n' || (headwater_private.namespace_row('bank')).namespace_id || '_d1', term, '1', 1) FROM headwater_private.cdc_slots;
        SELECT headwater.cdc_receive('bank', 'headwater_n' || (headwater_private.namespace_row('bank')).namespace_id || '_d1', term, ARRAY['0/1'::pg_lsn], ARRAY[0], ARRAY[1], ARRAY['{\"type\": \"Secret\"}'], ARRAY[NULL]) FROM headwater_private.cdc_slots";
    run(&mut db.session().await, fill).await;
    db
}

async fn granted(db: &TestDatabase, kind: GrantKind) -> TestRole {
    let role = db.role().await;
    db.database.grant("shop", &role.name, kind).await.unwrap();
    role
}

async fn end(db: &TestDatabase, role: TestRole) {
    db.database.revoke("shop", &role.name, None).await.unwrap();
    db.drop_role(role).await;
}

/// All rows of the bank's, in every table that has a namespace, and those of its schedules' runs.
async fn bank_of(owner: &mut PgConnection, bank: i32) -> BTreeMap<String, String> {
    let tables: Vec<String> = sqlx::query_scalar(
        "SELECT c.relname::text FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'namespace_id'
          WHERE c.relnamespace = 'headwater_private'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition",
    )
    .fetch_all(&mut *owner)
    .await
    .unwrap();
    let mut all = BTreeMap::new();
    for table in tables {
        let rows = format!(
            "SELECT coalesce(string_agg(t::text, E'\\n' ORDER BY t::text), '') FROM headwater_private.{table} t WHERE namespace_id = {bank}"
        );
        all.insert(table, sqlx::query_scalar(AssertSqlSafe(rows)).fetch_one(&mut *owner).await.unwrap());
    }
    let runs =
        "SELECT coalesce(string_agg(r::text, E'\\n' ORDER BY r::text), '') FROM headwater_private.schedule_runs r";
    all.insert("schedule_runs".into(), sqlx::query_scalar(runs).fetch_one(owner).await.unwrap());
    all
}

/// What a call answers, or how it fails; what it did stays.
async fn answer(session: &mut PgConnection, call: &str) -> String {
    let query = format!("SELECT to_jsonb(r)::text FROM {call} r");
    match sqlx::query_scalar::<_, Option<String>>(AssertSqlSafe(query)).fetch_all(session).await {
        Ok(rows) => rows.into_iter().flatten().collect::<Vec<_>>().join("\n"),
        Err(error) => {
            let error = error.as_database_error().unwrap_or_else(|| panic!("{call}: {error}"));
            format!("{}: {}", error.code().unwrap_or_default(), error.message())
        }
    }
}

/// What is given in the call is no secret.
fn tells(answer: &str) -> bool {
    ["hush", "secret-1", "nightly", "\"vault\"", "\"bank\""].iter().any(|secret| answer.contains(secret))
}

#[tokio::test]
async fn every_function_of_the_catalog_is_known_here() {
    let db = TestDatabase::create().await;
    let functions = sqlx::query(
        "SELECT DISTINCT p.proname::text, CASE WHEN p.pronargs > 0 THEN p.proargnames[1] ELSE '' END FROM pg_proc p WHERE p.pronamespace = 'headwater'::regnamespace ORDER BY 1",
    )
    .fetch_all(db.database.pool())
    .await
    .unwrap();
    let mut others: Vec<String> = Vec::new();
    for function in &functions {
        let (name, first): (String, String) = (function.get(0), function.get(1));
        if !BY_NAMESPACE.contains(&first.as_str()) {
            others.push(name);
        }
    }
    let known: Vec<&str> = OTHERS.iter().map(|(name, _)| *name).collect();
    assert_eq!(others, known, "say how a function is called with what is another's: see OTHERS");
    // The functions of the newest tables are among those that are called by their namespace.
    for name in [
        "note_poison",
        "redeliver_poison",
        "cdc_begin",
        "cdc_receive",
        "cdc_tidy",
        "cdc_own",
        "cdc_report",
        "reset_on_poison",
    ] {
        assert!(functions.iter().any(|function| function.get::<&str, _>(0) == name), "{name}");
    }
}

#[tokio::test]
async fn no_function_tells_or_changes_what_is_anothers() {
    let db = two().await;
    let mut owner = db.session().await;
    let bank = db.database.namespace("bank").await.unwrap().id;
    let task: String = sqlx::query_scalar("SELECT task_id::text FROM headwater_private.schedules")
        .fetch_one(&mut owner)
        .await
        .unwrap();
    let before = bank_of(&mut owner, bank).await;
    assert!(before.values().filter(|rows| !rows.is_empty()).count() > 12, "{before:?}");
    for kind in KINDS {
        let role = granted(&db, kind).await;
        let mut session = role.session().await;
        for call in OTHERS.iter().flat_map(|(_, calls)| *calls) {
            let call = call.replace("{task}", &task);
            let answered = answer(&mut session, &call).await;
            assert!(!tells(&answered), "{kind}: {call}: {answered}");
            assert_eq!(bank_of(&mut owner, bank).await, before, "{kind}: {call}: {answered}");
        }
        end(&db, role).await;
    }
}

#[tokio::test]
async fn no_view_shows_what_is_anothers() {
    let db = two().await;
    let views: Vec<String> = sqlx::query_scalar(
        "SELECT c.relname::text FROM pg_class c WHERE c.relnamespace = 'headwater'::regnamespace AND c.relkind IN ('v', 'm') ORDER BY 1",
    )
    .fetch_all(db.database.pool())
    .await
    .unwrap();
    assert!(views.len() >= 4, "{views:?}");
    let of_bank =
        |view: &str| format!("SELECT count(*) FROM headwater.{view} v WHERE to_jsonb(v) ->> 'namespace' = 'bank'");
    let mut owner = db.session().await;
    for view in &views {
        let there: i64 = sqlx::query_scalar(AssertSqlSafe(of_bank(view))).fetch_one(&mut owner).await.unwrap();
        assert!(there > 0, "the bank has nothing in {view}: nothing is tried");
    }
    for kind in KINDS {
        let role = granted(&db, kind).await;
        let mut session = role.session().await;
        for view in &views {
            match sqlx::query_scalar::<_, i64>(AssertSqlSafe(of_bank(view))).fetch_one(&mut session).await {
                Ok(rows) => assert_eq!(rows, 0, "{kind}: {view}"),
                // What a producer may not look at at all.
                Err(error) => {
                    let code =
                        error.as_database_error().and_then(|error| error.code()).unwrap_or_default().into_owned();
                    assert_eq!(code, "42501", "{kind}: {view}: {error}");
                }
            }
        }
        end(&db, role).await;
    }
}
