//! Events that are due later: stored, fired once and in order, kept when they cannot be appended,
//! and cancelled.

use std::time::Duration;

use crate::common::{pid, raw, run, sqlstate_of, types_after, until_it_waits};
use chrono::{TimeDelta, Utc};
use futures::TryStreamExt;
use headwater_core::{
    Append, AppendError, Event, EventLog, ExpectedVersion, Json, NamespaceConfig, Ordering, RecordedEvent, StreamQuery,
};
use headwater_embedded::{Server, Shutdown};
use headwater_postgres::{Database, DatabaseOptions, Fired, LogOptions, NamespaceChanges, PgLog};
use headwater_testing::TestDatabase;
use sqlx::{Connection, PgConnection, Row};
use uuid::Uuid;

/// Far enough for no test to reach it.
fn later() -> chrono::DateTime<Utc> {
    Utc::now() + TimeDelta::hours(1)
}

/// Lets an hour pass for all that waits.
async fn an_hour_passes(db: &TestDatabase) {
    let earlier = "UPDATE headwater_private.due_events SET due_at = due_at - interval '1 hour 1 second',
                                                   fire_at = fire_at - interval '1 hour 1 second'";
    run(&mut db.session().await, earlier).await;
}

/// What `headwater.fire_due` answers in a session: fired, failed.
async fn fire(session: &mut PgConnection, max_events: i32) -> (i32, i32) {
    let firing = sqlx::query("SELECT * FROM headwater.fire_due('shop', $1)").bind(max_events);
    let row = firing.fetch_one(session).await.expect("failed to fire");
    (row.get("fired"), row.get("failed"))
}

async fn waiting(log: &PgLog) -> Vec<String> {
    log.due_events(100).await.unwrap().into_iter().map(|due| due.event.event_type).collect()
}

fn nothing_waits(fired: u32) -> Fired {
    Fired { fired, failed: 0, next_due_in: None }
}

#[tokio::test]
async fn an_emission_that_rolls_back_leaves_nothing() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let mut session = db.session().await;
    let mut tx = session.begin().await.unwrap();
    log.emit_at_in(&mut tx, later(), raw("rolled back")).await.unwrap();
    log.emit_at_in(&mut tx, Utc::now() - TimeDelta::hours(1), raw("rolled back, and due")).await.unwrap();
    tx.rollback().await.unwrap();
    assert!(waiting(&log).await.is_empty());
    let mut tx = session.begin().await.unwrap();
    log.emit_at_in(&mut tx, later(), raw("committed")).await.unwrap();
    assert!(waiting(&log).await.is_empty());
    tx.commit().await.unwrap();
    assert_eq!(waiting(&log).await, ["committed"]);
    an_hour_passes(&db).await;
    assert_eq!(log.fire_due(100).await.unwrap(), nothing_waits(1));
    assert_eq!(types_after(&log, 0).await, ["committed"]);
}

