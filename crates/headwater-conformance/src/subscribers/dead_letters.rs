//! Laws of dead letters: they are kept whole, and a query can find them by any of their fields.

use std::collections::BTreeMap;

use headwater_core::DeadLetterState::{self, Dead, Discarded, Parked};
use headwater_core::{Advance, Append, DeadLetterQuery, Event, ExpectedVersion, Fence, Gaps, RecordedEvent};
use serde_json::json;
use uuid::Uuid;

use super::TestSubscribers;
use super::support::{all, dead, not_found, parked, parking, places, sequence, settled};
use crate::same_meaning;
use crate::support::{stored, whole_log};

pub(crate) async fn a_letter_is_kept_whole(test: &TestSubscribers) {
    test.hand_out(10_000).await;
    let given = Event {
        key: Some("customer-5".into()),
        actor_id: Some("ada".into()),
        schema_version: 3,
        correlation_id: Some(Uuid::now_v7()),
        causation_id: Some(Uuid::now_v7()),
        headers: BTreeMap::from([("traceparent".into(), "00-☃".into())]),
        ..Event::raw("order.placed", json!({ "total": 5, "note": "größe", "deep": [1, null, { "a": 1.5 }] }))
    };
    stored(&test.log, Append::to_stream("order-1", ExpectedVersion::NoStream, [given])).await;
    stored(&test.log, Event { data: None, ..Event::raw("empty", json!(null)) }.into()).await;
    let events = whole_log(&test.log).await;
    let fence = test.first().begin_and_own("s").await;
    let letters = [parking(&fence, &events[0], "failed \"so\"\nbadly"), dead(&fence, &events[1], "")];
    test.first().bury(&fence, &letters).await.unwrap();
    let kept = test.second().letters().await;
    assert_eq!(kept.len(), 2);
    for (kept, given) in kept.iter().zip(&letters) {
        assert!(same_meaning(&kept.event, &given.event), "{kept:?}");
        let places = |event: &RecordedEvent| (event.global_sequence, event.stream_version, event.recorded_at);
        assert_eq!(places(&kept.event), places(&given.event));
        assert_eq!((&kept.order_key, kept.state, kept.parks_key), (&given.order_key, given.state, given.parks_key));
        assert_eq!((&kept.attempts, &kept.reason), (&given.attempts, &None));
        assert_eq!(kept.subscriber_id, "s");
        assert!(kept.updated_at >= kept.created_at);
    }
    assert_eq!(kept[0].error(), "failed \"so\"\nbadly");
}

pub(crate) async fn burying_again_adds_what_is_new(test: &TestSubscribers) {
    test.hand_out(10_000).await;
    let events = test.append(1).await;
    let fence = test.first().begin_and_own("s").await;
    let first = dead(&fence, &events[0], "first");
    let second = parking(&fence, &events[0], "second");
    test.first().bury(&fence, std::slice::from_ref(&first)).await.unwrap();
    let created_at = test.first().letters().await[0].created_at;
    test.first().bury(&fence, std::slice::from_ref(&second)).await.unwrap();
    // The answer was lost, and the letter is sent again.
    test.first().bury(&fence, std::slice::from_ref(&second)).await.unwrap();
    let kept = test.first().letters().await;
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[0].attempts, [first.attempts, second.attempts].concat());
    assert_eq!((kept[0].state, kept[0].parks_key, kept[0].created_at), (Dead, true, created_at));
}

pub(crate) async fn one_that_was_done_with_may_die_again(test: &TestSubscribers) {
    test.hand_out(10_000).await;
    let events = test.append(1).await;
    let fence = test.first().begin_and_own("s").await;
    test.first().bury(&fence, &[dead(&fence, &events[0], "first")]).await.unwrap();
    test.first().discard(&all(), "no use").await.unwrap();
    test.first().bury(&fence, &[dead(&fence, &events[0], "second")]).await.unwrap();
    let kept = test.first().dead_letters(&all()).await.unwrap();
    assert_eq!((kept[0].state, kept[0].attempts.len(), &kept[0].reason), (Dead, 2, &None));
}

/// An event that is delivered again after a crash finds its key parked by its own letter.
pub(crate) async fn none_waits_behind_itself(test: &TestSubscribers) {
    test.hand_out(10_000).await;
    let events = test.append_keys(&["a"]).await;
    let fence = test.first().begin_and_own("s").await;
    test.first().bury(&fence, &[parking(&fence, &events[0], "no")]).await.unwrap();
    test.first().bury(&fence, &[parked(&fence, &events[0])]).await.unwrap();
    let kept = test.first().letters().await;
    assert_eq!((kept[0].state, kept[0].parks_key, kept[0].error()), (Dead, true, "no"));
    assert!(test.first().redrives(&fence, 10).await.unwrap().is_empty(), "nobody asked for it");
}

