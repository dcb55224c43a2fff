//! Who owns a subscriber, and where it stands. Two processes, explicit steps.

use std::time::Duration;

use crate::common::subscribers::{HANDLE, LONG, Process, advance, ask, fence, from, with_ledger};
use crate::common::{emit, pid, raw, run, sqlstate_of, until_it_waits};
use headwater_core::{
    Append, EventLog, GapState, GroupStore, OperatorStore, ProgressStore, Report, RunnerState, StartFrom,
    SubscriberConfig, SubscriberError, SubscriberMode,
};
use headwater_postgres::{PgLog, SubscribersOptions};
use headwater_testing::TestDatabase;
use sqlx::{Connection, PgConnection, Row};

async fn shop() -> (TestDatabase, PgLog, PgConnection) {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let session = db.session().await;
    (db, log, session)
}

/// The same, with room for positions: they are written without events to read.
async fn roomy() -> (TestDatabase, PgLog, PgConnection) {
    let (db, log, session) = shop().await;
    db.hand_out("shop", 1_000).await;
    (db, log, session)
}

/// Two processes, and a subscriber that the first owns in term 2: its registration was the first.
async fn owned() -> (TestDatabase, PgConnection, Process, Process) {
    let (db, log, session) = roomy().await;
    let (a, b) = (Process::start(&db, &log, "a").await, Process::start(&db, &log, "b").await);
    a.register("totals", StartFrom::Beginning).await;
    assert_eq!(a.take("totals").await, Some(2));
    (db, session, a, b)
}

fn is_fenced<T: std::fmt::Debug>(result: Result<T, SubscriberError>) {
    assert!(matches!(&result, Err(SubscriberError::Fenced(id)) if id == "totals"), "{result:?}");
}

fn is_not_found<T: std::fmt::Debug>(result: Result<T, SubscriberError>) {
    assert!(matches!(&result, Err(SubscriberError::NotFound(_))), "{result:?}");
}

/// The backend that holds the advisory lock of `totals`, if one does.
async fn lock_holders(session: &mut PgConnection) -> Vec<i32> {
    let holders = "SELECT l.pid FROM headwater_private.subscriber_lock('shop', 'totals', 0) k JOIN pg_locks l
                       ON l.locktype = 'advisory' AND l.objsubid = 2 AND l.granted
                      AND l.classid::bigint = (k.high::bigint & 4294967295) AND l.objid::bigint = (k.low::bigint & 4294967295)
                      AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    sqlx::query_scalar(holders).fetch_all(session).await.unwrap()
}

/// Ends the session that holds the lock, and waits until it is gone.
async fn kill_owner(session: &mut PgConnection) {
    let pids = lock_holders(session).await;
    assert_eq!(pids.len(), 1, "one session holds the lock");
    sqlx::query("SELECT pg_terminate_backend($1, 10000)").bind(pids[0]).execute(session).await.unwrap();
}

/// The version of the row, which any write changes.
async fn version(session: &mut PgConnection) -> (String, String) {
    let row = sqlx::query("SELECT ctid::text, concat(xmin, ' ', xmax) FROM headwater_private.subscribers");
    let row = row.fetch_one(session).await.unwrap();
    (row.get(0), row.get(1))
}

#[tokio::test]
async fn registering_again_changes_nothing() {
    let (db, log, _) = roomy().await;
    let a = Process::start(&db, &log, "a").await;
    a.register("totals", StartFrom::After(7)).await;
    a.register("totals", StartFrom::Beginning).await;
    assert_eq!(a.store.position("totals").await.unwrap().position, 7);
    assert_eq!(a.store.subscribers().await.unwrap().len(), 1);
}