#[tokio::test]
async fn an_event_is_appended_when_it_is_due_and_stays_what_it_was() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let event = Event::builder()
        .event_type("reminder")
        .json(Json::parse(r#"{"order": 7}"#).unwrap())
        .stream_id("order-7")
        .key("customer-1")
        .actor_id("ada")
        .correlation_id(Uuid::now_v7())
        .causation_id(Uuid::now_v7())
        .headers([("traceparent", "00-1")])
        .schema_version(3)
        .build()
        .unwrap();
    let due_at = later();
    assert_eq!(log.emit_at(due_at, event.clone()).await.unwrap(), event.id);

    let early = log.fire_due(100).await.unwrap();
    assert_eq!((early.fired, early.failed), (0, 0));
    let wait = early.next_due_in.unwrap();
    assert!((Duration::from_secs(3_500)..=Duration::from_secs(3_600)).contains(&wait), "{wait:?}");
    assert!(types_after(&log, 0).await.is_empty());
    let listed = log.due_events(10).await.unwrap().remove(0);
    assert_eq!((listed.event.id, listed.failures, listed.error), (event.id, 0, None));
    assert_eq!(listed.due_at.timestamp_micros(), due_at.timestamp_micros());

    an_hour_passes(&db).await;
    assert_eq!(log.fire_due(100).await.unwrap(), nothing_waits(1));
    let fired = log.event(event.id).await.unwrap().unwrap();
    let due_header = due_at.to_rfc3339_opts(chrono::SecondsFormat::Micros, true);
    let mut expected = event.clone();
    expected.headers.insert("due_at".into(), due_header);
    expected.global_sequence = fired.global_sequence;
    expected.stream_version = Some(1);
    expected.recorded_at = fired.recorded_at;
    expected.transaction_id = fired.transaction_id;
    expected.data = fired.data.clone();
    assert_eq!(*fired, expected);
    assert_eq!(fired.data.as_ref().unwrap().as_str(), r#"{"order": 7}"#);
    assert_eq!(log.fire_due(100).await.unwrap(), nothing_waits(0));
}

#[tokio::test]
async fn what_is_due_already_is_appended_at_once() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let commits = log.commits();
    log.emit_at(Utc::now() - TimeDelta::hours(1), raw("from Rust")).await.unwrap();
    assert!(commits.has_changed().unwrap(), "readers of this process are woken");
    run(&mut db.session().await, "SELECT headwater.emit_at('shop', 'from SQL', clock_timestamp())").await;
    assert_eq!(types_after(&log, 0).await, ["from Rust", "from SQL"]);
    assert!(waiting(&log).await.is_empty());
}

#[tokio::test]
async fn a_delay_counts_by_the_clock_of_the_database() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let id = log.emit_at(Duration::from_secs(3_600), raw("in an hour")).await.unwrap();
    let exact = "SELECT due_at - created_at BETWEEN interval '59 minutes' AND interval '61 minutes'
                        AND due_at - now() BETWEEN interval '59 minutes' AND interval '1 hour'
                   FROM headwater_private.due_events WHERE event_id = $1";
    assert!(sqlx::query_scalar::<_, bool>(exact).bind(id).fetch_one(db.database.pool()).await.unwrap());
    log.emit_at(Duration::ZERO, raw("now")).await.unwrap();
    assert_eq!(types_after(&log, 0).await, ["now"]);
}

#[tokio::test]
async fn events_are_fired_in_order_of_their_times_then_of_emission() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let at = later();
    for (event_type, seconds) in [("d", 3), ("b", 1), ("a", 0), ("c", 1), ("e", 3)] {
        log.emit_at(at + TimeDelta::milliseconds(seconds), raw(event_type)).await.unwrap();
    }
    an_hour_passes(&db).await;
    let first = log.fire_due(3).await.unwrap();
    assert_eq!(first, Fired { fired: 3, failed: 0, next_due_in: Some(Duration::ZERO) });
    assert_eq!(log.fire_due(3).await.unwrap(), nothing_waits(2));
    assert_eq!(types_after(&log, 0).await, ["a", "b", "c", "d", "e"]);
}

#[tokio::test]
async fn one_session_fires_what_another_does_not_hold() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    for n in 0..4 {
        log.emit_at(later(), raw(&format!("e{n}"))).await.unwrap();
    }
    an_hour_passes(&db).await;
    let mut first = db.session().await;
    run(&mut first, "BEGIN").await;
    assert_eq!(fire(&mut first, 2).await, (2, 0));

    let second = log.fire_due(100).await.unwrap();
    assert_eq!((second.fired, second.failed), (2, 0), "the others, and only these");
    let third = log.fire_due(100).await.unwrap();
    // Nothing is left for it, but what the first holds may come back.
    assert_eq!(third, Fired { fired: 0, failed: 0, next_due_in: Some(Duration::from_secs(1)) });
    run(&mut first, "COMMIT").await;
    assert_eq!(log.fire_due(100).await.unwrap(), nothing_waits(0));
    let mut types = types_after(&log, 0).await;
    types.sort();
    assert_eq!(types, ["e0", "e1", "e2", "e3"]);
}

#[tokio::test]
async fn a_firing_that_rolls_back_is_done_by_the_next() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    log.emit_at(later(), raw("e")).await.unwrap();
    an_hour_passes(&db).await;
    let mut session = db.session().await;
    run(&mut session, "BEGIN").await;
    assert_eq!(fire(&mut session, 100).await, (1, 0));
    run(&mut session, "ROLLBACK").await;
    assert_eq!(log.fire_due(100).await.unwrap(), nothing_waits(1));
    assert_eq!(types_after(&log, 0).await, ["e"]);
}

