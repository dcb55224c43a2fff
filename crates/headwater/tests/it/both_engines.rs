//! What a subscription and a queue do alike: both hand events to handlers by one executor.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::common::{Shop, quick, until};
use headwater::delivery::{DeadLetterQuery, DeadLetterState, OperatorStore, ReliableDeliveryConfig};
use headwater::{Delivery, HandlerError, Node, Queue, Subscription, Transaction};

/// Every kind of subscriber, by its id.
const BOTH: [&str; 2] = ["subscription", "queue"];

async fn with_table() -> Shop {
    let shop = Shop::open().await;
    let table = "CREATE TABLE effects (event_type text UNIQUE DEFERRABLE INITIALLY DEFERRED)";
    sqlx::raw_sql(table).execute(shop.headwater.pool()).await.unwrap();
    shop
}

async fn effects(shop: &Shop) -> Vec<String> {
    sqlx::query_scalar("SELECT event_type FROM effects").fetch_all(shop.headwater.pool()).await.unwrap()
}

fn retries(max_retries: u32) -> ReliableDeliveryConfig {
    ReliableDeliveryConfig { max_retries, ..quick() }
}

/// What handlers were told of each delivery.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<u32>>>);

impl Told {
    fn note(&self, event: &Delivery) {
        self.0.lock().unwrap().push(event.redelivery_count());
    }

    fn all(&self) -> Vec<u32> {
        self.0.lock().unwrap().clone()
    }
}

/// Has an effect for each event. `COMMIT` ends the transaction, and `bad` fails.
async fn transactional(event: Delivery, mut tx: Transaction) -> Result<(), HandlerError> {
    sqlx::query("INSERT INTO effects VALUES ($1)").bind(&event.event_type).execute(&mut *tx).await?;
    match event.event_type.as_str() {
        "COMMIT" => _ = sqlx::raw_sql("COMMIT").execute(&mut *tx).await?,
        "bad" => return Err(HandlerError::message("bad")),
        _ => {}
    }
    Ok(())
}

async fn start_transactional(shop: &Shop, id: &str, told: &Told, max_retries: u32) -> Node {
    let told = told.clone();
    let handler = move |event: Delivery, tx: Transaction| {
        told.note(&event);
        transactional(event, tx)
    };
    let (node, config) = (shop.shop.node("n1"), retries(max_retries));
    let node = match id {
        "queue" => node.run(Queue::new(id).transactional(handler).config(config)),
        _ => node.run(Subscription::new(id).transactional(handler).config(config)),
    };
    node.start().await.unwrap()
}

/// The error of the only dead letter, and how often its event was tried.
async fn letter(shop: &Shop) -> (String, usize) {
    let letters = shop.shop.subscribers().dead_letters(&DeadLetterQuery::default()).await.unwrap();
    assert_eq!(letters.len(), 1, "{letters:?}");
    (letters[0].error().to_owned(), letters[0].attempts.len())
}

#[tokio::test]
async fn a_transaction_that_its_only_handler_ended_is_a_failure() {
    for id in BOTH {
        let shop = with_table().await;
        let last = shop.emit(&["COMMIT"]).await;
        let node = start_transactional(&shop, id, &Told::default(), 0).await;
        until(|| async { shop.info(id).await.position >= last }).await;
        node.shutdown().await.unwrap();
        let (error, attempts) = letter(&shop).await;
        assert!(error.contains("the handler ended its transaction"), "{id}: {error}");
        assert_eq!(attempts, 1, "{id}");
    }
}

#[tokio::test]
async fn a_transaction_is_told_how_often_its_event_was_delivered() {
    for id in BOTH {
        let shop = with_table().await;
        let (last, told) = (shop.emit(&["bad"]).await, Told::default());
        let node = start_transactional(&shop, id, &told, 2).await;
        until(|| async { shop.info(id).await.position >= last }).await;
        node.shutdown().await.unwrap();
        assert_eq!(told.all(), [0, 1, 2], "{id}");
        assert_eq!(letter(&shop).await, ("bad".into(), 3), "{id}");
    }
}