#[tokio::test]
async fn many_processes_may_register_at_once() {
    let (db, log, _) = shop().await;
    let a = Process::start(&db, &log, "a").await;
    let all = (0..8).map(|_| a.register("totals", StartFrom::Now));
    futures::future::join_all(all).await;
    assert_eq!(a.store.subscribers().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_subscriber_starts_where_it_is_told() {
    let (db, log, mut session) = shop().await;
    let a = Process::start(&db, &log, "a").await;
    for _ in 0..3 {
        emit(&mut session, "shop", "event").await;
    }
    // 4 is in flight, 5 is there: whoever starts now must still get 4.
    let mut early = db.session().await;
    run(&mut early, "BEGIN").await;
    emit(&mut early, "shop", "in flight").await;
    emit(&mut session, "shop", "event").await;
    let time = log.log_page(&headwater_core::LogQuery::after(1)).await.unwrap().events[0].recorded_at.unwrap();
    for (id, start_from, position) in [
        ("beginning", StartFrom::Beginning, 0),
        ("now", StartFrom::Now, 3),
        ("after", StartFrom::After(2), 2),
        ("time", StartFrom::Time(time), 1),
        ("future", StartFrom::Time(time + chrono::Duration::days(400)), 3),
    ] {
        a.register(id, start_from).await;
        assert_eq!(a.store.position(id).await.unwrap().position, position, "{id}");
    }
}

#[tokio::test]
async fn an_instance_takes_and_renews_and_another_stands_by() {
    let (_db, mut session, a, b) = owned().await;
    assert_eq!(a.renew("totals", 2).await, Some(2));
    for _ in 0..3 {
        assert_eq!(b.take("totals").await, None, "the lease runs, and the session lives");
    }
    assert_eq!(lock_holders(&mut session).await.len(), 1);
    let info = b.store.subscriber("totals").await.unwrap();
    assert_eq!((info.owner.as_ref(), info.term), (Some(&a.instance), 2));
    assert!(info.lease_left.unwrap() > LONG / 2);
    a.store.release(&a.instance, &["totals".into()]).await.unwrap();
    assert_eq!(lock_holders(&mut session).await.len(), 0);
    assert_eq!(b.store.subscriber("totals").await.unwrap().owner, None);
    assert_eq!(b.take("totals").await, Some(3));
    assert_eq!(a.take("totals").await, None);
}

#[tokio::test]
async fn answers_come_in_the_order_of_the_asks() {
    let (db, log, _) = shop().await;
    let a = Process::start(&db, &log, "a").await;
    for id in ["x", "y", "z"] {
        a.register(id, StartFrom::Beginning).await;
    }
    a.store.set_paused("x", true).await.unwrap();
    let asks = [ask("z", None), ask("gone", None), ask("x", None), ask("y", None), ask("x", None)];
    let held = a.store.keep(&a.instance, &asks, LONG).await.unwrap();
    let seen: Vec<_> = held.iter().map(|held| (held.subscriber_id.as_str(), held.term, held.paused)).collect();
    let expected =
        [("z", Some(4), false), ("gone", None, false), ("x", Some(5), true), ("y", Some(6), false), ("x", None, false)];
    assert_eq!(seen, expected, "an id that is asked for twice is owned once");
    assert_eq!(a.store.keep(&a.instance, &[], LONG).await.unwrap(), []);
}

#[tokio::test]
async fn a_standby_takes_over_at_once_when_the_owners_session_dies() {
    let (_db, mut session, a, b) = owned().await;
    kill_owner(&mut session).await;
    assert_eq!(b.take("totals").await, Some(3));
    assert_eq!(a.renew("totals", 2).await, None, "the first learns that it lost");
    assert_eq!(a.take("totals").await, None, "and stands by");
    assert_eq!(b.renew("totals", 3).await, Some(3));
}

#[tokio::test]
async fn an_owner_that_reconnects_first_keeps_its_term() {
    let (_db, mut session, a, b) = owned().await;
    kill_owner(&mut session).await;
    assert_eq!(a.renew("totals", 2).await, Some(2));
    assert_eq!(lock_holders(&mut session).await.len(), 1, "it holds the lock again");
    assert_eq!(b.take("totals").await, None);
}

#[tokio::test]
async fn a_lock_that_is_held_elsewhere_is_taken_when_it_is_free() {
    let (db, mut session, a, b) = owned().await;
    // The owner's old session stays behind a half-open socket: the lock is held, but not by the
    // owner's new session.
    kill_owner(&mut session).await;
    let mut lingering = db.session().await;
    run(
        &mut lingering,
        "SELECT pg_advisory_lock(high, low) FROM headwater_private.subscriber_lock('shop', 'totals', 0)",
    )
    .await;
    assert_eq!(a.renew("totals", 2).await, Some(2));
    lingering.close().await.unwrap();
    assert_eq!(b.take("totals").await, None, "a free lock proves nothing while the owner does not claim it");
    assert_eq!(a.renew("totals", 2).await, Some(2));
    assert_eq!(lock_holders(&mut session).await.len(), 1);
    kill_owner(&mut session).await;
    assert_eq!(b.take("totals").await, Some(3));
}

#[tokio::test]
async fn a_lease_that_is_over_can_be_taken_and_the_zombie_is_fenced() {
    let (_db, mut session, a, b) = owned().await;
    // The owner is paused, its session lives on: as if its lease had ended.
    run(&mut session, "UPDATE headwater_private.subscribers SET lease_until = clock_timestamp()").await;
    assert_eq!(b.take("totals").await, Some(3));
    assert_eq!(b.renew("totals", 3).await, Some(3));
    assert_eq!(lock_holders(&mut session).await.len(), 1, "the zombie's session still holds it");

    is_fenced(a.store.advance(&fence("totals", Some(2)), &advance(5, &[5])).await);
    is_fenced(a.store.load(&fence("totals", Some(2))).await);
    is_fenced(a.store.pause_self(&fence("totals", Some(2)), "broken").await);
    a.store.release(&a.instance, &["other".into()]).await.unwrap();
    assert_eq!(a.renew("totals", 2).await, None);
    assert_eq!(lock_holders(&mut session).await.len(), 0, "the zombie gave the lock up");
    a.store.release(&a.instance, &["totals".into()]).await.unwrap();
    let info = b.store.subscriber("totals").await.unwrap();
    assert_eq!((info.owner.as_ref(), info.position, info.paused), (Some(&b.instance), 0, false));
    assert_eq!(b.renew("totals", 3).await, Some(3));
    assert_eq!(lock_holders(&mut session).await.len(), 1, "the new owner has it now");
    b.store.advance(&fence("totals", Some(3)), &advance(5, &[5])).await.unwrap();
}

#[tokio::test]
async fn a_short_lease_ends_by_the_databases_clock() {
    let (_db, mut session, a, b) = owned().await;
    a.store.release(&a.instance, &["totals".into()]).await.unwrap();
    let term = a.keep("totals", None, Duration::from_millis(50)).await.term;
    let over = "SELECT lease_until <= clock_timestamp() FROM headwater_private.subscribers";
    while !sqlx::query_scalar::<_, bool>(over).fetch_one(&mut session).await.unwrap() {
        tokio::task::yield_now().await;
    }
    assert_eq!(b.store.subscriber("totals").await.unwrap().lease_left, None);
    assert_eq!(b.take("totals").await, term.map(|term| term + 1));
}

#[tokio::test]
async fn an_instance_whose_answer_was_lost_takes_again() {
    let (_db, _session, a, _b) = owned().await;
    assert_eq!(a.take("totals").await, Some(3), "it does not know that it owns: a new term");
    assert_eq!(a.renew("totals", 3).await, Some(3));
}

#[tokio::test]
async fn locks_are_never_taken_twice() {
    let (_db, mut session, a, b) = owned().await;
    for _ in 0..5 {
        assert_eq!(a.renew("totals", 2).await, Some(2));
        assert_eq!(b.take("totals").await, None);
    }
    assert_eq!(a.take("totals").await, Some(3));
    a.store.release(&a.instance, &["totals".into()]).await.unwrap();
    assert_eq!(lock_holders(&mut session).await.len(), 0, "one release gives it up");
    assert_eq!(b.take("totals").await, Some(4));
}

#[tokio::test]
async fn closing_lets_others_take_over_at_once() {
    let (_db, mut session, a, b) = owned().await;
    a.store.close().await;
    while !lock_holders(&mut session).await.is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(b.take("totals").await, Some(3));
}

#[tokio::test]
async fn two_instances_of_one_store_do_not_share_a_session() {
    let (_db, _session, a, _b) = owned().await;
    let other = headwater_core::Instance::new("a");
    for _ in 0..2 {
        let held = a.store.keep(&other, &[ask("totals", None)], LONG).await.unwrap();
        assert_eq!(held[0].term, None);
    }
    assert_eq!(a.renew("totals", 2).await, Some(2));
}

#[tokio::test]
async fn without_session_locks_the_lease_alone_decides() {
    let (db, log, mut session) = shop().await;
    let off = SubscribersOptions { session_locks: false };
    let a = Process::start_with(&db, &log, "a", off.clone()).await;
    let (b, c) = (Process::start_with(&db, &log, "b", off).await, Process::start(&db, &log, "c").await);
    a.register("totals", StartFrom::Beginning).await;
    assert_eq!(a.take("totals").await, Some(2));
    assert_eq!(lock_holders(&mut session).await.len(), 0);
    assert_eq!((b.take("totals").await, c.take("totals").await), (None, None));
    assert_eq!(lock_holders(&mut session).await.len(), 0, "a standby holds nothing");
    run(&mut session, "UPDATE headwater_private.subscribers SET lease_until = clock_timestamp()").await;
    assert_eq!(b.take("totals").await, Some(3));
    b.store.release(&b.instance, &["totals".into()]).await.unwrap();
    assert_eq!(c.take("totals").await, Some(4));
}

#[tokio::test]
async fn keeping_does_not_wait_for_an_owner_that_commits() {
    let (db, mut session, a, b) = owned().await;
    let mut transaction = db.session().await;
    run(&mut transaction, HANDLE).await;
    a.store.advance_in(&mut transaction, &fence("totals", Some(2)), &advance(3, &[3])).await.unwrap();
    run(&mut session, "SET lock_timeout = '100ms'").await;
    let report = Report { state: RunnerState::Live, rate: 5.0, ..Report::default() };
    let asks = [headwater_core::LeaseRequest { report: report.clone(), ..ask("totals", Some(2)) }];
    let patience = Duration::from_secs(5);
    let held = tokio::time::timeout(patience, a.store.keep(&a.instance, &asks, LONG)).await.expect("it waits").unwrap();
    assert_eq!(held[0].term, Some(2), "what it had");
    kill_owner(&mut session).await;
    let held = tokio::time::timeout(patience, b.keep("totals", None, LONG)).await.expect("it waits");
    assert_eq!(held.term, None, "who commits is not gone");
    assert_eq!(lock_holders(&mut session).await.len(), 0, "and the lock is not kept for nothing");
    run(&mut transaction, "COMMIT").await;
    assert_eq!(a.store.keep(&a.instance, &asks, LONG).await.unwrap()[0].term, Some(2));
    assert_eq!(a.store.subscriber("totals").await.unwrap().report, Some(report));
}

#[tokio::test]
async fn an_idle_owner_writes_nothing() {
    let (_db, mut session, a, b) = owned().await;
    a.renew("totals", 2).await;
    let before = version(&mut session).await;
    for _ in 0..5 {
        assert_eq!(a.renew("totals", 2).await, Some(2));
        assert_eq!(b.take("totals").await, None);
    }
    assert_eq!(version(&mut session).await, before);
    run(
        &mut session,
        "UPDATE headwater_private.subscribers SET lease_until = clock_timestamp() + interval '35 minutes'",
    )
    .await;
    a.renew("totals", 2).await;
    assert!(
        a.store.subscriber("totals").await.unwrap().lease_left.unwrap() > LONG * 9 / 10,
        "renewed in its last two thirds"
    );
}

#[tokio::test]
async fn a_report_is_written_when_it_changes() {
    let (_db, mut session, a, _b) = owned().await;
    let report = Report { state: RunnerState::Held, detail: Some("gap\0 4".into()), rate: 0.5, ..Report::default() };
    let asks = [headwater_core::LeaseRequest { report: report.clone(), ..ask("totals", Some(2)) }];
    a.store.keep(&a.instance, &asks, LONG).await.unwrap();
    let written = a.store.subscriber("totals").await.unwrap().report.unwrap();
    assert_eq!((written.state, written.detail.as_deref()), (RunnerState::Held, Some("gap\u{fffd} 4")));
    let before = version(&mut session).await;
    a.store.keep(&a.instance, &asks, LONG).await.unwrap();
    assert_eq!(version(&mut session).await, before);
}

#[tokio::test]
async fn a_checkpoint_never_moves_back() {
    let (_db, _session, a, _b) = owned().await;
    for term in [Some(2), None] {
        let fence = fence("totals", term);
        a.store.advance(&fence, &advance(10, &[])).await.unwrap();
        is_fenced(a.store.advance(&fence, &advance(9, &[])).await);
        a.store.advance(&fence, &advance(10, &[])).await.unwrap();
        assert_eq!(a.store.position("totals").await.unwrap().position, 10);
    }
    is_not_found(a.store.advance(&fence("nobody", None), &advance(1, &[])).await);
    is_not_found(a.store.position("nobody").await);
}

#[tokio::test]
async fn the_ledger_comes_back_as_it_was() {
    let (_db, _session, a, _b) = owned().await;
    let fence = fence("totals", Some(2));
    let moved = with_ledger(advance(20, &[1, 20]), [(2, 3), (7, 7), (9, 19)]);
    a.store.advance(&fence, &moved).await.unwrap();
    let loaded = a.store.load(&fence).await.unwrap();
    assert_eq!((loaded.position, &loaded.pending_gaps), (20, &moved.pending_gaps));
    let info = a.store.subscriber("totals").await.unwrap();
    assert_eq!(info.pending_gaps, [(2, 3), (7, 7), (9, 19)]);
}

#[tokio::test]
async fn what_is_rolled_back_leaves_nothing() {
    let (db, _session, a, _b) = owned().await;
    let mut transaction = db.session().await;
    run(&mut transaction, HANDLE).await;
    a.store.advance_in(&mut transaction, &fence("totals", Some(2)), &advance(3, &[3])).await.unwrap();
    run(&mut transaction, "ROLLBACK").await;
    assert_eq!(a.store.position("totals").await.unwrap().position, 0);
    run(&mut transaction, HANDLE).await;
    a.store.advance_in(&mut transaction, &fence("totals", Some(2)), &advance(3, &[3])).await.unwrap();
    run(&mut transaction, "COMMIT").await;
    assert_eq!(a.store.position("totals").await.unwrap().position, 3);
}

#[tokio::test]
async fn a_zombies_transaction_waits_for_the_takeover_and_is_fenced() {
    let (db, mut session, a, _b) = owned().await;
    // A takeover that is not committed yet.
    run(&mut session, "BEGIN; UPDATE headwater_private.subscribers SET term = nextval('headwater_private.terms')")
        .await;
    let mut transaction = db.session().await;
    run(&mut transaction, HANDLE).await;
    let pid = pid(&mut transaction).await;
    let zombie = tokio::spawn({
        let store = a.store.clone();
        async move { store.advance_in(&mut transaction, &fence("totals", Some(2)), &advance(3, &[3])).await }
    });
    until_it_waits(&mut db.session().await, pid).await;
    run(&mut session, "COMMIT").await;
    is_fenced(zombie.await.unwrap());
    assert_eq!(a.store.position("totals").await.unwrap().position, 0);
}

#[tokio::test]
async fn a_move_with_effects_happens_once_however_slow_its_commit() {
    let (db, mut session, a, _b) = owned().await;
    let fence = fence("totals", Some(2));
    let moved = advance(3, &[3]);
    // The answer to the COMMIT is late: the owner tries again in another transaction.
    let (mut slow, mut again) = (db.session().await, db.session().await);
    run(&mut slow, HANDLE).await;
    a.store.advance_in(&mut slow, &fence, &moved).await.unwrap();
    run(&mut again, HANDLE).await;
    let pid = pid(&mut again).await;
    let second = tokio::spawn({
        let (store, fence, moved) = (a.store.clone(), fence.clone(), moved.clone());
        async move { store.advance_in(&mut again, &fence, &moved).await }
    });
    until_it_waits(&mut session, pid).await;
    run(&mut slow, "COMMIT").await;
    is_fenced(second.await.unwrap());
    run(&mut slow, HANDLE).await;
    is_fenced(a.store.advance_in(&mut slow, &fence, &moved).await);
    run(&mut slow, "ROLLBACK").await;
    // Without effects, the same again is nothing new.
    a.store.advance(&fence, &moved).await.unwrap();
    assert_eq!(a.store.position("totals").await.unwrap().position, 3);
}

#[tokio::test]
async fn a_move_with_effects_begins_where_the_checkpoint_is() {
    let (_db, mut session, a, _b) = owned().await;
    // Each statement counts as one of a handler's transaction.
    run(&mut session, "SET headwater.handling = 'on'").await;
    for term in [Some(2), None] {
        let fence = fence("totals", term);
        a.store.reset("totals", 0).await.unwrap();
        run(&mut session, "UPDATE headwater_private.subscribers SET term = 2").await;
        let passed = with_ledger(advance(9, &[9]), [(3, 4), (6, 6)]);
        a.store.advance_in(&mut session, &fence, &passed).await.unwrap();
        let late = with_ledger(advance(9, &[]), [(4, 4), (6, 6)]);
        let late = headwater_core::Advance { late_events: 1, late_sequence_sum: 3, ..late };
        for elsewhere in [
            from(late.clone(), 8, [(3, 4), (6, 6)]),
            from(late.clone(), 9, []),
            from(late.clone(), 9, [(3, 4)]),
            from(late.clone(), 9, [(4, 4), (6, 6)]),
            from(advance(8, &[]), 9, [(3, 4), (6, 6)]),
        ] {
            is_fenced(a.store.advance_in(&mut session, &fence, &elsewhere).await);
        }
        a.store.advance_in(&mut session, &fence, &from(late.clone(), 9, [(3, 4), (6, 6)])).await.unwrap();
        is_fenced(a.store.advance_in(&mut session, &fence, &from(late, 9, [(3, 4), (6, 6)])).await);
        let loaded = a.store.position("totals").await.unwrap();
        assert_eq!((loaded.position, loaded.pending_gaps.ranges()), (9, vec![(4, 4), (6, 6)]));
    }
}

#[tokio::test]
async fn an_owner_that_gets_on_keeps_its_lease() {
    let (db, mut session, a, b) = owned().await;
    let fence = fence("totals", Some(2));
    let end = "UPDATE headwater_private.subscribers SET lease_until = clock_timestamp()";
    let left = async || b.store.subscriber("totals").await.unwrap().lease_left;
    // Keeping never found the row unlocked, and the lease ended meanwhile.
    run(&mut session, end).await;
    let mut transaction = db.session().await;
    run(&mut transaction, HANDLE).await;
    a.store.advance_in(&mut transaction, &fence, &advance(3, &[3])).await.unwrap();
    assert_eq!(b.take("totals").await, None, "the row is locked");
    run(&mut transaction, "COMMIT").await;
    assert_eq!(b.take("totals").await, None, "the move was as good as a renewal");
    assert!(left().await.unwrap() > LONG * 9 / 10);
    run(&mut session, end).await;
    a.store.advance(&fence, &advance(4, &[4])).await.unwrap();
    assert_eq!(b.take("totals").await, None);
    // It makes no lease shorter, and whoever moves without a term renews nobody's.
    run(&mut session, "UPDATE headwater_private.subscribers SET lease_until = lease_until + interval '1 day'").await;
    a.store.advance(&fence, &advance(5, &[5])).await.unwrap();
    assert!(left().await.unwrap() > LONG * 20);
    run(&mut session, end).await;
    a.store.advance(&crate::common::subscribers::fence("totals", None), &advance(6, &[6])).await.unwrap();
    assert_eq!(left().await, None);
    // The length is that of the last renewal.
    a.keep("totals", Some(2), LONG * 3).await;
    run(&mut session, end).await;
    a.store.advance(&fence, &advance(7, &[7])).await.unwrap();
    assert!(left().await.unwrap() > LONG * 2);
}

#[tokio::test]
async fn pausing_resuming_and_resetting() {
    let (_db, mut session, a, b) = owned().await;
    a.store.set_paused("totals", true).await.unwrap();
    let held = a.keep("totals", Some(2), LONG).await;
    assert_eq!((held.term, held.paused), (Some(2), true), "a paused subscriber can be owned");
    a.store.set_paused("totals", false).await.unwrap();
    a.store.pause_self(&fence("totals", Some(2)), "cannot handle 4").await.unwrap();
    let info = a.store.subscriber("totals").await.unwrap();
    assert!(info.paused);
    assert_eq!(info.report.unwrap().detail.as_deref(), Some("cannot handle 4"));
    a.store.set_paused("totals", false).await.unwrap();
    let reason = "SELECT pause_reason FROM headwater_private.subscribers";
    assert_eq!(sqlx::query_scalar::<_, Option<String>>(reason).fetch_one(&mut session).await.unwrap(), None);

    let first = fence("totals", Some(2));
    a.store.advance(&first, &with_ledger(advance(9, &[9]), [(3, 4)])).await.unwrap();
    b.store.reset("totals", 4).await.unwrap();
    is_fenced(a.store.advance(&first, &advance(10, &[10])).await);
    let loaded = a.store.position("totals").await.unwrap();
    assert_eq!((loaded.position, loaded.pending_gaps.ranges()), (4, vec![(1, 4)]), "nothing is stored yet");
    assert_eq!(a.renew("totals", 2).await, None, "its term is over");
    assert_eq!(a.take("totals").await, Some(4), "reset was a term too");
    for result in [a.store.set_paused("nobody", true).await, a.store.reset("nobody", 0).await] {
        is_not_found(result);
    }
}

#[tokio::test]
async fn removing_what_is_in_use_needs_force() {
    let (_db, mut session, a, b) = owned().await;
    let refused = b.store.remove("totals", false).await;
    assert!(matches!(&refused, Err(SubscriberError::InUse(text)) if text.contains("node 'a'")), "{refused:?}");
    b.store.remove("totals", true).await.unwrap();
    is_not_found(b.store.subscriber("totals").await);
    is_not_found(b.store.remove("totals", false).await);
    is_fenced(a.store.advance(&fence("totals", Some(2)), &advance(1, &[1])).await);
    assert_eq!(a.renew("totals", 2).await, None);
    assert_eq!(lock_holders(&mut session).await.len(), 0);
    b.register("totals", StartFrom::Beginning).await;
    b.store.remove("totals", false).await.unwrap();
}

#[tokio::test]
async fn lag_is_what_is_ahead() {
    let (db, log, mut session) = shop().await;
    let a = Process::start(&db, &log, "a").await;
    a.register("totals", StartFrom::Beginning).await;
    let lag = async || {
        let info = a.store.subscriber("totals").await.unwrap();
        (info.lag_events, info.lag > Duration::ZERO)
    };
    assert_eq!(lag().await, (0, false));
    run(&mut session, "BEGIN; SELECT headwater.emit('shop', 'gone'); ROLLBACK").await;
    assert_eq!(lag().await, (0, false), "nothing is ahead but a gap");
    for _ in 0..3 {
        emit(&mut session, "shop", "event").await;
    }
    assert_eq!(lag().await, (4, true));
    a.store.advance(&fence("totals", None), &advance(3, &[2, 3])).await.unwrap();
    assert_eq!(lag().await, (1, true));
    a.store.advance(&fence("totals", None), &advance(4, &[4])).await.unwrap();
    assert_eq!(lag().await, (0, false));
}

#[tokio::test]
async fn a_time_finds_the_lowest_sequence_recorded_since() {
    let (db, log, mut session) = shop().await;
    let a = Process::start(&db, &log, "a").await;
    for _ in 0..5 {
        log.append(Append::from(raw("event"))).await.unwrap();
    }
    let events = log.log_page(&headwater_core::LogQuery::after(0)).await.unwrap().events;
    let time = |index: usize| events[index].recorded_at.unwrap();
    // The third was recorded after the fourth and the fifth.
    let later = "UPDATE headwater_private.events SET recorded_at = (SELECT max(recorded_at) FROM headwater_private.events) + interval '1 microsecond'
                  WHERE global_sequence = 3";
    run(&mut session, later).await;
    assert_eq!(a.store.position_at(time(0)).await.unwrap(), 0);
    assert_eq!(a.store.position_at(time(1)).await.unwrap(), 1);
    assert_eq!(a.store.position_at(time(4)).await.unwrap(), 2, "all after it, not only those above");
    assert_eq!(a.store.position_at(time(4) + chrono::Duration::days(1)).await.unwrap(), 5);
    // In flight: it will be recorded before now, and lies above what is settled.
    let mut early = db.session().await;
    run(&mut early, "BEGIN").await;
    emit(&mut early, "shop", "in flight").await;
    emit(&mut session, "shop", "event").await;
    let now: chrono::DateTime<chrono::Utc> =
        sqlx::query_scalar("SELECT recorded_at FROM headwater_private.events WHERE global_sequence = 7")
            .fetch_one(&mut session)
            .await
            .unwrap();
    assert_eq!(a.store.position_at(now).await.unwrap(), 5);
}

#[tokio::test]
async fn names_are_refused_in_rust_and_in_sql() {
    let (db, log, mut session) = shop().await;
    let a = Process::start(&db, &log, "a").await;
    for name in ["".to_owned(), "x".repeat(256), "a\nb".into(), "a\0b".into()] {
        let config = SubscriberConfig::new(name, StartFrom::Beginning, SubscriberMode::default());
        let refused = a.store.register(&config).await;
        assert!(matches!(&refused, Err(SubscriberError::InvalidInput(_))), "{refused:?}");
    }
    a.register(&"é".repeat(127), StartFrom::Beginning).await;
    for (script, code) in [
        ("SELECT headwater.register_subscriber('shop', '')", "WH002"),
        ("SELECT headwater.register_subscriber('shop', NULL)", "WH002"),
        ("SELECT headwater.register_subscriber('shop', E'a\\nb')", "WH002"),
        ("SELECT headwater.register_subscriber('shop', 'a', 'later')", "WH002"),
        ("SELECT headwater.register_subscriber('shop', 'a', 'after')", "WH002"),
        ("SELECT headwater.register_subscriber('shop', 'a', 'time')", "WH002"),
        ("SELECT headwater.register_subscriber('nowhere', 'a')", "WH001"),
        ("SELECT headwater.pause_subscriber('shop', 'a')", "WH012"),
        ("SELECT headwater.resume_subscriber('shop', NULL)", "WH012"),
        ("SELECT headwater.reset_subscriber('shop', 'a', 0)", "WH012"),
        ("SELECT headwater.reset_subscriber('shop', 'a', -1)", "WH002"),
        ("SELECT headwater.remove_subscriber('shop', 'a')", "WH012"),
        ("SELECT headwater.redrive('shop', 'a')", "WH012"),
        ("SELECT headwater.discard('shop', 'because', 'a')", "WH012"),
        ("SELECT * FROM headwater.audit_subscribers('shop', '{a}')", "WH012"),
        ("SELECT * FROM headwater.subscriber_status('nowhere')", "WH001"),
    ] {
        assert_eq!(sqlstate_of(&mut session, script).await, code, "{script}");
    }
}

#[tokio::test]
async fn a_database_that_cannot_be_reached_is_retryable_and_comes_back() {
    let (_db, mut session, a, _b) = owned().await;
    // Every connection of the process dies, as with a restart of the server.
    let kill = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'a' AND datname = current_database()";
    a.store.position("totals").await.unwrap();
    run(&mut session, kill).await;
    a.store.advance(&fence("totals", Some(2)), &advance(1, &[1])).await.unwrap();
    run(&mut session, kill).await;
    assert_eq!(a.renew("totals", 2).await, Some(2));
    run(&mut session, kill).await;
    a.store.release(&a.instance, &["totals".into()]).await.unwrap();
    assert_eq!(a.store.subscriber("totals").await.unwrap().owner, None);
}

#[tokio::test]
async fn the_lease_session_is_named_as_the_pool() {
    let (_db, mut session, _a, _b) = owned().await;
    let pid = lock_holders(&mut session).await[0];
    let name = sqlx::query_scalar::<_, String>("SELECT application_name FROM pg_stat_activity WHERE pid = $1");
    assert_eq!(name.bind(pid).fetch_one(&mut session).await.unwrap(), "a");
}

#[tokio::test]
async fn gaps_are_recorded_once() {
    let (db, log, mut session) = roomy().await;
    let a = Process::start(&db, &log, "a").await;
    let gap = |first, last, state| headwater_core::Gap { first, last, state };
    let pending = gap(50, 60, GapState::Pending(Vec::new()));
    for _ in 0..2 {
        let gaps = [gap(3, 9, GapState::Permanent), gap(20, 20, GapState::Permanent), pending.clone()];
        a.store.record_gaps(None, &gaps).await.unwrap();
    }
    a.store.record_gaps(None, &[gap(5, 9, GapState::Permanent)]).await.unwrap();
    // Beside what is recorded; with a part of it; and before all of it.
    a.store.record_gaps(None, &[gap(21, 22, GapState::Permanent)]).await.unwrap();
    a.store.record_gaps(None, &[gap(8, 11, GapState::Permanent), gap(22, 24, GapState::Permanent)]).await.unwrap();
    a.store.record_gaps(None, &[gap(1, 1, GapState::Permanent), gap(2, 2, GapState::Permanent)]).await.unwrap();
    let recorded = "SELECT concat(first_sequence, '-', last_sequence, ' ', proof) FROM headwater_private.permanent_gaps ORDER BY 1";
    let recorded: Vec<String> = sqlx::query_scalar(recorded).fetch_all(&mut session).await.unwrap();
    let expected = ["1-1", "10-11", "2-2", "20-20", "21-22", "23-24", "3-9"];
    assert_eq!(recorded, expected.map(|range| format!("{range} aborted")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_term_has_one_owner_whoever_asks_when() {
    let (db, log, _) = shop().await;
    let first = Process::start(&db, &log, "a").await;
    first.register("totals", StartFrom::Beginning).await;
    let tasks = (0..4).map(|number| {
        let (db, log) = (db.clone(), log.clone());
        tokio::spawn(async move {
            let process = Process::start(&db, &log, &format!("node {number}")).await;
            let (mut term, mut owned) = (None, Vec::new());
            for round in 0..60 {
                // The leases are so short that most have ended at the next call. Releases and lost
                // sessions come in between.
                term = process.keep("totals", term, Duration::from_millis(1 + round % 3)).await.term;
                owned.extend(term);
                match (round + number) % 7 {
                    0 => process.store.release(&process.instance, &["totals".into()]).await.unwrap(),
                    1 => process.store.close().await,
                    _ => {}
                }
            }
            owned.dedup();
            owned
        })
    });
    let mut terms: Vec<u64> = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        terms.extend(task.await.unwrap());
    }
    let all = terms.len();
    terms.sort_unstable();
    terms.dedup();
    assert_eq!(terms.len(), all, "no term was two instances'");
    assert!(all > 10, "the subscriber changed hands: {all}");
}

/// The id of one subscriber may look like a partition of another.
#[tokio::test]
async fn no_subscriber_has_the_lock_of_anothers_partition() {
    let (_db, _log, mut session) = shop().await;
    let same = "SELECT count(*) - count(DISTINCT (k.high, k.low))
                  FROM unnest(ARRAY['search', 'search:1', 'search:1:1', 'search1', 'search:']) id, generate_series(0, 30) p,
                       headwater_private.subscriber_lock('shop', id, p) k";
    assert_eq!(sqlx::query_scalar::<_, i64>(same).fetch_one(&mut session).await.unwrap(), 0);
}
