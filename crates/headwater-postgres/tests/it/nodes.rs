//! Nodes: registration, heartbeats, incarnations, and messages that nobody handles. Time passes by
//! explicit steps.

use std::time::Duration;

use crate::common::queue::{Shop, delivered, request};
use crate::common::{run, sqlstate_of};
use headwater_core::{
    ClaimRequest, DeadLetterQuery, EventLog, EventPattern, GroupStore, Instance, LeaseRequest, NodeOptions,
    OperatorStore, Registration, Report, StartFrom, SubscriberConfig, SubscriberError, SubscriberMode, headers,
};
use headwater_postgres::PgNodes;

const DAY: Duration = Duration::from_secs(86_400);
const GRACE: Duration = Duration::from_secs(300);

fn nodes(shop: &Shop) -> PgNodes {
    PgNodes::new(shop.db.database.clone(), shop.log.info())
}

fn types(types: &[&str]) -> Vec<String> {
    types.iter().map(|event_type| event_type.to_string()).collect()
}

fn instance(node: &Registration) -> Instance {
    Instance { node: node.node_id.clone(), incarnation: node.instance_id }
}

/// Emits as a node does.
async fn message(shop: &Shop, event_type: &str) -> u64 {
    let mut event = crate::common::raw(event_type);
    event.headers.insert(headers::PRODUCER_NODE_ID.into(), "a".into());
    shop.log.append(event.into()).await.unwrap().global_sequence()
}

async fn time_passes(shop: &mut Shop, table: &str, columns: &[&str], interval: &str) {
    for column in columns {
        run(
            &mut shop.session,
            &format!("UPDATE headwater_private.{table} SET {column} = {column} - interval '{interval}'"),
        )
        .await;
    }
}

#[tokio::test]
async fn a_node_has_an_id_of_harmless_characters() {
    let shop = Shop::open(0).await;
    let nodes = nodes(&shop);
    for (given, id) in [("API Server_1", "api-server_1"), ("a.b-C", "a.b-c"), ("  Größe!", "gr-e")] {
        assert_eq!(nodes.register(&NodeOptions::new(given), &[]).await.unwrap().node_id, id);
    }
    let made_up = nodes.register(&NodeOptions::default(), &[]).await.unwrap().node_id;
    assert!(made_up.starts_with("node-"), "{made_up}");
    for wrong in ["", "!!", &"x".repeat(256)] {
        let error = nodes.register(&NodeOptions::new(wrong), &[]).await.unwrap_err();
        assert_eq!(error.code(), Some("WH002"), "{error}");
    }
    let error = nodes.register(&NodeOptions::new("a").metadata(serde_json::json!([1])), &[]).await.unwrap_err();
    assert!(error.to_string().contains("metadata is a JSON object"), "{error}");
    let error = nodes.register(&NodeOptions::new("a").heartbeat(Duration::ZERO), &[]).await.unwrap_err();
    assert!(error.to_string().contains("heartbeat_every is 100 ms to 1 hour"), "{error}");
    let error = nodes.register(&NodeOptions::new("a"), &types(&[""])).await.unwrap_err();
    assert_eq!(error.code(), Some("WH002"), "{error}");
}

