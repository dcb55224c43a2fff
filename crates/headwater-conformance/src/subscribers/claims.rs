//! Laws of queues: each event belongs to one worker at a time, and to nobody once it is acked.

use std::time::Duration;

use headwater_core::{ClaimRequest, StartFrom, SubscriberError};
use uuid::Uuid;

use super::TestSubscribers;
use super::support::{LONG, Worker, in_use, invalid, lost, not_found, places_of, sequence};

const SECOND: Duration = Duration::from_secs(1);

pub(crate) async fn two_workers_never_have_the_same_event(test: &TestSubscribers) {
    let events = test.append(7).await;
    let (first, second) = (test.first().share("q").await, test.second().share("q").await);
    assert_eq!(places_of(&first.claim(3).await, &events), [[1, 2, 3]]);
    assert_eq!(places_of(&second.claim(3).await, &events), [[4, 5, 6]]);
    assert_eq!(places_of(&first.claim(3).await, &events), [[7]]);
    assert_eq!(second.claim(3).await, []);
}

pub(crate) async fn a_claim_has_the_events_whole(test: &TestSubscribers) {
    let events = test.append(2).await;
    let claims = test.first().share("q").await.claim(2).await;
    assert_eq!(claims[0].redelivery_count, 0);
    assert_eq!(claims[0].events, events);
}

pub(crate) async fn what_is_acked_is_not_delivered_again(test: &TestSubscribers) {
    let events = test.append(4).await;
    let worker = test.first().share("q").await;
    let (first, second) = (worker.claim(2).await.remove(0), worker.claim(2).await.remove(0));
    test.second().share("q").await.ack(first.claim_id, None).await.unwrap();
    lost("ack", worker.ack(first.claim_id, None).await);
    worker.ack(second.claim_id, None).await.unwrap();
    test.pass(LONG).await;
    assert_eq!(worker.claim(9).await, []);
    assert_eq!(test.first().subscriber("q").await.unwrap().position, sequence(&events[3]));
}

pub(crate) async fn claims_are_acked_with_the_next_claim(test: &TestSubscribers) {
    let events = test.append(5).await;
    let worker = test.first().share("q").await;
    let acks = vec![worker.claim(2).await[0].claim_id, worker.claim(2).await[0].claim_id];
    let next = worker.claim_with(ClaimRequest { acks: acks.clone(), ..worker.request(9) }).await.unwrap();
    assert_eq!(places_of(&next, &events), [[5]]);
    for claim_id in acks {
        lost("ack", worker.ack(claim_id, None).await);
    }
    let nothing = worker.claim_with(ClaimRequest { acks: vec![next[0].claim_id], ..worker.request(9) }).await;
    assert_eq!(nothing.unwrap(), []);
    assert_eq!(test.first().subscriber("q").await.unwrap().position, sequence(&events[4]));
}

pub(crate) async fn acks_of_a_claim_are_taken_all_or_none(test: &TestSubscribers) {
    let events = test.append(4).await;
    let worker = test.first().share("q").await;
    let held = worker.claim(2).await[0].claim_id;
    let acks = vec![held, Uuid::now_v7()];
    lost("claim", worker.claim_with(ClaimRequest { acks, ..worker.request(9) }).await);
    assert_eq!(places_of(&worker.claim(9).await, &events), [[3, 4]], "it claimed nothing");
    worker.ack(held, None).await.unwrap();
}

pub(crate) async fn some_events_of_a_claim_are_acked(test: &TestSubscribers) {
    let events = test.append(4).await;
    let numbers: Vec<u64> = events.iter().map(sequence).collect();
    let worker = test.first().share("q").await;
    let claim = worker.claim(4).await.remove(0).claim_id;
    worker.ack(claim, Some(&numbers[1..3])).await.unwrap();
    // Naming settled events again changes nothing.
    worker.ack(claim, Some(&numbers[1..2])).await.unwrap();
    invalid("outside", worker.ack(claim, Some(&[numbers[3] + 1])).await);
    test.pass(LONG).await;
    assert_eq!(worker.places_of_each(&events).await, [1, 4]);
    lost("ack", worker.ack(claim, None).await);
}

