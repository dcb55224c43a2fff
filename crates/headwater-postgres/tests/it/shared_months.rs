//! Months that namespaces share: the work of one namespace costs the others nothing and shows them
//! nothing, and trimmed or dropped events are gone.

use crate::common::months::seal;
use crate::common::{emit, raw, run, sqlstate_of, types_after};
use crate::migrations::migrations;
use headwater_core::{
    AdminError, EventLog, GapState, GroupStore, LogQuery, NamespaceConfig, StartFrom, Storage, StreamQuery,
    SubscriberConfig, SubscriberMode,
};
use headwater_postgres::{Database, LogOptions, PgLog, PgSubscribers, SubscribersOptions};
use headwater_testing::TestDatabase;
use sqlx::{AssertSqlSafe, PgConnection};

/// Two namespaces with 6 past months of 50 events each. `short` keeps three of them, `long` all.
async fn two(db: &TestDatabase) -> [PgLog; 2] {
    let logs = [db.log("short").await, db.log("long").await];
    for namespace in ["short", "long"] {
        db.past_months(namespace, 6, 50).await;
    }
    db.keep_months("short", 3).await;
    logs
}

async fn count(session: &mut PgConnection, query: &str) -> i64 {
    sqlx::query_scalar(AssertSqlSafe(query.to_owned())).fetch_one(session).await.unwrap()
}

/// The tables of past months that are no part of the table of current months, the oldest first.
async fn standing_alone(session: &mut PgConnection) -> Vec<String> {
    let query = "SELECT c.relname::text FROM pg_class c
                  WHERE c.relnamespace = 'headwater_private'::regnamespace AND c.relkind = 'r' AND NOT c.relispartition
                    AND c.relname ~ '^events_[0-9]' ORDER BY 1";
    sqlx::query_scalar(query).fetch_all(session).await.unwrap()
}

async fn all(log: &PgLog) -> usize {
    log.look_up_months().await.unwrap();
    types_after(log, 0).await.len()
}

async fn maintain(database: &Database, namespace: &str) -> Vec<(String, String)> {
    database.maintain(namespace, false).await.unwrap().left
}

#[tokio::test]
async fn what_is_trimmed_is_physically_gone_though_others_keep_their_month() {
    let db = TestDatabase::create().await;
    let [short, long] = two(&db).await;
    let mut session = db.session().await;
    assert_eq!(maintain(&db.database, "short").await, []);
    assert_eq!((all(&short).await, all(&long).await), (150, 300));
    let page = short.log_page(&LogQuery::after(0)).await.unwrap();
    assert_eq!(page.gaps.first().map(|gap| gap.state.clone()), Some(GapState::Trimmed));
    // The three oldest months are rewritten without `short`. The newest past month stays with the
    // current ones for another month.
    let alone = standing_alone(&mut session).await;
    assert_eq!(alone.len(), 5, "{alone:?}");
    assert_eq!(alone.iter().filter(|name| name.contains("_r")).count(), 3, "{alone:?}");
    for table in &alone {
        let events = count(&mut session, &format!("SELECT count(*) FROM headwater_private.{table}")).await;
        assert_eq!(events, if table.contains("_r") { 50 } else { 100 }, "{table}");
    }
    assert_eq!(count(&mut session, "SELECT count(*) FROM headwater_private.leaves(1)").await, 4);
    // Nothing is left to do, and nothing is done twice.
    assert_eq!(count(&mut session, "SELECT count(*) FROM headwater.drop_steps('long')").await, 0);
    maintain(&db.database, "long").await;
    assert_eq!(standing_alone(&mut session).await, alone);
}

/// What tables of months take on disk, without and with what is trimmed, dropped or moved away.
#[tokio::test]
async fn the_disk_gets_back_what_is_trimmed_or_dropped() {
    let db = TestDatabase::create().await;
    let logs = [db.log("short").await, db.log("long").await];
    for namespace in ["short", "long"] {
        db.past_months(namespace, 6, 1_000).await;
    }
    let mut session = db.session().await;
    let size = "SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c
                 WHERE c.relnamespace = 'headwater_private'::regnamespace AND c.relkind = 'r' AND c.relname ~ '^events_'";
    maintain(&db.database, "long").await;
    let full = count(&mut session, size).await;
    db.keep_months("short", 3).await;
    assert_eq!(maintain(&db.database, "short").await, []);
    assert_eq!((all(&logs[0]).await, all(&logs[1]).await), (3_000, 6_000));
    let trimmed = count(&mut session, size).await;
    // A quarter of the events is gone.
    assert!(trimmed <= full * 85 / 100, "{trimmed} of {full}");
    db.database.drop_namespace("short", false).await.unwrap();
    while count(&mut session, "SELECT headwater.purge_dropped()").await > 0 {}
    run(
        &mut session,
        "UPDATE headwater_private.months SET trimmed_at = trimmed_at - interval '8 days' WHERE trimmed_at IS NOT NULL",
    )
    .await;
    maintain(&db.database, "long").await;
    let dropped = count(&mut session, size).await;
    // Half of all there was, but for the newest past month, which stays with the current ones for a
    // month.
    assert!(dropped <= full * 70 / 100, "{dropped} of {full}");
    assert_eq!(all(&logs[1]).await, 6_000);
}

