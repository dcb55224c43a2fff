//! Gaps: events that commit late, or never.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Recorder, Shop, quick, soon, state, until};
use headwater::delivery::{OperatorStore, ReliableDeliveryConfig, RunnerState, StartFrom};
use headwater::{Delivery, Event, EventObserver, HandlerError, Json, Subscription};
use sqlx::{Connection, PgConnection, Row};

fn holding(hold_for: Duration) -> ReliableDeliveryConfig {
    ReliableDeliveryConfig { hold_for, ..quick() }
}

/// Emits in a transaction that stays open.
async fn dawdle(session: &mut PgConnection, event_type: &str) -> u64 {
    sqlx::raw_sql("BEGIN").execute(&mut *session).await.unwrap();
    let emitted = sqlx::query("SELECT headwater.emit('shop', $1)").bind(event_type).fetch_one(session).await.unwrap();
    emitted.get::<i64, _>(0) as u64
}

async fn end(session: &mut PgConnection, how: &'static str) {
    sqlx::raw_sql(how).execute(session).await.unwrap();
}

async fn permanent_gaps(shop: &Shop) -> Vec<(i64, i64)> {
    let gaps = "SELECT first_sequence, last_sequence FROM headwater_private.permanent_gaps ORDER BY 1";
    let rows = sqlx::query(gaps).fetch_all(shop.headwater.pool()).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

#[tokio::test]
async fn strict_order_waits_for_a_writer_and_names_it() {
    let shop = Shop::open().await;
    let mut session = shop.db.session().await;
    let first = dawdle(&mut session, "first").await;
    let second = shop.emit(&["second"]).await;
    let recorder = Recorder::new("strict");
    let node = shop
        .shop
        .node("n1")
        .run(Subscription::of(recorder.clone()).config(holding(Duration::MAX)))
        .start()
        .await
        .unwrap();
    until(|| async { state(&node).0 == RunnerState::Held }).await;
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut session).await.unwrap();
    let (_, detail) = state(&node);
    assert!(detail.contains(&format!("global_sequence {first} to {first}")), "{detail}");
    assert!(detail.contains(&format!("pid {pid}")), "{detail}");
    assert_eq!(recorder.types(), [""; 0]);
    end(&mut session, "COMMIT").await;
    soon(node.wait_for("strict", second)).await.unwrap();
    assert_eq!(recorder.types(), ["first", "second"]);
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_passed_gap_is_delivered_late_and_once() {
    let shop = Shop::open().await;
    let mut session = shop.db.session().await;
    let late = dawdle(&mut session, "late").await;
    let second = shop.emit(&["second"]).await;
    let recorder = Recorder::new("eager");
    let node = shop
        .shop
        .node("n1")
        .run(Subscription::of(recorder.clone()).config(holding(Duration::ZERO)))
        .start()
        .await
        .unwrap();
    recorder.handled(1).await;
    until(|| async { shop.info("eager").await.position == second }).await;
    assert_eq!(shop.info("eager").await.pending_gaps, [(late, late)], "the ledger is written with the checkpoint");
    end(&mut session, "COMMIT").await;
    recorder.handled(2).await;
    until(|| async { shop.info("eager").await.pending_gaps.is_empty() }).await;
    assert_eq!(recorder.types(), ["second", "late"]);
    assert_eq!(shop.info("eager").await.position, second, "a late event does not rewind the reader");
    let audit = shop.shop.subscribers().audit(&[]).await.unwrap();
    assert_eq!((audit.findings, audit.events), (vec![], 2));
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_passed_gap_outlives_a_crash() {
    let shop = Shop::open().await;
    let mut session = shop.db.session().await;
    let late = dawdle(&mut session, "late").await;
    let second = shop.emit(&["second"]).await;
    let recorder = Recorder::new("eager");
    let config = holding(Duration::ZERO);
    let node =
        shop.shop.node("n1").run(Subscription::of(recorder.clone()).config(config.clone())).start().await.unwrap();
    until(|| async { shop.info("eager").await.position == second }).await;
    drop(node);
    end(&mut session, "COMMIT").await;
    let node = shop.shop.node("n1").run(Subscription::of(recorder.clone()).config(config)).start().await.unwrap();
    soon(node.wait_for("eager", second)).await.unwrap();
    assert_eq!(recorder.types(), ["second", "late"]);
    assert_eq!(recorder.sequences(), [second, late]);
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_late_event_that_fails_is_not_lost() {
    let shop = Shop::open().await;
    let mut session = shop.db.session().await;
    dawdle(&mut session, "late").await;
    let second = shop.emit(&["second"]).await;
    let recorder = Recorder::new("eager");
    let config = ReliableDeliveryConfig { max_retries: 0, ..holding(Duration::ZERO) };
    let node = shop.shop.node("n1").run(Subscription::of(recorder.clone()).config(config)).start().await.unwrap();
    until(|| async { shop.info("eager").await.position == second }).await;
    let recorder = recorder.fail_with([HandlerError::message("not now")]);
    end(&mut session, "COMMIT").await;
    until(|| async { shop.info("eager").await.dead_letters == 1 }).await;
    until(|| async { shop.info("eager").await.pending_gaps.is_empty() }).await;
    assert_eq!(recorder.types(), ["second"]);
    assert_eq!(shop.shop.subscribers().audit(&[]).await.unwrap().findings, []);
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn what_was_rolled_back_holds_nobody_and_is_recorded_once() {
    let shop = Shop::open().await;
    let (first, second) = (Recorder::new("first"), Recorder::new("second"));
    let strict = holding(Duration::MAX);
    let node = shop
        .shop
        .node("n1")
        .default_config(strict)
        .run(Subscription::of(first.clone()))
        .run(Subscription::of(second.clone()))
        .start()
        .await
        .unwrap();
    let mut session = shop.db.session().await;
    let burnt = dawdle(&mut session, "burnt").await;
    let emit = "SELECT headwater.emit('shop', 'burnt') FROM generate_series(2, 1000)";
    sqlx::raw_sql(emit).execute(&mut session).await.unwrap();
    end(&mut session, "ROLLBACK").await;
    let last = shop.emit(&["after"]).await;
    soon(node.wait_for("first", last)).await.unwrap();
    soon(node.wait_for("second", last)).await.unwrap();
    assert_eq!((first.types(), second.types()), (vec!["after".to_owned()], vec!["after".to_owned()]));
    until(|| async { permanent_gaps(&shop).await == [(burnt as i64, burnt as i64 + 999)] }).await;
    node.shutdown().await.unwrap();
    assert_eq!(shop.shop.subscribers().audit(&[]).await.unwrap().findings, []);
}

/// The record of permanent gaps is locked by somebody: nobody waits for it but the node that ends.
#[tokio::test]
async fn what_is_recorded_of_gaps_holds_no_event_up() {
    let shop = Shop::open().await;
    let mut session = shop.db.session().await;
    let mut expected = Vec::new();
    for _ in 0..300 {
        let burnt = dawdle(&mut session, "burnt").await as i64;
        end(&mut session, "ROLLBACK").await;
        expected.push((burnt, burnt));
        shop.emit(&["settled"]).await;
    }
    let lock = "BEGIN; LOCK TABLE headwater_private.permanent_gaps IN EXCLUSIVE MODE";
    sqlx::raw_sql(lock).execute(&mut session).await.unwrap();
    let recorder = Recorder::new("strict");
    let node = shop
        .shop
        .node("n1")
        .run(Subscription::of(recorder.clone()).config(holding(Duration::MAX)))
        .start()
        .await
        .unwrap();
    recorder.handled(300).await;
    // And what is rolled back while it follows.
    let mut other = shop.db.session().await;
    let burnt = dawdle(&mut other, "burnt").await as i64;
    expected.push((burnt, burnt));
    let last = shop.emit(&["live"]).await;
    end(&mut other, "ROLLBACK").await;
    soon(node.wait_for("strict", last)).await.unwrap();
    assert_eq!(permanent_gaps(&shop).await, []);
    end(&mut session, "ROLLBACK").await;
    node.shutdown().await.unwrap();
    assert_eq!(permanent_gaps(&shop).await, expected);
    assert_eq!(shop.shop.subscribers().audit(&[]).await.unwrap().findings, []);
}

#[tokio::test]
async fn a_passed_gap_that_is_rolled_back_leaves_the_ledger() {
    let shop = Shop::open().await;
    let mut session = shop.db.session().await;
    let burnt = dawdle(&mut session, "burnt").await as i64;
    let second = shop.emit(&["second"]).await;
    let recorder = Recorder::new("eager");
    let node = shop
        .shop
        .node("n1")
        .run(Subscription::of(recorder.clone()).config(holding(Duration::ZERO)))
        .start()
        .await
        .unwrap();
    until(|| async { shop.info("eager").await.position == second }).await;
    end(&mut session, "ROLLBACK").await;
    until(|| async { shop.info("eager").await.pending_gaps.is_empty() }).await;
    assert_eq!(recorder.types(), ["second"]);
    node.shutdown().await.unwrap();
    assert_eq!(permanent_gaps(&shop).await, [(burnt, burnt)]);
}

#[tokio::test]
async fn a_writer_that_is_killed_holds_nobody() {
    let shop = Shop::open().await;
    let mut session = PgConnection::connect(&shop.db.url).await.unwrap();
    dawdle(&mut session, "killed").await;
    let last = shop.emit(&["after"]).await;
    let recorder = Recorder::new("strict");
    let node = shop
        .shop
        .node("n1")
        .run(Subscription::of(recorder.clone()).config(holding(Duration::MAX)))
        .start()
        .await
        .unwrap();
    until(|| async { state(&node).0 == RunnerState::Held }).await;
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut session).await.unwrap();
    let terminate = sqlx::query("SELECT pg_terminate_backend($1)").bind(pid);
    terminate.execute(shop.headwater.pool()).await.unwrap();
    soon(node.wait_for("strict", last)).await.unwrap();
    assert_eq!(recorder.types(), ["after"]);
    node.shutdown().await.unwrap();
}

/// The horizon is inside a permanent gap when the node starts, and an open transaction keeps it
/// there.
#[tokio::test]
async fn a_start_inside_a_gap_holds_no_longer_than_told() {
    let shop = Shop::open().await;
    let last = shop.emit(&["a", "b"]).await;
    let mut session = shop.db.session().await;
    dawdle(&mut session, "aborted").await;
    end(&mut session, "ROLLBACK").await;
    dawdle(&mut session, "open").await;
    shop.emit(&["after"]).await;
    let recorder = Recorder::new("eager");
    let config = ReliableDeliveryConfig { start_from: StartFrom::After(last), ..holding(Duration::from_millis(50)) };
    let node = shop.shop.node("n1").run(Subscription::of(recorder.clone()).config(config)).start().await.unwrap();
    recorder.handled(1).await;
    end(&mut session, "COMMIT").await;
    recorder.handled(2).await;
    assert_eq!(recorder.types(), ["after", "open"]);
    node.shutdown().await.unwrap();
}

/// Tells when it is given the event `slow`, and waits.
struct Slow {
    recorder: Recorder,
    begun: tokio::sync::mpsc::UnboundedSender<()>,
    let_go: Arc<tokio::sync::Semaphore>,
}

impl EventObserver for Slow {
    fn subscriber_id(&self) -> &str {
        self.recorder.subscriber_id()
    }

    async fn on_event(&self, event: Delivery) -> Result<(), HandlerError> {
        if event.event_type == "slow" {
            self.begun.send(())?;
            self.let_go.acquire().await?.forget();
        }
        self.recorder.on_event(event).await
    }
}

/// An event behind a passed gap is still at hand, so the gap is not in the ledger yet.
#[tokio::test]
async fn a_stream_is_in_order_across_a_gap_that_the_checkpoint_has_not_passed() {
    let shop = Shop::open().await;
    let mut session = shop.db.session().await;
    let append = r#"BEGIN; SELECT headwater.append('shop', 'order-1', '{"type": "first"}')"#;
    sqlx::raw_sql(append).execute(&mut session).await.unwrap();
    shop.emit(&["slow"]).await;
    let (recorder, witness) = (Recorder::new("slow"), Recorder::new("witness"));
    let (begun, mut slow_begun) = tokio::sync::mpsc::unbounded_channel();
    let let_go = Arc::new(tokio::sync::Semaphore::new(0));
    let slow = Slow { recorder: recorder.clone(), begun, let_go: let_go.clone() };
    let config = holding(Duration::ZERO);
    let node = shop
        .shop
        .node("n1")
        .default_config(config)
        .run(Subscription::of(slow).concurrency(2))
        .run(Subscription::of(witness.clone()).concurrency(2))
        .start()
        .await
        .unwrap();
    soon(slow_begun.recv()).await.unwrap();
    end(&mut session, "COMMIT").await;
    let second = Event::raw("second", Json::null()).in_stream("order-1");
    let last = shop.shop.emit(second).await.unwrap().global_sequence();
    witness.handled(3).await;
    let_go.add_permits(1);
    soon(node.wait_for("slow", last)).await.unwrap();
    // Those of other keys go beside the slow one, the stream's in order.
    let types = recorder.types();
    let of_the_stream: Vec<_> = types.iter().map(String::as_str).filter(|event_type| *event_type != "slow").collect();
    assert_eq!((types.len(), of_the_stream), (3, vec!["first", "second"]));
    assert_eq!(shop.shop.subscribers().audit(&[]).await.unwrap().findings, []);
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_reset_keeps_what_is_in_flight_below_it() {
    let shop = Shop::open().await;
    let mut session = shop.db.session().await;
    dawdle(&mut session, "late").await;
    let middle = shop.emit(&["b"]).await;
    let last = shop.emit(&["c"]).await;
    let recorder = Recorder::new("eager");
    let node = shop
        .shop
        .node("n1")
        .run(Subscription::of(recorder.clone()).config(holding(Duration::ZERO)))
        .start()
        .await
        .unwrap();
    until(|| async { shop.info("eager").await.position == last }).await;
    shop.shop.subscribers().reset("eager", middle).await.unwrap();
    recorder.handled(3).await;
    end(&mut session, "COMMIT").await;
    recorder.handled(4).await;
    assert_eq!(recorder.types(), ["b", "c", "c", "late"]);
    until(|| async { shop.info("eager").await.pending_gaps.is_empty() }).await;
    assert_eq!(shop.shop.subscribers().audit(&[]).await.unwrap().findings, []);
    node.shutdown().await.unwrap();
}
