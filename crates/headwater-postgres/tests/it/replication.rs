//! The SQL for following the WAL: publications, snapshots, slots, and ledgers for poison. For the
//! inbox see `inbox.rs`.

use std::time::Duration;

use headwater_core::AdminError;
use headwater_postgres::{Database, DatabaseOptions, SlotDropped};
use headwater_testing::TestDatabase;
use sqlx::Connection;

#[tokio::test]
async fn a_namespace_is_published_once_however_many_ask() {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    let asking = (0..8).map(|_| db.database.publish_namespace("shop"));
    for name in futures::future::join_all(asking).await {
        assert_eq!(name.unwrap(), "headwater_n1");
    }
    let (inserts, others): (bool, bool) =
        sqlx::query_as("SELECT pubinsert AND pubviaroot, pubupdate OR pubdelete OR pubtruncate FROM pg_publication")
            .fetch_one(&mut db.session().await)
            .await
            .unwrap();
    assert_eq!((inserts, others), (true, false));
    let missing = db.database.publish_namespace("nowhere").await;
    assert!(matches!(missing, Err(AdminError::NamespaceNotFound(name)) if name == "nowhere"));
}

#[tokio::test]
async fn a_transaction_has_ended_when_it_can_be_seen() {
    let db = TestDatabase::create().await;
    let mut session = db.session().await;
    let mut transaction = session.begin().await.unwrap();
    let xid: i64 =
        sqlx::query_scalar("SELECT pg_current_xact_id()::text::bigint").fetch_one(&mut *transaction).await.unwrap();
    assert!(!db.database.have_ended(None, &[xid as u32]).await.unwrap());
    transaction.commit().await.unwrap();
    assert!(db.database.have_ended(None, &[xid as u32]).await.unwrap());
    assert!(
        !db.database.have_ended(None, &[xid as u32, xid as u32 + 1_000_000]).await.unwrap(),
        "one that nobody has yet"
    );
}

#[tokio::test]
async fn only_headwaters_slots_are_dropped_and_only_those_that_nobody_reads() {
    let db = TestDatabase::create().await;
    let name = format!("headwater_n1_{}", uuid::Uuid::now_v7().simple());
    let mut session = db.session().await;
    // Temporary: this session has it, and it goes with it.
    sqlx::query("SELECT pg_create_logical_replication_slot($1, 'pgoutput', true)")
        .bind(&name)
        .execute(&mut session)
        .await
        .unwrap();
    let slots = db.database.replication_slots().await.unwrap();
    assert_eq!((slots.len(), slots[0].slot == name, slots[0].temporary), (1, true, true));
    assert!(slots[0].active_pid.is_some());
    assert_eq!(db.database.drop_replication_slot(&name).await.unwrap(), SlotDropped::InUse);
    assert_eq!(db.database.drop_replication_slot("headwater_n1_none").await.unwrap(), SlotDropped::NotFound);
    assert!(matches!(db.database.drop_replication_slot("theirs").await, Err(AdminError::InvalidInput(_))));
    sqlx::query("SELECT pg_drop_replication_slot($1)").bind(&name).execute(&mut session).await.unwrap();
    sqlx::query("SELECT pg_create_logical_replication_slot($1, 'pgoutput')")
        .bind(&name)
        .execute(&mut session)
        .await
        .unwrap();
    let orphan = db.database.replication_slots().await.unwrap().remove(0);
    assert_eq!((orphan.temporary, orphan.active_pid), (false, None));
    assert_eq!(db.database.drop_replication_slot(&name).await.unwrap(), SlotDropped::Dropped);
    let settings = db.database.replication_settings().await.unwrap();
    assert_eq!((&*settings.wal_level, settings.may_replicate, settings.may_publish), ("logical", true, true));
}

#[tokio::test]
async fn a_ledger_with_one_more_has_no_ranges_that_touch() {
    let db = TestDatabase::create().await;
    let mut session = db.session().await;
    for (ledger, sequence, expected) in [
        (vec![], 5, vec![5, 5]),
        (vec![1, 2, 8, 9], 5, vec![1, 2, 5, 5, 8, 9]),
        (vec![1, 4, 6, 9], 5, vec![1, 9]),
        (vec![1, 9], 5, vec![1, 9]),
        (vec![6, 7], 5, vec![5, 7]),
    ] {
        let with: Vec<i64> = sqlx::query_scalar("SELECT headwater_private.ledger_with($1, $2)")
            .bind(&ledger)
            .bind(sequence as i64)
            .fetch_one(&mut session)
            .await
            .unwrap();
        assert_eq!(with, expected, "{ledger:?}");
    }
}

/// What follows the WAL asks for the history first. A call that is never answered must not stop it
/// for ever, as one did whose connection was half open.
#[tokio::test]
async fn a_question_for_the_history_that_is_not_answered_fails_in_time() {
    let db = TestDatabase::create().await;
    let options = DatabaseOptions { call_timeout: Duration::from_millis(500), ..DatabaseOptions::default() };
    let database = Database::connect(&db.url, options).await.unwrap();
    let history = database.history().await.unwrap();
    let mut holder = db.session().await;
    sqlx::raw_sql("BEGIN; LOCK TABLE headwater_private.histories").execute(&mut holder).await.unwrap();
    let asked = tokio::time::timeout(Duration::from_secs(60), database.history()).await.expect("an answer or an error");
    assert!(asked.unwrap_err().is_retryable());
    sqlx::raw_sql("ROLLBACK").execute(&mut holder).await.unwrap();
    assert_eq!(database.history().await.unwrap(), history);
}
