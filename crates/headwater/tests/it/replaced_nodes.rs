//! Processes that were replaced under their node's id and do not know it yet, and handlers that
//! hang: they delay nobody.

use std::time::Duration;

use crate::common::{Shop, quick, soon, state, until};
use headwater::delivery::{ReliableDeliveryConfig, RunnerState};
use headwater::node::NodeOptions;
use headwater::{Delivery, Node, Queue, Transaction};
use serde_json::json;
use tokio::sync::mpsc;

/// A node that hears broadcasts, and says which.
async fn hears(shop: &Shop, id: &str) -> (Node, mpsc::UnboundedReceiver<u64>) {
    // Nothing is heard of this incarnation for as long as a test runs.
    let options = NodeOptions::new(id).delivery(quick()).heartbeat(Duration::from_secs(3600));
    let node = shop.shop.register_node(options).await.unwrap();
    let (told, heard) = mpsc::unbounded_channel();
    node.on_broadcast("*", move |event: Delivery, _tx| {
        told.send(event.message_id()).unwrap();
        async { Ok(()) }
    })
    .unwrap();
    (node, heard)
}

#[tokio::test]
async fn broadcasts_are_for_the_process_that_is_the_node() {
    let shop = Shop::open().await;
    let (zombie, mut heard_by_zombie) = hears(&shop, "one").await;
    zombie.start().await.unwrap();
    let before = zombie.broadcast("cache.cleared", json!(-1)).await.unwrap();
    assert_eq!(soon(heard_by_zombie.recv()).await, Some(before), "it is the node");
    until(|| async { shop.info("broadcast:one").await.position >= before }).await;
    let (successor, mut heard) = hears(&shop, "one").await;
    let first = zombie.broadcast("cache.cleared", json!(0)).await.unwrap();
    // It may hear this one, if it does not know yet.
    until(|| async { state(&zombie).0 == RunnerState::StandingBy }).await;
    successor.start().await.unwrap();
    for n in 1..20 {
        successor.broadcast("cache.cleared", json!(n)).await.unwrap();
    }
    for sequence in first..first + 20 {
        assert_eq!(soon(heard.recv()).await, Some(sequence));
    }
    assert_eq!(state(&zombie).0, RunnerState::StandingBy);
    while let Ok(sequence) = heard_by_zombie.try_recv() {
        assert_eq!(sequence, first, "what came afterwards is its successor's");
    }
    successor.shutdown().await.unwrap();
    zombie.shutdown().await.unwrap();
}

/// Otherwise the pool would lack its connection, and everybody else would wait for its locks, for
/// as long as it waits.
#[tokio::test]
async fn a_handler_that_waits_for_a_lock_is_ended_in_the_server_too() {
    let shop = Shop::open().await;
    sqlx::raw_sql("CREATE TABLE effects (event_id uuid)").execute(shop.headwater.pool()).await.unwrap();
    let mut holder = shop.db.session().await;
    sqlx::raw_sql("BEGIN; LOCK TABLE effects").execute(&mut holder).await.unwrap();
    let node = shop
        .shop
        .node("one")
        .run(
            Queue::new("work")
                .transactional(|event: Delivery, mut tx: Transaction| async move {
                    sqlx::query("INSERT INTO effects VALUES ($1)").bind(event.id).execute(&mut *tx).await?;
                    Ok(())
                })
                .config(ReliableDeliveryConfig {
                    handler_timeout: Duration::from_millis(200),
                    max_retries: 0,
                    ..quick()
                }),
        )
        .start()
        .await
        .unwrap();
    shop.emit(&["a"]).await;
    until(|| async { shop.info("work").await.dead_letters == 1 }).await;
    let mut session = shop.db.session().await;
    let waiting = "SELECT count(*) FROM pg_locks WHERE relation = 'effects'::regclass AND NOT granted";
    soon(async {
        while sqlx::query_scalar::<_, i64>(waiting).fetch_one(&mut session).await.unwrap() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    sqlx::raw_sql("ROLLBACK").execute(&mut holder).await.unwrap();
    node.shutdown().await.unwrap();
}
