//! Imports from pgmq and message-db as they install themselves, filled by their own functions.

use std::path::{Path, PathBuf};

use crate::common::run;
use futures::TryStreamExt;
use headwater_core::{EventLog, RecordedEvent, StreamQuery};
use headwater_postgres::{ImportField, ImportOptions, ImportSource, PgLog};
use headwater_testing::TestDatabase;
use sqlx::PgConnection;

fn options(source: ImportSource) -> ImportOptions {
    ImportOptions { batch: 7, ..ImportOptions::new("old", source) }
}

async fn import(log: &PgLog, source: ImportSource) -> u64 {
    log.import(None, &options(source), |_| ()).await.unwrap().events
}

async fn events(log: &PgLog) -> Vec<RecordedEvent> {
    log.read_all_events_since(0).try_collect().await.unwrap()
}

/// The crate `pgmq` contains its SQL. The queue has messages that wait, that are read, that are
/// archived and that are deleted.
#[tokio::test]
async fn a_real_pgmq_comes_in_with_its_archive() {
    let db = TestDatabase::create().await;
    let mut session = db.session().await;
    pgmq::install::install_sql_from_embedded(db.database.pool()).await.expect("failed to install pgmq");
    run(
        &mut session,
        "SELECT pgmq.create('jobs');
         SELECT pgmq.send('jobs', jsonb_build_object('eventType', 'job.' || n % 2, 'payload', jsonb_build_object('n', n))) FROM generate_series(1, 40) n;
         SELECT pgmq.read('jobs', 300, 5);
         SELECT pgmq.archive('jobs', ARRAY[2, 4, 6, 8, 10, 40]::bigint[]);
         SELECT pgmq.delete('jobs', ARRAY[1, 3]::bigint[])",
    )
    .await;
    let envelopes = |archive| ImportSource {
        event_type: ImportField::DataField("eventType".into()),
        data_field: Some("payload".into()),
        ..ImportSource::pgmq("jobs", archive)
    };
    let waiting = db.log("waiting").await;
    assert_eq!(import(&waiting, ImportSource::pgmq("jobs", false)).await, 32);
    let all = db.log("everything").await;
    assert_eq!(import(&all, envelopes(true)).await, 38);
    let told: Vec<(String, String)> =
        events(&all).await.iter().map(|event| (event.event_type.clone(), event.data_text().to_owned())).collect();
    let numbers = (1..=40).filter(|n| ![1, 3].contains(n));
    let expected: Vec<_> = numbers.map(|n| (format!("job.{}", n % 2), format!("{{\"n\": {n}}}"))).collect();
    assert_eq!(told, expected, "in the order of the queue, whatever became of each");
    let times = "SELECT count(*) FROM headwater_private.events e JOIN headwater_private.namespaces n USING (namespace_id)
                   JOIN (SELECT msg_id, enqueued_at FROM pgmq.q_jobs UNION ALL SELECT msg_id, enqueued_at FROM pgmq.a_jobs) m
                     ON m.msg_id::text = e.headers ->> 'source_id' AND m.enqueued_at = e.created_at
                  WHERE n.namespace = 'everything'";
    assert_eq!(sqlx::query_scalar::<_, i64>(times).fetch_one(&mut session).await.unwrap(), 38);

    // Meanwhile the rest of the queue is archived. Imported messages stay imported, and new ones
    // come after them.
    run(&mut session, "SELECT pgmq.archive('jobs', ARRAY(SELECT msg_id FROM pgmq.q_jobs)); SELECT pgmq.send('jobs', '{\"eventType\": \"late\"}')")
        .await;
    let again = all.import(None, &options(envelopes(true)), |_| ()).await.unwrap();
    assert_eq!((again.events, again.new_events), (39, 1));
}

/// Where `scripts/test` puts message-db's own SQL.
fn message_db() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    cache.expect("a home").join("headwater/message-db-1.3.1/package/database")
}

async fn install_message_db(session: &mut PgConnection) {
    // Leave out its role, which all databases of the server would share, and pgcrypto, which only
    // servers older than 13 need.
    let folder = message_db();
    let texts = |part: &str| -> Vec<String> {
        let read = |path: &Path| std::fs::read_to_string(path).unwrap();
        let mut files: Vec<PathBuf> = std::fs::read_dir(folder.join(part))
            .unwrap_or_else(|error| panic!("no message-db in {}: scripts/test fetches it: {error}", folder.display()))
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort();
        files.iter().map(|path| read(path)).collect()
    };
    run(session, "SET check_function_bodies = off").await;
    for part in ["schema", "tables", "types", "functions", "indexes"] {
        for text in texts(part) {
            run(session, &text).await;
        }
    }
}

/// Version 1.3.1, from the npm package `@eventide/message-db`.
#[tokio::test]
async fn a_real_message_db_keeps_its_streams_and_versions() {
    let db = TestDatabase::create().await;
    let mut session = db.session().await;
    install_message_db(&mut session).await;
    run(
        &mut session,
        "SET search_path = message_store, public;
         SELECT write_message(gen_random_uuid()::text, 'account-' || n % 4, 'Deposited', jsonb_build_object('amount', n), jsonb_build_object('schemaVersion', '1'))
           FROM generate_series(0, 49) n;
         SELECT write_message(gen_random_uuid()::text, 'account:command-1', 'Deposit', '{}');
         RESET search_path",
    )
    .await;
    let log = db.log("accounts").await;
    assert_eq!(import(&log, ImportSource { keep_ids: true, ..ImportSource::message_db() }).await, 51);
    let stream: Vec<RecordedEvent> = log.read_stream(StreamQuery::new("account-1")).try_collect().await.unwrap();
    assert_eq!((stream.len(), stream[12].data_text()), (13, "{\"amount\": 49}"));
    assert_eq!(stream[0].headers["schemaVersion"], "1");
    let same = "SELECT count(*) FROM headwater_private.events e JOIN message_store.messages m
                    ON m.id = e.event_id AND m.position + 1 = e.stream_version AND m.stream_name = e.stream_id AND m.type = e.event_type
                   AND m.time AT TIME ZONE 'UTC' = e.created_at AND m.data = e.data";
    assert_eq!(sqlx::query_scalar::<_, i64>(same).fetch_one(&mut session).await.unwrap(), 51);
    let order = "SELECT array_agg(m.global_position ORDER BY e.global_sequence) = array_agg(m.global_position ORDER BY m.global_position)
                   FROM headwater_private.events e JOIN message_store.messages m ON m.id = e.event_id";
    assert!(sqlx::query_scalar::<_, bool>(order).fetch_one(&mut session).await.unwrap());
}
