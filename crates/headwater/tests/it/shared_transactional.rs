//! Transactional handlers of shared subscribers: effects and ack commit together, or not at all.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{Shop, SlowCommit, quick, soon, until};
use headwater::delivery::{DeadLetterQuery, OperatorStore, ReliableDeliveryConfig, SubscriberError, Transactional};
use headwater::queue::ClaimRequest;
use headwater::{Delivery, Event, HandlerError, Queue, Transaction};
use sqlx::PgConnection;
use tokio::sync::{Semaphore, mpsc};

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

async fn transactions(shop: &Shop) -> i64 {
    let count = "SELECT count(DISTINCT xmin::text) FROM effects";
    sqlx::query_scalar(count).fetch_one(shop.headwater.pool()).await.unwrap()
}

fn queue() -> Queue<Transactional> {
    Queue::new("work")
        .transactional(|event: Delivery, mut tx: Transaction| async move { effect(&event, &mut tx).await })
        .config(quick())
}

/// Workers that have an effect, tell of it, and wait.
fn held() -> (Queue<Transactional>, mpsc::UnboundedReceiver<()>, Arc<Semaphore>) {
    let (told, begun) = mpsc::unbounded_channel();
    let let_go = Arc::new(Semaphore::new(0));
    let waiting = let_go.clone();
    let queue = Queue::new("work")
        .transactional(move |event: Delivery, mut tx: Transaction| {
            let (told, let_go) = (told.clone(), waiting.clone());
            async move {
                effect(&event, &mut tx).await?;
                told.send(())?;
                if let Ok(permit) = let_go.acquire().await {
                    permit.forget();
                }
                Ok(())
            }
        })
        .config(quick());
    (queue, begun, let_go)
}

/// Ends all claims now, as their time would.
async fn expire(shop: &Shop) {
    let expire = "UPDATE headwater_private.claims SET visible_at = clock_timestamp(), state.look_at = '-infinity' WHERE NOT done";
    let expired = sqlx::query(expire).execute(shop.headwater.pool()).await.unwrap();
    assert_eq!(expired.rows_affected(), 1);
}

async fn settled(shop: &Shop, last: u64) {
    until(|| async { shop.info("work").await.position >= last }).await;
}

#[tokio::test]
async fn a_claim_is_a_transaction_of_ten_events_and_a_backlog_is_handled_once() {
    let shop = with_table().await;
    let last = shop.emit_many(30).await;
    let node = shop.shop.node("one").run(queue().workers(2)).start().await.unwrap();
    settled(&shop, last).await;
    node.shutdown().await.unwrap();
    assert_eq!((effects(&shop).await, transactions(&shop).await), ((30, 30), 3));
    let last = shop.emit_many(200).await;
    let nodes = [
        shop.shop.node("one").run(queue().workers(3).prefetch(40)).start().await.unwrap(),
        shop.shop.node("two").run(queue().batch_size(1)).start().await.unwrap(),
        shop.shop.node("three").run(queue().batch_size(50)).start().await.unwrap(),
    ];
    settled(&shop, last).await;
    for node in nodes {
        node.shutdown().await.unwrap();
    }
    assert_eq!(effects(&shop).await, (230, 230));
}

