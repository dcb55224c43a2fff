//! What writes cost at two sizes: pages touched and temporary files, with custom plans and with
//! generic plans. Ten times the events touch about ten times the pages, and nothing is spilled to
//! disk.

use crate::common::months::sessions;
use crate::common::run;
use headwater_testing::TestDatabase;
use sqlx::{AssertSqlSafe, PgConnection, Row};

#[derive(Debug)]
struct Cost {
    pages: u64,
    temporary: u64,
}

/// Runs a statement, and counts what it and all statements of its functions touch.
async fn cost(session: &mut PgConnection, statement: &str) -> Cost {
    let explain = format!("EXPLAIN (ANALYZE, BUFFERS, TIMING off) {statement}");
    let plan = sqlx::query(AssertSqlSafe(explain)).fetch_all(&mut *session).await.expect("failed to explain");
    let line = plan.iter().map(|row| row.get::<String, _>(0)).find(|line| line.contains("Buffers: "));
    let line = line.expect("it touches something");
    // Buffers: shared hit=1 read=2 dirtied=3 written=4, temp read=5 written=6
    let mut cost = Cost { pages: 0, temporary: 0 };
    let mut kind = "";
    for word in line.trim().trim_start_matches("Buffers: ").split([' ', ',']) {
        match word.split_once('=') {
            None if !word.is_empty() => kind = word,
            Some(("hit" | "read", count)) if kind == "shared" => cost.pages += count.parse::<u64>().unwrap(),
            Some((_, count)) if kind == "temp" => cost.temporary += count.parse::<u64>().unwrap(),
            _ => {}
        }
    }
    cost
}

/// `prepare` and `statement` make SQL for a number of events. The SQL runs in new sessions, so that
/// each session makes its own plans.
async fn is_linear(db: &TestDatabase, prepare: impl Fn(u32) -> String, statement: impl Fn(u32) -> String) {
    for mut session in sessions(db).await {
        // Do not measure the plans that sessions make and keep, nor the catalogs that they read for
        // them.
        for _ in 0..2 {
            run(&mut session, &prepare(3)).await;
            run(&mut session, &statement(3)).await;
        }
        let mut costs = Vec::new();
        for events in [300, 3_000] {
            run(&mut session, &prepare(events)).await;
            let measured = cost(&mut session, &statement(events)).await;
            assert_eq!(measured.temporary, 0, "{} spills {measured:?}", statement(events));
            costs.push(measured.pages);
        }
        // A level more of each index, at most; what is quadratic touches a hundred times as much.
        assert!(costs[1] <= costs[0] * 16, "{} touches {costs:?} pages", statement(0));
    }
}

async fn database() -> TestDatabase {
    let db = TestDatabase::create().await;
    let namespaces =
        "SELECT headwater.create_namespace('shop'), headwater.create_namespace('ledger', ordering => 'gapless');
                      CREATE TABLE public.given (streams text[], writes jsonb)";
    run(&mut db.session().await, namespaces).await;
    db
}

/// Writes out of a table, as applications keep them: a large value is compressed there.
fn given(events: u32, one_stream: bool, bytes: u32) -> String {
    let event =
        format!("jsonb_build_object('type', 'event', 'data', repeat(md5(i::text), {bytes} / 32), 'key', i::text)");
    let writes = if one_stream {
        format!("jsonb_build_array(jsonb_build_object('stream_id', gen_random_uuid(), 'events', jsonb_agg({event})))")
    } else {
        format!("jsonb_agg(jsonb_build_object('stream_id', gen_random_uuid(), 'events', {event}))")
    };
    format!(
        "TRUNCATE public.given; INSERT INTO public.given (writes) SELECT {writes} FROM generate_series(1, {events}) i"
    )
}

#[tokio::test]
async fn an_append_of_an_array_is_linear() {
    let db = database().await;
    let append = |_| "SELECT count(*) FROM public.given, headwater.append('shop', writes)".to_owned();
    is_linear(&db, |events| given(events, true, 32), append).await;
    is_linear(&db, |events| given(events, false, 32), append).await;
    let append = |_| "SELECT count(*) FROM public.given, headwater.append('ledger', writes)".to_owned();
    is_linear(&db, |events| given(events, false, 32), append).await;
}

#[tokio::test]
async fn an_append_of_large_events_spills_nothing() {
    let db = database().await;
    for mut session in sessions(&db).await {
        // Ten times the memory that a statement may use for sorts and collected rows.
        run(&mut session, &given(1_000, true, 10_240)).await;
        run(&mut session, "SET work_mem = '1MB'").await;
        let measured = cost(&mut session, "SELECT headwater.append('shop', writes) FROM public.given").await;
        assert_eq!(measured.temporary, 0);
    }
}

#[tokio::test]
async fn emits_in_one_transaction_are_linear() {
    let db = database().await;
    for namespace in ["shop", "ledger"] {
        is_linear(
            &db,
            |_| String::new(),
            |events| format!("SELECT count(headwater.emit('{namespace}', 'event')) FROM generate_series(1, {events})"),
        )
        .await;
    }
}

#[tokio::test]
async fn append_batch_is_linear() {
    let db = database().await;
    let prepare = |events| {
        format!(
            "TRUNCATE public.given; INSERT INTO public.given (streams)
             SELECT array_agg(gen_random_uuid()::text) FROM generate_series(1, {events})"
        )
    };
    for namespace in ["shop", "ledger"] {
        // Each event is a request of its own and has a stream of its own.
        let append = |_| {
            format!(
                "SELECT b.* FROM public.given g
                  CROSS JOIN LATERAL (SELECT array_agg(i::int) AS numbers, array_agg(1) AS ones, array_agg('event'::text) AS types,
                                             array_agg('{{}}'::text) AS data, array_agg(headwater.uuid_v7()) AS ids
                                        FROM generate_series(1, cardinality(g.streams)) i) e
                  CROSS JOIN LATERAL headwater.append_batch('{namespace}', e.numbers, e.ids, e.types, e.data, g.streams, e.numbers,
                       e.ones, NULL, NULL, NULL, NULL, NULL, NULL, NULL, e.numbers, g.streams, e.ones, NULL, false, NULL) b"
            )
        };
        is_linear(&db, prepare, append).await;
    }
}

#[tokio::test]
async fn firing_due_events_is_linear() {
    let db = database().await;
    // They are due at once, but wait: what is due already when it is stored would be appended.
    let prepare = |events| {
        format!(
            "SELECT headwater.emit_at('shop', 'event', now() + interval '1 hour', stream_id => 'stream-' || i % 10, data => to_jsonb(repeat('x', 2000)))
               FROM generate_series(1, {events}) i;
             UPDATE headwater_private.due_events SET due_at = clock_timestamp(), fire_at = clock_timestamp();
             ANALYZE headwater_private.due_events"
        )
    };
    is_linear(&db, prepare, |events| format!("SELECT * FROM headwater.fire_due('shop', max_events => {events})")).await;
}
