//! Part of `headwater-bench catch-up`: what holes in the log cost a subscriber.
//!
//! Each run gives the same subscriber the same number of events. Each run is timed from the start
//! of its node to the last of these events:
//!
//! - none: the events have no holes between them.
//! - open: one transaction in flight has left a hole before each event. It commits when all visible
//!   events are handled. Its own events are then delivered late; that part is timed from the
//!   commit.
//! - rolled back: each event follows a hole that will never be filled.
//!
//! Checkpoints use the default settings. The subscriber never waits for a hole (`hold_for` is
//! zero), because waiting takes time and no work.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::ensure;
use headwater::admin::NamespaceConfig;
use headwater::delivery::{OperatorStore, ReliableDeliveryConfig};
use headwater::{Namespace, Node};
use sqlx::postgres::types::Oid;
use sqlx::{PgConnection, Row};

use crate::cpu::CpuTime;
use crate::handlers::idle_batches;
use crate::payload::Payloads;
use crate::server::BenchServer;
use crate::stats::Sample;

/// Events per run, and holes between them.
const EVENTS: u64 = 100_000;
const SUBSCRIBER: &str = "holes";

pub(crate) const NONE: &str = "holes_none";
pub(crate) const OPEN: &str = "holes_open";
pub(crate) const LATE: &str = "holes_late";
pub(crate) const ROLLED_BACK: &str = "holes_rolled_back";

/// Measures all runs in turn, and returns their samples by name.
pub(crate) async fn measure(
    server: &BenchServer,
    rounds: usize,
) -> anyhow::Result<BTreeMap<&'static str, Vec<Sample>>> {
    let mut samples: BTreeMap<&'static str, Vec<Sample>> = BTreeMap::new();
    // The first round warms up and is not counted.
    for round in 0..=rounds {
        let none = settled(server, &format!("none-{round}"), 1).await?;
        let (open, late) = open(server, &format!("open-{round}")).await?;
        let rolled_back = settled(server, &format!("rolled-back-{round}"), 2).await?;
        for (name, sample) in [(NONE, none), (OPEN, open), (LATE, late), (ROLLED_BACK, rolled_back)] {
            let cpu = |of: fn(CpuTime) -> f64| sample.cpu_us_per_event(of).unwrap_or_default();
            eprintln!(
                "round {round} {name:<30} {:>8.0} events/s, {:>6.1} us of CPU time an event in the server, {:>6.1} here",
                sample.rate(),
                cpu(|cpu| cpu.server),
                cpu(|cpu| cpu.client)
            );
            if round > 0 {
                samples.entry(name).or_default().push(sample);
            }
        }
    }
    Ok(samples)
}

/// Delivers events whose sequences are `apart` from each other. Nothing else can still commit.
async fn settled(server: &BenchServer, name: &str, apart: u64) -> anyhow::Result<Sample> {
    let mut conn = server.connect().await?;
    let (namespace, sequence) = namespace(server, &mut conn, name).await?;
    let first = hand_out(&mut conn, sequence, apart * EVENTS).await?;
    load(&mut conn, &namespace, first + i64::try_from(apart)? - 1, apart).await?;
    settle(&mut conn).await?;
    let clock = Clock::start(server);
    let node = start(&namespace).await?;
    handled(&node, EVENTS).await;
    let sample = clock.stop(EVENTS);
    end(&namespace, node, u64::try_from(first)? + apart * EVENTS - 1).await?;
    Ok(sample)
}

