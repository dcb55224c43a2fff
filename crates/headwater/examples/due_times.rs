//! Due times: an event for later. It is stored now, in the same transaction as the data it is
//! about, and is cancelled when it is no longer needed.
//!
//!     DATABASE_URL=postgres://… cargo run -p headwater --example due_times

use std::time::Duration;

use anyhow::Context;
use headwater::admin::NamespaceConfig;
use headwater::{Delivery, Event, EventObserver, HandlerError, Headwater, Json, Subscription};
use serde_json::json;
use tokio::sync::mpsc;

/// Sends reminders when they are due.
struct Reminders {
    sent: mpsc::UnboundedSender<Event>,
}

impl EventObserver for Reminders {
    fn subscriber_id(&self) -> &str {
        "reminders"
    }

    async fn on_event(&self, event: Delivery) -> Result<(), HandlerError> {
        println!("{} {}, due at {}", event.event_type, event.data_text(), event.headers["due_at"]);
        // The example ends when it has heard enough: nobody listening is no failure.
        _ = self.sent.send(Event::clone(&event));
        Ok(())
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = std::env::var("DATABASE_URL").context("DATABASE_URL is not set")?;
    let headwater = Headwater::connect(&url).await?;
    headwater.migrate().await?;
    headwater.create_namespace(NamespaceConfig::new("example-due")).await?;
    let shop = headwater.namespace("example-due").await?;
    let (sent, mut reminders) = mpsc::unbounded_channel();
    let node = shop.node("shop-1").run(Subscription::of(Reminders { sent })).start().await?;

    // In the transaction of the order: if it rolls back, nobody is reminded of it.
    let mut tx = headwater.pool().begin().await?;
    let overdue = |order: u32| Event::raw("PaymentOverdue", Json::from(json!({ "order": order })));
    let first = shop.emit_at_in(&mut tx, Duration::from_millis(300), overdue(1)).await?;
    let second = shop.emit_at_in(&mut tx, Duration::from_secs(3 * 86_400), overdue(2)).await?;
    tx.commit().await?;

    // At a time rather than after a while.
    let midnight = chrono::DateTime::parse_from_rfc3339("2999-12-31T23:59:59Z")?;
    let third = shop.emit_at(midnight, overdue(3)).await?;

    // The second order was paid.
    assert!(shop.cancel_due(second).await?);
    let waiting: Vec<_> = shop.due_events(100).await?.into_iter().map(|due| due.event.id).collect();
    assert!(waiting.contains(&third) && !waiting.contains(&second));

    let reminder = reminders.recv().await.context("the node has stopped")?;
    assert_eq!(reminder.id, first);
    // It has been delivered: too late to take it back.
    assert!(!shop.cancel_due(first).await?);

    shop.cancel_due(third).await?;
    node.shutdown().await?;
    headwater.shutdown().await;
    Ok(())
}
