//! The inbox and its owner: a repeated event is stored once, an owner whose term is over writes
//! nothing, and another history is not trusted.

use std::time::Duration;

use headwater_core::{Event, Instance, ReadError};
use headwater_postgres::{InboxRow, LiveReport, PgInbox};
use headwater_testing::TestDatabase;
use sqlx::PgConnection;

use crate::common::recorded;

const HOUR: Duration = Duration::from_secs(3600);

fn row(place: (u64, u32), sequence: u64) -> InboxRow {
    let event = recorded(sequence, Event::raw("E", serde_json::json!({ "n": sequence })));
    InboxRow { place, global_sequence: Some(sequence), event: Some(event), error: None }
}

async fn open() -> (TestDatabase, PgInbox) {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let inbox = PgInbox::new(db.database.clone(), log.info().clone());
    (db, inbox)
}

async fn take(inbox: &PgInbox, instance: &Instance) -> Option<i64> {
    inbox.own(instance, None, HOUR).await.unwrap().0
}

async fn statuses(session: &mut PgConnection) -> Vec<String> {
    sqlx::query_scalar("SELECT status FROM headwater_private.cdc_inbox ORDER BY inbox_id")
        .fetch_all(session)
        .await
        .unwrap()
}

async fn run(session: &mut PgConnection, statement: &'static str) {
    sqlx::raw_sql(statement).execute(session).await.unwrap();
}

#[track_caller]
fn refused<T: std::fmt::Debug>(written: Result<T, ReadError>) {
    let error = written.expect_err("it is of a term that is over");
    assert!(error.to_string().contains("is owned by node"), "{error}");
}

#[tokio::test]
async fn what_comes_from_a_slot_again_is_in_the_inbox_once() {
    let (db, inbox) = open().await;
    let mut session = db.session().await;
    let owner = Instance::new("a");
    let term = take(&inbox, &owner).await.unwrap();
    // Three rows of one transaction have one place in the WAL.
    let rows = [row((0x1_0000_0010, 1), 1), row((0x1_0000_0010, 2), 2), row((0x1_0000_0010, 3), 3)];
    assert_eq!(inbox.receive(term, None, &rows).await.unwrap(), 3);
    let poison = InboxRow { event: None, error: Some("broken".into()), ..row((0x1_0000_0020, 1), 4) };
    let again = [rows[1].clone(), rows[2].clone(), poison];
    assert_eq!(inbox.receive(term, None, &again).await.unwrap(), 1);
    let page = inbox.page(None, 0, 10).await.unwrap();
    assert_eq!((page.term, page.caught_up, page.rows.len()), (Some(term), false, 4));
    let events: Vec<_> = page.rows.iter().map(|received| received.event.clone()).collect();
    assert_eq!(events, [rows[0].event.clone(), rows[1].event.clone(), rows[2].event.clone(), None]);
    assert_eq!(inbox.page(None, page.rows[2].inbox_id, 10).await.unwrap().rows.len(), 1);
    assert_eq!(inbox.page(None, page.rows[3].inbox_id, 10).await.unwrap().rows.len(), 0);
    let head = inbox.head(&owner).await.unwrap();
    assert_eq!((head.head, head.term, head.is_read), (page.rows[3].inbox_id, term, false));
    assert_eq!(inbox.tidy(term, 0, page.rows[1].inbox_id, HOUR).await.unwrap(), 0);
    assert_eq!(statuses(&mut session).await, ["DISPATCHED", "DISPATCHED", "RECEIVED", "POISON"]);
    assert_eq!(inbox.tidy(term, 0, 0, Duration::ZERO).await.unwrap(), 3);
    assert_eq!(statuses(&mut session).await, ["RECEIVED"]);
    let stored: bool = sqlx::query_scalar("SELECT received_lsn = '1/20' FROM headwater_private.cdc_slots")
        .fetch_one(&mut session)
        .await
        .unwrap();
    assert!(stored, "how far it was received");
}

