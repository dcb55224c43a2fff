//! Ordered, exactly-once consuming by SQL: leases, pages, bundles, settling, failures.

use crate::common::{pid, run, sqlstate_of, until_it_waits};
use headwater_postgres::GrantKind;
use headwater_testing::TestDatabase;
use sqlx::{AssertSqlSafe, PgConnection};
use uuid::Uuid;

/// An event of a page: its cursor (if it is the last event of its bundle), its attempt, its
/// sequence and its key.
type Given = (Option<String>, i32, i64, Option<String>);

/// A worker in a session of its own.
struct Worker {
    session: PgConnection,
    id: Uuid,
    subscriber: &'static str,
}

impl Worker {
    async fn new(db: &TestDatabase, subscriber: &'static str) -> Self {
        Worker { session: db.session().await, id: Uuid::new_v4(), subscriber }
    }

    /// The partitions that it owns, with their terms.
    async fn lease_for(&mut self, lease: &str) -> Vec<(i32, i64)> {
        let leased =
            "SELECT partition, term FROM headwater.lease_partitions('shop', $1, $2, lease => $3::text::interval)";
        let query = sqlx::query_as(leased).bind(self.subscriber).bind(self.id).bind(lease);
        query.fetch_all(&mut self.session).await.unwrap()
    }

    async fn lease(&mut self) -> Vec<(i32, i64)> {
        self.lease_for("10 minutes").await
    }

    async fn page(&mut self, of: (i32, i64), options: &str) -> Vec<Given> {
        let next = format!(
            "SELECT cursor, attempt, global_sequence, key FROM headwater.next_events('shop', $1, $2, $3, {options})"
        );
        let query = sqlx::query_as(AssertSqlSafe(next)).bind(self.subscriber).bind(of.0).bind(of.1);
        query.fetch_all(&mut self.session).await.unwrap()
    }

    /// The SQLSTATE, if it was refused.
    async fn settle(&mut self, of: (i32, i64), cursor: &str) -> Result<(), String> {
        let settle = sqlx::query("SELECT headwater.settle('shop', $1, $2, $3, $4)");
        let done = settle.bind(self.subscriber).bind(of.0).bind(of.1).bind(cursor).execute(&mut self.session).await;
        done.map(drop).map_err(|error| error.as_database_error().unwrap().code().unwrap().into_owned())
    }

    /// Settles all bundles of a page, and says which sequences they have.
    async fn settle_all(&mut self, of: (i32, i64), page: &[Given]) -> Vec<i64> {
        for cursor in page.iter().filter_map(|given| given.0.as_ref()) {
            self.settle(of, cursor).await.unwrap();
        }
        sequences(page)
    }

    async fn fail(&mut self, of: (i32, i64), sequences: &[i64], options: &str) -> (String, i32) {
        let fail =
            format!("SELECT outcome, attempts FROM headwater.fail_events('shop', $1, $2, $3, $4, 'broken', {options})");
        let query = sqlx::query_as(AssertSqlSafe(fail)).bind(self.subscriber).bind(of.0).bind(of.1).bind(sequences);
        query.fetch_one(&mut self.session).await.unwrap()
    }
}

fn sequences(page: &[Given]) -> Vec<i64> {
    page.iter().map(|given| given.2).collect()
}

/// The sequences of each bundle.
fn bundles(page: &[Given]) -> Vec<Vec<i64>> {
    page.split_inclusive(|given| given.0.is_some()).map(sequences).collect()
}

async fn shop(subscriber: &str, settings: &str) -> TestDatabase {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    run(&mut db.session().await, &format!("SELECT headwater.register_subscriber('shop', '{subscriber}'{settings})"))
        .await;
    db
}

async fn emit(session: &mut PgConnection, keys: &[&str]) {
    for key in keys {
        run(session, &format!("SELECT headwater.emit('shop', 'E', key => '{key}')")).await;
    }
}

/// What was settled is what the log has; and where the subscriber stands.
async fn stands(db: &TestDatabase, subscriber: &str) -> Vec<(i64, Vec<i64>)> {
    let mut session = db.session().await;
    let wrong: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM headwater.audit_subscribers('shop') WHERE in_log <> settled OR sums_differ_by <> 0",
    )
    .fetch_one(&mut session)
    .await
    .unwrap();
    assert_eq!(wrong, 0);
    let standing = "SELECT position, pending_gaps FROM headwater.group_status('shop', $1)";
    sqlx::query_as(standing).bind(subscriber).fetch_all(&mut session).await.unwrap()
}

#[tokio::test]
async fn events_come_in_order_until_they_are_settled() {
    let db = shop("reader", "").await;
    let mut worker = Worker::new(&db, "reader").await;
    emit(&mut db.session().await, &["a", "b", "c", "d", "e"]).await;
    let of = worker.lease().await[0];
    for _ in 0..2 {
        assert_eq!(sequences(&worker.page(of, "2").await), [1, 2]);
    }
    let page = worker.page(of, "2").await;
    assert_eq!(worker.settle_all(of, &page).await, [1, 2]);
    let page = worker.page(of, "10, scope => 'event'").await;
    assert_eq!(bundles(&page), [[3], [4], [5]]);
    assert_eq!(worker.settle_all(of, &page).await, [3, 4, 5]);
    assert!(worker.page(of, "10").await.is_empty());
    assert_eq!(stands(&db, "reader").await, [(5, vec![])]);
}

