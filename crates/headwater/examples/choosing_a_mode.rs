//! Choosing a mode: the same events go to two instances that take turns (exclusive), that share the
//! work (partitioned), and that each get everything (broadcast).
//!
//!     DATABASE_URL=postgres://… cargo run -p headwater --example choosing_a_mode

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use headwater::admin::NamespaceConfig;
use headwater::delivery::{OperatorStore, StartFrom};
use headwater::{Delivery, Event, EventObserver, HandlerError, Headwater, Json, Namespace, Node, Subscription};

const PARTITIONS: u32 = 8;
const ORDERS: usize = 24;

/// Who handled how many: (subscriber, instance) → events.
type Counts = Arc<Mutex<BTreeMap<(String, &'static str), usize>>>;

/// A subscriber as one instance runs it. Your program has one per process; here, all are in one
/// process.
struct Counter {
    subscriber_id: String,
    instance: &'static str,
    counts: Counts,
}

impl EventObserver for Counter {
    fn subscriber_id(&self) -> &str {
        &self.subscriber_id
    }

    async fn on_event(&self, _: Delivery) -> Result<(), HandlerError> {
        *self.counts.lock().unwrap().entry((self.subscriber_id.clone(), self.instance)).or_default() += 1;
        Ok(())
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = std::env::var("DATABASE_URL").context("DATABASE_URL is not set")?;
    let headwater = Headwater::connect(&url).await?;
    headwater.migrate().await?;
    headwater.create_namespace(NamespaceConfig::new("example-modes")).await?;
    let orders = headwater.namespace("example-modes").await?;

    let counts = Counts::default();
    let first = start(&orders, "first", &counts).await?;
    let second = start(&orders, "second", &counts).await?;
    // Each has its share before there is work: else whoever is first may have done it all.
    while shares(&orders).await? != [PARTITIONS as usize / 2; 2] {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    let placed = (0..ORDERS).fold(headwater::log::Append::new(), |append, n| {
        append.event(Event { key: Some(format!("customer-{n}")), ..Event::raw("OrderPlaced", Json::null()) })
    });
    let last = orders.append_all(placed).await?.global_sequence();
    for subscriber in ["invoices", "search", "cache-first", "cache-second"] {
        first.wait_for(subscriber, last).await?;
    }

    let counts = counts.lock().unwrap().clone();
    for ((subscriber, instance), events) in &counts {
        println!("{subscriber}: {instance} handled {events} of {ORDERS}");
    }
    let by = |subscriber: &str, instance| counts.get(&(subscriber.to_owned(), instance)).copied().unwrap_or_default();
    let both = |subscriber: &str| [by(subscriber, "first"), by(subscriber, "second")];
    assert_eq!(both("invoices"), [ORDERS, 0], "exclusive: one works, the other stands by");
    assert_eq!(both("search").iter().sum::<usize>(), ORDERS, "partitioned: each event once");
    assert!(both("search").iter().all(|events| *events > 0), "partitioned: both work");
    assert_eq!([by("cache-first", "first"), by("cache-second", "second")], [ORDERS; 2], "broadcast: both hear all");

    first.shutdown().await?;
    second.shutdown().await?;
    headwater.shutdown().await;
    Ok(())
}

async fn start(orders: &Namespace, instance: &'static str, counts: &Counts) -> anyhow::Result<Node> {
    let counter =
        |subscriber_id: &str| Counter { subscriber_id: subscriber_id.into(), instance, counts: counts.clone() };
    let node = orders
        .node(instance)
        // Exclusive: the first that starts has it.
        .run(Subscription::of(counter("invoices")))
        // Partitioned: customers are spread over the partitions, and those over the instances.
        .run(Subscription::of(counter("search")).partitions(PARTITIONS))
        // Broadcast: each instance has its own subscriber. A cache that starts empty does not need
        // earlier events.
        .run(Subscription::of(counter(&format!("cache-{instance}"))).start_from(StartFrom::Now));
    Ok(node.start().await?)
}

/// How many partitions of `search` each instance has.
async fn shares(orders: &Namespace) -> anyhow::Result<Vec<usize>> {
    let mut shares = BTreeMap::new();
    for owner in orders.subscribers().group("search").await?.partitions.into_iter().filter_map(|its| its.owner) {
        *shares.entry(owner.node).or_insert(0) += 1;
    }
    Ok(shares.into_values().collect())
}