#[tokio::test]
async fn many_that_fire_at_once_fire_each_once_and_in_order() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let emit =
        "SELECT headwater.emit_at('shop', 'e' || n, now() + interval '1 hour' + n * interval '1 ms', to_jsonb(n))
                  FROM generate_series(1, 300) n";
    run(&mut db.session().await, emit).await;
    an_hour_passes(&db).await;
    let fire_all = || async {
        let mut fired = 0;
        loop {
            match log.fire_due(10).await.unwrap() {
                Fired { fired: 0, next_due_in: None, .. } => break fired,
                some => fired += some.fired,
            }
        }
    };
    let fired: u32 = futures::future::join_all((0..4).map(|_| fire_all())).await.into_iter().sum();
    assert_eq!(fired, 300);
    let expected: Vec<_> = (1..=300).map(|n| format!("e{n}")).collect();
    assert_eq!(types_after(&log, 0).await, expected);
}

#[tokio::test]
async fn one_that_cannot_be_appended_is_kept_and_blocks_nobody() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let large = Event::raw("large", Json::parse(format!("\"{}\"", "x".repeat(100))).unwrap());
    for event in [raw("before"), large, raw("after")] {
        log.emit_at(later(), event).await.unwrap();
    }
    let limit = |bytes| NamespaceChanges { max_payload_bytes: Some(bytes), ..NamespaceChanges::default() };
    db.database.alter_namespace("shop", &limit(50)).await.unwrap();
    an_hour_passes(&db).await;
    let fired = log.fire_due(100).await.unwrap();
    assert_eq!((fired.fired, fired.failed), (2, 1));
    assert!(fired.next_due_in.unwrap() <= Duration::from_secs(1));
    assert_eq!(types_after(&log, 0).await, ["before", "after"]);
    let kept = log.failed_due_events(10).await.unwrap().remove(0);
    assert_eq!((kept.event.event_type.as_str(), kept.failures), ("large", 1));
    assert!(kept.error.as_ref().unwrap().starts_with("WH004: payload of 102 bytes"), "{kept:?}");
    assert!(kept.next_try_at > kept.due_at);

    an_hour_passes(&db).await;
    let again = log.fire_due(100).await.unwrap();
    assert_eq!((again.fired, again.failed), (0, 1));
    let wait = again.next_due_in.unwrap();
    assert!(
        wait > Duration::from_secs(1) && wait <= Duration::from_secs(2),
        "it is tried less and less often: {wait:?}"
    );
    db.database.alter_namespace("shop", &limit(1_000)).await.unwrap();
    an_hour_passes(&db).await;
    assert_eq!(log.fire_due(100).await.unwrap(), nothing_waits(1));
    assert_eq!(types_after(&log, 0).await, ["before", "after", "large"]);
}

#[tokio::test]
async fn a_stream_that_a_transaction_holds_holds_up_only_its_own() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    log.append(Append::to_stream("held", ExpectedVersion::NoStream, [raw("first")])).await.unwrap();
    for (event_type, stream) in [("to held", "held"), ("to held too", "held"), ("to free", "free")] {
        log.emit_at(later(), raw(event_type).in_stream(stream)).await.unwrap();
    }
    an_hour_passes(&db).await;
    let mut holder = db.session().await;
    run(&mut holder, "BEGIN; SELECT FROM headwater.append('shop', 'held', '{\"type\": \"held\"}')").await;
    let mut session = db.session().await;
    run(&mut session, "BEGIN; SET LOCAL lock_timeout = '7s'").await;
    assert_eq!(fire(&mut session, 100).await, (1, 0), "to wait is no failure");
    let timeout: String = sqlx::query_scalar("SHOW lock_timeout").fetch_one(&mut session).await.unwrap();
    assert_eq!(timeout, "7s", "the caller's setting is as it was");
    run(&mut session, "COMMIT").await;
    assert!(log.failed_due_events(10).await.unwrap().is_empty());
    for waits in log.due_events(10).await.unwrap() {
        assert!(waits.error.as_ref().unwrap().starts_with("waits for its stream"), "{waits:?}");
    }
    run(&mut holder, "COMMIT").await;
    an_hour_passes(&db).await;
    assert_eq!(log.fire_due(100).await.unwrap(), nothing_waits(2));
    let stream: Vec<RecordedEvent> = log.read_stream(StreamQuery::new("held")).try_collect().await.unwrap();
    let types: Vec<_> = stream.iter().map(|event| event.event_type.as_str()).collect();
    assert_eq!(types, ["first", "held", "to held", "to held too"]);
}

