//! Where a subscriber is put, and what is in flight there. Open transactions, explicit steps.

use crate::common::subscribers::{HANDLE, Process, advance, fence, from, with_ledger};
use crate::common::{emit, run, sqlstate_of};
use headwater_core::{
    Advance, GroupStore, OperatorStore, ProgressStore, StartFrom, SubscriberConfig, SubscriberError, SubscriberMode,
};
use headwater_testing::TestDatabase;
use sqlx::PgConnection;

/// A log of 1 to 7 without 3 and 6, which are in flight in two sessions; and who reads it.
async fn log() -> (TestDatabase, Process, PgConnection, [PgConnection; 2]) {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let a = Process::start(&db, &log, "a").await;
    let (mut session, mut early, mut later) = (db.session().await, db.session().await, db.session().await);
    emit(&mut session, "shop", "event").await;
    emit(&mut session, "shop", "event").await;
    run(&mut early, "BEGIN").await;
    assert_eq!(emit(&mut early, "shop", "in flight").await, 3);
    emit(&mut session, "shop", "event").await;
    emit(&mut session, "shop", "event").await;
    run(&mut later, "BEGIN").await;
    assert_eq!(emit(&mut later, "shop", "in flight").await, 6);
    emit(&mut session, "shop", "event").await;
    (db, a, session, [early, later])
}

async fn stands(a: &Process) -> (u64, Vec<(u64, u64)>) {
    let loaded = a.store.position("totals").await.unwrap();
    (loaded.position, loaded.pending_gaps.ranges())
}

/// That an audit finds nothing, and compares so many events.
async fn clean(a: &Process, events: u64) {
    let report = a.store.audit(&["totals".into()]).await.unwrap();
    assert_eq!((report.findings.as_slice(), report.events), ([].as_slice(), events));
}

fn late<const N: usize>(position: u64, sequence: u64, ledger: [(u64, u64); N]) -> Advance {
    let advance = Advance { position, late_events: 1, late_sequence_sum: sequence, ..Advance::default() };
    with_ledger(advance, ledger)
}

#[tokio::test]
async fn a_rewind_by_one_event_keeps_what_is_in_flight() {
    let (_db, a, _session, [mut early, mut later]) = log().await;
    a.register("totals", StartFrom::Beginning).await;
    let none = fence("totals", None);
    a.store.advance(&none, &with_ledger(advance(7, &[1, 2, 4, 5, 7]), [(3, 3), (6, 6)])).await.unwrap();
    clean(&a, 5).await;
    a.store.reset("totals", 5).await.unwrap();
    assert_eq!(stands(&a).await, (5, vec![(3, 3)]), "6 is ahead again");
    clean(&a, 0).await;
    run(&mut early, "COMMIT").await;
    clean(&a, 0).await;
    a.store.advance(&none, &late(5, 3, [])).await.unwrap();
    clean(&a, 1).await;
    run(&mut later, "COMMIT").await;
    a.store.advance(&none, &advance(7, &[6, 7])).await.unwrap();
    clean(&a, 3).await;
}

#[tokio::test]
async fn one_that_committed_before_the_rewind_and_was_not_delivered_is_kept_too() {
    let (_db, a, _session, [mut early, _later]) = log().await;
    a.register("totals", StartFrom::Beginning).await;
    let none = fence("totals", None);
    a.store.advance(&none, &with_ledger(advance(7, &[1, 2, 4, 5, 7]), [(3, 3), (6, 6)])).await.unwrap();
    run(&mut early, "COMMIT").await;
    a.store.reset("totals", 7).await.unwrap();
    assert_eq!(stands(&a).await, (7, vec![(3, 3), (6, 6)]));
    clean(&a, 0).await;
    a.store.advance(&none, &late(7, 3, [(6, 6)])).await.unwrap();
    clean(&a, 1).await;
}

