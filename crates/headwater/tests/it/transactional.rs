//! Transactional handlers: effects, emitted events and checkpoint commit together, or not at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::common::{Per, Shop, SlowCommit, effects_per, quick, soon, until};
use headwater::delivery::{OperatorStore, ReliableDeliveryConfig, StartFrom};
use headwater::log::Append;
use headwater::{Delivery, Event, HandlerError, Json, Subscription, Transaction};
use sqlx::PgConnection;
use tokio::sync::Semaphore;

async fn with_table() -> Shop {
    with_table_in(Shop::open().await).await
}

async fn with_table_in(shop: Shop) -> Shop {
    sqlx::raw_sql("CREATE TABLE effects (event_id uuid NOT NULL)").execute(shop.headwater.pool()).await.unwrap();
    shop
}

async fn effect(event: &Event, tx: &mut PgConnection) -> Result<(), HandlerError> {
    sqlx::query("INSERT INTO effects (event_id) VALUES ($1)").bind(event.id).execute(tx).await?;
    Ok(())
}

/// How many effects there are, and of how many events.
async fn effects(shop: &Shop) -> (i64, i64) {
    let count = "SELECT count(*), count(DISTINCT event_id) FROM effects";
    sqlx::query_as(count).fetch_one(shop.headwater.pool()).await.unwrap()
}

#[tokio::test]
async fn effects_and_checkpoint_commit_together() {
    let shop = with_table().await;
    let last = shop.emit_many(30).await;
    for (id, per) in [("by-event", Per::Event), ("by-batch", Per::Batch)] {
        let node = shop
            .shop
            .node("n1")
            .run(effects_per(id, per, |event, tx| Box::pin(effect(event, tx))))
            .start()
            .await
            .unwrap();
        soon(node.wait_for(id, last)).await.unwrap();
        node.shutdown().await.unwrap();
        assert_eq!(effects(&shop).await, (30, 30));
        let transactions: i64 = sqlx::query_scalar("SELECT count(DISTINCT xmin::text) FROM effects")
            .fetch_one(shop.headwater.pool())
            .await
            .unwrap();
        assert_eq!(transactions, if matches!(per, Per::Event) { 30 } else { 1 });
        sqlx::raw_sql("TRUNCATE effects").execute(shop.headwater.pool()).await.unwrap();
    }
    assert_eq!(shop.shop.subscribers().audit(&[]).await.unwrap().findings, []);
}

#[tokio::test]
async fn a_node_that_stops_ends_after_the_transaction_that_it_is_in() {
    let shop = with_table().await;
    // Events of one key, so that their partition takes many batches at once.
    let hot = |append: Append, _| append.event(Event { key: Some("hot".into()), ..Event::raw("E", Json::null()) });
    let last = shop.shop.append_all((0..100).fold(Append::new(), hot)).await.unwrap().events[99].global_sequence;
    let (begun, gate) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let node = |name: &str| {
        let (begun, gate) = (begun.clone(), gate.clone());
        let handler = move |events: Vec<Delivery>, mut tx: Transaction| {
            let (begun, gate) = (begun.clone(), gate.clone());
            async move {
                begun.add_permits(1);
                // Closed: all may go on.
                _ = gate.acquire().await;
                for event in &events {
                    effect(event, &mut tx).await?;
                }
                Ok(())
            }
        };
        shop.shop
            .node(name)
            .run(Subscription::new("group").partitions(16).batch_size(10).transactional_batch(handler).config(quick()))
    };
    let one = node("one").start().await.unwrap();
    soon(begun.acquire()).await.unwrap().forget();
    let mut shutdown = std::pin::pin!(one.shutdown());
    // The first poll tells it to stop.
    assert!(futures::poll!(&mut shutdown).is_pending());
    gate.close();
    soon(shutdown).await.unwrap();
    assert_eq!(effects(&shop).await, (10, 10));
    let two = node("two").start().await.unwrap();
    soon(two.wait_for("group", last)).await.unwrap();
    two.shutdown().await.unwrap();
    assert_eq!(effects(&shop).await, (100, 100));
    assert_eq!(shop.shop.subscribers().audit(&[]).await.unwrap().findings, []);
}