#[tokio::test]
async fn types_that_are_not_asked_for_are_passed() {
    let db = shop("reader", "").await;
    let mut worker = Worker::new(&db, "reader").await;
    let fill =
        "SELECT headwater.emit('shop', CASE n WHEN 1500 THEN 'rare' ELSE 'E' END) FROM generate_series(1, 3000) n";
    run(&mut db.session().await, fill).await;
    let of = worker.lease().await[0];
    let page = worker.page(of, "10, event_types => '{rare}'").await;
    assert_eq!(worker.settle_all(of, &page).await, [1500]);
    assert!(worker.page(of, "10, event_types => '{rare}'").await.is_empty());
    assert_eq!(stands(&db, "reader").await, [(3000, vec![])]);
}

#[tokio::test]
async fn a_stale_owner_is_refused_and_its_effects_are_rolled_back() {
    let db = shop("reader", "").await;
    let (mut stale, mut owner) = (Worker::new(&db, "reader").await, Worker::new(&db, "reader").await);
    emit(&mut db.session().await, &["a", "b"]).await;
    run(&mut stale.session, "CREATE TABLE effects (by text)").await;
    let old = stale.lease().await[0];
    assert!(owner.lease().await.is_empty(), "it is leased");
    let page = stale.page(old, "10").await;
    let end = "UPDATE headwater_private.subscribers SET lease_until = clock_timestamp()";
    run(&mut db.session().await, end).await;
    let new = owner.lease().await[0];
    assert_ne!(old.1, new.1);

    run(&mut stale.session, "BEGIN; INSERT INTO effects VALUES ('stale')").await;
    assert_eq!(stale.settle(old, page[1].0.as_ref().unwrap()).await, Err("WH011".into()));
    run(&mut stale.session, "ROLLBACK").await;
    for call in ["next_events('shop', 'reader', 0, TERM)", "fail_events('shop', 'reader', 0, TERM, '{1}')"] {
        let call = format!("SELECT headwater.{}", call.replace("TERM", &old.1.to_string()));
        assert_eq!(sqlstate_of(&mut stale.session, &call).await, "WH011", "{call}");
    }
    assert!(stale.lease().await.is_empty());

    run(&mut owner.session, "BEGIN; INSERT INTO effects VALUES ('owner')").await;
    let page = owner.page(new, "10").await;
    assert_eq!(owner.settle_all(new, &page).await, [1, 2]);
    run(&mut owner.session, "COMMIT").await;
    assert_eq!(owner.settle(new, page[1].0.as_ref().unwrap()).await, Err("WH011".into()), "once");
    let effects: Vec<String> =
        sqlx::query_scalar("SELECT by FROM effects").fetch_all(&mut owner.session).await.unwrap();
    assert_eq!(effects, ["owner"]);
    assert_eq!(stands(&db, "reader").await, [(2, vec![])]);
}

#[tokio::test]
async fn another_history_is_refused() {
    let db = shop("reader", "").await;
    let mut worker = Worker::new(&db, "reader").await;
    emit(&mut db.session().await, &["a"]).await;
    let of = worker.lease().await[0];
    let page = worker.page(of, "10").await;
    run(&mut db.session().await, "TRUNCATE headwater_private.histories").await;
    assert_eq!(worker.settle(of, page[0].0.as_ref().unwrap()).await, Err("WH050".into()));
    let page = worker.page(of, "10").await;
    assert_eq!(worker.settle_all(of, &page).await, [1]);
}

#[tokio::test]
async fn an_open_transaction_is_held_then_passed_and_what_it_commits_comes_late() {
    let db = shop("reader", "").await;
    let mut worker = Worker::new(&db, "reader").await;
    let (mut one, mut two, mut other) = (db.session().await, db.session().await, db.session().await);
    run(&mut one, "BEGIN").await;
    run(&mut two, "BEGIN").await;
    emit(&mut one, &["a"]).await;
    emit(&mut two, &["b"]).await;
    emit(&mut other, &["c", "d"]).await;
    let of = worker.lease().await[0];
    assert!(worker.page(of, "10, hold_for => NULL").await.is_empty(), "strict order");
    assert!(worker.page(of, "10, hold_for => '1 hour'").await.is_empty());
    let page = worker.page(of, "10, hold_for => '0'").await;
    assert_eq!(worker.settle_all(of, &page).await, [3, 4]);
    assert_eq!(stands(&db, "reader").await, [(4, vec![1, 2])]);

    run(&mut two, "COMMIT").await;
    emit(&mut other, &["e"]).await;
    let page = worker.page(of, "10").await;
    assert_eq!(worker.settle_all(of, &page).await, [2], "what came late goes first");
    assert_eq!(stands(&db, "reader").await, [(4, vec![1, 1])]);
    let page = worker.page(of, "10, hold_for => NULL").await;
    assert_eq!(worker.settle_all(of, &page).await, [5]);
    run(&mut one, "ROLLBACK").await;
    assert!(worker.page(of, "10").await.is_empty());
    assert_eq!(stands(&db, "reader").await, [(5, vec![])], "what was rolled back will never come");
}

