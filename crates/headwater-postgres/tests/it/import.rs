//! Imports from tables, from pgmq and from message-db.

use crate::common::{emit, run};
use futures::TryStreamExt;
use headwater_core::{EventLog, RecordedEvent, StreamQuery};
use headwater_postgres::{
    GrantKind, ImportError, ImportField, ImportOptions, ImportSource, Imported, LogOptions, PgLog,
};
use headwater_testing::TestDatabase;
use sqlx::Connection;

async fn shop() -> (TestDatabase, PgLog) {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    (db, log)
}

fn options(source: ImportSource) -> ImportOptions {
    ImportOptions { batch: 10, ..ImportOptions::new("old", source) }
}

async fn import(log: &PgLog, options: &ImportOptions) -> Result<Imported, ImportError> {
    log.import(None, options, |_| ()).await
}

async fn events(log: &PgLog) -> Vec<RecordedEvent> {
    log.read_all_events_since(0).try_collect().await.unwrap()
}

fn source_ids(events: &[RecordedEvent]) -> Vec<&str> {
    events.iter().map(|event| event.headers["source_id"].as_str()).collect()
}

/// 95 events of 5 orders, whose ids are not in the order of their times.
const OLD_EVENTS: &str = "
    CREATE TABLE public.events (id int PRIMARY KEY, kind text NOT NULL, payload json, \"order\" text, at timestamptz NOT NULL, customer text,
                                meta jsonb, correlation uuid);
    INSERT INTO public.events
    SELECT 1000 - n, 'Kind' || n % 3, json_build_object('n', n), 'order-' || n % 5, '2020-01-01'::timestamptz + n / 2 * interval '1 s',
           'customer-' || n % 7, jsonb_build_object('n', n, 'by', 'ada'), '018f0000-0000-7000-8000-000000000001'
      FROM generate_series(1, 95) n";

fn old_events() -> ImportSource {
    ImportSource {
        event_type: ImportField::Column("kind".into()),
        data: Some("payload".into()),
        stream: Some("order".into()),
        time: Some("at".into()),
        key: Some("customer".into()),
        metadata: Some("meta".into()),
        correlation: Some("correlation".into()),
        order_by: vec!["at".into()],
        ..ImportSource::table("public.events")
    }
}

#[tokio::test]
async fn a_table_comes_in_by_its_order_and_with_all_its_fields() {
    let (db, log) = shop().await;
    let mut session = db.session().await;
    run(&mut session, OLD_EVENTS).await;
    emit(&mut session, "shop", "OfOurOwn").await;
    let mut told = Vec::new();
    let imported = log.import(None, &options(old_events()), |at| told.push(at.events)).await.unwrap();
    assert_eq!((imported.events, imported.new_events), (95, 95));
    assert_eq!(told, [10, 20, 30, 40, 50, 60, 70, 80, 90, 95]);

    let all = events(&log).await.split_off(1);
    let by_time: Vec<String> =
        sqlx::query_scalar("SELECT id::text FROM public.events ORDER BY at, id").fetch_all(&mut session).await.unwrap();
    assert_eq!(source_ids(&all), by_time);
    let one = &all[10];
    let n: i32 = 1000 - one.headers["source_id"].parse::<i32>().unwrap();
    assert_eq!(one.event_type, format!("Kind{}", n % 3));
    assert_eq!(one.data_text(), format!("{{\"n\": {n}}}"));
    assert_eq!(one.stream_id.as_deref(), Some(format!("order-{}", n % 5).as_str()));
    assert_eq!(one.key.as_deref(), Some(format!("customer-{}", n % 7).as_str()));
    assert_eq!(one.correlation_id.map(|id| id.to_string()).as_deref(), Some("018f0000-0000-7000-8000-000000000001"));
    assert_eq!(
        (one.headers["n"].as_str(), one.headers["by"].as_str(), one.headers["import"].as_str()),
        (n.to_string().as_str(), "ada", "old")
    );
    assert_eq!(one.created_at.timestamp(), 1_577_836_800 + i64::from(n / 2));
    assert!(one.recorded_at.unwrap() > one.created_at);
    assert_eq!(one.id.get_version_num(), 7);

    // Again: nothing. After more rows: these.
    assert_eq!(import(&log, &options(old_events())).await.unwrap(), Imported { new_events: 0, ..imported });
    run(&mut session, "INSERT INTO public.events SELECT 5000 + n, 'New', 'null', 'order-1', now() + n * interval '1 s' FROM generate_series(1, 12) n").await;
    let more = import(&log, &options(old_events())).await.unwrap();
    assert_eq!((more.events, more.new_events), (107, 12));
    let verified = "SELECT events = 107 AND verified_at IS NOT NULL FROM headwater_private.imports";
    assert!(sqlx::query_scalar::<_, bool>(verified).fetch_one(&mut session).await.unwrap());
}

