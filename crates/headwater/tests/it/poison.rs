//! Rows of the log that are not events: they block nothing, are reported, and are delivered after a
//! repair.

use std::time::Duration;

use crate::common::{Recorder, Shop, quick, soon, until};
use async_trait::async_trait;
use headwater::admin::AdminError;
use headwater::cdc::{CdcOptions, CdcPoisonNotifier, Live, LiveState, SubscriptionResetOnPoisonNotifier};
use headwater::delivery::{InstanceMode, OperatorStore, ReliableDeliveryConfig};
use headwater::log::Fault;
use headwater::{Delivery, EventObserver, HandlerError, Json, Node, Queue, RecordedEvent, Subscription};
use tokio::sync::watch;

/// Writes a row past all checks, as nobody should.
async fn insert(shop: &Shop, created_at: &str, headers: &str) -> u64 {
    insert_in(&mut shop.db.session().await, created_at, headers).await
}

async fn insert_in(session: &mut sqlx::PgConnection, created_at: &str, headers: &str) -> u64 {
    let sequence: i64 = sqlx::query_scalar(
        "INSERT INTO headwater_private.events (global_sequence, transaction_id, created_at, recorded_at, namespace_id, event_id, event_type,
                                       headers, data)
         SELECT nextval(n.sequence), pg_current_xact_id()::text::bigint, $1::timestamptz, now(), n.namespace_id, gen_random_uuid(),
                'Broken', $2::jsonb, '{}' FROM headwater_private.namespaces n WHERE n.namespace = 'shop'
         RETURNING global_sequence",
    )
    .bind(created_at)
    .bind(headers)
    .fetch_one(session)
    .await
    .expect("failed to insert");
    sequence as u64
}

async fn repair(shop: &Shop, sequence: u64) {
    sqlx::query("UPDATE headwater_private.events SET headers = NULL, created_at = now() WHERE global_sequence = $1")
        .bind(sequence as i64)
        .execute(&mut shop.db.session().await)
        .await
        .expect("failed to repair");
}

async fn start(shop: &Shop, recorder: &Recorder, live: Live) -> Node {
    let follows = live != Live::Wake;
    let node =
        shop.shop.node("n1").run(Subscription::of(recorder.clone()).config(quick())).live(live).start().await.unwrap();
    if follows {
        until(|| async { node.status().live.is_some_and(|live| live.state == LiveState::Streaming) }).await;
    }
    node
}

async fn holds_nobody_up_and_comes_after_its_repair(live: Live) {
    let shop = Shop::open().await;
    let recorder = Recorder::new("totals");
    let early = insert(&shop, "now", "[1]").await;
    shop.emit(&["a"]).await;
    let node = start(&shop, &recorder, live).await;
    recorder.handled(1).await;
    let later = insert(&shop, "infinity", "{}").await;
    let last = shop.emit(&["b"]).await;
    soon(node.wait_for("totals", last)).await.unwrap();
    assert_eq!(recorder.types(), ["a", "b"]);

    let poison = shop.shop.poison(false, 10).await.unwrap();
    assert_eq!(poison.iter().map(|poison| poison.global_sequence).collect::<Vec<_>>(), [early, later]);
    assert!(poison[1].error.contains("out of range"), "{}", poison[1].error);
    assert_eq!(shop.shop.subscribers().audit(&[]).await.unwrap().findings, [], "what is poison was not lost");

    let refused = shop.shop.redeliver_poison(early).await.unwrap_err();
    assert!(matches!(&refused, AdminError::InvalidInput(reason) if reason.contains("not repaired")), "{refused}");
    for sequence in [early, later] {
        repair(&shop, sequence).await;
        assert_eq!(shop.shop.redeliver_poison(sequence).await.unwrap(), 1);
        assert!(shop.shop.redeliver_poison(sequence).await.is_err(), "once is enough");
    }
    until(|| async { [early, later].iter().all(|sequence| recorder.sequences().contains(sequence)) }).await;
    assert_eq!(shop.shop.poison(false, 10).await.unwrap(), []);
    assert_eq!(shop.shop.poison(true, 10).await.unwrap().len(), 2);
    let next = shop.emit(&["c"]).await;
    soon(node.wait_for("totals", next)).await.unwrap();
    node.shutdown().await.unwrap();
    assert_eq!(shop.shop.subscribers().audit(&[]).await.unwrap().findings, []);
    assert_eq!(shop.info("totals").await.pending_gaps, []);
}

#[tokio::test]
async fn read_from_the_log() {
    holds_nobody_up_and_comes_after_its_repair(Live::Wake).await;
}

#[tokio::test]
async fn from_the_wal() {
    holds_nobody_up_and_comes_after_its_repair(Live::Cdc(CdcOptions::default())).await;
}

