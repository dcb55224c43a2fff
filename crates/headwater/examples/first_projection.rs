//! A first projection: totals of orders, which the events keep up to date, and a read right after a
//! write.
//!
//!     DATABASE_URL=postgres://… cargo run -p headwater --example first_projection

use std::sync::Arc;

use anyhow::Context;
use headwater::admin::NamespaceConfig;
use headwater::delivery::{EventApplicator, PgStateStore, StateStore};
use headwater::{Event, EventData, ExpectedVersion, HandlerError, Headwater, Projection, SubscriberId, Subscription};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize, EventData)]
enum OrderEvent {
    Placed { total: u32 },
    Discounted { by: u32 },
    Cancelled,
}

/// Its id is `order-totals`: every process that runs it shares one progress.
#[derive(SubscriberId)]
struct OrderTotals {
    totals: Arc<PgStateStore<u32>>,
}

impl EventApplicator<OrderEvent> for OrderTotals {
    type State = u32;

    fn apply(&self, total: Option<u32>, event: &Event<OrderEvent>) -> Result<Option<u32>, HandlerError> {
        Ok(match &event.data {
            Some(OrderEvent::Placed { total }) => Some(*total),
            Some(OrderEvent::Discounted { by }) => total.map(|total| total.saturating_sub(*by)),
            // None deletes the state.
            Some(OrderEvent::Cancelled) => None,
            None => total,
        })
    }
}

impl Projection<OrderEvent> for OrderTotals {
    type Store = PgStateStore<u32>;

    fn state_store(&self) -> &PgStateStore<u32> {
        &self.totals
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = std::env::var("DATABASE_URL").context("DATABASE_URL is not set")?;
    let headwater = Headwater::connect(&url).await?;
    headwater.migrate().await?;
    headwater.create_namespace(NamespaceConfig::new("example-shop")).await?;
    let shop = headwater.namespace("example-shop").await?;

    // Events that were appended earlier come first. Events that are appended from now on follow, in
    // the same order.
    shop.append("order-1", ExpectedVersion::NoStream, [OrderEvent::Placed { total: 120 }]).await?;

    let totals = Arc::new(shop.state_store("order-totals"));
    let node = shop.node("shop-1").run(Subscription::of(OrderTotals { totals: totals.clone() })).start().await?;

    shop.append("order-2", ExpectedVersion::NoStream, [OrderEvent::Placed { total: 80 }, OrderEvent::Cancelled])
        .await?;
    let appended = shop.append("order-1", ExpectedVersion::Exact(1), [OrderEvent::Discounted { by: 20 }]).await?;

    // Read your writes: wait until the projection has handled what was just appended.
    node.wait_for("order-totals", appended.global_sequence()).await?;
    println!("order-1: {:?}, order-2: {:?}", get(&totals, "order-1").await?, get(&totals, "order-2").await?);
    assert_eq!(get(&totals, "order-1").await?, Some(100));
    assert_eq!(get(&totals, "order-2").await?, None);

    // Ends the event at hand, writes the checkpoint, and lets another instance take over at once.
    node.shutdown().await?;
    headwater.shutdown().await;
    Ok(())
}

async fn get(totals: &PgStateStore<u32>, order: &str) -> anyhow::Result<Option<u32>> {
    totals.get(order).await.map_err(|error| anyhow::anyhow!("{error}"))
}
