//! Holes: a transaction that emits while others do leaves one for each of its events. They cost no
//! more than other events, and each is delivered once, or never.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{Recorder, Shop, quick, soon, state, until};
use headwater::delivery::{CheckpointMode, OperatorStore, ReliableDeliveryConfig, RunnerState};
use headwater::{Bundle, Delivery, EventObserver, HandlerError, Subscription, Transaction};
use sqlx::{PgConnection, Row};
use tokio::sync::{Semaphore, watch};

/// More than a ledger keeps in a subscriber's row, by far.
const HOLES: usize = 2_000;

/// A transaction that stays open, with holes that it left and events of others between them.
struct Held {
    session: PgConnection,
    /// Its events.
    late: Vec<u64>,
    /// Those of others, in order.
    visible: Vec<u64>,
}

impl Held {
    /// Each of its events is followed by one of somebody else.
    async fn open(shop: &Shop, holes: usize) -> Self {
        let mut session = shop.db.session().await;
        let mut others = shop.db.session().await;
        sqlx::raw_sql("SET synchronous_commit = off").execute(&mut others).await.unwrap();
        sqlx::raw_sql("BEGIN").execute(&mut session).await.unwrap();
        let mut held = Held { session, late: Vec::new(), visible: Vec::new() };
        held.go_on(&mut others, holes).await;
        held
    }

    async fn go_on(&mut self, others: &mut PgConnection, holes: usize) {
        let emit = "SELECT headwater.emit('shop', $1, key => $2)";
        for n in 0..holes {
            for (session, event_type, sequences) in
                [(&mut self.session, "late", &mut self.late), (&mut *others, "visible", &mut self.visible)]
            {
                let emit = sqlx::query(emit).bind(event_type).bind(format!("key-{}", n % 7));
                sequences.push(emit.fetch_one(session).await.unwrap().get::<i64, _>(0) as u64);
            }
        }
    }

    async fn end(&mut self, how: &'static str) {
        sqlx::raw_sql(how).execute(&mut self.session).await.unwrap();
    }

    fn last(&self) -> u64 {
        *self.visible.last().unwrap()
    }

    fn all(&self) -> Vec<u64> {
        let all: BTreeSet<u64> = self.late.iter().chain(&self.visible).copied().collect();
        all.into_iter().collect()
    }
}

/// Passes gaps at once. Progress is written every 100 events.
fn passing() -> ReliableDeliveryConfig {
    let checkpoint_mode = CheckpointMode::Batched { batch_size: 100, max_delay_ms: 20 };
    ReliableDeliveryConfig { hold_for: Duration::ZERO, checkpoint_mode, ..quick() }
}

async fn until_passed(shop: &Shop, subscriber_id: &str, position: u64) {
    until(|| async { shop.info(subscriber_id).await.position == position }).await;
}

async fn until_settled(shop: &Shop, subscriber_id: &str) {
    until(|| async { shop.info(subscriber_id).await.pending_gaps.is_empty() }).await;
}

/// How many sequences are in ledgers, and rows of chunks.
async fn ledgers(shop: &Shop) -> (i64, i64) {
    let size = "SELECT coalesce(sum(headwater_private.ledger_size(namespace_id, subscriber_id, partition, pending_gaps)), 0)::bigint,
                       (SELECT count(*) FROM headwater_private.ledger_chunks) FROM headwater_private.subscribers";
    let row = sqlx::query(size).fetch_one(shop.headwater.pool()).await.unwrap();
    (row.get(0), row.get(1))
}

async fn assert_audited(shop: &Shop) {
    assert_eq!(shop.shop.subscribers().audit(&[]).await.unwrap().findings, []);
}