#[tokio::test]
async fn an_inbox_of_another_history_begins_anew() {
    let (_db, inbox) = open().await;
    let (a, b) = (Instance::new("a"), Instance::new("b"));
    let term = take(&inbox, &a).await.unwrap();
    assert!(inbox.begin(term, None, "7001", 1).await.unwrap().0);
    inbox.receive(term, None, &[row((16, 1), 1)]).await.unwrap();
    // It had begun, and nobody reads its slot.
    let term = take(&inbox, &b).await.unwrap();
    assert!(inbox.begin(term, None, "7001", 1).await.unwrap().0, "another owner, the same server");
    assert_eq!(inbox.page(None, 0, 10).await.unwrap().rows.len(), 1);
    assert!(!inbox.begin(term, None, "7001", 2).await.unwrap().0, "a standby was promoted");
    assert_eq!(inbox.page(None, 0, 10).await.unwrap().rows.len(), 0);
    assert_eq!(inbox.receive(term, None, &[row((16, 1), 1)]).await.unwrap(), 1, "the same place, in another history");
    assert!(!inbox.begin(term, None, "7002", 2).await.unwrap().0, "another server");
    assert_eq!(inbox.page(None, 0, 10).await.unwrap().rows.len(), 0);
}

#[tokio::test]
async fn one_owns_the_slot_until_its_lease_is_over_or_its_stream() {
    let (db, inbox) = open().await;
    let mut session = db.session().await;
    let (a, b) = (Instance::new("a"), Instance::new("b"));
    assert!(inbox.head(&a).await.unwrap().is_takeable, "nobody had it");
    let first = take(&inbox, &a).await.unwrap();
    assert_eq!(take(&inbox, &b).await, None);
    let head = inbox.head(&b).await.unwrap();
    assert_eq!((head.is_takeable, head.owner_node.as_deref(), head.term), (false, Some("a"), first));
    assert_eq!(inbox.own(&a, Some(first), HOUR).await.unwrap().0, Some(first));
    assert_eq!(inbox.own(&b, Some(first), HOUR).await.unwrap().0, None, "another's term");

    run(&mut session, "UPDATE headwater_private.cdc_slots SET lease_until = clock_timestamp()").await;
    let second = take(&inbox, &b).await.expect("the lease is over");
    assert!(second > first);
    assert_eq!(inbox.own(&a, Some(first), HOUR).await.unwrap().0, None);
    assert_eq!(take(&inbox, &a).await, None);
    let third = take(&inbox, &b).await.expect("its own, for another stream");
    assert!(third > second);

    // One that cannot read it gives it up, and nobody else's term.
    assert!(!inbox.release(second).await.unwrap());
    assert_eq!(take(&inbox, &a).await, None);
    assert!(inbox.release(third).await.unwrap());
    assert!(take(&inbox, &a).await.is_some());
    run(&mut session, "UPDATE headwater_private.cdc_slots SET lease_until = clock_timestamp()").await;
    let third = take(&inbox, &b).await.unwrap();

    // It has its lease, and had begun to read; but nobody does.
    inbox.begin(third, None, "7001", 1).await.unwrap();
    assert!(take(&inbox, &a).await.is_some());
}

#[tokio::test]
async fn an_owner_that_renews_makes_its_lease_longer_and_none_is_written_for_nothing() {
    let (db, inbox) = open().await;
    let mut session = db.session().await;
    let a = Instance::new("a");
    let term = take(&inbox, &a).await.unwrap();
    let version = "SELECT (xmin::text, lease_until > clock_timestamp() + interval '50 minutes')::text FROM headwater_private.cdc_slots";
    let before: String = sqlx::query_scalar(version).fetch_one(&mut session).await.unwrap();
    inbox.own(&a, Some(term), HOUR).await.unwrap();
    assert_eq!(sqlx::query_scalar::<_, String>(version).fetch_one(&mut session).await.unwrap(), before);
    run(&mut session, "UPDATE headwater_private.cdc_slots SET lease_until = clock_timestamp() - interval '1 second'")
        .await;
    assert_eq!(inbox.own(&a, Some(term), HOUR).await.unwrap().0, Some(term), "nobody has taken it");
    let renewed: String = sqlx::query_scalar(version).fetch_one(&mut session).await.unwrap();
    assert!(renewed.ends_with(",t)"), "{renewed}");
}