#[tokio::test]
async fn a_table_of_another_database_with_odd_names_comes_in() {
    let (db, log) = shop().await;
    let old = TestDatabase::create_empty().await;
    let table = "CREATE SCHEMA \"Old \"\"one\"\"\"; CREATE TABLE \"Old \"\"one\"\"\".\"the Events\" (\"my id\" text, \"D\" text, happened timestamp);
                 INSERT INTO \"Old \"\"one\"\"\".\"the Events\" SELECT 'it''s ' || n, '[1.0, \"\\u00e9\"]', '2020-01-01 12:00' FROM generate_series(1, 25) n";
    run(&mut old.session().await, table).await;
    let source = ImportSource {
        id: "my id".into(),
        event_type: ImportField::Constant("It's \\ 1".into()),
        data: Some("D".into()),
        time: Some("happened".into()),
        ..ImportSource::table("\"Old \"\"one\"\"\".\"the Events\"")
    };
    let imported = log.import(Some(&old.url), &options(source), |_| ()).await.unwrap();
    assert_eq!(imported.new_events, 25);
    let all = events(&log).await;
    assert_eq!((all[0].event_type.as_str(), all[0].data_text()), ("It's \\ 1", "[1.0, \"é\"]"));
    assert_eq!(all[0].created_at.to_rfc3339(), "2020-01-01T12:00:00+00:00");
    assert!(log.import(Some("nonsense"), &options(old_events()), |_| ()).await.is_err());
    drop(db);
}

/// As message-db's schema has it.
const MESSAGE_DB: &str = "
    CREATE SCHEMA message_store;
    CREATE TABLE message_store.messages (
        global_position bigserial NOT NULL, position bigint NOT NULL, time timestamp without time zone DEFAULT (now() AT TIME ZONE 'utc') NOT NULL,
        stream_name text NOT NULL, type text NOT NULL, data jsonb, metadata jsonb, id uuid NOT NULL DEFAULT gen_random_uuid());
    ALTER TABLE message_store.messages ADD PRIMARY KEY (global_position);
    INSERT INTO message_store.messages (stream_name, position, type, data, metadata)
    SELECT 'account-' || n % 4, n / 4, 'Deposited', jsonb_build_object('amount', n), jsonb_build_object('schemaVersion', '1')
      FROM generate_series(0, 49) n";

#[tokio::test]
async fn message_db_keeps_its_streams_and_versions() {
    let (db, log) = shop().await;
    let mut session = db.session().await;
    run(&mut session, MESSAGE_DB).await;
    let source = ImportSource { keep_ids: true, ..ImportSource::message_db() };
    assert_eq!(import(&log, &options(source)).await.unwrap().events, 50);
    let stream: Vec<RecordedEvent> = log.read_stream(StreamQuery::new("account-1")).try_collect().await.unwrap();
    let amounts: Vec<_> = stream.iter().map(|event| event.data_text().to_owned()).collect();
    assert_eq!(amounts.len(), 13);
    assert_eq!((amounts[0].as_str(), amounts[12].as_str()), ("{\"amount\": 1}", "{\"amount\": 49}"));
    let same = "SELECT count(*) FROM headwater_private.events e JOIN message_store.messages m
                    ON m.id = e.event_id AND m.position + 1 = e.stream_version AND m.stream_name = e.stream_id
                   AND m.time AT TIME ZONE 'UTC' = e.created_at";
    assert_eq!(sqlx::query_scalar::<_, i64>(same).fetch_one(&mut session).await.unwrap(), 50);
}

