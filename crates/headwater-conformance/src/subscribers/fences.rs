//! Laws of terms: an owner whose term is not the present one writes nothing.

use headwater_core::{DeadLetterState, Fence, Gap, GapState, History, LastTurn, SubscriberError};
use uuid::Uuid;

use super::TestSubscribers;
use super::support::{LONG, attempt, dead, fenced, not_found, sequence, settled};

/// Gives a subscriber from the first process to the second, with one letter to redrive. Returns the
/// fences of both.
async fn taken_over(test: &TestSubscribers) -> (Fence, Fence) {
    let events = test.append(2).await;
    let stale = test.first().begin_and_own("s").await;
    test.first().give_up("s").await;
    let present = test.second().own("s").await;
    test.second().bury(&present, &[dead(&present, &events[0], "no")]).await.unwrap();
    test.second().redrive(&Default::default()).await.unwrap();
    (stale, present)
}

/// Tries every write of an owner. Each must be fenced and change nothing.
async fn writes_nothing(test: &TestSubscribers, fence: &Fence) {
    let store = test.first();
    let (info, letters) = (store.subscriber("s").await.unwrap(), store.letters().await);
    let events = test.append(1).await;
    fenced("load", store.load(fence).await);
    fenced("advance", store.advance(fence, &settled(0, &events)).await);
    fenced("bury", store.bury(fence, &[dead(fence, &events[0], "no")]).await);
    let letter = letters[0].global_sequence();
    fenced("redriven", store.redriven(fence, letter, None).await);
    fenced("redriven, failed", store.redriven(fence, letter, Some(attempt("no"))).await);
    fenced("pause_self", store.pause_self(fence, "no").await);
    let after = store.subscriber("s").await.unwrap();
    assert_eq!((after.position, after.paused, after.owner), (info.position, info.paused, info.owner));
    assert_eq!((after.term, after.updated_at), (info.term, info.updated_at));
    assert_eq!(store.letters().await, letters);
}

pub(crate) async fn an_owner_that_was_followed_writes_nothing(test: &TestSubscribers) {
    test.hand_out(10_000).await;
    let (stale, present) = taken_over(test).await;
    writes_nothing(test, &stale).await;
    test.second().load(&present).await.unwrap();
}

pub(crate) async fn a_term_that_never_was_writes_nothing(test: &TestSubscribers) {
    test.hand_out(10_000).await;
    let (_, present) = taken_over(test).await;
    let future = Fence { term: present.term.map(|term| term + 1), ..present };
    writes_nothing(test, &future).await;
}

pub(crate) async fn after_a_reset_the_owner_writes_nothing(test: &TestSubscribers) {
    test.hand_out(10_000).await;
    let (_, present) = taken_over(test).await;
    test.second().reset("s", 0).await.unwrap();
    writes_nothing(test, &present).await;
}

pub(crate) async fn the_present_term_writes(test: &TestSubscribers) {
    test.hand_out(10_000).await;
    let (_, present) = taken_over(test).await;
    let events = test.append(1).await;
    let store = test.second();
    store.advance(&present, &settled(0, &events)).await.unwrap();
    store.bury(&present, &[dead(&present, &events[0], "no")]).await.unwrap();
    let first = store.redrives(&present, 10).await.unwrap()[0].global_sequence();
    store.redriven(&present, first, None).await.unwrap();
    store.pause_self(&present, "tired").await.unwrap();
    assert_eq!(store.states().await, [DeadLetterState::Redriven, DeadLetterState::Dead]);
    let info = store.subscriber("s").await.unwrap();
    assert_eq!((info.position, info.paused), (sequence(&events[0]), true));
}

/// The server may have lost what was read in the other history, and handed out its sequences again.
pub(crate) async fn what_was_read_in_another_history_writes_nothing(test: &TestSubscribers) {
    let (_, present) = taken_over(test).await;
    let store = test.second();
    assert_eq!(store.load(&present).await.unwrap().history, present.history);
    assert_eq!(store.position("s").await.unwrap().history, present.history);
    assert!(present.history.is_some());
    let other = Fence { history: Some(History::new(Uuid::now_v7())), ..present.clone() };
    let (info, letters, events) = (store.subscriber("s").await.unwrap(), store.letters().await, test.append(1).await);
    let letter = letters[0].global_sequence();
    let gap = Gap { first: 1_000, last: 1_000, state: GapState::Permanent };
    let answers = [
        store.load(&other).await.map(drop),
        store.advance(&other, &settled(0, &events)).await,
        store.bury(&other, &[dead(&other, &events[0], "no")]).await,
        store.redrives(&other, 10).await.map(drop),
        store.redriven(&other, letter, None).await,
        store.is_parked(&other, "a").await.map(drop),
        store.pause_self(&other, "no").await,
        store.record_gaps(other.history, &[gap]).await,
    ];
    for answer in answers {
        assert!(answer.as_ref().is_err_and(SubscriberError::is_other_history), "{answer:?}");
    }
    let after = store.subscriber("s").await.unwrap();
    assert_eq!((after.position, after.paused, after.updated_at), (info.position, info.paused, info.updated_at));
    assert_eq!(store.letters().await, letters);
    assert_eq!(store.audit(&[]).await.unwrap().permanent_gaps, 0);
    store.advance(&present, &settled(0, &events)).await.unwrap();
}

