//! Following the WAL: a node that takes its events from logical replication, in a namespace that
//! does not notify.
//!
//!     DATABASE_URL=postgres://… cargo run -p headwater --example follow_the_wal

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Context;
use headwater::admin::NamespaceConfig;
use headwater::cdc::{CdcOptions, Live, LiveState};
use headwater::{Delivery, Event, EventObserver, HandlerError, Headwater, Json, Subscription};

/// When each event was handled.
#[derive(Clone, Default)]
struct Arrivals(Arc<Mutex<BTreeMap<u64, Instant>>>);

impl EventObserver for Arrivals {
    fn subscriber_id(&self) -> &str {
        "arrivals"
    }

    async fn on_event(&self, event: Delivery) -> Result<(), HandlerError> {
        self.0.lock().expect("nobody panics").insert(event.global_sequence.unwrap_or_default(), Instant::now());
        Ok(())
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = std::env::var("DATABASE_URL").context("DATABASE_URL is not set")?;
    let headwater = Headwater::builder().live(Live::Cdc(CdcOptions::default())).connect(&url).await?;
    headwater.migrate().await?;
    // Whoever follows the WAL needs no NOTIFY.
    headwater.create_namespace(NamespaceConfig::new("example-wal").notify(false)).await?;
    let shop = headwater.namespace("example-wal").await?;

    let arrivals = Arrivals::default();
    let node = shop.node("shop-1").run(Subscription::of(arrivals.clone())).start().await?;
    // Delivery works from the start; this is only about what brings the events.
    while node.status().live.is_none_or(|live| live.state != LiveState::Streaming) {
        if let Some(error) = node.status().live.and_then(|live| live.error) {
            println!("polling meanwhile: {error}");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    let mut took = Vec::new();
    for n in 0..100_u32 {
        let sequence = shop.emit(Event::raw("Counted", Json::from(serde_json::json!(n)))).await?.global_sequence();
        let committed = Instant::now();
        node.wait_for("arrivals", sequence).await?;
        let arrived = arrivals.0.lock().expect("nobody panics")[&sequence];
        took.push(arrived.saturating_duration_since(committed));
    }
    took.sort();
    let live = node.status().live.context("it follows the WAL")?;
    println!("{} of {} events came from the WAL, half of them within {:?} of their commit", live.taken, 100, took[50]);
    assert!(live.taken > 0);

    node.shutdown().await?;
    headwater.shutdown().await;
    Ok(())
}
