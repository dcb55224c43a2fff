//! `headwater-bench nodes`: messages from emit to a handler by event type, against a loop on pgmq
//! that does the same, in turn.
//!
//! Both emit durably, log every message, and handle each message in a transaction with one INSERT.
//! The loop sends and logs in one transaction. A consumer of the loop reads 10 messages. For each
//! message it begins a transaction, handles the message, commits, and deletes the message.

mod parties;

use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use clap::Args;
use sqlx::PgConnection;
use tokio::time::{Instant, sleep};

use self::parties::{Consumers, Emitters, System};
use crate::contenders::install_pgmq;
use crate::cpu::CpuTime;
use crate::report::{Figure, Report, Target};
use crate::server::BenchServer;
use crate::stats::Sample;

/// Options of `nodes`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Prints one JSON object to stdout
    #[arg(long)]
    json: bool,
    /// Messages that are emitted while they are handled
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    messages: u64,
    /// Number of nodes, or of consumers of the loop
    #[arg(long, default_value_t = 4, value_name = "N")]
    nodes: usize,
    /// Number of concurrent emitters
    #[arg(long, default_value_t = 64, value_name = "N")]
    emitters: usize,
    /// Messages whose latency is measured
    #[arg(long, default_value_t = 400, value_name = "N")]
    timed: u64,
    /// Messages per second in the latency part
    #[arg(long, default_value_t = 50, value_name = "N")]
    rate: u64,
    /// Schedules that are due at the same time
    #[arg(long, default_value_t = 200, value_name = "N")]
    schedules: u32,
    /// Number of rounds
    #[arg(long, default_value_t = 3, value_name = "N")]
    rounds: usize,
    /// Runs only the parts whose names contain one of these texts (throughput, latency, schedules);
    /// omits ratios that need other parts
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    only: Vec<String>,
}

pub(crate) async fn run(options: Options) -> anyhow::Result<()> {
    let wanted = |name: &str| options.only.is_empty() || options.only.iter().any(|part| name.contains(part.as_str()));
    let server = BenchServer::start().await?;
    let mut conn = server.connect().await?;
    install_pgmq(server.headwater.pool()).await?;
    sqlx::raw_sql(include_str!("../sql/nodes_tables.sql")).execute(&mut conn).await?;
    let mut bench = Bench { server, conn, options: &options };

    let (mut throughput, mut latency) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for round in 0..options.rounds {
        let mut systems = [(0, System::Headwater), (1, System::Loop)];
        if round % 2 == 1 {
            systems.reverse();
        }
        for (at, system) in systems {
            if wanted("throughput") {
                let sample = bench.throughput(system).await?;
                let cpu = sample.cpu_us_per_event(|cpu| cpu.server).unwrap_or_default();
                eprintln!("round {} {system:?} {:>8.0} messages/s {cpu:>8.1} us/message", round + 1, sample.rate());
                throughput[at].push(sample);
            }
            if wanted("latency") {
                let sample = bench.latency(system).await?;
                let [median, p99] = [0.5, 0.99].map(|quantile| sample.latency(quantile).unwrap_or_default());
                eprintln!("round {} {system:?} {median:>8.2} ms median {p99:>8.2} ms p99", round + 1);
                latency[at].push(sample);
            }
        }
    }

    let [handlers, pgmq_loop] = &throughput;
    let [emit_to_handler, emit_to_loop] = &latency;
    let named = [
        ("handlers", handlers),
        ("pgmq_loop", pgmq_loop),
        ("emit_to_handler", emit_to_handler),
        ("emit_to_pgmq_loop", emit_to_loop),
    ];
    let figures = named.into_iter().filter(|(_, samples)| !samples.is_empty());
    let mut report =
        Report::new(bench.server.settings.clone(), figures.map(|(name, samples)| (name, Figure::of(samples))));
    let rate = |name: &str| report.figure(name).map(|figure| figure.events_per_second);
    let over = |name: &str, base: &str| Some(rate(name)? / rate(base)?);
    let median = |name: &str| report.figure(name)?.median_ms;
    let p99 = |name: &str| report.figure(name)?.p99_ms;
    // The figures of the loop are there for comparison.
    let any = Target::AtLeast(0.0);
    let ratios = [
        ("handlers_vs_pgmq_loop", over("handlers", "pgmq_loop"), Target::AtLeast(4.0)),
        ("emit_to_handler_ms", median("emit_to_handler"), Target::AtMost(10.0)),
        ("emit_to_handler_p99_ms", p99("emit_to_handler"), Target::AtMost(100.0)),
        ("emit_to_pgmq_loop_ms", median("emit_to_pgmq_loop"), any),
        ("emit_to_pgmq_loop_p99_ms", p99("emit_to_pgmq_loop"), any),
    ];
    ratios.into_iter().for_each(|(name, value, target)| report.ratio(name, value, target));
    bench.server.headwater.shutdown().await;
    drop(bench);
    if wanted("schedules") {
        let (server, jitter) = crate::schedules::measure(options.schedules, 2, 1).await?;
        report.ratio("schedule_jitter_ms", jitter, Target::AtMost(500.0));
        server.headwater.shutdown().await;
    }
    report.print(options.json)
}