/// A process was paused while another took over, and continues. All its writes are refused and
/// leave nothing.
#[tokio::test]
async fn an_owner_of_a_term_that_is_over_writes_nothing() {
    let (db, inbox) = open().await;
    let mut session = db.session().await;
    let (a, b) = (Instance::new("a"), Instance::new("b"));
    let stale = take(&inbox, &a).await.unwrap();
    inbox.begin(stale, None, "7001", 1).await.unwrap();
    inbox.receive(stale, None, &[row((16, 1), 1)]).await.unwrap();
    inbox.set_caught_up(stale, true).await.unwrap();
    let term = take(&inbox, &b).await.unwrap();
    assert!(!inbox.page(None, 0, 10).await.unwrap().caught_up, "the next one says so itself");
    refused(inbox.receive(stale, None, &[row((32, 1), 2)]).await);
    refused(inbox.begin(stale, None, "7001", 2).await);
    refused(inbox.set_caught_up(stale, true).await);
    refused(inbox.tidy(stale, 0, i64::MAX, Duration::ZERO).await);
    refused(inbox.evict(stale).await);
    assert_eq!(statuses(&mut session).await, ["RECEIVED"]);
    let page = inbox.page(None, 0, 10).await.unwrap();
    assert_eq!((page.term, page.caught_up), (Some(term), false));
    assert_eq!(inbox.receive(term, None, &[row((32, 1), 2)]).await.unwrap(), 1, "the owner stores it");
}

/// While an owner's rows are not committed, nobody takes over. Otherwise the next owner's rows
/// could have lower numbers than rows that appear later.
#[tokio::test]
async fn who_stores_is_waited_for_by_who_takes_over() {
    let (db, inbox) = open().await;
    let (a, b) = (Instance::new("a"), Instance::new("b"));
    let term = take(&inbox, &a).await.unwrap();
    inbox.begin(term, None, "7001", 1).await.unwrap();
    let mut session = db.session().await;
    let mut storing = sqlx::Connection::begin(&mut session).await.unwrap();
    sqlx::query("SELECT headwater.cdc_receive('shop', $1, $2, '{0/10}', '{1}', '{1}', '{NULL}', '{NULL}')")
        .bind(inbox.slot().await.unwrap())
        .bind(term)
        .execute(&mut *storing)
        .await
        .unwrap();
    assert!(inbox.head(&b).await.unwrap().is_takeable);
    assert_eq!(take(&inbox, &b).await, None, "it stores");
    storing.commit().await.unwrap();
    assert!(take(&inbox, &b).await.is_some());
    assert_eq!(inbox.page(None, 0, 10).await.unwrap().rows.len(), 1);
}

/// A tidy does not look at kept rows again and again: in an inbox of thousands, a tidy with nothing
/// to do reads only a few.
#[tokio::test]
async fn what_is_kept_costs_a_tidy_nothing() {
    let (db, inbox) = open().await;
    let mut session = db.session().await;
    let term = take(&inbox, &Instance::new("a")).await.unwrap();
    run(
        &mut session,
        "INSERT INTO headwater_private.cdc_inbox (namespace_id, slot, commit_lsn, nth, global_sequence, status)
         SELECT n.namespace_id, 's', '0/1', i, i, 'DISPATCHED' FROM headwater_private.namespaces n, generate_series(1, 30000) i;
         ANALYZE headwater_private.cdc_inbox",
    )
    .await;
    let keep = "SELECT headwater.cdc_tidy('shop', $1, 30000, 1000000, interval '1 hour')";
    let mut transaction = sqlx::Connection::begin(&mut session).await.unwrap();
    let removed: i32 = sqlx::query_scalar(keep).bind(term).fetch_one(&mut *transaction).await.unwrap();
    let read: i64 = sqlx::query_scalar(
        "SELECT pg_stat_get_xact_tuples_returned(c.oid) + pg_stat_get_xact_tuples_fetched(c.oid) + coalesce(
                (SELECT sum(pg_stat_get_xact_tuples_fetched(i.indexrelid))::bigint FROM pg_index i WHERE i.indrelid = c.oid), 0)
           FROM pg_class c WHERE c.oid = 'headwater_private.cdc_inbox'::regclass",
    )
    .fetch_one(&mut *transaction)
    .await
    .unwrap();
    assert_eq!(removed, 0);
    assert!(read <= 6_000, "{read} rows");
}