#[tokio::test]
async fn neither_effect_nor_ack_is_there_before_the_commit() {
    let shop = with_table().await;
    let last = shop.emit_many(10).await;
    let (node, mut begun, let_go) = held();
    let node = shop.shop.node("one").run(node).start().await.unwrap();
    soon(begun.recv()).await.unwrap();
    let_go.add_permits(9);
    for _ in 0..9 {
        soon(begun.recv()).await.unwrap();
    }
    assert_eq!((effects(&shop).await, shop.info("work").await.position), ((0, 0), last - 10));
    let_go.add_permits(1);
    settled(&shop, last).await;
    assert_eq!((effects(&shop).await, transactions(&shop).await), ((10, 10), 1));
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn of_ten_events_one_fails_and_nine_are_committed_once() {
    let shop = with_table().await;
    let last = shop.emit_many(10).await;
    let tries = Arc::new(Mutex::new(Vec::new()));
    let seen = tries.clone();
    let node = shop
        .shop
        .node("one")
        .run(
            Queue::new("work")
                .transactional(move |event: Delivery, mut tx: Transaction| {
                    seen.lock().unwrap().push(event.event_type.clone());
                    async move {
                        effect(&event, &mut tx).await?;
                        if event.event_type == "e3" { Err(HandlerError::message("no")) } else { Ok(()) }
                    }
                })
                .config(ReliableDeliveryConfig { max_retries: 2, ..quick() }),
        )
        .start()
        .await
        .unwrap();
    until(|| async { shop.info("work").await.dead_letters == 1 }).await;
    settled(&shop, last).await;
    node.shutdown().await.unwrap();
    assert_eq!(effects(&shop).await, (9, 9));
    let all = DeadLetterQuery { subscriber_id: Some("work".into()), ..DeadLetterQuery::default() };
    let letter = shop.shop.subscribers().dead_letters(&all).await.unwrap().remove(0);
    assert_eq!((letter.event.event_type.as_str(), letter.attempts.len()), ("e3", 3));
    let tries = tries.lock().unwrap();
    let count = |name: &str| tries.iter().filter(|tried| *tried == name).count();
    // With the others, and then alone, as often as its tries are counted.
    assert_eq!((count("e2"), count("e3"), count("e4")), (2, 4, 1));
}

/// Ends the session of the transaction at one of its steps, again and again, as a kill at that step
/// does.
#[tokio::test]
async fn a_kill_at_any_step_leaves_one_effect() {
    let shop = with_table().await;
    let setup = "CREATE TABLE kills (step text);
        CREATE SEQUENCE killed;
        CREATE FUNCTION kill_now() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
            IF EXISTS (SELECT FROM kills WHERE step = TG_ARGV[0])
               AND EXISTS (SELECT FROM effects WHERE xmin = pg_current_xact_id()::xid) THEN
                PERFORM nextval('killed');
                PERFORM pg_terminate_backend(pg_backend_pid());
            END IF;
            RETURN NULL; END $$;
        CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON effects DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION kill_now('commit');
        CREATE TRIGGER at_effect AFTER INSERT ON effects FOR EACH ROW EXECUTE FUNCTION kill_now('effect');
        CREATE TRIGGER at_ack AFTER UPDATE OR DELETE ON headwater_private.claims FOR EACH ROW EXECUTE FUNCTION kill_now('ack')";
    sqlx::raw_sql(setup).execute(shop.headwater.pool()).await.unwrap();
    let config = ReliableDeliveryConfig { max_retries: 1_000, ..quick() };
    let node = shop.shop.node("one").run(queue().config(config)).start().await.unwrap();
    for (count, step) in (1..).zip(["effect", "ack", "commit"]) {
        sqlx::raw_sql("ALTER SEQUENCE killed RESTART").execute(shop.headwater.pool()).await.unwrap();
        sqlx::query("INSERT INTO kills VALUES ($1)").bind(step).execute(shop.headwater.pool()).await.unwrap();
        let last = shop.emit_many(5).await;
        until(|| async {
            sqlx::query_scalar("SELECT is_called FROM killed").fetch_one(shop.headwater.pool()).await.unwrap()
        })
        .await;
        sqlx::query("DELETE FROM kills").execute(shop.headwater.pool()).await.unwrap();
        settled(&shop, last).await;
        assert_eq!(effects(&shop).await, (count * 5, count * 5), "killed at {step}");
    }
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_worker_that_dies_before_its_commit_leaves_no_effect_and_another_has_it() {
    let shop = with_table().await;
    let last = shop.emit_many(3).await;
    let (one, mut begun, _let_go) = held();
    // What it had sent before it died may extend its claim once more.
    let one = shop.shop.node("one").run(one.visibility(Duration::from_secs(1))).start().await.unwrap();
    soon(begun.recv()).await.unwrap();
    drop(one);
    expire(&shop).await;
    let two = shop.shop.node("two").run(queue()).start().await.unwrap();
    settled(&shop, last).await;
    assert_eq!(effects(&shop).await, (3, 3));
    two.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_claim_that_another_took_over_rolls_back_its_effects() {
    let shop = with_table().await;
    let last = shop.emit_many(10).await;
    let (node, mut begun, let_go) = held();
    // With ten at hand, it claims nothing else.
    let node = shop.shop.node("zombie").run(node.workers(1)).start().await.unwrap();
    soon(begun.recv()).await.unwrap();
    expire(&shop).await;
    let queue = shop.shop.queue("work");
    // Its worker was lost with ten, so each comes alone.
    for _ in 0..10 {
        let claim = queue.claim(&ClaimRequest::new("other")).await.unwrap().remove(0);
        assert_eq!((claim.events.len(), claim.redelivery_count), (1, 1));
        let mut tx = shop.headwater.pool().begin().await.unwrap();
        effect(&claim.events[0], &mut tx).await.unwrap();
        queue.ack_in(&mut tx, claim.claim_id, None).await.unwrap();
        tx.commit().await.unwrap();
    }
    assert_eq!(shop.info("work").await.position, last);
    let_go.close();
    // What it handles after that shows that it has ended those.
    let last = shop.emit(&["later"]).await;
    settled(&shop, last).await;
    node.shutdown().await.unwrap();
    assert_eq!((effects(&shop).await, transactions(&shop).await), ((11, 11), 11));
    assert_eq!(shop.info("work").await.dead_letters, 0);
}

async fn is_buried(handler: fn(&mut PgConnection) -> futures::future::BoxFuture<'_, Result<(), HandlerError>>) {
    let shop = with_table().await;
    let tables = "CREATE TABLE parent (id int PRIMARY KEY);
                  CREATE TABLE child (id int REFERENCES parent DEFERRABLE INITIALLY DEFERRED)";
    sqlx::raw_sql(tables).execute(shop.headwater.pool()).await.unwrap();
    let last = shop.emit(&["good", "bad", "good"]).await;
    let node = shop
        .shop
        .node("one")
        .run(
            Queue::new("work")
                .transactional(move |event: Delivery, mut tx: Transaction| async move {
                    if event.event_type == "bad" { handler(&mut tx).await } else { effect(&event, &mut tx).await }
                })
                .config(ReliableDeliveryConfig { max_retries: 1, ..quick() }),
        )
        .start()
        .await
        .unwrap();
    until(|| async { shop.info("work").await.dead_letters == 1 }).await;
    settled(&shop, last).await;
    node.shutdown().await.unwrap();
    assert_eq!(effects(&shop).await, (2, 2));
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
    let tries = Arc::new(AtomicU32::new(0));
    let counted = tries.clone();
    let node = shop
        .shop
        .node("one")
        .run(
            Queue::new("work")
                .transactional(move |event: Delivery, mut tx: Transaction| {
                    counted.fetch_add(1, Ordering::Relaxed);
                    async move { effect(&event, &mut tx).await }
                })
                .config(quick())
                // Extended meanwhile.
                .visibility(Duration::from_secs(1)),
        )
        .start()
        .await
        .unwrap();
    shop.emit_many(2).await;
    let last = shop.emit(&["b"]).await;
    commit.is_given_up().await;
    commit.let_go().await;
    settled(&shop, last).await;
    node.shutdown().await.unwrap();
    assert_eq!(effects(&shop).await, (3, 3));
    assert!(tries.load(Ordering::Relaxed) > 3, "it was tried again");
}

#[tokio::test]
async fn wrong_settings_are_refused_at_the_start() {
    let shop = with_table().await;
    for (node, reason) in [
        (shop.shop.node("one").run(queue().workers(9)), "invalid number of workers 9"),
        (shop.shop.node("one").run(queue().batch_size(0)), "invalid batch_size 0"),
    ] {
        match node.start().await.err() {
            Some(SubscriberError::InvalidInput(message)) => assert!(message.contains(reason), "{message}"),
            other => panic!("{reason}: {other:?}"),
        }
    }
    shop.shop.node("one").run(queue().workers(8)).start().await.unwrap().shutdown().await.unwrap();
}
