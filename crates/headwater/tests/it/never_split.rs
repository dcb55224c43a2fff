//! Events that one transaction appended for one key and actor are handled in one transaction,
//! whatever others append in between, and whatever happens to the partitions meanwhile.

use std::time::Duration;

use crate::common::{Shop, quick, soon, until};
use headwater::admin::{NamespaceConfig, Ordering};
use headwater::delivery::{OperatorStore, ReliableDeliveryConfig, Transactional, partition_of};
use headwater::log::Append;
use headwater::node::NodeBuilder;
use headwater::{Bundle, Delivery, Event, HandlerError, Json, Namespace, Node, Subscription, Transaction};
use sqlx::{PgConnection, Row};
use tokio::sync::watch;

/// Effects, with the transaction that made each: effects of a group share it.
async fn with_table() -> Shop {
    let shop = Shop::open().await;
    let table =
        "CREATE TABLE effects (n bigserial, sequence bigint NOT NULL, tx xid8 NOT NULL DEFAULT pg_current_xact_id())";
    sqlx::raw_sql(table).execute(shop.headwater.pool()).await.unwrap();
    shop
}

async fn effect(event: &Event, tx: &mut PgConnection) -> Result<(), HandlerError> {
    let insert = "INSERT INTO effects (sequence) VALUES ($1)";
    sqlx::query(insert).bind(event.global_sequence.unwrap() as i64).execute(tx).await?;
    Ok(())
}

fn by(key: &str, actor: &str) -> Event {
    Event { key: Some(key.into()), actor_id: Some(actor.into()), ..Event::raw("done", Json::null()) }
}

async fn begin(shop: &Shop) -> PgConnection {
    let mut session = shop.db.session().await;
    sqlx::raw_sql("BEGIN").execute(&mut session).await.unwrap();
    session
}

async fn commit(session: &mut PgConnection) {
    sqlx::raw_sql("COMMIT").execute(session).await.unwrap();
}

/// Appends so many events in a transaction that stays open, one after the other.
async fn append_in(session: &mut PgConnection, events: u32, key: &str, actor: &str) -> u64 {
    let emit = "SELECT max(headwater.emit('shop', 'done', key => $2, actor_id => $3)) FROM generate_series(1, $1)";
    let row = sqlx::query(emit).bind(events as i32).bind(key).bind(actor).fetch_one(session).await.unwrap();
    row.get::<i64, _>(0) as u64
}

/// Commits events of others, of some keys.
async fn others(namespace: &Namespace, events: u32) -> u64 {
    let append = (0..events).fold(Append::new(), |append, n| append.event(by(&format!("other-{}", n % 20), "z")));
    namespace.append_all(append).await.unwrap().events.last().unwrap().global_sequence
}

fn small() -> ReliableDeliveryConfig {
    ReliableDeliveryConfig { catch_up_batch_size: 100, hold_for: Duration::MAX, ..quick() }
}

fn keyed() -> Subscription<Transactional> {
    Subscription::new("keyed")
        .bundled_by(Bundle::KeyAndActor)
        .transactional(|event: Delivery, mut tx: Transaction| async move { effect(&event, &mut tx).await })
        .config(small())
}

async fn run_to(node: NodeBuilder, last: u64) -> Node {
    let node = node.start().await.unwrap();
    soon(node.wait_for("keyed", last)).await.unwrap();
    node
}

async fn number(shop: &Shop, query: &'static str) -> i64 {
    sqlx::query_scalar(query).fetch_one(shop.headwater.pool()).await.unwrap()
}

/// Each event of the namespace has one effect, in order within its key. The events that a
/// transaction appended for one key and actor share a transaction.
async fn assert_whole(shop: &Shop, namespace: &Namespace) {
    let split = "SELECT count(*) FROM (
        SELECT FROM effects f JOIN headwater_private.events e ON e.global_sequence = f.sequence JOIN headwater_private.namespaces n USING (namespace_id)
         WHERE n.namespace = $1 GROUP BY e.transaction_id, e.key, e.actor_id HAVING count(DISTINCT f.tx) > 1) s";
    let missing =
        "SELECT count(*) FROM headwater_private.events e JOIN headwater_private.namespaces n USING (namespace_id)
         WHERE n.namespace = $1 AND (SELECT count(*) FROM effects f WHERE f.sequence = e.global_sequence) <> 1";
    let reordered = "SELECT count(*) FROM (
        SELECT f.sequence < lag(f.sequence) OVER (PARTITION BY e.key ORDER BY f.n) AS wrong
          FROM effects f JOIN headwater_private.events e ON e.global_sequence = f.sequence JOIN headwater_private.namespaces n USING (namespace_id)
         WHERE n.namespace = $1) o WHERE wrong";
    sqlx::raw_sql(
        "CREATE INDEX IF NOT EXISTS by_sequence ON effects (sequence); ANALYZE effects, headwater_private.events",
    )
    .execute(shop.headwater.pool())
    .await
    .unwrap();
    for (query, what) in [(split, "split"), (missing, "missing or repeated"), (reordered, "out of order")] {
        let wrong: i64 =
            sqlx::query_scalar(query).bind(&namespace.info().name).fetch_one(shop.headwater.pool()).await.unwrap();
        assert_eq!(wrong, 0, "{what}");
    }
    assert_eq!(namespace.subscribers().audit(&[]).await.unwrap().findings, []);
}