/// An event that waits for its stream's lock is not overtaken by later events of the stream,
/// neither when they fire nor when they are emitted.
#[tokio::test]
async fn no_event_passes_another_of_its_stream_that_was_due_before() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    log.append(Append::to_stream("held", ExpectedVersion::NoStream, [raw("0")])).await.unwrap();
    for (event_type, hours) in [("1", 1), ("2", 1), ("3", 2)] {
        log.emit_at(Utc::now() + TimeDelta::hours(hours), raw(event_type).in_stream("held")).await.unwrap();
    }
    an_hour_passes(&db).await;
    let mut holder = db.session().await;
    run(&mut holder, "BEGIN; SELECT FROM headwater.append('shop', 'held', '{\"type\": \"holder\"}')").await;
    let mut session = db.session().await;
    assert_eq!(fire(&mut session, 100).await, (0, 0));
    run(&mut holder, "COMMIT").await;
    // The third event is also due now, and the stream is free. But the first two wait for their
    // next try.
    run(
        &mut session,
        "UPDATE headwater_private.due_events SET due_at = due_at - interval '1 hour', fire_at = fire_at - interval '1 hour' WHERE event_type = '3';
         UPDATE headwater_private.due_events SET fire_at = now() + interval '1 hour' WHERE event_type <> '3'",
    )
    .await;
    assert_eq!(fire(&mut session, 100).await, (0, 0));
    log.emit_at(Utc::now(), raw("4").in_stream("held")).await.unwrap();
    log.emit_at(Utc::now(), raw("other").in_stream("free")).await.unwrap();
    let (fired, next): (i32, f64) =
        sqlx::query_as("SELECT fired, extract(epoch FROM next_due_in)::float8 FROM headwater.fire_due('shop')")
            .fetch_one(&mut session)
            .await
            .unwrap();
    assert_eq!(fired, 0);
    assert!(next > 0.0, "whoever fires is not to try without a pause");
    assert_eq!(types_after(&log, 0).await, ["0", "holder", "other"]);
    // They go in the order in which they were due, one at a time as well.
    for expected in ["1", "2", "3", "4"] {
        run(&mut session, "UPDATE headwater_private.due_events SET fire_at = due_at").await;
        assert_eq!(fire(&mut session, 1).await, (1, 0));
        assert_eq!(types_after(&log, 0).await.last().unwrap(), expected);
    }
}

/// A session that fires and hangs delays the streams of its events. Another session that fires
/// meanwhile does not overtake it.
#[tokio::test]
async fn no_event_passes_another_of_its_stream_that_a_session_has() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    for (event_type, stream) in [("1", "a"), ("2", "a"), ("3", "b")] {
        log.emit_at(later(), raw(event_type).in_stream(stream)).await.unwrap();
    }
    an_hour_passes(&db).await;
    let mut hangs = db.session().await;
    run(&mut hangs, "BEGIN; SELECT FROM headwater_private.due_events WHERE event_type = '1' FOR UPDATE").await;
    let mut session = db.session().await;
    assert_eq!(fire(&mut session, 100).await, (1, 0));
    assert_eq!(types_after(&log, 0).await, ["3"]);
    run(&mut hangs, "ROLLBACK").await;
    run(&mut session, "UPDATE headwater_private.due_events SET fire_at = due_at").await;
    assert_eq!(fire(&mut session, 100).await, (2, 0));
    assert_eq!(types_after(&log, 0).await, ["3", "1", "2"]);
}

#[tokio::test]
async fn an_emission_sent_again_answers_as_the_first_time() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let event = raw("once");
    let other = Event { id: event.id, ..raw("another") };
    for _ in 0..2 {
        assert_eq!(log.emit_at(later(), event.clone()).await.unwrap(), event.id);
    }
    assert_eq!(waiting(&log).await, ["once"]);
    let misused = log.emit_at(later(), other.clone()).await;
    assert!(matches!(misused, Err(AppendError::IdReused { event_id }) if event_id == event.id), "{misused:?}");
    an_hour_passes(&db).await;
    assert_eq!(log.fire_due(100).await.unwrap(), nothing_waits(1));
    for due_at in [later(), Utc::now() - TimeDelta::hours(1)] {
        assert_eq!(log.emit_at(due_at, event.clone()).await.unwrap(), event.id);
    }
    let misused = log.emit_at(later(), other).await;
    assert!(matches!(misused, Err(AppendError::IdReused { .. })), "{misused:?}");
    assert!(waiting(&log).await.is_empty());
    assert_eq!(types_after(&log, 0).await, ["once"]);
}