pub(crate) async fn a_claim_whose_parts_are_all_acked_is_done(test: &TestSubscribers) {
    let events = test.append(2).await;
    let worker = test.first().share("q").await;
    let claim = worker.claim(2).await.remove(0).claim_id;
    for event in &events {
        worker.ack(claim, Some(&[sequence(event)])).await.unwrap();
    }
    lost("extend", worker.extend(claim, SECOND).await);
    test.pass(LONG).await;
    assert_eq!(worker.claim(9).await, []);
}

pub(crate) async fn a_claim_is_held_until_it_expires(test: &TestSubscribers) {
    let events = test.append(1).await;
    let worker = test.first().share("q").await;
    let visibility = LONG;
    let claim = worker.claim_with(ClaimRequest { visibility, ..worker.request(1) }).await.unwrap().remove(0);
    test.pass(visibility / 2).await;
    assert_eq!(worker.claim(9).await, []);
    test.pass(visibility / 2).await;
    let again = worker.claim(9).await;
    assert_eq!(places_of(&again, &events), [[1]]);
    assert_eq!(again[0].redelivery_count, 1);
    assert_ne!(again[0].claim_id, claim.claim_id);
    lost("ack", worker.ack(claim.claim_id, None).await);
    lost("nack", worker.nack(claim.claim_id, None, SECOND, "late").await);
    lost("release", worker.release(claim.claim_id, None).await);
    lost("reject", worker.reject(claim.claim_id, None, "late").await);
    lost("extend", worker.extend(claim.claim_id, SECOND).await);
    worker.ack(again[0].claim_id, None).await.unwrap();
}

pub(crate) async fn an_expired_claim_that_nobody_took_over_is_acked(test: &TestSubscribers) {
    test.append(1).await;
    let worker = test.first().share("q").await;
    let claim = worker.claim(1).await.remove(0);
    test.pass(LONG).await;
    worker.ack(claim.claim_id, None).await.unwrap();
    assert_eq!(worker.claim(9).await, []);
}

pub(crate) async fn an_extended_claim_stays_and_is_never_made_shorter(test: &TestSubscribers) {
    test.append(1).await;
    let worker = test.first().share("q").await;
    let claim = worker.claim(1).await.remove(0).claim_id;
    let until = worker.extend(claim, LONG * 3).await.unwrap();
    assert_eq!(worker.extend(claim, SECOND).await.unwrap(), until);
    test.pass(LONG * 2).await;
    assert_eq!(worker.claim(9).await, []);
    worker.ack(claim, None).await.unwrap();
}

pub(crate) async fn new_events_come_in_claims_of_the_size_asked(test: &TestSubscribers) {
    let events = test.append(7).await;
    let worker = test.first().share("q").await;
    // The very first claim may be smaller, so take it first.
    worker.ack(worker.claim(1).await[0].claim_id, None).await.unwrap();
    let request = ClaimRequest { per_claim: Some(2), ..worker.request(5) };
    let claims = worker.claim_with(request).await.unwrap();
    assert_eq!(places_of(&claims, &events), [vec![2, 3], vec![4, 5], vec![6]]);
    worker.ack(claims[1].claim_id, None).await.unwrap();
    assert_eq!(places_of(&worker.claim(9).await, &events), [[7]]);
}

pub(crate) async fn a_paused_queue_gives_nothing_out_and_takes_acks(test: &TestSubscribers) {
    let events = test.append(3).await;
    let worker = test.first().share("q").await;
    let claim = worker.claim(1).await[0].claim_id;
    test.second().set_paused("q", true).await.unwrap();
    let acks = vec![claim];
    assert_eq!(worker.claim_with(ClaimRequest { acks, ..worker.request(9) }).await.unwrap(), []);
    lost("ack", worker.ack(claim, None).await);
    test.second().set_paused("q", false).await.unwrap();
    assert_eq!(places_of(&worker.claim(9).await, &events), [[2, 3]]);
}

pub(crate) async fn a_queue_begins_where_its_subscriber_was_registered(test: &TestSubscribers) {
    let events = test.append(4).await;
    let worker = test.first().share_from("q", StartFrom::After(sequence(&events[1]))).await;
    assert_eq!(places_of(&worker.claim(9).await, &events), [[3, 4]]);
    let now = test.first().share_from("now", StartFrom::Now).await;
    assert_eq!(now.claim(9).await, []);
    test.append(1).await;
    assert_eq!(now.claim(9).await[0].events.len(), 1);
}

