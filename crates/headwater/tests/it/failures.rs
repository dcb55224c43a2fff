//! Handlers that fail: retries, dead letters, parked keys, pauses, redrives.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::common::{Recorder, Shop, quick, soon, state, until};
use headwater::delivery::{
    CheckpointMode, DeadLetterQuery, DeadLetterState, OnExhaustion, OperatorStore, ReliableDeliveryConfig, RunnerState,
};
use headwater::{Delivery, Event, EventData, EventObserver, HandlerError, Json, Subscription};
use serde::{Deserialize, Serialize};

fn oops() -> HandlerError {
    HandlerError::message("oops")
}

fn on_exhaustion(decision: OnExhaustion) -> ReliableDeliveryConfig {
    ReliableDeliveryConfig { on_exhaustion: decision, max_retries: 1, ..quick() }
}

#[tokio::test]
async fn a_failure_that_passes_is_tried_again() {
    let shop = Shop::open().await;
    let recorder = Recorder::new("flaky").fail_with([oops(), oops()]);
    let node = shop.shop.node("n1").run(Subscription::of(recorder.clone()).config(quick())).start().await.unwrap();
    let last = shop.emit(&["a", "b"]).await;
    soon(node.wait_for("flaky", last)).await.unwrap();
    assert_eq!(recorder.types(), ["a", "b"]);
    assert_eq!(shop.info("flaky").await.dead_letters, 0);
    node.shutdown().await.unwrap();
}

/// What was handled before it is not kept waiting with it.
#[tokio::test]
async fn batched_progress_is_written_while_an_event_waits_for_its_next_try() {
    let shop = Shop::open().await;
    let failing = Recorder::new("patient");
    let handled = failing.clone();
    let never_again = ReliableDeliveryConfig {
        checkpoint_mode: CheckpointMode::Batched { batch_size: 1_000, max_delay_ms: 1 },
        initial_retry_delay: Duration::from_secs(3_600),
        max_retry_delay: Duration::from_secs(3_600),
        ..ReliableDeliveryConfig::default()
    };
    // All are there before the node: they come as one batch.
    let last = shop.emit_many(10).await;
    let stuck = shop.emit(&["stuck"]).await;
    let observer = StuckAt(failing, stuck);
    let node = shop.shop.node("n1").run(Subscription::of(observer).config(never_again)).start().await.unwrap();
    handled.handled(10).await;
    soon(node.wait_for("patient", last)).await.unwrap();
    until(|| async { shop.info("patient").await.position == last }).await;
    node.shutdown().await.unwrap();
}

/// Fails at one event.
struct StuckAt(Recorder, u64);

impl EventObserver for StuckAt {
    fn subscriber_id(&self) -> &str {
        self.0.subscriber_id()
    }

    async fn on_event(&self, event: Delivery) -> Result<(), HandlerError> {
        match event.global_sequence == Some(self.1) {
            true => Err(oops()),
            false => self.0.on_event(event).await,
        }
    }
}

