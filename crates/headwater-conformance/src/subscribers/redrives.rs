//! Laws of redrives: which letters are delivered again, and in which order.

use headwater_core::DeadLetterState::{Dead, Discarded, Parked, Redriven, Redriving};
use headwater_core::{DeadLetterQuery, Fence, RecordedEvent};

use super::TestSubscribers;
use super::support::{LONG, all, attempt, dead, parked, parking, sequence};

fn one(event: &RecordedEvent) -> DeadLetterQuery {
    DeadLetterQuery { global_sequence: Some(sequence(event)), ..all() }
}

/// Buries six letters. Key `a` has a letter that parks it and two letters behind that. Key `b` has
/// a letter that parks it. Two more letters park nothing.
async fn fill(test: &TestSubscribers) -> (Vec<RecordedEvent>, Fence) {
    let mut events = test.append_keys(&["a", "b", "a", "a"]).await;
    events.extend(test.append(2).await);
    let fence = test.first().begin_and_own("s").await;
    let letters = [
        parking(&fence, &events[0], "a failed"),
        parking(&fence, &events[1], "b failed"),
        parked(&fence, &events[2]),
        parked(&fence, &events[3]),
        dead(&fence, &events[4], "no"),
        dead(&fence, &events[5], "no"),
    ];
    test.first().bury(&fence, &letters).await.unwrap();
    (events, fence)
}

pub(crate) async fn nothing_is_due_before_it_is_asked_for(test: &TestSubscribers) {
    let (events, fence) = fill(test).await;
    assert!(test.first().due(&fence, &events).await.is_empty());
    assert!(!test.first().ask_for("s", fence.term, LONG).await.redrives);
}

pub(crate) async fn one_letter(test: &TestSubscribers) {
    test.hand_out(10_000).await;
    let (events, fence) = fill(test).await;
    assert_eq!(test.second().redrive(&one(&events[4])).await.unwrap(), 1);
    assert!(test.first().ask_for("s", fence.term, LONG).await.redrives, "its owner is told");
    let due = test.first().redrives(&fence, 10).await.unwrap();
    assert_eq!((due.len(), due[0].global_sequence(), due[0].state), (1, sequence(&events[4]), Redriving));
    assert_eq!(test.second().redrive(&one(&events[4])).await.unwrap(), 0, "it is under way");
    assert_eq!(test.first().states().await, [Dead, Dead, Parked, Parked, Redriving, Dead]);
}

pub(crate) async fn what_is_handled_is_done_with(test: &TestSubscribers) {
    test.hand_out(10_000).await;
    let (events, fence) = fill(test).await;
    test.second().redrive(&one(&events[4])).await.unwrap();
    test.first().redriven(&fence, sequence(&events[4]), None).await.unwrap();
    assert_eq!(test.first().states().await, [Dead, Dead, Parked, Parked, Redriven, Dead]);
    assert!(test.first().due(&fence, &events).await.is_empty());
    assert!(!test.first().ask_for("s", fence.term, LONG).await.redrives);
    assert_eq!(test.first().dead_letters(&one(&events[4])).await.unwrap(), []);
    assert_eq!(test.first().subscriber("s").await.unwrap().dead_letters, 5);
    assert_eq!(test.first().redrive(&one(&events[4])).await.unwrap(), 0);
}

pub(crate) async fn what_fails_again_is_dead_again(test: &TestSubscribers) {
    test.hand_out(10_000).await;
    let (events, fence) = fill(test).await;
    test.second().redrive(&one(&events[4])).await.unwrap();
    test.first().redriven(&fence, sequence(&events[4]), Some(attempt("still no"))).await.unwrap();
    let letter = test.first().dead_letters(&one(&events[4])).await.unwrap().remove(0);
    assert_eq!((letter.state, letter.attempts.len(), letter.error()), (Dead, 2, "still no"));
    assert!(test.first().due(&fence, &events).await.is_empty());
    assert_eq!(test.first().redrive(&one(&events[4])).await.unwrap(), 1, "it may be asked for again");
}

pub(crate) async fn those_parked_behind_one_go_with_it(test: &TestSubscribers) {
    let (events, fence) = fill(test).await;
    assert_eq!(test.second().redrive(&one(&events[0])).await.unwrap(), 3);
    assert_eq!(test.first().due(&fence, &events).await, [1, 3, 4]);
    for place in [0, 2, 3] {
        assert!(test.first().is_parked(&fence, "a").await.unwrap());
        test.first().redriven(&fence, sequence(&events[place]), None).await.unwrap();
    }
    assert!(!test.first().is_parked(&fence, "a").await.unwrap());
    assert_eq!(test.first().load(&fence).await.unwrap().parked_keys, ["b"]);
}