pub(crate) async fn a_reset_queue_begins_there_and_its_claims_are_lost(test: &TestSubscribers) {
    let events = test.append(4).await;
    let worker = test.first().share("q").await;
    let claims = [worker.claim(2).await.remove(0), worker.claim(2).await.remove(0)];
    worker.nack(claims[1].claim_id, None, SECOND, "no").await.unwrap();
    test.second().reset("q", sequence(&events[2])).await.unwrap();
    lost("ack", worker.ack(claims[0].claim_id, None).await);
    assert_eq!(places_of(&worker.claim(9).await, &events), [[4]]);
    test.second().reset("q", 0).await.unwrap();
    let all = worker.claim(9).await;
    assert_eq!((places_of(&all, &events), all[0].redelivery_count), (vec![vec![1, 2, 3, 4]], 0));
}

pub(crate) async fn the_position_is_before_what_is_not_settled(test: &TestSubscribers) {
    let events = test.append(4).await;
    let worker = test.first().share("q").await;
    let position = async || {
        let info = test.second().subscriber("q").await.unwrap();
        assert_eq!(test.second().position("q").await.unwrap().position, info.position);
        events.iter().filter(|event| sequence(event) <= info.position).count()
    };
    let claims = [worker.claim(1).await.remove(0), worker.claim(2).await.remove(0)];
    worker.ack(claims[1].claim_id, Some(&[sequence(&events[1])])).await.unwrap();
    assert_eq!(position().await, 0);
    worker.ack(claims[0].claim_id, None).await.unwrap();
    assert_eq!(position().await, 2);
    worker.nack(claims[1].claim_id, None, SECOND, "no").await.unwrap();
    assert_eq!(position().await, 2);
    assert_eq!(test.second().subscriber("q").await.unwrap().lag_events, 1, "one is not claimed yet");
    test.pass(LONG).await;
    assert_eq!(worker.places_of_each(&events).await, [3, 4]);
    assert_eq!(position().await, 4);
}

pub(crate) async fn only_shared_subscribers_have_queues(test: &TestSubscribers) {
    test.append(1).await;
    test.first().begin("s").await;
    test.first().begin_group("g", 2).await;
    for subscriber_id in ["s", "g"] {
        let worker = Worker::new(test.first().queue(subscriber_id));
        in_use(subscriber_id, worker.claim_with(worker.request(1)).await);
    }
    let worker = Worker::new(test.first().queue("unknown"));
    not_found("unknown", worker.claim_with(worker.request(1)).await);
    lost("ack", worker.ack(Uuid::now_v7(), None).await);
    let worker = test.first().share("q").await;
    let claim = worker.claim(1).await[0].claim_id;
    assert_eq!(worker.subscriber_id(), "q");
    lost("another queue's", test.first().share("r").await.ack(claim, None).await);
    test.second().remove("q", true).await.unwrap();
    lost("ack", worker.ack(claim, None).await);
    not_found("claim", worker.claim_with(worker.request(1)).await);
}

pub(crate) async fn what_cannot_be_asked_is_refused(test: &TestSubscribers) {
    test.append(1).await;
    let worker = test.first().share("q").await;
    let wrong = [
        ClaimRequest { max_events: 0, ..worker.request(1) },
        ClaimRequest { max_events: 100_001, ..worker.request(1) },
        ClaimRequest { visibility: Duration::ZERO, ..worker.request(1) },
        ClaimRequest { visibility: Duration::from_secs(31 * 86_400), ..worker.request(1) },
        ClaimRequest { max_attempts: 0, ..worker.request(1) },
        ClaimRequest { per_claim: Some(0), ..worker.request(1) },
        ClaimRequest { event_types: vec![String::new()], ..worker.request(1) },
        ClaimRequest { worker: "a\nb".into(), ..worker.request(1) },
    ];
    for request in wrong {
        let refused = worker.claim_with(request.clone()).await;
        assert!(matches!(refused, Err(SubscriberError::InvalidInput(_))), "{request:?}: {refused:?}");
    }
    let claim = worker.claim(1).await[0].claim_id;
    invalid("extend", worker.extend(claim, Duration::ZERO).await);
    invalid("nack", worker.nack(claim, Some(&[999]), SECOND, "no").await);
    worker.ack(claim, None).await.unwrap();
}