/// A commit between two looks of one call: what it shows in a gap goes before what is behind it.
#[tokio::test]
async fn a_permanent_hole_is_stepped_over() {
    let db = shop("reader", "").await;
    let mut worker = Worker::new(&db, "reader").await;
    let mut session = db.session().await;
    emit(&mut session, &["a"]).await;
    run(&mut session, "BEGIN; SELECT headwater.emit('shop', 'E') FROM generate_series(1, 20); ROLLBACK").await;
    emit(&mut session, &["b"]).await;
    let of = worker.lease().await[0];
    let page = worker.page(of, "10, hold_for => NULL").await;
    assert_eq!(worker.settle_all(of, &page).await, [1, 22]);
    assert_eq!(stands(&db, "reader").await, [(22, vec![])]);
}

#[tokio::test]
async fn bundles_go_on_past_the_page_and_are_settled_in_their_order() {
    let db = shop("reader", "").await;
    let mut worker = Worker::new(&db, "reader").await;
    let (mut one, mut other) = (db.session().await, db.session().await);
    // a: 1, 3, 5, of one transaction; b: 2, 4; c: 6
    run(&mut one, "BEGIN").await;
    for (mine, theirs) in [("a", "b"), ("a", "b"), ("a", "c")] {
        emit(&mut one, &[mine]).await;
        emit(&mut other, &[theirs]).await;
    }
    run(&mut one, "COMMIT").await;
    let of = worker.lease().await[0];
    let page = worker.page(of, "2, scope => 'key'").await;
    assert_eq!(bundles(&page), [vec![1, 3, 5], vec![2]]);
    let cursors: Vec<String> = page.iter().filter_map(|given| given.0.clone()).collect();
    assert_eq!(worker.settle(of, &cursors[1]).await, Err("WH011".into()), "the first is not settled");
    worker.settle(of, &cursors[0]).await.unwrap();
    assert_eq!(worker.settle(of, &cursors[0]).await, Err("WH011".into()), "once");
    assert_eq!(stands(&db, "reader").await, [(1, vec![])]);

    // Another owner leaves out what was settled ahead.
    let mut next = Worker::new(&db, "reader").await;
    run(&mut worker.session, &format!("SELECT headwater.release_partitions('shop', 'reader', '{}')", worker.id)).await;
    let of = next.lease().await[0];
    assert_eq!(worker.settle(of, &cursors[0]).await, Err("WH011".into()));
    let page = next.page(of, "10, scope => 'key'").await;
    assert_eq!(bundles(&page), [vec![2, 4], vec![6]]);
    next.settle_all(of, &page).await;
    assert_eq!(stands(&db, "reader").await, [(6, vec![])]);
    let notes: i64 =
        sqlx::query_scalar("SELECT count(*) FROM headwater_private.settled_ahead").fetch_one(&mut one).await.unwrap();
    assert_eq!(notes, 0);
}

#[tokio::test]
async fn a_bundle_that_is_spread_over_much_of_the_log_stays_whole() {
    let db = shop("reader", "").await;
    let mut worker = Worker::new(&db, "reader").await;
    let (mut one, mut other) = (db.session().await, db.session().await);
    run(&mut one, "BEGIN").await;
    emit(&mut one, &["long"]).await;
    run(&mut other, "SELECT headwater.emit('shop', 'E', key => 'k' || n) FROM generate_series(1, 5000) n").await;
    emit(&mut other, &["long"]).await;
    emit(&mut one, &["long"]).await;
    run(&mut one, "COMMIT").await;
    run(&mut other, "SELECT headwater.emit('shop', 'E', key => 'k' || n) FROM generate_series(1, 3000) n").await;
    let of = worker.lease().await[0];
    let page = worker.page(of, "2, scope => 'key'").await;
    assert_eq!(bundles(&page), [vec![1, 5002, 5003], vec![2]]);
    worker.settle_all(of, &page).await;
    let (mut seen, mut pages) = (4, 0);
    loop {
        let page = worker.page(of, "1000, scope => 'key'").await;
        if page.is_empty() {
            break;
        }
        pages += 1;
        seen += worker.settle_all(of, &page).await.len();
    }
    assert_eq!(seen, 8003);
    assert!(pages < 20, "{pages}");
    assert_eq!(stands(&db, "reader").await, [(8003, vec![])]);
    // One scan served the pages of the backlog that it covers.
    let scans: i64 = sqlx::query_scalar("SELECT max(scan_id) FROM headwater_private.bundle_scans")
        .fetch_one(&mut one)
        .await
        .unwrap();
    assert!(scans <= 2, "{scans}");
}

#[tokio::test]
async fn a_bundle_whose_end_is_behind_a_held_gap_waits_with_it() {
    let db = shop("reader", "").await;
    let mut worker = Worker::new(&db, "reader").await;
    let (mut one, mut held, mut other) = (db.session().await, db.session().await, db.session().await);
    run(&mut one, "BEGIN").await;
    run(&mut held, "BEGIN").await;
    emit(&mut other, &["x"]).await;
    emit(&mut one, &["a"]).await;
    emit(&mut held, &["y"]).await;
    emit(&mut one, &["a"]).await;
    run(&mut one, "COMMIT").await;
    let of = worker.lease().await[0];
    let page = worker.page(of, "10, scope => 'key', hold_for => NULL").await;
    assert_eq!(worker.settle_all(of, &page).await, [1]);
    assert!(worker.page(of, "10, scope => 'key', hold_for => NULL").await.is_empty());
    let page = worker.page(of, "10, scope => 'key', hold_for => '0'").await;
    assert_eq!(bundles(&page), [[2, 4]]);
    worker.settle_all(of, &page).await;
    run(&mut held, "COMMIT").await;
    let page = worker.page(of, "10, scope => 'key'").await;
    assert_eq!(worker.settle_all(of, &page).await, [3]);
    assert_eq!(stands(&db, "reader").await, [(4, vec![])]);
}