/// Five letters of `s`, and one of `t`.
async fn fill(test: &TestSubscribers) -> (Vec<RecordedEvent>, Fence) {
    let mut events = test.append_keys(&["a", "a", "b", "b", "c"]).await;
    events.extend(test.append(1).await);
    let fence = test.first().begin_and_own("s").await;
    let letters = [
        parking(&fence, &events[0], "the bank is closed"),
        parked(&fence, &events[1]),
        dead(&fence, &events[2], "100% wrong"),
        dead(&fence, &events[3], "The Bank is open"),
        dead(&fence, &events[5], "no"),
    ];
    test.first().bury(&fence, &letters).await.unwrap();
    let other = test.second().begin_and_own("t").await;
    test.second().bury(&other, &[dead(&other, &events[2], "the bank is closed")]).await.unwrap();
    (events, fence)
}

pub(crate) async fn each_filter_finds_its_own(test: &TestSubscribers) {
    test.hand_out(10_000).await;
    let (events, _) = fill(test).await;
    let at = |place: usize| sequence(&events[place - 1]);
    let of_s = || DeadLetterQuery { subscriber_id: Some("s".into()), ..all() };
    let cases = [
        ("all of one", of_s(), vec![1, 2, 3, 4, 6]),
        ("all of another", DeadLetterQuery { subscriber_id: Some("t".into()), ..all() }, vec![3]),
        ("all of none", DeadLetterQuery { subscriber_id: Some("u".into()), ..all() }, vec![]),
        ("dead", DeadLetterQuery { states: vec![Dead], ..of_s() }, vec![1, 3, 4, 6]),
        ("parked", DeadLetterQuery { states: vec![Parked], ..of_s() }, vec![2]),
        ("two states", DeadLetterQuery { states: vec![Parked, Discarded, Dead], ..of_s() }, vec![1, 2, 3, 4, 6]),
        ("discarded", DeadLetterQuery { states: vec![Discarded], ..of_s() }, vec![]),
        ("one event", DeadLetterQuery { global_sequence: Some(at(3)), ..of_s() }, vec![3]),
        ("no event", DeadLetterQuery { global_sequence: Some(at(5)), ..of_s() }, vec![]),
        ("a type", DeadLetterQuery { event_type: Some("Keyed".into()), ..of_s() }, vec![1, 2, 3, 4]),
        ("no type", DeadLetterQuery { event_type: Some("keyed".into()), ..of_s() }, vec![]),
        ("a key", DeadLetterQuery { order_key: Some("b".into()), ..of_s() }, vec![3, 4]),
        ("an id", DeadLetterQuery { order_key: Some(events[5].id.to_string()), ..of_s() }, vec![6]),
        ("an error", DeadLetterQuery { error_contains: Some("bank".into()), ..of_s() }, vec![1]),
        ("an error, literally", DeadLetterQuery { error_contains: Some("0% w".into()), ..of_s() }, vec![3]),
        ("an error, not a pattern", DeadLetterQuery { error_contains: Some("%".into()), ..of_s() }, vec![3]),
        ("after", DeadLetterQuery { after: at(2), ..of_s() }, vec![3, 4, 6]),
        ("limited", DeadLetterQuery { limit: 2, ..of_s() }, vec![1, 2]),
        ("the next page", DeadLetterQuery { limit: 2, after: at(2), ..of_s() }, vec![3, 4]),
        ("all that is set", DeadLetterQuery { order_key: Some("a".into()), states: vec![Dead], ..of_s() }, vec![1]),
    ];
    for (what, query, found) in cases {
        assert_eq!(places(&test.first().dead_letters(&query).await.unwrap(), &events), found, "{what}");
    }
}

pub(crate) async fn letters_come_by_subscriber_and_sequence(test: &TestSubscribers) {
    test.hand_out(10_000).await;
    let (events, _) = fill(test).await;
    let listed = test.second().dead_letters(&all()).await.unwrap();
    let whose: Vec<_> = listed.iter().map(|letter| letter.subscriber_id.as_str()).collect();
    assert_eq!(whose, ["s", "s", "s", "s", "s", "t"]);
    assert_eq!(places(&listed, &events), [1, 2, 3, 4, 6, 3]);
}