#[tokio::test]
async fn a_node_says_what_its_live_source_does_and_only_the_node() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let nodes = headwater_postgres::PgNodes::new(db.database.clone(), log.info());
    let registered = nodes.register(&headwater_core::NodeOptions::new("a"), &[]).await.unwrap();
    let instance = Instance { node: "a".into(), incarnation: registered.instance_id };
    let report = LiveReport {
        mode: "inbox",
        state: "degraded",
        slot: None,
        error: Some("broken".into()),
        warnings: vec!["no limit".into()],
        received: 0,
        taken: 0,
    };
    assert!(db.database.report_live("shop", &instance, &report).await.unwrap());
    let said = db.database.live_nodes().await.unwrap().remove(0);
    assert_eq!((&*said.node_id, &*said.state, said.alive, said.receives), ("a", "degraded", true, false));
    assert_eq!((said.error.as_deref(), said.warnings), (Some("broken"), vec!["no limit".to_owned()]));
    let better =
        LiveReport { state: "recovering", error: None, warnings: vec![], received: 7, taken: 6, ..report.clone() };
    assert!(db.database.report_live("shop", &instance, &better).await.unwrap());
    let now = db.database.live_nodes().await.unwrap().remove(0);
    assert_eq!((&*now.state, now.error, now.received, now.taken), ("recovering", None, 7, 6));
    assert!(now.since > said.since);
    assert!(db.database.report_live("shop", &instance, &LiveReport { received: 8, ..better.clone() }).await.unwrap());
    assert_eq!(db.database.live_nodes().await.unwrap()[0].since, now.since, "the same state");
    assert!(!db.database.report_live("shop", &Instance::new("a"), &report).await.unwrap(), "another process");
    assert_eq!(db.database.live_nodes().await.unwrap()[0].state, "recovering");
    let wrong = db.database.report_live("shop", &instance, &LiveReport { state: "fine", ..report }).await;
    assert!(matches!(&wrong, Err(ReadError::InvalidInput(_))), "{wrong:?}");
    let streaming = LiveReport { state: "streaming", slot: Some("headwater_n1_x".into()), ..better };
    assert!(db.database.report_live("shop", &instance, &streaming).await.unwrap());
    assert_eq!(db.database.live_nodes().await.unwrap()[0].state, "interrupted", "nobody reads that slot");
    nodes.stop(&registered).await.unwrap();
    let gone = db.database.live_nodes().await.unwrap().remove(0);
    assert_eq!((gone.alive, &*gone.state), (false, "gone"));
    nodes.forget(Duration::ZERO, Some("a")).await.unwrap();
    assert_eq!(db.database.live_nodes().await.unwrap(), []);
}

