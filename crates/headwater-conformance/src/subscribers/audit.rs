//! Laws of the audit: it finds nothing in honest work, and names exactly what is lost.

use headwater_core::{Advance, AuditFinding, Fence, Gaps, RecordedEvent, StartFrom};

use super::TestSubscribers;
use super::support::{sequence, settled};

pub(crate) async fn honest_work_is_clean(test: &TestSubscribers) {
    let events = test.append(6).await;
    let fence = test.first().begin_and_own("s").await;
    test.first().begin("idle").await;
    assert_eq!(test.first().findings("s").await, []);
    let mut position = 0;
    for batch in events.chunks(2) {
        test.first().advance(&fence, &settled(position, batch)).await.unwrap();
        position = sequence(&batch[1]);
        assert_eq!(test.second().findings("s").await, []);
    }
    let report = test.second().audit(&[]).await.unwrap();
    assert_eq!((report.subscribers, report.events, report.findings), (2, 6, vec![]));
    let report = test.second().audit(&["idle".into()]).await.unwrap();
    assert_eq!((report.subscribers, report.events), (1, 0));
}

pub(crate) async fn a_start_in_the_middle_counts_from_there(test: &TestSubscribers) {
    let events = test.append(4).await;
    let middle = sequence(&events[1]);
    test.first().start("s", StartFrom::After(middle)).await;
    let fence = test.first().own("s").await;
    test.first().advance(&fence, &settled(middle, &events[2..])).await.unwrap();
    assert_eq!(test.first().findings("s").await, []);
}

/// Moves a checkpoint over all events, but settles only some.
async fn settle_only(test: &TestSubscribers, events: &[RecordedEvent], some: &[RecordedEvent]) -> Vec<AuditFinding> {
    let fence = test.first().begin_and_own("s").await;
    let advance = Advance { position: sequence(&events[events.len() - 1]), ..settled(0, some) };
    test.first().advance(&fence, &advance).await.unwrap();
    test.second().findings("s").await
}

fn counts(events: &[RecordedEvent], settled: u64, missing: Option<u64>) -> AuditFinding {
    AuditFinding::CountDiffers {
        subscriber_id: "s".into(),
        after: 0,
        position: sequence(&events[events.len() - 1]),
        in_log: events.len() as u64,
        settled,
        missing,
    }
}

pub(crate) async fn a_lost_event_is_named(test: &TestSubscribers) {
    let events = test.append(5).await;
    let some = [&events[..2], &events[3..]].concat();
    let found = settle_only(test, &events, &some).await;
    assert_eq!(found, [counts(&events, 4, Some(sequence(&events[2])))]);
}

pub(crate) async fn several_lost_events_are_counted(test: &TestSubscribers) {
    let events = test.append(5).await;
    let found = settle_only(test, &events, &events[..2]).await;
    assert_eq!(found, [counts(&events, 2, None)]);
}

pub(crate) async fn one_too_many_is_found(test: &TestSubscribers) {
    let events = test.append(2).await;
    let fence = test.first().begin_and_own("s").await;
    let advance = Advance { events: 3, ..settled(0, &events) };
    test.first().advance(&fence, &advance).await.unwrap();
    assert_eq!(test.first().findings("s").await, [counts(&events, 3, None)]);
}

pub(crate) async fn another_event_in_its_place_is_found(test: &TestSubscribers) {
    let events = test.append(3).await;
    let fence = test.first().begin_and_own("s").await;
    let advance = settled(0, &events);
    let advance = Advance { sequence_sum: advance.sequence_sum - 1, ..advance };
    test.first().advance(&fence, &advance).await.unwrap();
    let position = advance.position;
    let found = test.first().findings("s").await;
    assert_eq!(found, [AuditFinding::SumDiffers { subscriber_id: "s".into(), after: 0, position }]);
}

