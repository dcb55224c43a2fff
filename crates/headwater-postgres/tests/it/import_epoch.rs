//! Coming from epoch: its events, its checkpoints and its dead letters.

use crate::common::epoch::{self, store};
use crate::common::run;
use futures::TryStreamExt;
use headwater_core::{EventLog, RecordedEvent, StreamQuery};
use headwater_postgres::{
    GrantKind, ImportCheckpoints, ImportDeadLetters, ImportError, ImportFollow, ImportOptions, ImportSource, Imported,
    ImportedSubscriber, LogOptions, PgLog,
};
use headwater_testing::TestDatabase;
use sqlx::{AssertSqlSafe, PgConnection};
use uuid::Uuid;

async fn shop() -> (TestDatabase, PgLog, PgConnection) {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let mut session = db.session().await;
    run(&mut session, epoch::TABLES).await;
    (db, log, session)
}

/// With checkpoints and dead letters.
fn options(follow: Option<ImportFollow>) -> ImportOptions {
    ImportOptions {
        checkpoints: Some(ImportCheckpoints::table("epoch_event_bus_checkpoints")),
        dead_letters: Some(ImportDeadLetters::table("epoch_event_bus_dlq")),
        ..epoch::options(follow)
    }
}

async fn import(log: &PgLog, options: &ImportOptions) -> Result<Imported, ImportError> {
    log.import(None, options, |_| ()).await
}

/// Consumes all that a subscriber gets now, in order, as old sequences.
async fn consume(session: &mut PgConnection, subscriber: &str) -> Vec<i64> {
    let mut all = Vec::new();
    loop {
        let page: Vec<(Option<String>, i64, i32, i64)> = sqlx::query_as(
            "SELECT e.cursor, (e.headers ->> 'source_sequence')::bigint, p.partition, p.term
               FROM headwater.lease_partitions('shop', $1, '018f0000-0000-7000-8000-0000000000aa', lease => '10 minutes') p
              CROSS JOIN LATERAL headwater.next_events('shop', $1, p.partition, p.term) e",
        )
        .bind(subscriber)
        .fetch_all(&mut *session)
        .await
        .unwrap();
        let Some((cursor, _, partition, term)) = page.last().cloned() else { return all };
        all.extend(page.iter().map(|(_, sequence, ..)| sequence));
        sqlx::query("SELECT headwater.settle('shop', $1, $2, $3, $4)")
            .bind(subscriber)
            .bind(partition)
            .bind(term)
            .bind(cursor)
            .execute(&mut *session)
            .await
            .unwrap();
    }
}

async fn texts(session: &mut PgConnection, query: &str) -> Vec<String> {
    sqlx::query_scalar(AssertSqlSafe(query.to_owned())).fetch_all(session).await.unwrap()
}

/// All subscribers and letters, as they are stored.
async fn stored(session: &mut PgConnection) -> Vec<String> {
    texts(session, "SELECT s::text FROM headwater_private.subscribers s UNION ALL SELECT d::text FROM headwater_private.dead_letters d ORDER BY 1").await
}

