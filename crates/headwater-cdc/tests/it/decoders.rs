//! Events from the WAL are the same, field by field, as events read from the log: with both
//! plugins, whatever the events contain.

use crate::common::Following;
use futures::TryStreamExt;
use headwater_cdc::{CdcOptions, LiveState, Plugin};
use headwater_core::{
    Append, Event, EventLog, ExpectedVersion, Json, LogQuery, NamespaceConfig, Ordering, RecordedEvent,
};
use headwater_postgres::{LogOptions, PgLog};
use headwater_testing::TestDatabase;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

fn plugins() -> Vec<Plugin> {
    // Other majors than Debian's may come without it; `scripts/test` installs it for that one.
    let wal2json = crate::common::has_wal2json();
    [Plugin::Pgoutput].into_iter().chain(wal2json.then_some(Plugin::Wal2json)).collect()
}

async fn streams(db: &TestDatabase, log: &PgLog) -> Vec<Following> {
    let mut streams = Vec::new();
    for plugin in plugins() {
        let options = CdcOptions { plugin, max_buffered_events: 100_000, ..CdcOptions::default() };
        streams.push(Following::start(db, log, options).await);
    }
    streams
}

async fn whole_log(log: &PgLog) -> Vec<RecordedEvent> {
    log.read_log(LogQuery::after(0)).try_collect().await.expect("failed to read the log")
}

/// Waits until each stream has so many events, and compares them with the log.
async fn same_as_the_log(streams: &[Following], log: &PgLog) {
    let expected = whole_log(log).await;
    for stream in streams {
        stream.received(expected.len()).await;
        let mut events = stream.take_all(expected.first().and_then(|event| event.global_sequence).unwrap_or(1) - 1);
        events.sort_by_key(|event| event.global_sequence);
        assert_eq!(events.len(), expected.len());
        for (live, read) in events.iter().zip(&expected) {
            assert_eq!(live, read, "{:?}", stream.plugin);
        }
    }
}

fn text() -> impl Strategy<Value = String> {
    // Whatever Unicode has but NUL, with what escaping has to deal with made frequent.
    let character = prop_oneof![
        4 => any::<char>().prop_filter("jsonb holds no NUL", |c| *c != '\0'),
        2 => prop::sample::select(vec!['"', '\\', '\'', '/', '\n', '\r', '\t', '\u{8}', '\u{1}', '\u{7f}', 'é', '\u{2028}', '\u{10ffff}']),
        4 => proptest::char::range('a', 'z'),
    ];
    proptest::collection::vec(character, 0..24).prop_map(|chars| chars.into_iter().collect())
}

fn name() -> impl Strategy<Value = String> {
    text().prop_map(|text| {
        let mut name: String = text.chars().filter(|c| !c.is_control()).collect();
        name.insert(0, 'n');
        name
    })
}

fn json() -> impl Strategy<Value = Json> {
    let number = prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        any::<f64>()
            .prop_filter("JSON has no such number", |number| number.is_finite())
            .prop_map(|number| format!("{number}")),
        "[1-9][0-9]{0,60}\\.[0-9]{1,60}",
        "-?[1-9]e-?[1-9][0-9]{0,2}",
    ];
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        number,
        text().prop_map(|text| serde_json::to_string(&text).unwrap()),
    ];
    let document = leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(","))),
            proptest::collection::vec((text(), inner), 0..4).prop_map(|items| {
                let pairs: Vec<_> = items
                    .into_iter()
                    .map(|(key, value)| format!("{}:{value}", serde_json::to_string(&key).unwrap()))
                    .collect();
                format!("{{{}}}", pairs.join(","))
            }),
        ]
    });
    document.prop_map(|text| Json::parse(text).expect("valid"))
}

fn event() -> impl Strategy<Value = Event> {
    let optional_id = || proptest::option::of(any::<u128>().prop_map(uuid::Uuid::from_u128));
    (
        name(),
        proptest::option::weighted(0.9, json()),
        proptest::option::of(name()),
        proptest::option::of(name()),
        (optional_id(), optional_id()),
        proptest::collection::btree_map(text(), text(), 0..3),
        1u32..1000,
        -60_000_000_000_000_000i64..200_000_000_000_000_000,
    )
        .prop_map(|(event_type, data, key, actor_id, ids, headers, schema_version, micros)| {
            let mut event = Event::raw(event_type, data.unwrap_or_else(Json::null));
            event.key = key;
            event.actor_id = actor_id;
            (event.correlation_id, event.causation_id) = ids;
            event.headers = headers;
            event.schema_version = schema_version;
            event.created_at = chrono::DateTime::from_timestamp_micros(micros).expect("in range");
            event
        })
}

