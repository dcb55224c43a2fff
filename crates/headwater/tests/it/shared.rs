//! Shared subscribers: workers that claim events.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{Shop, quick, soon, until};
use headwater::delivery::{
    DeadLetterQuery, Each, GroupStore, OnExhaustion, OperatorStore, ReliableDeliveryConfig, StartFrom,
    SubscriberConfig, SubscriberError, SubscriberMode,
};
use headwater::queue::ClaimRequest;
use headwater::{Delivery, Event, EventObserver, HandlerError, Queue, Subscription};
use tokio::sync::{Semaphore, watch};

/// What all workers of a test were given, in order.
#[derive(Clone)]
struct Witness {
    began: watch::Sender<Vec<(String, u64)>>,
    /// One for each event that may be handled; closed: all may.
    gate: Arc<Semaphore>,
    failures: Arc<Mutex<Vec<HandlerError>>>,
}

struct Worker {
    name: String,
    witness: Witness,
}

impl EventObserver for Worker {
    fn subscriber_id(&self) -> &str {
        "work"
    }

    async fn on_event(&self, event: Delivery) -> Result<(), HandlerError> {
        let sequence = event.global_sequence.unwrap_or_default();
        self.witness.began.send_modify(|began| began.push((self.name.clone(), sequence)));
        if let Ok(permit) = self.witness.gate.acquire().await {
            permit.forget();
        }
        self.witness.failures.lock().unwrap().pop().map_or(Ok(()), Err)
    }
}

impl Witness {
    /// All events may be handled.
    fn open() -> Self {
        let witness = Witness::closed();
        witness.gate.close();
        witness
    }

    fn closed() -> Self {
        Witness { began: watch::Sender::new(Vec::new()), gate: Arc::new(Semaphore::new(0)), failures: Arc::default() }
    }

    fn worker(&self, name: &str) -> Worker {
        Worker { name: name.into(), witness: self.clone() }
    }

    fn queue(&self, name: &str) -> Queue<Each> {
        Queue::of(self.worker(name)).config(quick()).workers(4)
    }

    async fn began(&self, events: usize) -> Vec<(String, u64)> {
        soon(self.began.subscribe().wait_for(|began| began.len() >= events)).await.unwrap().clone()
    }

    fn sequences(&self) -> Vec<u64> {
        let mut sequences: Vec<_> = self.began.borrow().iter().map(|(_, sequence)| *sequence).collect();
        sequences.sort_unstable();
        sequences
    }
}

/// Waits until all is settled.
async fn settled(shop: &Shop, last: u64) {
    until(|| async { shop.info("work").await.position >= last }).await;
}

#[tokio::test]
async fn workers_share_events_and_each_is_handled_once() {
    let shop = Shop::open().await;
    let witness = Witness::closed();
    let one = shop.shop.node("one").run(witness.queue("one")).start().await.unwrap();
    let two = shop.shop.node("two").run(witness.queue("two").prefetch(10)).start().await.unwrap();
    let last = shop.emit_many(300).await;
    // More than the handlers of one.
    witness.began(8).await;
    witness.gate.close();
    soon(two.wait_for("work", last)).await.unwrap();
    let sequences = witness.sequences();
    assert_eq!((sequences.len(), sequences.iter().collect::<BTreeSet<_>>().len()), (300, 300));
    let names: BTreeSet<_> = witness.began.borrow().iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(names.len(), 2, "both had some");
    one.shutdown().await.unwrap();
    two.shutdown().await.unwrap();
}