#[tokio::test]
async fn actors_are_apart_unless_a_transaction_goes_on() {
    let db = shop("reader", "").await;
    let mut worker = Worker::new(&db, "reader").await;
    let mut session = db.session().await;
    let by = |actor: &str| format!("SELECT headwater.emit('shop', 'E', key => 'k', actor_id => '{actor}')");
    run(&mut session, &by("ada")).await;
    run(&mut session, &by("ada")).await;
    run(&mut session, &by("grace")).await;
    run(&mut session, &format!("BEGIN; {}; {}; {}; COMMIT", by("ada"), by("grace"), by("ada"))).await;
    run(&mut session, &by("grace")).await;
    let of = worker.lease().await[0];
    let page = worker.page(of, "10, scope => 'key_and_actor'").await;
    assert_eq!(bundles(&page), [vec![1, 2], vec![3], vec![4, 5, 6], vec![7]]);
    worker.settle_all(of, &page).await;
    assert_eq!(stands(&db, "reader").await, [(7, vec![])]);
}

#[tokio::test]
async fn what_fails_is_tried_again_alone_then_buried_and_the_rest_goes_on() {
    let db = shop("reader", "").await;
    let mut worker = Worker::new(&db, "reader").await;
    emit(&mut db.session().await, &["a", "b", "c"]).await;
    let of = worker.lease().await[0];
    assert_eq!(worker.page(of, "10").await.len(), 3);
    assert_eq!(worker.fail(of, &[2], "max_attempts => 2, delay => '1 hour'").await, ("retry".into(), 1));
    let page = worker.page(of, "10").await;
    assert_eq!(worker.settle_all(of, &page).await, [1], "what is before it goes on");
    assert!(worker.page(of, "10").await.is_empty(), "what is after it waits");
    run(&mut db.session().await, "UPDATE headwater_private.failing_events SET retry_at = clock_timestamp()").await;
    let page = worker.page(of, "10").await;
    assert_eq!((page.len(), page[0].1, page[0].2), (1, 2, 2), "alone, and for the second time");
    assert_eq!(worker.fail(of, &[2], "max_attempts => 2").await, ("dead".into(), 2));
    let page = worker.page(of, "10").await;
    assert_eq!((page[0].1, worker.settle_all(of, &page).await), (1, vec![3]));
    assert_eq!(stands(&db, "reader").await, [(3, vec![])]);

    // Redriven, it comes again, fails again, and is handled at last.
    let mut session = db.session().await;
    let state = "SELECT state, jsonb_array_length(attempts), error FROM headwater.read_dead_letters('shop', 'reader', '{dead,redriving,redriven}')";
    for (fails, expected) in
        [(true, ("dead".to_owned(), 3, "broken".to_owned())), (false, ("redriven".to_owned(), 3, "broken".to_owned()))]
    {
        run(&mut session, "SELECT headwater.redrive('shop', 'reader')").await;
        let page = worker.page(of, "10").await;
        assert_eq!(sequences(&page), [2]);
        match fails {
            true => assert_eq!(worker.fail(of, &[2], "max_attempts => 2").await.0, "dead"),
            false => worker.settle(of, page[0].0.as_ref().unwrap()).await.unwrap(),
        }
        let letter: (String, i32, String) = sqlx::query_as(state).fetch_one(&mut session).await.unwrap();
        assert_eq!(letter, expected);
        assert!(worker.page(of, "10").await.is_empty());
        if !fails {
            assert_eq!(worker.settle(of, page[0].0.as_ref().unwrap()).await, Err("WH011".into()), "once");
        }
    }
}

#[tokio::test]
async fn a_bundle_fails_together() {
    let db = shop("reader", "").await;
    let mut worker = Worker::new(&db, "reader").await;
    emit(&mut db.session().await, &["a", "b", "a", "c"]).await;
    let of = worker.lease().await[0];
    assert_eq!(bundles(&worker.page(of, "10, scope => 'key'").await), [vec![1, 3], vec![2], vec![4]]);
    assert_eq!(worker.fail(of, &[1, 3], "delay => '0'").await, ("retry".into(), 1));
    let page = worker.page(of, "10, scope => 'key'").await;
    assert_eq!(bundles(&page), [vec![1, 3]], "alone");
    assert_eq!(page.iter().map(|given| given.1).collect::<Vec<_>>(), [2, 2]);
    assert_eq!(worker.fail(of, &[1, 3], "permanent => true").await, ("dead".into(), 2));
    let page = worker.page(of, "10, scope => 'key'").await;
    assert_eq!(worker.settle_all(of, &page).await, [2, 4]);
    let letters: i64 = sqlx::query_scalar("SELECT count(*) FROM headwater.read_dead_letters('shop', 'reader')")
        .fetch_one(&mut worker.session)
        .await
        .unwrap();
    assert_eq!(letters, 2);
    assert_eq!(stands(&db, "reader").await, [(4, vec![])]);
}

