//! Several instances: one handles a subscriber's events. The others stand by, and take over when it
//! leaves or dies.
//!
//!     DATABASE_URL=postgres://… cargo run -p headwater --example several_instances

use std::time::Duration;

use anyhow::Context;
use headwater::admin::NamespaceConfig;
use headwater::delivery::OperatorStore;
use headwater::{Delivery, Event, EventObserver, HandlerError, Headwater, Json, Namespace, Node, Subscription};

/// In a program of yours there is one a process; here, two in one.
struct Reports {
    instance: &'static str,
}

impl EventObserver for Reports {
    fn subscriber_id(&self) -> &str {
        "reports"
    }

    async fn on_event(&self, event: Delivery) -> Result<(), HandlerError> {
        println!("{} handles {}", self.instance, event.event_type);
        Ok(())
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = std::env::var("DATABASE_URL").context("DATABASE_URL is not set")?;
    let headwater = Headwater::connect(&url).await?;
    headwater.migrate().await?;
    headwater.create_namespace(NamespaceConfig::new("example-reports")).await?;
    let reports = headwater.namespace("example-reports").await?;

    let first = start(&reports, "reports-1").await?;
    first.wait_for("reports", emit(&reports, "monday").await?).await?;
    let second = start(&reports, "reports-2").await?;
    second.wait_for("reports", emit(&reports, "tuesday").await?).await?;
    assert_eq!(owner(&reports).await?.as_deref(), Some("reports-1"));

    // It dies: no shutdown, no farewell. Its session ends, and the standby takes over.
    drop(first);
    second.wait_for("reports", emit(&reports, "wednesday").await?).await?;
    assert_eq!(owner(&reports).await?.as_deref(), Some("reports-2"));
    println!("reports-2 took over");

    second.shutdown().await?;
    headwater.shutdown().await;
    Ok(())
}

async fn start(reports: &Namespace, instance: &'static str) -> anyhow::Result<Node> {
    let node = reports.node(instance).run(Subscription::of(Reports { instance }));
    // How long an instance that hangs, but does not die, keeps its subscribers.
    Ok(node.lease(Duration::from_secs(10)).start().await?)
}

async fn emit(reports: &Namespace, day: &str) -> anyhow::Result<u64> {
    Ok(reports.emit(Event::raw(day, Json::null())).await?.global_sequence())
}

async fn owner(reports: &Namespace) -> anyhow::Result<Option<String>> {
    Ok(reports.subscribers().subscriber("reports").await?.owner.map(|instance| instance.node))
}
