//! `headwater-bench cdc`: events from the WAL, against NOTIFY and a poller that looks every 100 ms.
//!
//! - Latency: from the commit in this process to the handler in another process.
//! - Reads: rows and queries on the log's tables, by 100 subscribers of four nodes and by 100
//!   pollers.
//! - Overlap: how many events a node takes from the WAL, and how many rows it reads, while
//!   transactions overlap and some are rolled back.
//! - Throughput: how fast producers append and how fast a subscriber keeps up, against a node that
//!   is woken.
//! - Memory: the peak of a node when a transaction of 100,000 events commits.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Args;
use headwater::cdc::{CdcMode, CdcOptions, Live, LiveState};
use headwater::delivery::{OperatorStore, StartFrom};
use headwater::log::Append;
use headwater::{Headwater, Node};
use sqlx::PgConnection;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::handlers::idle_batches;
use crate::latency::{self, Mode, Other};
use crate::payload::Payloads;
use crate::report::{Figure, Report, Target};
use crate::rollbacks::{Followed, Load, follow};
use crate::server::{BenchServer, NAMESPACE};
use crate::stats::{Sample, median};

/// How often a poller looks.
const POLL: Duration = Duration::from_millis(100);
const SUBSCRIBERS: u32 = 100;
const NODES: u32 = 4;
const PRODUCERS: u64 = 64;
/// Events of the transaction that measures a node's memory.
const LARGE: u64 = 100_000;

/// Options of `cdc`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Prints one JSON object to stdout
    #[arg(long)]
    json: bool,
    /// Events per second
    #[arg(long, default_value_t = 200.0, value_name = "N")]
    rate: f64,
    /// Seconds for which each contender is measured per round
    #[arg(long, default_value_t = 3.0, value_name = "S")]
    seconds_per_round: f64,
    /// Number of rounds
    #[arg(long, default_value_t = 3, value_name = "N")]
    rounds: usize,
    /// Events that producers append while a subscriber keeps up
    #[arg(long, default_value_t = 40_000, value_name = "N")]
    events: u64,
    /// Connections that write at the same time, in the overlap part
    #[arg(long, default_value_t = 8, value_name = "N")]
    writers: usize,
    /// Share of these connections' transactions that is rolled back, from 0 to 1
    #[arg(long, default_value_t = 0.1, value_name = "SHARE")]
    rollbacks: f64,
    /// Runs only these parts: latency, throughput, overlap, reads, memory; omits ratios that need
    /// other parts
    #[arg(long, value_delimiter = ',', value_name = "PARTS")]
    only: Vec<String>,
}