pub(crate) async fn those_not_done_with_are_counted(test: &TestSubscribers) {
    fill(test).await;
    let counts = async || test.first().subscribers().await.unwrap().iter().map(|info| info.dead_letters).collect();
    let before: Vec<u64> = counts().await;
    assert_eq!(before, [5, 1]);
    test.first().discard(&DeadLetterQuery { order_key: Some("b".into()), ..all() }, "no use").await.unwrap();
    let after: Vec<u64> = counts().await;
    assert_eq!(after, [3, 0]);
}

pub(crate) async fn what_is_discarded_is_done_with(test: &TestSubscribers) {
    test.hand_out(10_000).await;
    let (events, _) = fill(test).await;
    let query = DeadLetterQuery { subscriber_id: Some("s".into()), order_key: Some("b".into()), ..all() };
    assert_eq!(test.second().discard(&query, "customer left").await.unwrap(), 2);
    assert_eq!(test.second().discard(&query, "again").await.unwrap(), 0);
    assert_eq!(test.first().redrive(&query).await.unwrap(), 0);
    let discarded = DeadLetterQuery { states: vec![Discarded], ..all() };
    let discarded = test.first().dead_letters(&discarded).await.unwrap();
    assert_eq!(places(&discarded, &events), [3, 4]);
    for letter in discarded {
        assert_eq!((letter.reason.as_deref(), letter.attempts.len()), (Some("customer left"), 1));
    }
    assert_eq!(places(&test.first().dead_letters(&all()).await.unwrap(), &events), [1, 2, 6, 3]);
    let unknown = DeadLetterQuery { subscriber_id: Some("u".into()), ..all() };
    not_found("discard", test.first().discard(&unknown, "").await);
    not_found("redrive", test.first().redrive(&unknown).await);
}

pub(crate) async fn a_key_is_parked_until_its_letters_are_done_with(test: &TestSubscribers) {
    let (events, fence) = fill(test).await;
    let store = test.first();
    assert_eq!(store.load(&fence).await.unwrap().parked_keys, ["a"]);
    assert!(store.is_parked(&fence, "a").await.unwrap());
    assert!(!store.is_parked(&fence, "c").await.unwrap());
    let discard = async |place: usize| {
        let query = DeadLetterQuery { global_sequence: Some(sequence(&events[place - 1])), ..all() };
        assert_eq!(store.discard(&query, "no use").await.unwrap(), 1);
    };
    discard(1).await;
    assert!(store.is_parked(&fence, "a").await.unwrap(), "one waits still");
    assert_eq!(store.load(&fence).await.unwrap().parked_keys, ["a"]);
    discard(2).await;
    assert!(!store.is_parked(&fence, "a").await.unwrap());
    assert!(store.load(&fence).await.unwrap().parked_keys.is_empty(), "what parks no key is not in the way");
}

pub(crate) async fn many_are_kept_at_once(test: &TestSubscribers) {
    test.hand_out(10_000).await;
    let events = test.append(30).await;
    let fence = test.first().begin_and_own("s").await;
    let letters: Vec<_> = events.iter().rev().map(|event| dead(&fence, event, "no")).collect();
    test.first().bury(&fence, &letters).await.unwrap();
    test.first().bury(&fence, &[]).await.unwrap();
    let kept = test.first().dead_letters(&all()).await.unwrap();
    assert_eq!(places(&kept, &events), (1..=30).collect::<Vec<_>>());
    assert!(kept.iter().all(|letter| letter.state == DeadLetterState::Dead && letter.attempts.len() == 1));
}

/// An owner gets the same answer when it begins and when it asks for one key.
pub(crate) async fn what_parks_nothing_parks_no_key(test: &TestSubscribers) {
    let (_, fence) = fill(test).await;
    let parked_keys = test.first().load(&fence).await.unwrap().parked_keys;
    for key in ["a", "b", "c"] {
        assert_eq!(test.first().is_parked(&fence, key).await.unwrap(), parked_keys.contains(&key.to_owned()), "{key}");
    }
    assert_eq!(parked_keys, ["a"]);
}

/// The places among `events` of those that the store reports as buried.
async fn buried(test: &TestSubscribers, fence: &Fence, events: &[RecordedEvent]) -> Vec<usize> {
    let buried = test.first().load(fence).await.unwrap().buried;
    let is = |event: &RecordedEvent, found: &(u64, Option<Uuid>)| (sequence(event), Some(event.id)) == *found;
    let place =
        |found: &(u64, Option<Uuid>)| 1 + events.iter().position(|event| is(event, found)).expect("one of these");
    buried.iter().map(place).collect()
}

