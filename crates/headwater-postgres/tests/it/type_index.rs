//! The index by type: it holds all committed events and nothing else, whoever writes while it is
//! switched on and off.

use crate::common::months::seal;
use crate::common::{emit, pid, raw, run, sqlstate_of, until_it_waits};
use headwater_core::{Append, EventLog, Index, IndexState, LogQuery, NamespaceConfig, Ordering, Storage};
use headwater_postgres::{LogOptions, NamespaceChanges, PgLog};
use headwater_testing::TestDatabase;
use sqlx::{AssertSqlSafe, PgConnection};

async fn number(session: &mut PgConnection, query: &str) -> i64 {
    sqlx::query_scalar(AssertSqlSafe(query.to_owned())).fetch_one(session).await.unwrap()
}

/// How many rows the index has too many, and too few.
async fn differences(session: &mut PgConnection, namespace: &str) -> (i64, i64) {
    let of = |first: &str, second: &str| {
        let table = |name: &str| match name {
            "index" => {
                "SELECT i.event_type, i.global_sequence FROM headwater_private.type_index i WHERE i.namespace_id = n.namespace_id"
            }
            _ => "SELECT e.event_type, e.global_sequence FROM headwater_private.events_in(n.namespace_id, 1, NULL) e",
        };
        format!(
            "SELECT count(*) FROM headwater_private.namespaces n CROSS JOIN LATERAL ({} EXCEPT {}) d WHERE n.namespace = '{namespace}'",
            table(first),
            table(second)
        )
    };
    (number(session, &of("index", "log")).await, number(session, &of("log", "index")).await)
}

async fn state(session: &mut PgConnection, namespace: &str) -> String {
    let query = "SELECT index_state FROM headwater.list_namespaces($1)";
    sqlx::query_scalar(query).bind(namespace).fetch_one(session).await.unwrap()
}

async fn fill(session: &mut PgConnection, namespace: &str) {
    while number(session, &format!("SELECT headwater.maintain_index('{namespace}', 100)")).await > 0 {}
    assert_eq!(state(session, namespace).await, "ready");
}

/// What a reader that asks for a type gets, by SQL.
async fn read(session: &mut PgConnection, namespace: &str, event_type: &str) -> Vec<i64> {
    let query = "SELECT global_sequence FROM headwater.read_log($1, event_types => ARRAY[$2])";
    sqlx::query_scalar(query).bind(namespace).bind(event_type).fetch_all(session).await.unwrap()
}

const ON: &str = "SELECT headwater.alter_namespace('shop', index => 'types')";
const OFF: &str = "SELECT headwater.alter_namespace('shop', index => 'none')";

/// The kinds of namespaces whose appends take different ways.
fn kinds() -> [NamespaceConfig; 3] {
    let shop = || NamespaceConfig::new("shop").notify(false);
    [shop(), shop().storage(Storage::Own), shop().ordering(Ordering::Gapless)]
}

#[tokio::test]
async fn every_way_to_append_writes_the_index() {
    for config in kinds() {
        let db = TestDatabase::create().await;
        // Opened before it is switched on: it does not know of it.
        let before = db.log_with(config, LogOptions::default()).await;
        let mut session = db.session().await;
        before.append(Append::new().event(raw("early"))).await.unwrap();
        run(&mut session, ON).await;
        fill(&mut session, "shop").await;
        let after = db.database.open_log("shop", LogOptions::default()).await.unwrap();
        for log in [&before, &after] {
            log.append(Append::new().event(raw("one"))).await.unwrap();
            log.append((0..5).fold(Append::new(), |append, _| append.event(raw("many")))).await.unwrap();
        }
        run(
            &mut session,
            "SELECT headwater.emit('shop', 'sql');
             SELECT headwater.append('shop', 'order-1', '[{\"type\": \"Placed\"}, {\"type\": \"Paid\"}]');
             SELECT headwater.emit_at('shop', 'due', now() - interval '1 second');
             SELECT headwater.emit_at('shop', 'due later', now() + interval '1 hour');
             UPDATE headwater_private.due_events SET due_at = now(), fire_at = now();
             SELECT headwater.fire_due('shop')",
        )
        .await;
        assert_eq!(number(&mut session, "SELECT count(*) FROM headwater_private.type_index").await, 18);
        assert_eq!(differences(&mut session, "shop").await, (0, 0));
    }
}

