//! What following the WAL needs of SQL: publications, snapshots, slots, and ledgers for what was poison.

mod common;

use headwater_conformance::TestDatabase;
use headwater_core::{AdminError, Event};
use headwater_postgres::{InboxRow, PgInbox, SlotDropped};
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
    assert!(!db.database.have_ended(&[xid as u32]).await.unwrap());
    transaction.commit().await.unwrap();
    assert!(db.database.have_ended(&[xid as u32]).await.unwrap());
    assert!(!db.database.have_ended(&[xid as u32, xid as u32 + 1_000_000]).await.unwrap(), "one that nobody has yet");
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
        let with: Vec<i64> = sqlx::query_scalar("SELECT headwater.ledger_with($1, $2)")
            .bind(&ledger)
            .bind(sequence as i64)
            .fetch_one(&mut session)
            .await
            .unwrap();
        assert_eq!(with, expected, "{ledger:?}");
    }
}

fn row(place: (u64, u32), sequence: u64) -> InboxRow {
    let mut event = Event::raw("E", serde_json::json!({ "n": sequence }));
    event.global_sequence = Some(sequence);
    InboxRow { place, global_sequence: Some(sequence), event: Some(event), error: None }
}

async fn statuses(db: &TestDatabase) -> Vec<String> {
    let rows = sqlx::query_scalar("SELECT status FROM headwater.cdc_inbox ORDER BY inbox_id");
    rows.fetch_all(&mut db.session().await).await.unwrap()
}

#[tokio::test]
async fn what_comes_from_a_slot_again_is_in_the_inbox_once() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let inbox = PgInbox::new(db.database.clone(), log.info().clone());
    // Three rows of one transaction have one place in the WAL.
    let rows = [row((0x1_0000_0010, 1), 1), row((0x1_0000_0010, 2), 2), row((0x1_0000_0010, 3), 3)];
    assert_eq!(inbox.receive(&rows).await.unwrap(), 3);
    let poison = InboxRow { event: None, error: Some("broken".into()), ..row((0x1_0000_0020, 1), 4) };
    let again = [rows[1].clone(), rows[2].clone(), poison];
    assert_eq!(inbox.receive(&again).await.unwrap(), 1);
    let page = inbox.page(0, 10).await.unwrap();
    assert_eq!(page.len(), 4);
    let events: Vec<_> = page.iter().map(|received| received.event.clone()).collect();
    assert_eq!(events, [rows[0].event.clone(), rows[1].event.clone(), rows[2].event.clone(), None]);
    assert_eq!(inbox.page(page[2].inbox_id, 10).await.unwrap().len(), 1);
    assert_eq!(inbox.head().await.unwrap(), (page[3].inbox_id, false));
    let hour = std::time::Duration::from_secs(3600);
    assert_eq!(inbox.tidy(page[1].inbox_id, hour).await.unwrap(), 0);
    assert_eq!(statuses(&db).await, ["DISPATCHED", "DISPATCHED", "RECEIVED", "POISON"]);
    assert_eq!(inbox.tidy(0, std::time::Duration::ZERO).await.unwrap(), 3);
    assert_eq!(statuses(&db).await, ["RECEIVED"]);
}

#[tokio::test]
async fn an_inbox_of_another_history_begins_anew() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let inbox = PgInbox::new(db.database.clone(), log.info().clone());
    assert!(inbox.begin("7001", 1, "a").await.unwrap());
    inbox.receive(&[row((16, 1), 1)]).await.unwrap();
    assert!(inbox.begin("7001", 1, "b").await.unwrap(), "another owner, the same server");
    assert_eq!(inbox.page(0, 10).await.unwrap().len(), 1);
    assert!(!inbox.begin("7001", 2, "b").await.unwrap(), "a standby was promoted");
    assert_eq!(inbox.page(0, 10).await.unwrap().len(), 0);
    inbox.receive(&[row((16, 1), 1)]).await.unwrap();
    assert!(!inbox.begin("7002", 2, "b").await.unwrap(), "another server");
    assert_eq!(inbox.page(0, 10).await.unwrap().len(), 0);
}