#[tokio::test]
async fn an_emission_sent_again_while_it_is_fired_is_stored_once() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let event = raw("once");
    log.emit_at(later(), event.clone()).await.unwrap();
    an_hour_passes(&db).await;
    let (mut firing, mut emitting) = (db.session().await, db.session().await);
    run(&mut firing, "BEGIN").await;
    assert_eq!(fire(&mut firing, 100).await, (1, 0));
    let emitting_pid = pid(&mut emitting).await;
    let again = tokio::spawn({
        let (log, event) = (log.clone(), event.clone());
        async move { log.emit_at_in(&mut emitting, later(), event).await }
    });
    until_it_waits(&mut db.session().await, emitting_pid).await;
    run(&mut firing, "COMMIT").await;
    assert_eq!(again.await.unwrap().unwrap(), event.id);
    assert!(waiting(&log).await.is_empty());
    assert_eq!(types_after(&log, 0).await, ["once"]);
}

#[tokio::test]
async fn an_event_emitted_now_with_the_id_of_one_that_waits_is_stored_once() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let event = raw("once");
    log.emit_at(later(), event.clone()).await.unwrap();
    log.emit_at(later(), raw("another")).await.unwrap();
    log.append(event.into()).await.unwrap();
    an_hour_passes(&db).await;
    assert_eq!(log.fire_due(100).await.unwrap(), nothing_waits(1));
    assert_eq!(types_after(&log, 0).await, ["once", "another"]);
}

#[tokio::test]
async fn a_cancelled_event_never_comes() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let id = log.emit_at(later(), raw("cancelled")).await.unwrap();
    let kept = log.emit_at(later(), raw("kept")).await.unwrap();
    assert!(log.cancel_due(id).await.unwrap());
    assert!(!log.cancel_due(id).await.unwrap());
    let mut session = db.session().await;
    let mut tx = session.begin().await.unwrap();
    assert!(log.cancel_due_in(&mut tx, kept).await.unwrap());
    tx.rollback().await.unwrap();
    an_hour_passes(&db).await;

    // Who cancels what is being fired waits to hear which it is.
    let mut firing = db.session().await;
    run(&mut firing, "BEGIN").await;
    assert_eq!(fire(&mut firing, 100).await, (1, 0));
    let cancelling_pid = pid(&mut session).await;
    let cancelling = tokio::spawn({
        let log = log.clone();
        async move { log.cancel_due_in(&mut session, kept).await }
    });
    until_it_waits(&mut db.session().await, cancelling_pid).await;
    run(&mut firing, "COMMIT").await;
    assert!(!cancelling.await.unwrap().unwrap());
    assert_eq!(types_after(&log, 0).await, ["kept"]);
}

#[tokio::test]
async fn a_gapless_namespace_stays_gapless() {
    let db = TestDatabase::create().await;
    let config = NamespaceConfig::new("shop").ordering(Ordering::Gapless);
    let log = db.log_with(config, LogOptions::default()).await;
    let large = Event::raw("large", Json::parse(format!("\"{}\"", "x".repeat(100))).unwrap());
    for event in
        [raw("a").in_stream("s"), large.in_stream("s"), raw("b").in_stream("s"), raw("c"), raw("d").in_stream("t")]
    {
        log.emit_at(later(), event).await.unwrap();
    }
    let limit = NamespaceChanges { max_payload_bytes: Some(50), ..NamespaceChanges::default() };
    db.database.alter_namespace("shop", &limit).await.unwrap();
    log.append(raw("now").into()).await.unwrap();
    an_hour_passes(&db).await;
    let fired = log.fire_due(100).await.unwrap();
    assert_eq!((fired.fired, fired.failed), (4, 1));
    let events: Vec<RecordedEvent> = log.read_all_events_since(0).try_collect().await.unwrap();
    let places: Vec<_> =
        events.iter().map(|event| (event.event_type.as_str(), event.global_sequence, event.stream_version)).collect();
    assert_eq!(
        places,
        [
            ("now", Some(1), None),
            ("a", Some(2), Some(1)),
            ("b", Some(3), Some(2)),
            ("c", Some(4), None),
            ("d", Some(5), Some(1)),
        ]
    );
}

