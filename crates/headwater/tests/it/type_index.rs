//! Subscribers of a namespace with an index by type.

use crate::common::{Recorder, Shop, quick};
use headwater::admin::{Index, NamespaceChanges};
use headwater::log::Append;
use headwater::{Event, Json, Subscription};

async fn number(shop: &Shop, query: &'static str) -> i64 {
    sqlx::query_scalar(query).fetch_one(&mut shop.db.session().await).await.unwrap()
}

/// A subscriber that is far behind passes events that it did not ask for without reading them, and
/// audits still count them.
#[tokio::test]
async fn who_is_far_behind_passes_what_it_did_not_ask_for() {
    let shop = Shop::open().await;
    let changes = NamespaceChanges { index: Some(Index::Types), ..NamespaceChanges::default() };
    shop.headwater.admin().alter_namespace("shop", changes).await.unwrap();
    for block in 0..6 {
        let event = |at: usize| if block == 3 && at == 0 { "rare" } else { "common" };
        let append = (0..10_000).fold(Append::new(), |append, at| append.event(Event::raw(event(at), Json::null())));
        shop.shop.append_all(append).await.unwrap();
    }
    shop.emit(&["rare", "common"]).await;
    // Whoever reads these notes that they are none.
    sqlx::raw_sql("UPDATE headwater_private.events SET headers = '[1]' WHERE global_sequence IN (25000, 45000)")
        .execute(&mut shop.db.session().await)
        .await
        .unwrap();
    let (rare, like) = (Recorder::new("rare"), Recorder::new("like"));
    let node = shop.shop.node("n1");
    let node = node.run(Subscription::of(rare.clone()).event_types(["rare"]).config(quick()));
    let node =
        node.run(Subscription::of(like.clone()).event_types(["r*e", "none"]).config(quick())).start().await.unwrap();
    rare.handled(2).await;
    like.handled(2).await;
    node.shutdown().await.unwrap();
    assert_eq!(rare.sequences(), [30_001, 60_001]);
    assert_eq!(like.sequences(), [30_001, 60_001]);
    assert_eq!(number(&shop, "SELECT count(*) FROM headwater_private.poison_events").await, 0, "it was not read");
    let position = "SELECT position FROM headwater_private.subscribers WHERE subscriber_id = 'rare'";
    assert!(number(&shop, position).await >= 60_001);
    let wrong =
        "SELECT count(*) FROM headwater.audit_subscribers('shop') WHERE in_log <> settled OR sums_differ_by <> 0";
    assert_eq!(number(&shop, wrong).await, 0);
}
