//! Dead letters, day to day: see what failed and why, repair it and deliver it again, or discard it
//! with a reason.
//!
//! The same from a shell: `headwater dead-letters list`, `… show`, `… redrive`, `… discard`.
//!
//!     DATABASE_URL=postgres://… cargo run -p headwater --example dead_letters

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use headwater::admin::NamespaceConfig;
use headwater::delivery::{DeadLetterQuery, OnExhaustion, OperatorStore, ReliableDeliveryConfig};
use headwater::{Delivery, Event, EventObserver, HandlerError, Headwater, Json, Subscription};

/// Charges cards. The gateway is down for one of the customers.
struct Charges {
    gateway_is_up: Arc<AtomicBool>,
}

impl EventObserver for Charges {
    fn subscriber_id(&self) -> &str {
        "charges"
    }

    async fn on_event(&self, event: Delivery) -> Result<(), HandlerError> {
        let key = event.key.as_deref().unwrap_or_default();
        if key == "grace" && !self.gateway_is_up.load(Ordering::Acquire) {
            return Err(HandlerError::message("the gateway does not answer"));
        }
        println!("charged {key}: {}", event.event_type);
        Ok(())
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = std::env::var("DATABASE_URL").context("DATABASE_URL is not set")?;
    let headwater = Headwater::connect(&url).await?;
    headwater.migrate().await?;
    headwater.create_namespace(NamespaceConfig::new("example-charges")).await?;
    let charges = headwater.namespace("example-charges").await?;

    let gateway_is_up = Arc::new(AtomicBool::new(false));
    let config = ReliableDeliveryConfig {
        max_retries: 2,
        initial_retry_delay: Duration::from_millis(10),
        // Later events of a customer wait behind the one that failed; those of others go on.
        on_exhaustion: OnExhaustion::ParkKey,
        ..Default::default()
    };
    let observer = Charges { gateway_is_up: gateway_is_up.clone() };
    let node = charges.node("charges-1").run(Subscription::of(observer).config(config)).start().await?;
    let mut last = 0;
    for (what, customer) in [("first", "grace"), ("first", "ada"), ("second", "grace")] {
        let event = Event::raw(what, Json::null()).into_builder().key(customer).build()?;
        last = charges.emit(event).await?.global_sequence();
    }
    node.wait_for("charges", last).await?;

    let subscribers = charges.subscribers();
    let query = DeadLetterQuery { limit: 100, ..DeadLetterQuery::default() };
    for letter in subscribers.dead_letters(&query).await? {
        let (sequence, state, tries) = (letter.global_sequence(), letter.state.name(), letter.attempts.len());
        println!("{} at {sequence}: {state} after {tries} tries: {}", letter.event.event_type, letter.error());
    }
    assert_eq!(subscribers.dead_letters(&query).await?.len(), 2);

    // Mended: deliver again what failed. What waits behind it follows, in order.
    gateway_is_up.store(true, Ordering::Release);
    let redriven = subscribers.redrive(&query).await?;
    println!("delivering {redriven} again");
    while !subscribers.dead_letters(&query).await?.is_empty() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    node.shutdown().await?;
    headwater.shutdown().await;
    Ok(())
}
