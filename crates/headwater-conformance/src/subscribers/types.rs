//! Laws of queues whose workers take only some types: other events are left for other workers, in
//! order.

use headwater_core::{ClaimRequest, StartFrom, SubscriberConfig, SubscriberMode};

use super::TestSubscribers;
use super::support::{LONG, Worker, invalid, places_of, sequence};

async fn claim_types(worker: &Worker, max_events: u32, types: &[&str]) -> Vec<headwater_core::Claim> {
    let event_types = types.iter().map(|event_type| (*event_type).to_owned()).collect();
    worker.claim_with(ClaimRequest { event_types, ..worker.request(max_events) }).await.expect("a claim must pass")
}

pub(crate) async fn other_types_are_left_behind(test: &TestSubscribers) {
    let events = test.append_types(&["A", "B", "A", "C", "B"]).await;
    let worker = test.first().share("q").await;
    assert_eq!(places_of(&claim_types(&worker, 9, &["A"]).await, &events), [[1, 3]]);
    assert_eq!(claim_types(&worker, 9, &["A"]).await, []);
    assert_eq!(places_of(&claim_types(&worker, 9, &["B", "D"]).await, &events), [[2, 5]]);
    assert_eq!(places_of(&worker.claim(9).await, &events), [[4]]);
}

pub(crate) async fn a_star_stands_for_any_characters(test: &TestSubscribers) {
    let events = test.append_types(&["order.placed", "user.created", "order.paid", "orders"]).await;
    let worker = test.first().share("q").await;
    assert_eq!(places_of(&claim_types(&worker, 9, &["order.*"]).await, &events), [[1, 3]]);
    assert_eq!(places_of(&claim_types(&worker, 9, &["*.created"]).await, &events), [[2]]);
    assert_eq!(places_of(&claim_types(&worker, 9, &["*"]).await, &events), [[4]]);
}

pub(crate) async fn what_was_left_behind_comes_before_what_is_new(test: &TestSubscribers) {
    let mut events = test.append_types(&["A", "B", "A", "B"]).await;
    let worker = test.first().share("q").await;
    claim_types(&worker, 9, &["A"]).await;
    events.extend(test.append_types(&["B", "A"]).await);
    let claims = claim_types(&worker, 2, &["B", "A"]).await;
    assert_eq!(places_of(&claims, &events), [[2, 4]]);
    let claims = claim_types(&worker, 9, &["B", "A"]).await;
    assert_eq!(places_of(&claims, &events).concat(), [5, 6]);
}

pub(crate) async fn what_comes_again_comes_to_those_who_want_it(test: &TestSubscribers) {
    let events = test.append_types(&["A", "B"]).await;
    let worker = test.first().share("q").await;
    let claim = worker.claim(9).await.remove(0);
    worker.release(claim.claim_id, None).await.unwrap();
    assert_eq!(places_of(&claim_types(&worker, 9, &["B"]).await, &events), [[2]]);
    assert_eq!(claim_types(&worker, 9, &["B"]).await, []);
    let other = test.second().share("q").await;
    assert_eq!(places_of(&claim_types(&other, 9, &["A"]).await, &events), [[1]]);
    // The same holds for events whose worker was lost: each is handed out alone, and only to a
    // worker that wants its type.
    test.pass(LONG).await;
    let again = claim_types(&worker, 9, &["B"]).await;
    assert_eq!(places_of(&again, &events), [[2]]);
    worker.ack(again[0].claim_id, None).await.unwrap();
    assert_eq!(places_of(&claim_types(&other, 9, &["A"]).await, &events), [[1]]);
}

fn taking(event_types: &[&str]) -> SubscriberConfig {
    let event_types = event_types.iter().map(|event_type| (*event_type).to_owned()).collect();
    SubscriberConfig { event_types, ..SubscriberConfig::new("q", StartFrom::Beginning, SubscriberMode::Shared) }
}