/// A server that lost the end of its log hands out the same sequences again. So a letter belongs to
/// an event and not to a sequence.
pub(crate) async fn a_letter_is_of_an_event_not_of_a_sequence(test: &TestSubscribers) {
    let events = test.append(1).await;
    let fence = test.first().begin_and_own("s").await;
    let lost = Event { id: Uuid::now_v7(), ..events[0].clone().into_event() };
    let lost = RecordedEvent::new(lost).unwrap();
    test.first().bury(&fence, &[dead(&fence, &lost, "no")]).await.unwrap();
    let loaded = test.first().load(&fence).await.unwrap();
    assert_eq!(loaded.buried, [(sequence(&lost), Some(lost.id))], "not the event that has its sequence now");
    test.first().bury(&fence, &[dead(&fence, &events[0], "never")]).await.unwrap();
    let letters = test.first().letters().await;
    let mut found: Vec<_> = letters.iter().map(|letter| (letter.event.id, letter.error())).collect();
    found.sort();
    let mut both = [(lost.id, "no"), (events[0].id, "never")];
    both.sort();
    assert_eq!(found, both, "neither takes the other's place");
}

/// If the owner ended between the burial and the checkpoint, the next owner must not handle the
/// event again.
pub(crate) async fn what_is_buried_and_not_passed_is_told(test: &TestSubscribers) {
    let events = test.append(7).await;
    let fence = test.first().begin_and_own("s").await;
    assert!(buried(test, &fence, &events).await.is_empty());
    let letters: Vec<_> = events[..6].iter().map(|event| dead(&fence, event, "no")).collect();
    test.first().bury(&fence, &letters).await.unwrap();
    let other = test.second().begin_and_own("t").await;
    test.second().bury(&other, &[dead(&other, &events[6], "no")]).await.unwrap();
    let one = |place: usize| DeadLetterQuery {
        subscriber_id: Some("s".into()),
        global_sequence: Some(sequence(&events[place - 1])),
        ..all()
    };
    test.first().discard(&one(4), "no use").await.unwrap();
    test.first().redrive(&one(5)).await.unwrap();
    test.first().redrive(&one(6)).await.unwrap();
    test.first().redriven(&fence, sequence(&events[5]), None).await.unwrap();
    assert_eq!(buried(test, &fence, &events).await, [1, 2, 3, 4, 5, 6], "whatever became of them");

    let late = sequence(&events[1]);
    let advance = Advance { pending_gaps: Gaps::from_iter([(late, late)]), ..settled(0, &events[..3]) };
    test.first().advance(&fence, &advance).await.unwrap();
    assert_eq!(buried(test, &fence, &events).await, [2, 4, 5, 6]);
    assert!(test.first().position("s").await.unwrap().buried.is_empty(), "that is for owners");
    test.first().advance(&fence, &settled(advance.position, &events[3..])).await.unwrap();
    assert!(buried(test, &fence, &events).await.is_empty());
}

/// A reset delivers events again. That includes events that a redrive handled before the reset;
/// otherwise they would be missing in whatever is rebuilt.
pub(crate) async fn what_was_handled_before_a_reset_is_handled_again(test: &TestSubscribers) {
    let events = test.append(3).await;
    let fence = test.first().begin_and_own("s").await;
    let letters: Vec<_> = events.iter().map(|event| dead(&fence, event, "no")).collect();
    test.first().bury(&fence, &letters).await.unwrap();
    test.first().advance(&fence, &settled(0, &events)).await.unwrap();
    test.first().redrive(&DeadLetterQuery { global_sequence: Some(sequence(&events[0])), ..all() }).await.unwrap();
    test.first().redriven(&fence, sequence(&events[0]), None).await.unwrap();
    test.first().reset("s", 0).await.unwrap();
    let fence = test.first().own("s").await;
    assert_eq!(buried(test, &fence, &events).await, [2, 3], "what is not done with waits for its redrive");
    // These are handled since the reset: one by a redrive, the other by a redrive after it failed
    // again.
    test.first().redrive(&DeadLetterQuery { global_sequence: Some(sequence(&events[1])), ..all() }).await.unwrap();
    test.first().redriven(&fence, sequence(&events[1]), None).await.unwrap();
    test.first().bury(&fence, &letters[..1]).await.unwrap();
    test.first().redriven(&fence, sequence(&events[0]), None).await.unwrap();
    test.first().give_up("s").await;
    let fence = test.first().own("s").await;
    assert_eq!(buried(test, &fence, &events).await, [1, 2, 3]);
}
