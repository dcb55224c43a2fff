//! `headwater-bench catch-up`: subscribers with a backlog, a bare SELECT and pgmq, in turn.

use std::collections::BTreeMap;
use std::env;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Args;
use headwater::delivery::{CheckpointMode, OperatorStore, ReliableDeliveryConfig, StartFrom};
use headwater::node::NodeBuilder;
use headwater::{Node, Subscription};
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;
use tokio::process::Command;

use crate::command;
use crate::contenders::bare_select::BareSelect;
use crate::contenders::install_pgmq;
use crate::handlers::{AlwaysFails, Idle, Sleeps, idle_batches};
use crate::holes;
use crate::memory::status;
use crate::payload::{EVENT_TYPE, Payloads};
use crate::read::{load, timed};
use crate::report::{Figure, Report, Target};
use crate::server::{BenchServer, NAMESPACE, Role};
use crate::stats::Sample;

const BATCHES: &str = "headwater_batches";
const BARE: &str = "bare_select";
const ONE_BY_ONE: &str = "headwater_one_by_one";
const PGMQ: &str = "pgmq_read_delete";
const ALONE: &str = "alone";
const NEIGHBOURS: &str = "beside_bad_neighbours";
const MEMORY: &str = "memory";
const HOLES: &str = "holes";
const NAMES: [&str; 6] = [BATCHES, BARE, ONE_BY_ONE, PGMQ, ALONE, NEIGHBOURS];
/// Messages that pgmq's consumer reads and deletes per call.
const PGMQ_BATCH: i32 = 100;

/// Options of `catch-up`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Prints one JSON object to stdout
    #[arg(long)]
    json: bool,
    /// Events in the log
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    events: u64,
    /// Events that are handled one by one, and messages in pgmq's queue
    #[arg(long, default_value_t = 200_000, value_name = "N")]
    one_by_one: u64,
    /// Events that the `headwater` program reads, and consumes in each mode
    #[arg(long, default_value_t = 500_000, value_name = "N")]
    command_events: u64,
    /// Subscribers whose memory is measured
    #[arg(long, default_value_t = 20, value_name = "N")]
    subscribers: u32,
    /// Number of rounds
    #[arg(long, default_value_t = 5, value_name = "N")]
    rounds: usize,
    /// Runs only the contenders whose names contain one of these texts; omits ratios that need
    /// other contenders
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    only: Vec<String>,
    /// Role that calls Headwater
    #[arg(long, value_enum, default_value_t = Role::Owner)]
    role: Role,
}

pub(crate) async fn run(options: Options) -> anyhow::Result<()> {
    let wanted = |name: &str| options.only.is_empty() || options.only.iter().any(|part| name.contains(part.as_str()));
    let server = BenchServer::start_as(options.role, &[]).await?;
    let mut conn = server.connect().await?;
    load(&server, &mut conn, options.events, &[EVENT_TYPE]).await?;
    if wanted(PGMQ) {
        install_pgmq(server.owner.pool()).await?;
    }
    let commands = command::MODES.into_iter().map(|(name, _)| name).chain([command::READ]);
    let names: Vec<_> = NAMES.into_iter().chain(commands).filter(|name| wanted(name)).collect();
    let runs_command = names.iter().any(|name| name.starts_with("command"));
    let command = if runs_command { Some(command::build().await?) } else { None };
    let mut bench = Bench { head: server.head().await? as u64, server, conn, options: &options, number: 0, command };
    let mut samples: BTreeMap<&'static str, Vec<Sample>> = BTreeMap::new();
    // The first round warms up and is not counted.
    for round in 0..=options.rounds {
        let (front, back) = names.split_at(round % names.len().max(1));
        for name in back.iter().chain(front) {
            let sample = bench.turn(name).await?;
            eprintln!("round {round} {name:<30} {:>8.0} events/s", sample.rate());
            if round > 0 {
                samples.entry(name).or_default().push(sample);
            }
        }
    }
    let memory = if wanted(MEMORY) { Some(bench.memory().await?) } else { None };
    if wanted(HOLES) {
        samples.extend(holes::measure(&bench.server, options.rounds.min(3)).await?);
    }

    let figures = samples.iter().map(|(name, samples)| (*name, Figure::of(samples)));
    let mut report = Report::new(bench.server.settings.clone(), figures);
    let rate = |name: &str| report.figure(name).map(|figure| figure.events_per_second);
    let over = |name: &str, base: &str| Some(rate(name)? / rate(base)?);
    let of_read = command::MODES.map(|(name, _)| Some((name, over(name, command::READ)?)));
    let of_read: Vec<_> = of_read.into_iter().flatten().collect();
    of_read.iter().for_each(|(name, ratio)| eprintln!("{name:<30} {ratio:>8.2} of {}", command::READ));
    let slowest = of_read.iter().map(|(_, ratio)| *ratio).min_by(f64::total_cmp);
    let ratios = [
        ("catch_up_vs_bare_select", over(BATCHES, BARE), Target::AtLeast(0.6)),
        ("catch_up_sync_vs_pgmq_read_delete", over(ONE_BY_ONE, PGMQ), Target::AtLeast(3.0)),
        ("slow_neighbour_vs_alone", over(NEIGHBOURS, ALONE), Target::AtLeast(0.8)),
        ("catch_up_memory_mib", memory, Target::AtMost(256.0)),
        ("consume_vs_read", slowest, Target::AtLeast(0.5)),
        ("holes_100000_vs_none", over(holes::OPEN, holes::NONE), Target::AtLeast(0.5)),
        ("holes_100000_late_vs_none", over(holes::LATE, holes::NONE), Target::AtLeast(0.5)),
        ("holes_100000_rolled_back_vs_none", over(holes::ROLLED_BACK, holes::NONE), Target::AtLeast(0.5)),
    ];
    ratios.into_iter().for_each(|(name, value, target)| report.ratio(name, value, target));
    bench.server.headwater.shutdown().await;
    report.print(options.json)
}

