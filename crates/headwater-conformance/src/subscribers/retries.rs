//! Laws of failures in queues: a failed event comes again or becomes a dead letter, and is never
//! lost.

use std::time::Duration;

use headwater_core::{ClaimRequest, DeadLetter, DeadLetterQuery, DeadLetterState, RecordedEvent};

use super::TestSubscribers;
use super::support::{LONG, all, lost, places, places_of, sequence};

const NOW: Duration = Duration::ZERO;

pub(crate) async fn what_is_handed_back_comes_again(test: &TestSubscribers) {
    let events = test.append(3).await;
    let worker = test.first().share("q").await;
    let claim = worker.claim(2).await.remove(0);
    worker.nack(claim.claim_id, None, NOW, "no").await.unwrap();
    lost("ack", worker.ack(claim.claim_id, None).await);
    let claims = worker.claim(9).await;
    assert_eq!(places_of(&claims, &events), [vec![1, 2], vec![3]], "before what is new");
    assert_eq!(claims.iter().map(|claim| claim.redelivery_count).collect::<Vec<_>>(), [1, 0]);
}

pub(crate) async fn what_is_to_come_later_waits(test: &TestSubscribers) {
    let events = test.append(2).await;
    let worker = test.first().share("q").await;
    let claims = [worker.claim(1).await.remove(0), worker.claim(1).await.remove(0)];
    worker.nack(claims[0].claim_id, None, LONG, "no").await.unwrap();
    worker.nack(claims[1].claim_id, None, LONG / 2, "no").await.unwrap();
    assert_eq!(worker.claim(9).await, []);
    test.pass(LONG / 2).await;
    let second = worker.claim(9).await;
    assert_eq!(places_of(&second, &events), [[2]]);
    worker.ack(second[0].claim_id, None).await.unwrap();
    test.pass(LONG / 2).await;
    assert_eq!(places_of(&worker.claim(9).await, &events), [[1]]);
}

pub(crate) async fn what_is_due_first_comes_first(test: &TestSubscribers) {
    let events = test.append(3).await;
    let worker = test.first().share("q").await;
    for delay in [3, 1, 2] {
        let claim = worker.claim(1).await.remove(0);
        worker.nack(claim.claim_id, None, LONG * delay, "no").await.unwrap();
    }
    test.pass(LONG * 4).await;
    assert_eq!(places_of(&worker.claim(9).await, &events), [[2], [3], [1]]);
}

pub(crate) async fn some_events_of_a_claim_are_handed_back(test: &TestSubscribers) {
    let events = test.append(3).await;
    let worker = test.first().share("q").await;
    let claim = worker.claim(3).await.remove(0).claim_id;
    worker.nack(claim, Some(&[sequence(&events[1])]), NOW, "no").await.unwrap();
    let again = worker.claim(9).await;
    assert_eq!(places_of(&again, &events), [[2]]);
    worker.ack(again[0].claim_id, None).await.unwrap();
    worker.ack(claim, None).await.unwrap();
    assert_eq!(test.first().subscriber("q").await.unwrap().position, sequence(&events[2]));
}

pub(crate) async fn a_claim_may_take_less_than_was_handed_back(test: &TestSubscribers) {
    let events = test.append(3).await;
    let worker = test.first().share("q").await;
    let claim = worker.claim(3).await.remove(0).claim_id;
    worker.nack(claim, None, NOW, "no").await.unwrap();
    assert_eq!(places_of(&worker.claim(2).await, &events), [[1, 2]]);
    assert_eq!(places_of(&worker.claim(2).await, &events), [[3]]);
}

pub(crate) async fn what_was_not_tried_does_not_count(test: &TestSubscribers) {
    test.append(1).await;
    let worker = test.first().share("q").await;
    for _ in 0..5 {
        let request = ClaimRequest { max_attempts: 1, ..worker.request(1) };
        let claim = worker.claim_with(request).await.unwrap().remove(0);
        assert_eq!(claim.redelivery_count, 0);
        worker.release(claim.claim_id, None).await.unwrap();
    }
    assert_eq!(test.first().letters().await, []);
}

/// The places of letters among events.
fn places_in(letters: &[DeadLetter], events: &[RecordedEvent]) -> Vec<usize> {
    places(letters, events)
}

