//! First events: connect, migrate, append typed events to a stream, meet a conflict, read back.
//!
//!     DATABASE_URL=postgres://… cargo run -p headwater --example first_events

use anyhow::Context;
use futures::TryStreamExt;
use headwater::admin::NamespaceConfig;
use headwater::log::AppendError;
use headwater::{EventData, ExpectedVersion, Headwater};
use serde::{Deserialize, Serialize};

/// One Rust type for the events of an order. Each variant is an event type, and its fields are the
/// event's data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, EventData)]
enum OrderEvent {
    Placed {
        customer: String,
        total: u32,
    },
    #[event(type = "order.paid")]
    Paid {
        by: String,
    },
    Shipped,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = std::env::var("DATABASE_URL").context("DATABASE_URL is not set")?;
    let headwater = Headwater::connect(&url).await?;
    let migrated = headwater.migrate().await?;
    println!("connected; the schema is at version {}", migrated.to);

    // Made once, found again ever after.
    headwater.create_namespace(NamespaceConfig::new("example-orders")).await?;
    let orders = headwater.namespace("example-orders").await?;

    // A stream of its own for this run.
    let order = format!("order-{}", uuid::Uuid::now_v7());
    let placed = OrderEvent::Placed { customer: "ada".into(), total: 120 };
    let paid = OrderEvent::Paid { by: "card".into() };
    let appended = orders.append(&order, ExpectedVersion::NoStream, [placed.clone(), paid.clone()]).await?;
    println!("appended two events to {order}, up to global_sequence {}", appended.global_sequence());
    assert_eq!(appended.stream_version(), Some(2));

    // Two who both saw version 2 want to go on. The first one may.
    orders.append(&order, ExpectedVersion::Exact(2), [OrderEvent::Shipped]).await?;
    match orders.append(&order, ExpectedVersion::Exact(2), [OrderEvent::Shipped]).await {
        Err(AppendError::Conflict { expected, actual, .. }) => {
            println!("the second one is told: expected {expected}, but the stream is at {actual}");
            assert_eq!(actual, 3);
        }
        other => anyhow::bail!("expected a conflict, not {other:?}"),
    }

    let events: Vec<_> = orders.read_stream_as::<OrderEvent>(&order).try_collect().await?;
    for event in &events {
        println!("  {}: {} {:?}", event.stream_version.unwrap_or_default(), event.event_type, event.data);
    }
    let data: Vec<_> = events.into_iter().filter_map(|event| event.into_data()).collect();
    assert_eq!(data, [placed, paid, OrderEvent::Shipped]);

    headwater.shutdown().await;
    Ok(())
}