#[tokio::test]
async fn streams_have_their_versions_in_order() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    log.append(Append::to_stream("s", ExpectedVersion::NoStream, [raw("s1")])).await.unwrap();
    for (event_type, stream) in [("s2", "s"), ("t1", "t"), ("s3", "s"), ("t2", "t")] {
        log.emit_at(later(), raw(event_type).in_stream(stream)).await.unwrap();
    }
    log.emit_at(later(), raw("alone")).await.unwrap();
    an_hour_passes(&db).await;
    assert_eq!(log.fire_due(100).await.unwrap(), nothing_waits(5));
    assert_eq!(types_after(&log, 0).await, ["s1", "s2", "t1", "s3", "t2", "alone"]);
    for (stream, expected) in [("s", vec!["s1", "s2", "s3"]), ("t", vec!["t1", "t2"])] {
        let events: Vec<RecordedEvent> = log.read_stream(StreamQuery::new(stream)).try_collect().await.unwrap();
        assert_eq!(events.iter().map(|event| event.event_type.as_str()).collect::<Vec<_>>(), expected);
        assert!(events.iter().zip(1..).all(|(event, version)| event.stream_version == Some(version)));
    }
}

#[tokio::test]
async fn a_firing_is_bounded_by_bytes() {
    let db = TestDatabase::create().await;
    let config = NamespaceConfig::new("shop").max_payload_bytes(10_000_000);
    let log = db.log_with(config, LogOptions::default()).await;
    let emit = "SELECT headwater.emit_at('shop', 'e', now() + interval '1 hour', to_jsonb(repeat('x', 5000000)))
                  FROM generate_series(1, 3)";
    run(&mut db.session().await, emit).await;
    an_hour_passes(&db).await;
    let fired = log.fire_due(100).await.unwrap();
    assert_eq!(fired, Fired { fired: 2, failed: 0, next_due_in: Some(Duration::ZERO) });
    assert_eq!(log.fire_due(100).await.unwrap(), nothing_waits(1));
}

#[tokio::test]
async fn all_namespaces_are_fired_together() {
    let db = TestDatabase::create().await;
    assert_eq!(db.database.fire_all_due(100).await.unwrap(), nothing_waits(0));
    let (shop, bank, quiet) = (db.log("shop").await, db.log("bank").await, db.log("quiet").await);
    shop.emit_at(later(), raw("of shop")).await.unwrap();
    bank.emit_at(later(), raw("of bank")).await.unwrap();
    an_hour_passes(&db).await;
    bank.emit_at(later() + TimeDelta::hours(1), raw("later")).await.unwrap();
    quiet.emit_at(later(), raw("sooner")).await.unwrap();
    let fired = db.database.fire_all_due(100).await.unwrap();
    assert_eq!((fired.fired, fired.failed), (2, 0));
    let wait = fired.next_due_in.unwrap();
    assert!((Duration::from_secs(3_500)..=Duration::from_secs(3_600)).contains(&wait), "{wait:?}");
    assert_eq!(
        (types_after(&shop, 0).await, types_after(&bank, 0).await),
        (vec!["of shop".to_owned()], vec!["of bank".to_owned()])
    );
}

