//! A transaction per key, with more groups in a batch than the ledger can hold: they are settled
//! ahead of the checkpoint.

use std::sync::Arc;

use crate::common::{Shop, SlowCommit, quick, soon, until};
use headwater::delivery::{OperatorStore, ReliableDeliveryConfig, Transactional};
use headwater::log::Append;
use headwater::{Bundle, Delivery, Event, HandlerError, Json, Subscription, Transaction};
use sqlx::PgConnection;
use tokio::sync::{Semaphore, watch};

const EVENTS: u64 = 1_000;
const KEYS: u64 = 100;

async fn with_backlog() -> (Shop, u64) {
    with_backlog_in(Shop::open().await).await
}

async fn with_backlog_in(shop: Shop) -> (Shop, u64) {
    let table = "CREATE TABLE effects (sequence bigint NOT NULL, tx xid8 NOT NULL DEFAULT pg_current_xact_id())";
    sqlx::raw_sql(table).execute(shop.headwater.pool()).await.unwrap();
    let keyed = |n: u64| Event { key: Some(format!("k{}", n % KEYS)), ..Event::raw("e", Json::null()) };
    let append = (0..EVENTS).fold(Append::new(), |append, n| append.event(keyed(n)));
    let last = shop.shop.append_all(append).await.unwrap().events.last().unwrap().global_sequence;
    (shop, last)
}

async fn effect(event: &Event, tx: &mut PgConnection) -> Result<(), HandlerError> {
    let insert = "INSERT INTO effects (sequence) VALUES ($1)";
    sqlx::query(insert).bind(event.global_sequence.unwrap() as i64).execute(tx).await?;
    Ok(())
}

fn keys() -> Subscription<Transactional> {
    Subscription::new("keys")
        .bundled_by(Bundle::Key)
        .transactional(|event: Delivery, mut tx: Transaction| async move { effect(&event, &mut tx).await })
        .config(quick())
}

/// A subscription that stops in the last event of a bundle, when `after` events before it are done.
/// Also returns how many events have begun.
fn stopping(after: u64) -> (Subscription<Transactional>, watch::Receiver<u64>, Arc<Semaphore>) {
    let (begun, seen) = watch::channel(0);
    let gate = Arc::new(Semaphore::new(0));
    let waiting = gate.clone();
    let keys = Subscription::new("keys")
        .bundled_by(Bundle::Key)
        .transactional(move |event: Delivery, mut tx: Transaction| {
            begun.send_modify(|begun| *begun += 1);
            let (stops, gate) = (*begun.borrow() > after, waiting.clone());
            async move {
                effect(&event, &mut tx).await?;
                if stops {
                    gate.acquire().await?.forget();
                }
                Ok(())
            }
        })
        .config(quick());
    (keys, seen, gate)
}

async fn number(shop: &Shop, query: &'static str) -> i64 {
    sqlx::query_scalar(query).fetch_one(shop.headwater.pool()).await.unwrap()
}

/// Effects, events that have one, and transactions.
async fn effects(shop: &Shop) -> (i64, i64, i64) {
    let count = "SELECT count(*), count(DISTINCT sequence), count(DISTINCT tx) FROM effects";
    sqlx::query_as(count).fetch_one(shop.headwater.pool()).await.unwrap()
}

async fn notes(shop: &Shop) -> i64 {
    number(shop, "SELECT count(*) FROM headwater_private.settled_ahead").await
}

async fn is_clean(shop: &Shop, last: u64) {
    let info = shop.info("keys").await;
    assert_eq!((info.position, notes(shop).await), (last, 0));
    assert_eq!(shop.shop.subscribers().audit(&[]).await.unwrap().findings, []);
}

#[tokio::test]
async fn each_group_is_a_transaction_and_no_ledger_is_written() {
    let (shop, last) = with_backlog().await;
    let ledgers = "CREATE TABLE ledgers (ranges int);
        CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
            INSERT INTO ledgers VALUES (cardinality(new.pending_gaps) / 2); RETURN NULL; END $$;
        CREATE TRIGGER note AFTER UPDATE ON headwater_private.subscribers FOR EACH ROW EXECUTE FUNCTION note()";
    sqlx::raw_sql(ledgers).execute(shop.headwater.pool()).await.unwrap();
    let node = shop.shop.node("one").run(keys()).start().await.unwrap();
    soon(node.wait_for("keys", last)).await.unwrap();
    node.shutdown().await.unwrap();
    assert_eq!(effects(&shop).await, (EVENTS as i64, EVENTS as i64, KEYS as i64));
    assert_eq!(number(&shop, "SELECT max(ranges)::bigint FROM ledgers").await, 0);
    is_clean(&shop, last).await;
}