#[tokio::test]
async fn what_is_rolled_back_refused_or_sent_again_is_not_in_it_or_once() {
    for config in kinds() {
        let db = TestDatabase::create().await;
        let log = db.log_with(config.index(Index::Types), LogOptions::default()).await;
        let mut session = db.session().await;
        run(
            &mut session,
            "BEGIN; SELECT headwater.emit('shop', 'undone'); ROLLBACK;
             BEGIN; SELECT headwater.emit('shop', 'kept'); SAVEPOINT s; SELECT headwater.emit('shop', 'undone'); ROLLBACK TO s;
             SELECT headwater.emit('shop', 'kept'); COMMIT;
             SELECT headwater.append('shop', 'order-1', '{\"type\": \"Placed\"}')",
        )
        .await;
        let again = raw("again");
        for _ in 0..2 {
            log.append(Append::new().event(again.clone())).await.unwrap();
        }
        let conflict = "SELECT headwater.append('shop', 'order-1', '{\"type\": \"Placed\"}', 7)";
        assert_eq!(sqlstate_of(&mut session, conflict).await, "WH007");
        assert_eq!(differences(&mut session, "shop").await, (0, 0));
        assert_eq!(number(&mut session, "SELECT count(*) FROM headwater_private.type_index").await, 4);
    }
}