#[tokio::test]
async fn a_month_that_all_have_trimmed_is_dropped() {
    let db = TestDatabase::create().await;
    let [short, long] = two(&db).await;
    let mut session = db.session().await;
    db.keep_months("long", 3).await;
    maintain(&db.database, "short").await;
    maintain(&db.database, "long").await;
    assert_eq!((all(&short).await, all(&long).await), (150, 150));
    assert_eq!(standing_alone(&mut session).await.len(), 2);
    let dropped = "SELECT count(*) FROM headwater_private.months WHERE dropped_at IS NOT NULL";
    assert_eq!(count(&mut session, dropped).await, 6);
}

#[tokio::test]
async fn a_reader_that_chose_a_table_before_it_was_replaced_reads_it_to_the_end() {
    let db = TestDatabase::create().await;
    let [_, long] = two(&db).await;
    let (mut reader, mut session) = (db.session().await, db.session().await);
    run(&mut reader, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM headwater_private.months").await;
    // Its snapshot knows of no sealed month.
    seal(&mut session, "short").await;
    seal(&mut session, "long").await;
    let events = "SELECT count(*) FROM headwater_private.events_in(2, 1, NULL)";
    assert_eq!(count(&mut reader, events).await, 300);
    assert_eq!(count(&mut session, events).await, 300);
    run(&mut reader, "COMMIT").await;
    maintain(&db.database, "short").await;
    assert_eq!(all(&long).await, 300);
}

#[tokio::test]
async fn one_namespace_keeps_no_other_from_sealing_its_months() {
    let db = TestDatabase::create().await;
    two(&db).await;
    let (mut writer, mut session) = (db.session().await, db.session().await);
    // As an append that began last month and has not ended.
    run(
        &mut writer,
        "BEGIN; INSERT INTO headwater_private.events (global_sequence, transaction_id, created_at, recorded_at, namespace_id, event_id, event_type, data)
                SELECT nextval(n.sequence), 1, now(), n.sealed_before - interval '1 hour', 2, gen_random_uuid(), 'slow', '1'
                  FROM headwater_private.namespaces n WHERE n.namespace = 'long'",
    )
    .await;
    assert_eq!(seal(&mut session, "short").await, 6);
    run(&mut writer, "ROLLBACK").await;
    // The trigger that guards the month could not be made; the next one who seals makes it.
    assert_eq!(seal(&mut session, "long").await, 6);
    let guarded = "SELECT count(DISTINCT tgrelid) FROM pg_trigger WHERE tgname = 'headwater_sealed'";
    assert_eq!(count(&mut session, guarded).await, 6);
    let faults = "SELECT count(*) FROM headwater.faults('short')";
    assert_eq!(count(&mut session, faults).await, 0);
}

#[tokio::test]
async fn a_sealed_month_takes_nothing_more_of_who_sealed_it() {
    let db = TestDatabase::create().await;
    two(&db).await;
    let mut session = db.session().await;
    seal(&mut session, "short").await;
    let late = |id: i32| {
        format!(
            "INSERT INTO headwater_private.events (global_sequence, transaction_id, created_at, recorded_at, namespace_id, event_id, event_type, data)
             SELECT nextval(n.sequence), 1, now(), n.tail_from - interval '1 hour', n.namespace_id, gen_random_uuid(), 'late', '1'
               FROM headwater_private.namespaces n WHERE n.namespace_id = {id}"
        )
    };
    assert_eq!(sqlstate_of(&mut session, &late(1)).await, "WH035");
    run(
        &mut session,
        "UPDATE headwater_private.namespaces SET sealed_before = '-infinity', tail_from = now() WHERE namespace_id = 2",
    )
    .await;
    run(&mut session, &late(2)).await;
}

#[tokio::test]
async fn namespaces_without_nodes_are_sealed_by_whoever_maintains() {
    let db = TestDatabase::create().await;
    two(&db).await;
    for number in 0..5 {
        db.database.create_namespace(&NamespaceConfig::new(format!("idle-{number}"))).await.unwrap();
        db.past_months(&format!("idle-{number}"), 2, 1).await;
    }
    let mut session = db.session().await;
    maintain(&db.database, "short").await;
    assert_eq!(count(&mut session, "SELECT count(*) FROM headwater_private.months WHERE namespace_id > 2").await, 10);
    // Cursors: some of them a call.
    run(&mut session, "UPDATE headwater_private.namespaces SET tail_from = tail_from - interval '40 days'").await;
    let next: Option<i32> =
        sqlx::query_scalar("SELECT headwater.maintain_shared(0, 3)").fetch_one(&mut session).await.unwrap();
    assert_eq!(next, Some(3));
}

#[tokio::test]
async fn nobody_sees_what_others_have_in_the_same_month() {
    let db = TestDatabase::create().await;
    let [short, long] = two(&db).await;
    let mut id = raw("same");
    id.id = uuid::Uuid::from_u128(7);
    for log in [&short, &long] {
        log.append(id.clone().into()).await.unwrap();
        assert!(log.append(id.clone().into()).await.unwrap().retried);
    }
    let mut session = db.session().await;
    let found = "SELECT count(*) FROM headwater.find_events(1, ARRAY['00000000-0000-0000-0000-000000000007'::uuid])";
    assert_eq!(count(&mut session, found).await, 1);
    seal(&mut session, "short").await;
    seal(&mut session, "long").await;
    assert_eq!((all(&short).await, all(&long).await), (301, 301));
    let sequences = "SELECT count(*) FROM headwater.read_log('short', 0, 1000) e WHERE e.namespace_id <> 1";
    assert_eq!(count(&mut session, sequences).await, 0);
}

#[tokio::test]
async fn a_dropped_namespace_is_gone_with_all_that_it_had() {
    let db = TestDatabase::create().await;
    let [short, long] = two(&db).await;
    let mut session = db.session().await;
    seal(&mut session, "short").await;
    seal(&mut session, "long").await;
    for log in [&short, &long] {
        log.append(raw("now").into()).await.unwrap();
        let options = SubscribersOptions { session_locks: false };
        let store = PgSubscribers::new(log.database().clone(), log.info().clone(), options);
        for (id, mode) in [("reader", SubscriberMode::Exclusive), ("queue", SubscriberMode::Shared)] {
            let config = SubscriberConfig::new(id, StartFrom::Beginning, mode);
            store.register(&config).await.unwrap();
        }
        let namespace = &log.info().name;
        run(
            &mut session,
            &format!(
                "SELECT headwater.claim('{namespace}', 'queue', 5);
                 SELECT headwater.schedule('{namespace}', 'nightly', 'night', '0 3 * * *');
                 SELECT headwater.append('{namespace}', 'order-1', '[{{\"type\": \"A\"}}]');
                 SELECT headwater.emit_at('{namespace}', 'later', now() + interval '1 day')"
            ),
        )
        .await;
    }
    assert_eq!(sqlstate_of(&mut session, "SELECT headwater.drop_namespace('short', 'long')").await, "WH002");
    run(&mut session, "SELECT headwater.register_node('short', 'n-1', '{}')").await;
    let refused = db.database.drop_namespace("short", false).await;
    assert!(matches!(refused, Err(AdminError::NamespaceInUse(_))), "{refused:?}");
    db.database.drop_namespace("short", true).await.unwrap();

    let left = "SELECT coalesce(string_agg(t.name, ', '), '') FROM headwater_private.tables_by_namespace() t
                 WHERE (xpath('/row/n/text()', query_to_xml(format('SELECT count(*) AS n FROM headwater_private.%I WHERE namespace_id = 1', t.name), false, true, '')))[1]::text::int > 0";
    let left: String = sqlx::query_scalar(left).fetch_one(&mut session).await.unwrap();
    assert_eq!(left, "");
    assert_eq!(count(&mut session, "SELECT count(*) FROM headwater_private.events WHERE namespace_id = 1 AND recorded_at >= date_trunc('month', now())").await, 0);
    assert_eq!(sqlstate_of(&mut session, "SELECT headwater.emit('short', 'A')").await, "WH001");
    assert_eq!(all(&long).await, 302);
    // What is in past months goes with them, and then nothing is left to remember.
    maintain(&db.database, "long").await;
    db.database.maintain("long", false).await.unwrap();
    let alone = standing_alone(&mut session).await;
    for table in &alone {
        let of_it = format!("SELECT count(*) FROM headwater_private.{table} WHERE namespace_id = 1");
        assert_eq!(count(&mut session, &of_it).await, 0, "{table}");
    }
    assert_eq!(all(&long).await, 302);
    // Its name may be used again; its number is not.
    let again = db.database.create_namespace(&NamespaceConfig::new("short")).await.unwrap();
    assert_eq!(again.id, 3);
}

#[tokio::test]
async fn a_namespace_is_not_dropped_under_an_open_append() {
    for storage in [Storage::Shared, Storage::Own] {
        let db = TestDatabase::create().await;
        db.log_with(NamespaceConfig::new("shop").storage(storage), LogOptions::default()).await;
        let (mut writer, mut session) = (db.session().await, db.session().await);
        run(&mut writer, "BEGIN").await;
        emit(&mut writer, "shop", "open").await;
        // Whoever is in the way is named.
        let pid = crate::common::pid(&mut writer).await;
        let refused = db.database.drop_namespace("shop", false).await;
        assert!(
            matches!(&refused, Err(AdminError::NamespaceHeld(message)) if message.contains(&format!("pid {pid}"))),
            "{refused:?}"
        );
        assert_eq!(
            sqlstate_of(&mut session, "SELECT headwater.alter_namespace('shop', index => 'types')").await,
            "WH038"
        );
        run(&mut writer, "COMMIT").await;
        db.database.drop_namespace("shop", false).await.unwrap();
        assert!(matches!(db.database.namespace("shop").await, Err(AdminError::NamespaceNotFound(_))));
    }
}

/// A database that an earlier Headwater made: its namespaces keep their tables, and all goes on.
#[tokio::test]
async fn a_database_with_tables_for_each_namespace_is_carried_over() {
    let db = TestDatabase::create_empty().await;
    let mut session = db.session().await;
    run(&mut session, include_str!("../../sql/admin/migrations_table.query.sql")).await;
    for (version, (name, text)) in (1i64..=18).zip(migrations()) {
        run(&mut session, &text).await;
        let note = "INSERT INTO headwater.migrations (version, name, checksum) VALUES ($1, $2, encode(sha256(convert_to($3, 'UTF8')), 'hex'))";
        sqlx::query(note).bind(version).bind(name).bind(text).execute(&mut session).await.unwrap();
    }
    run(&mut session, include_str!("before_shared_months.sql")).await;
    let done = db.database.migrate().await.unwrap();
    assert_eq!(done.from, 18);

    let shop = db.database.open_log("shop", LogOptions::default()).await.unwrap();
    assert_eq!(shop.info().storage, Storage::Own);
    assert_eq!(types_after(&shop, 0).await.len(), 25);
    assert_eq!(shop.stream_page(&StreamQuery::new("old")).await.unwrap().len(), 15);
    let next = shop.append(raw("new").into()).await.unwrap();
    assert_eq!(next.global_sequence(), 26);
    let ledger = db.database.open_log("ledger", LogOptions::default()).await.unwrap();
    assert_eq!(ledger.append(raw("new").into()).await.unwrap().global_sequence(), 5);
    assert_eq!(types_after(&ledger, 0).await.len(), 5);
    // The queue goes on behind its claim, the subscriber where it was.
    let claimed = "SELECT array_agg(global_sequence)::text FROM headwater.claim('shop', 'queue', 100)";
    let claimed: String = sqlx::query_scalar(claimed).fetch_one(&mut session).await.unwrap();
    assert_eq!(claimed, "{19,20,21,22,23,24,25,26}");
    let audit =
        "SELECT count(*) FROM headwater.audit_subscribers('shop') WHERE in_log <> settled OR sums_differ_by <> 0";
    assert_eq!(count(&mut session, audit).await, 0);
    assert_eq!(count(&mut session, "SELECT count(*) FROM headwater.faults('shop')").await, 0);
    // A new namespace shares its months, beside them.
    let fresh = db.log("fresh").await;
    fresh.append(raw("first").into()).await.unwrap();
    assert_eq!(types_after(&fresh, 0).await, ["first"]);
}