#[tokio::test]
async fn a_failure_that_stays_becomes_a_dead_letter_and_the_next_event_is_handled() {
    let shop = Shop::open().await;
    let recorder = Recorder::new("broken").fail_with([oops(), oops(), oops(), oops()]);
    let node = shop.shop.node("n1").run(Subscription::of(recorder.clone()).config(quick())).start().await.unwrap();
    let first = shop.emit(&["a"]).await;
    let last = shop.emit(&["b"]).await;
    soon(node.wait_for("broken", last)).await.unwrap();
    assert_eq!(recorder.types(), ["b"]);
    until(|| async { shop.info("broken").await.position == last }).await;
    let letters =
        shop.shop.subscribers().dead_letters(&DeadLetterQuery { limit: 10, ..Default::default() }).await.unwrap();
    let [letter] = &letters[..] else { panic!("one letter, not {letters:?}") };
    assert_eq!((letter.subscriber_id.as_str(), letter.global_sequence()), ("broken", first));
    assert_eq!((letter.state, letter.error()), (DeadLetterState::Dead, "oops"));
    assert_eq!(letter.attempts.len(), 4, "the first try and three retries");
    assert!(letter.attempts.iter().all(|attempt| attempt.node == "n1"));
    assert_eq!(letter.event.event_type, "a", "the letter holds the whole event");
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_permanent_failure_is_not_tried_again() {
    let shop = Shop::open().await;
    let recorder = Recorder::new("strict").fail_with([HandlerError::permanent("never")]);
    let node = shop.shop.node("n1").run(Subscription::of(recorder.clone())).start().await.unwrap();
    let last = shop.emit(&["a", "b"]).await;
    soon(node.wait_for("strict", last)).await.unwrap();
    let letters =
        shop.shop.subscribers().dead_letters(&DeadLetterQuery { limit: 10, ..Default::default() }).await.unwrap();
    assert_eq!(letters[0].attempts.len(), 1);
    assert_eq!(recorder.types(), ["b"]);
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn what_was_not_handled_has_not_failed() {
    let shop = Shop::open().await;
    let busy = || HandlerError::not_handled("not now");
    let recorder = Recorder::new("busy").fail_with([busy(), busy(), busy(), busy(), busy()]);
    let config = ReliableDeliveryConfig { max_retries: 0, ..quick() };
    let node = shop.shop.node("n1").run(Subscription::of(recorder.clone()).config(config)).start().await.unwrap();
    let last = shop.emit(&["a"]).await;
    soon(node.wait_for("busy", last)).await.unwrap();
    assert_eq!((recorder.types(), shop.info("busy").await.dead_letters), (vec!["a".to_owned()], 0));
    node.shutdown().await.unwrap();
}

struct Panics;

impl EventObserver for Panics {
    fn subscriber_id(&self) -> &str {
        "panics"
    }

    async fn on_event(&self, event: Delivery) -> Result<(), HandlerError> {
        match event.event_type.as_str() {
            "panic" => panic!("at the disco"),
            "hang" => std::future::pending().await,
            _ => Ok(()),
        }
    }
}

#[tokio::test]
async fn panics_and_handlers_that_hang_are_failures_like_others() {
    let shop = Shop::open().await;
    let config = ReliableDeliveryConfig { max_retries: 0, handler_timeout: Duration::from_millis(20), ..quick() };
    let node = shop.shop.node("n1").run(Subscription::of(Panics).config(config)).start().await.unwrap();
    let last = shop.emit(&["panic", "hang", "fine"]).await;
    soon(node.wait_for("panics", last)).await.unwrap();
    let letters =
        shop.shop.subscribers().dead_letters(&DeadLetterQuery { limit: 10, ..Default::default() }).await.unwrap();
    let errors: Vec<_> = letters.iter().map(|letter| letter.error()).collect();
    assert_eq!(errors, ["panicked: at the disco", "took longer than handler_timeout 20ms"]);
    node.shutdown().await.unwrap();
}

#[derive(Debug, Clone, Serialize, Deserialize, EventData)]
struct Placed {
    total: u32,
}

struct Totals;

impl EventObserver<Placed> for Totals {
    fn subscriber_id(&self) -> &str {
        "totals"
    }

    async fn on_event(&self, _: Delivery<Placed>) -> Result<(), HandlerError> {
        Ok(())
    }
}

#[tokio::test]
async fn what_cannot_be_decoded_is_a_dead_letter_never_skipped() {
    let shop = Shop::open().await;
    let node = shop.shop.node("n1").run(Subscription::of(Totals)).start().await.unwrap();
    let old = Event::raw("Placed", serde_json::json!({ "sum": "an old shape" }));
    shop.shop.emit(old.clone()).await.unwrap();
    let mut newer = Event::raw("Placed", serde_json::json!({ "total": 1 }));
    newer.schema_version = 9;
    let last = shop.shop.emit(newer).await.unwrap().global_sequence();
    soon(node.wait_for("totals", last)).await.unwrap();
    let letters =
        shop.shop.subscribers().dead_letters(&DeadLetterQuery { limit: 10, ..Default::default() }).await.unwrap();
    assert_eq!(letters.len(), 2);
    assert_eq!(letters[0].event.id, old.id);
    assert!(letters[0].error().contains("failed to decode the data"), "{}", letters[0].error());
    assert!(letters[1].error().contains("schema version 9"), "{}", letters[1].error());
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_dead_letter_that_cannot_be_written_stops_the_checkpoint() {
    let shop = Shop::open().await;
    let mut session = shop.db.session().await;
    let refuse = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
                      RAISE EXCEPTION USING ERRCODE = '53100', MESSAGE = 'disk full'; END $$;
                  CREATE TRIGGER refuse BEFORE INSERT ON headwater_private.dead_letters FOR EACH ROW EXECUTE FUNCTION refuse()";
    sqlx::raw_sql(refuse).execute(&mut session).await.unwrap();
    let recorder = Recorder::new("broken").fail_with([HandlerError::permanent("never")]);
    let node = shop.shop.node("n1").run(Subscription::of(recorder.clone())).start().await.unwrap();
    let last = shop.emit(&["a", "b"]).await;
    until(|| async { state(&node).1.contains("disk full") }).await;
    assert_eq!((recorder.types(), shop.info("broken").await.position), (vec![], 0));
    sqlx::raw_sql("DROP TRIGGER refuse ON headwater_private.dead_letters").execute(&mut session).await.unwrap();
    soon(node.wait_for("broken", last)).await.unwrap();
    assert_eq!((recorder.types(), shop.info("broken").await.dead_letters), (vec!["b".to_owned()], 1));
    node.shutdown().await.unwrap();
}

fn keyed(event_type: &str, key: &str) -> Event {
    Event::raw(event_type, Json::null()).into_builder().key(key).build().unwrap()
}

#[tokio::test]
async fn events_of_a_parked_key_wait_and_come_in_order_after_a_redrive() {
    let shop = Shop::open().await;
    let recorder = Recorder::new("parks").fail_with([HandlerError::permanent("no")]);
    let config = on_exhaustion(OnExhaustion::ParkKey);
    let node = shop.shop.node("n1").run(Subscription::of(recorder.clone()).config(config)).start().await.unwrap();
    for event in [keyed("a1", "a"), keyed("b1", "b"), keyed("a2", "a"), keyed("a3", "a")] {
        shop.shop.emit(event).await.unwrap();
    }
    let last = shop.shop.emit(keyed("b2", "b")).await.unwrap().global_sequence();
    soon(node.wait_for("parks", last)).await.unwrap();
    assert_eq!(recorder.types(), ["b1", "b2"], "other keys go on");
    let subscribers = shop.shop.subscribers();
    let query = DeadLetterQuery { limit: 10, ..Default::default() };
    let states: Vec<_> = subscribers.dead_letters(&query).await.unwrap().iter().map(|letter| letter.state).collect();
    assert_eq!(states, [DeadLetterState::Dead, DeadLetterState::Parked, DeadLetterState::Parked]);
    let head = DeadLetterQuery { states: vec![DeadLetterState::Dead], ..query.clone() };
    subscribers.redrive(&head).await.unwrap();
    recorder.handled(5).await;
    assert_eq!(recorder.types()[2..], ["a1", "a2", "a3"]);
    let next = shop.shop.emit(keyed("a4", "a")).await.unwrap().global_sequence();
    soon(node.wait_for("parks", next)).await.unwrap();
    assert_eq!(recorder.types()[5..], ["a4"], "the key is free again");
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_discarded_letter_frees_its_key() {
    let shop = Shop::open().await;
    let recorder = Recorder::new("parks").fail_with([HandlerError::permanent("no")]);
    let config = on_exhaustion(OnExhaustion::ParkKey);
    let node = shop.shop.node("n1").run(Subscription::of(recorder.clone()).config(config)).start().await.unwrap();
    shop.shop.emit(keyed("a1", "a")).await.unwrap();
    let last = shop.shop.emit(keyed("a2", "a")).await.unwrap().global_sequence();
    soon(node.wait_for("parks", last)).await.unwrap();
    let subscribers = shop.shop.subscribers();
    let dead = DeadLetterQuery { states: vec![DeadLetterState::Dead], limit: 10, ..Default::default() };
    assert_eq!(subscribers.discard(&dead, "not worth it").await.unwrap(), 1);
    recorder.handled(1).await;
    assert_eq!(recorder.types(), ["a2"]);
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_letter_that_fails_again_is_dead_again() {
    let shop = Shop::open().await;
    let recorder =
        Recorder::new("stubborn").fail_with([HandlerError::permanent("no"), HandlerError::permanent("still no")]);
    let node = shop.shop.node("n1").run(Subscription::of(recorder.clone())).start().await.unwrap();
    let last = shop.emit(&["a"]).await;
    soon(node.wait_for("stubborn", last)).await.unwrap();
    let subscribers = shop.shop.subscribers();
    let query = DeadLetterQuery { limit: 10, ..Default::default() };
    assert_eq!(subscribers.redrive(&query).await.unwrap(), 1);
    until(|| async {
        let letters = subscribers.dead_letters(&query).await.unwrap();
        letters[0].state == DeadLetterState::Dead && letters[0].attempts.len() == 2
    })
    .await;
    assert_eq!(subscribers.dead_letters(&query).await.unwrap()[0].error(), "still no");
    assert_eq!(subscribers.redrive(&query).await.unwrap(), 1);
    recorder.handled(1).await;
    until(|| async { subscribers.dead_letters(&query).await.unwrap().is_empty() }).await;
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_subscriber_that_pauses_itself_goes_on_with_the_same_event() {
    let shop = Shop::open().await;
    let recorder = Recorder::new("careful").fail_with([oops(), oops()]);
    let config = on_exhaustion(OnExhaustion::Pause);
    let node = shop.shop.node("n1").run(Subscription::of(recorder.clone()).config(config)).start().await.unwrap();
    let last = shop.emit(&["a", "b"]).await;
    until(|| async { shop.info("careful").await.paused }).await;
    until(|| async { state(&node).0 == RunnerState::Paused }).await;
    assert_eq!(shop.info("careful").await.pause_reason.as_deref(), Some("event 1 failed 2 times: oops"));
    assert_eq!(recorder.types(), [""; 0]);
    shop.shop.subscribers().set_paused("careful", false).await.unwrap();
    soon(node.wait_for("careful", last)).await.unwrap();
    assert_eq!(recorder.types(), ["a", "b"]);
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_subscriber_that_always_fails_delays_no_other() {
    let shop = Shop::open().await;
    let tries = Arc::new(AtomicU32::new(0));
    struct Fails(Arc<AtomicU32>);
    impl EventObserver for Fails {
        fn subscriber_id(&self) -> &str {
            "fails"
        }
        async fn on_event(&self, _: Delivery) -> Result<(), HandlerError> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Err(oops())
        }
    }
    let recorder = Recorder::new("fine");
    let for_hours = ReliableDeliveryConfig {
        initial_retry_delay: Duration::from_secs(3600),
        max_retry_delay: Duration::from_secs(3600),
        ..quick()
    };
    let node = shop
        .shop
        .node("n1")
        .run(Subscription::of(Fails(tries.clone())).config(for_hours))
        .run(Subscription::of(recorder.clone()))
        .start()
        .await
        .unwrap();
    let last = shop.emit_many(500).await;
    soon(node.wait_for("fine", last)).await.unwrap();
    until(|| async { tries.load(Ordering::Relaxed) == 1 }).await;
    soon(node.shutdown()).await.unwrap();
    assert_eq!(shop.info("fails").await.position, 0, "an event in the middle of its retries is not settled");
}

#[tokio::test]
async fn what_is_parked_behind_a_letter_follows_at_once() {
    let shop = Shop::open().await;
    let recorder = Recorder::new("parks").fail_with([HandlerError::permanent("no")]);
    let config = on_exhaustion(OnExhaustion::ParkKey);
    let node = shop.shop.node("n1").run(Subscription::of(recorder.clone()).config(config)).start().await.unwrap();
    for n in 0..250 {
        shop.shop.emit(keyed(&format!("a{n}"), "a")).await.unwrap();
    }
    until(|| async { shop.info("parks").await.dead_letters == 250 }).await;
    let dead = DeadLetterQuery { states: vec![DeadLetterState::Dead], ..Default::default() };
    shop.shop.subscribers().discard(&dead, "not worth it").await.unwrap();
    recorder.handled(249).await;
    assert!(recorder.sequences().is_sorted());
    node.shutdown().await.unwrap();
}

/// The owner ended between the dead letter and the checkpoint. Only a redrive delivers the dead
/// events again.
#[tokio::test]
async fn what_is_buried_is_not_handled_again_after_a_crash() {
    let shop = Shop::open().await;
    let recorder = Recorder::new("broken").fail_with([HandlerError::permanent("no")]);
    let never = headwater::delivery::CheckpointMode::Batched { batch_size: 100, max_delay_ms: 60_000 };
    let config = ReliableDeliveryConfig { checkpoint_mode: never, ..quick() };
    let node =
        shop.shop.node("n1").run(Subscription::of(recorder.clone()).config(config.clone())).start().await.unwrap();
    let last = shop.emit(&["a", "b"]).await;
    recorder.handled(1).await;
    assert_eq!((shop.info("broken").await.position, shop.info("broken").await.dead_letters), (0, 1));
    drop(node);
    let node = shop.shop.node("n1").run(Subscription::of(recorder.clone()).config(config)).start().await.unwrap();
    soon(node.wait_for("broken", last)).await.unwrap();
    assert_eq!(recorder.types(), ["b", "b"], "a is a dead letter, b comes again");
    shop.shop.subscribers().redrive(&DeadLetterQuery::default()).await.unwrap();
    recorder.handled(3).await;
    node.shutdown().await.unwrap();
    assert_eq!(recorder.types(), ["b", "b", "a"]);
    assert_eq!(shop.shop.subscribers().audit(&[]).await.unwrap().findings, []);
}

#[tokio::test]
async fn a_key_that_is_retried_holds_up_no_other_key() {
    let shop = Shop::open().await;
    struct OneBad(tokio::sync::watch::Sender<u32>);
    impl EventObserver for OneBad {
        fn subscriber_id(&self) -> &str {
            "keys"
        }
        async fn on_event(&self, event: Delivery) -> Result<(), HandlerError> {
            if event.event_type == "bad" {
                return Err(oops());
            }
            self.0.send_modify(|done| *done += 1);
            Ok(())
        }
    }
    let done = tokio::sync::watch::Sender::new(0);
    let mut counted = done.subscribe();
    let config = ReliableDeliveryConfig {
        instance_mode: headwater::delivery::InstanceMode::SingleInstance,
        initial_retry_delay: Duration::from_secs(3600),
        max_retry_delay: Duration::from_secs(3600),
        ..quick()
    };
    let node =
        shop.shop.node("n1").run(Subscription::of(OneBad(done)).config(config).concurrency(8)).start().await.unwrap();
    shop.emit(&["bad"]).await;
    // Long enough for the keeper to ask after dead letters in between.
    for n in 1..=30 {
        shop.emit(&["good"]).await;
        soon(counted.wait_for(|done| *done == n)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    soon(node.shutdown()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn handlers_side_by_side_may_use_all_connections_of_the_pool() {
    let shop = Shop::open().await;
    struct Pooled(sqlx::PgPool);
    impl EventObserver for Pooled {
        fn subscriber_id(&self) -> &str {
            "pooled"
        }
        async fn on_event(&self, _: Delivery) -> Result<(), HandlerError> {
            let mut tx = self.0.begin().await?;
            for _ in 0..3 {
                sqlx::query("SELECT pg_sleep(0.001)").execute(&mut *tx).await?;
            }
            Ok(tx.commit().await?)
        }
    }
    let last = shop.emit_many(300).await;
    let observer = Pooled(shop.headwater.pool().clone());
    let node =
        shop.shop.node("n1").run(Subscription::of(observer).config(quick()).concurrency(32)).start().await.unwrap();
    soon(node.wait_for("pooled", last)).await.unwrap();
    node.shutdown().await.unwrap();
}
