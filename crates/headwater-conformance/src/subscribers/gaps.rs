//! Laws of permanent gaps: recorded once, and compared with the log.

use headwater_core::{AuditFinding, Gap, GapState};

use super::TestSubscribers;
use super::support::sequence;

fn permanent(first: u64, last: u64) -> Gap {
    Gap { first, last, state: GapState::Permanent }
}

pub(crate) async fn a_gap_is_recorded_once(test: &TestSubscribers) {
    test.hand_out(10_000).await;
    assert_eq!(test.first().audit(&[]).await.unwrap().permanent_gaps, 0);
    let gaps = [permanent(1_000, 1_000), permanent(2_000, 2_005)];
    test.first().record_gaps(None, &gaps).await.unwrap();
    test.second().record_gaps(None, &gaps).await.unwrap();
    test.first().record_gaps(None, &[permanent(2_001, 2_003)]).await.unwrap();
    test.first().record_gaps(None, &[]).await.unwrap();
    let report = test.second().audit(&[]).await.unwrap();
    assert_eq!((report.permanent_gaps, report.findings), (2, vec![]));
}

pub(crate) async fn an_event_in_a_permanent_gap_is_found(test: &TestSubscribers) {
    let events = test.append(3).await;
    let at = sequence(&events[1]);
    test.hand_out(9_000).await;
    test.first().record_gaps(None, &[permanent(at, at), permanent(9_000, 9_000)]).await.unwrap();
    let report = test.first().audit(&[]).await.unwrap();
    let found = AuditFinding::EventInPermanentGap { global_sequence: at, event_id: events[1].id };
    assert_eq!((report.permanent_gaps, report.findings), (2, vec![found]));
}
