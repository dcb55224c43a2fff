//! Ordered consuming by SQL, from Python, against a Rust node. Both handle the same backlog in
//! transactions of a hundred events, and write one row per event as its effect.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use headwater::delivery::{GroupStore, ReliableDeliveryConfig, StartFrom, SubscriberConfig, SubscriberMode};
use headwater::{Delivery, Subscription, Transaction};
use tokio::process::Command;

use crate::report::{Report, Target};
use crate::server::{BenchServer, NAMESPACE};
use crate::stats::Sample;

/// Events per page and per transaction.
const PAGE: u32 = 100;

/// Samples by contender: `sql_ordered_python` and `sql_ordered_rust`.
pub(crate) type Samples = BTreeMap<&'static str, Vec<Sample>>;

/// Runs both contenders in turn.
pub(crate) async fn measure(server: &BenchServer, python: &str, events: u64, rounds: usize) -> anyhow::Result<Samples> {
    let mut conn = server.connect().await?;
    sqlx::query(include_str!("../sql/ordered_load.sql")).bind(NAMESPACE).bind(events as i64).execute(&mut conn).await?;
    let last = server.head().await?;
    let mut samples = Samples::new();
    for round in 0..rounds {
        let mut turns = ["sql_ordered_python", "sql_ordered_rust"];
        turns.rotate_left(round % 2);
        for name in turns {
            sqlx::raw_sql(include_str!("../sql/ordered_effects.sql")).execute(&mut conn).await?;
            let subscriber = format!("{name}-{round}");
            let sample = match name {
                "sql_ordered_python" => by_sql(server, python, &subscriber).await?,
                _ => by_node(server, &subscriber, events, last as u64).await?,
            };
            let effects: i64 = sqlx::query_scalar("SELECT count(*) FROM effects").fetch_one(&mut conn).await?;
            ensure!(
                effects as u64 == events && sample.events == events,
                "{name} had {effects} effects of {events} events"
            );
            eprintln!("round {} {name:<30} {:>10.0} events/s", round + 1, sample.rate());
            samples.entry(name).or_default().push(sample);
        }
    }
    Ok(samples)
}

/// Adds the ratio of the two contenders.
pub(crate) fn add_ratio(report: &mut Report) {
    let rate = |name: &str| Some(report.figure(name)?.events_per_second);
    let ratio = rate("sql_ordered_python").zip(rate("sql_ordered_rust")).map(|(python, rust)| python / rust);
    report.ratio("sql_ordered_consume_vs_rust", ratio, Target::AtLeast(0.3));
}

async fn by_node(server: &BenchServer, subscriber: &str, events: u64, last: u64) -> anyhow::Result<Sample> {
    let config = ReliableDeliveryConfig { catch_up_batch_size: PAGE, ..ReliableDeliveryConfig::default() };
    let begun = Instant::now();
    let node = server
        .namespace
        .node("bench")
        .run(
            Subscription::new(subscriber)
                .transactional_batch(|events: Vec<Delivery>, mut tx: Transaction| async move {
                    for event in events {
                        let effect = sqlx::query("INSERT INTO effects (global_sequence) VALUES ($1)");
                        effect.bind(event.global_sequence.map(u64::cast_signed)).execute(&mut *tx).await?;
                    }
                    Ok(())
                })
                .config(config),
        )
        .start()
        .await?;
    node.wait_for(subscriber, last).await?;
    let sample = Sample::new(events, begun.elapsed(), Vec::new());
    node.shutdown().await?;
    Ok(sample)
}

async fn by_sql(server: &BenchServer, python: &str, subscriber: &str) -> anyhow::Result<Sample> {
    let config = SubscriberConfig::new(subscriber, StartFrom::Beginning, SubscriberMode::Exclusive);
    server.namespace.subscribers().register(&config).await?;
    let script = include_str!("../python/ordered_consume.py");
    let arguments = ["-c", script, server.url.as_str(), NAMESPACE, subscriber, &PAGE.to_string()];
    let output = Command::new(python).args(arguments).output().await?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "the consumer failed: {}", String::from_utf8_lossy(&output.stderr));
    let (events, seconds) = text.trim().split_once(' ').context("the consumer says how many events and seconds")?;
    Ok(Sample::new(events.parse()?, Duration::from_secs_f64(seconds.parse()?), Vec::new()))
}

/// Finds a Python with psycopg2. Debian's psycopg2 package works only with Debian's own Python.
pub(crate) async fn python() -> anyhow::Result<String> {
    let named = std::env::var("PYTHON").ok();
    for python in named.iter().map(String::as_str).chain(["python3", "/usr/bin/python3"]) {
        let there = Command::new(python).args(["-c", "import psycopg2"]).output().await;
        if there.is_ok_and(|output| output.status.success()) {
            return Ok(python.to_owned());
        }
    }
    anyhow::bail!("no python3 with psycopg2 was found: apt-get install python3-psycopg2")
}
