//! `headwater-bench queue`: workers that share a queue, against pgmq with as many workers, in turn.
//!
//! No handler does anything: this measures the cost to take work and to finish it.
//!
//! - A worker of Headwater claims a batch. Its next claim also finishes the batch before. A worker
//!   of pgmq reads and deletes.
//! - Some workers ask for events by type: for both types that exist, or each for one of them.
//! - A node with as many handlers claims for all of them at once. The same node also consumes while
//!   events are emitted.

mod workers;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::ensure;
use clap::Args;
use headwater::delivery::{GroupStore, OperatorStore, StartFrom, SubscriberMode};
use headwater_core::SubscriberConfig;
use sqlx::PgConnection;
use tokio::time::{Instant, sleep, sleep_until};

use self::workers::{Producer, Until, Worker, all, produce, work};
use crate::contenders::install_pgmq;
use crate::cpu::CpuTime;
use crate::payload::{EVENT_TYPE, OTHER_TYPE, Payloads};
use crate::read::load;
use crate::report::{Figure, Report, Target};
use crate::server::{BenchServer, Role};
use crate::stats::{Sample, median};

const BATCH: u32 = 100;
/// The server publishes a session's counts within a second, or when the session ends.
const COUNTED: Duration = Duration::from_millis(1_200);

/// Options of `queue`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Prints one JSON object to stdout
    #[arg(long)]
    json: bool,
    /// Events that wait to be claimed
    #[arg(long, default_value_t = 300_000, value_name = "N")]
    events: u64,
    /// Events that are emitted while workers claim
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    end_to_end_events: u64,
    /// Workers per queue
    #[arg(long, default_value_t = 4, value_name = "N")]
    workers: usize,
    /// Producers per queue
    #[arg(long, default_value_t = 64, value_name = "N")]
    producers: usize,
    /// Seconds for which events are claimed one by one, and length of each window around the held
    /// snapshot
    #[arg(long, default_value_t = 5, value_name = "N")]
    seconds: u64,
    /// Seconds for which a snapshot is held under load
    #[arg(long, default_value_t = 60, value_name = "N")]
    hold_seconds: u64,
    /// Number of rounds
    #[arg(long, default_value_t = 3, value_name = "N")]
    rounds: usize,
    /// Runs only the parts whose names contain one of these texts (types, batches, single,
    /// end_to_end, held); omits ratios that need other parts
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    only: Vec<String>,
    /// Role that calls Headwater
    #[arg(long, value_enum, default_value_t = Role::Owner)]
    role: Role,
}

/// The queue that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum System {
    /// A node with a shared subscriber.
    Node,
    /// Workers that claim directly.
    Claims,
    /// Workers that claim directly, and each asks for all types by name.
    Typed,
    /// Workers that claim directly, and each asks for half of the types.
    HalfOfTypes,
    Pgmq,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Events of two types, in turn.
    Types,
    Batches,
    Single,
    EndToEnd,
}

const CONTENDERS: [(&str, Part, System); 10] = [
    ("types_untyped", Part::Types, System::Claims),
    ("types_all", Part::Types, System::Typed),
    ("types_half", Part::Types, System::HalfOfTypes),
    ("node_batches", Part::Batches, System::Node),
    ("claims_batches", Part::Batches, System::Claims),
    ("pgmq_batches", Part::Batches, System::Pgmq),
    ("headwater_single", Part::Single, System::Claims),
    ("pgmq_single", Part::Single, System::Pgmq),
    ("headwater_end_to_end", Part::EndToEnd, System::Node),
    ("pgmq_end_to_end", Part::EndToEnd, System::Pgmq),
];

