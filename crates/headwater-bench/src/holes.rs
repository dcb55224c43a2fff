//! Of `headwater-bench catch-up`: a long transaction that has left a hole before each event of others.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use headwater::{CheckpointMode, Namespace, NamespaceConfig, Node, ReliableDeliveryConfig, SubscriberStore};
use sqlx::postgres::types::Oid;
use sqlx::{PgConnection, Row};

use crate::handlers::idle_batches;
use crate::payload::Payloads;
use crate::server::BenchServer;
use crate::stats::median;

/// Holes, and events between them.
const HOLES: u64 = 100_000;
const SUBSCRIBER: &str = "holes";

/// Rates of delivery beside the same number of events without holes.
pub(crate) struct Ratios {
    /// Of what is visible, while the holes are open.
    pub(crate) visible: f64,
    /// Of what comes late, after the commit.
    pub(crate) late: f64,
}

pub(crate) async fn measure(server: &BenchServer, rounds: usize) -> anyhow::Result<Ratios> {
    let (mut visible, mut late) = (Vec::new(), Vec::new());
    // The first round warms up and is not counted.
    for round in 0..=rounds {
        let none = without(server, round).await?;
        let with = with_holes(server, round).await?;
        eprintln!(
            "round {round} {HOLES} events: without holes {none:.0} events/s, with as many {:.0}, late {:.0}",
            with.0, with.1
        );
        if round > 0 {
            visible.push(with.0 / none);
            late.push(with.1 / none);
        }
    }
    let ratios = median(visible).zip(median(late));
    let (visible, late) = ratios.context("there is a round")?;
    Ok(Ratios { visible, late })
}

async fn without(server: &BenchServer, round: usize) -> anyhow::Result<f64> {
    let mut conn = server.connect().await?;
    let (namespace, sequence) = namespace(server, &mut conn, &format!("none-{round}")).await?;
    // As spread as with holes.
    let first = hand_out(&mut conn, sequence, 2 * HOLES).await?;
    load(&mut conn, &namespace, first).await?;
    settle(&mut conn).await?;
    let started = Instant::now();
    let node = start(&namespace).await?;
    handled(&node, HOLES).await;
    let rate = HOLES as f64 / started.elapsed().as_secs_f64();
    end(&namespace, node).await?;
    Ok(rate)
}

/// The rates of visible events and of late ones.
async fn with_holes(server: &BenchServer, round: usize) -> anyhow::Result<(f64, f64)> {
    let mut conn = server.connect().await?;
    let mut held = server.connect().await?;
    let (namespace, sequence) = namespace(server, &mut conn, &format!("holes-{round}")).await?;
    sqlx::raw_sql("BEGIN").execute(&mut held).await?;
    sqlx::query("SELECT headwater.emit($1, 'OrderPlaced')").bind(&namespace.info().name).execute(&mut held).await?;
    let first = hand_out(&mut conn, sequence, 2 * HOLES).await?;
    load(&mut held, &namespace, first).await?;
    load(&mut conn, &namespace, first + 1).await?;
    settle(&mut conn).await?;
    let started = Instant::now();
    let node = start(&namespace).await?;
    handled(&node, HOLES).await;
    let visible = HOLES as f64 / started.elapsed().as_secs_f64();
    sqlx::raw_sql("COMMIT").execute(&mut held).await?;
    let committed = Instant::now();
    handled(&node, 2 * HOLES + 1).await;
    let late = (HOLES + 1) as f64 / committed.elapsed().as_secs_f64();
    node.wait_for(SUBSCRIBER, u64::try_from(first)? + 2 * HOLES - 1).await?;
    let audit = namespace.subscribers().audit(&[]).await?;
    ensure!(audit.findings.is_empty(), "the audit found {:?}", audit.findings);
    end(&namespace, node).await?;
    Ok((visible, late))
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

async fn load(conn: &mut PgConnection, namespace: &Namespace, first: i64) -> anyhow::Result<()> {
    let payloads = Payloads::new();
    sqlx::query(include_str!("../sql/load_every_other.sql"))
        .bind(namespace.info().id)
        .bind(first)
        .bind(i64::try_from(HOLES)?)
        .bind(payloads.texts())
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
    let config = ReliableDeliveryConfig {
        catch_up_batch_size: 1_000,
        checkpoint_mode: CheckpointMode::Batched { batch_size: 10_000, max_delay_ms: 1_000 },
        hold_for: Duration::ZERO,
        ..ReliableDeliveryConfig::default()
    };
    Ok(idle_batches(namespace.node("bench"), SUBSCRIBER.to_owned()).config(config).start().await?)
}

/// Waits until the subscriber has handled so many.
async fn handled(node: &Node, events: u64) {
    let handled = || node.status().subscribers.iter().map(|one| one.handled).sum::<u64>();
    while handled() < events {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn end(namespace: &Namespace, node: Node) -> anyhow::Result<()> {
    node.shutdown_within(Duration::from_secs(3)).await?;
    namespace.subscribers().remove(SUBSCRIBER, true).await?;
    Ok(())
}
