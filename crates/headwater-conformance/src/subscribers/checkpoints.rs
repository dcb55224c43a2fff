//! Laws of checkpoints: they move forwards, with their ledgers.

use std::time::Duration;

use headwater_core::{Advance, Gaps};

use super::TestSubscribers;
use super::support::{fenced, sequence, settled};

pub(crate) async fn what_is_written_is_loaded(test: &TestSubscribers) {
    let events = test.append(3).await;
    let fence = test.first().begin_and_own("s").await;
    let pending_gaps = Gaps::from_iter([(sequence(&events[1]), sequence(&events[1]))]);
    let advance = Advance { pending_gaps: pending_gaps.clone(), ..settled(0, &events) };
    test.first().advance(&fence, &advance).await.unwrap();
    let loaded = test.first().load(&fence).await.unwrap();
    assert_eq!((loaded.position, &loaded.pending_gaps), (advance.position, &pending_gaps));
    assert!(!loaded.paused && loaded.parked_keys.is_empty());
    let seen = test.second().position("s").await.unwrap();
    assert_eq!((seen.position, &seen.pending_gaps), (advance.position, &pending_gaps));
    let info = test.second().subscriber("s").await.unwrap();
    assert_eq!((info.position, info.pending_gaps), (advance.position, pending_gaps.ranges()));
    assert_eq!(info.last_event_id, Some(events[2].id));
    assert!(info.updated_at >= info.created_at);
}

pub(crate) async fn a_checkpoint_never_moves_back(test: &TestSubscribers) {
    let events = test.append(3).await;
    let fence = test.first().begin_and_own("s").await;
    test.first().advance(&fence, &settled(0, &events)).await.unwrap();
    let back = Advance { pending_gaps: Gaps::from_iter([(1, 1)]), ..settled(0, &events[..2]) };
    fenced("advance", test.first().advance(&fence, &back).await);
    let loaded = test.first().load(&fence).await.unwrap();
    assert_eq!((loaded.position, loaded.pending_gaps.is_empty()), (sequence(&events[2]), true));
    assert_eq!(test.first().findings("s").await, []);
}

pub(crate) async fn a_ledger_changes_where_the_position_stays(test: &TestSubscribers) {
    test.hand_out(10_000).await;
    let events = test.append(2).await;
    let fence = test.first().begin_and_own("s").await;
    let advance = settled(0, &events);
    for ranges in [vec![(1, 2), (4, 9)], vec![(2, 2), (5, 7)], vec![]] {
        let pending_gaps = Gaps::from_iter(ranges);
        let advance = Advance { position: advance.position, pending_gaps: pending_gaps.clone(), ..Advance::default() };
        test.first().advance(&fence, &advance).await.unwrap();
        assert_eq!(test.first().load(&fence).await.unwrap().pending_gaps, pending_gaps);
    }
}

pub(crate) async fn the_last_event_stays_where_none_is_given(test: &TestSubscribers) {
    let events = test.append(1).await;
    test.hand_out(10_000).await;
    let fence = test.first().begin_and_own("s").await;
    test.first().advance(&fence, &settled(0, &events)).await.unwrap();
    let further = Advance { position: sequence(&events[0]) + 5, ..Advance::default() };
    test.first().advance(&fence, &further).await.unwrap();
    let info = test.first().subscriber("s").await.unwrap();
    assert_eq!((info.position, info.last_event_id), (further.position, Some(events[0].id)));
}

pub(crate) async fn the_next_owner_goes_on_from_there(test: &TestSubscribers) {
    let events = test.append(2).await;
    let fence = test.first().begin_and_own("s").await;
    let advance = Advance { pending_gaps: Gaps::from_iter([(1, 1)]), ..settled(0, &events[..1]) };
    test.first().advance(&fence, &advance).await.unwrap();
    test.first().give_up("s").await;
    let fence = test.second().own("s").await;
    let loaded = test.second().load(&fence).await.unwrap();
    assert_eq!((loaded.position, loaded.pending_gaps), (advance.position, advance.pending_gaps));
    test.second().advance(&fence, &settled(advance.position, &events[1..])).await.unwrap();
}