#[tokio::test]
async fn a_stream_that_is_there_already_refuses_versions_that_would_change() {
    let (db, log) = shop().await;
    let mut session = db.session().await;
    run(&mut session, MESSAGE_DB).await;
    run(&mut session, "SELECT headwater.append('shop', 'account-3', '{\"type\": \"A\"}')").await;
    let refused = import(&log, &options(ImportSource::message_db())).await;
    assert!(
        matches!(&refused, Err(ImportError::Row { reason, .. }) if reason.contains("would become version 2")),
        "{refused:?}"
    );
    assert_eq!(events(&log).await.len(), 1, "nothing of the batch");
}

/// As pgmq makes them.
const PGMQ: &str = "
    CREATE SCHEMA pgmq;
    CREATE TABLE pgmq.q_jobs (msg_id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, read_ct int DEFAULT 0 NOT NULL,
        enqueued_at timestamptz DEFAULT now() NOT NULL, vt timestamptz NOT NULL, message jsonb);
    CREATE TABLE pgmq.a_jobs (msg_id bigint PRIMARY KEY, read_ct int DEFAULT 0 NOT NULL, enqueued_at timestamptz DEFAULT now() NOT NULL,
        archived_at timestamptz DEFAULT now() NOT NULL, vt timestamptz NOT NULL, message jsonb);
    INSERT INTO pgmq.q_jobs (vt, message) SELECT now(), jsonb_build_object('eventType', 'job.' || n % 2, 'payload', n) FROM generate_series(1, 45) n;
    WITH done AS (DELETE FROM pgmq.q_jobs WHERE msg_id <= 22 RETURNING *)
    INSERT INTO pgmq.a_jobs (msg_id, read_ct, enqueued_at, vt, message) SELECT msg_id, 1, enqueued_at, vt, message FROM done";

#[tokio::test]
async fn a_queue_of_pgmqs_comes_in_with_or_without_its_archive() {
    let (db, log) = shop().await;
    run(&mut db.session().await, PGMQ).await;
    assert_eq!(import(&log, &options(ImportSource::pgmq("jobs", false))).await.unwrap().events, 23);
    assert_eq!(events(&log).await[0].event_type, "Message");
    let other = db.log("other").await;
    let envelopes = ImportSource {
        event_type: ImportField::DataField("eventType".into()),
        data_field: Some("payload".into()),
        ..ImportSource::pgmq("jobs", true)
    };
    assert_eq!(import(&other, &options(envelopes)).await.unwrap().events, 45);
    let all = events(&other).await;
    let got: Vec<_> = all.iter().map(|event| (event.event_type.as_str(), event.data_text())).collect();
    assert_eq!((got[0], got[44]), (("job.1", "1"), ("job.1", "45")), "in the order of the queue");
}

#[tokio::test]
async fn what_cannot_be_imported_is_said() {
    let (db, log) = shop().await;
    let mut session = db.session().await;
    run(&mut session, OLD_EVENTS).await;
    let invalid = async |source: ImportSource, said: &str| {
        let refused = import(&log, &options(source)).await;
        assert!(matches!(&refused, Err(ImportError::Invalid(message)) if message.contains(said)), "{refused:?}");
    };
    invalid(ImportSource::table("public.missing"), "no table \"public.missing\"").await;
    invalid(ImportSource::table("public.events"), "no column \"event_type\": it has at, correlation, customer,").await;
    assert!(matches!(
        import(&log, &ImportOptions { batch: 0, ..options(old_events()) }).await,
        Err(ImportError::Invalid(_))
    ));
    assert!(matches!(
        import(&log, &ImportOptions { name: String::new(), ..options(old_events()) }).await,
        Err(ImportError::Invalid(_))
    ));

    run(&mut session, "CREATE TABLE public.odd (id int, event_type text, data text); INSERT INTO public.odd VALUES (1, 'A', '{}'), (2, NULL, '{}')").await;
    let row = |refused: Result<Imported, ImportError>, id: &str, said: &str| {
        let fits =
            matches!(&refused, Err(ImportError::Row { id: there, reason }) if there == id && reason.contains(said));
        assert!(fits, "{refused:?}");
    };
    let odd = ImportOptions { name: "odd".into(), ..options(ImportSource::table("public.odd")) };
    row(import(&log, &odd).await, "2", "its event type is NULL");
    run(&mut session, "UPDATE public.odd SET event_type = 'B', data = 'no json'").await;
    row(import(&log, &odd).await, "1", "");
    let kept = ImportSource { keep_ids: true, data: None, ..ImportSource::table("public.odd") };
    row(import(&log, &ImportOptions { name: "kept".into(), ..options(kept) }).await, "1", "no UUID");
    assert_eq!(events(&log).await.len(), 0);

    import(&log, &options(old_events())).await.unwrap();
    let other = ImportSource { key: None, ..old_events() };
    let differs = import(&log, &options(other)).await;
    assert!(matches!(differs, Err(ImportError::Differs(_))), "{differs:?}");
}