struct Bench<'a> {
    server: BenchServer,
    conn: PgConnection,
    options: &'a Options,
    head: u64,
    /// Counts subscribers, so that each one is new.
    number: u32,
    /// The `headwater` program, if it is measured.
    command: Option<PathBuf>,
}

impl Bench<'_> {
    async fn turn(&mut self, name: &str) -> anyhow::Result<Sample> {
        sqlx::query(include_str!("../sql/checkpoint.sql")).execute(&mut self.conn).await?;
        self.number += 1;
        let id = format!("catch-up-{}", self.number);
        let node = self.server.namespace.node("bench");
        let one_by_one = self.options.one_by_one.min(self.options.events);
        let last = StartFrom::After(self.head - one_by_one);
        match name {
            BATCHES => {
                let node = node.run(idle_batches(&id).config(batches()));
                self.until_caught_up(node, &id, self.options.events).await
            }
            BARE => timed(self.options.events, BareSelect::new(&self.server, &mut self.conn).read()).await,
            PGMQ => self.pgmq(one_by_one).await,
            name if name.starts_with("command") => self.command(name, &id).await,
            ONE_BY_ONE | ALONE => {
                let node = node.run(Subscription::of(Idle(id.clone())).config(singly(last)));
                self.until_caught_up(node, &id, one_by_one).await
            }
            _ => {
                let (fails, sleeps) = (format!("{id}-fails"), format!("{id}-sleeps"));
                let node = node
                    .run(Subscription::of(AlwaysFails(fails.clone())).start_from(last))
                    .run(Subscription::of(Sleeps(sleeps.clone())).start_from(last))
                    .run(Subscription::of(Idle(id.clone())).config(singly(last)));
                let sample = self.until_caught_up(node, &id, one_by_one).await?;
                for neighbour in [fails, sleeps] {
                    self.server.namespace.subscribers().remove(&neighbour, true).await?;
                }
                Ok(sample)
            }
        }
    }

    async fn until_caught_up(&self, node: NodeBuilder, id: &str, events: u64) -> anyhow::Result<Sample> {
        let started = Instant::now();
        let node: Node = node.start().await?;
        node.wait_for(id, self.head).await?;
        let elapsed = started.elapsed();
        let handled = node.status().subscribers.iter().find(|one| one.subscriber_id == id).map(|one| one.handled);
        ensure!(handled == Some(events), "{handled:?} of {events} events were handled");
        node.shutdown_within(Duration::from_secs(3)).await?;
        self.server.namespace.subscribers().remove(id, true).await?;
        Ok(Sample::new(events, elapsed, Vec::new()))
    }

    async fn command(&self, name: &str, id: &str) -> anyhow::Result<Sample> {
        let command = self.command.as_ref().context("the command is not there")?;
        let events = self.options.command_events.min(self.options.events);
        let mode = command::MODES.into_iter().find(|(mode, _)| *mode == name).map(|(_, args)| (id, args));
        let sample = command::run(command, &self.server.url, self.head, events, mode).await?;
        if mode.is_some() {
            self.server.namespace.subscribers().remove(id, true).await?;
        }
        Ok(sample)
    }

    /// One consumer that works as pgmq's clients do.
    async fn pgmq(&mut self, messages: u64) -> anyhow::Result<Sample> {
        let payloads = Payloads::new();
        sqlx::raw_sql("TRUNCATE pgmq.q_bench").execute(&mut self.conn).await?;
        sqlx::query(include_str!("../sql/pgmq_fill.sql"))
            .bind(payloads.texts())
            .bind(messages as i64)
            .execute(&mut self.conn)
            .await?;
        sqlx::raw_sql("VACUUM (ANALYZE) pgmq.q_bench").execute(&mut self.conn).await?;
        sqlx::query(include_str!("../sql/checkpoint.sql")).execute(&mut self.conn).await?;
        let started = Instant::now();
        let mut read = 0;
        loop {
            let batch: Vec<(i64, serde_json::Value)> =
                sqlx::query_as(include_str!("../sql/pgmq_read.sql")).bind(PGMQ_BATCH).fetch_all(&mut self.conn).await?;
            if batch.is_empty() {
                break;
            }
            read += batch.len() as u64;
            let ids: Vec<i64> = batch.into_iter().map(|(id, _)| id).collect();
            sqlx::query(include_str!("../sql/pgmq_delete.sql")).bind(ids).execute(&mut self.conn).await?;
        }
        ensure!(read == messages, "{read} of {messages} messages were read");
        Ok(Sample::new(messages, started.elapsed(), Vec::new()))
    }

    /// Returns the peak memory of a process with a node.
    async fn memory(&self) -> anyhow::Result<f64> {
        let output = Command::new(env::current_exe()?)
            .args(["catch-up-child", "--url", &self.server.url, "--head", &self.head.to_string()])
            .args(["--subscribers", &self.options.subscribers.to_string()])
            .stderr(std::process::Stdio::inherit())
            .kill_on_drop(true)
            .output()
            .await?;
        ensure!(output.status.success(), "the child that catches up failed");
        let peak: Peak = serde_json::from_slice(&output.stdout)?;
        let expected = self.options.events * u64::from(self.options.subscribers);
        ensure!(peak.handled == expected, "the child handled {} of {expected} events", peak.handled);
        eprintln!("{} subscribers: {} events in {:.1} s", self.options.subscribers, peak.handled, peak.seconds);
        Ok(peak.kib as f64 / 1024.0)
    }
}