pub(crate) async fn run(options: Options) -> anyhow::Result<()> {
    let wanted = |part: &str| options.only.is_empty() || options.only.iter().any(|only| only == part);
    let settings = [("wal_level", "logical"), ("plan_cache_mode", "force_generic_plan")];
    let server = BenchServer::start_with(&settings).await?;
    let mut conn = server.connect().await?;
    sqlx::raw_sql(include_str!("../sql/latency_table.sql")).execute(&mut conn).await?;
    let mut samples: BTreeMap<&'static str, Vec<Sample>> = BTreeMap::new();
    let mut appends: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
    let mut overlaps: BTreeMap<&'static str, Followed> = BTreeMap::new();
    let load = Load { writers: options.writers, rollbacks: options.rollbacks, seconds: options.seconds_per_round };
    // This part runs first. Sessions that stay open report their reads later, and these reads would
    // be counted here.
    for round in 0..options.rounds {
        for (name, live) in overlapping().into_iter().filter(|_| wanted("overlap")) {
            let followed = follow(&server, &mut conn, live, load).await?;
            eprintln!(
                "round {} {name:<14} {:>8} events, {:.3} from the WAL, {:.3} rows read an event, {:.3} looks into tables",
                round + 1,
                followed.events,
                followed.share(),
                followed.rows_per_event(),
                followed.looks as f64 / followed.events as f64
            );
            overlaps.entry(name).or_default().add(followed);
        }
    }
    let modes = [Mode::Direct, Mode::Inbox, Mode::Headwater, Mode::Notify, Mode::Poller];
    for round in 0..options.rounds {
        let (front, back) = modes.split_at(round % modes.len());
        for mode in back.iter().chain(front).filter(|_| wanted("latency")) {
            let sample = latency::measure(&server, &mut conn, *mode, options.rate, options.seconds_per_round).await?;
            let (median, p99) = (sample.latency(0.5).unwrap_or_default(), sample.latency(0.99).unwrap_or_default());
            eprintln!("round {} {:<12} median {median:>8.3} ms, p99 {p99:>8.3} ms", round + 1, mode.name());
            samples.entry(mode.name()).or_default().push(sample);
        }
        let contenders = [("live_direct", Live::Cdc(CdcOptions::default())), ("live_wake", Live::Wake)];
        for (name, live) in contenders.into_iter().filter(|_| wanted("throughput")) {
            let (sample, appended) = keep_up(&server, live, options.events).await?;
            eprintln!("round {} {name:<12} {:>8.0} events/s, appended {appended:>8.0}/s", round + 1, sample.rate());
            samples.entry(name).or_default().push(sample);
            appends.entry(name).or_default().push(appended);
        }
    }
    let reads = match wanted("reads") {
        true => Some(reads(&server, &mut conn, &options).await?.over(polled(&server, &mut conn, &options).await?)),
        false => None,
    };
    let memory = if wanted("memory") { Some(memory(&server).await?) } else { None };

    let figures = samples.iter().map(|(name, samples)| (*name, Figure::of(samples)));
    let mut report = Report::new(server.settings.clone(), figures);
    let medians = |name: &str| report.figure(name).and_then(|figure| figure.median_ms);
    let p99s = |name: &str| report.figure(name).and_then(|figure| figure.p99_ms);
    let rates = |name: &str| report.figure(name).map(|figure| figure.events_per_second);
    let appended = |name: &str| median(appends.get(name)?.iter().copied());
    let over = |value: Option<f64>, base: Option<f64>| Some(value? / base?);
    let share = |name: &str| overlaps.get(name).map(|followed| followed.share());
    let rows = |name: &str| overlaps.get(name).map(|followed| followed.rows_per_event());
    let ratios = [
        ("latency_p50_ms", medians("direct"), Target::AtMost(5.0)),
        ("latency_p99_ms", p99s("direct"), Target::AtMost(25.0)),
        ("latency_inbox_p50_ms", medians("inbox"), Target::AtMost(20.0)),
        ("latency_inbox_p99_ms", p99s("inbox"), Target::AtMost(100.0)),
        ("latency_p50_vs_poller", over(medians("direct"), medians("poller")), Target::AtMost(0.2)),
        ("db_reads_100_subs_vs_poll", reads, Target::AtMost(0.05)),
        ("throughput_direct_vs_poll", over(rates("live_direct"), rates("live_wake")), Target::AtLeast(0.8)),
        ("write_overhead", over(appended("live_direct"), appended("live_wake")), Target::AtLeast(0.8)),
        ("from_wal_share", share("overlap_direct"), Target::AtLeast(0.95)),
        ("db_rows_vs_poll", over(rows("overlap_direct"), rows("overlap_poll")), Target::AtMost(0.1)),
        ("memory_mib_100000_events", memory, Target::AtMost(256.0)),
    ];
    ratios.into_iter().for_each(|(name, value, target)| report.ratio(name, value, target));
    server.headwater.shutdown().await;
    report.print(options.json)
}