/// Whoever goes on with a page after a failure may meet another one: each keeps its attempts, and
/// the first waits for its turn.
#[tokio::test]
async fn every_event_that_fails_keeps_its_attempts() {
    let db = shop("reader", "").await;
    let mut worker = Worker::new(&db, "reader").await;
    emit(&mut db.session().await, &["a", "b", "c", "d"]).await;
    let of = worker.lease().await[0];
    for attempt in [1, 2] {
        assert_eq!(worker.fail(of, &[2], "max_attempts => 3, delay => '0'").await, ("retry".into(), attempt));
        assert_eq!(worker.fail(of, &[4], "max_attempts => 3, delay => '1 hour'").await, ("retry".into(), attempt));
    }
    let page = worker.page(of, "10").await;
    assert_eq!(worker.settle_all(of, &page).await, [1], "2 and what is behind it wait");
    let page = worker.page(of, "10").await;
    assert_eq!((page.len(), page[0].1, page[0].2), (1, 3, 2));
    // A worker that asks for other types does not meet it.
    run(&mut db.session().await, "SELECT headwater.emit('shop', 'Other')").await;
    assert_eq!(sequences(&worker.page(of, "10, event_types => '{Other}'").await), [5]);
    assert_eq!(worker.fail(of, &[5], "permanent => true").await.0, "dead");
    assert_eq!(worker.fail(of, &[2], "max_attempts => 3").await, ("dead".into(), 3));
    let page = worker.page(of, "10").await;
    assert_eq!(worker.settle_all(of, &page).await, [3]);
    assert!(worker.page(of, "10").await.is_empty(), "4 waits for an hour");
    assert_eq!(worker.fail(of, &[4], "max_attempts => 3").await, ("dead".into(), 3));
    assert!(worker.page(of, "10").await.is_empty());
    assert_eq!(stands(&db, "reader").await, [(5, vec![])]);
    let left: i64 = sqlx::query_scalar("SELECT count(*) FROM headwater_private.failing_events")
        .fetch_one(&mut worker.session)
        .await
        .unwrap();
    assert_eq!(left, 0);
}

/// Of several bundles that failed, the first one decides, wherever in it the event is that failed.
#[tokio::test]
async fn a_bundle_waits_though_a_later_event_of_it_failed() {
    let db = shop("reader", "").await;
    let mut worker = Worker::new(&db, "reader").await;
    emit(&mut db.session().await, &["a", "b", "b", "a"]).await;
    let of = worker.lease().await[0];
    assert_eq!(worker.fail(of, &[4], "delay => '1 hour'").await, ("retry".into(), 1));
    assert_eq!(worker.fail(of, &[2, 3], "delay => '0'").await, ("retry".into(), 1));
    assert!(worker.page(of, "10, scope => 'key'").await.is_empty(), "1 and 4 wait, and 2 is behind them");
    run(&mut db.session().await, "UPDATE headwater_private.failing_events SET retry_at = clock_timestamp()").await;
    let page = worker.page(of, "10, scope => 'key'").await;
    assert_eq!(page.iter().map(|given| (given.2, given.1)).collect::<Vec<_>>(), [(1, 1), (4, 2)]);
    worker.settle_all(of, &page).await;
    let page = worker.page(of, "10, scope => 'key'").await;
    assert_eq!(page.iter().map(|given| (given.2, given.1)).collect::<Vec<_>>(), [(2, 2), (3, 2)]);
    worker.settle_all(of, &page).await;
    assert_eq!(stands(&db, "reader").await, [(4, vec![])]);
}

/// A term of one partition is no term of another.
#[tokio::test]
async fn events_of_another_partition_cannot_fail() {
    let db = shop("reader", ", mode => 'partitioned', partitions => 2").await;
    let mut worker = Worker::new(&db, "reader").await;
    emit(&mut db.session().await, &["a", "b", "c", "d", "e", "f"]).await;
    let owned = worker.lease().await;
    let theirs = sequences(&worker.page(owned[1], "10").await);
    let ours = sequences(&worker.page(owned[0], "10").await);
    assert!(!theirs.is_empty() && !ours.is_empty());
    for mixed in [vec![theirs[0]], {
        let mut all = vec![ours[0], theirs[0]];
        all.sort_unstable();
        all
    }] {
        let fail = format!(
            "SELECT headwater.fail_events('shop', 'reader', {}, {}, ARRAY{mixed:?}::bigint[], permanent => true)",
            owned[0].0, owned[0].1
        );
        assert_eq!(sqlstate_of(&mut worker.session, &fail).await, "WH002");
    }
    assert_eq!(sequences(&worker.page(owned[1], "10").await), theirs);
    assert_eq!(worker.fail(owned[0], &ours[..1], "permanent => true").await.0, "dead");
    // Nor can a letter that is delivered again, which fails alone.
    run(&mut db.session().await, "SELECT headwater.redrive('shop', 'reader')").await;
    for (owner, list) in [(owned[1], vec![ours[0]]), (owned[0], ours[..2].to_vec())] {
        let fail = format!(
            "SELECT headwater.fail_events('shop', 'reader', {}, {}, ARRAY{list:?}::bigint[], permanent => true)",
            owner.0, owner.1
        );
        assert_eq!(sqlstate_of(&mut worker.session, &fail).await, "WH002");
    }
    assert_eq!(worker.fail(owned[0], &ours[..1], "max_attempts => 5").await.0, "dead");
}