pub(crate) async fn after_its_last_attempt_an_event_is_a_dead_letter(test: &TestSubscribers) {
    let events = test.append(2).await;
    let worker = test.first().share("q").await;
    for attempt in 1..=3 {
        let claim = worker.claim_with(ClaimRequest { max_attempts: 3, ..worker.request(1) }).await.unwrap().remove(0);
        assert_eq!(claim.redelivery_count, attempt - 1);
        worker.nack(claim.claim_id, None, NOW, &format!("error {attempt}")).await.unwrap();
    }
    let letters = test.second().letters().await;
    assert_eq!(places_in(&letters, &events), [1]);
    let letter = &letters[0];
    assert_eq!((&letter.event, letter.state, letter.parks_key), (&events[0], DeadLetterState::Dead, false));
    let attempts: Vec<_> = letter.attempts.iter().map(|it| (it.node.as_str(), it.errors.join(", "))).collect();
    let expected = [1, 2, 3].map(|attempt| ("worker", format!("error {attempt}")));
    assert_eq!(attempts, expected);
    assert_eq!(places_of(&worker.claim(9).await, &events), [[2]]);
    assert_eq!(test.first().subscriber("q").await.unwrap().dead_letters, 1);
}

pub(crate) async fn what_is_given_up_is_a_dead_letter_at_once(test: &TestSubscribers) {
    let events = test.append(3).await;
    let worker = test.first().share("q").await;
    let claim = worker.claim(3).await.remove(0).claim_id;
    worker.reject(claim, Some(&[sequence(&events[0]), sequence(&events[2])]), "hopeless").await.unwrap();
    let letters = test.second().letters().await;
    assert_eq!(places_in(&letters, &events), [1, 3]);
    assert_eq!(letters[0].error(), "hopeless");
    worker.ack(claim, None).await.unwrap();
    assert_eq!(test.first().subscriber("q").await.unwrap().position, sequence(&events[2]));
}

pub(crate) async fn an_event_that_was_alone_when_its_worker_was_lost_counts_that(test: &TestSubscribers) {
    let events = test.append(1).await;
    let worker = test.first().share("q").await;
    for redelivery_count in 0..2 {
        let request = ClaimRequest { max_attempts: 2, ..worker.request(1) };
        let claim = worker.claim_with(request).await.unwrap().remove(0);
        assert_eq!(claim.redelivery_count, redelivery_count);
        test.pass(LONG).await;
    }
    assert_eq!(worker.claim(9).await, []);
    let letters = test.second().letters().await;
    assert_eq!(places_in(&letters, &events), [1]);
    assert_eq!(letters[0].attempts.len(), 2);
    assert!(letters[0].error().contains("claim expired"), "{}", letters[0].error());
}

pub(crate) async fn of_several_that_were_lost_none_counts_that(test: &TestSubscribers) {
    let events = test.append(2).await;
    let worker = test.first().share("q").await;
    let request = ClaimRequest { max_attempts: 1, ..worker.request(2) };
    assert_eq!(worker.claim_with(request).await.unwrap().len(), 1);
    test.pass(LONG).await;
    let again = worker.claim_with(ClaimRequest { max_attempts: 1, ..worker.request(2) }).await.unwrap();
    // Each event comes alone: if this worker is lost too, that event is to blame.
    assert_eq!(places_of(&again, &events), [[1]]);
    assert_eq!(again[0].redelivery_count, 1);
    assert_eq!(test.first().letters().await, []);
    test.pass(LONG).await;
    worker.claim(1).await;
    assert_eq!(places_in(&test.first().letters().await, &events), [1]);
}

pub(crate) async fn of_events_that_were_lost_a_worker_has_one_at_a_time(test: &TestSubscribers) {
    let events = test.append(4).await;
    let worker = test.first().share("q").await;
    worker.claim(3).await;
    test.pass(LONG).await;
    let first = worker.claim(9).await;
    assert_eq!(places_of(&first, &events), [[1]]);
    assert_eq!(places_of(&worker.claim(9).await, &events), [[4]], "others may come beside it");
    let other = worker.claim_with(ClaimRequest { worker: "other".into(), ..worker.request(9) }).await.unwrap();
    assert_eq!(places_of(&other, &events), [[2]]);
    worker.ack(first[0].claim_id, None).await.unwrap();
    assert_eq!(places_of(&worker.claim(9).await, &events), [[3]]);
}