#[tokio::test]
async fn what_is_visible_is_delivered_beside_holes_and_they_late_and_once() {
    let shop = Shop::open().await;
    let mut held = Held::open(&shop, HOLES).await;
    let recorder = Recorder::new("eager");
    let node = shop.shop.node("n1").run(Subscription::of(recorder.clone()).config(passing())).start().await.unwrap();
    recorder.handled(HOLES).await;
    assert_eq!(recorder.sequences(), held.visible, "in order");
    until_passed(&shop, "eager", held.last()).await;
    let (size, chunks) = ledgers(&shop).await;
    assert_eq!(size, HOLES as i64);
    assert!(chunks >= 5, "{chunks}: a checkpoint writes the end of a ledger, not all of it");
    assert_audited(&shop).await;
    held.end("COMMIT").await;
    recorder.handled(2 * HOLES).await;
    until_settled(&shop, "eager").await;
    assert_eq!(recorder.sequences()[HOLES..], held.late, "each once, in order");
    assert_eq!(ledgers(&shop).await, (0, 0));
    assert_audited(&shop).await;
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn what_was_rolled_back_leaves_no_holes() {
    let shop = Shop::open().await;
    let mut held = Held::open(&shop, HOLES).await;
    let recorder = Recorder::new("eager");
    let node = shop.shop.node("n1").run(Subscription::of(recorder.clone()).config(passing())).start().await.unwrap();
    until_passed(&shop, "eager", held.last()).await;
    held.end("ROLLBACK").await;
    until_settled(&shop, "eager").await;
    assert_eq!(recorder.sequences(), held.visible);
    assert_eq!(ledgers(&shop).await, (0, 0));
    let gaps = "SELECT count(*) FROM headwater_private.permanent_gaps WHERE first_sequence = last_sequence";
    let recorded = || sqlx::query_scalar::<_, i64>(gaps).fetch_one(shop.headwater.pool());
    until(|| async { recorded().await.unwrap() == HOLES as i64 }).await;
    assert_audited(&shop).await;
    node.shutdown().await.unwrap();
}

/// The node that takes over continues with the stored ledger, before the writer ends and while its
/// events are delivered.
#[tokio::test]
async fn a_restart_in_the_middle_loses_and_repeats_nothing() {
    let shop = Shop::open().await;
    let mut held = Held::open(&shop, HOLES).await;
    let recorder = Recorder::new("eager");
    let start =
        async || shop.shop.node("n1").run(Subscription::of(recorder.clone()).config(passing())).start().await.unwrap();
    let node = start().await;
    recorder.handled(HOLES / 2).await;
    node.shutdown().await.unwrap();
    let node = start().await;
    recorder.handled(HOLES).await;
    until_passed(&shop, "eager", held.last()).await;
    node.shutdown().await.unwrap();
    assert_audited(&shop).await;
    held.end("COMMIT").await;
    let node = start().await;
    recorder.handled(HOLES + HOLES / 2).await;
    node.shutdown().await.unwrap();
    assert_audited(&shop).await;
    let node = start().await;
    recorder.handled(2 * HOLES).await;
    until_settled(&shop, "eager").await;
    let mut handled = recorder.sequences();
    handled.sort_unstable();
    assert_eq!(handled, held.all(), "each once");
    assert_audited(&shop).await;
    node.shutdown().await.unwrap();
}

/// One writer ends while another continues. The horizon stays, and the new events are still found.
#[tokio::test]
async fn one_of_two_writers_ends() {
    let shop = Shop::open().await;
    let mut one = Held::open(&shop, HOLES / 4).await;
    let mut other = Held::open(&shop, HOLES / 4).await;
    let recorder = Recorder::new("eager");
    let node = shop.shop.node("n1").run(Subscription::of(recorder.clone()).config(passing())).start().await.unwrap();
    recorder.handled(HOLES / 2).await;
    other.end("COMMIT").await;
    recorder.handled(HOLES * 3 / 4).await;
    assert_eq!(recorder.sequences()[HOLES / 2..], other.late);
    one.end("COMMIT").await;
    recorder.handled(HOLES).await;
    assert_eq!(recorder.sequences()[HOLES * 3 / 4..], one.late);
    until_settled(&shop, "eager").await;
    assert_audited(&shop).await;
    node.shutdown().await.unwrap();
}

/// Waits for leave at each event.
struct Slow {
    began: watch::Sender<usize>,
    leave: Arc<Semaphore>,
}

impl EventObserver for Slow {
    fn subscriber_id(&self) -> &str {
        "slow"
    }

    async fn on_event(&self, _: Delivery) -> Result<(), HandlerError> {
        self.began.send_modify(|began| *began += 1);
        _ = self.leave.acquire().await.map(|leave| leave.forget());
        Ok(())
    }
}

#[tokio::test]
async fn whoever_begins_behind_holes_is_catching_up_until_it_has_caught_up() {
    let shop = Shop::open().await;
    let mut held = Held::open(&shop, HOLES).await;
    let slow = Slow { began: watch::Sender::new(0), leave: Arc::new(Semaphore::new(0)) };
    let (mut began, leave) = (slow.began.subscribe(), slow.leave.clone());
    let node = shop.shop.node("n1").run(Subscription::of(slow).config(passing())).start().await.unwrap();
    soon(began.wait_for(|began| *began == 1)).await.unwrap();
    assert_eq!(state(&node).0, RunnerState::CatchingUp, "it has {HOLES} events before it");
    leave.close();
    soon(began.wait_for(|began| *began == HOLES)).await.unwrap();
    until(|| async { state(&node).0 == RunnerState::Live }).await;
    held.end("ROLLBACK").await;
    node.shutdown().await.unwrap();
}

/// A node reads no further ahead than its fastest subscriber needs. Otherwise the ring would forget
/// what that subscriber needs, and it would read it a second time.
#[tokio::test]
async fn behind_an_open_hole_the_log_is_read_as_it_is_needed() {
    const BEHIND: usize = 20_000;
    let shop = Shop::open().await;
    let mut held = Held::open(&shop, 1).await;
    let emit = format!("SELECT headwater.emit('shop', 'behind') FROM generate_series(1, {BEHIND})");
    sqlx::query(sqlx::AssertSqlSafe(emit)).execute(shop.headwater.pool()).await.unwrap();
    let last = shop.emit(&["last"]).await;
    let slow = Slow { began: watch::Sender::new(0), leave: Arc::new(Semaphore::new(0)) };
    let (mut began, leave) = (slow.began.subscribe(), slow.leave.clone());
    let node = shop.shop.node("n1").run(Subscription::of(slow).config(passing())).start().await.unwrap();
    soon(began.wait_for(|began| *began == 1)).await.unwrap();
    until(|| async { node.status().seen > 8_000 }).await;
    // It looks again and again, since there is a hole.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let seen = node.status().seen;
    assert!(seen < 12_000, "read up to {seen} for somebody at the first event");
    assert_eq!(state(&node).0, RunnerState::CatchingUp);
    // What comes in the hole is noticed all the same, and goes before what follows.
    held.end("COMMIT").await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    leave.close();
    soon(began.wait_for(|began| *began == BEHIND + 3)).await.unwrap();
    soon(node.wait_for("slow", last)).await.unwrap();
    until_settled(&shop, "slow").await;
    until(|| async { state(&node).0 == RunnerState::Live }).await;
    assert_audited(&shop).await;
    node.shutdown().await.unwrap();
}

/// With concurrent keys, and with effects in a transaction per event, holes are also passed, and
/// late events come.
#[tokio::test]
async fn every_kind_of_handler_gets_late_events_once() {
    let shop = Shop::open().await;
    sqlx::raw_sql("CREATE TABLE effects (sequence bigint PRIMARY KEY)").execute(shop.headwater.pool()).await.unwrap();
    let mut held = Held::open(&shop, HOLES / 4).await;
    let keyed = Recorder::new("keyed");
    let batches = watch::Sender::new(Vec::<u64>::new());
    let batch = batches.clone();
    let node = shop
        .shop
        .node("n1")
        .run(Subscription::of(keyed.clone()).config(passing()).concurrency(8))
        .run(
            Subscription::new("batches")
                .batch(move |events: Vec<Delivery>| {
                    batch.send_modify(|seen| seen.extend(events.iter().filter_map(|event| event.global_sequence)));
                    async { Ok(()) }
                })
                .config(passing()),
        )
        .run(
            Subscription::new("effects")
                .transactional(|event: Delivery, mut tx: Transaction| async move {
                    let insert = sqlx::query("INSERT INTO effects VALUES ($1)").bind(event.sequence().get() as i64);
                    insert.execute(&mut *tx).await?;
                    Ok(())
                })
                .config(passing()),
        )
        .run(
            Subscription::new("keys")
                .bundled_by(Bundle::Key)
                .transactional(|event: Delivery, mut tx: Transaction| async move {
                    let insert = sqlx::query("INSERT INTO effects VALUES (-$1)").bind(event.sequence().get() as i64);
                    insert.execute(&mut *tx).await?;
                    Ok(())
                })
                .config(passing()),
        )
        .start()
        .await
        .unwrap();
    keyed.handled(HOLES / 4).await;
    let mut seen = batches.subscribe();
    soon(seen.wait_for(|seen| seen.len() == HOLES / 4)).await.unwrap();
    held.end("COMMIT").await;
    keyed.handled(HOLES / 2).await;
    soon(seen.wait_for(|seen| seen.len() == HOLES / 2)).await.unwrap();
    for subscriber_id in ["keyed", "batches", "effects", "keys"] {
        soon(node.wait_for(subscriber_id, held.last())).await.unwrap();
        until_settled(&shop, subscriber_id).await;
    }
    let effects = "SELECT count(*) FROM effects GROUP BY sequence > 0";
    let effects: Vec<i64> = sqlx::query_scalar(effects).fetch_all(shop.headwater.pool()).await.unwrap();
    assert_eq!(effects, [HOLES as i64 / 2; 2]);
    for mut handled in [keyed.sequences(), batches.borrow().clone()] {
        handled.sort_unstable();
        assert_eq!(handled, held.all());
    }
    assert_audited(&shop).await;
    node.shutdown().await.unwrap();
}

/// While a group is resized, its partitions reach the barrier with the same ledger, and the new
/// partitions begin with it.
#[tokio::test]
async fn a_group_with_holes_is_resized() {
    let shop = Shop::open().await;
    let mut held = Held::open(&shop, HOLES / 2).await;
    let recorder = Recorder::new("g");
    let node = shop.shop.node("n1").run(Subscription::of(recorder.clone()).config(passing()).partitions(2)).start();
    let node = node.await.unwrap();
    recorder.handled(HOLES / 2).await;
    soon(shop.shop.subscribers().resize("g", 5)).await.unwrap();
    until(|| async {
        let group = shop.shop.subscribers().group("g").await.unwrap();
        group.partitions.len() == 5
            && group.partitions.iter().all(|one| one.owner.is_some() && one.position >= held.last())
    })
    .await;
    assert_eq!(ledgers(&shop).await.0, 5 * HOLES as i64 / 2);
    assert_audited(&shop).await;
    held.end("COMMIT").await;
    recorder.handled(HOLES).await;
    until(|| async { ledgers(&shop).await == (0, 0) }).await;
    let mut handled = recorder.sequences();
    handled.sort_unstable();
    assert_eq!(handled, held.all(), "each once, by one of the partitions");
    assert_audited(&shop).await;
    node.shutdown().await.unwrap();
}

/// A reset keeps what of a long ledger lies below, and what is removed leaves nothing.
#[tokio::test]
async fn a_long_ledger_is_reset_and_removed() {
    let shop = Shop::open().await;
    let mut held = Held::open(&shop, HOLES / 2).await;
    let recorder = Recorder::new("eager");
    let node = shop.shop.node("n1").run(Subscription::of(recorder.clone()).config(passing())).start().await.unwrap();
    until_passed(&shop, "eager", held.last()).await;
    node.shutdown().await.unwrap();
    let middle = held.visible[HOLES / 4 - 1];
    shop.shop.subscribers().reset("eager", middle).await.unwrap();
    assert_eq!(ledgers(&shop).await.0, HOLES as i64 / 4);
    assert_audited(&shop).await;
    held.end("COMMIT").await;
    let node = shop.shop.node("n1").run(Subscription::of(recorder.clone()).config(passing())).start().await.unwrap();
    recorder.handled(HOLES / 2 + HOLES * 3 / 4).await;
    until_settled(&shop, "eager").await;
    assert_audited(&shop).await;
    node.shutdown().await.unwrap();
    shop.shop.subscribers().remove("eager", true).await.unwrap();
    let left = "SELECT count(*) FROM headwater_private.ledger_chunks";
    let left: i64 = sqlx::query_scalar(left).fetch_one(shop.headwater.pool()).await.unwrap();
    assert_eq!(left, 0);
}