#[tokio::test]
async fn what_cannot_be_is_refused() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let mut session = db.session().await;
    for (script, code) in [
        ("SELECT headwater.emit_at('nowhere', 'e', now())", "WH001"),
        ("SELECT headwater.emit_at('shop', '', now())", "WH002"),
        ("SELECT headwater.emit_at('shop', 'e', NULL)", "WH002"),
        ("SELECT headwater.emit_at('shop', 'e', 'infinity')", "WH002"),
        ("SELECT headwater.emit_at('shop', 'e', '-infinity')", "WH002"),
        ("SELECT headwater.emit_at('shop', 'e', '10000-01-01')", "WH002"),
        ("SELECT headwater.emit_at('shop', 'e', now() + '1 h', stream_id => '')", "WH002"),
        ("SELECT headwater.emit_at('shop', 'e', now() + '1 h', headers => '{\"a\": 1}')", "WH002"),
        ("SELECT headwater.emit_at('shop', 'e', now() + '1 h', schema_version => 0)", "WH002"),
        ("SELECT headwater.emit_at('shop', 'e', now() + '1 h', to_jsonb(repeat('x', 2000000)))", "WH004"),
        ("SELECT * FROM headwater.fire_due('nowhere')", "WH001"),
        ("SELECT * FROM headwater.fire_due('shop', 0)", "WH002"),
        ("SELECT * FROM headwater.fire_due('shop', NULL)", "WH002"),
        ("SELECT * FROM headwater.fire_all_due(0)", "WH002"),
        ("SELECT headwater.cancel_due('nowhere', gen_random_uuid())", "WH001"),
        ("SELECT headwater.cancel_due('shop', NULL)", "WH002"),
    ] {
        assert_eq!(sqlstate_of(&mut session, script).await, code, "{script}");
    }
    let beyond = log.emit_at(Duration::MAX, raw("e")).await;
    assert!(matches!(beyond, Err(AppendError::InvalidInput(_))), "{beyond:?}");
    let invalid = log.emit_at(later(), raw("")).await;
    assert!(matches!(invalid, Err(AppendError::InvalidInput(_))), "{invalid:?}");
    assert!(waiting(&log).await.is_empty());
}

/// The payload of the next wake-up.
async fn told(listener: &mut sqlx::postgres::PgListener) -> String {
    let waiting = tokio::time::timeout(Duration::from_secs(20), listener.recv());
    waiting.await.expect("nobody was woken").unwrap().payload().to_owned()
}

#[tokio::test]
async fn who_fires_is_woken_for_what_is_due_soon() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let mut listener = sqlx::postgres::PgListener::connect(&db.url).await.unwrap();
    listener.listen("headwater.due").await.unwrap();
    let emit_in = |interval: &str| format!("SELECT headwater.emit_at('shop', 'e', now() + interval '{interval}')");
    let mut session = db.session().await;
    run(&mut session, &emit_in("1 hour")).await;
    run(&mut session, &format!("BEGIN; {}; ROLLBACK", emit_in("1 minute"))).await;
    log.emit_at(later(), raw("much later")).await.unwrap();
    let local = log.due_changes();
    log.emit_at(Utc::now() + TimeDelta::minutes(1), raw("from Rust")).await.unwrap();
    assert!(local.has_changed().unwrap());
    assert_eq!(told(&mut listener).await, log.info().id.to_string());
    run(&mut session, &emit_in("1 minute")).await;
    assert_eq!(told(&mut listener).await, log.info().id.to_string());
    // Nothing but these two.
    run(&mut session, "NOTIFY \"headwater.due\", 'the end'").await;
    assert_eq!(told(&mut listener).await, "the end");
}

#[tokio::test]
async fn what_waits_survives_restarts_own_server() {
    let mut server = Server::builder().start().expect("failed to start a server");
    let database = Database::connect(&server.url("headwater"), DatabaseOptions::default()).await.unwrap();
    database.migrate().await.unwrap();
    database.create_namespace(&NamespaceConfig::new("shop")).await.unwrap();
    let log = database.open_log("shop", LogOptions::default()).await.unwrap();
    let mut ids = Vec::new();
    for mode in [Shutdown::Fast, Shutdown::Immediate] {
        ids.push(log.emit_at(later(), raw("e")).await.unwrap());
        let restart = move || {
            server.restart(mode).expect("failed to restart");
            server
        };
        server = tokio::task::spawn_blocking(restart).await.unwrap();
    }
    let waiting: Vec<_> = log.due_events(10).await.unwrap().into_iter().map(|due| due.event.id).collect();
    assert_eq!(waiting, ids);
    let due = "UPDATE headwater_private.due_events SET fire_at = fire_at - interval '2 hours'";
    sqlx::query(due).execute(database.pool()).await.unwrap();
    assert_eq!(log.fire_due(100).await.unwrap(), nothing_waits(2));
    let events: Vec<RecordedEvent> = log.read_all_events_since(0).try_collect().await.unwrap();
    assert_eq!(events.iter().map(|event| event.id).collect::<Vec<_>>(), ids);
}
