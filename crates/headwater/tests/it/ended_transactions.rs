//! Handlers that end the transaction they were given, by COMMIT or ROLLBACK: other events in it
//! lose nothing, and the handler gets an error.

use crate::common::{Per, Shop, effects_per, quick, until};
use headwater::delivery::{DeadLetterQuery, OperatorStore, ReliableDeliveryConfig};
use headwater::node::NodeBuilder;
use headwater::{Delivery, Event, HandlerError, Queue, Subscription, Transaction};
use sqlx::{Connection, PgConnection};

async fn with_table() -> Shop {
    let shop = Shop::open().await;
    sqlx::raw_sql("CREATE TABLE effects (event_type text NOT NULL)").execute(shop.headwater.pool()).await.unwrap();
    shop
}

async fn effects(shop: &Shop) -> Vec<String> {
    let query = "SELECT event_type FROM effects ORDER BY event_type";
    sqlx::query_scalar(query).fetch_all(shop.headwater.pool()).await.unwrap()
}

/// Writes an effect. Then an event of the type `ROLLBACK` or `COMMIT` ends the transaction with
/// that statement. For `savepoint`, the driver ends it: if nobody waits for a savepoint, it rolls
/// back everything.
async fn handle(event: &Event, tx: &mut PgConnection) -> Result<(), HandlerError> {
    sqlx::query("INSERT INTO effects VALUES ($1)").bind(&event.event_type).execute(&mut *tx).await?;
    if event.event_type == "savepoint" {
        // Where the server is quick, once more.
        while futures::poll!(std::pin::pin!(tx.begin())).is_ready() {}
        return Ok(());
    }
    if let "ROLLBACK" | "COMMIT" = event.event_type.as_str() {
        sqlx::raw_sql(sqlx::AssertSqlSafe(event.event_type.clone())).execute(tx).await?;
    }
    Ok(())
}

fn config() -> ReliableDeliveryConfig {
    ReliableDeliveryConfig { max_retries: 1, ..quick() }
}

fn shared(shop: &Shop) -> NodeBuilder {
    shop.shop.node("one").run(
        Queue::new("work")
            .transactional(|event: Delivery, mut tx: Transaction| async move { handle(&event, &mut tx).await })
            .config(config()),
    )
}

async fn error(shop: &Shop) -> String {
    let letters = shop.shop.subscribers().dead_letters(&DeadLetterQuery::default()).await.unwrap();
    assert_eq!(letters.len(), 1);
    letters[0].error().to_owned()
}

#[tokio::test]
async fn a_rollback_by_one_handler_of_a_queue_takes_no_other_effects_along() {
    let shop = with_table().await;
    shop.emit(&["a", "b", "ROLLBACK"]).await;
    let node = shared(&shop).start().await.unwrap();
    until(|| async { shop.info("work").await.position >= 3 }).await;
    node.shutdown().await.unwrap();
    assert_eq!(effects(&shop).await, ["a", "b"]);
    assert!(error(&shop).await.contains("the handler ended its transaction"), "{}", error(&shop).await);
}

#[tokio::test]
async fn a_commit_by_a_handler_of_a_queue_is_its_failure() {
    let shop = with_table().await;
    shop.emit(&["COMMIT"]).await;
    let node = shared(&shop).start().await.unwrap();
    until(|| async { shop.info("work").await.position >= 1 }).await;
    node.shutdown().await.unwrap();
    assert!(error(&shop).await.contains("the handler ended its transaction"), "{}", error(&shop).await);
}

#[tokio::test]
async fn an_event_whose_effects_the_driver_rolled_back_is_not_passed_in_silence() {
    let shop = with_table().await;
    shop.emit(&["savepoint"]).await;
    let node = shop
        .shop
        .node("one")
        .run(
            Subscription::new("work")
                .transactional(|event: Delivery, mut tx: Transaction| async move { handle(&event, &mut tx).await })
                .config(config()),
        )
        .start()
        .await
        .unwrap();
    until(|| async { shop.info("work").await.position >= 1 }).await;
    node.shutdown().await.unwrap();
    assert_eq!(effects(&shop).await, [""; 0]);
    assert!(error(&shop).await.contains("the handler ended its transaction"), "{}", error(&shop).await);
}

#[tokio::test]
async fn a_rollback_by_one_handler_of_a_batch_takes_no_other_effects_along() {
    let shop = with_table().await;
    shop.emit(&["a", "b", "ROLLBACK"]).await;
    let node = shop
        .shop
        .node("one")
        .run(effects_per("totals", Per::Batch, |event, tx| Box::pin(handle(event, tx))).config(config()))
        .start()
        .await
        .unwrap();
    until(|| async { shop.info("totals").await.position >= 3 }).await;
    node.shutdown().await.unwrap();
    assert_eq!(effects(&shop).await, ["a", "b"]);
}

#[tokio::test]
async fn savepoints_are_the_handlers_own() {
    let shop = with_table().await;
    shop.emit(&["a", "b"]).await;
    let node = shop
        .shop
        .node("one")
        .run(
            Queue::new("work")
                .transactional(|event: Delivery, mut tx: Transaction| async move {
                    let mut inner = tx.begin().await?;
                    handle(&event, &mut inner).await?;
                    inner.rollback().await?;
                    let mut inner = tx.begin().await?;
                    _ = sqlx::query("INSERT INTO nowhere VALUES (7)").execute(&mut *inner).await;
                    drop(inner);
                    handle(&event, &mut tx).await
                })
                .config(config()),
        )
        .start()
        .await
        .unwrap();
    until(|| async { shop.info("work").await.position >= 2 }).await;
    node.shutdown().await.unwrap();
    assert_eq!(effects(&shop).await, ["a", "b"]);
    assert_eq!(shop.info("work").await.dead_letters, 0);
}