#[tokio::test]
async fn a_node_is_alive_as_long_as_it_is_heard_of() {
    let mut shop = Shop::open(0).await;
    let nodes = nodes(&shop);
    let options =
        NodeOptions::new("a").display_name("A").description("the first").metadata(serde_json::json!({"role": "api"}));
    let node = nodes.register(&options, &types(&["user.*"])).await.unwrap();
    let seen = nodes.list(Some("a")).await.unwrap().remove(0);
    assert!(seen.alive);
    assert_eq!((seen.incarnation, seen.instance_id), (node.incarnation, node.instance_id));
    assert_eq!((seen.display_name.as_deref(), seen.description.as_deref()), (Some("A"), Some("the first")));
    assert_eq!((seen.metadata.as_str(), seen.event_types), (r#"{"role": "api"}"#, types(&["user.*"])));
    assert_eq!(seen.heartbeat_every, Duration::from_secs(30));

    time_passes(&mut shop, "nodes", &["last_heartbeat"], "91 s").await;
    let silent = nodes.list(Some("a")).await.unwrap().remove(0);
    assert!(!silent.alive && silent.heartbeat_age > Duration::from_secs(90));
    nodes.heartbeat(&node, &types(&["order.*"])).await.unwrap();
    let heard = nodes.list(Some("a")).await.unwrap().remove(0);
    assert_eq!((heard.alive, heard.event_types), (true, types(&["order.*"])));

    time_passes(&mut shop, "nodes", &["last_heartbeat"], "91 s").await;
    run(&mut shop.session, "SELECT headwater.touch_node_heartbeat('a')").await;
    assert!(nodes.list(Some("a")).await.unwrap()[0].alive);
    assert_eq!(sqlstate_of(&mut shop.session, "SELECT headwater.touch_node_heartbeat('nobody')").await, "WH018");
    assert_eq!(sqlstate_of(&mut shop.session, "SELECT headwater.touch_node_heartbeat(NULL)").await, "WH002");
    // The id as it was given, not only as it was stored.
    run(&mut shop.session, "SELECT headwater.register_node('shop', 'API Server 1')").await;
    time_passes(&mut shop, "nodes", &["last_heartbeat"], "91 s").await;
    run(&mut shop.session, "SELECT headwater.touch_node_heartbeat('API Server 1')").await;
    assert!(nodes.list(Some("api-server-1")).await.unwrap()[0].alive);

    assert!(nodes.stop(&node).await.unwrap());
    assert!(!nodes.list(Some("a")).await.unwrap()[0].alive);
}

#[tokio::test]
async fn an_earlier_incarnation_is_refused() {
    let shop = Shop::open(0).await;
    let nodes = nodes(&shop);
    let first = nodes.register(&NodeOptions::new("a"), &[]).await.unwrap();
    let second = nodes.register(&NodeOptions::new("a"), &[]).await.unwrap();
    assert!(second.incarnation > first.incarnation);
    let error = nodes.heartbeat(&first, &[]).await.unwrap_err();
    assert!(matches!(error, SubscriberError::NodeReplaced(_)), "{error}");
    assert_eq!(error.code(), Some("WH018"));
    assert!(error.to_string().contains("another process has registered under the same node_id"), "{error}");
    assert!(!nodes.stop(&first).await.unwrap(), "the successor does not stop");
    nodes.heartbeat(&second, &[]).await.unwrap();
    assert!(nodes.list(None).await.unwrap()[0].alive);
}

#[tokio::test]
async fn what_a_predecessor_owned_can_be_taken_at_once() {
    let shop = Shop::open(0).await;
    let nodes = nodes(&shop);
    let mode = SubscriberMode::Partitioned { partitions: 2 };
    for (subscriber_id, mode) in [("one", SubscriberMode::Exclusive), ("group", mode)] {
        let config = SubscriberConfig::new(subscriber_id, StartFrom::Beginning, mode);
        shop.store.register(&config).await.unwrap();
    }
    let ask = |subscriber_id: &str, term| LeaseRequest {
        subscriber_id: subscriber_id.into(),
        partition: 0,
        share: None,
        term,
        report: Report::default(),
    };
    let first = instance(&nodes.register(&NodeOptions::new("a"), &[]).await.unwrap());
    let other = instance(&nodes.register(&NodeOptions::new("b"), &[]).await.unwrap());
    let asks = [ask("one", None), ask("group", None)];
    let held = shop.store.keep(&first, &asks, DAY).await.unwrap();
    shop.store.join(&first, &["group".into()], DAY).await.unwrap();
    assert!(held.iter().all(|held| held.term.is_some()));
    assert!(shop.store.keep(&other, &asks, DAY).await.unwrap().iter().all(|held| held.term.is_none()));

    let second = instance(&nodes.register(&NodeOptions::new("a"), &[]).await.unwrap());
    let taken = shop.store.keep(&second, &asks, DAY).await.unwrap();
    assert!(taken.iter().zip(&held).all(|(taken, held)| taken.term > held.term), "{taken:?}");
    let view = shop.store.join(&second, &["group".into()], DAY).await.unwrap().remove(0);
    assert_eq!(view.members, [second.incarnation], "the predecessor is a member no more");
    let late = shop.store.keep(&first, &[ask("one", held[0].term)], DAY).await.unwrap();
    assert_eq!(late[0].term, None, "the predecessor learns that it is over");
}

#[tokio::test]
async fn nodes_that_are_not_heard_of_for_long_are_forgotten() {
    let mut shop = Shop::open(0).await;
    let nodes = nodes(&shop);
    let gone = nodes.register(&NodeOptions::new("gone"), &[]).await.unwrap();
    let listener = SubscriberConfig::new("broadcast:gone", StartFrom::Now, SubscriberMode::Exclusive);
    shop.store.register(&listener).await.unwrap();
    time_passes(&mut shop, "nodes", &["last_heartbeat"], "8 days").await;
    nodes.register(&NodeOptions::new("here"), &[]).await.unwrap();
    assert_eq!(nodes.forget(9 * DAY, None).await.unwrap(), 0);
    assert_eq!(nodes.forget(Duration::ZERO, Some("here")).await.unwrap(), 0, "who lives is not forgotten");
    assert_eq!(nodes.forget(7 * DAY, None).await.unwrap(), 0, "it is missed first");
    time_passes(&mut shop, "nodes", &["missed_at"], "2 minutes").await;
    assert_eq!(nodes.forget(7 * DAY, None).await.unwrap(), 1);
    assert_eq!(nodes.list(None).await.unwrap().len(), 1);
    assert!(matches!(shop.store.subscriber("broadcast:gone").await, Err(SubscriberError::NotFound(_))));
    let error = nodes.heartbeat(&gone, &[]).await.unwrap_err();
    assert!(error.to_string().contains("node 'gone' is not registered"), "{error}");
    let again = nodes.register(&NodeOptions::new("gone"), &[]).await.unwrap();
    assert!(again.incarnation > gone.incarnation, "no incarnation is used twice");
}

/// All nodes look as if they had been silent for long, and all of them live.
#[tokio::test]
async fn a_clock_that_is_set_forward_makes_nobody_forget_nodes_that_live() {
    let mut shop = Shop::open(0).await;
    let nodes = nodes(&shop);
    let first = nodes.register(&NodeOptions::new("first"), &[]).await.unwrap();
    let second = nodes.register(&NodeOptions::new("second"), &[]).await.unwrap();
    for _ in 0..3 {
        time_passes(&mut shop, "nodes", &["last_heartbeat", "missed_at"], "14 days").await;
        nodes.heartbeat(&first, &[]).await.unwrap();
        assert_eq!(nodes.forget(7 * DAY, None).await.unwrap(), 0);
        assert_eq!(nodes.forget(7 * DAY, None).await.unwrap(), 0);
        nodes.heartbeat(&second, &[]).await.unwrap();
    }
    assert_eq!(nodes.list(None).await.unwrap().len(), 2);
}

#[tokio::test]
async fn patterns_are_the_same_in_sql() {
    let mut shop = Shop::open(0).await;
    let pieces = ["a", "b", ".", "*", "%", "_", "\\"];
    let words = |depth: usize| {
        let mut all = vec![String::new()];
        for _ in 0..depth {
            all = all.iter().flat_map(|word| pieces.iter().map(move |piece| format!("{word}{piece}"))).collect();
        }
        all
    };
    let (patterns, names): (Vec<_>, Vec<_>) =
        words(3).into_iter().flat_map(|p| words(3).into_iter().map(move |n| (p.clone(), n))).unzip();
    let query = "SELECT array_agg(headwater_private.matches_pattern(n, ARRAY[p]) ORDER BY i)
                   FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS t(p, n, i)";
    let there: Vec<bool> =
        sqlx::query_scalar(query).bind(&patterns).bind(&names).fetch_one(&mut shop.session).await.unwrap();
    for ((pattern, name), there) in patterns.iter().zip(&names).zip(there) {
        assert_eq!(EventPattern::new(pattern.as_str()).unwrap().matches(name), there, "{pattern} {name}");
    }
}

#[tokio::test]
async fn patterns_are_claimed_behind_the_frontier_and_before_it() {
    let mut shop = Shop::open(0).await;
    shop.emit(&["user.created", "order.placed", "user.deleted", "user.created"]).await;
    let matching = |patterns: &[&str]| ClaimRequest { event_types: types(patterns), max_events: 10, ..request() };
    let orders = shop.queue.claim(&matching(&["order.*"])).await.unwrap();
    assert_eq!(delivered(&orders), [[2]]);
    shop.emit(&["order.paid"]).await;
    let users = shop.queue.claim(&matching(&["user.*"])).await.unwrap();
    assert_eq!(delivered(&users), [[1, 3, 4]], "what was left behind");
    let orders = shop.queue.claim(&matching(&["order.*", "invoice.sent"])).await.unwrap();
    assert_eq!(delivered(&orders), [[5]]);
    shop.queue.nack(orders[0].claim_id, None, Duration::ZERO, "failed").await.unwrap();
    assert!(shop.queue.claim(&matching(&["user.*"])).await.unwrap().is_empty());
    let again = shop.queue.claim(&matching(&["*.paid"])).await.unwrap();
    assert_eq!((delivered(&again), again[0].redelivery_count), (vec![vec![5]], 1));
    shop.emit(&["anything"]).await;
    assert_eq!(delivered(&shop.queue.claim(&matching(&["*"])).await.unwrap()), [[6]]);
    // What is redriven is found, also where the log has nothing new.
    assert!(shop.queue.claim(&matching(&["order.*"])).await.unwrap().is_empty());
    shop.queue.reject(again[0].claim_id, None, "failed").await.unwrap();
    assert!(shop.queue.claim(&matching(&["order.*"])).await.unwrap().is_empty());
    assert_eq!(shop.store.redrive(&DeadLetterQuery::default()).await.unwrap(), 1);
    assert_eq!(delivered(&shop.queue.claim(&matching(&["order.*"])).await.unwrap()), [[5]]);
    // What is not wanted in between is left for others.
    shop.emit(&["order.a", "order.b", "user.c", "order.d"]).await;
    assert_eq!(delivered(&shop.queue.claim(&matching(&["order.*"])).await.unwrap()).concat(), [7, 8, 10]);
    assert_eq!(delivered(&shop.queue.claim(&matching(&["user.c"])).await.unwrap()).concat(), [9]);
    let error = shop.queue.claim(&matching(&[""])).await.unwrap_err();
    assert_eq!(error.code(), Some("WH002"));
}

#[tokio::test]
async fn messages_become_dead_letters_when_nobody_has_handled_their_type_for_the_grace() {
    let mut shop = Shop::open(0).await;
    let nodes = nodes(&shop);
    let a = nodes.register(&NodeOptions::new("a"), &types(&["handled"])).await.unwrap();
    let lost = message(&shop, "lost").await;
    message(&shop, "handled").await;
    let mine = shop.claim_types(10, &["handled"]).await;
    assert_eq!(delivered(&mine).concat(), [lost + 1]);

    let reap = async |shop: &Shop| {
        PgNodes::new(shop.db.database.clone(), shop.log.info()).reap_unhandled("work", GRACE).await.unwrap()
    };
    assert_eq!(reap(&shop).await, 0, "the grace begins");
    time_passes(&mut shop, "unhandled_types", &["since"], "299 s").await;
    assert_eq!(reap(&shop).await, 0);

    // Somebody handles it for a moment: the grace begins anew when that is over.
    let b = nodes.register(&NodeOptions::new("b"), &types(&["lo*"])).await.unwrap();
    time_passes(&mut shop, "unhandled_types", &["since"], "2 s").await;
    assert_eq!(reap(&shop).await, 0);
    nodes.stop(&b).await.unwrap();
    assert_eq!(reap(&shop).await, 0);
    time_passes(&mut shop, "unhandled_types", &["since"], "301 s").await;
    assert_eq!(reap(&shop).await, 1);

    let letters = shop
        .store
        .dead_letters(&DeadLetterQuery { subscriber_id: Some("work".into()), ..Default::default() })
        .await
        .unwrap();
    assert_eq!(letters.len(), 1);
    assert_eq!((letters[0].global_sequence(), letters[0].error()), (lost, "no handler for event lost"));
    assert_eq!(reap(&shop).await, 0);
    nodes.heartbeat(&a, &types(&["handled"])).await.unwrap();
}

#[tokio::test]
async fn what_was_not_meant_for_a_handler_counts_as_done() {
    let mut shop = Shop::open(0).await;
    let nodes = nodes(&shop);
    nodes.register(&NodeOptions::new("a"), &types(&["handled"])).await.unwrap();
    run(&mut shop.session, "SELECT headwater.register_subscriber('shop', 'totals')").await;
    shop.emit(&["by.sql"]).await;
    let mut streamed = crate::common::raw("mixed").in_stream("s");
    streamed.headers.insert(headers::PRODUCER_NODE_ID.into(), "a".into());
    shop.log.append(streamed.into()).await.unwrap();
    let mut broadcast = crate::common::raw("for.all");
    broadcast.headers.insert(headers::PRODUCER_NODE_ID.into(), "a".into());
    broadcast.headers.insert(headers::BROADCAST.into(), "true".into());
    shop.log.append(broadcast.into()).await.unwrap();
    let lost = message(&shop, "mixed").await;
    let last = message(&shop, "handled").await;
    let mine = shop.claim_types(10, &["handled"]).await;
    shop.queue.ack(mine[0].claim_id, None).await.unwrap();
    assert_eq!(nodes.reap_unhandled("work", GRACE).await.unwrap(), 0);
    assert_eq!(shop.position().await, 0, "it waits for the grace");
    assert_eq!(nodes.reap_unhandled("work", Duration::ZERO).await.unwrap(), 1);
    assert_eq!(shop.position().await, last, "nothing is held back");
    let letters = shop.store.dead_letters(&DeadLetterQuery::default()).await.unwrap();
    assert_eq!(letters.iter().map(|letter| letter.global_sequence()).collect::<Vec<_>>(), [lost]);
}

/// An event of SQL's has no producer: where only handlers read, nobody else would ever see it.
#[tokio::test]
async fn what_nobody_else_would_get_becomes_a_letter_whoever_emitted_it() {
    let mut shop = Shop::open(0).await;
    let nodes = nodes(&shop);
    nodes.register(&NodeOptions::new("a"), &types(&["handled"])).await.unwrap();
    // Broadcasts of a node are no reader of the rest.
    run(&mut shop.session, "SELECT headwater.register_subscriber('shop', 'broadcast:a')").await;
    shop.emit(&["by.sql", "mixed"]).await;
    run(
        &mut shop.session,
        "SELECT headwater.emit('shop', 'mixed', headers => '{\"import\": \"old\"}');
         SELECT headwater.emit('shop', 'mixed', headers => '{\"trace\": \"1\"}');
         SELECT headwater.append('shop', 's', '{\"type\": \"mixed\"}')",
    )
    .await;
    let last = message(&shop, "handled").await;
    let mine = shop.claim_types(10, &["handled"]).await;
    shop.queue.ack(mine[0].claim_id, None).await.unwrap();
    assert_eq!(nodes.reap_unhandled("work", GRACE).await.unwrap(), 0, "they wait for the grace");
    assert_eq!(nodes.reap_unhandled("work", Duration::ZERO).await.unwrap(), 3);
    assert_eq!(shop.position().await, last, "nothing is held back");
    let letters = shop.store.dead_letters(&DeadLetterQuery::default()).await.unwrap();
    let mut told: Vec<_> = letters.iter().map(|letter| (letter.global_sequence(), letter.error())).collect();
    told.sort_unstable();
    assert_eq!(
        told,
        [(1, "no handler for event by.sql"), (2, "no handler for event mixed"), (4, "no handler for event mixed")]
    );
}

#[tokio::test]
async fn where_nobody_looked_for_long_the_grace_begins_anew() {
    let mut shop = Shop::open(0).await;
    let nodes = nodes(&shop);
    nodes.register(&NodeOptions::new("a"), &types(&["handled"])).await.unwrap();
    message(&shop, "lost").await;
    message(&shop, "handled").await;
    shop.claim_types(10, &["handled"]).await;
    assert_eq!(nodes.reap_unhandled("work", GRACE).await.unwrap(), 0);
    // All nodes were down for an hour. The first node that comes back does not give up the types of
    // the others.
    time_passes(&mut shop, "unhandled_types", &["since", "checked_at"], "1 hour").await;
    assert_eq!(nodes.reap_unhandled("work", GRACE).await.unwrap(), 0);
    time_passes(&mut shop, "unhandled_types", &["since"], "1 hour").await;
    assert_eq!(nodes.reap_unhandled("work", GRACE).await.unwrap(), 1);
}