pub(crate) async fn what_is_in_the_ledger_is_not_missing(test: &TestSubscribers) {
    let events = test.append(4).await;
    let fence = test.first().begin_and_own("s").await;
    let late = sequence(&events[1]);
    let in_order = [&events[..1], &events[2..]].concat();
    let advance = Advance { pending_gaps: Gaps::from_iter([(late, late)]), ..settled(0, &in_order) };
    test.first().advance(&fence, &advance).await.unwrap();
    assert_eq!(test.first().findings("s").await, []);
    // The event in the ledger comes late.
    let position = advance.position;
    let advance = Advance { position, late_events: 1, late_sequence_sum: late, ..Advance::default() };
    test.first().advance(&fence, &advance).await.unwrap();
    assert_eq!(test.first().findings("s").await, []);
}

pub(crate) async fn one_that_leaves_the_ledger_unsettled_is_named(test: &TestSubscribers) {
    let events = test.append(4).await;
    let fence = test.first().begin_and_own("s").await;
    let late = sequence(&events[1]);
    let in_order = [&events[..1], &events[2..]].concat();
    let advance = Advance { pending_gaps: Gaps::from_iter([(late, late)]), ..settled(0, &in_order) };
    test.first().advance(&fence, &advance).await.unwrap();
    test.first().advance(&fence, &Advance { position: advance.position, ..Advance::default() }).await.unwrap();
    assert_eq!(test.first().findings("s").await, [counts(&events, 3, Some(late))]);
}

pub(crate) async fn the_same_move_twice_counts_once(test: &TestSubscribers) {
    let events = test.append(3).await;
    let fence = test.first().begin_and_own("s").await;
    // The answer was lost, and the move is sent again.
    for _ in 0..2 {
        test.first().advance(&fence, &settled(0, &events)).await.unwrap();
    }
    assert_eq!(test.first().findings("s").await, []);
}

pub(crate) async fn a_reset_begins_to_count_anew(test: &TestSubscribers) {
    let events = test.append(4).await;
    let fence = test.first().begin_and_own("s").await;
    test.first().advance(&fence, &settled(0, &events)).await.unwrap();
    let back = sequence(&events[1]);
    test.first().reset("s", back).await.unwrap();
    assert_eq!(test.first().findings("s").await, []);
    let fence = test.first().own("s").await;
    test.first().advance(&fence, &settled(back, &events[2..])).await.unwrap();
    assert_eq!(test.first().findings("s").await, []);
}

/// Settles all but the second of four events, which is in the ledger. Then resets by one event; the
/// ledger stays.
async fn reset_with_one_in_the_ledger(test: &TestSubscribers) -> (Vec<RecordedEvent>, Fence) {
    let events = test.append(4).await;
    let fence = test.first().begin_and_own("s").await;
    let late = sequence(&events[1]);
    let in_order = [&events[..1], &events[2..]].concat();
    let advance = Advance { pending_gaps: Gaps::from_iter([(late, late)]), ..settled(0, &in_order) };
    test.first().advance(&fence, &advance).await.unwrap();
    test.first().reset("s", sequence(&events[2])).await.unwrap();
    assert_eq!(test.first().findings("s").await, []);
    (events, test.first().own("s").await)
}

pub(crate) async fn what_a_reset_kept_may_come_late(test: &TestSubscribers) {
    let (events, fence) = reset_with_one_in_the_ledger(test).await;
    let (position, late) = (sequence(&events[2]), sequence(&events[1]));
    let advance = Advance { position, late_events: 1, late_sequence_sum: late, ..Advance::default() };
    for _ in 0..2 {
        test.first().advance(&fence, &advance).await.unwrap();
        assert_eq!(test.first().findings("s").await, []);
    }
    test.first().advance(&fence, &settled(position, &events[3..])).await.unwrap();
    let report = test.first().audit(&["s".into()]).await.unwrap();
    assert_eq!((report.events, report.findings), (2, vec![]));
}

pub(crate) async fn one_that_a_reset_kept_and_nobody_settled_is_named(test: &TestSubscribers) {
    let (events, fence) = reset_with_one_in_the_ledger(test).await;
    let (position, late) = (sequence(&events[2]), sequence(&events[1]));
    test.first().advance(&fence, &Advance { position, ..Advance::default() }).await.unwrap();
    let subscriber_id = "s".to_owned();
    let (after, missing) = (position, Some(late));
    let lost = AuditFinding::CountDiffers { subscriber_id, after, position, in_log: 1, settled: 0, missing };
    assert_eq!(test.first().findings("s").await, [lost]);
}