struct Bench<'a> {
    server: BenchServer,
    conn: PgConnection,
    options: &'a Options,
}

impl Bench<'_> {
    /// Emits and handles at the same time, until all messages are handled.
    async fn throughput(&mut self, system: System) -> anyhow::Result<Sample> {
        let messages = self.options.messages;
        let consumers = Consumers::start(system, &self.server, self.options.nodes, Duration::from_millis(1)).await?;
        let emitters = Emitters::connect(system, &self.server, self.options.emitters).await?;
        let (started, cpu) = (Instant::now(), CpuTime::now(self.server.pid()));
        let emitting = tokio::spawn(Arc::new(emitters).emit_all(messages));
        consumers.handled(messages).await;
        let all = messages as i64;
        while self.counted().await?.0 < all {
            sleep(Duration::from_millis(1)).await;
        }
        let elapsed = started.elapsed();
        let cpu = CpuTime::now(self.server.pid()).zip(cpu).map(|(after, before)| after.since(before));
        emitting.await??;
        consumers.stop().await?;
        let (counted, twice) = self.counted().await?;
        ensure!(counted - twice == all, "{} of {all} messages were handled", counted - twice);
        ensure!(system == System::Loop || twice == 0, "{twice} messages were handled twice");
        self.empty().await?;
        let mut sample = Sample::new(messages, elapsed, Vec::new());
        sample.cpu = cpu;
        Ok(sample)
    }

    /// Measures the time from the emit call to the handler, at a modest rate. The loop pauses for a
    /// second when it finds nothing.
    async fn latency(&mut self, system: System) -> anyhow::Result<Sample> {
        let consumers = Consumers::start(system, &self.server, self.options.nodes, Duration::from_secs(1)).await?;
        let emitters = Emitters::connect(system, &self.server, 1).await?;
        let mut emitted = Vec::new();
        let (started, every) = (Instant::now(), Duration::from_secs(1) / self.options.rate as u32);
        for number in 0..self.options.timed {
            tokio::time::sleep_until(started + every * number as u32).await;
            emitted.push(Instant::now());
            emitters.emit(0, number).await?;
        }
        consumers.handled(self.options.timed).await;
        let elapsed = started.elapsed();
        let times = consumers.stop().await?;
        self.empty().await?;
        let latencies = emitted
            .iter()
            .enumerate()
            .filter_map(|(number, emitted)| Some(times.get(&(number as u64))?.duration_since(*emitted)));
        let latencies: Vec<Duration> = latencies.collect();
        ensure!(latencies.len() as u64 == self.options.timed, "{} messages were handled", latencies.len());
        Ok(Sample::new(self.options.timed, elapsed, latencies))
    }

    async fn counted(&mut self) -> anyhow::Result<(i64, i64)> {
        Ok(sqlx::query_as(include_str!("../sql/nodes_handled.sql")).fetch_one(&mut self.conn).await?)
    }

    async fn empty(&mut self) -> anyhow::Result<()> {
        sqlx::raw_sql(include_str!("../sql/nodes_empty.sql")).execute(&mut self.conn).await?;
        sqlx::query(include_str!("../sql/checkpoint.sql")).execute(&mut self.conn).await?;
        Ok(())
    }
}
