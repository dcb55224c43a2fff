//! Part of `headwater-bench cdc`: what a node reads of the log while transactions overlap and some
//! of them are rolled back, with and without events from the WAL.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use headwater::cdc::{Live, LiveState};
use headwater::delivery::{OperatorStore, StartFrom};
use headwater::{Headwater, Node};
use sqlx::{Connection, PgConnection};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::handlers::idle_batches;
use crate::payload::Payloads;
use crate::server::{BenchServer, NAMESPACE};

const APPLICATION: &str = "cdc-rollbacks";

/// The load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    /// Connections that write. Each runs transactions of one event, one after the other.
    pub(crate) writers: usize,
    /// Share of these transactions that is rolled back, from 0 to 1.
    pub(crate) rollbacks: f64,
    pub(crate) seconds: f64,
}

/// What a node did under the load.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Followed {
    /// Events that were committed.
    pub(crate) events: u64,
    /// Committed events that the node took from the WAL.
    pub(crate) taken: u64,
    /// Rows that all sessions read from the tables of events.
    pub(crate) rows: i64,
    /// Lookups by all sessions in these tables and their indexes.
    pub(crate) looks: i64,
}

impl Followed {
    pub(crate) fn rows_per_event(self) -> f64 {
        self.rows as f64 / self.events as f64
    }

    pub(crate) fn share(self) -> f64 {
        self.taken as f64 / self.events as f64
    }

    pub(crate) fn add(&mut self, other: Followed) {
        self.events += other.events;
        self.taken += other.taken;
        self.rows += other.rows;
        self.looks += other.looks;
    }
}

/// Runs a node with one subscriber under the load until it has handled everything.
pub(crate) async fn follow(
    server: &BenchServer,
    monitor: &mut PgConnection,
    live: Live,
    load: Load,
) -> anyhow::Result<Followed> {
    ensure!(
        (0.0..1.0).contains(&load.rollbacks),
        "invalid --rollbacks {}: it is 0 or more, and below 1",
        load.rollbacks
    );
    ensure!(load.writers > 0, "invalid --writers 0: it is at least 1");
    let before = reads(monitor).await?;
    // All handles are dropped when this returns. A handle that is left would keep a listening
    // session open.
    let (events, taken) = handled(server, live, load).await?;
    // A session reports its counts when it ends.
    gone(monitor).await?;
    let after = reads(monitor).await?;
    ensure!(events > 0, "nothing was committed");
    Ok(Followed { events, taken, rows: after.0 - before.0, looks: after.1 - before.1 })
}

/// Returns how many events were committed, and how many of these were taken from the WAL.
async fn handled(server: &BenchServer, live: Live, load: Load) -> anyhow::Result<(u64, u64)> {
    let headwater = Headwater::builder().application_name(APPLICATION).connect(&server.url).await?;
    let builder = headwater.namespace(NAMESPACE).await?.node(APPLICATION).live(live);
    let node = builder.run(idle_batches(APPLICATION).start_from(StartFrom::Now)).start().await?;
    while !(streams(&node) && node.status().subscribers.iter().all(|one| one.owned)) {
        sleep(Duration::from_millis(10)).await;
    }
    let taken = |node: &Node| node.status().live.map_or(0, |live| live.taken);
    let taken_before = taken(&node);
    let mut writers = JoinSet::new();
    let until = Instant::now() + Duration::from_secs_f64(load.seconds);
    for conn in server.connections(load.writers).await? {
        writers.spawn(write(server.namespace.clone(), conn, load.rollbacks, until));
    }
    let (mut events, mut last) = (0, 0);
    while let Some(done) = writers.join_next().await {
        let (committed, highest) = done??;
        (events, last) = (events + committed, last.max(highest));
    }
    node.wait_for(APPLICATION, last).await?;
    let taken = taken(&node) - taken_before;
    node.shutdown().await?;
    server.namespace.subscribers().remove(APPLICATION, true).await?;
    headwater.shutdown().await;
    Ok((events, taken))
}

fn streams(node: &Node) -> bool {
    node.status().live.is_none_or(|live| live.state == LiveState::Streaming)
}

/// Runs one transaction after the other. Returns how many were committed, and the highest sequence
/// among these.
async fn write(
    namespace: headwater::Namespace,
    mut conn: PgConnection,
    rollbacks: f64,
    until: Instant,
) -> anyhow::Result<(u64, u64)> {
    sqlx::query("SELECT set_config('application_name', $1, false)").bind(APPLICATION).execute(&mut conn).await?;
    let payloads = Payloads::new();
    let (mut committed, mut last, mut number) = (0, 0, 0);
    while Instant::now() < until {
        let mut transaction = conn.begin().await?;
        let appended = namespace.emit_in(&mut transaction, payloads.event(number)).await?;
        number += 1;
        // Roll back the given share, evenly spread.
        if (number as f64 * rollbacks).floor() > ((number - 1) as f64 * rollbacks).floor() {
            transaction.rollback().await?;
        } else {
            transaction.commit().await?;
            (committed, last) = (committed + 1, appended.global_sequence());
        }
    }
    conn.close().await?;
    Ok((committed, last))
}

/// Returns the rows and lookups so far.
async fn reads(monitor: &mut PgConnection) -> anyhow::Result<(i64, i64)> {
    let statement = sqlx::query_as(include_str!("../sql/reads.sql")).fetch_one(monitor);
    statement.await.context("failed to read what was read of the tables of events")
}

async fn gone(monitor: &mut PgConnection) -> anyhow::Result<()> {
    let gone = "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = $1";
    while !sqlx::query_scalar::<_, bool>(gone).bind(APPLICATION).fetch_one(&mut *monitor).await? {
        sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