#[tokio::test]
async fn as_many_run_at_once_as_were_asked_for_and_the_rest_is_for_others() {
    let shop = Shop::open().await;
    let witness = Witness::closed();
    let one = shop.shop.node("one").run(witness.queue("one").workers(3)).start().await.unwrap();
    let last = shop.emit_many(5).await;
    assert_eq!(witness.began(3).await.len(), 3);
    let two = shop.shop.node("two").run(witness.queue("two").workers(1)).start().await.unwrap();
    let began = witness.began(4).await;
    assert_eq!(began[3].0, "two");
    witness.gate.close();
    settled(&shop, last).await;
    assert_eq!(witness.sequences().len(), 5);
    one.shutdown().await.unwrap();
    two.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_delivery_that_does_not_count_costs_no_pause_of_a_retry() {
    let shop = Shop::open().await;
    let config = SubscriberConfig::new("work", StartFrom::Beginning, SubscriberMode::Shared);
    shop.shop.subscribers().register(&config).await.unwrap();
    shop.emit(&["A", "B"]).await;
    // A worker is lost with both events: nobody knows which of them it had begun.
    let claim = shop.shop.queue("work").claim(&ClaimRequest::new("lost")).await.unwrap().remove(0);
    assert_eq!(claim.events.len(), 2);
    let expire = "UPDATE headwater_private.claims SET visible_at = clock_timestamp(), state.look_at = '-infinity' WHERE NOT done";
    sqlx::query(expire).execute(shop.headwater.pool()).await.unwrap();
    let hour = Duration::from_secs(3600);
    let fails = Queue::new("work").retries(1).retry_delays(hour, hour);
    let fails = fails.each(|_: Delivery| async { Err(HandlerError::message("bad")) });
    let node = shop.shop.node("one").run(fails).start().await.unwrap();
    let paused = "SELECT coalesce(array_agg(due_at > clock_timestamp() + interval '30 minutes'), '{}')
                         FROM headwater_private.retries WHERE attempts = 1";
    let handed_back =
        || async { sqlx::query_scalar::<_, Vec<bool>>(paused).fetch_one(shop.headwater.pool()).await.unwrap() };
    until(|| async { handed_back().await.len() == 2 || shop.info("work").await.dead_letters == 2 }).await;
    assert_eq!(handed_back().await, [true, true], "each has failed once, and waits for its only retry");
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn what_fails_is_tried_again_and_becomes_a_dead_letter_in_the_end() {
    let shop = Shop::open().await;
    let witness = Witness::open();
    let failures = (0..3).map(|n| HandlerError::message(format!("failure {n}")));
    witness.failures.lock().unwrap().extend(failures);
    let config = ReliableDeliveryConfig { max_retries: 2, ..quick() };
    let node = shop.shop.node("one").run(witness.queue("one").config(config)).start().await.unwrap();
    let last = shop.emit(&["A"]).await;
    until(|| async { shop.info("work").await.dead_letters == 1 }).await;
    assert_eq!(witness.sequences(), [last, last, last]);
    let all = DeadLetterQuery { subscriber_id: Some("work".into()), ..DeadLetterQuery::default() };
    let letter = shop.shop.subscribers().dead_letters(&all).await.unwrap().remove(0);
    let errors: Vec<_> = letter.attempts.iter().map(|attempt| attempt.errors[0].as_str()).collect();
    assert_eq!(errors, ["failure 2", "failure 1", "failure 0"]);
    // It is handled when it is redriven.
    assert_eq!(shop.shop.subscribers().redrive(&all).await.unwrap(), 1);
    until(|| async { shop.info("work").await.dead_letters == 0 }).await;
    assert_eq!(witness.sequences().len(), 4);
    // What cannot succeed is not tried again.
    witness.failures.lock().unwrap().push(HandlerError::permanent("broken".to_owned()));
    shop.emit(&["A"]).await;
    until(|| async { shop.info("work").await.dead_letters == 1 }).await;
    assert_eq!(witness.sequences().len(), 5);
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_slow_handler_keeps_its_event_and_a_dead_worker_loses_it() {
    let shop = Shop::open().await;
    let witness = Witness::closed();
    let second = Duration::from_secs(1);
    let one = shop.shop.node("one").run(witness.queue("one").visibility(second)).start().await.unwrap();
    let sequence = shop.emit(&["A"]).await;
    witness.began(1).await;
    let two = shop.shop.node("two").run(witness.queue("two").visibility(second)).start().await.unwrap();
    // Longer than the claim would last by itself.
    tokio::time::sleep(3 * second).await;
    assert_eq!(witness.began.borrow().len(), 1);
    drop(one);
    let began = witness.began(2).await;
    assert_eq!(began[1], ("two".into(), sequence));
    witness.gate.close();
    settled(&shop, sequence).await;
    assert_eq!(witness.began.borrow().len(), 2);
    two.shutdown().await.unwrap();
}

#[tokio::test]
async fn workers_get_the_event_types_that_they_handle() {
    let shop = Shop::open().await;
    let (a, b) = (Witness::open(), Witness::open());
    // The queue takes all of them, before its second worker is there.
    let queue = SubscriberConfig {
        event_types: ["A", "B", "C"].map(String::from).to_vec(),
        ..SubscriberConfig::new("work", StartFrom::Beginning, SubscriberMode::Shared)
    };
    shop.shop.subscribers().register(&queue).await.unwrap();
    let of_a = shop.shop.node("a").run(a.queue("a").event_types(["A"])).start().await.unwrap();
    let mut last = shop.emit(&["A", "B", "A", "C", "B", "A"]).await;
    a.began(3).await;
    let of_b = shop.shop.node("b").run(b.queue("b").event_types(["B", "C"])).start().await.unwrap();
    settled(&shop, last).await;
    assert_eq!((a.sequences(), b.sequences()), (vec![last - 5, last - 3, last], vec![last - 4, last - 2, last - 1]));
    last = shop.emit(&["C", "A"]).await;
    settled(&shop, last).await;
    assert_eq!((a.sequences().len(), b.sequences().len()), (4, 4));
    of_a.shutdown().await.unwrap();
    of_b.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_shutdown_ends_what_is_at_hand_and_a_pause_holds_the_rest() {
    let shop = Shop::open().await;
    let witness = Witness::closed();
    let node = shop.shop.node("one").run(witness.queue("one").workers(2)).start().await.unwrap();
    let last = shop.emit_many(5).await;
    witness.began(2).await;
    shop.shop.subscribers().set_paused("work", true).await.unwrap();
    witness.gate.close();
    soon(node.shutdown()).await.unwrap();
    assert_eq!(witness.began.borrow().len(), 2, "what it had begun is done, and nothing else was begun");
    assert_eq!(shop.info("work").await.position, last - 3, "acked");
    let node = shop.shop.node("one").run(witness.queue("one")).start().await.unwrap();
    let extra = shop.emit(&["A"]).await;
    assert_eq!(witness.began.borrow().len(), 2);
    shop.shop.subscribers().set_paused("work", false).await.unwrap();
    settled(&shop, extra).await;
    assert_eq!(witness.sequences().len(), 6);
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn ordered_by_key_a_key_is_with_one_worker_at_a_time() {
    let shop = Shop::open().await;
    let witness = Witness::closed();
    let one = shop
        .shop
        .node("one")
        .run(Subscription::of(witness.worker("one")).config(quick()).partitions(64).concurrency(8))
        .start()
        .await
        .unwrap();
    let keyed = |key: &str| Event { key: Some(key.into()), ..Event::raw("E", headwater::Json::null()) };
    let append =
        ["k", "k", "l", "k"].iter().fold(headwater::log::Append::new(), |append, key| append.event(keyed(key)));
    let appended = shop.shop.append_all(append).await.unwrap();
    let sequences: Vec<u64> = appended.events.iter().map(|event| event.global_sequence).collect();
    let first: BTreeSet<u64> = witness.began(2).await.iter().map(|(_, sequence)| *sequence).collect();
    assert_eq!(first, BTreeSet::from([sequences[0], sequences[2]]), "the others of k wait");
    witness.gate.close();
    soon(one.wait_for("work", sequences[3])).await.unwrap();
    let of_k: Vec<u64> =
        witness.began.borrow().iter().map(|(_, sequence)| *sequence).filter(|s| *s != sequences[2]).collect();
    assert_eq!(of_k, [sequences[0], sequences[1], sequences[3]]);
    one.shutdown().await.unwrap();
}

/// Never handles `bad` events, handles others at once, and reports which events were tried. A bad
/// event fails only when two events beyond the next one were tried.
#[derive(Clone, Default)]
struct Picky {
    tried: watch::Sender<Vec<u64>>,
}

impl EventObserver for Picky {
    fn subscriber_id(&self) -> &str {
        "work"
    }

    async fn on_event(&self, event: Delivery) -> Result<(), HandlerError> {
        let sequence = event.global_sequence.unwrap_or_default();
        self.tried.send_modify(|tried| tried.push(sequence));
        if event.event_type != "bad" {
            return Ok(());
        }
        let others = |tried: &Vec<u64>| tried.iter().filter(|other| **other > sequence + 1).count() >= 2;
        _ = self.tried.subscribe().wait_for(others).await;
        Err(HandlerError::message("bad"))
    }
}

/// A failing event blocks its key and no other. It is tried as often as configured and becomes a
/// dead letter. Then its key continues.
#[tokio::test]
async fn ordered_by_key_a_failure_holds_up_its_key_alone() {
    let shop = Shop::open().await;
    let picky = Picky::default();
    let config = ReliableDeliveryConfig { max_retries: 2, ..quick() };
    let subscription = Subscription::of(picky.clone()).config(config).concurrency(4).partitions(64);
    let node = shop.shop.node("one").run(subscription).start().await.unwrap();
    let event = |event_type: &str, key: &str| Event {
        key: Some(key.into()),
        ..Event::raw(event_type, headwater::Json::null())
    };
    let rows = [event("bad", "k"), event("good", "k"), event("good", "l"), event("good", "l")];
    let append = rows.into_iter().fold(headwater::log::Append::new(), |append, event| append.event(event));
    let appended = shop.shop.append_all(append).await.unwrap();
    let s: Vec<u64> = appended.events.iter().map(|event| event.global_sequence).collect();
    soon(node.wait_for("work", s[3])).await.unwrap();
    let of_k: Vec<u64> = picky.tried.borrow().iter().copied().filter(|sequence| *sequence <= s[1]).collect();
    assert_eq!(of_k, [s[0], s[0], s[0], s[1]]);
    let letters = shop.shop.subscribers().dead_letters(&DeadLetterQuery::default()).await.unwrap();
    let letters: Vec<_> = letters.iter().map(|letter| (letter.global_sequence(), letter.attempts.len())).collect();
    assert_eq!(letters, [(s[0], 3)]);
    node.shutdown().await.unwrap();
}

/// What a worker that dies has not settled, another handles, in order.
#[tokio::test]
async fn ordered_by_key_the_keys_of_a_worker_that_dies_go_to_another() {
    let shop = Shop::open().await;
    let witness = Witness::closed();
    let one = shop
        .shop
        .node("one")
        .run(Subscription::of(witness.worker("one")).config(quick()).partitions(64).concurrency(4))
        .start()
        .await
        .unwrap();
    let keyed = |n: u32| Event { key: Some(format!("k{}", n % 8)), ..Event::raw("E", headwater::Json::null()) };
    let append = (0..32).fold(headwater::log::Append::new(), |append, n| append.event(keyed(n)));
    let appended = shop.shop.append_all(append).await.unwrap();
    let s: Vec<u64> = appended.events.iter().map(|event| event.global_sequence).collect();
    let begun: BTreeSet<u64> = witness.began(8).await.iter().map(|(_, sequence)| *sequence).collect();
    assert_eq!(begun, s[..8].iter().copied().collect(), "one event of each key, of all keys at once");
    drop(one);
    let rest = Picky::default();
    let rest_of_it = Subscription::of(rest.clone()).config(quick()).concurrency(4).partitions(64);
    let two = shop.shop.node("two").run(rest_of_it).start().await.unwrap();
    soon(two.wait_for("work", s[31])).await.unwrap();
    for key in 0..8 {
        let is_of_key = |sequence: &u64| (sequence - s[0]) % 8 == key;
        let of_key: Vec<u64> = rest.tried.borrow().iter().copied().filter(is_of_key).collect();
        assert_eq!(of_key, s.iter().copied().filter(is_of_key).collect::<Vec<_>>());
    }
    two.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_event_of_priority_is_the_next_whatever_waits() {
    for prefetch in [None, Some(0), Some(100)] {
        let shop = Shop::open().await;
        let witness = Witness::closed();
        let backlog = (0..500).fold(headwater::log::Append::new(), |append, _| {
            append.event(Event::raw("normal", headwater::Json::null()))
        });
        shop.shop.append_all(backlog).await.unwrap();
        let mut queue = witness.queue("one").workers(1).priority(["urgent", "rare"]);
        if let Some(prefetch) = prefetch {
            queue = queue.prefetch(prefetch);
        }
        let node = shop.shop.node("one").run(queue).start().await.unwrap();
        let first = witness.began(1).await[0].1;
        let urgent = shop.emit(&["urgent"]).await;
        if prefetch == Some(100) {
            // Beside what it has claimed ahead.
            let claims = "SELECT claims FROM headwater.queue_status('shop', 'work')";
            let claims = || sqlx::query_scalar::<_, i64>(claims).fetch_one(shop.headwater.pool());
            until(|| async { claims().await.unwrap() == 2 }).await;
        }
        witness.gate.add_permits(1);
        assert_eq!(witness.began(2).await[1].1, urgent, "{prefetch:?}");
        witness.gate.close();
        settled(&shop, urgent).await;
        assert_eq!(witness.sequences(), (first..=urgent).collect::<Vec<_>>());
        node.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn wrong_settings_are_refused_at_the_start() {
    let shop = Shop::open().await;
    let witness = Witness::open();
    let parks = ReliableDeliveryConfig { on_exhaustion: OnExhaustion::ParkKey, ..quick() };
    for (node, reason) in [
        (shop.shop.node("one").run(witness.queue("one").visibility(Duration::ZERO)), "invalid visibility 0ns"),
        (shop.shop.node("one").run(witness.queue("one").prefetch(10_001)), "invalid prefetch 10001"),
        (shop.shop.node("one").run(witness.queue("one").config(parks)), "on_exhaustion is DeadLetter"),
        (
            shop.shop.node("one").run(witness.queue("one").event_types(["A"]).priority(["B"])),
            "event type \"B\" has priority",
        ),
        (shop.shop.node("one").run(witness.queue("one").priority([""])), "event type"),
        (shop.shop.node("one").run(witness.queue("one").workers(0)), "invalid workers 0"),
    ] {
        match node.start().await.err() {
            Some(SubscriberError::InvalidInput(message)) => assert!(message.contains(reason), "{message}"),
            other => panic!("{reason}: {other:?}"),
        }
    }
    shop.shop.node("one").run(witness.queue("one")).start().await.unwrap().shutdown().await.unwrap();
    let other = shop.shop.node("one").run(Subscription::of(crate::common::Recorder::new("work"))).start().await;
    assert!(matches!(&other.err(), Some(SubscriberError::InUse(message)) if message.contains("shared")));
}