pub(crate) async fn a_queue_settles_what_it_does_not_take(test: &TestSubscribers) {
    let events = test.append_types(&["A", "other", "B.x", "other"]).await;
    test.first().register(&taking(&["A", "B.*"])).await.unwrap();
    let worker = Worker::new(test.first().queue("q"));
    assert_eq!(worker.places_of_each(&events).await, [1, 3]);
    assert_eq!(test.first().subscriber("q").await.unwrap().position, sequence(&events[3]));
    // A claim of some of these types leaves the others, and only those.
    let events = test.append_types(&["other", "B.y", "A", "other"]).await;
    let claim = claim_types(&worker, 9, &["A"]).await.remove(0);
    assert_eq!(places_of(std::slice::from_ref(&claim), &events), [[3]]);
    worker.ack(claim.claim_id, None).await.unwrap();
    // The event that was left is not settled. Whether the one before it is, a backend may find out
    // later.
    assert!(test.first().subscriber("q").await.unwrap().position < sequence(&events[1]));
    assert_eq!(worker.places_of_each(&events).await, [2]);
    assert_eq!(test.first().subscriber("q").await.unwrap().position, sequence(&events[3]));
    for types in [&["other"][..], &["A", "B*"]] {
        let event_types = types.iter().map(|event_type| (*event_type).to_owned()).collect();
        let request = ClaimRequest { event_types, ..worker.request(9) };
        invalid("a type that the queue does not take", worker.claim_with(request).await);
    }
}

pub(crate) async fn a_queue_takes_the_types_of_every_registration(test: &TestSubscribers) {
    test.first().register(&taking(&["A"])).await.unwrap();
    let worker = Worker::new(test.first().queue("q"));
    let events = test.append_types(&["A", "C"]).await;
    assert_eq!(worker.places_of_each(&events).await, [1]);
    // What a claim has passed stays settled.
    test.second().register(&taking(&["C", "B.*"])).await.unwrap();
    let events = test.append_types(&["A", "B.x", "other", "C"]).await;
    assert_eq!(places_of(&claim_types(&worker, 9, &["C"]).await, &events), [[4]]);
    // No types: as it is.
    test.second().register(&taking(&[])).await.unwrap();
    assert_eq!(worker.places_of_each(&events).await, [1, 2]);
    test.second().register(&taking(&["*"])).await.unwrap();
    let events = test.append_types(&["other"]).await;
    assert_eq!(worker.places_of_each(&events).await, [1]);
}

pub(crate) async fn a_queue_takes_what_an_operator_sets(test: &TestSubscribers) {
    test.first().register(&taking(&["A", "B.*"])).await.unwrap();
    let worker = Worker::new(test.first().queue("q"));
    let events = test.append_types(&["A", "B.x", "A"]).await;
    let claim = claim_types(&worker, 9, &["A"]).await.remove(0);
    // The second is left for others, and the others are held.
    let set = async |event_types: &[&str]| {
        let event_types: Vec<String> = event_types.iter().map(|it| (*it).to_owned()).collect();
        test.second().set_event_types("q", &event_types).await
    };
    assert_eq!(set(&["C"]).await.unwrap().unwrap(), ["A", "B.*"]);
    worker.ack(claim.claim_id, None).await.unwrap();
    let nothing: [Vec<usize>; 0] = [];
    assert_eq!(places_of(&worker.claim(9).await, &events), nothing);
    assert_eq!(test.first().subscriber("q").await.unwrap().position, sequence(&events[2]));
    let events = test.append_types(&["A", "C"]).await;
    assert_eq!(worker.places_of_each(&events).await, [2]);
    assert_eq!(set(&[]).await.unwrap().unwrap(), ["C"]);
    let events = test.append_types(&["A"]).await;
    assert_eq!(worker.places_of_each(&events).await, [1]);
    assert_eq!(set(&["*"]).await.unwrap(), None);
    invalid("a type that is not one", set(&["a\nb"]).await);
}

pub(crate) async fn only_a_shared_subscriber_takes_some_types(test: &TestSubscribers) {
    for mode in [SubscriberMode::Exclusive, SubscriberMode::Partitioned { partitions: 2 }] {
        let config = SubscriberConfig { mode, ..taking(&["A"]) };
        invalid("types of a subscriber that is not shared", test.first().register(&config).await);
    }
    for event_types in [&[""][..], &["A", "a\nb"]] {
        invalid("a type that is not one", test.first().register(&taking(event_types)).await);
    }
}