pub(crate) async fn a_redriven_letter_is_claimed_and_done(test: &TestSubscribers) {
    let events = test.append(2).await;
    let worker = test.first().share("q").await;
    let claim = worker.claim(2).await.remove(0).claim_id;
    worker.reject(claim, None, "hopeless").await.unwrap();
    let query = DeadLetterQuery { global_sequence: events[1].global_sequence, ..all() };
    assert_eq!(test.second().redrive(&query).await.unwrap(), 1);
    let again = worker.claim(9).await;
    assert_eq!(places_of(&again, &events), [[2]]);
    assert_eq!(again[0].redelivery_count, 1);
    assert_eq!(worker.claim(9).await, [], "once");
    worker.ack(again[0].claim_id, None).await.unwrap();
    assert_eq!(test.first().states().await, [DeadLetterState::Dead, DeadLetterState::Redriven]);
}

pub(crate) async fn a_redriven_letter_that_fails_is_dead_again(test: &TestSubscribers) {
    let events = test.append(1).await;
    let worker = test.first().share("q").await;
    worker.reject(worker.claim(1).await[0].claim_id, None, "hopeless").await.unwrap();
    for round in 1..=2 {
        test.second().redrive(&all()).await.unwrap();
        let again = worker.claim(9).await;
        assert_eq!((places_of(&again, &events), again[0].redelivery_count), (vec![vec![1]], round));
        // An untouched event is still to be delivered.
        worker.release(again[0].claim_id, None).await.unwrap();
        let again = worker.claim(9).await;
        assert_eq!(again[0].redelivery_count, round);
        worker.nack(again[0].claim_id, None, NOW, &format!("again {round}")).await.unwrap();
        assert_eq!(worker.claim(9).await, []);
        let letters = test.first().letters().await;
        assert_eq!((letters[0].state, letters[0].attempts.len()), (DeadLetterState::Dead, 1 + round as usize));
        assert_eq!(letters[0].error(), format!("again {round}"));
    }
}

pub(crate) async fn a_letter_that_is_discarded_meanwhile_is_not_delivered(test: &TestSubscribers) {
    test.append(1).await;
    let worker = test.first().share("q").await;
    worker.reject(worker.claim(1).await[0].claim_id, None, "hopeless").await.unwrap();
    test.second().redrive(&all()).await.unwrap();
    let again = worker.claim(9).await.remove(0);
    worker.release(again.claim_id, None).await.unwrap();
    assert_eq!(test.second().discard(&all(), "no use").await.unwrap(), 1);
    assert_eq!(worker.claim(9).await, []);
    assert_eq!(test.first().states().await, [DeadLetterState::Discarded]);
}

pub(crate) async fn nothing_is_lost_whatever_becomes_of_claims(test: &TestSubscribers) {
    let events = test.append(20).await;
    let (first, second) = (test.first().share("q").await, test.second().share("q").await);
    let mut handled = Vec::new();
    for round in 0.. {
        assert!(round < 100, "handled: {handled:?}");
        let worker = if round % 2 == 0 { &first } else { &second };
        let request = ClaimRequest { worker: format!("worker-{round}"), max_attempts: 100, ..worker.request(4) };
        let claims = worker.claim_with(request).await.unwrap();
        if claims.is_empty() && round > 20 {
            break;
        }
        for claim in &claims {
            let numbers: Vec<u64> = claim.events.iter().map(sequence).collect();
            match round % 5 {
                0 if round < 20 => worker.nack(claim.claim_id, Some(&numbers[..1]), NOW, "no").await.unwrap(),
                1 if round < 20 => worker.release(claim.claim_id, None).await.unwrap(),
                2 if round < 20 => continue,
                _ => {}
            }
            if round % 5 != 1 || round >= 20 {
                let done = if round % 5 == 0 && round < 20 { &numbers[1..] } else { &numbers[..] };
                if !done.is_empty() {
                    worker.ack(claim.claim_id, Some(done)).await.unwrap();
                }
                handled.extend_from_slice(done);
            }
        }
        test.pass(LONG).await;
    }
    handled.sort_unstable();
    assert_eq!(handled, events.iter().map(sequence).collect::<Vec<_>>(), "each is handled once");
    assert_eq!(test.first().subscriber("q").await.unwrap().position, sequence(&events[19]));
    assert_eq!(test.first().findings("q").await, []);
}
