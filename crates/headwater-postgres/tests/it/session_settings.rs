//! A session's settings change no answer. Every public function is called under hostile settings.
//! It answers as under plain ones, or fails with a clear error and leaves everything as it was. The
//! calls are the examples of docs/sql.md, which has one for every public function.

use std::fmt::Write as _;

use crate::common::run;
use crate::sql_docs::{blocks, page};
use chrono::{DateTime, TimeDelta, Utc};
use headwater_embedded::Server;
use headwater_postgres::{Database, DatabaseOptions};
use headwater_testing::TestDatabase;
use sqlx::postgres::PgRow;
use sqlx::postgres::types::PgInterval;
use sqlx::{AssertSqlSafe, Column, Connection, Executor, PgConnection, Row, TypeInfo, ValueRef};
use uuid::Uuid;

/// Settings under which every answer is as under plain ones.
const SAME: [&str; 6] = [
    "SET datestyle = 'German, DMY'; SET intervalstyle = 'sql_standard'; SET timezone = 'Asia/Shanghai'; SET lc_time = 'C'; SET lc_numeric = 'C';
     SET lc_monetary = 'C'; SET lc_messages = 'C'",
    "SET datestyle = 'SQL, DMY'; SET intervalstyle = 'iso_8601'; SET timezone = '<-03:07>+03:07'; SET extra_float_digits = -15;
     SET bytea_output = 'escape'; SET row_security = off",
    "SET standard_conforming_strings = off; SET escape_string_warning = off; SET backslash_quote = on; SET array_nulls = off;
     SET transform_null_equals = on; SET quote_all_identifiers = on; SET xmloption = 'document'",
    "SET search_path = ''; SET lock_timeout = '1ms'; SET plan_cache_mode = force_custom_plan; SET datestyle = 'Postgres, MDY';
     SET intervalstyle = 'postgres_verbose'; SET timezone = 'America/St_Johns'",
    "SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off;
     SET enable_mergejoin = off; SET enable_sort = off; SET enable_hashagg = off; SET enable_material = off; SET enable_partition_pruning = off;
     SET plan_cache_mode = force_generic_plan; SET lock_timeout = '1ms'; SET jit = off",
    "SET enable_nestloop = off; SET from_collapse_limit = 1; SET join_collapse_limit = 1; SET jit = on; SET jit_above_cost = 0; SET jit_optimize_above_cost = -1;
     SET jit_inline_above_cost = -1; SET work_mem = '64kB';
     SET enable_incremental_sort = off; SET default_transaction_deferrable = on",
];

/// Settings under which a call may fail instead: with which SQLSTATE.
const MAY_FAIL: [(&str, &[&str]); 4] = [
    ("SET default_transaction_isolation = 'repeatable read'", &["WH006"]),
    ("SET default_transaction_isolation = 'serializable'", &["WH006"]),
    ("SET statement_timeout = '1ms'", &["57014"]),
    ("SET default_transaction_read_only = on", &["25006"]),
];

/// The statements of the page, in their order.
fn statements() -> Vec<String> {
    let page = page();
    let examples = blocks(&page, "sql");
    // However slow this machine is, no claim expires.
    let kept = |text: &str| {
        text.replace("'30 s'", "'50 minutes'")
            .replace("max_events => 1)", "max_events => 1, visibility => '50 minutes')")
    };
    examples.iter().flat_map(|example| example.split(";\n")).map(|text| kept(text.trim_end_matches(';'))).collect()
}

/// A row without what is different each time: ids, moments of this run, how long something takes.
fn shown(row: &PgRow) -> String {
    let mut text = String::new();
    for column in row.columns() {
        let (at, name) = (column.ordinal(), column.name());
        let value = row.try_get_raw(at).unwrap();
        if value.is_null() {
            write!(text, "{name}: null ").unwrap();
            continue;
        }
        let value = match value.type_info().name() {
            "UUID" => {
                row.get::<Uuid, _>(at);
                "an id".to_owned()
            }
            "TIMESTAMPTZ" => {
                let moment: DateTime<Utc> = row.get(at);
                let near = (moment - Utc::now()).abs() < TimeDelta::hours(1);
                if near { "now".into() } else { moment.format("%Y-%m-%d %H:%M").to_string() }
            }
            "INTERVAL" => {
                let interval: PgInterval = row.get(at);
                let seconds = interval.microseconds / 1_000_000;
                format!("{} months {} days {} hours", interval.months, interval.days, seconds / 3600)
            }
            "INT8" => match name {
                "bytes" | "transaction_id" => "a number".into(),
                _ => row.get::<i64, _>(at).to_string(),
            },
            "INT4" => row.get::<i32, _>(at).to_string(),
            "BOOL" => row.get::<bool, _>(at).to_string(),
            "FLOAT8" | "NUMERIC" => "a number".into(),
            "JSONB" => row.get::<serde_json::Value, _>(at).to_string(),
            "TEXT[]" => format!("{:?}", row.get::<Vec<String>, _>(at)),
            "INT8[]" => format!("{:?}", row.get::<Vec<i64>, _>(at)),
            "VOID" => String::new(),
            "TEXT" | "NAME" => match row.get::<String, _>(at) {
                // The schedule that is due three days after this run.
                text if name == "next_due_local" && text.contains('.') => {
                    text.split('T').next().unwrap_or_default().to_owned()
                }
                text => text,
            },
            other => format!("a {other}"),
        };
        write!(text, "{name}: {value} ").unwrap();
    }
    text
}