pub(crate) async fn run(options: Options) -> anyhow::Result<()> {
    let wanted = |name: &str| options.only.is_empty() || options.only.iter().any(|part| name.contains(part.as_str()));
    ensure!(options.workers >= 2 || !wanted("types_half"), "half of the types each: that takes two workers");
    let server = BenchServer::start_as(options.role, &[]).await?;
    let mut conn = server.connect().await?;
    install_pgmq(server.owner.pool()).await?;
    load(&server, &mut conn, options.events, &[EVENT_TYPE, OTHER_TYPE]).await?;
    let mut bench = Bench { server, conn, options: &options, number: 0 };

    let mut samples: BTreeMap<&'static str, Vec<Sample>> = BTreeMap::new();
    let mut dead: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
    // The parts with types run first: later parts emit only one type.
    for (of_types, round) in (0..options.rounds * 2).map(|turn| (turn < options.rounds, turn % options.rounds)) {
        let contenders = CONTENDERS.into_iter().filter(|(_, part, _)| (*part == Part::Types) == of_types);
        let mut contenders: Vec<_> = contenders.filter(|(name, ..)| wanted(name)).collect();
        if round % 2 == 1 {
            contenders.reverse();
        }
        for (name, part, system) in contenders {
            let (sample, dead_rows) = bench.turn(part, system).await?;
            let per_1000 = dead_rows as f64 * 1_000.0 / sample.events as f64;
            let cpu = sample.cpu_us_per_event(|cpu| cpu.server).unwrap_or_default();
            eprintln!(
                "round {} {name:<22} {:>8.0} events/s {cpu:>8.1} us/event {per_1000:>8.1} dead/1000",
                round + 1,
                sample.rate()
            );
            dead.entry(name).or_default().push(per_1000);
            samples.entry(name).or_default().push(sample);
        }
    }
    let mut drops = [None, None];
    if wanted("held") {
        drops = [Some(bench.held(System::Node).await?), Some(bench.held(System::Pgmq).await?)];
    }

    let figures = samples.iter().map(|(name, samples)| (*name, Figure::of(samples)));
    let mut report = Report::new(bench.server.settings.clone(), figures);
    let rate = |name: &str| report.figure(name).map(|figure| figure.events_per_second);
    let over = |name: &str, base: &str| Some(rate(name)? / rate(base)?);
    let dead = |name: &str| median(dead.get(name)?.iter().copied());
    // The figures of pgmq are there for comparison.
    let any = Target::AtLeast(0.0);
    let ratios = [
        ("shared_claim_ack_vs_pgmq", over("claims_batches", "pgmq_batches"), Target::AtLeast(4.0)),
        ("shared_node_vs_pgmq", over("node_batches", "pgmq_batches"), Target::AtLeast(4.0)),
        ("shared_single_vs_pgmq", over("headwater_single", "pgmq_single"), Target::AtLeast(1.5)),
        ("shared_typed_vs_untyped", over("types_all", "types_untyped"), Target::AtLeast(0.9)),
        ("shared_half_of_types_vs_all", over("types_half", "types_untyped"), Target::AtLeast(0.8)),
        ("shared_end_to_end_vs_pgmq", over("headwater_end_to_end", "pgmq_end_to_end"), Target::AtLeast(3.0)),
        ("held_snapshot_drop", drops[0], Target::AtLeast(0.9)),
        ("held_snapshot_drop_pgmq", drops[1], any),
        ("dead_tuples_per_1000", dead("claims_batches"), Target::AtMost(50.0)),
        ("dead_tuples_per_1000_pgmq", dead("pgmq_batches"), any),
    ];
    ratios.into_iter().for_each(|(name, value, target)| report.ratio(name, value, target));
    bench.server.headwater.shutdown().await;
    report.print(options.json)
}

struct Bench<'a> {
    server: BenchServer,
    conn: PgConnection,
    options: &'a Options,
    /// Counts subscribers, so that each one is new.
    number: u32,
}

