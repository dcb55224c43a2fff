//! Nodes that die or are replaced in the middle of work: another node gets their work, and no event
//! is given up silently.

use std::time::Duration;

use crate::common::queue::{Shop, sequences};
use headwater_core::{
    Advance, DeadLetterQuery, DeadLetterState, EventLog, Fence, GroupStore, NodeOptions, OperatorStore, ProgressStore,
    StartFrom, SubscriberConfig, SubscriberError, SubscriberMode, headers,
};
use headwater_postgres::{GrantKind, PgNodes};

fn nodes(shop: &Shop) -> PgNodes {
    PgNodes::new(shop.db.database.clone(), shop.log.info())
}

/// An event that a handler had claimed was meant for a handler, no matter who appended it. Without
/// a live node it becomes a dead letter.
#[tokio::test]
async fn an_event_that_a_handler_had_is_a_letter_when_nobody_handles_it_any_more() {
    let mut shop = Shop::open(0).await;
    let (start_from, mode) = (StartFrom::Beginning, SubscriberMode::Exclusive);
    shop.store.register(&SubscriberConfig::new("reader", start_from, mode)).await.unwrap();
    let of_a_stream =
        shop.log.append(crate::common::raw("placed").in_stream("order-1").into()).await.unwrap().global_sequence();
    shop.emit(&["placed", "placed"]).await;
    let claim = shop.claim(2).await.remove(0);
    assert_eq!(sequences(&claim), [of_a_stream, of_a_stream + 1]);
    // Its node dies with it. The third was never claimed, and may be for subscribers only.
    shop.expire(claim.claim_id).await;
    assert_eq!(shop.claim_types(10, &["other"]).await, []);
    assert_eq!(nodes(&shop).reap_unhandled("work", Duration::ZERO).await.unwrap(), 2);
    let letters = shop.store.dead_letters(&DeadLetterQuery::default()).await.unwrap();
    assert_eq!(letters.iter().map(|letter| letter.global_sequence()).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(letters[0].attempts.len(), 2, "the claim that expired, and that nobody handles it: {letters:?}");
    assert_eq!(shop.position().await, of_a_stream + 2);
}

#[tokio::test]
async fn a_letter_that_is_redriven_while_nobody_handles_it_is_dead_again() {
    let shop = Shop::open(0).await;
    shop.log.append(crate::common::raw("placed").in_stream("order-1").into()).await.unwrap();
    let claim = shop.claim(1).await.remove(0);
    shop.queue.reject(claim.claim_id, None, "broken").await.unwrap();
    shop.store.redrive(&DeadLetterQuery::default()).await.unwrap();
    assert_eq!(shop.claim_types(10, &["other"]).await, []);
    assert_eq!(nodes(&shop).reap_unhandled("work", Duration::ZERO).await.unwrap(), 1);
    let letters = shop.store.dead_letters(&DeadLetterQuery::default()).await.unwrap();
    assert_eq!((letters.len(), letters[0].state), (1, DeadLetterState::Dead), "it was not handled");
}

/// A node's broadcast subscriber has no lease. The registration of a successor ends the
/// predecessor's right to write.
#[tokio::test]
async fn a_node_that_was_replaced_takes_no_broadcast_from_its_successor() {
    let shop = Shop::open(1).await;
    let nodes = nodes(&shop);
    nodes.register(&NodeOptions::new("a"), &[]).await.unwrap();
    nodes.register(&NodeOptions::new("b"), &[]).await.unwrap();
    let fence = async |node: &str| {
        let subscriber_id = format!("broadcast:{node}");
        let config = SubscriberConfig::new(&subscriber_id, StartFrom::Beginning, SubscriberMode::Exclusive);
        shop.store.register(&config).await.unwrap();
        let term = Some(shop.store.position(&subscriber_id).await.unwrap().term);
        Fence { subscriber_id, partition: 0, term, history: None }
    };
    let (predecessor, other) = (fence("a").await, fence("b").await);
    nodes.register(&NodeOptions::new("a"), &[]).await.unwrap();
    let advance = Advance { position: 1, events: 1, sequence_sum: 1, ..Advance::default() };
    let late = shop.store.advance(&predecessor, &advance).await;
    assert!(matches!(late, Err(SubscriberError::Fenced(_))), "{late:?}");
    shop.store.advance(&other, &advance).await.unwrap();
    shop.store.advance(&fence("a").await, &advance).await.unwrap();
}

#[tokio::test]
async fn a_process_that_only_produces_is_registered_again() {
    let shop = Shop::open(0).await;
    let role = shop.db.role().await;
    shop.db.database.grant("shop", &role.name, GrantKind::Producer).await.unwrap();
    let database = role.database().await;
    let nodes = PgNodes::new(database.clone(), shop.log.info());
    let first = nodes.register(&NodeOptions::new("web"), &[]).await.unwrap();
    let second = nodes.register(&NodeOptions::new("web"), &[]).await.unwrap();
    assert!(matches!(nodes.heartbeat(&first, &[]).await, Err(SubscriberError::NodeReplaced(_))));
    nodes.heartbeat(&second, &[]).await.unwrap();
    assert!(nodes.stop(&second).await.unwrap());
    database.close().await;
    shop.db.database.revoke("shop", &role.name, None).await.unwrap();
    shop.db.drop_role(role).await;
}

fn types(types: &[&str]) -> Vec<String> {
    types.iter().map(|event_type| event_type.to_string()).collect()
}

/// A node has a handler for an event of a stream. When that node is down for long, the others do
/// not settle the event as if nobody wanted it.
#[tokio::test]
async fn what_a_node_handles_that_is_down_becomes_a_letter_whoever_appended_it() {
    let shop = Shop::open(0).await;
    let nodes = nodes(&shop);
    let down = nodes.register(&NodeOptions::new("down"), &[]).await.unwrap();
    nodes.heartbeat_of(&down, &types(&["placed", "seen"]), &types(&["placed"])).await.unwrap();
    assert!(nodes.stop(&down).await.unwrap());
    let here = nodes.register(&NodeOptions::new("here"), &[]).await.unwrap();
    nodes.heartbeat_of(&here, &types(&["mail"]), &types(&["mail"])).await.unwrap();
    for event_type in ["placed", "seen"] {
        shop.log.append(crate::common::raw(event_type).in_stream("order-1").into()).await.unwrap();
    }
    assert_eq!(shop.claim_types(10, &["mail"]).await, []);
    assert_eq!(nodes.reap_unhandled("work", Duration::ZERO).await.unwrap(), 1);
    let letters = shop.store.dead_letters(&DeadLetterQuery::default()).await.unwrap();
    assert_eq!(letters[0].event.event_type, "placed", "the other was for a subscriber");
    assert_eq!(shop.position().await, 2);
    assert_eq!(nodes.forget(Duration::ZERO, Some("down")).await.unwrap(), 1);
}

/// Else they would hold back retention for ever: the subscriber has its own progress.
#[tokio::test]
async fn what_only_subscribers_of_live_nodes_have_is_done_for_handlers() {
    let mut shop = Shop::open(0).await;
    let nodes = nodes(&shop);
    let here = nodes.register(&NodeOptions::new("here"), &[]).await.unwrap();
    nodes.heartbeat_of(&here, &types(&["mail", "placed"]), &types(&["mail"])).await.unwrap();
    shop.log.append(crate::common::raw("placed").in_stream("order-1").into()).await.unwrap();
    let mut message = crate::common::raw("placed");
    message.headers.insert(headers::PRODUCER_NODE_ID.into(), "here".into());
    let last = shop.log.append(message.into()).await.unwrap().global_sequence();
    assert_eq!(shop.claim_types(10, &["mail"]).await, []);
    assert_eq!(nodes.reap_unhandled("work", Duration::from_secs(300)).await.unwrap(), 0);
    assert_eq!(shop.position().await, 0, "it waits for the grace");
    assert_eq!(nodes.reap_unhandled("work", Duration::ZERO).await.unwrap(), 0, "and becomes no letter");
    assert_eq!(shop.position().await, last);

    // One that says nothing of handlers handles all that it names.
    crate::common::run(&mut shop.session, "UPDATE headwater_private.nodes SET handled_types = NULL").await;
    shop.emit(&["placed"]).await;
    assert_eq!(shop.claim_types(10, &["mail"]).await, []);
    assert_eq!(nodes.reap_unhandled("work", Duration::ZERO).await.unwrap(), 0);
    assert_eq!(shop.position().await, last, "it waits");
}