#[tokio::test]
async fn a_reset_beyond_the_horizon_has_what_is_in_flight_in_its_ledger() {
    let (_db, a, mut session, [mut early, mut later]) = log().await;
    a.register("totals", StartFrom::Beginning).await;
    // Rolled back, but above the horizon nobody can tell.
    run(&mut session, "BEGIN; SELECT headwater.emit('shop', 'gone'); ROLLBACK").await;
    emit(&mut session, "shop", "event").await;
    for (target, ledger) in [
        (2, vec![]),
        (3, vec![(3, 3)]),
        (5, vec![(3, 3)]),
        (6, vec![(3, 3), (6, 6)]),
        (9, vec![(3, 3), (6, 6), (8, 8)]),
    ] {
        a.store.reset("totals", 0).await.unwrap();
        a.store.reset("totals", target).await.unwrap();
        assert_eq!(stands(&a).await, (target, ledger));
    }
    a.store.reset("totals", 7).await.unwrap();
    let none = fence("totals", None);
    run(&mut later, "COMMIT").await;
    clean(&a, 0).await;
    a.store.advance(&none, &late(7, 6, [(3, 3)])).await.unwrap();
    clean(&a, 1).await;
    run(&mut early, "COMMIT").await;
    a.store.advance(&none, &late(7, 3, [])).await.unwrap();
    clean(&a, 2).await;
    a.store.advance(&none, &advance(9, &[9])).await.unwrap();
    clean(&a, 3).await;
}

#[tokio::test]
async fn a_start_beyond_the_horizon_has_what_is_in_flight_in_its_ledger() {
    let (_db, a, mut session, [mut early, mut later]) = log().await;
    a.register("totals", StartFrom::After(7)).await;
    assert_eq!(stands(&a).await, (7, vec![(3, 3), (6, 6)]));
    run(&mut early, "COMMIT").await;
    clean(&a, 0).await;
    let none = fence("totals", None);
    a.store.advance(&none, &late(7, 3, [(6, 6)])).await.unwrap();
    clean(&a, 1).await;
    // The other never comes.
    run(&mut later, "ROLLBACK").await;
    a.store.advance(&none, &advance(7, &[])).await.unwrap();
    clean(&a, 1).await;
    a.register("now", StartFrom::Now).await;
    a.register("settled", StartFrom::After(7)).await;
    for id in ["now", "settled"] {
        let loaded = a.store.position(id).await.unwrap();
        assert_eq!((loaded.position, loaded.pending_gaps.is_empty()), (7, true), "{id}");
    }
    let script = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT headwater.reset_subscriber('shop', 'now', 5)";
    assert_eq!(sqlstate_of(&mut session, script).await, "WH006", "nothing can be proved there");
}

/// Sequences beyond the head were never handed out. A subscriber positioned there would skip future
/// events.
#[tokio::test]
async fn a_position_beyond_the_log_is_refused() {
    let (_db, a, _session, _open) = log().await;
    let beyond = SubscriberConfig::new("totals", StartFrom::After(i64::MAX.unsigned_abs()), SubscriberMode::default());
    let refused = a.store.register(&beyond).await;
    assert!(
        matches!(&refused, Err(SubscriberError::InvalidInput(message)) if message.contains("head is 7")),
        "{refused:?}"
    );
    a.register("totals", StartFrom::Beginning).await;
    let refused = a.store.reset("totals", 9).await;
    assert!(matches!(&refused, Err(SubscriberError::InvalidInput(_))), "{refused:?}");
    assert_eq!(stands(&a).await, (0, vec![]));
}

/// The row is compared as a whole with what its owner loaded, in which ranges that touch are one.
#[tokio::test]
async fn a_transaction_goes_on_from_the_ledger_of_a_reset() {
    let (_db, a, mut session, _open) = log().await;
    a.register("totals", StartFrom::Beginning).await;
    let none = fence("totals", None);
    a.store.advance(&none, &with_ledger(advance(5, &[1, 4]), [(2, 2), (5, 5)])).await.unwrap();
    a.store.reset("totals", 7).await.unwrap();
    assert_eq!(stands(&a).await, (7, vec![(2, 3), (5, 6)]));
    let late = from(late(7, 2, [(3, 3), (5, 6)]), 7, [(2, 3), (5, 6)]);
    // Outside the transaction of a handler, nothing is written.
    let alone = a.store.advance_in(&mut session, &none, &late).await;
    assert!(matches!(alone, Err(SubscriberError::Fenced(_))), "{alone:?}");
    run(&mut session, HANDLE).await;
    a.store.advance_in(&mut session, &none, &late).await.unwrap();
    run(&mut session, "COMMIT").await;
    clean(&a, 1).await;
}