pub(crate) async fn by_key(test: &TestSubscribers) {
    let (events, fence) = fill(test).await;
    let key = |key: &str| DeadLetterQuery { order_key: Some(key.into()), ..all() };
    assert_eq!(test.second().redrive(&key("a")).await.unwrap(), 3);
    assert_eq!(test.second().redrive(&key("c")).await.unwrap(), 0);
    assert_eq!(test.first().due(&fence, &events).await, [1, 3, 4]);
}

pub(crate) async fn all_of_them(test: &TestSubscribers) {
    let (events, fence) = fill(test).await;
    assert_eq!(test.second().redrive(&DeadLetterQuery::default()).await.unwrap(), 6);
    assert_eq!(test.first().due(&fence, &events).await, [1, 2, 3, 4, 5, 6], "in order of the log");
    let some = test.first().redrives(&fence, 2).await.unwrap();
    assert_eq!(
        some.iter().map(|letter| letter.global_sequence()).collect::<Vec<_>>(),
        [sequence(&events[0]), sequence(&events[1])]
    );
}

pub(crate) async fn those_behind_one_that_fails_again_wait_again(test: &TestSubscribers) {
    test.hand_out(10_000).await;
    let (events, fence) = fill(test).await;
    test.second().redrive(&one(&events[0])).await.unwrap();
    test.first().redriven(&fence, sequence(&events[0]), Some(attempt("still no"))).await.unwrap();
    assert!(test.first().due(&fence, &events).await.is_empty());
    assert_eq!(test.first().states().await, [Dead, Dead, Parked, Parked, Dead, Dead]);
    assert!(test.first().is_parked(&fence, "a").await.unwrap());
    assert_eq!(test.second().redrive(&one(&events[0])).await.unwrap(), 3);
    assert_eq!(test.first().due(&fence, &events).await, [1, 3, 4]);
}

pub(crate) async fn one_that_is_parked_keeps_its_place(test: &TestSubscribers) {
    let (events, fence) = fill(test).await;
    // Any letters may go, but the second letter of a key never goes before the first.
    test.second().redrive(&one(&events[2])).await.unwrap();
    let due = test.first().due(&fence, &events).await;
    assert!(due.is_empty() || due.starts_with(&[1]), "{due:?}");
}

pub(crate) async fn what_waits_behind_a_discarded_one_is_delivered(test: &TestSubscribers) {
    test.hand_out(10_000).await;
    let (events, fence) = fill(test).await;
    test.second().discard(&one(&events[0]), "no use").await.unwrap();
    assert!(test.first().ask_for("s", fence.term, LONG).await.redrives);
    // They go one after the other: if the first fails, the second must wait.
    assert_eq!(test.first().due(&fence, &events).await, [3]);
    test.first().redriven(&fence, sequence(&events[2]), Some(attempt("no"))).await.unwrap();
    assert!(test.first().due(&fence, &events).await.is_empty());
    test.second().discard(&one(&events[2]), "no use").await.unwrap();
    assert_eq!(test.first().due(&fence, &events).await, [4]);
    test.first().redriven(&fence, sequence(&events[3]), None).await.unwrap();
    assert_eq!(test.first().states().await, [Discarded, Dead, Discarded, Redriven, Dead, Dead]);
    assert!(!test.first().is_parked(&fence, "a").await.unwrap());
}

pub(crate) async fn what_was_discarded_meanwhile_stays_so(test: &TestSubscribers) {
    test.hand_out(10_000).await;
    let (events, fence) = fill(test).await;
    test.second().redrive(&one(&events[4])).await.unwrap();
    test.second().discard(&one(&events[4]), "no use").await.unwrap();
    assert!(test.first().due(&fence, &events).await.is_empty());
    test.first().redriven(&fence, sequence(&events[4]), Some(attempt("no"))).await.unwrap();
    assert_eq!(test.first().states().await[4], Discarded);
}

pub(crate) async fn the_next_owner_goes_on_with_them(test: &TestSubscribers) {
    let (events, _) = fill(test).await;
    test.second().redrive(&one(&events[0])).await.unwrap();
    test.first().give_up("s").await;
    let held = test.second().ask_for("s", None, LONG).await;
    assert!(held.redrives);
    let fence = Fence { subscriber_id: "s".into(), partition: 0, term: held.term, history: held.history };
    assert_eq!(test.second().due(&fence, &events).await, [1, 3, 4]);
}

pub(crate) async fn each_subscriber_has_its_own(test: &TestSubscribers) {
    let (events, fence) = fill(test).await;
    let other = test.second().begin_and_own("t").await;
    test.second().bury(&other, &[dead(&other, &events[0], "no")]).await.unwrap();
    let of_t = DeadLetterQuery { subscriber_id: Some("t".into()), ..all() };
    assert_eq!(test.first().redrive(&of_t).await.unwrap(), 1);
    assert!(test.first().due(&fence, &events).await.is_empty());
    assert_eq!(test.second().due(&other, &events).await, [1]);
    assert!(!test.second().is_parked(&other, "b").await.unwrap());
    assert!(test.second().load(&other).await.unwrap().parked_keys.is_empty());
}