#[tokio::test]
async fn two_interleaved_transactions_of_5000_events() {
    let shop = with_table().await;
    let (mut one, mut two) = (begin(&shop).await, begin(&shop).await);
    // Runs of different length, the longest beyond any look ahead.
    for round in [1, 9, 90, 400, 1_500, 3_000] {
        append_in(&mut one, round, "a", "x").await;
        append_in(&mut two, round, "b", "y").await;
        others(&shop.shop, round.min(500)).await;
    }
    commit(&mut one).await;
    commit(&mut two).await;
    let last = others(&shop.shop, 2_500).await;
    let node = run_to(shop.shop.node("n1").run(keyed()), last).await;
    assert_whole(&shop, &shop.shop).await;
    let large = "SELECT count(*) FROM (SELECT FROM effects GROUP BY tx HAVING count(*) = 5000) g";
    assert_eq!(number(&shop, large).await, 2);
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_transaction_with_3000_events_of_others_between_its_own() {
    let shop = with_table().await;
    let mut long = begin(&shop).await;
    let first = append_in(&mut long, 1, "a", "x").await;
    others(&shop.shop, 3_000).await;
    append_in(&mut long, 1, "a", "x").await;
    others(&shop.shop, 1_500).await;
    let end = append_in(&mut long, 1, "a", "x").await;
    commit(&mut long).await;
    let last = others(&shop.shop, 2_500).await;
    let node = run_to(shop.shop.node("n1").run(keyed()), last).await;
    assert_whole(&shop, &shop.shop).await;
    let together: Vec<i64> = sqlx::query_scalar(
        "SELECT sequence FROM effects WHERE tx = (SELECT tx FROM effects WHERE sequence = $1) ORDER BY n",
    )
    .bind(first as i64)
    .fetch_all(shop.headwater.pool())
    .await
    .unwrap();
    assert_eq!(together.len(), 3);
    assert_eq!((together[0], together[2]), (first as i64, end as i64));
    node.shutdown().await.unwrap();
}

/// The log of a gapless namespace has one writer at a time: transactions follow each other.
#[tokio::test]
async fn transactions_of_a_gapless_namespace() {
    let shop = with_table().await;
    let config = NamespaceConfig::new("tight").ordering(Ordering::Gapless);
    shop.headwater.create_namespace(config).await.unwrap();
    let tight = shop.headwater.namespace("tight").await.unwrap();
    let mut last = 0;
    for round in 0..3 {
        others(&tight, 1_100).await;
        let long = (0..3_000).fold(Append::new(), |append, n| append.event(by(["a", "b"][n % 2], "x")));
        last = tight.append_all(long).await.unwrap().events.last().unwrap().global_sequence;
        assert!(last > round * 4_000);
    }
    let node = run_to(tight.node("n1").run(keyed()), last).await;
    assert_whole(&shop, &tight).await;
    node.shutdown().await.unwrap();
}

/// A node that hangs at the events that `at` selects, before their effects, and reports how many of
/// them it has reached.
fn hanging(shop: &Shop, config: ReliableDeliveryConfig, at: fn(&Event) -> bool) -> (NodeBuilder, watch::Receiver<u32>) {
    let (told, begun) = watch::channel(0);
    let node = shop.shop.node("n1").run(
        Subscription::new("keyed")
            .bundled_by(Bundle::KeyAndActor)
            .transactional(move |event: Delivery, mut tx: Transaction| {
                let told = told.clone();
                async move {
                    if at(&event) {
                        told.send_modify(|begun| *begun += 1);
                        std::future::pending::<()>().await;
                    }
                    effect(&event, &mut tx).await
                }
            })
            .config(config)
            .partitions(2),
    );
    (node, begun)
}

/// Keys of one of two partitions.
fn keys_of(partition: u32) -> impl Iterator<Item = String> {
    (0..).map(move |n: u32| format!("{partition}-{n}")).filter(move |key| partition_of(key, 2) == partition)
}

async fn is_resized(shop: &Shop, last: u64) {
    let subscribers = shop.shop.subscribers();
    until(|| async {
        let group = subscribers.group("keyed").await.unwrap();
        group.resize_to.is_none() && group.partitions.iter().all(|partition| partition.position >= last)
    })
    .await;
    until(|| async { number(shop, "SELECT count(*) FROM headwater_private.settled_ahead").await == 0 }).await;
}

/// Asks for another number of partitions, until the server has seen that their owner is gone.
async fn begin_resize(shop: &Shop) {
    until(|| async {
        shop.shop.subscribers().resize("keyed", 5).await.unwrap();
        number(shop, "SELECT count(barrier) FROM headwater_private.subscribers").await > 0
    })
    .await;
}

async fn barrier(shop: &Shop) -> u64 {
    number(shop, "SELECT max(barrier) FROM headwater_private.subscribers").await as u64
}

/// The barrier falls into a transaction of 5,000 events. For one partition they are before it; the
/// other partition is in the middle of them.
#[tokio::test]
async fn a_change_of_partitions_in_the_middle_of_a_transaction() {
    let shop = with_table().await;
    others(&shop.shop, 200).await;
    let long_keys: Vec<String> = keys_of(0).take(4).collect();
    let between: Vec<String> = keys_of(1).take(3).collect();
    let mut long = begin(&shop).await;
    for key in &long_keys {
        append_in(&mut long, 625, key, "x").await;
    }
    let first = shop.shop.emit(by(&between[0], "z")).await.unwrap().global_sequence();
    let second = shop.shop.emit(by(&between[1], "z")).await.unwrap().global_sequence();
    shop.shop.emit(by(&between[2], "stop")).await.unwrap();
    for key in &long_keys {
        append_in(&mut long, 625, key, "x").await;
    }
    commit(&mut long).await;
    let last = others(&shop.shop, 2_500).await;
    let (one, mut begun) = hanging(&shop, small(), |event| matches!(event.actor_id.as_deref(), Some("x" | "stop")));
    let one = one.start().await.unwrap();
    soon(begun.wait_for(|begun| *begun == 2)).await.unwrap();
    drop(one);
    begin_resize(&shop).await;
    let barrier = barrier(&shop).await;
    assert!((first..=second).contains(&barrier), "the barrier {barrier} is in the transaction");
    let two = shop.shop.node("n2").run(keyed().partitions(5)).start().await.unwrap();
    is_resized(&shop, last).await;
    assert_whole(&shop, &shop.shop).await;
    two.shutdown().await.unwrap();
}

/// The transaction is open when the barrier falls into it, and its gap was passed. It commits
/// before the old partitions reach the barrier.
#[tokio::test]
async fn a_change_of_partitions_in_the_middle_of_an_open_transaction() {
    let shop = with_table().await;
    let config = ReliableDeliveryConfig { hold_for: Duration::ZERO, ..small() };
    let (held, free) = (keys_of(0).next().unwrap(), keys_of(1).next().unwrap());
    let long_keys: Vec<String> = keys_of(0).skip(1).take(2).chain(keys_of(1).skip(1).take(2)).collect();
    let mut long = begin(&shop).await;
    for key in &long_keys {
        append_in(&mut long, 625, key, "x").await;
    }
    shop.shop.emit(by(&held, "stop")).await.unwrap();
    let middle = shop.shop.emit(by(&free, "z")).await.unwrap().global_sequence();
    let (one, mut begun) = hanging(&shop, config.clone(), |event| event.actor_id.as_deref() == Some("stop"));
    let one = one.start().await.unwrap();
    soon(begun.wait_for(|begun| *begun == 1)).await.unwrap();
    until(|| async { number(&shop, "SELECT max(position) FROM headwater_private.subscribers").await as u64 >= middle })
        .await;
    drop(one);
    begin_resize(&shop).await;
    assert_eq!(barrier(&shop).await, middle);
    for key in &long_keys {
        append_in(&mut long, 625, key, "x").await;
    }
    commit(&mut long).await;
    let last = others(&shop.shop, 2_500).await;
    let two = shop.shop.node("n2").run(keyed().config(config).partitions(5)).start().await.unwrap();
    is_resized(&shop, last).await;
    assert_whole(&shop, &shop.shop).await;
    two.shutdown().await.unwrap();
}
