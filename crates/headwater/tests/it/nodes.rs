//! Nodes: registered processes, their incarnations, and handlers by event type.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{Recorder, Shop, quick, soon, state, until};
use headwater::admin::AdminError;
use headwater::delivery::{
    DeadLetter, DeadLetterQuery, InstanceMode, OperatorStore, ReliableDeliveryConfig, RunnerState, SubscriberError,
};
use headwater::log::{EventEnvelope, headers};
use headwater::node::{HANDLERS, NodeInfo, NodeOptions};
use headwater::{Delivery, EventObserver, HandlerError, Headwater, Node, Subscription};
use headwater_testing::TestDatabase;
use serde_json::json;
use sqlx::PgConnection;
use tokio::sync::{Semaphore, watch};

/// What handlers of a test were given: by whom, and which.
#[derive(Clone)]
struct Witness(watch::Sender<Vec<(String, EventEnvelope)>>);

impl Witness {
    /// Records every broadcast that the node hears.
    fn hears_broadcasts(&self, node: &Node) {
        let heard = self.clone();
        node.on_broadcast("*", move |event: Delivery, _tx| {
            heard.saw("broadcast", &event);
            async { Ok(()) }
        })
        .unwrap();
    }

    fn new() -> Self {
        Witness(watch::Sender::new(Vec::new()))
    }

    fn saw(&self, by: &str, event: &Delivery) {
        self.0.send_modify(|seen| seen.push((by.into(), event.envelope())));
    }

    fn on(&self, node: &Node, event_type: &str) -> headwater::node::EventHandler {
        let (witness, by) = (self.clone(), node.node_id().to_owned());
        let handler = node.on_event(event_type, move |event: Delivery, _tx| {
            witness.saw(&by, &event);
            async { Ok(()) }
        });
        handler.unwrap()
    }

    async fn seen(&self, events: usize) -> Vec<(String, EventEnvelope)> {
        soon(self.0.subscribe().wait_for(|seen| seen.len() >= events)).await.unwrap().clone()
    }

    /// Who was given what, by type.
    async fn types(&self, events: usize) -> BTreeSet<(String, String)> {
        self.seen(events).await.into_iter().map(|(by, envelope)| (by, envelope.event_type)).collect()
    }
}

fn options(id: &str) -> NodeOptions {
    NodeOptions::new(id).delivery(quick())
}

async fn register(shop: &Shop, id: &str) -> Node {
    shop.shop.register_node(options(id)).await.unwrap()
}

fn pair(by: &str, event_type: &str) -> (String, String) {
    (by.into(), event_type.into())
}

async fn info(shop: &Shop, id: &str) -> NodeInfo {
    shop.shop.nodes().list(Some(id)).await.unwrap().remove(0)
}

async fn letters(shop: &Shop) -> Vec<DeadLetter> {
    shop.shop.subscribers().dead_letters(&DeadLetterQuery::default()).await.unwrap()
}

/// A table for effects.
async fn effects(shop: &Shop) -> PgConnection {
    let mut session = shop.db.session().await;
    sqlx::query("CREATE TABLE effects (by text, message_id bigint)").execute(&mut session).await.unwrap();
    session
}

async fn note(tx: &mut PgConnection, by: &str, message_id: u64) -> Result<(), sqlx::Error> {
    let insert = sqlx::query("INSERT INTO effects VALUES ($1, $2)").bind(by).bind(message_id as i64);
    insert.execute(tx).await.map(drop)
}

async fn noted(session: &mut PgConnection) -> Vec<(String, i64)> {
    sqlx::query_as("SELECT by, message_id FROM effects ORDER BY message_id, by").fetch_all(session).await.unwrap()
}

