//! Laws of management: pause, resume, reset, remove.

use headwater_core::{Advance, Gaps, Sequence, StartFrom, SubscriberConfig, SubscriberError, SubscriberMode};

use super::TestSubscribers;
use super::support::{LONG, dead, fenced, not_found, sequence, settled};

pub(crate) async fn pause_and_resume(test: &TestSubscribers) {
    let fence = test.first().begin_and_own("s").await;
    for paused in [true, true, false, false] {
        test.second().set_paused("s", paused).await.unwrap();
        assert_eq!(test.first().load(&fence).await.unwrap().paused, paused);
        assert_eq!(test.first().position("s").await.unwrap().paused, paused);
        assert_eq!(test.first().subscriber("s").await.unwrap().paused, paused);
        let held = test.first().ask_for("s", fence.term, LONG).await;
        assert_eq!((held.term, held.paused), (fence.term, paused), "it stays its owner's");
    }
}

pub(crate) async fn a_pause_by_the_owner_is_a_pause(test: &TestSubscribers) {
    let fence = test.first().begin_and_own("s").await;
    test.first().pause_self(&fence, "event 5 cannot be handled").await.unwrap();
    assert!(test.second().subscriber("s").await.unwrap().paused);
    test.second().set_paused("s", false).await.unwrap();
    assert!(!test.first().load(&fence).await.unwrap().paused);
}

pub(crate) async fn a_paused_subscriber_can_still_be_written(test: &TestSubscribers) {
    let events = test.append(1).await;
    let fence = test.first().begin_and_own("s").await;
    test.second().set_paused("s", true).await.unwrap();
    test.first().advance(&fence, &settled(0, &events)).await.unwrap();
    assert_eq!(test.first().load(&fence).await.unwrap().position, sequence(&events[0]), "the event at hand is ended");
}

pub(crate) async fn a_reset_moves_back_in_a_new_term(test: &TestSubscribers) {
    let events = test.append(3).await;
    let fence = test.first().begin_and_own("s").await;
    let late = sequence(&events[1]);
    let advance = Advance { pending_gaps: Gaps::from_iter([(late, late)]), ..settled(0, &events) };
    test.first().advance(&fence, &advance).await.unwrap();
    let back = sequence(&events[0]);
    test.second().reset("s", back).await.unwrap();
    let position = test.second().position("s").await.unwrap();
    assert_eq!((position.position, position.pending_gaps.is_empty()), (back, true), "it is ahead again");
    fenced("advance", test.first().advance(&fence, &settled(0, &events)).await);
    assert_eq!(test.first().ask_for("s", fence.term, LONG).await.term, None);
    let again = test.first().own("s").await;
    assert!(again.term > fence.term);
    test.first().advance(&again, &settled(back, &events[1..])).await.unwrap();
}

pub(crate) async fn a_reset_moves_forwards(test: &TestSubscribers) {
    let events = test.append(3).await;
    test.first().begin("s").await;
    test.first().reset("s", sequence(&events[2])).await.unwrap();
    assert_eq!(test.first().position("s").await.unwrap().position, sequence(&events[2]));
    assert_eq!(test.first().subscriber("s").await.unwrap().lag_events, 0);
    test.first().reset("s", 0).await.unwrap();
    assert_eq!(test.first().position("s").await.unwrap().position, 0);
}

pub(crate) async fn a_reset_keeps_dead_letters(test: &TestSubscribers) {
    test.hand_out(10_000).await;
    let events = test.append(1).await;
    let fence = test.first().begin_and_own("s").await;
    test.first().bury(&fence, &[dead(&fence, &events[0], "no")]).await.unwrap();
    test.first().reset("s", 0).await.unwrap();
    assert_eq!(test.first().letters().await.len(), 1);
}