/// Every reader misses rows that appear behind the page that it reads. The import must report this.
#[tokio::test]
async fn a_row_that_appears_behind_is_found_out_and_so_is_a_changed_one() {
    let (db, log) = shop().await;
    let mut session = db.session().await;
    run(&mut session, OLD_EVENTS).await;
    import(&log, &options(old_events())).await.unwrap();
    run(&mut session, "UPDATE public.events SET payload = '0' WHERE id = 950").await;
    let changed = import(&log, &options(old_events())).await;
    assert!(matches!(changed, Err(ImportError::Mismatch { in_source: 95, imported: 95, .. })), "{changed:?}");
    run(&mut session, "UPDATE public.events SET payload = '{\"n\": 50}' WHERE id = 950").await;
    import(&log, &options(old_events())).await.unwrap();
    run(&mut session, "INSERT INTO public.events VALUES (1, 'Late', 'null', 'order-1', '2019-01-01')").await;
    let behind = import(&log, &options(old_events())).await;
    assert!(matches!(behind, Err(ImportError::Mismatch { in_source: 96, imported: 95, .. })), "{behind:?}");
}

#[tokio::test]
async fn two_runs_at_once_do_not_both_go_on() {
    let (db, log) = shop().await;
    let mut session = db.session().await;
    run(&mut session, OLD_EVENTS).await;
    // The progress callback moves the import forward, as another run would. It uses its own thread,
    // because the callback cannot wait.
    let url = db.url.clone();
    let move_on = move || {
        let url = url.clone();
        let moving = std::thread::spawn(move || {
            tokio::runtime::Runtime::new().unwrap().block_on(async {
                let mut session = sqlx::PgConnection::connect(&url).await.unwrap();
                run(&mut session, "UPDATE headwater_private.imports SET cursor = ARRAY['2020-01-01', '1']").await;
            });
        });
        moving.join().unwrap();
    };
    let refused = log.import(None, &options(old_events()), |_| move_on()).await;
    assert!(matches!(refused, Err(ImportError::Busy(_))), "{refused:?}");
    assert_eq!(events(&log).await.len(), 10);
}

#[tokio::test]
async fn large_payloads_come_in_smaller_batches() {
    let (db, log) = shop().await;
    let mut session = db.session().await;
    let large = "CREATE TABLE public.large (id int PRIMARY KEY, event_type text, data jsonb);
                 INSERT INTO public.large SELECT n, 'A', to_jsonb(repeat('x', 1000000)) FROM generate_series(1, 20) n";
    run(&mut session, large).await;
    let mut told = Vec::new();
    let options = ImportOptions { batch: 1000, ..options(ImportSource::table("public.large")) };
    log.import(None, &options, |at| told.push(at.events)).await.unwrap();
    assert_eq!(told, [9, 18, 20], "8 MiB and what goes over");
}

#[tokio::test]
async fn an_admin_may_import_and_others_may_not() {
    let (db, log) = shop().await;
    run(&mut db.session().await, OLD_EVENTS).await;
    for (kind, may) in [(GrantKind::Producer, false), (GrantKind::Consumer, false), (GrantKind::Admin, true)] {
        let role = db.role().await;
        db.database.grant("shop", &role.name, kind).await.unwrap();
        run(&mut db.session().await, &format!("GRANT SELECT ON public.events TO {}", role.name)).await;
        let mine = role.database().await.open_log("shop", LogOptions::default()).await.unwrap();
        assert_eq!(import(&mine, &options(old_events())).await.is_ok(), may, "{kind}");
        mine.close().await;
        run(&mut db.session().await, &format!("REVOKE ALL ON public.events FROM {}", role.name)).await;
        db.database.revoke("shop", &role.name, None).await.unwrap();
        db.drop_role(role).await;
    }
    assert_eq!(events(&log).await.len(), 95);
}