#[tokio::test]
async fn a_namespace_is_made_on_the_way_to_it() {
    let db = TestDatabase::create_empty().await;
    // Nothing is migrated by surprise.
    let refused = Headwater::connect(&db.url).namespace("myapp").await.unwrap_err();
    assert!(matches!(refused, AdminError::NotMigrated { .. }), "{refused}");
    let system = Headwater::connect(&db.url).migrate().namespace("myapp").await.unwrap();
    let node = system
        .register_node(NodeOptions::new("API Server 1").display_name("API").metadata(json!({"role": "producer"})))
        .await
        .unwrap();
    assert_eq!(node.node_id(), "api-server-1");
    let witness = Witness::new();
    witness.on(&node, "user.created");
    node.start().await.unwrap();
    let id = node.emit("user.created", json!({"userId": "123"})).await.unwrap();
    let (_, envelope) = witness.seen(1).await.remove(0);
    assert_eq!((envelope.namespace.as_str(), envelope.message_id), ("myapp", Some(id)));
    assert_eq!(envelope.payload.decode::<serde_json::Value>().unwrap(), json!({"userId": "123"}));
    assert_eq!(envelope.producer_node_id.as_deref(), Some("api-server-1"));
    assert_eq!(envelope.redelivery_count, Some(0));
    node.shutdown().await.unwrap();
    let again = Headwater::connect(&db.url).namespace("myapp").await.unwrap();
    assert!(!again.nodes().list(None).await.unwrap()[0].alive, "it said that it ends");
    assert!(node.start().await.is_err());
}

#[tokio::test]
async fn a_restarted_node_takes_over_without_waiting_for_the_end_of_leases() {
    let shop = Shop::open().await;
    let (first, second) = (Recorder::new("pool"), Recorder::new("pool"));
    // Long leases and no session locks: only its registration can be the reason.
    let node = |recorder: &Recorder| {
        let lease = Duration::from_secs(600);
        shop.shop.node("one").run(Subscription::of(recorder.clone())).lease(lease).session_locks(false)
    };
    let one = node(&first).start().await.unwrap();
    let last = shop.emit_many(5).await;
    soon(one.wait_for("pool", last)).await.unwrap();
    drop(one);
    let again = node(&second).start().await.unwrap();
    let next = shop.emit_many(5).await;
    soon(again.wait_for("pool", next)).await.unwrap();
    assert_eq!(first.sequences().len(), 5);
    assert!(second.sequences().ends_with(&[next - 4, next - 3, next - 2, next - 1, next]), "{:?}", second.sequences());
    again.shutdown().await.unwrap();
}

/// Two processes under one name: the first is no longer the node, but it still stands by for its
/// subscribers.
#[tokio::test]
async fn processes_that_share_a_name_take_over_from_each_other() {
    let shop = Shop::open().await;
    let (recorder, name) = (Recorder::new("totals"), "one");
    let start = || async {
        let options = options(name).heartbeat(Duration::from_millis(500));
        let node = shop.shop.node(name).options(options).run(Subscription::of(recorder.clone()));
        // Only sessions tell who is gone.
        node.lease(Duration::from_secs(3600)).start().await.unwrap()
    };
    let first = start().await;
    let is_handled = |sequence: u64| {
        let recorder = &recorder;
        until(move || async move { recorder.sequences().contains(&sequence) })
    };
    for _ in 0..2 {
        let second = start().await;
        until(|| async { first.status().replaced }).await;
        is_handled(shop.emit(&["a"]).await).await;
        // As a crash does.
        drop(second);
        is_handled(shop.emit(&["b"]).await).await;
        until(|| async { !first.status().replaced }).await;
        until(|| async { info(&shop, name).await.alive }).await;
    }
    // What was handled when its owner died, and not written, comes again.
    assert_eq!(recorder.sequences().into_iter().collect::<BTreeSet<_>>(), (1..=4).collect());
    first.shutdown().await.unwrap();
    assert!(!info(&shop, name).await.alive);
}

/// Broadcasts are heard by the process that is the node; handlers are given events in any case.
#[tokio::test]
async fn a_process_that_is_the_node_again_hears_broadcasts_again() {
    let shop = Shop::open().await;
    let witness = Witness::new();
    let often = || options("one").heartbeat(Duration::from_millis(100));
    let first = shop.shop.register_node(often()).await.unwrap();
    witness.on(&first, "a");
    witness.hears_broadcasts(&first);
    first.start().await.unwrap();
    // It is not started, so it counts as alive for as long as it said.
    let successor = shop.shop.register_node(options("one").heartbeat(Duration::from_secs(3600))).await.unwrap();
    until(|| async { first.status().replaced }).await;
    shop.emit(&["a"]).await;
    witness.seen(1).await;
    successor.shutdown().await.unwrap();
    until(|| async { !first.status().replaced }).await;
    first.broadcast("cache.cleared", json!(1)).await.unwrap();
    assert_eq!(witness.types(2).await, BTreeSet::from([pair("one", "a"), pair("broadcast", "cache.cleared")]));
    first.shutdown().await.unwrap();
}