#[tokio::test]
async fn pages_full_of_poison_are_passed_and_nothing_behind_them_is_lost() {
    let shop = Shop::open().await;
    for _ in 0..3 {
        insert(&shop, "now", "[1]").await;
    }
    let first = shop.emit(&["a"]).await;
    for _ in 0..3 {
        insert(&shop, "now", "[1]").await;
    }
    let second = shop.emit(&["b"]).await;
    for page_size in 1..=5 {
        let query = headwater::log::LogQuery::after(0).page_size(page_size);
        let mut events: Vec<RecordedEvent<Json>> = Vec::new();
        let mut after = 0;
        loop {
            let page = headwater::log::EventLog::log_page(
                shop.shop.log(),
                &headwater::log::LogQuery { after, ..query.clone() },
            )
            .await
            .unwrap();
            assert!(page.cursor > after || !page.more, "it goes on: {page:?}");
            after = page.cursor;
            events.extend(page.events);
            if after >= second {
                break;
            }
        }
        let sequences: Vec<_> = events.iter().filter_map(|event| event.global_sequence).collect();
        assert_eq!(sequences, [first, second], "in pages of {page_size}");
    }
    let recorder = Recorder::new("totals");
    let node = start(&shop, &recorder, Live::Wake).await;
    recorder.handled(2).await;
    assert_eq!(recorder.sequences(), [first, second]);
    node.shutdown().await.unwrap();
}

/// Waits until it is known what a subscriber is, and that it has come so far.
async fn active(shop: &Shop, subscriber_id: &str, position: u64) {
    until(|| async {
        let info = shop.info(subscriber_id).await;
        info.report.is_some() && info.position >= position
    })
    .await;
}

async fn a_repaired_event_comes_in_order(live: Live) {
    let shop = Shop::open().await;
    let recorder = Recorder::new("totals");
    let effects = Recorder::new("effects");
    let first = shop.emit(&["a"]).await;
    let broken = insert(&shop, "now", "[1]").await;
    let last = shop.emit(&["b"]).await;
    let follows = live != Live::Wake;
    let told = effects.clone();
    let node = shop.shop.node("n1").run(Subscription::of(recorder.clone()).config(quick())).live(live);
    let node = node
        .run(
            Subscription::new("effects")
                .transactional(move |event: Delivery, _| {
                    let told = told.clone();
                    async move { told.on_event(event).await }
                })
                .config(quick()),
        )
        .start()
        .await
        .unwrap();
    if follows {
        until(|| async { node.status().live.is_some_and(|live| live.state == LiveState::Streaming) }).await;
    }
    active(&shop, "totals", last).await;
    active(&shop, "effects", last).await;
    repair(&shop, broken).await;
    let redelivered = shop.shop.redeliver_in_order(&[broken]).await.unwrap();
    assert_eq!((redelivered.moved, redelivered.late), (1, 1));
    recorder.handled(4).await;
    effects.handled(3).await;
    let next = shop.emit(&["c"]).await;
    soon(node.wait_for("totals", next)).await.unwrap();
    soon(node.wait_for("effects", next)).await.unwrap();
    assert_eq!(recorder.sequences(), [first, last, broken, last, next], "back, and from there in order");
    assert_eq!(effects.sequences(), [first, last, broken, next], "late, and nothing twice");
    node.shutdown().await.unwrap();
    assert_eq!(shop.shop.subscribers().audit(&[]).await.unwrap().findings, []);
}

#[tokio::test]
async fn once_repaired_it_comes_in_order_to_those_who_are_moved_back() {
    a_repaired_event_comes_in_order(Live::Wake).await;
}

#[tokio::test]
async fn once_repaired_it_comes_in_order_from_the_wal_too() {
    a_repaired_event_comes_in_order(Live::Cdc(CdcOptions::default())).await;
}

/// Waits with each event until it is let go.
#[derive(Clone)]
struct Held {
    recorder: Recorder,
    let_go: watch::Receiver<bool>,
}

impl EventObserver for Held {
    fn subscriber_id(&self) -> &str {
        self.recorder.subscriber_id()
    }

    async fn on_event(&self, event: Delivery) -> Result<(), HandlerError> {
        self.let_go.clone().wait_for(|let_go| *let_go).await.expect("the test lives");
        self.recorder.on_event(event).await
    }
}