/// The ways to follow overlapping transactions.
fn overlapping() -> [(&'static str, Live); 3] {
    let inbox = CdcOptions { mode: CdcMode::inbox(), ..CdcOptions::default() };
    [
        ("overlap_direct", Live::Cdc(CdcOptions::default())),
        ("overlap_inbox", Live::Cdc(inbox)),
        ("overlap_poll", Live::Wake),
    ]
}

async fn streaming(node: &Node) {
    let streams = || node.status().live.is_none_or(|live| live.state == LiveState::Streaming);
    while !(streams() && node.status().subscribers.iter().all(|one| one.owned)) {
        sleep(Duration::from_millis(10)).await;
    }
}

/// Measures how fast a subscriber handles events while producers append as fast as they can. Also
/// returns how fast the producers were.
async fn keep_up(server: &BenchServer, live: Live, events: u64) -> anyhow::Result<(Sample, f64)> {
    let builder = server.namespace.node("keep-up").live(live);
    let node = builder.run(idle_batches("keep-up").start_from(StartFrom::Now)).start().await?;
    streaming(&node).await;
    let started = Instant::now();
    let mut producers = JoinSet::new();
    for _ in 0..PRODUCERS {
        let namespace = server.namespace.clone();
        producers.spawn(async move {
            let payloads = Payloads::new();
            let mut last = 0;
            for number in 0..events / PRODUCERS {
                last = namespace.emit(payloads.event(number)).await?.global_sequence();
            }
            anyhow::Ok(last)
        });
    }
    let mut last = 0;
    while let Some(done) = producers.join_next().await {
        last = last.max(done??);
    }
    let appended = events as f64 / started.elapsed().as_secs_f64();
    node.wait_for("keep-up", last).await?;
    let elapsed = started.elapsed();
    node.shutdown().await?;
    server.namespace.subscribers().remove("keep-up", true).await?;
    Ok((Sample::new(events, elapsed, Vec::new()), appended))
}

async fn emit_at_rate(server: &BenchServer, options: &Options) -> anyhow::Result<(u64, u64)> {
    let payloads = Payloads::new();
    let events = (options.rate * options.seconds_per_round).max(1.0) as u64;
    let mut tick = tokio::time::interval(Duration::from_secs_f64(1.0 / options.rate));
    let mut last = 0;
    for number in 0..events {
        tick.tick().await;
        last = server.namespace.emit(payloads.event(number)).await?.global_sequence();
    }
    Ok((events, last))
}

/// Reads of the log's tables, per event.
#[derive(Debug, Clone, Copy)]
struct Reads {
    rows: f64,
    queries: f64,
}

impl Reads {
    async fn so_far(monitor: &mut PgConnection) -> anyhow::Result<(i64, i64)> {
        Ok(sqlx::query_as(include_str!("../sql/reads.sql")).fetch_one(monitor).await?)
    }

    async fn since(before: (i64, i64), events: u64, monitor: &mut PgConnection) -> anyhow::Result<Self> {
        let now = Reads::so_far(monitor).await?;
        let each = |before: i64, now: i64| (now - before) as f64 / events as f64;
        Ok(Reads { rows: each(before.0, now.0), queries: each(before.1, now.1) })
    }

    /// Returns the worse of the two ratios: rows and queries.
    fn over(self, base: Reads) -> f64 {
        (self.rows / base.rows).max(self.queries / base.queries)
    }
}

/// Measures the reads of four nodes that share 100 subscribers.
async fn reads(server: &BenchServer, monitor: &mut PgConnection, options: &Options) -> anyhow::Result<Reads> {
    const APPLICATION: &str = "cdc-reads";
    let before = Reads::so_far(monitor).await?;
    let mut nodes = Vec::new();
    for node in 0..NODES {
        let headwater = Headwater::builder().application_name(APPLICATION).connect(&server.url).await?;
        let name = format!("{APPLICATION}-{node}");
        let builder = headwater.namespace(NAMESPACE).await?.node(&name);
        let ids: Vec<_> = (0..SUBSCRIBERS / NODES).map(|number| format!("{name}-{number}")).collect();
        let builder = builder.live(Live::Cdc(CdcOptions::default()));
        let node =
            ids.iter().fold(builder, |node, id| node.run(idle_batches(id).start_from(StartFrom::Now))).start().await?;
        streaming(&node).await;
        nodes.push((headwater, node, ids));
    }
    let (events, last) = emit_at_rate(server, options).await?;
    for (_, node, ids) in &nodes {
        for id in ids {
            node.wait_for(id, last).await?;
        }
    }
    for (headwater, node, _) in nodes {
        node.shutdown().await?;
        headwater.shutdown().await;
    }
    gone(monitor, APPLICATION).await?;
    let read = Reads::since(before, events, monitor).await?;
    eprintln!(
        "{SUBSCRIBERS} subscribers of {NODES} nodes read {:.2} rows with {:.3} queries an event",
        read.rows, read.queries
    );
    Ok(read)
}

/// Measures the reads of 100 pollers.
async fn polled(server: &BenchServer, monitor: &mut PgConnection, options: &Options) -> anyhow::Result<Reads> {
    let before = Reads::so_far(monitor).await?;
    let head = server.head().await?;
    let mut pollers = JoinSet::new();
    let (stop, stopped) = tokio::sync::watch::channel(0_i64);
    for mut conn in server.connections(SUBSCRIBERS as usize).await? {
        let (namespace_id, stopped) = (server.namespace_id(), stopped.clone());
        pollers.spawn(async move {
            let mut after = head;
            loop {
                let rows: Vec<(i64,)> = sqlx::query_as(include_str!("../sql/poll_sequences.sql"))
                    .bind(namespace_id)
                    .bind(after)
                    .bind(1_000_i64)
                    .fetch_all(&mut conn)
                    .await?;
                after = rows.last().map_or(after, |(sequence,)| *sequence);
                let last = *stopped.borrow();
                if last > 0 && after >= last {
                    return anyhow::Ok(sqlx::Connection::close(conn).await?);
                }
                sleep(POLL).await;
            }
        });
    }
    let (events, last) = emit_at_rate(server, options).await?;
    stop.send_replace(last as i64);
    while let Some(done) = pollers.join_next().await {
        done??;
    }
    // A session reports its counts when it ends, or soon after.
    let mut read = Reads { rows: 0.0, queries: 0.0 };
    for _ in 0..50 {
        read = Reads::since(before, events, monitor).await?;
        if read.rows >= f64::from(SUBSCRIBERS) {
            break;
        }
        sleep(POLL).await;
    }
    eprintln!("{SUBSCRIBERS} pollers read {:.2} rows with {:.3} queries an event", read.rows, read.queries);
    ensure!(read.rows > 1.0 && read.queries > 0.0, "the pollers read nothing");
    Ok(read)
}

/// Returns the peak memory in MiB of a node in another process, when a transaction of 100,000
/// events commits.
async fn memory(server: &BenchServer) -> anyhow::Result<f64> {
    let mut other = Other::start(server, Mode::Direct, "memory-1", "latency-memory").await?;
    let payloads = Payloads::new();
    let append = (0..LARGE).fold(Append::new(), |append, number| append.event(payloads.event(number)));
    let appended = server.namespace.append_all(append).await?;
    let last = appended.events.last().context("it has events")?.global_sequence;
    other.until(last).await?;
    let pid = other.child.id().context("it runs")?;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("memory can be measured on Linux only")?;
    let peak =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse::<f64>().ok());
    other.child.kill().await?;
    Ok(peak.context("a line of /proc/…/status is missing")? / 1024.0)
}

async fn gone(monitor: &mut PgConnection, application: &str) -> anyhow::Result<()> {
    let gone = "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = $1";
    while !sqlx::query_scalar::<_, bool>(gone).bind(application).fetch_one(&mut *monitor).await? {
        sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