/// It was replaced before it had begun.
#[tokio::test]
async fn a_process_that_becomes_the_node_hears_broadcasts() {
    let shop = Shop::open().await;
    let witness = Witness::new();
    let often = || options("one").heartbeat(Duration::from_millis(100));
    let first = shop.shop.register_node(often()).await.unwrap();
    witness.hears_broadcasts(&first);
    // It is not started, so it counts as alive for as long as it said.
    let successor = shop.shop.register_node(options("one").heartbeat(Duration::from_secs(3600))).await.unwrap();
    first.start().await.unwrap();
    until(|| async { first.status().replaced }).await;
    successor.shutdown().await.unwrap();
    until(|| async { !first.status().replaced }).await;
    first.broadcast("cache.cleared", json!(1)).await.unwrap();
    assert_eq!(witness.types(1).await, BTreeSet::from([pair("broadcast", "cache.cleared")]));
    first.shutdown().await.unwrap();
}

/// As after a crash with `synchronous_commit` off: the row is the one of the run before, which
/// ended a short time ago.
#[tokio::test]
async fn a_registration_that_the_server_has_lost_is_made_again() {
    let shop = Shop::open().await;
    let witness = Witness::new();
    // Nobody waits for a heartbeat.
    let node = shop.shop.register_node(options("one").heartbeat(Duration::from_secs(3600))).await.unwrap();
    witness.hears_broadcasts(&node);
    node.start().await.unwrap();
    let lose = "UPDATE headwater_private.nodes SET incarnation = 0, instance_id = gen_random_uuid();
                UPDATE headwater_private.subscribers SET term = nextval('headwater_private.terms')";
    sqlx::raw_sql(lose).execute(&mut shop.db.session().await).await.unwrap();
    node.broadcast("cache.cleared", json!(1)).await.unwrap();
    assert_eq!(witness.types(1).await, BTreeSet::from([pair("broadcast", "cache.cleared")]));
    assert!(!node.status().replaced && info(&shop, "one").await.alive);
    node.shutdown().await.unwrap();
}

/// A machine that slept for longer than others remember it.
#[tokio::test]
async fn a_node_that_was_forgotten_and_lives_hears_broadcasts_again() {
    let shop = Shop::open().await;
    let witness = Witness::new();
    let often = options("one").heartbeat(Duration::from_millis(100));
    let node = shop.shop.register_node(often).await.unwrap();
    witness.hears_broadcasts(&node);
    node.start().await.unwrap();
    let first = shop.shop.subscribers().subscriber("broadcast:one").await.unwrap();
    let forget = "UPDATE headwater_private.nodes SET last_heartbeat = '-infinity';
                  SELECT headwater.forget_nodes('shop', '1 day', 'one')";
    sqlx::raw_sql(forget).execute(&mut shop.db.session().await).await.unwrap();
    let again = || async {
        let there = shop.shop.subscribers().subscriber("broadcast:one").await;
        there.is_ok_and(|there| there.created_at > first.created_at)
    };
    until(again).await;
    node.broadcast("cache.cleared", json!(1)).await.unwrap();
    assert_eq!(witness.types(1).await, BTreeSet::from([pair("broadcast", "cache.cleared")]));
    node.shutdown().await.unwrap();
}