#[tokio::test]
async fn slots_that_nobody_will_read_are_told_from_those_that_somebody_may() {
    let (db, inbox) = open().await;
    let mut session = db.session().await;
    let orphans = async |unread_for| {
        let found = db.database.orphaned_slots(unread_for).await.unwrap().into_iter();
        found.map(|orphan| (orphan.slot, orphan.reason)).collect::<Vec<_>>()
    };
    let slot = inbox.slot().await.unwrap().to_owned();
    let make = "SELECT pg_create_logical_replication_slot($1, 'pgoutput')";
    let make = async |session: &mut PgConnection, slot: &str| {
        sqlx::query(make).bind(slot).execute(session).await.unwrap();
    };
    make(&mut session, &slot).await;
    assert_eq!(orphans(HOUR).await, [(slot.clone(), "no node wants it".into())], "nobody ever owned it");
    let term = take(&inbox, &Instance::new("a")).await.unwrap();
    assert_eq!(orphans(HOUR).await, []);
    run(&mut session, "UPDATE headwater_private.cdc_slots SET lease_until = clock_timestamp() - interval '2 hours'")
        .await;
    assert_eq!(orphans(HOUR * 3).await, [], "not for so long");
    assert_eq!(orphans(HOUR).await.len(), 1);

    // A live node wants an inbox: it may take it at any time.
    let nodes = headwater_postgres::PgNodes::new(db.database.clone(), &db.database.namespace("shop").await.unwrap());
    let registered = nodes.register(&headwater_core::NodeOptions::new("a"), &[]).await.unwrap();
    let instance = Instance { node: "a".into(), incarnation: registered.instance_id };
    let mut report = LiveReport {
        mode: "inbox",
        state: "degraded",
        slot: None,
        error: None,
        warnings: vec![],
        received: 0,
        taken: 0,
    };
    db.database.report_live("shop", &instance, &report).await.unwrap();
    assert_eq!(orphans(HOUR).await, []);
    report.mode = "direct";
    db.database.report_live("shop", &instance, &report).await.unwrap();
    assert_eq!(orphans(HOUR).await, [(slot.clone(), "no node wants it".into())]);

    // A namespace that is gone; and one that has another slot by now.
    let gone = slot.replace("_n1_", "_n999_");
    make(&mut session, &gone).await;
    sqlx::query("UPDATE headwater_private.cdc_slots SET slot = 'other' WHERE term = $1")
        .bind(term)
        .execute(&mut session)
        .await
        .unwrap();
    let mut found = orphans(HOUR).await;
    found.sort();
    let expected =
        [(slot.clone(), "the namespace has slot other by now".into()), (gone.clone(), "the namespace is gone".into())];
    assert_eq!(found, expected);
    // Whoever sees some namespaces only knows of none that it is gone.
    let role = db.role().await;
    db.log("bank").await;
    db.database.grant("bank", &role.name, headwater_postgres::GrantKind::Consumer).await.unwrap();
    assert_eq!(role.database().await.orphaned_slots(HOUR).await.unwrap(), []);
    db.database.revoke("bank", &role.name, None).await.unwrap();
    db.drop_role(role).await;
    for slot in [&slot, &gone] {
        db.database.drop_replication_slot(slot).await.unwrap();
    }
}

#[tokio::test]
async fn a_page_is_bounded_by_bytes() {
    let (_db, inbox) = open().await;
    let term = take(&inbox, &Instance::new("a")).await.unwrap();
    inbox.begin(term, None, "system", 1).await.unwrap();
    for sequence in 1..=5 {
        let event = recorded(sequence, Event::raw("Large", serde_json::json!("x".repeat(3 * 1024 * 1024))));
        let row = InboxRow { event: Some(event), ..row((sequence, 1), sequence) };
        inbox.receive(term, None, &[row]).await.unwrap();
    }
    let first = inbox.page(None, 0, 1_000).await.unwrap();
    assert_eq!((first.rows.len(), first.more, first.term), (3, true, Some(term)));
    let rest = inbox.page(None, first.rows[2].inbox_id, 1_000).await.unwrap();
    assert_eq!((rest.rows.len(), rest.more), (2, false));
    let none = inbox.page(None, rest.rows[1].inbox_id, 1_000).await.unwrap();
    assert_eq!((none.rows.len(), none.more, none.term), (0, false, Some(term)));
}