impl Bench<'_> {
    /// Runs one contender. Returns its sample, and how many rows became dead.
    async fn turn(&mut self, part: Part, system: System) -> anyhow::Result<(Sample, i64)> {
        let waiting = if part == Part::EndToEnd { 0 } else { self.options.events };
        let id = self.fill(system, waiting).await?;
        let batch = if part == Part::Single { 1 } else { BATCH };
        let handled = Arc::new(AtomicU64::new(0));
        let workers = self.workers(system, &id, batch).await?;
        let producers = if part == Part::EndToEnd { self.producers(system).await? } else { Vec::new() };
        let dead_before = self.dead_rows(system).await?;

        let (started, cpu) = (Instant::now(), CpuTime::now(self.server.pid()));
        let until = match part {
            Part::Batches | Part::Types => Until::Handled(waiting),
            Part::Single => Until::Time(started + Duration::from_secs(self.options.seconds)),
            Part::EndToEnd => Until::Handled(self.options.end_to_end_events),
        };
        let sending = produce(producers, until);
        all(work(workers, until, &handled)).await?;
        let elapsed = started.elapsed();
        let cpu = CpuTime::now(self.server.pid()).zip(cpu).map(|(after, before)| after.since(before));
        all(sending).await?;

        let events = handled.load(Ordering::Relaxed);
        if let Until::Handled(expected) = until {
            ensure!(events == expected, "{events} of {expected} events were handled");
        }
        sleep(COUNTED).await;
        let dead_rows = self.dead_rows(system).await? - dead_before;
        self.empty(system, &id).await?;
        let mut sample = Sample::new(events, elapsed, Vec::new());
        sample.cpu = cpu;
        Ok((sample, dead_rows))
    }

    /// Returns the throughput after a snapshot was held for a while, divided by the throughput
    /// before. The snapshot is held until the end.
    async fn held(&mut self, system: System) -> anyhow::Result<f64> {
        let id = self.fill(system, 0).await?;
        let (window, hold) =
            (Duration::from_secs(self.options.seconds), Duration::from_secs(self.options.hold_seconds));
        let mut holder = self.server.connect().await?;
        let (workers, producers) = (self.workers(system, &id, BATCH).await?, self.producers(system).await?);
        let handled = Arc::new(AtomicU64::new(0));
        // The first window warms up.
        let before = Instant::now() + window;
        let after = before + window + hold;
        let end = Until::Time(after + window);
        let (sending, working) = (produce(producers, end), work(workers, end, &handled));
        let in_window = async |from: Instant| {
            sleep_until(from).await;
            let first = handled.load(Ordering::Relaxed);
            sleep_until(from + window).await;
            handled.load(Ordering::Relaxed) - first
        };
        let first = in_window(before).await;
        sqlx::raw_sql(include_str!("../sql/hold_snapshot.sql")).execute(&mut holder).await?;
        let last = in_window(after).await;
        all(sending).await?;
        all(working).await?;
        drop(holder);
        self.empty(system, &id).await?;
        let seconds = window.as_secs_f64();
        eprintln!("held {system:?}: {:.0} events/s, then {:.0}", first as f64 / seconds, last as f64 / seconds);
        Ok(last as f64 / first.max(1) as f64)
    }

    /// Makes a queue in which `waiting` events wait.
    async fn fill(&mut self, system: System, waiting: u64) -> anyhow::Result<String> {
        self.number += 1;
        let subscriber_id = format!("queue-{}", self.number);
        match system {
            System::Node | System::Claims | System::Typed | System::HalfOfTypes => {
                let start_from = StartFrom::After(self.server.head().await? as u64 - waiting);
                let config = SubscriberConfig::new(&subscriber_id, start_from, SubscriberMode::Shared);
                self.server.namespace.subscribers().register(&config).await?;
            }
            System::Pgmq => {
                if waiting > 0 {
                    sqlx::query(include_str!("../sql/pgmq_fill.sql"))
                        .bind(Payloads::new().texts())
                        .bind(waiting as i64)
                        .execute(&mut self.conn)
                        .await?;
                }
                sqlx::query(include_str!("../sql/pgmq_settle.sql")).execute(&mut self.conn).await?;
            }
        }
        sqlx::query(include_str!("../sql/checkpoint.sql")).execute(&mut self.conn).await?;
        Ok(subscriber_id)
    }

    async fn empty(&mut self, system: System, subscriber_id: &str) -> anyhow::Result<()> {
        match system {
            System::Node | System::Claims | System::Typed | System::HalfOfTypes => {
                self.server.namespace.subscribers().remove(subscriber_id, true).await?;
            }
            System::Pgmq => _ = sqlx::query(include_str!("../sql/pgmq_empty.sql")).execute(&mut self.conn).await?,
        }
        Ok(())
    }

    async fn workers(&self, system: System, subscriber_id: &str, batch: u32) -> anyhow::Result<Vec<Worker>> {
        let mut workers = Vec::new();
        for nth in 0..self.options.workers {
            workers.push(match system {
                // The node starts when the measurement starts.
                System::Node => {
                    let handlers = self.options.workers.try_into()?;
                    return Ok(vec![Worker::node(&self.server, subscriber_id, handlers, batch)]);
                }
                System::Claims => Worker::claims(&self.server, subscriber_id, batch, &[]),
                System::Typed => Worker::claims(&self.server, subscriber_id, batch, &[EVENT_TYPE, OTHER_TYPE]),
                System::HalfOfTypes => {
                    Worker::claims(&self.server, subscriber_id, batch, &[[EVENT_TYPE, OTHER_TYPE][nth % 2]])
                }
                System::Pgmq => Worker::pgmq(&self.server, batch).await?,
            });
        }
        Ok(workers)
    }

    async fn producers(&self, system: System) -> anyhow::Result<Vec<Producer>> {
        let count = self.options.producers;
        Ok(match system {
            System::Node | System::Claims | System::Typed | System::HalfOfTypes => {
                (0..count).map(|_| Producer::Headwater(self.server.namespace.clone())).collect()
            }
            System::Pgmq => self.server.connections(count).await?.into_iter().map(Producer::Pgmq).collect(),
        })
    }

    async fn dead_rows(&mut self, system: System) -> anyhow::Result<i64> {
        let schema = match system {
            System::Node | System::Claims | System::Typed | System::HalfOfTypes => "headwater",
            System::Pgmq => "pgmq",
        };
        Ok(sqlx::query_scalar(include_str!("../sql/dead_rows.sql")).bind(schema).fetch_one(&mut self.conn).await?)
    }
}
