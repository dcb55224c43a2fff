//! `headwater-bench fanout`: what 50 subscribers of a node read from the database, against one
//! subscriber, for the same events.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::ensure;
use clap::Args;
use headwater::Headwater;
use headwater::delivery::{OperatorStore, StartFrom};
use sqlx::PgConnection;

use crate::handlers::idle_batches;
use crate::payload::{EVENT_TYPE, Payloads};
use crate::read::load;
use crate::report::{Figure, Report, Target};
use crate::server::{BenchServer, NAMESPACE};
use crate::stats::{Sample, median};

/// The application name of the sessions under test.
const APPLICATION: &str = "fanout";
/// Pause between live events, which are emitted one by one: about the rate of a busy application.
const PAUSE: Duration = Duration::from_millis(2);

/// Options of `fanout`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Prints one JSON object to stdout
    #[arg(long)]
    json: bool,
    /// Events of the backlog
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    events: u64,
    /// Events that are emitted while the node runs
    #[arg(long, default_value_t = 3_000, value_name = "N")]
    live: u64,
    /// Number of subscribers that are compared with one
    #[arg(long, default_value_t = 50, value_name = "N")]
    subscribers: u32,
    /// Number of rounds
    #[arg(long, default_value_t = 3, value_name = "N")]
    rounds: usize,
    /// Runs only `backlog` or only `live`
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    only: Vec<String>,
}

pub(crate) async fn run(options: Options) -> anyhow::Result<()> {
    // A planner that looks up the end of an index also reads rows. With generic plans, only readers
    // are counted.
    let server = BenchServer::start_with(&[("plan_cache_mode", "force_generic_plan")]).await?;
    let mut monitor = server.connect().await?;
    load(&server, &mut monitor, options.events, &[EVENT_TYPE]).await?;
    let mut bench = Bench { server, monitor, options: &options, number: 0 };
    let mut samples: BTreeMap<&'static str, Vec<Sample>> = BTreeMap::new();
    let turns =
        [("backlog_1", 1), ("backlog_many", options.subscribers), ("live_1", 1), ("live_many", options.subscribers)];
    let wanted = |name: &str| options.only.is_empty() || options.only.iter().any(|part| name.contains(part.as_str()));
    for round in 0..options.rounds {
        let (front, back) = turns.split_at(round % turns.len());
        for (name, subscribers) in back.iter().chain(front).filter(|(name, _)| wanted(name)) {
            let sample = match name.starts_with("live") {
                true => bench.live(*subscribers).await?,
                false => bench.backlog(*subscribers).await?,
            };
            let rows = sample.rows_read_per_event().unwrap_or_default();
            eprintln!("round {} {name:<30} {rows:>8.3} rows an event", round + 1);
            samples.entry(name).or_default().push(sample);
        }
    }
    let rows = |name: &str| median(samples.get(name)?.iter().filter_map(Sample::rows_read_per_event));
    let ratio = |many: &str, one: &str| Some(rows(many)? / rows(one)?);
    let (backlog, live) = (ratio("backlog_many", "backlog_1"), ratio("live_many", "live_1"));
    let figures = samples.iter().map(|(name, samples)| (*name, Figure::of(samples)));
    let mut report = Report::new(bench.server.settings.clone(), figures);
    let worse = [backlog, live].into_iter().flatten().reduce(f64::max);
    report.ratio("fanout_backlog_reads_50_vs_1", backlog, Target::AtMost(1.2));
    report.ratio("fanout_live_reads_50_vs_1", live, Target::AtMost(1.2));
    report.ratio("fanout_reads_50_vs_1", worse, Target::AtMost(1.2));
    report.print(options.json)
}

struct Bench<'a> {
    server: BenchServer,
    monitor: PgConnection,
    options: &'a Options,
    number: u32,
}

impl Bench<'_> {
    async fn backlog(&mut self, subscribers: u32) -> anyhow::Result<Sample> {
        let head = self.server.head().await? as u64;
        // Every round reads the same events: events that live rounds added are left out.
        let events = self.options.events;
        self.measure(subscribers, StartFrom::After(head - events), events, async |_| Ok(head)).await
    }

    async fn live(&mut self, subscribers: u32) -> anyhow::Result<Sample> {
        let events = self.options.live;
        let payloads = Payloads::new();
        self.measure(subscribers, StartFrom::Now, events, async |server: &BenchServer| {
            let mut last = 0;
            for number in 0..events {
                last = server.namespace.emit(payloads.event(number)).await?.global_sequence();
                tokio::time::sleep(PAUSE).await;
            }
            Ok(last)
        })
        .await
    }

    /// Counts the rows that the sessions of a node read. The node lives only for this measurement,
    /// because a session's counts are complete only after it has ended.
    async fn measure(
        &mut self,
        subscribers: u32,
        start_from: StartFrom,
        events: u64,
        produce: impl AsyncFnOnce(&BenchServer) -> anyhow::Result<u64>,
    ) -> anyhow::Result<Sample> {
        self.number += 1;
        let headwater = Headwater::builder().application_name(APPLICATION).connect(&self.server.url).await?;
        let namespace = headwater.namespace(NAMESPACE).await?;
        let before = self.rows().await?;
        let ids: Vec<_> = (0..subscribers).map(|number| format!("fanout-{}-{number}", self.number)).collect();
        let builder = namespace.node("fanout");
        let started = Instant::now();
        let node =
            ids.iter().fold(builder, |node, id| node.run(idle_batches(id).start_from(start_from))).start().await?;
        while !node.status().subscribers.iter().all(|one| one.owned) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let last = produce(&self.server).await?;
        for id in &ids {
            node.wait_for(id, last).await?;
        }
        let elapsed = started.elapsed();
        let handled: u64 = node.status().subscribers.iter().map(|one| one.handled).sum();
        ensure!(handled == events * u64::from(subscribers), "{handled} events were handled");
        node.shutdown().await?;
        drop(node);
        headwater.shutdown().await;
        let gone = "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = $1";
        while !sqlx::query_scalar::<_, bool>(gone).bind(APPLICATION).fetch_one(&mut self.monitor).await? {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let mut sample = Sample::new(events, elapsed, Vec::new());
        sample.rows_read = Some((self.rows().await? - before) as u64);
        for id in &ids {
            self.server.namespace.subscribers().remove(id, true).await?;
        }
        Ok(sample)
    }

    async fn rows(&mut self) -> anyhow::Result<i64> {
        Ok(sqlx::query_scalar(include_str!("../sql/rows_read.sql")).fetch_one(&mut self.monitor).await?)
    }
}
