//! Nodes keep the partitions of their namespace in shape, and never at the cost of a subscriber.

use std::time::Duration;

use crate::common::{Recorder, Shop, until};
use headwater::Subscription;
use headwater::delivery::{GroupStore, OperatorStore, StartFrom, SubscriberConfig, SubscriberMode};

const OFTEN: Duration = Duration::from_millis(10);

#[tokio::test]
async fn a_node_drops_what_is_older_than_the_namespace_keeps() {
    let shop = Shop::open().await;
    shop.db.past_months("shop", 6, 3).await;
    shop.db.keep_months("shop", 3).await;
    let recorder = Recorder::new("all");
    let node =
        shop.shop.node("n1").maintain_every(OFTEN).run(Subscription::of(recorder.clone())).start().await.unwrap();
    // It is told of every event first: what it has not handled holds its month.
    recorder.handled(18).await;
    until(|| async {
        let months = shop.headwater.admin().months("shop").await.unwrap();
        months.iter().filter(|month| month.dropped_at.is_some()).count() == 3
    })
    .await;
    until(|| async { shop.shop.trimmed_to() == 9 }).await;
    shop.emit(&["on"]).await;
    recorder.handled(19).await;
    assert!(shop.headwater.admin().losses("shop", None).await.unwrap().is_empty());
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_running_subscriber_that_loses_months_by_force_goes_on_behind_them() {
    let shop = Shop::open().await;
    shop.db.past_months("shop", 6, 3).await;
    shop.db.keep_months("shop", 3).await;
    let (recorder, store) = (Recorder::new("stuck"), shop.shop.subscribers());
    let config = SubscriberConfig::new("stuck", StartFrom::Beginning, SubscriberMode::Exclusive);
    store.register(&config).await.unwrap();
    store.set_paused("stuck", true).await.unwrap();
    let node =
        shop.shop.node("n1").without_maintenance().run(Subscription::of(recorder.clone())).start().await.unwrap();
    until(|| async { shop.info("stuck").await.owner.is_some() }).await;
    let done = shop.headwater.admin().maintain("shop", true).await.unwrap();
    assert_eq!((done.trimmed.len(), done.dropped.len()), (3, 3), "{done:?}");
    store.set_paused("stuck", false).await.unwrap();
    recorder.handled(9).await;
    node.shutdown().await.unwrap();
    assert_eq!(recorder.sequences(), (10..=18).collect::<Vec<_>>());
    assert_eq!(shop.info("stuck").await.position, 18);
    assert_eq!(shop.headwater.admin().losses("shop", Some("stuck")).await.unwrap().len(), 3);
    assert!(store.audit(&[]).await.unwrap().findings.is_empty());
}