#[tokio::test]
async fn any_event_comes_as_it_is_read() {
    for ordering in [Ordering::Sequence, Ordering::Gapless] {
        let db = TestDatabase::create().await;
        let log = db.log_with(NamespaceConfig::new("shop").ordering(ordering), LogOptions::default()).await;
        let streams = streams(&db, &log).await;
        let mut runner = TestRunner::deterministic();
        for batch in 0..40 {
            let events: Vec<Event> = (0..5).map(|_| event().new_tree(&mut runner).unwrap().current()).collect();
            let append = match batch % 2 {
                0 => events.into_iter().fold(Append::new(), Append::event),
                _ => Append::to_stream(format!("stream-{batch}"), ExpectedVersion::NoStream, events),
            };
            log.append(append).await.expect("failed to append");
        }
        same_as_the_log(&streams, &log).await;
    }
}

#[tokio::test]
async fn large_payloads_come_whole() {
    let db = TestDatabase::create().await;
    let log = db.log_with(NamespaceConfig::new("shop").max_payload_bytes(4 * 1024 * 1024), LogOptions::default()).await;
    let streams = streams(&db, &log).await;
    // What does not compress is stored out of line.
    let mut runner = TestRunner::deterministic();
    let noise: String =
        (0..64 * 1024).map(|_| format!("{:016x}", any::<u64>().new_tree(&mut runner).unwrap().current())).collect();
    assert_eq!(noise.len(), 1024 * 1024);
    for data in [noise.clone(), "x".repeat(1024 * 1024), noise.repeat(2)] {
        log.append(Event::raw("Large", serde_json::json!({ "data": data })).into()).await.expect("failed to append");
    }
    same_as_the_log(&streams, &log).await;
}

#[tokio::test]
async fn a_transaction_of_5000_events_comes_whole_beside_small_ones() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let streams = streams(&db, &log).await;
    let large = (0..5_000).fold(Append::new(), |append, n| append.event(Event::raw("Many", serde_json::json!(n))));
    let small = async {
        for n in 0..50 {
            log.append(Event::raw("Small", serde_json::json!(n)).into()).await.expect("failed to append");
        }
    };
    let (done, ()) = tokio::join!(log.append(large), small);
    done.expect("failed to append");
    same_as_the_log(&streams, &log).await;
}

#[tokio::test]
async fn other_namespaces_and_what_was_rolled_back_do_not_come() {
    let db = TestDatabase::create().await;
    let (log, other) = (db.log("shop").await, db.log("billing").await);
    let streams = streams(&db, &log).await;
    for n in 0..10 {
        other.append(Event::raw("Theirs", serde_json::json!(n)).into()).await.expect("failed to append");
        let mut session = db.session().await;
        let mut transaction = sqlx::Connection::begin(&mut session).await.unwrap();
        log.append_in(&mut transaction, &Event::raw("Never", Json::null()).into()).await.expect("failed to append");
        transaction.rollback().await.unwrap();
        log.append(Event::raw("Ours", serde_json::json!(n)).into()).await.expect("failed to append");
    }
    let expected = whole_log(&log).await;
    assert_eq!(expected.len(), 10);
    for stream in &streams {
        stream.received(10).await;
        let live: Vec<_> =
            expected.iter().flat_map(|event| stream.take_all(event.global_sequence.expect("stored") - 1)).collect();
        assert_eq!(live, expected);
        assert_eq!(stream.feed.status().received, 10);
    }
}

#[tokio::test]
async fn a_month_that_begins_later_is_in_it() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let streams = streams(&db, &log).await;
    log.append(Event::raw("Now", Json::null()).into()).await.expect("failed to append");
    // A leaf that is made while the stream runs, with a row of its month.
    let row = "SELECT headwater_private.create_leaf((SELECT namespace_id FROM headwater_private.namespaces), '2031-05-01');
               INSERT INTO headwater_private.events (global_sequence, transaction_id, created_at, recorded_at, namespace_id, event_id,
                                             event_type, data)
               SELECT nextval(n.sequence), pg_current_xact_id()::text::bigint, now(), '2031-05-05', n.namespace_id,
                      gen_random_uuid(), 'Later', '{}' FROM headwater_private.namespaces n";
    sqlx::raw_sql(row).execute(&mut db.session().await).await.expect("failed to insert");
    same_as_the_log(&streams, &log).await;
    assert!(streams.iter().all(|stream| stream.feed.status().state == LiveState::Streaming));
}
