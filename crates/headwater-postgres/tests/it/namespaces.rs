//! Namespaces in PostgreSQL: settings, name rules, wake-ups.

use std::time::Duration;

use crate::common::{emit, raw, run, sqlstate_of};
use headwater_core::{AdminError, EventLog, Json, NamespaceConfig, Ordering, names};
use headwater_postgres::{LogOptions, NamespaceChanges};
use headwater_testing::TestDatabase;
use sqlx::postgres::PgListener;

#[tokio::test]
async fn creating_again_answers_with_what_is_there() {
    let db = TestDatabase::create().await;
    let config = NamespaceConfig::new("shop")
        .ordering(Ordering::Gapless)
        .notify(false)
        .retention(Duration::from_secs(86_400 * 180))
        .max_payload_bytes(1000)
        .metadata(Json::parse(r#"{"owner": "billing"}"#).unwrap());
    let created = db.database.create_namespace(&config).await.unwrap();
    assert_eq!((created.ordering, created.notify, created.max_payload_bytes), (Ordering::Gapless, false, 1000));
    assert_eq!(created.retention, Some(Duration::from_secs(86_400 * 180)));
    assert_eq!(created.metadata.as_str(), r#"{"owner": "billing"}"#);
    assert_eq!(db.database.create_namespace(&config).await.unwrap(), created);
    assert_eq!(db.database.create_namespace(&NamespaceConfig::new("shop")).await.unwrap(), created);
    assert_eq!(db.database.namespace("shop").await.unwrap(), created);
    assert_eq!(db.database.namespaces().await.unwrap(), [created]);
}

#[tokio::test]
async fn other_settings_are_never_a_silent_change() {
    let db = TestDatabase::create().await;
    let plain = NamespaceConfig::new("shop");
    db.database.create_namespace(&plain).await.unwrap();
    let differing = [
        plain.clone().ordering(Ordering::Gapless),
        plain.clone().notify(false),
        plain.clone().retention(Duration::from_secs(86_400 * 90)),
        plain.clone().max_payload_bytes(5),
        plain.clone().metadata(Json::parse("{\"a\":1}").unwrap()),
    ];
    for config in differing {
        let refused = db.database.create_namespace(&config).await;
        assert!(
            matches!(&refused, Err(AdminError::NamespaceDiffers(name)) if name == "shop"),
            "{config:?}: {refused:?}"
        );
    }
    let changes = NamespaceChanges {
        retention: Some(Some(Duration::from_secs(86_400 * 60))),
        notify: Some(false),
        ..Default::default()
    };
    let altered = db.database.alter_namespace("shop", &changes).await.unwrap();
    assert_eq!((altered.retention, altered.notify), (Some(Duration::from_secs(86_400 * 60)), false));
    let for_ever = NamespaceChanges { retention: Some(None), ..Default::default() };
    assert_eq!(db.database.alter_namespace("shop", &for_ever).await.unwrap().retention, None);
}

#[tokio::test]
async fn bad_settings_are_refused_in_rust_and_in_sql() {
    let db = TestDatabase::create().await;
    let plain = NamespaceConfig::new("shop");
    let bad = [
        plain.clone().max_payload_bytes(0),
        plain.clone().max_payload_bytes(u32::MAX),
        plain.clone().retention(Duration::ZERO),
        plain.clone().retention(Duration::from_secs(86_400 * 28 - 1)),
        plain.clone().metadata(Json::parse("[]").unwrap()),
    ];
    for config in bad {
        assert!(matches!(db.database.create_namespace(&config).await, Err(AdminError::InvalidInput(_))), "{config:?}");
    }
    let mut session = db.session().await;
    for arguments in [
        "ordering => 'random'",
        "retention => interval '-1 day'",
        "retention => interval '27 days'",
        "months_made_by => 'mine'",
        "max_payload_bytes => 0",
        "metadata => '3'",
    ] {
        let script = format!("SELECT headwater.create_namespace('shop', {arguments})");
        assert_eq!(sqlstate_of(&mut session, &script).await, "WH002", "{arguments}");
    }
    let missing = db.database.namespace("shop").await;
    assert!(matches!(missing, Err(AdminError::NamespaceNotFound(name)) if name == "shop"));
}

#[tokio::test]
async fn rust_and_sql_agree_on_names() {
    let db = TestDatabase::create().await;
    let mut session = db.session().await;
    let long = |n| "x".repeat(n);
    let candidates = [
        "",
        "a",
        "A",
        "1a",
        "-a",
        "_a",
        "a-b_c9",
        "ä",
        "a b",
        "a\nb",
        "a\tb",
        "a\u{7f}",
        "a\u{80}b",
        "日本",
        "a'b",
        "a\"b",
        "a\\b",
        "a%b",
        &long(48),
        &long(49),
        &long(255),
        &long(256),
        &long(512),
        &long(513),
        &"é".repeat(256),
        &"é".repeat(257),
    ];
    for name in candidates {
        let made = sqlx::query("SELECT headwater.create_namespace($1)").bind(name).execute(&mut session).await.is_ok();
        assert_eq!(made, names::check_namespace(name).is_ok(), "namespace {name:?}");
        let rules: [(&str, i32, bool); 2] = [
            ("stream_id", 512, names::check_stream_id(name).is_ok()),
            ("event_type", 255, names::check_event_type(name).is_ok()),
        ];
        for (what, most, rust) in rules {
            let query = sqlx::query("SELECT headwater_private.check_name($1, $2, $3)").bind(what).bind(name).bind(most);
            assert_eq!(query.execute(&mut session).await.is_ok(), rust, "{what} {name:?}");
        }
    }
}

async fn listen(db: &TestDatabase, namespace: &str) -> PgListener {
    let mut listener = PgListener::connect(&db.url).await.unwrap();
    listener.listen(&format!("headwater_{namespace}")).await.unwrap();
    listener
}

#[tokio::test]
async fn who_wakes_readers_in_a_transaction_commits_it_as_before() {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    let mut session = db.session().await;
    for wake in ["wake", "wake_due"] {
        run(&mut session, &format!("BEGIN; SELECT headwater.emit('shop', 'kept'); SELECT headwater.{wake}('shop')"))
            .await;
        let waits: String = sqlx::query_scalar("SHOW synchronous_commit").fetch_one(&mut session).await.unwrap();
        assert_eq!(waits, "on", "{wake}");
        run(&mut session, "COMMIT").await;
    }
}

#[tokio::test]
async fn rust_callers_wake_readers_after_the_commit() {
    let db = TestDatabase::create().await;
    let log = db.log_with(NamespaceConfig::new("shop").notify(false), LogOptions::default()).await;
    let mut listener = listen(&db, "shop").await;
    futures::future::join_all((0..200).map(|_| log.append(raw("e").into()))).await;
    let wake_up = listener.recv().await.unwrap();
    assert_eq!(wake_up.payload(), "", "a wake-up carries nothing");
    // Coalesced: far fewer wake-ups than appends. One more, sent last, ends the count.
    let mut session = db.session().await;
    let mut wake_ups = 1;
    loop {
        run(&mut session, "SELECT pg_notify('headwater_shop', 'end')").await;
        if listener.recv().await.unwrap().payload() == "end" {
            break;
        }
        wake_ups += 1;
    }
    assert!(wake_ups < 100, "{wake_ups} wake-ups for 200 appends");
}

#[tokio::test]
async fn sql_callers_wake_readers_with_their_commit_unless_told_not_to() {
    let db = TestDatabase::create().await;
    db.log("loud").await;
    db.log_with(NamespaceConfig::new("quiet").notify(false), LogOptions::default()).await;
    let mut listener = PgListener::connect(&db.url).await.unwrap();
    listener.listen_all(["headwater_loud", "headwater_quiet", "marker"]).await.unwrap();
    let mut session = db.session().await;
    run(&mut session, "BEGIN").await;
    emit(&mut session, "loud", "rolled back").await;
    run(&mut session, "ROLLBACK; BEGIN").await;
    emit(&mut session, "quiet", "e").await;
    emit(&mut session, "loud", "e").await;
    run(&mut session, "SELECT pg_notify('marker', 'before the commit'); COMMIT").await;
    run(&mut session, "SELECT pg_notify('marker', 'end')").await;
    let mut heard = Vec::new();
    while heard.last().is_none_or(|last| last != "end") {
        let wake_up = listener.recv().await.unwrap();
        heard.push(if wake_up.channel() == "marker" {
            wake_up.payload().to_owned()
        } else {
            wake_up.channel().to_owned()
        });
    }
    assert_eq!(heard, ["headwater_loud", "before the commit", "end"]);
}
