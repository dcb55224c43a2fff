//! Namespaces with another name, and in another place.

use crate::common::subscribers::Process;
use crate::common::{emit, run, sqlstate_of};
use headwater_core::{AdminError, EventLog, LogQuery};
use headwater_postgres::{TransferError, Transferred};
use headwater_testing::TestDatabase;
use sqlx::PgConnection;

/// A namespace with everything in it: streams, a gap, past months, subscribers of each mode, dead
/// letters, a schedule, a due event, a state.
async fn shop(db: &TestDatabase, ordering: &str) -> PgConnection {
    let mut session = db.session().await;
    let made = format!(
        "SELECT headwater.create_namespace('shop', ordering => '{ordering}', metadata => '{{\"owner\": \"me\"}}', retention => '400 days', max_payload_bytes => 5000)"
    );
    run(&mut session, &made).await;
    run(
        &mut session,
        "SELECT headwater.append('shop', 'order-' || i, '[{\"type\": \"Placed\", \"data\": {\"a\": 1}}, {\"type\": \"Paid\", \"key\": \"k\", \"headers\": {\"h\": \"v\"}}]')
           FROM generate_series(1, 5) i",
    )
    .await;
    run(&mut session, "BEGIN; SELECT headwater.emit('shop', 'undone'); ROLLBACK").await;
    run(
        &mut session,
        "SELECT headwater.emit('shop', 'nothing', 'null', actor_id => 'me', correlation_id => gen_random_uuid(), schema_version => 3);
         SELECT headwater.append('shop', 'order-1', '{\"type\": \"Shipped\"}', 2);
         SELECT headwater.register_subscriber('shop', 'mailer'), headwater.register_subscriber('shop', 'index', mode => 'partitioned', partitions => 3),
                headwater.register_subscriber('shop', 'work', mode => 'shared');
         SELECT headwater.emit_at('shop', 'Reminder', now() + interval '1 day', stream_id => 'order-1');
         SELECT headwater.schedule('shop', 'nightly', 'Nightly', '0 3 * * *', payload => 'null')",
    )
    .await;
    run(&mut session, "SELECT headwater.run_schedule_now('shop', 'nightly')").await;
    session
}

async fn lines(db: &TestDatabase, namespace: &str) -> (Vec<String>, Transferred) {
    let mut lines = Vec::new();
    let done = db.database.export_namespace(namespace, |line| {
        lines.push(line.to_owned());
        Ok(())
    });
    let done = done.await.expect("failed to export");
    (lines, done)
}

async fn import(db: &TestDatabase, lines: &[String], name: Option<&str>) -> Result<Transferred, TransferError> {
    let lines = lines.iter().cloned().map(Ok);
    db.database.import_namespace(lines, name).await.map(|(_, done)| done)
}

/// All that users see of a namespace, as text. Transaction ids only tell which events share a
/// transaction.
async fn seen(session: &mut PgConnection, namespace: &str) -> Vec<String> {
    let statement = "SELECT t.line FROM (
        SELECT 1 AS part, e.global_sequence AS place, (to_jsonb(e) - '{namespace_id,transaction_id}'::text[]
               || jsonb_build_object('of', min(e.global_sequence) OVER (PARTITION BY e.transaction_id)))::text AS line FROM headwater.read_log($1) e
        UNION ALL SELECT 2, 0, (SELECT string_agg(s::text, ';' ORDER BY s.stream_id) FROM (SELECT stream_id, version FROM headwater_private.streams NATURAL JOIN
                         headwater_private.namespaces WHERE namespace = $1) s)
        UNION ALL SELECT 3, 0, concat_ws(' ', s.subscriber_id, s.mode, s.partitions, s.position, s.pending_gaps, s.paused) FROM headwater.subscriber_status($1) s WHERE s.subscriber_id <> 'work'
        UNION ALL SELECT 4, d.global_sequence, (to_jsonb(d) - '{namespace_id,term,namespace}'::text[])::text FROM headwater_private.dead_letters d NATURAL JOIN
                         (SELECT namespace_id FROM headwater_private.namespaces WHERE namespace = $1) n
        UNION ALL SELECT 5, 0, d::text FROM (SELECT name, cron_expression, event_type, payload, next_due_at, active FROM headwater_private.schedules NATURAL JOIN
                         (SELECT namespace_id FROM headwater_private.namespaces WHERE namespace = $1) n) d
        UNION ALL SELECT 6, 0, d::text FROM (SELECT event_id, due_at, event_type, stream_id, headers, data FROM headwater_private.due_events NATURAL JOIN
                         headwater_private.namespaces WHERE namespace = $1) d
        UNION ALL SELECT 7, 0, (to_jsonb(n) - '{namespace,namespace_id,created_at}'::text[])::text FROM headwater.list_namespaces($1) n
        UNION ALL SELECT 8, 0, h.horizon || ' ' || h.head FROM headwater.horizon($1) h) t ORDER BY t.part, t.place, t.line";
    sqlx::query_scalar(statement).bind(namespace).fetch_all(session).await.expect("failed to look")
}

