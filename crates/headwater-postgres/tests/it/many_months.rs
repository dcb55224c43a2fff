//! Reads over many months. They open one month after the other, so that their locks do not grow
//! with the number of months. They find what a plain query over all tables finds, and read in one
//! snapshot.

use crate::common::months::seal;
use crate::common::{emit, pid, raw, run, until_it_waits};
use headwater_core::{EventLog, LogQuery, NamespaceConfig, RecordedEvent, Storage};
use headwater_postgres::{LogOptions, PgLog};
use headwater_testing::TestDatabase;
use sqlx::{AssertSqlSafe, PgConnection, Row};

/// A log with `months` sealed past months of ten events each, and ten events in this month. The
/// past months are detached from the current ones. Each month has one event of a unique type, one
/// of a correlation that runs through all months, one that was caused by an event of the month
/// before, and one that is too large for its row. All are in one stream.
async fn months(months: u32, storage: Storage) -> (TestDatabase, PgLog) {
    let db = TestDatabase::create().await;
    let log = db.log_with(NamespaceConfig::new("shop").storage(storage), LogOptions::default()).await;
    db.past_months("shop", months, 10).await;
    let mut session = db.session().await;
    for _ in 0..10 {
        emit(&mut session, "shop", "now").await;
    }
    run(
        &mut session,
        "DO $$ DECLARE ns headwater_private.namespaces := headwater_private.namespace_row('shop'); BEGIN
             EXECUTE format(
                 'UPDATE headwater_private.%I SET stream_id = ''long'', stream_version = global_sequence, event_id = md5(global_sequence::text)::uuid,
                         event_type = CASE global_sequence %% 10 WHEN 3 THEN ''rare-'' || global_sequence ELSE event_type END,
                         correlation_id = CASE global_sequence %% 10 WHEN 4 THEN md5(''all'')::uuid END,
                         causation_id = CASE global_sequence %% 10 WHEN 5 THEN md5((global_sequence - 10)::text)::uuid END,
                         data = CASE global_sequence %% 10 WHEN 6 THEN to_jsonb((SELECT string_agg(md5(i::text), '''') FROM generate_series(1, 300) i)) ELSE data END',
                 headwater_private.log_table(ns));
             INSERT INTO headwater_private.streams (namespace_id, stream_id, version, first_at, last_at)
             SELECT ns.namespace_id, 'long', max(e.global_sequence), min(e.recorded_at), max(e.recorded_at) FROM headwater_private.events_in(ns.namespace_id, 1, NULL) e;
         END $$",
    )
    .await;
    assert_eq!(seal(&mut session, "shop").await, months as i32);
    if storage == Storage::Shared {
        db.database.maintain("shop", false).await.unwrap();
    }
    (db, log)
}

/// All that reads a log, over all of its months: with what it must find in a log of so many.
fn reads(months: u32) -> Vec<(&'static str, i64)> {
    let (all, each) = (i64::from(months + 1) * 10, i64::from(months) + 1);
    vec![
        ("SELECT global_sequence FROM headwater.log_page(1, 0, NULL, 100000, NULL, NULL, NULL)", all),
        ("SELECT global_sequence FROM headwater.log_page(1, 0, NULL, 100000, NULL, 'long', NULL)", all),
        ("SELECT global_sequence FROM headwater.log_page(1, 0, NULL, 100000, NULL, NULL, 'lo')", all),
        ("SELECT global_sequence FROM headwater.log_page(1, 0, NULL, 10, ARRAY['rare-3'], NULL, NULL)", 1),
        ("SELECT global_sequence FROM headwater.log_page_back(1, 100000, NULL, 10, ARRAY['rare-3'], NULL, NULL)", 1),
        ("SELECT global_sequence FROM headwater.read_log('shop', 0, 10, ARRAY['rare-3'])", 1),
        ("SELECT global_sequence FROM headwater.read_log('shop', 0, 10000, NULL, 'lo')", all.min(10_000)),
        ("SELECT global_sequence FROM headwater_private.events_in(1, 1, NULL)", all),
        ("SELECT global_sequence FROM headwater_private.events_in(1, 1, NULL, ARRAY['rare-3'], 10)", 1),
        (
            "SELECT global_sequence FROM headwater_private.events_at(1, ARRAY(SELECT g::bigint FROM generate_series(1, 100000, 10) g))",
            each,
        ),
        ("SELECT global_sequence FROM headwater_private.visible_in(1, ARRAY[1, 2, 11, 100000], 100000)", all - 8),
        (
            "SELECT global_sequence FROM headwater.gap_events(1, ARRAY[1, 5, 11], ARRAY[2, 6, 100000], 100000, NULL, NULL)",
            all - 6,
        ),
        ("SELECT global_sequence FROM headwater.find_events(1, ARRAY[md5('1')::uuid])", 1),
        ("SELECT global_sequence FROM headwater.find_events(1, ARRAY[md5('1')::uuid, md5('21')::uuid])", 2),
        ("SELECT global_sequence FROM headwater_private.stored_events(1, ARRAY[md5('1')::uuid])", 1),
        ("SELECT global_sequence FROM headwater.correlation_page(1, md5('all')::uuid, 0, 100000)", each),
        ("SELECT global_sequence FROM headwater.causation_chain(1, md5('15')::uuid, 100000)", each),
        ("SELECT global_sequence FROM headwater.read_stream('shop', 'long', 2, 11)", 10),
        ("SELECT global_sequence FROM headwater.read_stream('shop', 'long', 1, NULL, 10000)", all.min(10_000)),
        ("SELECT global_sequence FROM headwater.read_stream('shop', 'long', NULL, NULL, 10000, true)", all.min(10_000)),
        ("SELECT global_sequence FROM headwater.stream_page(1, 'long', NULL, NULL, 100000)", all),
        ("SELECT global_sequence FROM headwater.stream_page_back(1, 'long', NULL, NULL, 100000)", all),
        ("SELECT headwater.position_at('shop', '2000-01-01')", 1),
        ("SELECT transaction_id FROM headwater.long_transactions(1, 0, 100000, 0, 5, 100000, NULL, NULL)", each),
        (
            "SELECT headwater_private.bundle_end(n, ARRAY[1], ARRAY['long'], ARRAY[1]) FROM headwater_private.namespaces n",
            1,
        ),
        ("SELECT events FROM headwater.import_checksum(1, 'none', 0, 100000)", 1),
        ("SELECT * FROM headwater_private.count_events(1, ARRAY[1, 100000])", 1),
        ("SELECT * FROM headwater.subscriber_lag", 1),
        ("SELECT * FROM headwater.queue_metrics", 0),
        ("SELECT * FROM headwater.namespace_status()", 1),
    ]
}

async fn count(session: &mut PgConnection, query: &str) -> i64 {
    let query = format!("SELECT count(*) FROM ({query}) q");
    sqlx::query_scalar(AssertSqlSafe(query.clone()))
        .fetch_one(session)
        .await
        .unwrap_or_else(|error| panic!("{query}: {error}"))
}

/// How many locks a transaction has after it has asked.
async fn locks(db: &TestDatabase, query: &str, rows: i64) -> i64 {
    let mut session = db.session().await;
    run(&mut session, "BEGIN").await;
    assert_eq!(count(&mut session, query).await, rows, "{query}");
    count(&mut session, "SELECT FROM pg_locks WHERE pid = pg_backend_pid()").await
}

#[tokio::test]
async fn no_read_has_more_locks_with_60_months_than_with_2() {
    for storage in [Storage::Shared, Storage::Own] {
        let [(few, _log), (many, _other)] = [months(2, storage).await, months(60, storage).await];
        for db in [&few, &many] {
            run(&mut db.session().await, "SELECT headwater.register_subscriber('shop', 'reader')").await;
        }
        for ((query, of_few), (_, of_many)) in reads(2).into_iter().zip(reads(60)) {
            let [of_few, of_many] = [locks(&few, query, of_few).await, locks(&many, query, of_many).await];
            assert!(of_many <= of_few, "{storage:?}: {of_few} locks with 2 months, {of_many} with 60: {query}");
            // Reads that ask for the horizon, or about all namespaces, also look at the end of the
            // log or at the subscribers' tables.
            let also = ["read_log", "position_at", "bundle_end", "subscriber_lag", "queue_metrics", "namespace_status"];
            let most = if also.iter().any(|name| query.contains(name)) { 60 } else { 30 };
            assert!(of_many <= most, "{storage:?}: {of_many} locks: {query}");
        }
    }
}

/// The rows of a query, as text.
async fn rows(session: &mut PgConnection, query: &str) -> Vec<String> {
    let query = format!("SELECT q::text FROM ({query}) q");
    let rows = sqlx::query(AssertSqlSafe(query.clone())).fetch_all(session).await;
    rows.unwrap_or_else(|error| panic!("{query}: {error}")).iter().map(|row| row.get(0)).collect()
}

/// Months whose sequences overlap, as when writers take their sequences in another order than their
/// times.
#[tokio::test]
async fn reads_over_ragged_months_answer_what_a_plain_query_does() {
    for storage in [Storage::Shared, Storage::Own] {
        let db = TestDatabase::create().await;
        let log = db.log_with(NamespaceConfig::new("shop").storage(storage), LogOptions::default()).await;
        for number in 0..60 {
            let mut event = raw(if number % 7 == 3 { "rare" } else { "event" });
            event.id = uuid::Uuid::from_u128(number + 1);
            event.stream_id = (number % 2 == 0).then(|| format!("stream-{}", number % 3).into());
            event.correlation_id = Some(uuid::Uuid::from_u128(number % 5));
            event.causation_id = (number > 4).then(|| uuid::Uuid::from_u128(number / 2));
            log.append(event.into()).await.unwrap();
        }
        let mut session = db.session().await;
        let table: String =
            sqlx::query_scalar("SELECT headwater_private.log_table(n) FROM headwater_private.namespaces n")
                .fetch_one(&mut session)
                .await
                .unwrap();
        for (at, (first, last)) in
            [(1, 9), (8, 14), (13, 13), (11, 22), (21, 21), (24, 40), (39, 45), (30, 30)].into_iter().enumerate()
        {
            let months_ago = 9 - at;
            run(
                &mut session,
                &format!(
                    "DO $$ DECLARE at timestamptz := (date_trunc('month', now() AT TIME ZONE 'UTC') - {months_ago} * interval '1 month') AT TIME ZONE 'UTC';
                     BEGIN
                         PERFORM headwater_private.create_leaf(1, at);
                         UPDATE headwater_private.namespaces n SET tail_from = least(n.tail_from, at);
                         UPDATE headwater_private.{table} SET recorded_at = at + global_sequence * interval '1 minute' WHERE global_sequence BETWEEN {first} AND {last};
                         UPDATE headwater_private.streams s SET first_at = least(s.first_at, at);
                     END $$"
                ),
            )
            .await;
        }
        run(&mut session, &format!("DELETE FROM headwater_private.{table} WHERE global_sequence IN (5, 23, 33)")).await;
        // All events, before months are sealed.
        run(&mut session, &format!("CREATE TABLE public.plain AS SELECT * FROM headwater_private.{table}")).await;
        assert!(seal(&mut session, "shop").await >= 8);
        let event = "e.global_sequence, e.event_id, e.stream_id, e.stream_version, e.event_type, e.data, e.correlation_id, e.causation_id, e.recorded_at, e.transaction_id";
        let mut compared = 0;
        for size in [1, 3, 8, 100] {
            for after in [0, 7, 12, 20, 22, 31, 50, 60, 70] {
                for (read, plain) in [
                    (
                        format!("headwater.log_page(1, {after}, NULL, {size}, NULL, NULL, NULL) e"),
                        format!("public.plain e WHERE global_sequence > {after} ORDER BY global_sequence LIMIT {size}"),
                    ),
                    (
                        format!("headwater.log_page(1, {after}, 40, {size}, ARRAY['rare'], NULL, NULL) e"),
                        format!(
                            "public.plain e WHERE global_sequence > {after} AND global_sequence <= 40 AND event_type = 'rare' ORDER BY global_sequence LIMIT {size}"
                        ),
                    ),
                    (
                        format!("headwater.log_page(1, {after}, NULL, {size}, NULL, 'stream-1', NULL) e"),
                        format!(
                            "public.plain e WHERE global_sequence > {after} AND stream_id = 'stream-1' ORDER BY global_sequence LIMIT {size}"
                        ),
                    ),
                    (
                        format!("headwater.log_page(1, {after}, NULL, {size}, NULL, NULL, 'stream-') e"),
                        format!(
                            "public.plain e WHERE global_sequence > {after} AND stream_id IS NOT NULL ORDER BY global_sequence LIMIT {size}"
                        ),
                    ),
                    (
                        format!("headwater.log_page_back(1, {after}, 2, {size}, NULL, NULL, NULL) e"),
                        format!(
                            "public.plain e WHERE global_sequence < {after} AND global_sequence >= 2 ORDER BY global_sequence DESC LIMIT {size}"
                        ),
                    ),
                    (
                        format!("headwater.log_page_back(1, {after}, NULL, {size}, ARRAY['rare'], NULL, NULL) e"),
                        format!(
                            "public.plain e WHERE global_sequence < {after} AND event_type = 'rare' ORDER BY global_sequence DESC LIMIT {size}"
                        ),
                    ),
                    (
                        format!("headwater_private.events_in(1, {after}, NULL, NULL, {size}) e"),
                        format!(
                            "public.plain e WHERE global_sequence >= {after} ORDER BY global_sequence LIMIT {size}"
                        ),
                    ),
                    (
                        format!("headwater_private.events_in(1, {after}, 44, ARRAY['rare'], {size}) e"),
                        format!(
                            "public.plain e WHERE global_sequence BETWEEN {after} AND 44 AND event_type = 'rare' ORDER BY global_sequence LIMIT {size}"
                        ),
                    ),
                    (
                        format!("headwater_private.events_at(1, ARRAY[{after}, 3, 55, 5, {size}]) e"),
                        format!(
                            "public.plain e WHERE global_sequence IN ({after}, 3, 55, {size}) ORDER BY global_sequence"
                        ),
                    ),
                    (
                        format!(
                            "headwater_private.visible_in(1, ARRAY[{after}, {after} + 2, {after} + 9, {after} + 11], {size}) e"
                        ),
                        format!(
                            "public.plain e WHERE global_sequence - {after} IN (0, 1, 2, 9, 10, 11) ORDER BY global_sequence LIMIT {size}"
                        ),
                    ),
                    (
                        format!(
                            "headwater.gap_events(1, ARRAY[{after} + 1, {after} + 9], ARRAY[{after} + 2, {after} + 11], {size}, NULL, NULL) e"
                        ),
                        format!(
                            "public.plain e WHERE global_sequence - {after} IN (1, 2, 9, 10, 11) ORDER BY global_sequence LIMIT {size}"
                        ),
                    ),
                    (
                        format!(
                            "headwater.correlation_page(1, '00000000-0000-0000-0000-000000000002', {after}, {size}) e"
                        ),
                        format!(
                            "public.plain e WHERE correlation_id = '00000000-0000-0000-0000-000000000002' AND global_sequence > {after} ORDER BY global_sequence LIMIT {size}"
                        ),
                    ),
                    (
                        format!("headwater.stream_page(1, 'stream-2', {after}, NULL, {size}) e"),
                        format!(
                            "public.plain e WHERE stream_id = 'stream-2' AND stream_version >= {after} ORDER BY stream_version LIMIT {size}"
                        ),
                    ),
                    (
                        format!("headwater.stream_page_back(1, 'stream-0', NULL, {after}, {size}) e"),
                        format!(
                            "public.plain e WHERE stream_id = 'stream-0' AND stream_version <= {after} ORDER BY stream_version DESC LIMIT {size}"
                        ),
                    ),
                ] {
                    let (got, expected) = (
                        rows(&mut session, &format!("SELECT {event} FROM {read}")).await,
                        rows(&mut session, &format!("SELECT {event} FROM {plain}")).await,
                    );
                    assert_eq!(got, expected, "{storage:?}: {read}");
                    compared += got.len();
                }
            }
        }
        assert!(compared > 1_000, "{compared} rows");
        // Causes and effects of an event: all events on the way up from it and down from it.
        for id in [1, 5, 20, 45, 60] {
            let id = uuid::Uuid::from_u128(id);
            let plain = format!(
                "SELECT {event} FROM public.plain e WHERE e.event_id IN (
                     WITH RECURSIVE up AS (SELECT event_id, causation_id FROM public.plain WHERE event_id = '{id}'
                                            UNION SELECT p.event_id, p.causation_id FROM up JOIN public.plain p ON p.event_id = up.causation_id),
                          down AS (SELECT '{id}'::uuid AS event_id UNION SELECT p.event_id FROM down JOIN public.plain p ON p.causation_id = down.event_id)
                     SELECT event_id FROM up UNION SELECT event_id FROM down) ORDER BY global_sequence"
            );
            let chain = format!("SELECT {event} FROM headwater.causation_chain(1, '{id}', 1000) e");
            assert_eq!(rows(&mut session, &chain).await, rows(&mut session, &plain).await, "{storage:?}: {id}");
        }
    }
}

#[tokio::test]
async fn a_rare_type_behind_60_months_is_found() {
    let (_db, log) = months(60, Storage::Shared).await;
    let rare = |number: u32, query: LogQuery| query.event_types([format!("rare-{number}")]).page_size(1);
    for (number, query) in [
        (3, LogQuery::after(0)),
        (303, LogQuery::after(0)),
        (603, LogQuery::after(0)),
        (3, LogQuery::after(0).backwards()),
    ] {
        let page = log.log_page(&rare(number, query)).await.unwrap();
        let found: Vec<Option<u64>> = page.events.iter().map(|event: &RecordedEvent| event.global_sequence).collect();
        assert_eq!(found, [Some(u64::from(number))]);
    }
}

/// Pages that a statement touches, with all statements of its functions.
async fn pages(session: &mut PgConnection, statement: &str) -> u64 {
    let explain = format!("EXPLAIN (ANALYZE, BUFFERS, TIMING off) {statement}");
    let plan = sqlx::query(AssertSqlSafe(explain)).fetch_all(session).await.unwrap();
    let lines: Vec<String> = plan.iter().map(|row| row.get(0)).collect();
    let line = lines.iter().find(|line| line.contains("Buffers: ")).expect("it touches something");
    let number = |word: &str| {
        word.split_once('=')
            .filter(|(kind, _)| ["hit", "read"].contains(kind))
            .map(|(_, count)| count.parse::<u64>().unwrap())
    };
    line.split(' ').filter_map(number).sum()
}

/// This also holds for a process that does not yet know the months: it opened the log before they
/// were sealed.
#[tokio::test]
async fn the_tail_of_60_months_costs_what_that_of_2_does() {
    let mut costs = Vec::new();
    for count in [2, 60] {
        let (db, _log) = months(count, Storage::Shared).await;
        let mut session = db.session().await;
        let end = count * 10 + 5;
        let tail = format!("SELECT * FROM headwater.log_page(1, {end}, NULL, 5, NULL, NULL, NULL)");
        // The catalogs that a session reads first are not what is measured.
        for _ in 0..3 {
            pages(&mut session, &tail).await;
        }
        costs.push(pages(&mut session, &tail).await);
    }
    assert!(costs[1] <= costs[0] + 2, "{costs:?} pages");
}

#[tokio::test]
async fn all_months_are_read_in_one_snapshot() {
    let (db, _log) = months(3, Storage::Shared).await;
    let (mut gate, mut reader, mut writer) = (db.session().await, db.session().await, db.session().await);
    run(&mut gate, "SELECT pg_advisory_lock(1)").await;
    let reading_pid = pid(&mut reader).await;
    let reading = tokio::spawn(async move {
        // Waits in the first month.
        let read = "SELECT count(*) FROM headwater_private.by_month(NULL::bigint,
                        'SELECT e.global_sequence FROM %s e
                          WHERE %s AND e.namespace_id = $1 AND (SELECT true FROM pg_advisory_lock(1), pg_advisory_unlock(1))', 1)";
        sqlx::query_scalar::<_, i64>(read).fetch_one(&mut reader).await.unwrap()
    });
    until_it_waits(&mut writer, reading_pid).await;
    emit(&mut writer, "shop", "meanwhile").await;
    run(&mut gate, "SELECT pg_advisory_unlock(1)").await;
    assert_eq!(reading.await.unwrap(), 40);
    assert_eq!(count(&mut writer, "SELECT FROM headwater_private.events_in(1, 1, NULL)").await, 41);
}

/// A month is let go when it was read, so it may be dropped before its rows are sent.
#[tokio::test]
async fn what_was_read_of_a_month_stays_whole_when_the_month_goes() {
    let (db, _log) = months(6, Storage::Shared).await;
    let (mut reader, mut other) = (db.session().await, db.session().await);
    run(
        &mut reader,
        "BEGIN; DECLARE page CURSOR FOR SELECT length(data::text)::bigint FROM headwater.log_page(1, 0, NULL, 1000, NULL, NULL, NULL)",
    )
    .await;
    run(&mut reader, "MOVE 1 FROM page").await;
    let oldest: String = sqlx::query_scalar("SELECT leaf FROM headwater_private.months ORDER BY starts_at LIMIT 1")
        .fetch_one(&mut other)
        .await
        .unwrap();
    run(&mut other, &format!("SET lock_timeout = '5s'; DROP TABLE headwater_private.{oldest}")).await;
    let lengths: Vec<i64> = sqlx::query_scalar("FETCH ALL FROM page").fetch_all(&mut reader).await.unwrap();
    assert_eq!((lengths.len(), lengths.iter().filter(|length| **length > 9_000).count()), (69, 7));
}

/// `count` namespaces, each with an event, a subscriber, a queue and a schedule. Every fourth has
/// its own tables.
async fn namespaces(count: u32) -> TestDatabase {
    let db = TestDatabase::create().await;
    let mut session = db.session().await;
    for number in 0..count {
        let (name, storage) = (format!("tenant-{number}"), if number % 4 == 0 { "own" } else { "shared" });
        run(
            &mut session,
            &format!(
                "SELECT headwater.create_namespace('{name}', storage => '{storage}');
                 SELECT headwater.emit('{name}', 'event') FROM generate_series(1, 3);
                 SELECT headwater.register_subscriber('{name}', 'reader'), headwater.register_subscriber('{name}', 'work', mode => 'shared');
                 SELECT headwater.claim('{name}', 'work', 1);
                 SELECT headwater.schedule('{name}', 'nightly', 'night', '0 3 * * *')"
            ),
        )
        .await;
    }
    db
}

#[tokio::test]
async fn what_tells_about_all_namespaces_has_no_more_locks_for_many() {
    let (few, many) = (namespaces(4).await, namespaces(80).await);
    for (query, per_namespace) in [
        ("SELECT * FROM headwater.namespace_status()", 1),
        ("SELECT * FROM headwater.subscriber_lag", 2),
        ("SELECT * FROM headwater.queue_metrics", 1),
        ("SELECT * FROM headwater.partition_lag", 0),
        ("SELECT * FROM headwater.node_status", 0),
        ("SELECT * FROM headwater.doctor_namespaces(7)", 1),
    ] {
        let of_few = locks(&few, query, 4 * per_namespace).await;
        let of_many = locks(&many, query, 80 * per_namespace).await;
        assert!(of_many <= of_few, "{of_few} locks for 4 namespaces, {of_many} for 80: {query}");
    }
    let lags = "SELECT namespace, subscriber_id, lag_events FROM headwater.subscriber_lag WHERE lag_events = CASE subscriber_id WHEN 'work' THEN 2 ELSE 3 END AND lag_seconds > 0";
    assert_eq!(count(&mut many.session().await, lags).await, 160);
}

/// The lag of those that are behind in past months, at the end, and beyond all that is left.
#[tokio::test]
async fn lags_of_all_namespaces_are_those_of_each() {
    for storage in [Storage::Shared, Storage::Own] {
        let (db, _log) = months(4, storage).await;
        let mut session = db.session().await;
        for position in [0, 7, 10, 33, 39, 40, 44, 50] {
            run(
                &mut session,
                &format!(
                    "SELECT headwater.register_subscriber('shop', 'at-{position}'), headwater.register_subscriber('shop', 'work-{position}', mode => 'shared');
                     SELECT headwater.register_subscriber('shop', 'group-{position}', mode => 'partitioned', partitions => 2);
                     SELECT headwater.reset_subscriber('shop', s || '-{position}', {position}) FROM unnest(ARRAY['at', 'work', 'group']) s;
                     SELECT headwater.claim('shop', 'work-{position}', 2)"
                ),
            )
            .await;
        }
        let all = rows(
            &mut session,
            "SELECT subscriber_id, position, lag_events, round(lag_seconds / 600) FROM headwater.subscriber_lag ORDER BY 1",
        )
        .await;
        let each = rows(&mut session, "SELECT subscriber_id, position, lag_events, round(date_part('epoch', lag) / 600) FROM headwater.subscriber_status('shop') ORDER BY 1").await;
        assert_eq!(all, each, "{storage:?}");
        assert_eq!(all.len(), 24);
        let partitions = rows(
            &mut session,
            "SELECT subscriber_id, partition, lag_events FROM headwater.partition_lag ORDER BY 1, 2",
        )
        .await;
        let each = rows(
            &mut session,
            "SELECT s.subscriber_id, g.partition, g.lag_events FROM headwater.subscriber_status('shop') s, headwater.group_status('shop', s.subscriber_id) g
              WHERE s.mode = 'partitioned' ORDER BY 1, 2",
        )
        .await;
        assert_eq!(partitions, each, "{storage:?}");
        let queues = rows(
            &mut session,
            "SELECT subscriber_id, claims, in_flight, retries, left_behind FROM headwater.queue_metrics ORDER BY 1",
        )
        .await;
        let each = rows(
            &mut session,
            "SELECT subscriber_id, claims, in_flight, retries, left_behind FROM headwater.queue_status('shop') ORDER BY 1",
        )
        .await;
        assert_eq!(queues, each, "{storage:?}");
    }
}