#[tokio::test]
async fn a_parked_key_waits_behind_its_letter() {
    let db = shop("reader", "").await;
    let mut worker = Worker::new(&db, "reader").await;
    let mut session = db.session().await;
    emit(&mut session, &["a", "b", "a"]).await;
    let of = worker.lease().await[0];
    assert_eq!(worker.fail(of, &[1], "permanent => true, on_exhaustion => 'park_key'").await.0, "dead");
    let page = worker.page(of, "10").await;
    assert_eq!(worker.settle_all(of, &page).await, [2]);
    emit(&mut session, &["a"]).await;
    assert!(worker.page(of, "10").await.is_empty());
    assert_eq!(stands(&db, "reader").await, [(4, vec![])]);
    let parked = "SELECT global_sequence, state FROM headwater.read_dead_letters('shop', 'reader') ORDER BY 1";
    let letters: Vec<(i64, String)> = sqlx::query_as(parked).fetch_all(&mut session).await.unwrap();
    assert_eq!(letters, [(1, "dead".into()), (3, "parked".into()), (4, "parked".into())]);
    run(&mut session, "SELECT headwater.redrive('shop', 'reader')").await;
    for expected in [1, 3, 4] {
        let page = worker.page(of, "10").await;
        assert_eq!(worker.settle_all(of, &page).await, [expected], "in order");
    }
    emit(&mut session, &["a"]).await;
    let page = worker.page(of, "10").await;
    assert_eq!(worker.settle_all(of, &page).await, [5]);
}

#[tokio::test]
async fn a_pause_keeps_the_event_ahead() {
    let db = shop("reader", "").await;
    let mut worker = Worker::new(&db, "reader").await;
    emit(&mut db.session().await, &["a"]).await;
    let of = worker.lease().await[0];
    assert_eq!(worker.fail(of, &[1], "max_attempts => 1, on_exhaustion => 'pause'").await.0, "paused");
    assert!(worker.page(of, "10").await.is_empty());
    let reason: String = sqlx::query_scalar("SELECT pause_reason FROM headwater.subscriber_status('shop', 'reader')")
        .fetch_one(&mut worker.session)
        .await
        .unwrap();
    assert_eq!(reason, "event 1 failed 1 times: broken");
    run(&mut db.session().await, "SELECT headwater.resume_subscriber('shop', 'reader')").await;
    let page = worker.page(of, "10").await;
    assert_eq!(worker.settle_all(of, &page).await, [1]);
}

#[tokio::test]
async fn workers_share_partitions_and_give_up_what_exceeds_their_share() {
    let db = shop("group", ", mode => 'partitioned', partitions => 5").await;
    let (mut one, mut two) = (Worker::new(&db, "group").await, Worker::new(&db, "group").await);
    assert_eq!(one.lease().await.len(), 5);
    assert!(two.lease().await.is_empty());
    let kept = one.lease().await.len();
    assert!((2..=3).contains(&kept), "{kept}");
    assert_eq!(two.lease().await.len(), 5 - kept);
    let all = |leases: &[(i32, i64)]| leases.iter().map(|lease| lease.0).collect::<Vec<_>>();
    let mut owned = all(&one.lease().await);
    owned.extend(all(&two.lease().await));
    owned.sort_unstable();
    assert_eq!(owned, [0, 1, 2, 3, 4]);
    run(&mut two.session, &format!("SELECT headwater.release_partitions('shop', 'group', '{}')", two.id)).await;
    assert_eq!(one.lease().await.len(), 5);
    // By hand: these and no others.
    let by_hand = "SELECT partition FROM headwater.lease_partitions('shop', 'group', $1, partitions => '{1,4}')";
    let owned: Vec<i32> = sqlx::query_scalar(by_hand).bind(one.id).fetch_all(&mut one.session).await.unwrap();
    assert_eq!(owned, [1, 4]);
}