async fn sound(session: &mut PgConnection) {
    let faults = texts(session, "SELECT f::text FROM headwater.faults('shop') f UNION ALL
                                 SELECT a::text FROM headwater.audit_subscribers('shop') a WHERE in_log <> settled OR sums_differ_by <> 0").await;
    assert!(faults.is_empty(), "{faults:?}");
}

#[tokio::test]
async fn streams_versions_times_and_actors_come_along() {
    let (_db, log, mut session) = shop().await;
    store(&mut session, 1, 1..=12).await;
    run(
        &mut session,
        "UPDATE public.events SET actor_id = '018f0000-0000-7000-8000-000000000001' WHERE global_sequence = 4",
    )
    .await;
    let options = log.epoch_import(None, None).await.unwrap();
    assert_eq!((options.name.as_str(), options.source.tables[0].as_str()), ("epoch", "events"));
    assert_eq!(options.checkpoints, Some(ImportCheckpoints::table("epoch_event_bus_checkpoints")));
    assert_eq!(options.dead_letters, Some(ImportDeadLetters::table("epoch_event_bus_dlq")));
    assert_eq!(import(&log, &options).await.unwrap().events, 12);
    let stream = Uuid::from_u128(1).to_string();
    let events: Vec<RecordedEvent> = log.read_stream(StreamQuery::new(stream)).try_collect().await.unwrap();
    assert_eq!(events.len(), 12);
    let fourth = &events[3];
    assert_eq!((fourth.headers["source_sequence"].as_str(), fourth.data_text()), ("4", "{\"sequence\": 4}"));
    assert_eq!(fourth.actor_id.as_deref(), Some("018f0000-0000-7000-8000-000000000001"));
    let same = "SELECT count(*)::text FROM headwater_private.events e JOIN public.events o
                    ON o.id::text = e.headers ->> 'source_id' AND o.created_at = e.created_at AND o.stream_version = e.stream_version";
    assert_eq!(texts(&mut session, same).await, ["12"]);
    // By the names that it has now, too.
    run(&mut session, "ALTER TABLE public.events RENAME TO epoch_events; ALTER TABLE public.epoch_event_bus_dlq RENAME TO event_bus_dlq; DROP TABLE public.epoch_event_bus_checkpoints").await;
    let renamed = log.epoch_import(None, None).await.unwrap();
    assert_eq!(renamed.source.tables, ["epoch_events"]);
    assert_eq!((renamed.checkpoints, renamed.dead_letters), (None, Some(ImportDeadLetters::table("event_bus_dlq"))));
    let named = log.epoch_import(None, Some("public.mine")).await.unwrap();
    assert_eq!(named.source, ImportSource::epoch("public.mine"));
    run(&mut session, "DROP TABLE public.epoch_events").await;
    assert!(
        matches!(log.epoch_import(None, None).await, Err(ImportError::Invalid(said)) if said.contains("epoch_events"))
    );
}

#[tokio::test]
async fn subscribers_go_on_where_they_stopped() {
    let (_db, log, mut session) = shop().await;
    // Events that the namespace has already are not theirs.
    run(&mut session, "SELECT headwater.emit('shop', 'Other') FROM generate_series(1, 3)").await;
    store(&mut session, 1, 1..=10).await;
    run(&mut session, "SELECT nextval('public.events_global_sequence_seq') FROM generate_series(1, 5)").await;
    store(&mut session, 1, 11..=25).await;
    run(
        &mut session,
        "INSERT INTO public.epoch_event_bus_checkpoints VALUES
        ('projection:new', 0), ('projection:seven', 7), ('projection:gap', 12), ('saga:last', 30), ('saga:beyond', 99)",
    )
    .await;
    let done = import(&log, &options(None)).await.unwrap();
    let at =
        |id: &str, position| ImportedSubscriber { subscriber_id: id.into(), position, late_events: 0, is_new: true };
    assert_eq!(
        done.subscribers,
        [
            at("projection:gap", 13),
            at("projection:new", 3),
            at("projection:seven", 10),
            at("saga:beyond", 28),
            at("saga:last", 28),
        ]
    );
    assert_eq!((done.dead_letters, done.dead_letters_without_event), (0, 0));
    sound(&mut session).await;

    let before = stored(&mut session).await;
    let again = import(&log, &options(None)).await.unwrap();
    assert!(again.subscribers.iter().all(|subscriber| !subscriber.is_new), "{again:?}");
    assert_eq!(stored(&mut session).await, before, "a second run changes nothing");

    store(&mut session, 1, 26..=27).await;
    run(&mut session, "UPDATE public.epoch_event_bus_checkpoints SET last_global_sequence = 1").await;
    assert_eq!(import(&log, &options(None)).await.unwrap().new_events, 2);
    assert_eq!(stored(&mut session).await, before, "those that are there stay where they are");
    let after = |first: i64| (1..=10).chain(16..=32).filter(|sequence| *sequence > first).collect::<Vec<i64>>();
    for (subscriber, checkpoint) in
        [("projection:new", 0), ("projection:seven", 7), ("projection:gap", 12), ("saga:last", 30), ("saga:beyond", 30)]
    {
        assert_eq!(consume(&mut session, subscriber).await, after(checkpoint), "{subscriber}");
    }
    sound(&mut session).await;
}

/// A row that committed after others with a higher sequence: the old bus may have passed it, and
/// does not come back to it.
#[tokio::test]
async fn an_event_that_the_old_bus_may_have_passed_is_delivered() {
    let (db, log, mut session) = shop().await;
    store(&mut session, 1, 1..=2).await;
    import(&log, &options(Some(ImportFollow::UntilCaughtUp))).await.unwrap();
    let mut slow = db.session().await;
    run(&mut slow, "BEGIN; SELECT public.store(2, 1)").await;
    store(&mut session, 1, 3..=4).await;
    // It is not waited for without end, here or there: their checkpoint is 5 when 3 commits.
    import(&log, &options(Some(ImportFollow::UntilCaughtUp))).await.unwrap();
    run(
        &mut session,
        "INSERT INTO public.epoch_event_bus_checkpoints VALUES ('ahead', 5), ('behind', 4), ('start', 2)",
    )
    .await;
    run(&mut slow, "COMMIT").await;
    store(&mut session, 2, 2..=3).await;
    assert_eq!(stored(&mut session).await.len(), 0, "subscribers come last");
    let done = import(&log, &options(Some(ImportFollow::Finish))).await.unwrap();
    assert_eq!(done.events, 7);
    let at = |id: &str, position, late_events| ImportedSubscriber {
        subscriber_id: id.into(),
        position,
        late_events,
        is_new: true,
    };
    assert_eq!(done.subscribers, [at("ahead", 5, 1), at("behind", 3, 0), at("start", 2, 0)]);
    sound(&mut session).await;
    // Its stream's next version comes after it.
    assert_eq!(consume(&mut session, "ahead").await, [3, 6, 7]);
    assert_eq!(consume(&mut session, "behind").await, [5, 3, 6, 7]);
    assert_eq!(consume(&mut session, "start").await, [4, 5, 3, 6, 7]);
    sound(&mut session).await;
}

/// Events of the application's own between imported ones were not delivered by the old bus.
#[tokio::test]
async fn events_that_were_not_imported_are_never_skipped() {
    let (_db, log, mut session) = shop().await;
    store(&mut session, 1, 1..=2).await;
    import(&log, &options(Some(ImportFollow::UntilCaughtUp))).await.unwrap();
    run(&mut session, "SELECT headwater.emit('shop', 'Own', headers => '{\"source_sequence\": \"1\"}')").await;
    store(&mut session, 1, 3..=4).await;
    run(&mut session, "INSERT INTO public.epoch_event_bus_checkpoints VALUES ('all', 4)").await;
    let done = import(&log, &options(Some(ImportFollow::Finish))).await.unwrap();
    assert_eq!(done.subscribers[0].position, 2);
    assert_eq!(consume(&mut session, "all").await, [1, 3, 4]);
}

#[tokio::test]
async fn dead_letters_come_along_and_can_be_redriven() {
    let (_db, log, mut session) = shop().await;
    store(&mut session, 1, 1..=5).await;
    run(&mut session, "
        INSERT INTO public.epoch_event_bus_checkpoints VALUES ('orders', 5);
        INSERT INTO public.epoch_event_bus_dlq (subscriber_id, event_id, global_sequence, error_message, retry_count, created_at, last_retry_at)
        SELECT 'orders', id, global_sequence, 'it broke', 3, '2026-01-02 03:04:05+00', '2026-01-02 03:04:09+00' FROM public.events WHERE global_sequence = 3;
        INSERT INTO public.epoch_event_bus_dlq (subscriber_id, event_id, global_sequence) SELECT s, id, global_sequence FROM public.events, unnest(ARRAY['orders', 'nobody']) s WHERE global_sequence = 4;
        INSERT INTO public.epoch_event_bus_dlq (subscriber_id, event_id, global_sequence) VALUES ('orders', gen_random_uuid(), 2)").await;
    let done = import(&log, &options(None)).await.unwrap();
    assert_eq!((done.dead_letters, done.dead_letters_without_event), (3, 1));
    let letter: serde_json::Value = sqlx::query_scalar(
        "SELECT to_jsonb(d) FROM headwater.read_dead_letters('shop', 'orders') d WHERE global_sequence = 3",
    )
    .fetch_one(&mut session)
    .await
    .unwrap();
    assert_eq!((&letter["state"], &letter["error"]), (&"dead".into(), &"it broke".into()), "{letter}");
    assert_eq!(letter["created_at"].as_str().map(|at| at.starts_with("2026-01-02T03:04:05")), Some(true), "{letter}");
    assert_eq!(letter["attempts"].as_array().map(Vec::len), Some(3), "{letter}");
    assert_eq!(
        (&letter["attempts"][2]["errors"][0], &letter["event"]["data"]["sequence"]),
        (&"it broke".into(), &3.into())
    );
    sound(&mut session).await;

    let before = stored(&mut session).await;
    let again = import(&log, &options(None)).await.unwrap();
    assert_eq!((again.dead_letters, again.dead_letters_without_event), (0, 1));
    assert_eq!(stored(&mut session).await, before, "a second run changes nothing");
    assert_eq!(consume(&mut session, "orders").await, [0; 0], "all is handled, or dead");
    run(&mut session, "SELECT headwater.redrive('shop', 'orders', global_sequence => 3); SELECT headwater.discard('shop', 'orders', global_sequence => 4)").await;
    assert_eq!(consume(&mut session, "orders").await, [3]);
    let states = "SELECT global_sequence || ' ' || state FROM headwater_private.dead_letters WHERE subscriber_id = 'orders' ORDER BY 1";
    assert_eq!(texts(&mut session, states).await, ["3 redriven", "4 discarded"]);
    import(&log, &options(None)).await.unwrap();
    assert_eq!(texts(&mut session, states).await, ["3 redriven", "4 discarded"], "what became of them stays");
    sound(&mut session).await;
}

/// More than a page of them.
#[tokio::test]
async fn many_dead_letters_come_along() {
    let (_db, log, mut session) = shop().await;
    run(&mut session, "SELECT public.store(1, n) FROM generate_series(1, 700) n;
                       INSERT INTO public.epoch_event_bus_dlq (subscriber_id, event_id, global_sequence) SELECT 's' || n % 3, id, 1 FROM public.events, generate_series(1, 2) n").await;
    let big = ImportOptions { batch: 1000, ..options(None) };
    assert_eq!(import(&log, &big).await.unwrap().dead_letters, 1400);
}

#[tokio::test]
async fn what_cannot_be_carried_over_is_said_before_anything_is_imported() {
    let (_db, log, mut session) = shop().await;
    store(&mut session, 1, 1..=3).await;
    let refused = async |options: ImportOptions, said: &str| {
        let refused = import(&log, &options).await;
        assert!(matches!(&refused, Err(ImportError::Invalid(message)) if message.contains(said)), "{refused:?}");
    };
    let checkpoints = |table: &str| Some(ImportCheckpoints::table(table));
    refused(ImportOptions { checkpoints: checkpoints("missing"), ..options(None) }, "no table \"missing\"").await;
    refused(ImportOptions { checkpoints: checkpoints("events"), ..options(None) }, "no column \"subscriber_id\"").await;
    let letters = Some(ImportDeadLetters::table("epoch_event_bus_checkpoints"));
    refused(ImportOptions { dead_letters: letters, ..options(None) }, "no column \"event_id\"").await;
    let source = ImportSource { sequence: None, ..ImportSource::epoch("events") };
    refused(ImportOptions { source, ..options(None) }, "which column of the source has the sequence").await;
    let source = ImportSource { order_by: vec!["created_at".into()], ..ImportSource::epoch("events") };
    refused(ImportOptions { source, ..options(None) }, "ordered by \"global_sequence\"").await;
    assert!(texts(&mut session, "SELECT name FROM headwater_private.imports").await.is_empty());
}

#[tokio::test]
async fn only_an_admin_may_carry_over() {
    let (db, log, mut session) = shop().await;
    store(&mut session, 1, 1..=3).await;
    import(&log, &epoch::options(None)).await.unwrap();
    run(&mut session, "INSERT INTO public.epoch_event_bus_checkpoints VALUES ('orders', 2)").await;
    let id = log.info().id;
    for kind in [GrantKind::Producer, GrantKind::Consumer] {
        let role = db.role().await;
        db.database.grant("shop", &role.name, kind).await.unwrap();
        let mut theirs = role.session().await;
        for call in [
            format!("headwater.import_subscribers({id}, 'old', ARRAY['orders'], ARRAY[1::bigint])"),
            format!("headwater.import_letters({id}, '{{}}', '{{}}', '{{}}', '{{}}', '{{}}', '{{}}')"),
            format!("headwater.import_follow({id}, 'old', 'token')"),
            format!("headwater.import_follow_move({id}, 'old', 'token', ARRAY['preparing'], 'ended')"),
            format!("headwater.import_follow_advance({id}, 'old', 'token', 0, NULL, NULL, 0, 0, 0)"),
        ] {
            assert_eq!(
                crate::common::sqlstate_of(&mut theirs, &format!("SELECT {call}")).await,
                "WH015",
                "{kind}: {call}"
            );
        }
        drop(theirs);
        db.database.revoke("shop", &role.name, None).await.unwrap();
        db.drop_role(role).await;
    }
    let role = db.role().await;
    db.database.grant("shop", &role.name, GrantKind::Admin).await.unwrap();
    let tables = "public.events, public.epoch_event_bus_checkpoints, public.epoch_event_bus_dlq";
    run(&mut session, &format!("GRANT SELECT ON {tables} TO {}", role.name)).await;
    let mine = role.database().await.open_log("shop", LogOptions::default()).await.unwrap();
    assert_eq!(import(&mine, &options(None)).await.unwrap().subscribers.len(), 1);
    mine.close().await;
    run(&mut session, &format!("REVOKE ALL ON {tables} FROM {}", role.name)).await;
    db.database.revoke("shop", &role.name, None).await.unwrap();
    db.drop_role(role).await;
}