#[tokio::test]
async fn whoever_takes_over_does_not_handle_them_again() {
    let (shop, last) = with_backlog().await;
    let (one, mut begun, _gate) = stopping(35);
    let one = shop.shop.node("one").run(one).start().await.unwrap();
    soon(begun.wait_for(|begun| *begun > 35)).await.unwrap();
    assert_eq!((effects(&shop).await, notes(&shop).await), ((30, 30, 3), 3));
    assert_eq!(shop.shop.subscribers().audit(&[]).await.unwrap().findings, []);
    drop(one);
    let two = shop.shop.node("two").run(keys()).start().await.unwrap();
    soon(two.wait_for("keys", last)).await.unwrap();
    two.shutdown().await.unwrap();
    assert_eq!(effects(&shop).await, (EVENTS as i64, EVENTS as i64, KEYS as i64));
    is_clean(&shop, last).await;
}

#[tokio::test]
async fn a_reset_forgets_them() {
    let (shop, last) = with_backlog().await;
    let (one, mut begun, gate) = stopping(35);
    let one = shop.shop.node("one").run(one).start().await.unwrap();
    soon(begun.wait_for(|begun| *begun > 35)).await.unwrap();
    shop.shop.subscribers().reset("keys", last - EVENTS).await.unwrap();
    assert_eq!(notes(&shop).await, 0);
    // What was under way in the old term commits nothing; then everything is handled anew.
    gate.close();
    one.shutdown().await.unwrap();
    assert_eq!(effects(&shop).await, (30, 30, 3));
    let two = shop.shop.node("two").run(keys()).start().await.unwrap();
    soon(two.wait_for("keys", last)).await.unwrap();
    two.shutdown().await.unwrap();
    assert_eq!(effects(&shop).await, (EVENTS as i64 + 30, EVENTS as i64, KEYS as i64 + 3));
    is_clean(&shop, last).await;
}

#[tokio::test]
async fn another_number_of_partitions_does_not_repeat_them() {
    let (shop, last) = with_backlog().await;
    let (one, mut begun, _gate) = stopping(35);
    let one = shop.shop.node("one").run(one.partitions(1)).start().await.unwrap();
    soon(begun.wait_for(|begun| *begun > 35)).await.unwrap();
    drop(one);
    assert_eq!(notes(&shop).await, 3);
    let subscribers = shop.shop.subscribers();
    subscribers.resize("keys", 3).await.unwrap();
    let two = shop.shop.node("two").run(keys().partitions(3)).start().await.unwrap();
    until(|| async {
        let group = subscribers.group("keys").await.unwrap();
        group.resize_to.is_none() && group.partitions.iter().all(|partition| partition.position >= last)
    })
    .await;
    two.shutdown().await.unwrap();
    let (all, events, _) = effects(&shop).await;
    assert_eq!((all, events, notes(&shop).await), (EVENTS as i64, EVENTS as i64, 0));
    assert_eq!(subscribers.audit(&[]).await.unwrap().findings, []);
}

#[tokio::test]
async fn a_group_that_fails_becomes_dead_letters_and_the_others_are_done() {
    let (shop, last) = with_backlog().await;
    let node = shop
        .shop
        .node("one")
        .run(
            Subscription::new("keys")
                .bundled_by(Bundle::Key)
                .transactional(|event: Delivery, mut tx: Transaction| async move {
                    effect(&event, &mut tx).await?;
                    if event.key.as_deref() == Some("k7") { Err(HandlerError::permanent("no")) } else { Ok(()) }
                })
                .config(ReliableDeliveryConfig { max_retries: 0, ..quick() }),
        )
        .start()
        .await
        .unwrap();
    soon(node.wait_for("keys", last)).await.unwrap();
    node.shutdown().await.unwrap();
    assert_eq!((effects(&shop).await, shop.info("keys").await.dead_letters), ((990, 990, 99), 10));
    is_clean(&shop, last).await;
}

/// A commit that takes longer than the client waits, and succeeds: the next try must find that out.
#[tokio::test]
async fn a_slow_commit_has_its_effects_once() {
    let (shop, last) = with_backlog_in(Shop::open_impatient().await).await;
    let mut commit = SlowCommit::of(&shop, "headwater_private.settled_ahead", 5).await;
    let node = shop.shop.node("one").run(keys()).start().await.unwrap();
    commit.is_given_up().await;
    commit.let_go().await;
    soon(node.wait_for("keys", last)).await.unwrap();
    node.shutdown().await.unwrap();
    assert_eq!(effects(&shop).await, (EVENTS as i64, EVENTS as i64, KEYS as i64));
    is_clean(&shop, last).await;
}
