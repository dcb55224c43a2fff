//! Values at the limits of their types: every public function answers with a value that every
//! driver can read, or with one of Headwater's errors.

use crate::common::{run, sqlstate_of};
use crate::sql_docs::public;
use headwater_core::{Event, EventLog, Json, NamespaceConfig};
use headwater_postgres::{DoctorOptions, NamespaceChanges};
use headwater_testing::TestDatabase;

/// A namespace with a bit of everything.
async fn shop() -> TestDatabase {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    let fill = "SELECT headwater.register_subscriber('shop', 'work', mode => 'shared'), headwater.register_subscriber('shop', 'reader'),
                       headwater.register_subscriber('shop', 'group', mode => 'partitioned', partitions => 2);
                SELECT headwater.emit('shop', 'A', key => 'k') FROM generate_series(1, 10);
                SELECT headwater.append('shop', 'order-1', '[{\"type\": \"A\"}, {\"type\": \"B\"}]');
                SELECT headwater.schedule('shop', 'daily', 'A', '0 2 * * *');
                SELECT headwater.register_node('shop', 'node-1')";
    run(&mut db.session().await, fill).await;
    db
}

#[tokio::test]
async fn every_public_function_takes_or_refuses_extreme_values() {
    let db = shop().await;
    let mut session = db.session().await;
    run(&mut session, include_str!("extreme_values.sql")).await;
    let functions: Vec<String> = public().into_iter().collect();
    sqlx::query("INSERT INTO called SELECT unnest($1::text[])").bind(&functions).execute(&mut session).await.unwrap();
    let calls: i32 = sqlx::query_scalar("SELECT pg_temp.try_all()").fetch_one(&mut session).await.unwrap();
    assert!(calls > 2_000, "{calls}");
    let wrong: Vec<(String, String)> =
        sqlx::query_as("SELECT call, answer FROM wrong").fetch_all(&mut session).await.unwrap();
    assert!(wrong.is_empty(), "{} of {calls}: {wrong:#?}", wrong.len());
}

#[tokio::test]
async fn what_nobody_could_read_is_not_stored() {
    let db = shop().await;
    let mut session = db.session().await;
    for call in [
        "SELECT headwater.emit('shop', 'A', created_at => 'infinity')",
        "SELECT headwater.emit('shop', 'A', created_at => '-infinity')",
        "SELECT headwater.emit('shop', 'A', created_at => '10000-01-01 00:00:00+00')",
        "SELECT headwater.emit('shop', 'A', created_at => '0001-12-31 00:00:00+00 BC')",
        "SELECT headwater.append('shop', 's', '{\"type\": \"A\", \"created_at\": \"infinity\"}')",
        "SELECT headwater.append('shop', 's', '{\"type\": \"A\", \"created_at\": \"tomorrow\"}')",
        "SELECT headwater.emit_at('shop', 'A', now() + interval '1 day', created_at => 'infinity')",
        "SELECT headwater.emit_at('shop', 'A', 'infinity')",
        "SELECT headwater.schedule('shop', 'x', 'A', due_at => 'infinity')",
        "SELECT headwater.schedule('shop', 'x', 'A', '0 2 * * *', starts_at => '-infinity')",
        "SELECT headwater.schedule('shop', 'x', 'A', due_at => '9999-12-31 23:59:59+00', timezone => 'Pacific/Kiritimati')",
        "SELECT headwater.schedule('shop', 'x', 'A', due_at => '0001-01-01 00:00:00+00', timezone => 'America/New_York')",
        "SELECT headwater.schedule('shop', 'x', 'A', '@daily', starts_at => '9999-12-31 23:00:00+00', timezone => 'Asia/Tokyo')",
        "SELECT headwater.schedule('shop', 'x', 'A', '@yearly', starts_at => '9999-12-31 00:00:00+00', timezone => 'Asia/Tokyo')",
        "SELECT headwater.alter_namespace('shop', retention => '178000000 years')",
        "SELECT headwater.alter_namespace('shop', retention => '5800000 years -2087999700 days')",
        "SELECT headwater.create_namespace('other', retention => '1001 years')",
        "SELECT headwater.next_runs('* * * * *', after => 'infinity')",
        "SELECT headwater.next_runs('* * * * *', after => '-infinity')",
        "SELECT headwater.partition_of('k', 0)",
        "SELECT headwater.partition_of('k', -1)",
        "SELECT headwater.claim('shop', 'work', 2147483647, '30 s', '{A*}')",
        "SELECT headwater.audit_gaps('shop', -1)",
    ] {
        assert_eq!(sqlstate_of(&mut session, call).await, "WH002", "{call}");
    }
    run(&mut session, "SELECT headwater.read_stream('shop', 'order-1', from_version => 9223372036854775807)").await;
    // The Rust client as well, by itself and as the database sees it.
    let log = db.log("shop").await;
    let mut event = Event::raw("A", Json::null());
    event.created_at = "9999-12-31T23:59:59.999999Z".parse().unwrap();
    log.append(event.clone().into()).await.unwrap();
    event.id = uuid::Uuid::now_v7();
    event.created_at += chrono::TimeDelta::microseconds(1);
    assert!(log.append(event.into()).await.unwrap_err().to_string().contains("invalid created_at"));
    for kept in [std::time::Duration::MAX, std::time::Duration::from_secs(27 * 86_400)] {
        let changes = NamespaceChanges { retention: Some(Some(kept)), ..NamespaceChanges::default() };
        let error = db.database.alter_namespace("shop", &changes).await.unwrap_err();
        assert!(error.to_string().contains("invalid retention"), "{error}");
        let error = db.database.create_namespace(&NamespaceConfig::new("other").retention(kept)).await.unwrap_err();
        assert!(error.to_string().contains("invalid retention"), "{error}");
    }
}

/// The longest that is accepted works.
#[tokio::test]
async fn at_their_limits_all_works() {
    let db = shop().await;
    let mut session = db.session().await;
    run(
        &mut session,
        "SELECT headwater.alter_namespace('shop', retention => '1000 years');
         SELECT headwater.months('shop'), headwater.maintain('shop'), headwater.drop_steps('shop');
         SELECT headwater.schedule('shop', 'last', 'A', '59 59 23 31 12 *', starts_at => '9999-12-31 00:00:00+00');
         SELECT headwater.emit_at('shop', 'A', '9999-12-31 23:59:59+00', created_at => '0001-01-01 00:00:00+00')",
    )
    .await;
    let last: Vec<String> = sqlx::query_scalar(
        "SELECT local_time FROM headwater.next_runs('0 0 1 1 *', 'Asia/Tokyo', '9997-06-01 00:00:00+00')",
    )
    .fetch_all(&mut session)
    .await
    .unwrap();
    // The year 10000 begins in Tokyo before it does in UTC.
    assert_eq!(last, ["9998-01-01T00:00:00+09:00", "9999-01-01T00:00:00+09:00", "10000-01-01T00:00:00+09:00"]);
    let runs = db.database.next_runs("0 0 1 1 *", "Asia/Tokyo", "9997-06-01T00:00:00Z".parse().ok(), 5).await.unwrap();
    assert_eq!(runs.last().unwrap().to_string(), "+10000-01-01 00:00:00 +09:00");
    assert!(db.database.diagnose(&DoctorOptions::default()).await.is_ok());
}
