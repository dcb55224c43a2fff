//! The audit: what subscribers settled, beside what the log holds.

use crate::common::subscribers::{Process, advance, fence, with_ledger};
use crate::common::{emit, run};
use headwater_core::{Advance, AuditFinding, Gap, GapState, OperatorStore, ProgressStore, StartFrom, SubscriberError};
use headwater_testing::TestDatabase;
use sqlx::PgConnection;

/// A log of 1 to 6 without 3, which is in flight, and 5, which was rolled back; and who reads it.
async fn log() -> (TestDatabase, Process, PgConnection, PgConnection) {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let a = Process::start(&db, &log, "a").await;
    a.register("totals", StartFrom::Beginning).await;
    let (mut session, mut early) = (db.session().await, db.session().await);
    emit(&mut session, "shop", "event").await;
    emit(&mut session, "shop", "event").await;
    run(&mut early, "BEGIN").await;
    emit(&mut early, "shop", "in flight").await;
    emit(&mut session, "shop", "event").await;
    run(&mut session, "BEGIN; SELECT headwater.emit('shop', 'gone'); ROLLBACK").await;
    emit(&mut session, "shop", "event").await;
    (db, a, session, early)
}

#[tokio::test]
async fn it_is_clean_before_while_and_after_an_event_comes_late() {
    let (_db, a, _session, mut early) = log().await;
    let none = fence("totals", None);
    let clean = async |events: u64| {
        let report = a.store.audit(&[]).await.unwrap();
        assert_eq!((report.findings.as_slice(), report.subscribers, report.events), ([].as_slice(), 1, events));
    };
    clean(0).await;
    a.store.advance(&none, &advance(2, &[1, 2])).await.unwrap();
    clean(2).await;
    let passed = with_ledger(advance(6, &[4, 6]), [(3, 3), (5, 5)]);
    a.store.advance(&none, &passed).await.unwrap();
    a.store.advance(&none, &passed).await.unwrap();
    clean(4).await;
    run(&mut early, "COMMIT").await;
    clean(4).await;
    let late = Advance { position: 6, late_events: 1, late_sequence_sum: 3, ..Advance::default() };
    a.store.advance(&none, &late).await.unwrap();
    a.store.advance(&none, &late).await.unwrap();
    clean(5).await;
    a.store.reset("totals", 4).await.unwrap();
    clean(0).await;
    a.store.advance(&none, &advance(6, &[6])).await.unwrap();
    clean(1).await;
}

#[tokio::test]
async fn what_was_lost_is_named() {
    let (_db, a, mut session, mut early) = log().await;
    run(&mut early, "COMMIT").await;
    a.store.advance(&fence("totals", None), &advance(6, &[1, 2, 4, 6])).await.unwrap();
    let report = a.store.audit(&["totals".into()]).await.unwrap();
    let lost = AuditFinding::CountDiffers {
        subscriber_id: "totals".into(),
        after: 0,
        position: 6,
        in_log: 5,
        settled: 4,
        missing: Some(3),
    };
    assert_eq!(report.findings, [lost]);

    run(&mut session, "UPDATE headwater_private.subscribers SET settled_events = 2").await;
    let findings = a.store.audit(&[]).await.unwrap().findings;
    assert!(matches!(findings[..], [AuditFinding::CountDiffers { missing: None, settled: 2, .. }]), "{findings:?}");
    run(&mut session, "UPDATE headwater_private.subscribers SET settled_events = 5").await;
    let findings = a.store.audit(&[]).await.unwrap().findings;
    assert!(matches!(findings[..], [AuditFinding::SumDiffers { position: 6, .. }]), "{findings:?}");
    let unknown = a.store.audit(&["nobody".into()]).await;
    assert!(matches!(&unknown, Err(SubscriberError::NotFound(id)) if id == "nobody"), "{unknown:?}");
}

#[tokio::test]
async fn an_event_in_a_permanent_gap_is_found() {
    let (_db, a, mut session, _early) = log().await;
    a.store.record_gaps(None, &[Gap { first: 5, last: 5, state: GapState::Permanent }]).await.unwrap();
    let report = a.store.audit(&[]).await.unwrap();
    assert_eq!((report.permanent_gaps, report.findings.as_slice()), (1, [].as_slice()));
    run(&mut session, "UPDATE headwater_private.permanent_gaps SET last_sequence = 6").await;
    let event_id = sqlx::query_scalar("SELECT event_id FROM headwater_private.events WHERE global_sequence = 6");
    let event_id = event_id.fetch_one(&mut session).await.unwrap();
    let found = AuditFinding::EventInPermanentGap { global_sequence: 6, event_id };
    assert_eq!(a.store.audit(&[]).await.unwrap().findings, [found]);
}

#[tokio::test]
async fn many_subscribers_are_audited_each_by_itself() {
    let (_db, a, _session, mut early) = log().await;
    run(&mut early, "COMMIT").await;
    a.register("mails", StartFrom::After(4)).await;
    a.store.advance(&fence("mails", None), &advance(6, &[6])).await.unwrap();
    a.store.advance(&fence("totals", None), &advance(2, &[1])).await.unwrap();
    let report = a.store.audit(&[]).await.unwrap();
    assert_eq!((report.subscribers, report.events), (2, 3));
    assert!(
        matches!(&report.findings[..], [AuditFinding::CountDiffers { subscriber_id, missing: Some(2), .. }] if subscriber_id == "totals")
    );
    assert!(a.store.audit(&["mails".into()]).await.unwrap().findings.is_empty());
}

/// A dead letter keeps its event. An event that is in neither place is reported as missing from the
/// log, not as an error of the subscriber.
#[tokio::test]
async fn an_event_that_was_deleted_is_named_unless_its_dead_letter_keeps_it() {
    let (_db, a, mut session, mut early) = log().await;
    run(&mut early, "ROLLBACK").await;
    a.store.advance(&fence("totals", None), &advance(6, &[1, 2, 4, 6])).await.unwrap();
    run(
        &mut session,
        "INSERT INTO headwater_private.dead_letters (namespace_id, subscriber_id, global_sequence, event_id, event_type, order_key, state, parks_key, error, node,
                                             attempts, event, term)
         SELECT e.namespace_id, 'totals', e.global_sequence, e.event_id, e.event_type, '', 'discarded', false, '', '', '[]', '{}', 1
           FROM headwater_private.events e WHERE e.global_sequence = 4",
    )
    .await;
    assert_eq!(a.store.audit(&[]).await.unwrap().findings, []);
    run(&mut session, "DELETE FROM headwater_private.events WHERE global_sequence = 4").await;
    assert_eq!(a.store.audit(&[]).await.unwrap().findings, []);
    run(&mut session, "DELETE FROM headwater_private.dead_letters").await;
    let gone = AuditFinding::CountDiffers {
        subscriber_id: "totals".into(),
        after: 0,
        position: 6,
        in_log: 3,
        settled: 4,
        missing: Some(4),
    };
    assert_eq!(a.store.audit(&[]).await.unwrap().findings, [gone]);
}