#[tokio::test]
async fn who_appends_while_it_is_switched_on_is_in_it() {
    for config in kinds() {
        let gapless = config.ordering == Some(Ordering::Gapless);
        let db = TestDatabase::create().await;
        db.log_with(config, LogOptions::default()).await;
        let mut session = db.session().await;
        let (mut open, mut prepared, mut waits, mut old) =
            (db.session().await, db.session().await, db.session().await, db.session().await);
        run(&mut session, "SELECT headwater.emit('shop', 'early') FROM generate_series(1, 250)").await;

        // Its snapshot is older than the switch, and it has not appended yet.
        run(&mut old, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM headwater_private.namespaces").await;
        let name = uuid::Uuid::now_v7();
        run(&mut prepared, "BEGIN; SELECT headwater.emit('shop', 'prepared')").await;
        run(&mut prepared, &format!("PREPARE TRANSACTION '{name}'")).await;
        if !gapless {
            run(&mut open, "BEGIN; SELECT headwater.emit('shop', 'open')").await;
        }

        let mut switch = db.session().await;
        let (switch_pid, waits_pid) = (pid(&mut switch).await, pid(&mut waits).await);
        let switched = tokio::spawn(async move { run(&mut switch, ON).await });
        until_it_waits(&mut session, switch_pid).await;
        // It has read the namespace before the switch, and appends after it.
        let waited = tokio::spawn(async move { run(&mut waits, "SELECT headwater.emit('shop', 'waited')").await });
        until_it_waits(&mut session, waits_pid).await;
        assert_eq!(state(&mut session, "shop").await, "none");
        run(&mut session, &format!("COMMIT PREPARED '{name}'")).await;
        run(&mut open, if gapless { "SELECT 1" } else { "COMMIT" }).await;
        switched.await.unwrap();
        waited.await.unwrap();
        assert_eq!(state(&mut session, "shop").await, "building");

        let late = "SELECT headwater.emit('shop', 'old snapshot')";
        if gapless {
            assert_eq!(sqlstate_of(&mut old, late).await, "40001");
        } else {
            run(&mut old, late).await;
            run(&mut old, "COMMIT").await;
        }
        // While it is built, it is not read.
        assert_eq!(read(&mut session, "shop", "early").await.len(), 250);
        fill(&mut session, "shop").await;
        assert_eq!(differences(&mut session, "shop").await, (0, 0));
        assert_eq!(read(&mut session, "shop", "prepared").await.len(), 1);
        assert_eq!(read(&mut session, "shop", "waited").await.len(), 1);
        assert_eq!(read(&mut session, "shop", "open").await.len(), usize::from(!gapless));
        assert_eq!(read(&mut session, "shop", "old snapshot").await.len(), usize::from(!gapless));
    }
}

#[tokio::test]
async fn a_switch_that_is_rolled_back_changes_nothing() {
    for config in kinds() {
        let db = TestDatabase::create().await;
        db.log_with(config, LogOptions::default()).await;
        let mut session = db.session().await;
        run(&mut session, "SELECT headwater.emit('shop', 'a')").await;
        run(&mut session, &format!("BEGIN; SAVEPOINT s; {ON}; SELECT headwater.emit('shop', 'b'); ROLLBACK TO s; SELECT headwater.emit('shop', 'c'); COMMIT")).await;
        assert_eq!(state(&mut session, "shop").await, "none");
        assert_eq!(number(&mut session, "SELECT count(*) FROM headwater_private.type_index").await, 0);
        // Its own events of before are in it, too.
        run(
            &mut session,
            &format!("BEGIN; SELECT headwater.emit('shop', 'd'); {ON}; SELECT headwater.emit('shop', 'e'); COMMIT"),
        )
        .await;
        fill(&mut session, "shop").await;
        assert_eq!(differences(&mut session, "shop").await, (0, 0));
    }
}

#[tokio::test]
async fn it_is_switched_off_and_on_again() {
    let db = TestDatabase::create().await;
    let log = db.log_with(NamespaceConfig::new("shop").index(Index::Types), LogOptions::default()).await;
    let (mut session, mut reader) = (db.session().await, db.session().await);
    run(
        &mut session,
        "SELECT headwater.emit('shop', CASE i % 100 WHEN 0 THEN 'rare' ELSE 'a' END) FROM generate_series(1, 1000) i",
    )
    .await;
    run(&mut reader, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM headwater_private.index_states")
        .await;
    run(&mut session, OFF).await;
    assert_eq!(state(&mut session, "shop").await, "removing");
    emit(&mut session, "shop", "rare").await;
    assert_eq!(number(&mut session, "SELECT headwater.maintain_index('shop', 600)").await, 600);
    // Reads look through the log again; who sees the index in its snapshot sees all of it.
    assert_eq!(read(&mut session, "shop", "rare").await.len(), 11);
    let page = "SELECT count(*) FROM headwater.log_page(1, 0, NULL, 100, '{rare}', NULL, NULL)";
    assert_eq!(number(&mut reader, page).await, 10);
    run(&mut reader, "COMMIT").await;
    // On again, before all of the old one is deleted.
    run(&mut session, ON).await;
    fill(&mut session, "shop").await;
    assert_eq!(differences(&mut session, "shop").await, (0, 0));

    // Through the client, it is done when it returns.
    let change = |index| NamespaceChanges { index: Some(index), ..NamespaceChanges::default() };
    let info = db.database.alter_namespace("shop", &change(Index::None)).await.unwrap();
    assert_eq!((info.index, info.index_state), (Index::None, IndexState::None));
    assert_eq!(number(&mut session, "SELECT count(*) FROM headwater_private.type_index").await, 0);
    log.append(Append::new().event(raw("rare"))).await.unwrap();
    let info = db.database.alter_namespace("shop", &change(Index::Types)).await.unwrap();
    assert_eq!((info.index, info.index_state), (Index::Types, IndexState::Ready));
    assert_eq!(differences(&mut session, "shop").await, (0, 0));
    assert_eq!(sqlstate_of(&mut session, "SELECT headwater.alter_namespace('shop', index => 'all')").await, "WH002");
    assert_eq!(sqlstate_of(&mut session, "SELECT headwater.create_namespace('shop', index => 'none')").await, "WH003");
    run(&mut session, "SELECT headwater.create_namespace('shop', index => 'types')").await;
}

/// A namespace with an index and 5 sealed past months of 20 events each. The last event of each
/// month has a rare type.
async fn with_past(db: &TestDatabase, storage: Storage) -> PgLog {
    let log = db.log_with(NamespaceConfig::new("shop").storage(storage), LogOptions::default()).await;
    db.past_months("shop", 5, 20).await;
    let mut session = db.session().await;
    let table = if storage == Storage::Own { "events_n1" } else { "events" };
    let rare = format!("UPDATE headwater_private.{table} SET event_type = 'rare' WHERE global_sequence % 20 = 0");
    run(&mut session, &rare).await;
    run(&mut session, "SELECT headwater.maintain_namespace('shop')").await;
    seal(&mut session, "shop").await;
    run(&mut session, ON).await;
    fill(&mut session, "shop").await;
    log.look_up_months().await.unwrap();
    log
}

#[tokio::test]
async fn what_is_trimmed_leaves_nothing_in_it() {
    for storage in [Storage::Shared, Storage::Own] {
        let db = TestDatabase::create().await;
        let log = with_past(&db, storage).await;
        let mut session = db.session().await;
        assert_eq!(read(&mut session, "shop", "rare").await, [20, 40, 60, 80, 100]);
        db.keep_months("shop", 3).await;
        // The month is trimmed and not yet swept: reads and claims leave it out, and pages are as
        // full as possible.
        run(
            &mut session,
            "SELECT headwater.trim_month('shop', m.starts_at) FROM headwater.months('shop') m WHERE m.due_at <= now() ORDER BY m.starts_at LIMIT 1",
        )
        .await;
        assert_eq!(differences(&mut session, "shop").await, (20, 0));
        assert_eq!(read(&mut session, "shop", "rare").await, [40, 60, 80, 100]);
        let two = "SELECT sum(global_sequence)::bigint FROM headwater.read_log('shop', max_events => 2, event_types => '{rare}')";
        assert_eq!(number(&mut session, two).await, 100);
        run(&mut session, "SELECT headwater.register_subscriber('shop', 'work', mode => 'shared')").await;
        let claimed =
            "SELECT global_sequence FROM headwater.claim('shop', 'work', event_types => '{rare}', max_events => 1)";
        assert_eq!(number(&mut session, claimed).await, 40);
        run(&mut session, "SELECT headwater.remove_subscriber('shop', 'work')").await;

        let done = db.database.maintain("shop", false).await.unwrap();
        assert_eq!(done.trimmed.len(), 1, "{done:?}");
        assert_eq!(differences(&mut session, "shop").await, (0, 0));
        assert_eq!(number(&mut session, "SELECT count(*) FROM headwater_private.type_index").await, 60);
        log.look_up_months().await.unwrap();
        let page = log.log_page(&LogQuery::after(0).event_types(["rare"])).await.unwrap();
        assert_eq!(page.events.iter().filter_map(|event| event.global_sequence).collect::<Vec<_>>(), [60, 80, 100]);
        // Nothing is done twice.
        assert_eq!(number(&mut session, "SELECT headwater.maintain_index()").await, 0);
    }
}

#[tokio::test]
async fn a_trimmed_event_whose_sequence_lies_among_later_ones_is_left_out_and_swept() {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    let mut session = db.session().await;
    // The third was recorded two months ago, though the second was recorded a month ago.
    run(&mut session, "SELECT headwater.emit('shop', t) FROM unnest('{a,b,a,a,a}'::text[]) t").await;
    db.backdate("shop", 2, 2, 1).await;
    db.backdate("shop", 1, 1, 2).await;
    db.backdate("shop", 3, 3, 2).await;
    run(&mut session, "SELECT headwater.maintain_namespace('shop')").await;
    assert_eq!(seal(&mut session, "shop").await, 2);
    run(&mut session, ON).await;
    fill(&mut session, "shop").await;
    db.keep_months("shop", 1).await;
    run(
        &mut session,
        "SELECT headwater.trim_month('shop', now() AT TIME ZONE 'UTC' AT TIME ZONE 'UTC' - interval '2 months')",
    )
    .await;
    let trimmed_to = "SELECT trimmed_to FROM headwater_private.namespaces";
    assert_eq!(number(&mut session, trimmed_to).await, 1);
    assert_eq!(read(&mut session, "shop", "a").await, [4, 5]);
    let one = "SELECT global_sequence FROM headwater.read_log('shop', 1, 1, '{a}')";
    assert_eq!(number(&mut session, one).await, 4, "a full page, though the index shows the third first");
    let back = "SELECT count(*) FROM headwater.log_page_back(1, 100, 1, 3, '{a}', NULL, NULL)";
    assert_eq!(number(&mut session, back).await, 2);
    assert_eq!(differences(&mut session, "shop").await, (2, 0));
    fill(&mut session, "shop").await;
    assert_eq!(differences(&mut session, "shop").await, (0, 0));
}

#[tokio::test]
async fn a_dropped_namespace_leaves_nothing_in_it() {
    for config in kinds() {
        let db = TestDatabase::create().await;
        db.log_with(config.index(Index::Types), LogOptions::default()).await;
        let mut session = db.session().await;
        run(&mut session, "SELECT headwater.emit('shop', 'a') FROM generate_series(1, 50)").await;
        db.database.drop_namespace("shop", false).await.unwrap();
        let left = "SELECT (SELECT count(*) FROM headwater_private.type_index) + (SELECT count(*) FROM headwater_private.index_states)";
        assert_eq!(number(&mut session, left).await, 0);
    }
}

#[tokio::test]
async fn it_comes_along_with_an_export() {
    for config in kinds() {
        let (db, other) = (TestDatabase::create().await, TestDatabase::create().await);
        db.log_with(config.index(Index::Types), LogOptions::default()).await;
        let (mut session, mut there) = (db.session().await, other.session().await);
        run(
            &mut session,
            "SELECT headwater.emit('shop', 'a') FROM generate_series(1, 5); SELECT headwater.emit('shop', 'rare')",
        )
        .await;
        let mut lines = Vec::new();
        let export = db.database.export_namespace("shop", |line| {
            lines.push(line.to_owned());
            Ok(())
        });
        export.await.unwrap();
        other.database.import_namespace(lines.into_iter().map(Ok), None).await.unwrap();
        assert_eq!(state(&mut there, "shop").await, "ready");
        emit(&mut there, "shop", "rare").await;
        assert_eq!(differences(&mut there, "shop").await, (0, 0));
        assert_eq!(read(&mut there, "shop", "rare").await, [6, 7]);
        run(&mut there, "SELECT headwater.rename_namespace('shop', 'store')").await;
        assert_eq!(read(&mut there, "store", "rare").await, [6, 7]);
    }
}

/// Two logs with the same events, one with an index: filtered reads answer the same.
#[tokio::test]
async fn reads_are_the_same_with_and_without_it() {
    let db = TestDatabase::create().await;
    let with = db.log_with(NamespaceConfig::new("with").index(Index::Types), LogOptions::default()).await;
    let without = db.log("without").await;
    let mut session = db.session().await;
    for namespace in ["with", "without"] {
        // Every seventh is rolled back; streams of two kinds.
        let script = format!(
            "DO $$ BEGIN
                 FOR i IN 1 .. 3000 LOOP
                     IF i % 7 = 0 THEN PERFORM nextval(n.sequence) FROM headwater_private.namespaces n WHERE n.namespace = '{namespace}'; CONTINUE; END IF;
                     PERFORM headwater.append('{namespace}', CASE i % 3 WHEN 0 THEN 'order-' ELSE 'user-' END || i % 50,
                                              jsonb_build_object('type', CASE WHEN i % 500 = 1 THEN 'rare' WHEN i % 20 = 1 THEN 'some' ELSE 'common' END));
                 END LOOP;
             END $$"
        );
        run(&mut session, &script).await;
    }
    for types in [
        &["rare"][..],
        &["some"],
        &["rare", "some", "none"],
        &["common", "common"],
        &["none"],
        &["common", "some", "rare"],
        &["ra*", "*me"],
        &["*"],
        &["no*", "_ome"],
    ] {
        for after in [0, 777, 2_990, 5_000] {
            for page_size in [1, 7, 1_000] {
                for backwards in [false, true] {
                    for prefix in [None, Some("order-"), Some("none")] {
                        let mut query = LogQuery::after(after).event_types(types.iter().copied()).page_size(page_size);
                        if let Some(prefix) = prefix {
                            query = query.stream_prefix(prefix);
                        }
                        let query = if backwards { query.backwards() } else { query };
                        let (one, other) =
                            (with.log_page(&query).await.unwrap(), without.log_page(&query).await.unwrap());
                        let places = |page: &headwater_core::LogPage| {
                            page.events
                                .iter()
                                .map(|event| (event.global_sequence, event.event_type.clone()))
                                .collect::<Vec<_>>()
                        };
                        assert_eq!(
                            (places(&one), one.cursor, one.more),
                            (places(&other), other.cursor, other.more),
                            "{query:?}"
                        );
                    }
                }
            }
        }
    }
}

/// An ordered subscriber that asks for a rare type passes the other events at once, and still
/// counts them.
#[tokio::test]
async fn an_ordered_subscriber_passes_what_it_did_not_ask_for() {
    for config in kinds() {
        let db = TestDatabase::create().await;
        db.log_with(config.index(Index::Types), LogOptions::default()).await;
        let (mut session, mut open) = (db.session().await, db.session().await);
        run(
            &mut session,
            "SELECT headwater.register_subscriber('shop', 'totals', mode => 'partitioned', partitions => 1);
             SELECT headwater.emit('shop', CASE i WHEN 1 THEN 'rare' WHEN 5000 THEN 'rare' ELSE 'a' END) FROM generate_series(1, 8000) i",
        )
        .await;
        run(&mut session, "BEGIN; SELECT headwater.emit('shop', 'undone') FROM generate_series(1, 10); ROLLBACK").await;
        let next = "SELECT n.cursor, n.global_sequence
                      FROM headwater.lease_partitions('shop', 'totals', '018f0000-0000-7000-8000-0000000000aa') l
                     CROSS JOIN LATERAL headwater.next_events('shop', 'totals', 0, l.term, event_types => '{rare}', max_events => 1) n";
        let position = "SELECT position FROM headwater_private.subscribers";
        for expected in [1, 5_000] {
            let (cursor, sequence): (String, i64) = sqlx::query_as(next).fetch_one(&mut session).await.unwrap();
            assert_eq!((sequence, number(&mut session, position).await), (expected, expected - 1));
            let settle =
                "SELECT headwater.settle('shop', 'totals', 0, (SELECT term FROM headwater_private.subscribers), $1)";
            sqlx::query(settle).bind(cursor).execute(&mut session).await.unwrap();
        }
        // An open transaction holds the horizon: nothing of it is passed.
        run(&mut open, "BEGIN; SELECT headwater.emit('shop', 'rare')").await;
        let gapless = number(&mut session, "SELECT count(*) FROM headwater_private.counters").await == 1;
        if !gapless {
            run(&mut session, "SELECT headwater.emit('shop', 'a') FROM generate_series(1, 3000)").await;
        }
        let none: Option<(String, i64)> = sqlx::query_as(next).fetch_optional(&mut session).await.unwrap();
        assert_eq!((none, number(&mut session, position).await), (None, if gapless { 8_000 } else { 8_010 }));
        run(&mut open, "COMMIT").await;
        let (_, sequence): (String, i64) = sqlx::query_as(next).fetch_one(&mut session).await.unwrap();
        assert_eq!(sequence, if gapless { 8_001 } else { 8_011 });
        let problems =
            "SELECT count(*) FROM headwater.audit_subscribers('shop') WHERE in_log <> settled OR sums_differ_by <> 0";
        assert_eq!(number(&mut session, problems).await, 0);
    }
}

/// Events that a claim passes on its way to a rare event are left for others, including types that
/// it met only there.
#[tokio::test]
async fn what_a_claim_jumps_over_is_left_for_others() {
    for config in kinds() {
        let db = TestDatabase::create().await;
        db.log_with(config.index(Index::Types), LogOptions::default()).await;
        let mut session = db.session().await;
        run(
            &mut session,
            "SELECT headwater.register_subscriber('shop', 'work', mode => 'shared');
             SELECT headwater.emit('shop', CASE i WHEN 301 THEN 'b' WHEN 302 THEN 'b.x' WHEN 602 THEN 'c' ELSE 'a' END) FROM generate_series(1, 602) i",
        )
        .await;
        let mut all = Vec::new();
        for (types, max_events, expected) in
            [("'{c}'", 1, vec![602]), ("'{b}'", 9, vec![301]), ("'{b*,c}'", 9, vec![302]), ("'{b,c}'", 9, vec![])]
        {
            let claim = format!(
                "SELECT global_sequence FROM headwater.claim('shop', 'work', event_types => {types}, max_events => {max_events})"
            );
            let taken: Vec<i64> = sqlx::query_scalar(AssertSqlSafe(claim)).fetch_all(&mut session).await.unwrap();
            assert_eq!(taken, expected, "{types}");
            all.extend(taken);
        }
        let rest = "SELECT global_sequence FROM headwater.claim('shop', 'work', max_events => 1000)";
        all.extend(sqlx::query_scalar::<_, i64>(rest).fetch_all(&mut session).await.unwrap());
        all.sort_unstable();
        assert_eq!(all, (1..=602).collect::<Vec<_>>());
        let problems = "SELECT count(*) FROM headwater.audit_queues('shop')";
        assert_eq!(number(&mut session, problems).await, 0);
    }
}
