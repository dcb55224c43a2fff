//! A consumer group, for readers who know Kafka: keys, partitions, members that come and go,
//! offsets, and a change of the number of partitions while the group runs.
//!
//!     DATABASE_URL=postgres://… cargo run -p headwater --example consumer_group

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use headwater::admin::NamespaceConfig;
use headwater::delivery::{GroupInfo, OperatorStore};
use headwater::{Delivery, Event, EventObserver, HandlerError, Headwater, Json, Namespace, Node, Subscription};

const GROUP: &str = "parcels";

/// What was handled, in the order in which it was: (parcel, sequence).
type Handled = Arc<Mutex<Vec<(String, u64)>>>;

struct Tracker {
    handled: Handled,
}

impl EventObserver for Tracker {
    fn subscriber_id(&self) -> &str {
        GROUP
    }

    async fn on_event(&self, event: Delivery) -> Result<(), HandlerError> {
        let (parcel, sequence) = (event.key.clone().unwrap_or_default(), event.global_sequence.unwrap_or_default());
        self.handled.lock().unwrap().push((parcel, sequence));
        Ok(())
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = std::env::var("DATABASE_URL").context("DATABASE_URL is not set")?;
    let headwater = Headwater::connect(&url).await?;
    headwater.migrate().await?;
    headwater.create_namespace(NamespaceConfig::new("example-parcels")).await?;
    let parcels = headwater.namespace("example-parcels").await?;
    let handled = Handled::default();

    // group.id = parcels, 6 partitions. The first member has all of them.
    let one = join(&parcels, "one", &handled).await?;
    scan(&parcels, 60).await?;
    until_shared(&parcels, 1).await?;

    // A second one joins: half of them move, the others go on meanwhile.
    let two = join(&parcels, "two", &handled).await?;
    scan(&parcels, 60).await?;
    until_shared(&parcels, 2).await?;

    // More partitions, while it runs. Order holds: the old ones end where the new ones begin.
    parcels.subscribers().resize(GROUP, 16).await?;
    scan(&parcels, 60).await?;
    until_shared(&parcels, 2).await?;

    // One dies, without a farewell. The other has all of it within a second or two.
    drop(one);
    let last = scan(&parcels, 60).await?;
    two.wait_for(GROUP, last).await?;
    until_shared(&parcels, 1).await?;

    let group = parcels.subscribers().group(GROUP).await?;
    let lag: u64 = group.partitions.iter().map(|partition| partition.lag_events).max().unwrap_or_default();
    println!("{} partitions, {} member, lag {lag}", group.partitions.len(), group.members.len());
    let mut last_of = BTreeMap::new();
    for (parcel, sequence) in handled.lock().unwrap().iter() {
        // Around a crash, a plain handler may see an event twice, but never an earlier one after a
        // later one.
        let before = last_of.insert(parcel.clone(), *sequence).unwrap_or_default();
        assert!(before <= *sequence, "{parcel}: {sequence} after {before}");
    }
    println!("the scans of each of {} parcels came in order", last_of.len());

    two.shutdown().await?;
    headwater.shutdown().await;
    Ok(())
}

async fn join(parcels: &Namespace, node: &str, handled: &Handled) -> anyhow::Result<Node> {
    let tracker = Tracker { handled: handled.clone() };
    Ok(parcels.node(node).run(Subscription::of(tracker).partitions(6)).start().await?)
}

/// Scans of 20 parcels; the parcel is the key. Answers with the last sequence.
async fn scan(parcels: &Namespace, scans: usize) -> anyhow::Result<u64> {
    let scans = (0..scans).fold(headwater::log::Append::new(), |append, n| {
        append.event(Event { key: Some(format!("parcel-{}", n % 20)), ..Event::raw("Scanned", Json::null()) })
    });
    Ok(parcels.append_all(scans).await?.global_sequence())
}

/// Waits until `members` members share all partitions, and no member has more than one partition
/// more than another.
async fn until_shared(parcels: &Namespace, members: usize) -> anyhow::Result<()> {
    loop {
        let GroupInfo { members: there, partitions, resize_to, .. } = parcels.subscribers().group(GROUP).await?;
        let share = |member| partitions.iter().filter(|partition| partition.owner.as_ref() == Some(member)).count();
        let shares: Vec<usize> = there.iter().map(share).collect();
        let fair = shares
            .iter()
            .all(|share| (partitions.len() / members..=partitions.len().div_ceil(members)).contains(share));
        if resize_to.is_none() && shares.len() == members && fair && shares.iter().sum::<usize>() == partitions.len() {
            println!("{} partitions, shared as {shares:?}", partitions.len());
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