/// Delivers events between the holes of an open transaction, and then that transaction's events.
async fn open(server: &BenchServer, name: &str) -> anyhow::Result<(Sample, Sample)> {
    let mut conn = server.connect().await?;
    let mut held = server.connect().await?;
    let (namespace, sequence) = namespace(server, &mut conn, name).await?;
    sqlx::raw_sql("BEGIN").execute(&mut held).await?;
    sqlx::query("SELECT headwater.emit($1, 'OrderPlaced')").bind(&namespace.info().name).execute(&mut held).await?;
    let first = hand_out(&mut conn, sequence, 2 * EVENTS).await?;
    load(&mut held, &namespace, first, 2).await?;
    load(&mut conn, &namespace, first + 1, 2).await?;
    settle(&mut conn).await?;
    let clock = Clock::start(server);
    let node = start(&namespace).await?;
    handled(&node, EVENTS).await;
    let open = clock.stop(EVENTS);
    sqlx::raw_sql("COMMIT").execute(&mut held).await?;
    let clock = Clock::start(server);
    handled(&node, 2 * EVENTS + 1).await;
    let late = clock.stop(EVENTS + 1);
    end(&namespace, node, u64::try_from(first)? + 2 * EVENTS - 1).await?;
    Ok((open, late))
}

async fn namespace(server: &BenchServer, conn: &mut PgConnection, name: &str) -> anyhow::Result<(Namespace, Oid)> {
    server.owner.create_namespace(NamespaceConfig::new(name)).await?;
    let row = sqlx::query(include_str!("../sql/sequence.sql")).bind(name).fetch_one(conn).await?;
    Ok((server.owner.namespace(name).await?, row.get("oid")))
}

async fn hand_out(conn: &mut PgConnection, sequence: Oid, count: u64) -> anyhow::Result<i64> {
    let statement = sqlx::query_scalar(include_str!("../sql/hand_out.sql")).bind(sequence).bind(i64::try_from(count)?);
    Ok(statement.fetch_one(conn).await?)
}

async fn load(conn: &mut PgConnection, namespace: &Namespace, first: i64, apart: u64) -> anyhow::Result<()> {
    let payloads = Payloads::new();
    sqlx::query(include_str!("../sql/load_spaced.sql"))
        .bind(namespace.info().id)
        .bind(first)
        .bind(i64::try_from(EVENTS)?)
        .bind(payloads.texts())
        .bind(i64::try_from(apart)?)
        .execute(conn)
        .await?;
    Ok(())
}

async fn settle(conn: &mut PgConnection) -> anyhow::Result<()> {
    sqlx::query(include_str!("../sql/settle_tables.sql")).execute(&mut *conn).await?;
    sqlx::query(include_str!("../sql/checkpoint.sql")).execute(conn).await?;
    Ok(())
}

async fn start(namespace: &Namespace) -> anyhow::Result<Node> {
    let config = ReliableDeliveryConfig { hold_for: Duration::ZERO, ..ReliableDeliveryConfig::default() };
    Ok(namespace.node("bench").run(idle_batches(SUBSCRIBER).config(config)).start().await?)
}

/// Measures the time and the CPU time of a run.
struct Clock {
    postmaster: u32,
    started: Instant,
    cpu: Option<CpuTime>,
}

impl Clock {
    fn start(server: &BenchServer) -> Self {
        let postmaster = server.pid();
        Clock { postmaster, started: Instant::now(), cpu: CpuTime::now(postmaster) }
    }

    fn stop(self, events: u64) -> Sample {
        let elapsed = self.started.elapsed();
        let mut sample = Sample::new(events, elapsed, Vec::new());
        sample.cpu = CpuTime::now(self.postmaster).zip(self.cpu).map(|(after, before)| after.since(before));
        sample
    }
}

/// Waits until the subscriber has handled this many events.
async fn handled(node: &Node, events: u64) {
    let handled = || node.status().subscribers.iter().map(|one| one.handled).sum::<u64>();
    while handled() < events {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Checks that nothing was lost, and cleans up.
async fn end(namespace: &Namespace, node: Node, last: u64) -> anyhow::Result<()> {
    node.wait_for(SUBSCRIBER, last).await?;
    let audit = namespace.subscribers().audit(&[]).await?;
    ensure!(audit.findings.is_empty(), "the audit found {:?}", audit.findings);
    node.shutdown_within(Duration::from_secs(3)).await?;
    namespace.subscribers().remove(SUBSCRIBER, true).await?;
    Ok(())
}
