//! Many producers at the same time through one handle: their concurrent appends become one
//! statement and one commit.
//!
//!     DATABASE_URL=postgres://… cargo run --release -p headwater --example bulk

use std::time::Instant;

use anyhow::Context;
use futures::TryStreamExt;
use futures::future::try_join_all;
use headwater::admin::NamespaceConfig;
use headwater::log::{LogQuery, StreamId};
use headwater::{EventData, ExpectedVersion, Headwater};
use serde::{Deserialize, Serialize};

const PRODUCERS: u32 = 200;
const EVENTS_EACH: u32 = 100;

#[derive(Debug, Clone, Serialize, Deserialize, EventData)]
struct Measured {
    sensor: u32,
    value: u32,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = std::env::var("DATABASE_URL").context("DATABASE_URL is not set")?;
    let headwater = Headwater::connect(&url).await?;
    headwater.migrate().await?;
    // A namespace of this run's own, so that its log can be counted.
    let name = format!("example-bulk-{}", uuid::Uuid::now_v7().simple());
    headwater.create_namespace(NamespaceConfig::new(&name)).await?;
    let sensors = headwater.namespace(&name).await?;

    let begin = Instant::now();
    let producers = (0..PRODUCERS).map(|sensor| {
        // Clones share one queue of appends, and a few connections.
        let sensors = sensors.clone();
        tokio::spawn(async move {
            for value in 0..EVENTS_EACH {
                // Each waits until its own event is committed, at the version that it expects.
                let expected = ExpectedVersion::Exact(value.into());
                sensors.append(stream(sensor), expected, [Measured { sensor, value }]).await?;
            }
            anyhow::Ok(())
        })
    });
    for outcome in try_join_all(producers).await? {
        outcome?;
    }
    let (events, seconds) = (PRODUCERS * EVENTS_EACH, begin.elapsed().as_secs_f64());
    println!("{PRODUCERS} producers appended {events} events one by one in {seconds:.2} s");
    println!("that is {:.0} events/s, each stored before its producer went on", f64::from(events) / seconds);

    // The log holds them all, each sensor's in order.
    let mut next = vec![0; PRODUCERS as usize];
    let mut log = sensors.read_log_as::<Measured>(LogQuery::after(0));
    while let Some(event) = log.try_next().await? {
        let Measured { sensor, value } = event.into_data().context("every event here has data")?;
        assert_eq!(next[sensor as usize], value);
        next[sensor as usize] += 1;
    }
    assert!(next.iter().all(|count| *count == EVENTS_EACH));
    println!("read back: every event once, each sensor's in order");

    drop(log);
    headwater.shutdown().await;
    Ok(())
}

fn stream(sensor: u32) -> StreamId {
    format!("sensor-{sensor}").into()
}