fn batches() -> ReliableDeliveryConfig {
    ReliableDeliveryConfig {
        catch_up_batch_size: 1_000,
        checkpoint_mode: CheckpointMode::Batched { batch_size: 10_000, max_delay_ms: 1_000 },
        ..ReliableDeliveryConfig::default()
    }
}

fn singly(start_from: StartFrom) -> ReliableDeliveryConfig {
    let checkpoint_mode = CheckpointMode::Batched { batch_size: 100, max_delay_ms: 1_000 };
    ReliableDeliveryConfig { checkpoint_mode, start_from, ..ReliableDeliveryConfig::default() }
}

/// Options of `catch-up-child`.
#[derive(Debug, Args)]
pub(crate) struct ChildOptions {
    #[arg(long)]
    url: String,
    #[arg(long)]
    head: u64,
    #[arg(long)]
    subscribers: u32,
}

/// What the child needed to catch up.
#[derive(Debug, Serialize, Deserialize)]
struct Peak {
    handled: u64,
    seconds: f64,
    /// Peak resident memory.
    kib: u64,
}

pub(crate) async fn run_child(options: ChildOptions) -> anyhow::Result<()> {
    let headwater = headwater::Headwater::connect(&options.url).await?;
    let namespace = headwater.namespace(NAMESPACE).await?;
    let started = Instant::now();
    let ids: Vec<_> = (0..options.subscribers).map(|number| format!("memory-{number}")).collect();
    let node =
        ids.iter().fold(namespace.node("memory").default_config(batches()), |node, id| node.run(idle_batches(id)));
    let node = node.start().await?;
    for id in &ids {
        node.wait_for(id, options.head).await?;
    }
    let seconds = started.elapsed().as_secs_f64();
    let handled = node.status().subscribers.iter().map(|one| one.handled).sum();
    node.shutdown().await?;
    println!("{}", serde_json::to_string(&Peak { handled, seconds, kib: status("VmHWM")? })?);
    Ok(())
}