#[tokio::test]
async fn who_is_not_past_it_gets_it_though_the_node_had_read_on_before_the_repair() {
    let shop = Shop::open().await;
    let (let_go, held) = watch::channel(false);
    let (fast, slow) = (Recorder::new("fast"), Recorder::new("slow"));
    let node = shop.shop.node("n1").run(Subscription::of(fast.clone()).config(quick()));
    let node = node
        .run(Subscription::of(Held { recorder: slow.clone(), let_go: held }).config(quick()))
        .start()
        .await
        .unwrap();
    shop.emit(&["a"]).await;
    let broken = insert(&shop, "now", "[1]").await;
    let last = shop.emit(&["b"]).await;
    active(&shop, "fast", last).await;
    assert_eq!(shop.info("slow").await.position, 0);
    repair(&shop, broken).await;
    assert_eq!(shop.shop.redeliver_poison(broken).await.unwrap(), 1);
    let_go.send_replace(true);
    until(|| async { slow.sequences().ends_with(&[broken, last]) }).await;
    until(|| async { fast.sequences().contains(&broken) }).await;
    node.shutdown().await.unwrap();
    assert_eq!(shop.shop.subscribers().audit(&[]).await.unwrap().findings, []);
}

async fn active_subscribers_are_moved_back_to_poison_in_a_gap(live: Live) {
    let shop = Shop::open().await;
    let (recorder, effects) = (Recorder::new("totals"), Recorder::new("effects"));
    let told = effects.clone();
    let config = ReliableDeliveryConfig { hold_for: Duration::ZERO, ..quick() };
    let notifier = SubscriptionResetOnPoisonNotifier::new(&shop.shop);
    let node = shop.shop.node("n1").on_poison(notifier.clone()).live(live).default_config(config);
    let node = node
        .run(Subscription::of(recorder.clone()))
        .run(Subscription::new("effects").transactional(move |event: Delivery, _| {
            let told = told.clone();
            async move { told.on_event(event).await }
        }))
        .start()
        .await
        .unwrap();
    let first = shop.emit(&["a"]).await;
    let mut open = shop.db.session().await;
    run(&mut open, "BEGIN").await;
    // Announce it as an append does. (A row that is changed afterwards would come from the WAL in
    // its first form.)
    let enter = "SELECT headwater_private.enter_log(n.namespace_id, n.sequence) FROM headwater_private.namespaces n WHERE n.namespace = 'shop'";
    run(&mut open, enter).await;
    let late = insert_in(&mut open, "now", "[1]").await;
    let last = shop.emit(&["b"]).await;
    for id in ["totals", "effects"] {
        active(&shop, id, last).await;
        assert_eq!(shop.info(id).await.pending_gaps, [(late, late)]);
    }
    run(&mut open, "COMMIT").await;
    recorder.handled(3).await;
    let next = shop.emit(&["c"]).await;
    soon(node.wait_for("totals", next)).await.unwrap();
    soon(node.wait_for("effects", next)).await.unwrap();
    assert_eq!(recorder.sequences(), [first, last, last, next], "back once, over the poison, and on");
    assert_eq!(effects.sequences(), [first, last, next]);
    assert_eq!(notifier.reset(&[late]).await.unwrap(), [], "it was done");
    node.shutdown().await.unwrap();
    assert_eq!(shop.info("totals").await.pending_gaps, []);
    assert_eq!(shop.shop.subscribers().audit(&[]).await.unwrap().findings, []);
}

#[tokio::test]
async fn who_asks_for_it_is_moved_back_to_poison_that_it_had_passed() {
    active_subscribers_are_moved_back_to_poison_in_a_gap(Live::Wake).await;
}

#[tokio::test]
async fn who_asks_for_it_is_moved_back_to_poison_from_the_wal_too() {
    active_subscribers_are_moved_back_to_poison_in_a_gap(Live::Cdc(CdcOptions::default())).await;
}

async fn run(session: &mut sqlx::PgConnection, script: &str) {
    sqlx::raw_sql(sqlx::AssertSqlSafe(script.to_owned())).execute(session).await.expect("failed to run");
}

#[tokio::test]
async fn workers_of_a_queue_step_over_it() {
    let shop = Shop::open().await;
    let recorder = Recorder::new("work");
    let first = shop.emit(&["a"]).await;
    let broken = [insert(&shop, "now", "[1]").await, insert(&shop, "infinity", "{}").await];
    let last = shop.emit(&["b"]).await;
    let node = shop.shop.node("n1").run(Queue::of(recorder.clone()).config(quick())).start().await.unwrap();
    recorder.handled(2).await;
    let mut handled = recorder.sequences();
    handled.sort_unstable();
    assert_eq!(handled, [first, last]);
    node.shutdown().await.unwrap();
    let poison = shop.shop.poison(false, 10).await.unwrap();
    assert_eq!(poison.iter().map(|poison| poison.global_sequence).collect::<Vec<_>>(), broken);
}

/// Remembers what it was told, after so many failures.
#[derive(Clone)]
struct Alarm {
    told: watch::Sender<Vec<u64>>,
    failures: watch::Sender<u32>,
}

