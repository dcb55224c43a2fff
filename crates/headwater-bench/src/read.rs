//! `headwater-bench read`: the whole log in order, through Headwater and by a bare SELECT, in turn.

use std::env;
use std::time::Instant;

use anyhow::{Context, ensure};
use clap::Args;
use futures::TryStreamExt;
use headwater::RecordedEvent;
use headwater::log::LogQuery;
use sqlx::PgConnection;
use tokio::process::Command;

use crate::contenders::bare_select::BareSelect;
use crate::memory::Growth;
use crate::payload::{EVENT_TYPE, Payloads};
use crate::report::{Figure, Report, Target};
use crate::server::{BenchServer, NAMESPACE};
use crate::stats::Sample;

/// Rows per loading statement.
const LOAD: u64 = 50_000;
const HEADWATER: &str = "headwater_read_log";
const BARE: &str = "bare_select";

/// Options of `read`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Prints one JSON object to stdout
    #[arg(long)]
    json: bool,
    /// Events in the log
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    events: u64,
    /// Number of rounds
    #[arg(long, default_value_t = 5, value_name = "N")]
    rounds: usize,
}

pub(crate) async fn run(options: Options) -> anyhow::Result<()> {
    let server = BenchServer::start().await?;
    let mut conn = server.connect().await?;
    load(&server, &mut conn, options.events, &[EVENT_TYPE]).await?;

    let (mut headwater, mut bare) = (Vec::new(), Vec::new());
    // The first pass of each reader warms up and is not counted.
    for round in 0..=options.rounds {
        for turn in 0..2 {
            let (name, samples) = if (round + turn) % 2 == 0 { (HEADWATER, &mut headwater) } else { (BARE, &mut bare) };
            let sample = match name {
                HEADWATER => timed(options.events, read_log(&server)).await?,
                _ => timed(options.events, BareSelect::new(&server, &mut conn).read()).await?,
            };
            eprintln!("round {round} {name:<30} {:>8.0} events/s", sample.rate());
            if round > 0 {
                samples.push(sample);
            }
        }
    }
    let growth = memory_of_a_reader(&server, options.events).await?;

    let figures = [(HEADWATER, Figure::of(&headwater)), (BARE, Figure::of(&bare))];
    let mut report = Report::new(server.settings.clone(), figures);
    let rate = |name: &str| report.figure(name).map(|figure| figure.events_per_second);
    let ratio = rate(HEADWATER).zip(rate(BARE)).map(|(headwater, bare)| headwater / bare);
    report.ratio("read_log_vs_bare_select", ratio, Target::AtLeast(0.7));
    report.ratio("reader_memory_mib", Some(growth.mib()), Target::AtMost(64.0));
    report.print(options.json)
}

/// Fills the log, with events of these types in turn.
pub(crate) async fn load(
    server: &BenchServer,
    conn: &mut PgConnection,
    events: u64,
    types: &[&str],
) -> anyhow::Result<()> {
    eprintln!("loading {events} events");
    let payloads = Payloads::new();
    for first in (0..events).step_by(LOAD as usize) {
        sqlx::query(include_str!("../sql/load_events.sql"))
            .bind(server.sequence)
            .bind(server.namespace_id())
            .bind(LOAD.min(events - first) as i64)
            .bind(first as i64)
            .bind(payloads.texts())
            .bind(types)
            .execute(&mut *conn)
            .await?;
    }
    sqlx::query(include_str!("../sql/settle_tables.sql")).execute(&mut *conn).await?;
    sqlx::query(include_str!("../sql/checkpoint.sql")).execute(conn).await?;
    Ok(())
}

/// Times a read, and checks that it returned all events in order.
pub(crate) async fn timed(events: u64, read: impl Future<Output = anyhow::Result<Seen>>) -> anyhow::Result<Sample> {
    let started = Instant::now();
    let seen = read.await?;
    let elapsed = started.elapsed();
    ensure!(seen.events == events, "{} of {events} events were read", seen.events);
    Ok(Sample::new(events, elapsed, Vec::new()))
}

async fn read_log(server: &BenchServer) -> anyhow::Result<Seen> {
    let mut seen = Seen::default();
    let mut events = server.namespace.read_log(LogQuery::after(0));
    while let Some(event) = events.try_next().await? {
        seen.note(&event)?;
    }
    Ok(seen)
}

/// What a reader has seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) events: u64,
    last: u64,
}

impl Seen {
    pub(crate) fn note(&mut self, event: &RecordedEvent) -> anyhow::Result<()> {
        let sequence = event.global_sequence.context("a stored event has a sequence")?;
        ensure!(sequence > self.last, "{sequence} came after {}", self.last);
        self.last = sequence;
        self.events += 1;
        Ok(())
    }
}

/// Returns the memory growth of a child process that reads the whole log.
async fn memory_of_a_reader(server: &BenchServer, events: u64) -> anyhow::Result<Growth> {
    let output = Command::new(env::current_exe()?)
        .args(["read-child", "--url", &server.url, "--namespace", NAMESPACE])
        .stderr(std::process::Stdio::inherit())
        .output()
        .await?;
    ensure!(output.status.success(), "the child that reads failed");
    let growth: Growth = serde_json::from_slice(&output.stdout)?;
    ensure!(growth.events == events, "the child read {} of {events} events", growth.events);
    Ok(growth)
}