pub(crate) async fn one_that_is_removed_is_forgotten(test: &TestSubscribers) {
    test.hand_out(10_000).await;
    let events = test.append(2).await;
    let fence = test.first().begin_and_own("s").await;
    test.first().begin("t").await;
    test.first().bury(&fence, &[dead(&fence, &events[0], "no")]).await.unwrap();
    test.first().advance(&fence, &settled(0, &events)).await.unwrap();
    test.first().give_up("s").await;
    test.second().remove("s", false).await.unwrap();
    not_found("subscriber", test.first().subscriber("s").await);
    not_found("remove", test.first().remove("s", false).await);
    assert!(test.first().letters().await.is_empty());
    assert_eq!(test.first().subscribers().await.unwrap().len(), 1);
    // A subscriber with the same id begins from the start.
    test.first().begin("s").await;
    assert_eq!(test.first().position("s").await.unwrap().position, 0);
    assert_eq!(test.first().findings("s").await, []);
}

pub(crate) async fn one_in_use_is_removed_only_by_force(test: &TestSubscribers) {
    test.first().begin_and_own("s").await;
    let refused = test.second().remove("s", false).await;
    assert!(matches!(refused, Err(SubscriberError::InUse(_))), "{refused:?}");
    assert!(test.first().subscriber("s").await.unwrap().owner.is_some());
    test.second().remove("s", true).await.unwrap();
    not_found("subscriber", test.first().subscriber("s").await);
}

/// The events in the ledger may still come, and would otherwise be lost.
pub(crate) async fn a_reset_keeps_what_the_ledger_has_before_it(test: &TestSubscribers) {
    let events = test.append(6).await;
    let fence = test.first().begin_and_own("s").await;
    let at = |place: usize| sequence(&events[place - 1]);
    let pending_gaps = Gaps::from_iter([(at(1), at(1)), (at(3), at(4))]);
    test.first().advance(&fence, &Advance { pending_gaps, ..settled(0, &events) }).await.unwrap();
    let ledger = async || test.second().position("s").await.unwrap().pending_gaps.ranges();
    test.first().reset("s", at(5)).await.unwrap();
    assert_eq!(ledger().await, [(at(1), at(1)), (at(3), at(4))]);
    test.first().reset("s", at(6)).await.unwrap();
    assert_eq!(ledger().await, [(at(1), at(1)), (at(3), at(4))]);
    test.first().reset("s", at(3)).await.unwrap();
    assert_eq!(ledger().await, [(at(1), at(1)), (at(3), at(3))], "what is after it is ahead again");
    test.first().reset("s", at(2)).await.unwrap();
    assert_eq!(ledger().await, [(at(1), at(1))]);
    test.first().reset("s", 0).await.unwrap();
    assert_eq!(ledger().await, []);
}

pub(crate) async fn a_reset_beyond_the_log_has_what_is_to_come_in_its_ledger(test: &TestSubscribers) {
    let last = sequence(&test.append(2).await[1]);
    let fence = test.first().begin_and_own("s").await;
    let pending_gaps = Gaps::from_iter([(last, last)]);
    let advance = Advance { position: last, pending_gaps, ..Advance::default() };
    test.first().advance(&fence, &advance).await.unwrap();
    test.hand_out(last + 2).await;
    test.first().reset("s", last + 2).await.unwrap();
    let loaded = test.first().position("s").await.unwrap();
    // Touching ranges are one range, for a transaction that compares ledgers.
    assert_eq!((loaded.position, loaded.pending_gaps.ranges()), (last + 2, vec![(last, last + 2)]));
}

/// No backend counts that far, and no number may turn into another.
pub(crate) async fn a_position_that_is_no_sequence_is_refused(test: &TestSubscribers) {
    let fence = test.first().begin_and_own("s").await;
    for position in [u64::from(Sequence::MAX) + 1, u64::MAX] {
        let (mode, start_from) = (SubscriberMode::default(), StartFrom::After(position));
        let refused = [
            test.first().register(&SubscriberConfig::new("t", start_from, mode)).await,
            test.first().reset("s", position).await,
            test.first().advance(&fence, &Advance { position, ..Advance::default() }).await,
        ];
        for refused in refused {
            let names = |message: &str| message.contains(&position.to_string());
            assert!(matches!(&refused, Err(SubscriberError::InvalidInput(message)) if names(message)), "{refused:?}");
        }
    }
    assert_eq!(test.second().position("s").await.unwrap().position, 0);
    not_found("subscriber", test.second().subscriber("t").await);
}