impl Alarm {
    fn new(failures: u32) -> Self {
        Alarm { told: watch::Sender::new(Vec::new()), failures: watch::Sender::new(failures) }
    }

    fn told(&self) -> Vec<u64> {
        self.told.borrow().clone()
    }

    async fn is_told(&self, sequences: &[u64]) {
        until(|| async { sequences.iter().all(|sequence| self.told().contains(sequence)) }).await;
    }
}

#[async_trait]
impl CdcPoisonNotifier for Alarm {
    async fn on_poison(&self, sequences: &[u64]) -> Result<(), AdminError> {
        let fails = *self.failures.borrow();
        if fails > 0 {
            self.failures.send_replace(fails - 1);
            let (message, retryable) = ("nobody answers".into(), false);
            return Err(AdminError::Unavailable(Fault { message, retryable, source: None }));
        }
        self.told.send_modify(|told| told.extend(sequences));
        Ok(())
    }
}

/// The poison is before the end of the log when the node starts. A subscriber meets it while it
/// catches up.
#[tokio::test]
async fn poison_that_was_committed_while_no_node_ran_is_told() {
    let shop = Shop::open().await;
    shop.emit(&["a"]).await;
    let broken = insert(&shop, "now", "[1]").await;
    shop.emit(&["b"]).await;
    let (alarm, recorder) = (Alarm::new(0), Recorder::new("totals"));
    let node = shop.shop.node("n1").on_poison(alarm.clone()).run(Subscription::of(recorder.clone()).config(quick()));
    let node = node.start().await.unwrap();
    recorder.handled(2).await;
    alarm.is_told(&[broken]).await;
    node.shutdown().await.unwrap();
    assert_eq!(alarm.told(), [broken]);
}

/// Found by another process, or by a queue's worker, while no node with the notifier runs.
#[tokio::test]
async fn poison_that_others_found_is_told_by_the_next_node_that_starts() {
    let shop = Shop::open().await;
    let first = Alarm::new(0);
    let start = async |name: &str, alarm: &Alarm| {
        let node = shop
            .shop
            .node(name)
            .on_poison(alarm.clone())
            .run(Subscription::of(Recorder::new("totals")).config(quick()));
        node.start().await.unwrap()
    };
    let node = start("n1", &first).await;
    node.shutdown().await.unwrap();
    let broken = insert(&shop, "now", "[1]").await;
    shop.emit(&["a"]).await;
    let page = headwater::log::EventLog::log_page(shop.shop.log(), &headwater::log::LogQuery::after(0)).await.unwrap();
    assert_eq!(page.events.len(), 1);
    let next = Alarm::new(2);
    let node = start("n2", &next).await;
    next.is_told(&[broken]).await;
    assert_eq!(first.told(), Vec::<u64>::new());
    node.shutdown().await.unwrap();
    let third = Alarm::new(0);
    let node = start("n3", &third).await;
    let later = insert(&shop, "now", "[1]").await;
    shop.emit(&["b"]).await;
    headwater::log::EventLog::log_page(shop.shop.log(), &headwater::log::LogQuery::after(broken)).await.unwrap();
    third.is_told(&[later]).await;
    assert_eq!(third.told(), [later], "what was told is not told again");
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_single_instance_is_moved_back_to_poison_that_it_had_passed() {
    let shop = Shop::open().await;
    let recorder = Recorder::new("totals");
    let single = InstanceMode::SingleInstance;
    let config = ReliableDeliveryConfig { hold_for: Duration::ZERO, instance_mode: single, ..quick() };
    let notifier = SubscriptionResetOnPoisonNotifier::new(&shop.shop);
    let node = shop.shop.node("n1").on_poison(notifier.clone()).run(Subscription::of(recorder.clone()).config(config));
    let node = node.start().await.unwrap();
    let first = shop.emit(&["a"]).await;
    let mut open = shop.db.session().await;
    run(&mut open, "BEGIN").await;
    let late: i64 = sqlx::query_scalar("SELECT headwater.emit('shop', 'late')").fetch_one(&mut open).await.unwrap();
    run(&mut open, &format!("UPDATE headwater_private.events SET headers = '[1]' WHERE global_sequence = {late}"))
        .await;
    let last = shop.emit(&["b"]).await;
    until(|| async { shop.info("totals").await.position >= last }).await;
    run(&mut open, "COMMIT").await;
    recorder.handled(3).await;
    assert_eq!(recorder.sequences(), [first, last, last], "back once, and over the poison");
    node.shutdown().await.unwrap();
    assert_eq!(shop.shop.subscribers().audit(&[]).await.unwrap().findings, []);
}