#[tokio::test]
async fn a_batch_of_one_event_is_tried_as_often_as_any_event() {
    for id in BOTH {
        let shop = Shop::open().await;
        let (last, told) = (shop.emit(&["bad"]).await, Told::default());
        let noted = told.clone();
        let handler = move |events: Vec<Delivery>| {
            events.iter().for_each(|event| noted.note(event));
            std::future::ready(Err(HandlerError::message("bad")))
        };
        let (node, config) = (shop.shop.node("n1"), retries(1));
        let node = match id {
            "queue" => node.run(Queue::new(id).batch(handler).config(config)),
            _ => node.run(Subscription::new(id).batch(handler).config(config)),
        };
        let node = node.start().await.unwrap();
        until(|| async { shop.info(id).await.position >= last }).await;
        node.shutdown().await.unwrap();
        assert_eq!(told.all(), [0, 1], "{id}");
        assert_eq!(letter(&shop).await, ("bad".into(), 2), "{id}");
    }
}

/// Ten events may be handled at once, and then ten a second.
#[tokio::test]
async fn events_of_a_batch_that_failed_count_for_the_rate_again() {
    for id in BOTH {
        let shop = Shop::open().await;
        let last = shop.emit_many(10).await;
        let calls: Arc<Mutex<Vec<(usize, Instant)>>> = Arc::default();
        let noted = calls.clone();
        let handler = move |events: Vec<Delivery>| {
            noted.lock().unwrap().push((events.len(), Instant::now()));
            std::future::ready(if events.len() > 1 { Err(HandlerError::message("bad")) } else { Ok(()) })
        };
        let config = ReliableDeliveryConfig { rate_limit: Some(10.0), ..retries(1) };
        let node = shop.shop.node("n1");
        let node = match id {
            "queue" => node.run(Queue::new(id).batch(handler).config(config)),
            _ => node.run(Subscription::new(id).batch(handler).config(config)),
        };
        let node = node.start().await.unwrap();
        until(|| async { shop.info(id).await.position >= last }).await;
        node.shutdown().await.unwrap();
        let calls = calls.lock().unwrap().clone();
        assert_eq!(calls.iter().map(|call| call.0).collect::<Vec<_>>(), [&[10][..], &[1; 10]].concat(), "{id}");
        let took = calls[10].1 - calls[0].1;
        assert!(took >= Duration::from_millis(900), "{id}: {took:?}");
    }
}

/// The commit is refused by a deferred constraint: that is a failure of the handler, and nothing of
/// the node's.
#[tokio::test]
async fn a_redrive_whose_commit_is_refused_is_a_failed_attempt() {
    for id in BOTH {
        let shop = with_table().await;
        sqlx::raw_sql("INSERT INTO effects VALUES ('once')").execute(shop.headwater.pool()).await.unwrap();
        let last = shop.emit(&["once"]).await;
        let node = start_transactional(&shop, id, &Told::default(), 0).await;
        until(|| async { shop.info(id).await.position >= last }).await;
        let (subscribers, query) = (shop.shop.subscribers(), DeadLetterQuery { limit: 10, ..Default::default() });
        assert_eq!(letter(&shop).await.1, 1, "{id}");
        assert_eq!(subscribers.redrive(&query).await.unwrap(), 1);
        until(|| async {
            let letters = subscribers.dead_letters(&query).await.unwrap();
            letters[0].state == DeadLetterState::Dead && letters[0].attempts.len() == 2
        })
        .await;
        assert!(letter(&shop).await.0.contains("duplicate key"), "{id}: {:?}", letter(&shop).await);
        sqlx::raw_sql("DELETE FROM effects").execute(shop.headwater.pool()).await.unwrap();
        assert_eq!(subscribers.redrive(&query).await.unwrap(), 1);
        until(|| async { subscribers.dead_letters(&query).await.unwrap().is_empty() }).await;
        assert_eq!(effects(&shop).await, ["once"], "{id}");
        node.shutdown().await.unwrap();
    }
}

/// A deferred trigger may raise anything at the commit, even errors that a call with bad input gets.
#[tokio::test]
async fn whatever_a_commit_is_refused_with_is_a_failed_attempt() {
    for id in BOTH {
        let shop = with_table().await;
        let refuse = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                PERFORM 1 / (NEW.event_type <> 'refused')::int; RETURN NULL; END $$;
            CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON effects DEFERRABLE INITIALLY DEFERRED
                FOR EACH ROW EXECUTE FUNCTION refuse()";
        sqlx::raw_sql(refuse).execute(shop.headwater.pool()).await.unwrap();
        let last = shop.emit(&["a", "refused", "c"]).await;
        let node = start_transactional(&shop, id, &Told::default(), 0).await;
        until(|| async { shop.info(id).await.position >= last }).await;
        assert!(letter(&shop).await.0.contains("division by zero"), "{id}: {:?}", letter(&shop).await);
        assert_eq!(effects(&shop).await, ["a", "c"], "{id}");
        node.shutdown().await.unwrap();
    }
}