/// What a statement answers, or the SQLSTATE that it fails with.
async fn answer(session: &mut PgConnection, statement: &str) -> Result<Vec<String>, String> {
    let rows = session.fetch_all(sqlx::query(AssertSqlSafe(statement.to_owned())).persistent(false)).await;
    match rows {
        Ok(rows) => Ok(rows.iter().map(shown).collect()),
        Err(error) => Err(match error.as_database_error() {
            Some(raised) => raised.code().unwrap().into_owned(),
            None => panic!("{statement}: {error}"),
        }),
    }
}

/// All that is stored, as one number.
async fn contents(session: &mut PgConnection) -> String {
    let tables: Vec<String> = sqlx::query_scalar(
        "SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
          WHERE n.nspname LIKE 'headwater%' AND c.relkind = 'r' ORDER BY 1",
    )
    .fetch_all(&mut *session)
    .await
    .unwrap();
    let hashes = tables.iter().map(|table| {
        format!("SELECT '{table}' AS name, md5(string_agg(t::text, '' ORDER BY t::text)) AS hash FROM {table} t")
    });
    let hashes = hashes.collect::<Vec<_>>().join(" UNION ALL ");
    let all = format!("SELECT md5(string_agg(concat(name, hash), ' ' ORDER BY name)) FROM ({hashes}) x");
    sqlx::query_scalar(AssertSqlSafe(all)).fetch_one(session).await.unwrap()
}

/// A session of a new database, copied from one that was migrated.
async fn new_database(server: &Server, name: &str) -> PgConnection {
    let mut session = PgConnection::connect(&server.url("postgres")).await.unwrap();
    run(&mut session, &format!("CREATE DATABASE {name} TEMPLATE headwater")).await;
    PgConnection::connect(&server.url(name)).await.unwrap()
}

/// On a server of its own: a commit that notifies waits for a lock of the whole cluster, and a
/// `lock_timeout` of 1 ms ends that wait where other tests notify too.
#[tokio::test]
async fn every_answer_is_the_same_whatever_a_session_has_set_own_server() {
    let statements = statements();
    assert!(statements.len() > 60, "{}", statements.len());
    let server = Server::builder().start().expect("failed to start a server");
    let template = Database::connect(&server.url("headwater"), DatabaseOptions::default()).await.unwrap();
    template.migrate().await.unwrap();
    template.close().await;
    let mut plain = new_database(&server, "plain").await;
    let mut expected = Vec::new();
    for statement in &statements {
        expected.push(answer(&mut plain, statement).await.unwrap_or_else(|code| panic!("{code}: {statement}")));
    }
    plain.close().await.unwrap();
    for (number, settings) in SAME.into_iter().enumerate() {
        let mut session = new_database(&server, &format!("set_{number}")).await;
        run(&mut session, settings).await;
        for (statement, expected) in statements.iter().zip(&expected) {
            let answer = answer(&mut session, statement).await;
            assert_eq!(answer.as_ref(), Ok(expected), "{settings}: {statement}");
        }
        session.close().await.unwrap();
    }
}

#[tokio::test]
async fn what_a_setting_makes_impossible_fails_clearly_and_changes_nothing() {
    let statements = statements();
    for (settings, codes) in MAY_FAIL {
        let db = TestDatabase::create().await;
        let (mut session, mut plain) = (db.session().await, db.session().await);
        run(&mut session, settings).await;
        for statement in &statements {
            let before = contents(&mut plain).await;
            if let Err(code) = answer(&mut session, statement).await {
                assert!(codes.contains(&code.as_str()), "{settings}: {statement}: {code}");
                assert_eq!(contents(&mut plain).await, before, "{settings}: {statement}");
                // So that what comes next finds what it needs.
                answer(&mut plain, statement).await.unwrap_or_else(|code| panic!("{code}: {statement}"));
            }
        }
        session.close().await.unwrap();
    }
}

/// A time in JSON is what it says, and a bare one is UTC.
#[tokio::test]
async fn times_in_json_are_read_alike_by_every_session() {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    let mut session = db.session().await;
    for settings in SAME {
        run(&mut session, settings).await;
        run(
            &mut session,
            r#"SELECT headwater.append('shop', 's', '[{"type": "A", "created_at": "2026-02-01 10:00:00"}, {"type": "A", "created_at": "2026-02-01T12:00:00+02"}]')"#,
        )
        .await;
    }
    let times: Vec<DateTime<Utc>> = sqlx::query_scalar("SELECT DISTINCT created_at FROM headwater.read_log('shop')")
        .fetch_all(&mut session)
        .await
        .unwrap();
    assert_eq!(times, ["2026-02-01T10:00:00Z".parse::<DateTime<Utc>>().unwrap()]);
}

/// What is kept as JSON, dead letters above all, has its times in UTC.
#[tokio::test]
async fn dead_letters_tell_the_same_times_whoever_made_them() {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    let mut session = db.session().await;
    run(&mut session, "SET timezone = '<-03:07>+03:07'; SET datestyle = 'SQL, DMY'").await;
    run(
        &mut session,
        "SELECT headwater.register_subscriber('shop', 'work', mode => 'shared'); SELECT headwater.emit('shop', 'A');
         SELECT headwater.nack('shop', 'work', c.claim_id, permanent => true) FROM headwater.claim('shop', 'work') c",
    )
    .await;
    let (event, attempts): (serde_json::Value, serde_json::Value) =
        sqlx::query_as("SELECT event, attempts FROM headwater.read_dead_letters('shop', 'work')")
            .fetch_one(&mut session)
            .await
            .unwrap();
    for time in [&event["recorded_at"], &event["created_at"], &attempts[0]["at"]] {
        assert!(time.as_str().unwrap().ends_with("+00:00"), "{event} {attempts}");
    }
}
