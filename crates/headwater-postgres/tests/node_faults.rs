//! Nodes that die or are replaced in the middle: what they had is another's, and none of it is given up in silence.

mod common;
#[path = "common/queue.rs"]
mod queue;

use std::time::Duration;

use headwater_core::{
    Advance, DeadLetterQuery, DeadLetterState, EventLog, Fence, NodeOptions, StartFrom, SubscriberConfig,
    SubscriberError, SubscriberMode, SubscriberStore,
};
use headwater_postgres::PgNodes;
use queue::{Shop, delivered};

fn nodes(shop: &Shop) -> PgNodes {
    PgNodes::new(shop.db.database.clone(), shop.log.info())
}

/// What a handler had in hand was meant for one, whoever appended it: without a live node it becomes a letter.
#[tokio::test]
async fn an_event_that_a_handler_had_is_a_letter_when_nobody_handles_it_any_more() {
    let mut shop = Shop::open(0).await;
    let of_a_stream = shop.log.append(common::raw("placed").in_stream("order-1").into()).await.unwrap().global_sequence();
    shop.emit(&["placed", "placed"]).await;
    let claim = shop.claim(2).await.remove(0);
    assert_eq!(delivered(&[claim.clone()]), [[of_a_stream, of_a_stream + 1]]);
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
    shop.log.append(common::raw("placed").in_stream("order-1").into()).await.unwrap();
    let claim = shop.claim(1).await.remove(0);
    shop.queue.reject(claim.claim_id, None, "broken").await.unwrap();
    shop.store.redrive(&DeadLetterQuery::default()).await.unwrap();
    assert_eq!(shop.claim_types(10, &["other"]).await, []);
    assert_eq!(nodes(&shop).reap_unhandled("work", Duration::ZERO).await.unwrap(), 1);
    let letters = shop.store.dead_letters(&DeadLetterQuery::default()).await.unwrap();
    assert_eq!((letters.len(), letters[0].state), (1, DeadLetterState::Dead), "it was not handled");
}

/// The subscriber by which a node hears broadcasts has no lease: the registration of a successor ends what the predecessor may write.
#[tokio::test]
async fn a_node_that_was_replaced_takes_no_broadcast_from_its_successor() {
    let shop = Shop::open(1).await;
    let nodes = nodes(&shop);
    nodes.register(&NodeOptions::new("a"), &[]).await.unwrap();
    nodes.register(&NodeOptions::new("b"), &[]).await.unwrap();
    let fence = async |node: &str| {
        let subscriber_id = format!("broadcast:{node}");
        let config = SubscriberConfig {
            subscriber_id: subscriber_id.clone(),
            start_from: StartFrom::Beginning,
            mode: SubscriberMode::Exclusive,
        };
        shop.store.register(&config).await.unwrap();
        let term = Some(shop.store.position(&subscriber_id).await.unwrap().term);
        Fence { subscriber_id, partition: 0, term }
    };
    let (predecessor, other) = (fence("a").await, fence("b").await);
    nodes.register(&NodeOptions::new("a"), &[]).await.unwrap();
    let advance = Advance { position: 1, events: 1, sequence_sum: 1, ..Advance::default() };
    let late = shop.store.advance(&predecessor, &advance).await;
    assert!(matches!(late, Err(SubscriberError::Fenced(_))), "{late:?}");
    shop.store.advance(&other, &advance).await.unwrap();
    shop.store.advance(&fence("a").await, &advance).await.unwrap();
}