#[tokio::test]
async fn a_failure_leaves_no_effect_and_a_retry_has_one() {
    let shop = with_table().await;
    let tries = Arc::new(AtomicU32::new(0));
    let counted = tries.clone();
    let node = shop
        .shop
        .node("n1")
        .run(
            Subscription::new("flaky")
                .transactional(move |event: Delivery, mut tx: Transaction| {
                    let tries = counted.clone();
                    async move {
                        effect(&event, &mut tx).await?;
                        if tries.fetch_add(1, Ordering::Relaxed) < 2 {
                            return Err(HandlerError::message("after the effect"));
                        }
                        Ok(())
                    }
                })
                .config(quick()),
        )
        .start()
        .await
        .unwrap();
    let last = shop.emit(&["a", "b"]).await;
    soon(node.wait_for("flaky", last)).await.unwrap();
    node.shutdown().await.unwrap();
    assert_eq!(effects(&shop).await, (2, 2));
    assert_eq!(tries.load(Ordering::Relaxed), 4);
}

#[tokio::test]
async fn a_failed_batch_commits_its_good_events_and_buries_the_bad_one() {
    let shop = with_table().await;
    let last = shop.emit(&["good", "bad", "good"]).await;
    let node = shop
        .shop
        .node("n1")
        .run(effects_per("batch", Per::Batch, |event, tx| {
            Box::pin(async move {
                effect(event, tx).await?;
                if event.event_type == "bad" { Err(HandlerError::permanent("bad")) } else { Ok(()) }
            })
        }))
        .start()
        .await
        .unwrap();
    soon(node.wait_for("batch", last)).await.unwrap();
    node.shutdown().await.unwrap();
    assert_eq!(effects(&shop).await, (2, 2));
    assert_eq!(shop.info("batch").await.dead_letters, 1);
}

#[tokio::test]
async fn emitted_events_commit_with_the_effect() {
    let shop = with_table().await;
    let namespace = shop.shop.clone();
    let failed = Arc::new(AtomicU32::new(0));
    let node = shop
        .shop
        .node("n1")
        .run(
            Subscription::new("answers")
                .transactional(move |event: Delivery, mut tx: Transaction| {
                    let (namespace, failed) = (namespace.clone(), failed.clone());
                    async move {
                        namespace.emit_in(&mut tx, Event::raw("answer", Json::null())).await?;
                        effect(&event, &mut tx).await?;
                        if failed.fetch_add(1, Ordering::Relaxed) == 0 {
                            return Err(HandlerError::message("the first answer is rolled back"));
                        }
                        Ok(())
                    }
                })
                .event_types(["question"])
                .config(quick()),
        )
        .start()
        .await
        .unwrap();
    let last = shop.emit(&["question"]).await;
    soon(node.wait_for("answers", last)).await.unwrap();
    node.shutdown().await.unwrap();
    let answers: i64 = sqlx::query_scalar("SELECT count(*) FROM headwater_private.events WHERE event_type = 'answer'")
        .fetch_one(shop.headwater.pool())
        .await
        .unwrap();
    assert_eq!((answers, effects(&shop).await), (1, (1, 1)));
}

/// Ends the session of the transaction at one of its steps, once: what a kill at that step does.
#[tokio::test]
async fn a_kill_at_any_step_leaves_one_effect() {
    let shop = with_table().await;
    // Ends the session that commits, in the middle of its commit, when it is asked to.
    let setup = "CREATE TABLE kills (step text);
        CREATE FUNCTION kill_now() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
            IF EXISTS (SELECT FROM kills WHERE step = TG_ARGV[0]) THEN
                PERFORM pg_terminate_backend(pg_backend_pid());
            END IF;
            RETURN NULL; END $$;
        CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON effects DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION kill_now('commit');
        CREATE TRIGGER at_effect AFTER INSERT ON effects FOR EACH ROW EXECUTE FUNCTION kill_now('effect');
        CREATE TRIGGER at_checkpoint AFTER UPDATE OF position ON headwater_private.subscribers FOR EACH ROW
            EXECUTE FUNCTION kill_now('checkpoint')";
    sqlx::raw_sql(setup).execute(shop.headwater.pool()).await.unwrap();
    let node = shop
        .shop
        .node("n1")
        .run(
            Subscription::new("killed")
                .transactional(|event: Delivery, mut tx: Transaction| async move { effect(&event, &mut tx).await })
                .config(ReliableDeliveryConfig { max_retries: 100, start_from: StartFrom::Now, ..quick() }),
        )
        .start()
        .await
        .unwrap();
    for (count, step) in (1..).zip(["effect", "checkpoint", "commit"]) {
        sqlx::query("INSERT INTO kills VALUES ($1)").bind(step).execute(shop.headwater.pool()).await.unwrap();
        let last = shop.emit(&[step]).await;
        until(|| async { node.status().subscribers[0].report.detail.is_some() }).await;
        sqlx::query("DELETE FROM kills").execute(shop.headwater.pool()).await.unwrap();
        soon(node.wait_for("killed", last)).await.unwrap();
        assert_eq!(effects(&shop).await, (count, count), "killed at {step}");
    }
    node.shutdown().await.unwrap();
    assert_eq!(shop.shop.subscribers().audit(&[]).await.unwrap().findings, []);
}