/// Whether its row is deleted or it is removed by force, whoever ran it says so.
#[tokio::test]
async fn a_subscriber_that_is_removed_under_a_running_node_is_said_to_be() {
    let shop = Shop::open().await;
    for mode in [InstanceMode::Coordinated, InstanceMode::SingleInstance] {
        let recorder = Recorder::new(&format!("removed-{mode:?}").to_lowercase());
        let config = ReliableDeliveryConfig { instance_mode: mode, ..quick() };
        let start =
            |name: &str| shop.shop.node(name).run(Subscription::of(recorder.clone()).config(config.clone())).start();
        let owner = start("owner").await.unwrap();
        let last = shop.emit(&["a"]).await;
        soon(owner.wait_for(EventObserver::subscriber_id(&recorder), last)).await.unwrap();
        shop.shop.subscribers().remove(EventObserver::subscriber_id(&recorder), true).await.unwrap();
        until(|| async { state(&owner).1.starts_with("the subscriber was removed") }).await;
        assert_eq!(state(&owner).0, RunnerState::StandingBy);

        // Registered again, by whomever, it goes on.
        let other = start("other").await.unwrap();
        until(|| async { !state(&owner).1.starts_with("the subscriber was removed") }).await;
        other.shutdown().await.unwrap();
        owner.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn messages_go_to_nodes_that_handle_their_type() {
    let shop = Shop::open().await;
    let witness = Witness::new();
    let (one, two) = (register(&shop, "one").await, register(&shop, "two").await);
    witness.on(&one, "user.created");
    witness.on(&two, "order.placed");
    one.start().await.unwrap();
    two.start().await.unwrap();
    for _ in 0..20 {
        one.emit("order.placed", json!(1)).await.unwrap();
        two.emit("user.created", json!(2)).await.unwrap();
    }
    let expected = BTreeSet::from([pair("one", "user.created"), pair("two", "order.placed")]);
    assert_eq!(witness.types(40).await, expected);
    until(|| async { info(&shop, "one").await.event_types == ["user.created"] }).await;
    one.shutdown().await.unwrap();
    two.shutdown().await.unwrap();
}

#[tokio::test]
async fn nodes_compete_for_events_of_one_type() {
    let shop = Shop::open().await;
    let mut session = effects(&shop).await;
    let mut nodes = Vec::new();
    for id in ["one", "two"] {
        let node = shop.shop.register_node(options(id).concurrency(2)).await.unwrap();
        node.on_event("work", move |event: Delivery, mut tx| async move {
            note(&mut tx, id, event.message_id()).await?;
            Ok(())
        })
        .unwrap();
        node.start().await.unwrap();
        nodes.push(node);
    }
    let mut sent = BTreeSet::new();
    for _ in 0..300 {
        sent.insert(nodes[0].emit("work", json!(null)).await.unwrap() as i64);
    }
    until(|| async { shop.info(HANDLERS).await.position >= *sent.last().unwrap() as u64 }).await;
    let noted = noted(&mut session).await;
    assert_eq!(noted.len(), 300, "each once");
    assert_eq!(noted.iter().map(|(_, id)| *id).collect::<BTreeSet<_>>(), sent);
    for node in nodes {
        node.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn handlers_of_an_event_share_one_transaction() {
    let shop = Shop::open().await;
    let mut session = effects(&shop).await;
    let node = register(&shop, "one").await;
    let tries = Arc::new(Mutex::new(Vec::new()));
    node.on_event("work", |event: Delivery, mut tx| async move {
        note(&mut tx, "first", event.message_id()).await?;
        Ok(())
    })
    .unwrap();
    let counts = tries.clone();
    node.on_event("w*", move |event: Delivery, mut tx| {
        let counts = counts.clone();
        async move {
            note(&mut tx, "second", event.message_id()).await?;
            if event.payload::<bool>()? {
                counts.lock().unwrap().push(event.redelivery_count());
                return Err(HandlerError::message("told to fail"));
            }
            Ok(())
        }
    })
    .unwrap();
    node.start().await.unwrap();
    let good = node.emit("work", json!(false)).await.unwrap() as i64;
    let bad = node.emit("work", json!(true)).await.unwrap();
    let last = node.emit("work", json!(false)).await.unwrap();
    until(|| async { letters(&shop).await.len() == 1 && shop.info(HANDLERS).await.position >= last }).await;
    let expected = [("first", good), ("second", good), ("first", last as i64), ("second", last as i64)];
    assert_eq!(noted(&mut session).await, expected.map(|(by, id)| (by.to_owned(), id)));
    let letter = letters(&shop).await.remove(0);
    assert_eq!((letter.global_sequence(), letter.error()), (bad, "told to fail"));
    assert_eq!(letter.attempts.len(), quick().max_retries as usize + 1);
    let tries: BTreeSet<u32> = tries.lock().unwrap().iter().copied().collect();
    assert_eq!(tries, (0..=quick().max_retries).collect());
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_handler_that_keeps_its_transaction_has_failed() {
    let shop = Shop::open().await;
    let node = register(&shop, "one").await;
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keeps = kept.clone();
    node.on_event("work", move |_event: Delivery, tx| {
        keeps.lock().unwrap().push(tx);
        async { Ok(()) }
    })
    .unwrap();
    node.start().await.unwrap();
    node.emit("work", json!(null)).await.unwrap();
    until(|| async {
        kept.lock().unwrap().clear();
        letters(&shop).await.len() == 1
    })
    .await;
    assert!(letters(&shop).await[0].error().contains("kept its transaction"));
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_star_stands_for_types_that_nobody_knows_yet() {
    let shop = Shop::open().await;
    let witness = Witness::new();
    let node = register(&shop, "one").await;
    shop.emit(&["user.early", "order.placed"]).await;
    witness.on(&node, "user.*");
    node.start().await.unwrap();
    node.emit("user.created", json!(1)).await.unwrap();
    node.emit("user.deleted", json!(2)).await.unwrap();
    let expected = ["user.early", "user.created", "user.deleted"].map(|event_type| pair("one", event_type));
    assert_eq!(witness.types(3).await, BTreeSet::from(expected));
    witness.on(&node, "*");
    assert_eq!(witness.types(4).await.len(), 4, "{:?}", witness.types(4).await);
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn handlers_come_and_go_while_a_node_runs() {
    let shop = Shop::open().await;
    let witness = Witness::new();
    let node = register(&shop, "one").await;
    node.start().await.unwrap();
    node.emit("a", json!(1)).await.unwrap();
    node.emit("b", json!(1)).await.unwrap();
    let handler = witness.on(&node, "a");
    assert_eq!(witness.types(1).await, BTreeSet::from([pair("one", "a")]), "what waited for it");
    witness.on(&node, "b");
    assert_eq!(witness.types(2).await.len(), 2);

    assert!(handler.remove());
    assert!(!handler.remove());
    node.emit("a", json!(2)).await.unwrap();
    node.emit("b", json!(2)).await.unwrap();
    assert_eq!(witness.seen(3).await.last().unwrap().1.event_type, "b");
    assert_eq!(node.off_event("b"), 1);
    until(|| async { info(&shop, "one").await.event_types.is_empty() }).await;
    witness.on(&node, "a");
    let (_, last) = witness.seen(4).await.remove(3);
    assert_eq!((last.event_type.as_str(), last.payload.as_str()), ("a", "2"), "it waited");
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn broadcasts_reach_every_node() {
    let shop = Shop::open().await;
    let witness = Witness::new();
    let (one, two) = (register(&shop, "one").await, register(&shop, "two").await);
    for node in [&one, &two] {
        let (told, by) = (witness.clone(), node.node_id().to_owned());
        node.on_broadcast("cache.*", move |event: Delivery, _tx| {
            told.saw(&by, &event);
            async { Ok(()) }
        })
        .unwrap();
    }
    let competing = Witness::new();
    competing.on(&one, "cache.cleared");
    one.start().await.unwrap();
    two.start().await.unwrap();
    one.broadcast("cache.cleared", json!({"key": 1})).await.unwrap();
    let expected = BTreeSet::from([pair("one", "cache.cleared"), pair("two", "cache.cleared")]);
    assert_eq!(witness.types(2).await, expected);
    // What is not broadcast is for one.
    one.emit("cache.cleared", json!({"key": 2})).await.unwrap();
    assert_eq!(competing.seen(1).await[0].1.payload.decode::<serde_json::Value>().unwrap(), json!({"key": 2}));
    assert_eq!(witness.seen(2).await.len(), 2);

    // Added while it runs.
    let late = Witness::new();
    let three = register(&shop, "three").await;
    three.start().await.unwrap();
    let told = late.clone();
    three
        .on_broadcast("cache.cleared", move |event: Delivery, _tx| {
            told.saw("three", &event);
            async { Ok(()) }
        })
        .unwrap();
    until(|| async { shop.shop.subscribers().subscriber("broadcast:three").await.is_ok() }).await;
    two.broadcast("cache.cleared", json!({"key": 3})).await.unwrap();
    assert_eq!(late.seen(1).await.len(), 1);
    assert_eq!(witness.seen(4).await.len(), 4);
    for node in [one, two, three] {
        node.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn what_a_node_had_when_it_was_killed_another_handles() {
    let shop = Shop::open().await;
    let mut session = effects(&shop).await;
    let begun = Arc::new(Semaphore::new(0));
    let node = shop.shop.register_node(options("one").visibility(Duration::from_secs(1))).await.unwrap();
    let tells = begun.clone();
    node.on_event("work", move |event: Delivery, mut tx| {
        let tells = tells.clone();
        async move {
            note(&mut tx, "killed", event.message_id()).await?;
            tells.add_permits(1);
            std::future::pending().await
        }
    })
    .unwrap();
    node.start().await.unwrap();
    let id = node.emit("work", json!(null)).await.unwrap();
    soon(begun.acquire()).await.unwrap().forget();
    drop(node);
    let other = register(&shop, "two").await;
    other
        .on_event("work", |event: Delivery, mut tx| async move {
            note(&mut tx, "other", event.message_id()).await?;
            Ok(())
        })
        .unwrap();
    other.start().await.unwrap();
    until(|| async { shop.info(HANDLERS).await.position >= id }).await;
    assert_eq!(noted(&mut session).await, [("other".to_owned(), id as i64)]);
    other.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_message_that_nobody_handles_is_given_up_after_the_grace() {
    let shop = Shop::open().await;
    let mut session = shop.db.session().await;
    let witness = Witness::new();
    let node = shop.shop.register_node(options("one").heartbeat(Duration::from_millis(100))).await.unwrap();
    witness.on(&node, "handled");
    node.start().await.unwrap();
    let lost = node.emit("lost", json!({"a": 1})).await.unwrap();
    node.emit("handled", json!(null)).await.unwrap();
    witness.seen(1).await;
    let passes =
        "UPDATE headwater_private.unhandled_types SET since = since - interval '5 minutes' WHERE event_type = 'lost'";
    // Looked at, and left for the grace.
    loop {
        if sqlx::query(passes).execute(&mut session).await.unwrap().rows_affected() == 1 {
            break;
        }
        tokio::task::yield_now().await;
    }
    until(|| async { letters(&shop).await.len() == 1 }).await;
    let letter = letters(&shop).await.remove(0);
    assert_eq!((letter.subscriber_id.as_str(), letter.global_sequence()), (HANDLERS, lost));
    assert_eq!(letter.error(), "no handler for event lost");
    assert_eq!(letter.event.headers[headers::PRODUCER_NODE_ID], "one");
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn nodes_with_subscribers_are_nodes_too() {
    let shop = Shop::open().await;
    let recorder = Recorder::new("totals");
    let witness = Witness::new();
    let told = witness.clone();
    let node = shop
        .shop
        .node("Billing 1")
        .options(NodeOptions::default().description("bills"))
        .run(Subscription::of(recorder.clone()).event_types(["a"]))
        .on_event("b", move |event: Delivery, _tx| {
            told.saw("billing-1", &event);
            async { Ok(()) }
        })
        .start()
        .await
        .unwrap();
    let seen = info(&shop, "billing-1").await;
    assert_eq!((seen.alive, seen.description.as_deref()), (true, Some("bills")));
    shop.shop
        .append("order-1", headwater::ExpectedVersion::NoStream, [headwater::Event::raw("a", json!(1))])
        .await
        .unwrap();
    node.emit("b", json!(2)).await.unwrap();
    recorder.handled(1).await;
    witness.seen(1).await;
    until(|| async { info(&shop, "billing-1").await.event_types == ["a", "b"] }).await;
    let mut tx = shop.headwater.pool().begin().await.unwrap();
    node.emit_in(&mut tx, "b", json!(3)).await.unwrap();
    tx.rollback().await.unwrap();
    let after = node.emit("b", json!(4)).await.unwrap();
    assert_eq!(witness.seen(2).await[1].1.message_id, Some(after), "what was rolled back is not there");
    node.shutdown().await.unwrap();
    assert!(!info(&shop, "billing-1").await.alive);
}

#[tokio::test]
async fn wrong_options_are_refused() {
    let shop = Shop::open().await;
    let refused = async |options: NodeOptions, message: &str| {
        let Err(error) = shop.shop.register_node(options).await else { panic!("registered: {message}") };
        assert!(matches!(error, SubscriberError::InvalidInput(_)), "{error}");
        assert!(error.to_string().contains(message), "{error}");
    };
    refused(NodeOptions::new("?"), "invalid node_id").await;
    refused(NodeOptions::new("a").heartbeat(Duration::from_secs(7200)), "heartbeat_every is 100 ms to 1 hour").await;
    refused(NodeOptions::new("a").visibility(Duration::ZERO), "invalid visibility").await;
    refused(NodeOptions::new("a").batch_size(0), "invalid batch_size 0").await;
    refused(NodeOptions::new("a").concurrency(0), "concurrency").await;
    let node = shop.shop.register_node(NodeOptions::default()).await.unwrap();
    assert!(node.node_id().starts_with("node-"));
    let error = node.on_event("", |_: Delivery, _| async { Ok(()) }).unwrap_err();
    assert!(error.to_string().contains("an event type is 1 to 255 bytes"), "{error}");
}