/// The next owner learns that its predecessor died, and which event it had begun.
pub(crate) async fn an_owner_that_died_leaves_what_it_had_begun(test: &TestSubscribers) {
    let events = test.append(2).await;
    let first = test.first().begin_and_own("s").await;
    assert_eq!(test.first().begin_turn(&first, false).await.unwrap(), LastTurn::default());
    test.first().give_up("s").await;
    let second = test.second().own("s").await;
    fenced("begin_turn", test.first().begin_turn(&first, false).await);
    fenced("begin_event", test.first().begin_event(&first, events[0].id).await);
    fenced("end_turn", test.first().end_turn(&first).await);
    let store = test.second();
    assert_eq!(store.begin_turn(&second, false).await.unwrap(), LastTurn { died: true, begun: None });
    for (event, times) in [(&events[0], 1), (&events[1], 1), (&events[1], 2)] {
        assert_eq!(store.begin_event(&second, event.id).await.unwrap(), times);
    }
    let begun = Some((events[1].id, 2));
    assert_eq!(store.begin_turn(&second, false).await.unwrap(), LastTurn { died: true, begun });
    assert_eq!(store.begin_event(&second, events[1].id).await.unwrap(), 3);
    assert_eq!(store.begin_turn(&second, true).await.unwrap(), LastTurn::default(), "it lives");
    assert_eq!(store.begin_event(&second, events[1].id).await.unwrap(), 1);
    store.end_turn(&second).await.unwrap();
    assert_eq!(store.begin_turn(&second, false).await.unwrap(), LastTurn::default());
}

/// Something else coordinates a subscriber that runs without a lease: nothing fences it off.
pub(crate) async fn without_a_lease_nothing_is_fenced(test: &TestSubscribers) {
    let events = test.append(1).await;
    test.first().begin("s").await;
    let fence = Fence { subscriber_id: "s".into(), partition: 0, term: None, history: None };
    assert_eq!(test.first().load(&fence).await.unwrap().position, 0);
    test.first().bury(&fence, &[dead(&fence, &events[0], "no")]).await.unwrap();
    assert!(test.first().redrives(&fence, 10).await.unwrap().is_empty());
    test.first().redriven(&fence, sequence(&events[0]), None).await.unwrap();
    test.first().advance(&fence, &settled(0, &events)).await.unwrap();
    test.first().pause_self(&fence, "tired").await.unwrap();
    let loaded = test.first().load(&fence).await.unwrap();
    assert_eq!((loaded.position, loaded.paused), (sequence(&events[0]), true));
}

pub(crate) async fn one_that_was_removed_is_not_written(test: &TestSubscribers) {
    test.hand_out(10_000).await;
    let (_, present) = taken_over(test).await;
    let events = test.append(1).await;
    test.first().remove("s", true).await.unwrap();
    let store = test.second();
    let answers = [
        store.advance(&present, &settled(0, &events)).await,
        store.bury(&present, &[dead(&present, &events[0], "no")]).await,
        store.redriven(&present, sequence(&events[0]), None).await,
        store.pause_self(&present, "no").await,
        store.load(&present).await.map(drop),
    ];
    // Both errors are true, and both tell the owner to stop.
    for answer in answers {
        assert!(matches!(answer, Err(SubscriberError::Fenced(_) | SubscriberError::NotFound(_))), "{answer:?}");
    }
    let held = store.ask_for("s", present.term, LONG).await;
    assert_eq!((held.term, held.paused, held.redrives), (None, false, false));
    assert!(store.letters().await.is_empty());
}

pub(crate) async fn an_id_that_is_not_there_is_not_found(test: &TestSubscribers) {
    let store = test.first();
    store.begin("s").await;
    not_found("subscriber", store.subscriber("t").await);
    not_found("position", store.position("t").await);
    not_found("set_paused", store.set_paused("t", true).await);
    not_found("reset", store.reset("t", 0).await);
    not_found("remove", store.remove("t", true).await);
    not_found("audit", store.audit(&["s".into(), "t".into()]).await);
}

/// Not even a new registration uses a term again: the owner of the old subscriber must not write
/// into the new one.
pub(crate) async fn a_term_is_never_used_again(test: &TestSubscribers) {
    let events = test.append(1).await;
    let old = test.first().begin_and_own("s").await;
    let without_lease = Fence { term: Some(test.first().load(&old).await.unwrap().term), ..old.clone() };
    test.second().remove("s", true).await.unwrap();
    test.second().begin("s").await;
    let refused = async || {
        let store = test.first();
        for fence in [&old, &without_lease] {
            fenced("advance", store.advance(fence, &settled(0, &events)).await);
            fenced("bury", store.bury(fence, &[dead(fence, &events[0], "no")]).await);
            fenced("redriven", store.redriven(fence, sequence(&events[0]), None).await);
            fenced("load", store.load(fence).await);
        }
    };
    refused().await;
    for _ in 0..3 {
        let fence = test.second().own("s").await;
        test.second().bury(&fence, &[dead(&fence, &events[0], "no")]).await.unwrap();
        refused().await;
        test.second().give_up("s").await;
    }
    test.second().reset("s", 0).await.unwrap();
    refused().await;
    assert_eq!(test.first().position("s").await.unwrap().position, 0);
}

pub(crate) async fn terms_rise_whatever_happens(test: &TestSubscribers) {
    let mut terms = Vec::new();
    let present = async || test.first().position("s").await.unwrap().term;
    for _ in 0..3 {
        test.first().begin("s").await;
        terms.push(present().await);
        test.first().reset("s", 0).await.unwrap();
        terms.push(present().await);
        test.first().remove("s", true).await.unwrap();
        test.first().begin("s").await;
        terms.push(present().await);
        test.first().own("s").await;
        terms.push(present().await);
        test.first().reset("s", 0).await.unwrap();
        terms.push(present().await);
        test.first().own("s").await;
        terms.push(present().await);
        test.first().remove("s", true).await.unwrap();
    }
    assert!(terms.is_sorted_by(|a, b| a < b), "{terms:?}");
}