/// The group is resized while it works. Up to the barrier, the old partition handles each key;
/// after it, the new one. The barrier splits no bundle.
#[tokio::test]
async fn a_group_is_resized_between_pages() {
    let db = shop("group", ", mode => 'partitioned', partitions => 2").await;
    let mut worker = Worker::new(&db, "group").await;
    let mut session = db.session().await;
    run(
        &mut session,
        "CREATE TABLE effects (sequence bigint, key text, xid text DEFAULT pg_current_xact_id()::text, at bigserial)",
    )
    .await;
    for _ in 0..10 {
        run(&mut session, "SELECT headwater.emit('shop', 'E', key => 'k' || n % 7) FROM generate_series(1, 30) n")
            .await;
    }
    let (mut resizes, mut partitions) = ([3, 1].into_iter(), 2);
    for round in 0.. {
        assert!(round < 500, "it comes to no end");
        if round % 4 == 3
            && stands(&db, "group").await.len() == partitions
            && let Some(next) = resizes.next()
        {
            partitions = next;
            run(&mut session, &format!("SELECT headwater.resize_group('shop', 'group', {partitions})")).await;
        }
        for of in worker.lease().await {
            let page = worker.page(of, "9, scope => 'key'").await;
            for bundle in page.split_inclusive(|given| given.0.is_some()).take(3) {
                let insert = "INSERT INTO effects SELECT * FROM unnest($1::bigint[], $2::text[])";
                let keys: Vec<String> = bundle.iter().filter_map(|given| given.3.clone()).collect();
                run(&mut worker.session, "BEGIN").await;
                sqlx::query(insert).bind(sequences(bundle)).bind(keys).execute(&mut worker.session).await.unwrap();
                worker.settle(of, bundle.last().unwrap().0.as_ref().unwrap()).await.unwrap();
                run(&mut worker.session, "COMMIT").await;
            }
        }
        let standing = stands(&db, "group").await;
        if standing.len() == 1 && standing[0].0 == 300 {
            break;
        }
    }
    let counted: (i64, i64) =
        sqlx::query_as("SELECT count(*), count(DISTINCT sequence) FROM effects").fetch_one(&mut session).await.unwrap();
    assert_eq!(counted, (300, 300));
    let wrong: (i64, i64) = sqlx::query_as(
        "SELECT (SELECT count(*) FROM (SELECT sequence < lag(sequence) OVER (PARTITION BY key ORDER BY at) AS back FROM effects) o WHERE back),
                (SELECT count(*) FROM (SELECT FROM effects f JOIN headwater.read_log('shop') e ON e.global_sequence = f.sequence
                                        GROUP BY f.key, e.transaction_id HAVING count(DISTINCT f.xid) > 1) s)",
    )
    .fetch_one(&mut session)
    .await
    .unwrap();
    assert_eq!(wrong, (0, 0), "out of order, split");
}

#[tokio::test]
async fn a_consumers_grant_is_enough_and_needed() {
    let db = shop("reader", "").await;
    emit(&mut db.session().await, &["a"]).await;
    let (consumer, producer) = (db.role().await, db.role().await);
    db.database.grant("shop", &consumer.name, GrantKind::Consumer).await.unwrap();
    db.database.grant("shop", &producer.name, GrantKind::Producer).await.unwrap();
    let mut worker = Worker { session: consumer.session().await, id: Uuid::new_v4(), subscriber: "reader" };
    let of = worker.lease().await[0];
    assert_eq!(worker.fail(of, &[1], "delay => '0'").await.0, "retry");
    let page = worker.page(of, "10, scope => 'key'").await;
    assert_eq!(worker.settle_all(of, &page).await, [1]);
    let mut theirs = producer.session().await;
    for call in [
        "lease_partitions('shop', 'reader', gen_random_uuid())",
        "next_events('shop', 'reader', 0, 1)",
        "settle('shop', 'reader', 0, 1, '{}')",
        "fail_events('shop', 'reader', 0, 1, '{1}')",
        "release_partitions('shop', 'reader', gen_random_uuid())",
    ] {
        assert_eq!(sqlstate_of(&mut theirs, &format!("SELECT headwater.{call}")).await, "WH015", "{call}");
    }
    drop((worker, theirs));
    for role in [consumer, producer] {
        db.database.revoke("shop", &role.name, None).await.unwrap();
        db.drop_role(role).await;
    }
}

/// Whatever a cursor says: an error of Headwater's, and the subscriber stays where it is.
#[tokio::test]
async fn a_cursor_that_is_none_moves_nothing() {
    let db = shop("reader", "").await;
    let mut worker = Worker::new(&db, "reader").await;
    emit(&mut db.session().await, &["a", "b"]).await;
    let of = worker.lease().await[0];
    let page = worker.page(of, "10").await;
    let good: serde_json::Value = serde_json::from_str(page[1].0.as_ref().unwrap()).unwrap();
    for (field, values) in [
        ("to_position", serde_json::json!([-1, 3, 9_223_372_036_854_775_807_i64, "x", null, 1e300, [1]])),
        ("from_position", serde_json::json!([-1, 1, null])),
        ("ledger", serde_json::json!([[1], [2, 1], [1, 99], [null, null], "x", {"a": 1}])),
        ("from_ledger", serde_json::json!([[1, 1], null])),
        ("events", serde_json::json!([-1, "NaN", 9_223_372_036_854_775_807_i64])),
        ("event_sum", serde_json::json!([-1, "NaN", "Infinity", 1e300])),
        ("history", serde_json::json!(["x", null, "00000000-0000-0000-0000-000000000000"])),
        ("ahead", serde_json::json!([[99], [0], [2, 1], [[1], [2]], [null]])),
        ("parks", serde_json::json!([[99], [-1], [[1], [2]]])),
        ("follows", serde_json::json!([1])),
        ("letter", serde_json::json!([1, -1])),
    ] {
        for value in values.as_array().unwrap() {
            let mut cursor = good.clone();
            cursor[field] = value.clone();
            let refused = worker.settle(of, &cursor.to_string()).await.expect_err(&cursor.to_string());
            assert!(refused.starts_with("WH"), "{cursor}: {refused}");
        }
    }
    for cursor in ["", "null", "[]", "{}", "1", "\"x\"", "{\"history\": 1}", "\u{1}"] {
        assert_eq!(worker.settle(of, cursor).await, Err("WH002".into()), "{cursor:?}");
    }
    assert_eq!(stands(&db, "reader").await, [(0, vec![])]);
    assert_eq!(worker.settle_all(of, &page).await, [1, 2]);
}