#[tokio::test]
async fn an_owner_that_was_replaced_commits_no_effect() {
    let shop = with_table().await;
    let (told, mut begun) = tokio::sync::mpsc::unbounded_channel();
    let let_go = Arc::new(tokio::sync::Semaphore::new(0));
    let waiting = let_go.clone();
    let node = shop
        .shop
        .node("zombie")
        .run(Subscription::new("mailer").transactional(move |event: Delivery, mut tx: Transaction| {
            let (told, let_go) = (told.clone(), waiting.clone());
            async move {
                effect(&event, &mut tx).await?;
                told.send(())?;
                let_go.acquire().await?.forget();
                Ok(())
            }
        }))
        .start()
        .await
        .unwrap();
    let last = shop.emit(&["a"]).await;
    soon(begun.recv()).await.unwrap();
    shop.shop.subscribers().reset("mailer", last).await.unwrap();
    let_go.add_permits(1);
    until(|| async { shop.info("mailer").await.owner.is_some() }).await;
    assert_eq!(effects(&shop).await, (0, 0));
    assert_eq!(shop.info("mailer").await.position, last);
    node.shutdown().await.unwrap();
}

async fn is_buried(handler: fn(&mut PgConnection) -> futures::future::BoxFuture<'_, Result<(), HandlerError>>) {
    let shop = with_table().await;
    let tables = "CREATE TABLE parent (id int PRIMARY KEY);
                  CREATE TABLE child (id int REFERENCES parent DEFERRABLE INITIALLY DEFERRED)";
    sqlx::raw_sql(tables).execute(shop.headwater.pool()).await.unwrap();
    let node = shop
        .shop
        .node("n1")
        .run(
            effects_per("bad", Per::Batch, move |event, tx| {
                Box::pin(
                    async move { if event.event_type == "bad" { handler(tx).await } else { effect(event, tx).await } },
                )
            })
            .config(ReliableDeliveryConfig { max_retries: 1, ..quick() }),
        )
        .start()
        .await
        .unwrap();
    let last = shop.emit(&["bad", "good"]).await;
    soon(node.wait_for("bad", last)).await.unwrap();
    node.shutdown().await.unwrap();
    assert_eq!((effects(&shop).await, shop.info("bad").await.dead_letters), ((1, 1), 1));
    assert_eq!(shop.shop.subscribers().audit(&[]).await.unwrap().findings, []);
}

#[tokio::test]
async fn an_error_that_the_handler_swallows_is_its_failure() {
    is_buried(|tx| {
        Box::pin(async move {
            _ = sqlx::query("INSERT INTO nowhere VALUES (7)").execute(tx).await;
            Ok(())
        })
    })
    .await;
}

#[tokio::test]
async fn a_constraint_that_fails_at_the_commit_is_the_handlers_failure() {
    is_buried(|tx| {
        Box::pin(async move {
            sqlx::query("INSERT INTO child VALUES (7)").execute(tx).await?;
            Ok(())
        })
    })
    .await;
}

/// A commit that takes longer than the client waits, and succeeds: the next try must find that out.
#[tokio::test]
async fn a_slow_commit_has_its_effect_once() {
    let shop = with_table_in(Shop::open_impatient().await).await;
    let mut commit = SlowCommit::of(&shop, "effects", 1).await;
    let node = shop
        .shop
        .node("n1")
        .run(
            Subscription::new("slow")
                .transactional(|event: Delivery, mut tx: Transaction| async move { effect(&event, &mut tx).await })
                .config(quick()),
        )
        .start()
        .await
        .unwrap();
    shop.emit(&["a"]).await;
    let last = shop.emit(&["b"]).await;
    commit.is_given_up().await;
    commit.let_go().await;
    soon(node.wait_for("slow", last)).await.unwrap();
    node.shutdown().await.unwrap();
    assert_eq!(effects(&shop).await, (2, 2));
    assert_eq!(shop.shop.subscribers().audit(&[]).await.unwrap().findings, []);
}
