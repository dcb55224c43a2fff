//! A work queue, for readers who know pgmq: send, read with a visibility timeout, delete, archive.
//! First with a worker that does all of that, then by hand.
//!
//!     DATABASE_URL=postgres://… cargo run -p headwater --example work_queue

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use headwater::admin::NamespaceConfig;
use headwater::delivery::{GroupStore, StartFrom, SubscriberConfig, SubscriberMode};
use headwater::queue::ClaimRequest;
use headwater::{Delivery, Event, EventObserver, HandlerError, Headwater, Namespace, Queue};
use serde_json::json;

/// Makes thumbnails. The third of each ten fails at first.
struct Thumbnails {
    made: AtomicU64,
    failed: AtomicU64,
}

impl EventObserver for Thumbnails {
    fn subscriber_id(&self) -> &str {
        "thumbnails"
    }

    async fn on_event(&self, event: Delivery) -> Result<(), HandlerError> {
        if event.global_sequence.unwrap_or_default() % 10 == 3 && self.failed.fetch_add(1, Ordering::Relaxed) == 0 {
            return Err(HandlerError::message("the picture is not there yet"));
        }
        self.made.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = std::env::var("DATABASE_URL").context("DATABASE_URL is not set")?;
    let headwater = Headwater::connect(&url).await?;
    headwater.migrate().await?;
    headwater.create_namespace(NamespaceConfig::new("example-pictures")).await?;
    let pictures = headwater.namespace("example-pictures").await?;

    // A worker that reads, extends, deletes, tries again and archives by itself. Run it in as many
    // processes as you like.
    let worker = Arc::new(Thumbnails { made: AtomicU64::new(0), failed: AtomicU64::new(0) });
    let node = pictures
        .node("worker-1")
        .run(
            Queue::of(Shared(worker.clone())).workers(8).visibility(Duration::from_secs(30)).start_from(StartFrom::Now),
        )
        .start()
        .await?;
    let last = send(&pictures, 100).await?;
    node.wait_for("thumbnails", last).await?;
    println!("{} thumbnails, one of them at the second try", worker.made.load(Ordering::Relaxed));
    node.shutdown().await?;

    // The same by hand.
    let config = SubscriberConfig::new("by-hand", StartFrom::Now, SubscriberMode::Shared);
    pictures.subscribers().register(&config).await?;
    send(&pictures, 10).await?;
    let queue = pictures.queue("by-hand");
    let mut request = ClaimRequest { max_events: 10, ..ClaimRequest::new("worker-2") };
    let mut done = 0;
    loop {
        let claims = queue.claim(&request).await?;
        request.acks = claims.iter().map(|claim| claim.claim_id).collect();
        if claims.is_empty() {
            break;
        }
        done += claims.iter().map(|claim| claim.events.len()).sum::<usize>();
    }
    ensure!(done >= 10, "{done} were claimed");
    println!("{done} done by hand");
    headwater.shutdown().await;
    Ok(())
}

/// An observer that others look at too.
struct Shared(Arc<Thumbnails>);

impl EventObserver for Shared {
    fn subscriber_id(&self) -> &str {
        self.0.subscriber_id()
    }

    async fn on_event(&self, event: Delivery) -> Result<(), HandlerError> {
        self.0.on_event(event).await
    }
}

async fn send(pictures: &Namespace, number: u64) -> anyhow::Result<u64> {
    let mut last = 0;
    for picture in 0..number {
        let event = Event::raw("PictureUploaded", json!({ "picture": picture }));
        last = pictures.emit(event).await?.global_sequence();
    }
    Ok(last)
}