#[tokio::test]
async fn types_may_be_patterns_and_an_empty_list_is_refused() {
    let db = shop("reader", "").await;
    let mut session = db.session().await;
    let emits = "SELECT headwater.emit('shop', t, key => 'k') FROM unnest('{order.placed,order_paid,mail.sent,order.paid}'::text[]) t";
    run(&mut session, emits).await;
    let mut worker = Worker::new(&db, "reader").await;
    let of = worker.lease().await[0];
    for scope in ["batch", "key"] {
        let page = worker.page(of, &format!("scope => '{scope}', event_types => '{{order.*}}'")).await;
        assert_eq!(sequences(&page), [1, 4], "scope {scope}");
    }
    let term = of.1;
    let empty = format!("SELECT headwater.next_events('shop', 'reader', 0, {term}, event_types => '{{}}')");
    assert_eq!(sqlstate_of(&mut session, &empty).await, "WH002");
    assert_eq!(stands(&db, "reader").await, [(0, vec![])], "nothing was settled");
}

#[tokio::test]
async fn an_event_that_was_settled_ahead_cannot_fail() {
    let db = shop("reader", "").await;
    // The first bundle has events on both sides of another's.
    let (mut one, mut two) = (db.session().await, db.session().await);
    run(&mut one, "BEGIN").await;
    emit(&mut one, &["a"]).await;
    emit(&mut two, &["b"]).await;
    emit(&mut one, &["a"]).await;
    run(&mut one, "COMMIT").await;
    let mut worker = Worker::new(&db, "reader").await;
    let of = worker.lease().await[0];
    let page = worker.page(of, "scope => 'key'").await;
    assert_eq!(bundles(&page), [vec![1, 3], vec![2]]);
    worker.settle(of, page[1].0.as_deref().unwrap()).await.unwrap();
    let term = of.1;
    for sequences in ["{3}", "{2,3}"] {
        let fail =
            format!("SELECT headwater.fail_events('shop', 'reader', 0, {term}, '{sequences}', permanent => true)");
        assert_eq!(sqlstate_of(&mut two, &fail).await, "WH011", "{sequences}");
    }
    let rest = worker.page(of, "scope => 'key'").await;
    assert_eq!(worker.settle_all(of, &rest).await, [2]);
    assert_eq!(stands(&db, "reader").await, [(3, vec![])]);
}

/// A subscriber that has passed every other event of the log. Then the transaction of the passed
/// events commits. The subscriber's ledger is in chunks, as nodes write it.
async fn with_chunks(db: &TestDatabase, gaps: i64) -> (Worker, (i32, i64)) {
    let (mut slow, mut session) = (db.session().await, db.session().await);
    run(&mut slow, "BEGIN").await;
    for _ in 0..gaps {
        emit(&mut slow, &["slow"]).await;
        emit(&mut session, &["fast"]).await;
    }
    let mut worker = Worker::new(db, "reader").await;
    let of = worker.lease().await[0];
    let term = of.1;
    run(
        &mut session,
        &format!(
            "UPDATE headwater_private.subscribers s
                SET position = 2 * {gaps}, settled_events = {gaps}, settled_sum = {gaps} * ({gaps} + 1),
                    pending_gaps = headwater_private.keep_ledger(s.namespace_id, s.subscriber_id, s.partition,
                        ARRAY(SELECT unnest(ARRAY[2 * i - 1, 2 * i - 1]) FROM generate_series(1, {gaps}) i))
              WHERE s.term = {term}"
        ),
    )
    .await;
    run(&mut slow, "COMMIT").await;
    (worker, of)
}

#[tokio::test]
async fn two_calls_at_once_bring_a_ledger_together_once() {
    let db = shop("reader", "").await;
    let (mut worker, of) = with_chunks(&db, 400).await;
    let mut session = db.session().await;
    let next = format!("SELECT count(*) FROM headwater.next_events('shop', 'reader', 0, {}, 10)", of.1);
    run(&mut worker.session, &format!("BEGIN; {next}")).await;
    let mut other = db.session().await;
    let waiting = pid(&mut other).await;
    let call = tokio::spawn(async move { run(&mut other, &next).await });
    until_it_waits(&mut session, waiting).await;
    run(&mut worker.session, "COMMIT").await;
    call.await.unwrap();
    let mut handled = Vec::new();
    loop {
        let page = worker.page(of, "1000").await;
        if page.is_empty() {
            break;
        }
        handled.extend(worker.settle_all(of, &page).await);
    }
    assert_eq!(handled, (0..400).map(|i| 2 * i + 1).collect::<Vec<_>>(), "each once");
    assert_eq!(stands(&db, "reader").await, [(800, vec![])]);
}

#[tokio::test]
async fn cursors_of_a_page_are_bounded_however_long_the_ledger_is() {
    let db = shop("reader", "").await;
    let (mut worker, of) = with_chunks(&db, 1_500).await;
    let page = worker.page(of, "1000, scope => 'event'").await;
    let bytes: usize = page.iter().filter_map(|given| given.0.as_ref()).map(String::len).sum();
    assert!(!page.is_empty() && bytes < 2_500_000, "{bytes} bytes for {} events", page.len());
    assert_eq!(worker.settle_all(of, &page).await[0], 1);
}
