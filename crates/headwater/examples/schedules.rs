//! Schedules: an event at each due time of a cron expression, once however many nodes run.
//!
//!     DATABASE_URL=postgres://… cargo run -p headwater --example schedules

use anyhow::Context;
use headwater::admin::NamespaceConfig;
use headwater::schedule::{MissedRuns, RunOutcome};
use headwater::{Delivery, Event, EventObserver, HandlerError, Headwater, Subscription, Task};
use serde_json::json;
use tokio::sync::mpsc;

/// Does what is scheduled.
struct Worker {
    done: mpsc::UnboundedSender<Event>,
}

impl EventObserver for Worker {
    fn subscriber_id(&self) -> &str {
        "worker"
    }

    async fn on_event(&self, event: Delivery) -> Result<(), HandlerError> {
        println!("{} {}, due at {}", event.event_type, event.data_text(), event.headers["scheduled_at"]);
        // The example ends when it has heard enough: nobody listening is no failure.
        _ = self.done.send(Event::clone(&event));
        Ok(())
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = std::env::var("DATABASE_URL").context("DATABASE_URL is not set")?;
    let headwater = Headwater::connect(&url).await?;
    headwater.migrate().await?;
    headwater.create_namespace(NamespaceConfig::new("example-schedules")).await?;
    let shop = headwater.namespace("example-schedules").await?;
    let (done, mut events) = mpsc::unbounded_channel();
    let node = shop.node("shop-1").run(Subscription::of(Worker { done })).start().await?;

    // What an expression means, before it is used.
    for due in shop.next_runs("0 2 * * MON-FRI", "Europe/Copenhagen", 3).await? {
        println!("cleanup would run at {due}");
    }
    let wrong = shop.next_runs("61 * * * *", "UTC", 1).await.expect_err("there is no minute 61");
    println!("{wrong}");

    // At every start of the program: what is due stays due.
    let cleanup = Task::cron("nightly-cleanup", "0 2 * * MON-FRI")
        .timezone("Europe/Copenhagen")
        .emits("maintenance.cleanup", json!({ "keep_days": 30 }))
        .missed(MissedRuns::Skip);
    let schedule = shop.schedule_task(cleanup).await?;
    println!("cleanup is due next at {:?}", schedule.next_due_at);
    let tick = Task::cron("tick", "* * * * * *").emits("Tick", json!(null));
    node.schedule_task(tick).await?;

    for _ in 0..2 {
        let event = events.recv().await.context("the node has stopped")?;
        assert_eq!(event.headers["schedule"], "tick");
    }
    shop.delete_schedule("tick").await?;

    // Nobody wants to wait for the night.
    let sequence = shop.run_now("nightly-cleanup").await?;
    while events.recv().await.context("the node has stopped")?.global_sequence != Some(sequence) {}
    let runs = shop.schedule_runs("nightly-cleanup", 1).await?;
    assert_eq!((runs[0].outcome, runs[0].global_sequence), (RunOutcome::Manual, Some(sequence)));

    shop.delete_schedule("nightly-cleanup").await?;
    node.shutdown().await?;
    headwater.shutdown().await;
    Ok(())
}