#[tokio::test]
async fn a_round_trip_keeps_everything_and_goes_on() {
    for ordering in ["sequence", "gapless"] {
        let (db, other) = (TestDatabase::create().await, TestDatabase::create().await);
        let mut session = shop(&db, ordering).await;
        // A subscriber that has handled some, and gave up on one.
        run(
            &mut session,
            "UPDATE headwater_private.subscribers SET position = 4, settled_events = 4, settled_sum = 10 WHERE subscriber_id = 'mailer';
             INSERT INTO headwater_private.dead_letters (namespace_id, subscriber_id, global_sequence, event_id, event_type, order_key, state, parks_key, error, node, attempts, event, term)
             SELECT e.namespace_id, 'mailer', e.global_sequence, e.event_id, e.event_type, '', 'dead', false, 'it failed', 'node-1', '[]', to_jsonb(e), s.term
               FROM headwater_private.events e, headwater_private.subscribers s WHERE e.global_sequence = 3 AND s.subscriber_id = 'mailer';
             INSERT INTO headwater_private.states (namespace_id, owner, state_id, state, updated_at, version)
             SELECT namespace_id, 'mailer', id, state, now(), 1 FROM headwater_private.namespaces, (VALUES ('a', '{\"b\": 1}'::jsonb), ('c', 'null'), ('d', NULL)) AS s(id, state);
             SELECT headwater.claim('shop', 'work', max_events => 3)",
        )
        .await;
        let (exported, done) = lines(&db, "shop").await;
        assert_eq!(done.events, 13);
        assert_eq!(done.events + done.rows + 2, exported.len() as u64);
        let before = seen(&mut session, "shop").await;

        let mut there = other.session().await;
        run(&mut there, "SELECT headwater.create_namespace('neighbour')").await;
        assert_eq!(import(&other, &exported, None).await.expect("failed to import"), done);
        let after = seen(&mut there, "shop").await;
        assert_eq!(after, before, "{ordering}");
        // And beside the original, under another name.
        assert_eq!(import(&db, &exported, Some("copy")).await.expect("failed to import"), done);
        assert_eq!(seen(&mut session, "copy").await, before, "{ordering}");
        let states = "SELECT string_agg(state_id || ' ' || coalesce(state::text, 'NULL'), ',' ORDER BY state_id) FROM headwater_private.states NATURAL JOIN
                      headwater_private.namespaces WHERE namespace = 'copy'";
        let states: String = sqlx::query_scalar(states).fetch_one(&mut session).await.unwrap();
        assert_eq!(states, r#"a {"b": 1},c null,d NULL"#);

        // Audits pass, appends continue at the end, streams keep their versions, and queues deliver
        // all unsettled events.
        for (database, session, name) in [(&other, &mut there, "shop"), (&db, &mut session, "copy")] {
            let wrong: i64 = sqlx::query_scalar("SELECT count(*) FROM headwater.audit_subscribers($1) WHERE settled <> in_log OR sums_differ_by <> 0 OR missing IS NOT NULL")
                .bind(name)
                .fetch_one(&mut *session)
                .await
                .unwrap();
            assert_eq!(wrong, 0);
            let head = if ordering == "gapless" { 13 } else { 14 };
            assert_eq!(emit(session, name, "next").await, head + 1);
            run(session, &format!("SELECT headwater.append('{name}', 'order-1', '{{\"type\": \"Closed\"}}', 3)")).await;
            let claimed: i64 =
                sqlx::query_scalar("SELECT count(*) FROM headwater.claim($1, 'work', max_events => 100)")
                    .bind(name)
                    .fetch_one(&mut *session)
                    .await
                    .unwrap();
            assert_eq!(claimed, 15);
            let log = database.database.open_log(name, Default::default()).await.unwrap();
            assert_eq!(crate::common::types_after(&log, 0).await.len(), 15);
            let repeated = sqlstate_of(
                session,
                &format!("SELECT headwater.append('{name}', 'order-1', '{{\"type\": \"Late\"}}', 3)"),
            )
            .await;
            assert_eq!(repeated, "WH007");
        }
    }
}

#[tokio::test]
async fn attempts_that_failed_are_counted_on() {
    let (db, other) = (TestDatabase::create().await, TestDatabase::create().await);
    let mut session = shop(&db, "sequence").await;
    let fail = "SELECT f.attempts FROM headwater.lease_partitions('shop', 'mailer', '018f0000-0000-7000-8000-0000000000aa') l,
                       headwater.fail_events('shop', 'mailer', 0, l.term, ARRAY[1::bigint], 'no answer', max_attempts => 4) f";
    let attempts: i32 = sqlx::query_scalar(fail).fetch_one(&mut session).await.unwrap();
    assert_eq!(attempts, 1);
    let (exported, done) = lines(&db, "shop").await;
    assert_eq!(import(&other, &exported, None).await.expect("failed to import"), done);
    let mut there = other.session().await;
    let errors: String = sqlx::query_scalar("SELECT attempts::text FROM headwater_private.failing_events")
        .fetch_one(&mut there)
        .await
        .unwrap();
    assert!(errors.contains("no answer"), "{errors}");
    let attempts: i32 = sqlx::query_scalar(fail).fetch_one(&mut there).await.unwrap();
    assert_eq!(attempts, 2);

    // Attempts that say nothing would stop the partition.
    let at = exported.iter().position(|line| line.contains(r#""kind": "failing_events""#)).unwrap();
    for (field, value) in [
        ("attempts", "\"x\""),
        ("retry_at", "\"infinity\""),
        ("term", "1000000"),
        ("partition", "7"),
        ("sequences", "[]"),
    ] {
        let mut damaged = exported.clone();
        let mut line: serde_json::Value = serde_json::from_str(&damaged[at]).unwrap();
        line["row"][field] = serde_json::from_str(value).unwrap();
        damaged[at] = line.to_string();
        let refused = import(&other, &damaged, Some("damaged")).await.unwrap_err().to_string();
        assert!(refused.contains("the attempts of subscriber"), "{field}: {refused}");
    }
}

/// A queue whose workers left a type behind, acked out of order, failed, and hold a claim.
#[tokio::test]
async fn a_queue_goes_on_where_it_was() {
    let (db, other) = (TestDatabase::create().await, TestDatabase::create().await);
    let mut session = db.session().await;
    run(
        &mut session,
        "SELECT headwater.create_namespace('shop'), headwater.register_subscriber('shop', 'work', mode => 'shared');
         SELECT headwater.emit('shop', CASE WHEN i % 4 = 0 THEN 'other' ELSE 'job' END) FROM generate_series(1, 40) i",
    )
    .await;
    let claim = "SELECT c.claim_id, c.global_sequence, c.redelivery_count FROM headwater.claim($1, 'work', max_events => $2, event_types => $3) c ORDER BY 2";
    let claimed = async |session: &mut PgConnection, namespace: &str, most: i32, types: Option<Vec<&str>>| {
        let rows: Vec<(sqlx::types::Uuid, i64, i32)> =
            sqlx::query_as(claim).bind(namespace).bind(most).bind(types).fetch_all(session).await.unwrap();
        rows
    };
    // 1 to 7 without 4 are claimed: 1 fails, 2 is acked, the others are held. Then 9 to 15 are
    // done, and 17 on waits.
    let first = claimed(&mut session, "shop", 6, Some(vec!["job"])).await;
    assert_eq!(first.iter().map(|row| row.1).collect::<Vec<_>>(), [1, 2, 3, 5, 6, 7]);
    run(
        &mut session,
        &format!(
            "SELECT headwater.nack('shop', 'work', '{0}', ARRAY[1::bigint], error => 'no answer');
             SELECT headwater.ack('shop', 'work', '{0}', ARRAY[2::bigint])",
            first[0].0
        ),
    )
    .await;
    let second = claimed(&mut session, "shop", 6, Some(vec!["job"])).await;
    run(&mut session, &format!("SELECT headwater.ack('shop', 'work', '{}')", second.last().unwrap().0)).await;
    let held: Vec<i64> = second.iter().filter(|row| row.0 != second.last().unwrap().0).map(|row| row.1).collect();
    let done: Vec<i64> =
        second.iter().map(|row| row.1).filter(|sequence| !held.contains(sequence)).chain([2]).collect();
    let (exported, transferred) = lines(&db, "shop").await;
    assert_eq!(import(&other, &exported, None).await.expect("failed to import"), transferred);

    let mut there = other.session().await;
    let problems = "SELECT count(*) FROM headwater.audit_queues('shop')";
    assert_eq!(sqlx::query_scalar::<_, i64>(problems).fetch_one(&mut there).await.unwrap(), 0);
    let mut came: Vec<(i64, i32)> = Vec::new();
    loop {
        let rows = claimed(&mut there, "shop", 100, None).await;
        if rows.is_empty() {
            break;
        }
        came.extend(rows.iter().map(|row| (row.1, row.2)));
    }
    came.sort_unstable();
    let expected: Vec<(i64, i32)> = (1..=40)
        .filter(|sequence| !done.contains(sequence))
        .map(|sequence| (sequence, i32::from(sequence == 1)))
        .collect();
    assert_eq!(came, expected, "done before: {done:?}");

    let damaged = |kind: &str, field: &str, value: &str| {
        let mut lines = exported.clone();
        let at = lines.iter().position(|line| line.contains(&format!(r#""kind": "{kind}""#))).unwrap();
        let mut line: serde_json::Value = serde_json::from_str(&lines[at]).unwrap();
        line["row"][field] = serde_json::from_str(value).unwrap();
        lines[at] = line.to_string();
        lines
    };
    for (kind, field, value) in [
        ("queue_states", "frontier", "-1"),
        ("queue_states", "frontier", "null"),
        ("queue_states", "frontier", "\"x\""),
        ("queue_states", "frontier", "41"),
        // Events in claims and retries are ahead of it.
        ("queue_states", "frontier", "2"),
        ("queue_states", "gaps", "null"),
        ("queue_states", "gaps", "[3]"),
        ("queue_states", "gaps", "[50, 60]"),
        ("queue_states", "open", "null"),
        ("queue_states", "open", r#"[{"first_sequence": 4, "last_sequence": 3, "event_type": "other"}]"#),
        ("queue_states", "open", r#"[{"first_sequence": 4, "last_sequence": 99, "event_type": "other"}]"#),
        ("queue_states", "open", r#"[{"first_sequence": 4, "last_sequence": 8, "event_type": null}]"#),
        ("queue_states", "open", r#"[{"first_sequence": 1, "last_sequence": 8, "event_type": "job"}]"#),
        ("queue_states", "subscriber_id", "\"nobody\""),
        ("queue_states", "subscriber_id", "null"),
        ("retries", "subscriber_id", "\"nobody\""),
        ("retries", "sequences", "[]"),
        ("retries", "sequences", "[3, 1]"),
        ("retries", "sequences", "[null]"),
        ("retries", "sequences", "[40]"),
        ("retries", "attempts", "-1"),
        ("retries", "sequences", "[-5]"),
        ("retries", "sequences", "[9223372036854775807]"),
        ("retries", "sequences", "\"x\""),
        ("retries", "sequences", "null"),
        ("retries", "attempts", "null"),
        ("retries", "due_at", "\"290000-01-01T00:00:00+00:00\""),
        ("retries", "failures", "[1]"),
        ("retries", "failures", r#"[{"at": "x", "node": "n", "errors": []}]"#),
        ("retries", "failures", r#"[{"at": "2026-02-31T00:00:00Z", "node": "n", "errors": []}]"#),
        ("retries", "failures", r#"[{"at": "2026-02-01T00:00:00+99:99", "node": "n", "errors": []}]"#),
        ("retries", "failures", r#"[{"at": "2026-11-19T00:00:00Z", "node": "n", "errors": [1]}]"#),
        ("retries", "failures", "{}"),
        ("retries", "due_at", "\"infinity\""),
        ("retries", "of_letter", "true"),
    ] {
        let refused = import(&other, &damaged(kind, field, value), Some("damaged")).await;
        let refused = refused.expect_err(&format!("{kind} {field} {value}")).to_string();
        assert!(
            refused.contains("contradicts itself") || refused.contains("sequence") || refused.contains("do not fit"),
            "{kind} {field} {value}: {refused}"
        );
    }
}

#[tokio::test]
async fn events_of_past_months_get_their_months_and_are_sealed() {
    let (db, other) = (TestDatabase::create().await, TestDatabase::create().await);
    shop(&db, "sequence").await;
    let (mut exported, done) = lines(&db, "shop").await;
    // Like an export of an older log with its own months: the first event was recorded in March,
    // the second in May.
    exported[0] = exported[0].replace(r#""storage": "shared""#, r#""storage": "own""#);
    let events: Vec<usize> =
        exported.iter().enumerate().filter(|(_, line)| line.contains(r#""kind": "event""#)).map(|(i, _)| i).collect();
    for (index, at) in [(events[0], "2026-03-03T00:00:00+00:00"), (events[1], "2026-05-03T00:00:00+00:00")] {
        let (front, rest) = exported[index].split_once(r#""recorded_at": ""#).unwrap();
        exported[index] = format!(r#"{front}"recorded_at": "{at}"{}"#, rest.split_once('"').unwrap().1);
    }
    assert_eq!(import(&other, &exported, None).await.expect("failed to import"), done);
    let mut session = other.session().await;
    let faults: Vec<String> =
        sqlx::query_scalar("SELECT fault FROM headwater.faults('shop')").fetch_all(&mut session).await.unwrap();
    assert_eq!(faults, [""; 0]);
    let sealed: Vec<(Option<i64>, i64)> =
        sqlx::query_as("SELECT last_sequence, complete_to FROM headwater_private.months ORDER BY starts_at LIMIT 4")
            .fetch_all(&mut session)
            .await
            .unwrap();
    assert_eq!(sealed, [(Some(1), 1), (None, 1), (Some(2), 2), (None, 2)]);
    let first: String = sqlx::query_scalar("SELECT event_id::text FROM headwater.read_log('shop') LIMIT 1")
        .fetch_one(&mut session)
        .await
        .unwrap();
    // An id of a sealed month is known.
    let reused = format!("SELECT headwater.emit('shop', 'Placed', event_id => '{first}')");
    assert_eq!(sqlstate_of(&mut session, &reused).await, "WH005");
}

#[tokio::test]
async fn a_damaged_export_leaves_nothing_behind() {
    let (db, other) = (TestDatabase::create().await, TestDatabase::create().await);
    shop(&db, "sequence").await;
    let (exported, _) = lines(&db, "shop").await;
    let last = exported.len() - 1;
    let event = exported.iter().position(|line| line.contains(r#""kind": "event""#)).unwrap();
    type Damage = Box<dyn Fn(&mut Vec<String>)>;
    let damages: [(&str, Damage); 8] = [
        ("cut off", Box::new(move |lines| lines.truncate(last))),
        ("a line less", Box::new(move |lines| drop(lines.remove(3)))),
        ("not JSON", Box::new(move |lines| lines[event] = "{".into())),
        ("no line of ours", Box::new(move |lines| lines[event] = r#"{"kind": "migrations", "row": {}}"#.into())),
        ("no header", Box::new(|lines| drop(lines.remove(0)))),
        ("empty", Box::new(Vec::clear)),
        ("twice", Box::new(move |lines| lines.insert(event, lines[event].clone()))),
        (
            "beyond the head",
            Box::new(|lines| {
                let subscriber = lines.iter_mut().find(|line| line.contains(r#""kind": "subscribers""#)).unwrap();
                *subscriber = subscriber.replace(r#""position": 0"#, r#""position": 99"#);
            }),
        ),
    ];
    for (what, damage) in damages {
        let mut damaged = exported.clone();
        damage(&mut damaged);
        let failed = import(&other, &damaged, None).await;
        assert!(matches!(failed, Err(TransferError::Database(AdminError::InvalidInput(_)))), "{what}: {failed:?}");
        assert!(other.database.namespaces().await.unwrap().is_empty(), "{what}");
    }
    // The name is taken.
    let failed = import(&db, &exported, None).await;
    assert!(
        matches!(&failed, Err(TransferError::Database(AdminError::InvalidInput(message))) if message.contains("exists already")),
        "{failed:?}"
    );
}

#[tokio::test]
async fn an_export_is_one_snapshot() {
    let db = TestDatabase::create().await;
    let mut session = shop(&db, "sequence").await;
    let mut open = db.session().await;
    run(&mut open, "BEGIN").await;
    assert_eq!(emit(&mut open, "shop", "late").await, 15);
    assert_eq!(emit(&mut session, "shop", "early").await, 16);
    let (exported, done) = lines(&db, "shop").await;
    run(&mut open, "COMMIT").await;
    assert_eq!(done.events, 14);
    import(&db, &exported, Some("copy")).await.expect("failed to import");
    // What was open then is a gap that is closed here, and its sequence is not handed out again.
    let sequences: Vec<i64> = sqlx::query_scalar("SELECT global_sequence FROM headwater.read_log('copy', 13)")
        .fetch_all(&mut session)
        .await
        .unwrap();
    assert_eq!(sequences, [14, 16]);
    assert_eq!(emit(&mut session, "copy", "next").await, 17);
}

#[tokio::test]
async fn only_the_owner_exports_imports_and_renames() {
    let db = TestDatabase::create().await;
    let mut session = shop(&db, "sequence").await;
    let role = format!("transfer_{}", uuid::Uuid::now_v7().simple());
    run(&mut session, &format!("CREATE ROLE {role}; SELECT headwater.grant_role('shop', '{role}', 'admin')")).await;
    run(&mut session, &format!("SET ROLE {role}")).await;
    for statement in [
        "SELECT headwater.export_rows('shop')",
        "SELECT headwater.export_events('shop', 0, 1)",
        "SELECT headwater.import_namespace('{}')",
        "SELECT headwater.import_lines('shop', '{}')",
        "SELECT headwater.import_finish('shop', '{}', 0, 0)",
        "SELECT headwater.rename_namespace('shop', 'store')",
    ] {
        assert_eq!(sqlstate_of(&mut session, statement).await, "WH015", "{statement}");
    }
    run(&mut session, &format!("RESET ROLE; SELECT headwater.revoke_role('shop', '{role}', 'admin'); DROP OWNED BY {role}; DROP ROLE {role}")).await;
    // A namespace that is there gets no lines, whoever gives them.
    assert_eq!(sqlstate_of(&mut session, "SELECT headwater.import_lines('shop', '{}')").await, "WH002");
}

#[tokio::test]
async fn a_renamed_namespace_is_the_same_one() {
    let db = TestDatabase::create().await;
    let mut session = shop(&db, "sequence").await;
    run(&mut session, "SELECT headwater.create_namespace('taken')").await;
    let before = seen(&mut session, "shop").await;
    let info = db.database.rename_namespace("shop", "store", false).await.expect("failed to rename");
    assert_eq!(info.name, "store");
    assert_eq!(seen(&mut session, "store").await, before);
    assert_eq!(sqlstate_of(&mut session, "SELECT headwater.emit('shop', 'lost')").await, "WH001");
    assert_eq!(emit(&mut session, "store", "found").await, 15);
    for (statement, code) in [
        ("SELECT headwater.rename_namespace('store', 'taken')", "WH003"),
        ("SELECT headwater.rename_namespace('store', 'Not a name')", "WH002"),
        ("SELECT headwater.rename_namespace('store', NULL)", "WH002"),
        ("SELECT headwater.rename_namespace('nothing', 'store')", "WH001"),
    ] {
        assert_eq!(sqlstate_of(&mut session, statement).await, code, "{statement}");
    }
    // Its old name is free.
    run(&mut session, "SELECT headwater.create_namespace('shop')").await;
    assert_eq!(emit(&mut session, "shop", "first").await, 1);
}

#[tokio::test]
async fn a_namespace_in_use_is_renamed_by_force_only_and_its_owners_are_fenced() {
    let db = TestDatabase::create().await;
    let mut session = shop(&db, "sequence").await;
    run(&mut session, "SELECT headwater.register_node('shop', 'worker-1')").await;
    let refused = db.database.rename_namespace("shop", "store", false).await;
    assert!(
        matches!(&refused, Err(AdminError::NamespaceInUse(message)) if message.contains("node worker-1")),
        "{refused:?}"
    );
    run(&mut session, "SELECT headwater.stop_node('shop', node_id, incarnation) FROM headwater.node_status").await;

    let log = db.database.open_log("shop", Default::default()).await.unwrap();
    let term = Process::start(&db, &log, "owner").await.take("mailer").await.expect("it is free");
    let refused = db.database.rename_namespace("shop", "store", false).await;
    assert!(
        matches!(&refused, Err(AdminError::NamespaceInUse(message)) if message.contains("subscriber mailer")),
        "{refused:?}"
    );
    db.database.rename_namespace("shop", "store", true).await.expect("failed to rename");
    let now: i64 =
        sqlx::query_scalar("SELECT max(term) FROM headwater_private.subscribers WHERE subscriber_id = 'mailer'")
            .fetch_one(&mut session)
            .await
            .unwrap();
    assert!(now.unsigned_abs() > term, "the owner's term is over");
}

/// A subscriber whose ledger is too long for its row.
#[tokio::test]
async fn a_long_ledger_comes_along() {
    let (db, other) = (TestDatabase::create().await, TestDatabase::create().await);
    let (mut session, mut slow) = (db.session().await, db.session().await);
    run(&mut session, "SELECT headwater.create_namespace('shop'), headwater.register_subscriber('shop', 'mailer')")
        .await;
    run(&mut slow, "BEGIN").await;
    for _ in 0..700 {
        emit(&mut slow, "shop", "slow").await;
        emit(&mut session, "shop", "fast").await;
    }
    run(
        &mut session,
        "UPDATE headwater_private.subscribers s
            SET position = 1400, settled_events = 700, settled_sum = 700 * 701,
                pending_gaps = headwater_private.keep_ledger(s.namespace_id, s.subscriber_id, s.partition,
                    ARRAY(SELECT unnest(ARRAY[2 * i - 1, 2 * i - 1]) FROM generate_series(1, 700) i))",
    )
    .await;
    run(&mut slow, "COMMIT").await;
    let (exported, _) = lines(&db, "shop").await;
    import(&other, &exported, None).await.unwrap();
    let mut there = other.session().await;
    let ledger =
        "SELECT cardinality(headwater_private.ledger_of(s.namespace_id, s.subscriber_id, s.partition, s.pending_gaps)),
                         cardinality(s.pending_gaps) FROM headwater_private.subscribers s";
    let (whole, in_row): (i32, i32) = sqlx::query_as(ledger).fetch_one(&mut there).await.unwrap();
    assert_eq!(whole, 1_400);
    assert!(in_row <= 512, "{in_row} in the row");
    let wrong =
        "SELECT count(*) FROM headwater.audit_subscribers('shop') WHERE in_log <> settled OR sums_differ_by <> 0";
    assert_eq!(sqlx::query_scalar::<_, i64>(wrong).fetch_one(&mut there).await.unwrap(), 0);
}

/// A namespace whose oldest months are trimmed is read as before.
#[tokio::test]
async fn what_was_trimmed_stays_trimmed() {
    let (db, other) = (TestDatabase::create().await, TestDatabase::create().await);
    let log = db.log("shop").await;
    db.past_months("shop", 5, 20).await;
    db.keep_months("shop", 2).await;
    db.database.maintain("shop", false).await.unwrap();
    log.look_up_months().await.unwrap();
    let kept = crate::common::types_after(&log, 0).await.len();
    assert!((20..100).contains(&kept), "{kept}");
    let (exported, done) = lines(&db, "shop").await;
    assert_eq!(import(&other, &exported, None).await.expect("failed to import"), done);
    let there = other.database.open_log("shop", Default::default()).await.unwrap();
    assert_eq!(crate::common::types_after(&there, 0).await.len(), kept);
    let (here, there) = (log.log_page(&LogQuery::after(0)).await, there.log_page(&LogQuery::after(0)).await);
    assert_eq!(here.unwrap().gaps, there.unwrap().gaps);
    let mut session = other.session().await;
    emit(&mut session, "shop", "next").await;
    assert_eq!(other.database.maintain("shop", false).await.unwrap().left, []);
    // An export of before this was noted has no such field.
    let (front, rest) = exported[0].split_once(r#""kept_from": ""#).expect("it is in the header");
    let mut older = exported.clone();
    older[0] = format!("{front}\"other\": \"{rest}");
    import(&other, &older, Some("older")).await.expect("failed to import");
    let older = other.database.open_log("older", Default::default()).await.unwrap();
    assert_eq!(crate::common::types_after(&older, 0).await.len(), kept);
    for since in ["infinity", "2026-99-99T99:99:99+00:00", "2099-01-01T00:00:00+00:00"] {
        let mut damaged = exported.clone();
        damaged[0] = format!("{front}\"kept_from\": \"{since}\", \"other\": \"{rest}");
        let refused = import(&other, &damaged, Some("damaged")).await.unwrap_err();
        assert!(matches!(refused, TransferError::Database(AdminError::InvalidInput(_))), "{since}: {refused}");
    }
    // Events that nobody would see.
    let now = chrono::Utc::now().format("%Y-%m-%dT%H:%M:%S+00:00");
    for (from, to) in [
        (r#""kept_from": ""#, format!("\"kept_from\": \"{now}\", \"other\": \"")),
        (r#""trimmed_to": "#, r#""trimmed_to": 100, "other": "#.to_owned()),
        (r#""trimmed_to": "#, r#""trimmed_to": 101, "other": "#.to_owned()),
    ] {
        let mut damaged = exported.clone();
        damaged[0] = damaged[0].replacen(from, &to, 1);
        let refused = import(&other, &damaged, Some("damaged")).await.unwrap_err().to_string();
        assert!(refused.contains("contradicts itself"), "{to}: {refused}");
    }
}

/// A quiet namespace whose events are all trimmed, with a queue that has done them all.
#[tokio::test]
async fn a_namespace_that_was_trimmed_to_its_end_comes_along() {
    let (db, other) = (TestDatabase::create().await, TestDatabase::create().await);
    db.log("shop").await;
    let mut session = db.session().await;
    run(&mut session, "SELECT headwater.register_subscriber('shop', 'work', mode => 'shared')").await;
    db.past_months("shop", 3, 10).await;
    run(&mut session, "SELECT headwater.ack('shop', 'work', c.claim_id) FROM (SELECT DISTINCT claim_id FROM headwater.claim('shop', 'work', max_events => 100)) c").await;
    db.keep_months("shop", 0).await;
    db.database.maintain("shop", false).await.unwrap();
    run(&mut session, "SELECT headwater.alter_namespace('shop', keep_for_ever => true)").await;
    let (exported, done) = lines(&db, "shop").await;
    assert_eq!(done.events, 0);
    assert_eq!(import(&other, &exported, None).await.expect("failed to import"), done);
    let mut there = other.session().await;
    assert_eq!(emit(&mut there, "shop", "next").await, 31);
    let claimed = "SELECT array_agg(global_sequence) FROM headwater.claim('shop', 'work', max_events => 100)";
    assert_eq!(sqlx::query_scalar::<_, Vec<i64>>(claimed).fetch_one(&mut there).await.unwrap(), [31]);
}

#[tokio::test]
async fn streams_that_do_not_fit_their_events_are_refused() {
    let (db, other) = (TestDatabase::create().await, TestDatabase::create().await);
    shop(&db, "sequence").await;
    let (exported, _) = lines(&db, "shop").await;
    let damaged = |from: &str, to: &str| -> Vec<String> {
        let at =
            exported.iter().position(|line| line.contains(from)).unwrap_or_else(|| panic!("{from}: {exported:#?}"));
        let mut lines = exported.clone();
        lines[at] = lines[at].replacen(from, to, 1);
        lines
    };
    let wrong = [
        damaged(r#""version": 3"#, r#""version": 2"#),
        damaged(r#""stream_id": "order-2""#, r#""stream_id": "order-9""#),
        damaged(r#""stream_version": 3"#, r#""stream_version": 2"#),
        damaged(r#""stream_version": 3"#, r#""stream_version": 4"#),
    ];
    for lines in wrong {
        let refused = import(&other, &lines, None).await.unwrap_err();
        assert!(refused.to_string().contains("stream") || refused.to_string().contains("event"), "{refused}");
    }
    import(&other, &exported, None).await.unwrap();
}