pub(crate) async fn a_full_ledger_survives(test: &TestSubscribers) {
    test.hand_out(20_000).await;
    let fence = test.first().begin_and_own("s").await;
    let pending_gaps: Gaps = (1..=1_000).map(|number| (number * 10, number * 10 + number % 5)).collect();
    let position = 20_000;
    let advance = Advance { position, pending_gaps: pending_gaps.clone(), ..Advance::default() };
    test.first().advance(&fence, &advance).await.unwrap();
    let loaded = test.first().load(&fence).await.unwrap();
    assert_eq!((loaded.position, loaded.pending_gaps), (position, pending_gaps));
}

pub(crate) async fn the_lag_is_what_lies_ahead(test: &TestSubscribers) {
    test.first().begin("s").await;
    let info = test.first().subscriber("s").await.unwrap();
    assert_eq!((info.lag_events, info.lag), (0, Duration::ZERO), "the log is empty");
    let events = test.append(3).await;
    let fence = test.first().own("s").await;
    let behind = test.first().subscriber("s").await.unwrap();
    assert!(behind.lag_events >= 3, "{behind:?}");
    test.first().advance(&fence, &settled(0, &events[..2])).await.unwrap();
    let nearer = test.first().subscriber("s").await.unwrap();
    assert!((1..behind.lag_events).contains(&nearer.lag_events), "{nearer:?}");
    test.first().advance(&fence, &settled(sequence(&events[1]), &events[2..])).await.unwrap();
    let info = test.first().subscriber("s").await.unwrap();
    assert_eq!((info.lag_events, info.lag), (0, Duration::ZERO));
}

/// A move that was delayed must not bring back gaps that were settled since.
pub(crate) async fn a_ledger_does_not_grow_where_the_position_stays(test: &TestSubscribers) {
    test.hand_out(10_000).await;
    let fence = test.first().begin_and_own("s").await;
    let advance = |ranges: &[(u64, u64)]| Advance {
        position: 20,
        pending_gaps: ranges.iter().copied().collect(),
        ..Advance::default()
    };
    test.first().advance(&fence, &advance(&[(2, 4), (8, 9), (12, 12)])).await.unwrap();
    test.first().advance(&fence, &advance(&[(3, 4), (8, 8)])).await.unwrap();
    for grown in [&[(2, 4), (8, 8)][..], &[(3, 5)], &[(3, 4), (8, 9)], &[(3, 4), (12, 12)], &[(3, 8)], &[(1, 1)]] {
        fenced("advance", test.first().advance(&fence, &advance(grown)).await);
        assert_eq!(test.first().load(&fence).await.unwrap().pending_gaps.ranges(), [(3, 4), (8, 8)], "{grown:?}");
    }
    test.first().advance(&fence, &advance(&[(3, 4), (8, 8)])).await.unwrap();
    test.first().advance(&fence, &advance(&[(4, 4), (8, 8)])).await.unwrap();
    let further = Advance { position: 21, ..advance(&[(4, 4), (8, 8), (21, 21)]) };
    test.first().advance(&fence, &further).await.unwrap();
}

pub(crate) async fn the_term_is_told(test: &TestSubscribers) {
    test.first().begin("s").await;
    let registered = test.first().position("s").await.unwrap().term;
    let fence = test.first().own("s").await;
    let loaded = test.first().load(&fence).await.unwrap();
    assert_eq!(Some(loaded.term), fence.term);
    assert_eq!(test.second().position("s").await.unwrap().term, loaded.term);
    assert!(loaded.term > registered);
    test.first().reset("s", 0).await.unwrap();
    assert!(test.second().position("s").await.unwrap().term > loaded.term);
}
