//! `headwater-bench groups`: a partitioned subscriber over several processes, against an exclusive
//! one. Also how long a takeover takes when one process dies.
//!
//! All start with the same backlog at the same time. Handlers wait at their first event until this
//! process has seen that every partition is owned, and tells them to go.

use std::collections::BTreeMap;
use std::env;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use headwater::delivery::{CheckpointMode, GroupStore, OperatorStore, ReliableDeliveryConfig, StartFrom};
use headwater::{Delivery, Event, EventObserver, HandlerError, Headwater, Subscription};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::payload::Payloads;
use crate::report::{Figure, Report, Target};
use crate::server::{BenchServer, NAMESPACE};
use crate::stats::{Sample, median};
use crate::torture::now_ns;

/// Keys of the events: many more than partitions.
const KEYS: u64 = 1_000;
/// Work that is not done within this time will never be done.
const PATIENCE: Duration = Duration::from_secs(120);

/// Options of `groups`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Prints one JSON object to stdout
    #[arg(long)]
    json: bool,
    /// Partitions of the group
    #[arg(long, default_value_t = 16, value_name = "N")]
    partitions: u32,
    /// Processes that share the partitions
    #[arg(long, default_value_t = 4, value_name = "N")]
    processes: usize,
    /// Events for handlers that do nothing
    #[arg(long, default_value_t = 300_000, value_name = "N")]
    events: u64,
    /// Events of the group with handlers that take 1 ms; the exclusive subscriber gets a tenth of
    /// them
    #[arg(long, default_value_t = 30_000, value_name = "N")]
    slow_events: u64,
    /// Number of rounds
    #[arg(long, default_value_t = 3, value_name = "N")]
    rounds: usize,
    /// How often a process is killed
    #[arg(long, default_value_t = 5, value_name = "N")]
    kills: usize,
    /// Runs only the contenders whose names contain one of these texts (exclusive, group,
    /// rebalance)
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    only: Vec<String>,
}

struct Contender {
    name: &'static str,
    partitions: Option<u32>,
    processes: usize,
    events: u64,
    sleep_ms: u64,
}

pub(crate) async fn run(options: Options) -> anyhow::Result<()> {
    let wanted = |name: &str| options.only.is_empty() || options.only.iter().any(|part| name.contains(part.as_str()));
    let group = Some(options.partitions);
    let contender = |name, partitions: Option<u32>, events, sleep_ms| Contender {
        name,
        partitions,
        processes: if partitions.is_some() { options.processes } else { 1 },
        events,
        sleep_ms,
    };
    let mut contenders = vec![
        contender("exclusive_1ms", None, options.slow_events / 10, 1),
        contender("group_1ms", group, options.slow_events, 1),
        contender("exclusive_noop", None, options.events, 0),
        contender("group_noop", group, options.events, 0),
    ];
    contenders.retain(|contender| wanted(contender.name));
    let server = BenchServer::start().await?;
    fill(&server, options.events.max(options.slow_events)).await?;

    let mut samples: BTreeMap<&'static str, Vec<Sample>> = BTreeMap::new();
    for round in 0..options.rounds {
        for contender in &contenders {
            let subscriber = format!("{}-{round}", contender.name);
            let sample = measure(&server, contender, &subscriber).await?;
            eprintln!("round {} {:<16} {:>8.0} events/s", round + 1, contender.name, sample.rate());
            samples.entry(contender.name).or_default().push(sample);
        }
    }
    let rebalance = match wanted("rebalance") {
        true => rebalance(&server, &options).await?,
        false => None,
    };
    let figures = samples.iter().map(|(name, samples)| (*name, Figure::of(samples)));
    let mut report = Report::new(server.settings.clone(), figures);
    let rate = |name: &str| report.figure(name).map(|figure| figure.events_per_second);
    let over = |value: Option<f64>, base: Option<f64>| Some(value? / base?);
    let ratios = [
        ("groups_16_vs_exclusive", over(rate("group_1ms"), rate("exclusive_1ms")), Target::AtLeast(10.0)),
        ("groups_noop_vs_exclusive", over(rate("group_noop"), rate("exclusive_noop")), Target::AtLeast(0.8)),
        ("rebalance_ms", rebalance, Target::AtMost(3_000.0)),
    ];
    ratios.into_iter().for_each(|(name, value, target)| report.ratio(name, value, target));
    server.headwater.shutdown().await;
    report.print(options.json)
}

/// Appends events with many keys.
async fn fill(server: &BenchServer, events: u64) -> anyhow::Result<()> {
    let payloads = Payloads::new();
    for first in (0..events).step_by(5_000) {
        let append = (first..events.min(first + 5_000)).fold(headwater::log::Append::new(), |append, number| {
            let key = Some(format!("customer-{}", number % KEYS));
            append.event(Event { key, ..payloads.event(number) })
        });
        server.namespace.append_all(append).await?;
    }
    Ok(())
}

async fn measure(server: &BenchServer, contender: &Contender, subscriber: &str) -> anyhow::Result<Sample> {
    let head = server.namespace.horizon().await?.horizon;
    let after = head - contender.events;
    let mut processes = Vec::new();
    for number in 0..contender.processes {
        let node = format!("{subscriber}-{number}");
        processes.push(Process::start(server, contender, subscriber, &node, Some(after)).await?);
    }
    until_owned(server, subscriber, contender.processes).await?;
    let started = Instant::now();
    for process in &mut processes {
        process.go().await?;
    }
    until_at(server, subscriber, head).await?;
    let sample = Sample::new(contender.events, started.elapsed(), Vec::new());
    for mut process in processes {
        process.child.kill().await?;
    }
    server.namespace.subscribers().remove(subscriber, true).await?;
    Ok(sample)
}

/// Waits until every partition has an owner, and every process has its share.
async fn until_owned(server: &BenchServer, subscriber: &str, processes: usize) -> anyhow::Result<()> {
    let store = server.namespace.subscribers();
    let owned = async {
        loop {
            let group = store.group(subscriber).await?;
            let mut owned: BTreeMap<String, usize> = BTreeMap::new();
            for owner in group.partitions.iter().filter_map(|partition| partition.owner.as_ref()) {
                *owned.entry(owner.node.clone()).or_default() += 1;
            }
            let least = group.partitions.len() / processes;
            let all: usize = owned.values().sum();
            if all == group.partitions.len() && owned.len() == processes && owned.values().all(|own| *own >= least) {
                return anyhow::Ok(());
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, owned).await.context("partitions are not owned")?
}

async fn until_at(server: &BenchServer, subscriber: &str, position: u64) -> anyhow::Result<()> {
    let store = server.namespace.subscribers();
    let there = async {
        while store.position(subscriber).await?.position < position {
            sleep(Duration::from_millis(5)).await;
        }
        anyhow::Ok(())
    };
    timeout(PATIENCE, there).await.context("events were not handled")?
}

/// Returns the median time in milliseconds from the kill of a process until the others have handled
/// an event of every key.
async fn rebalance(server: &BenchServer, options: &Options) -> anyhow::Result<Option<f64>> {
    let contender = Contender {
        name: "rebalance",
        partitions: Some(options.partitions),
        processes: options.processes,
        events: 0,
        sleep_ms: 0,
    };
    let mut processes = Vec::new();
    for number in 0..options.processes {
        let mut process = Process::start(server, &contender, "rebalance", &format!("rebalance-{number}"), None).await?;
        process.go().await?;
        processes.push(process);
    }
    let mut times = Vec::new();
    for number in 0..options.kills {
        until_owned(server, "rebalance", options.processes).await?;
        sleep(Duration::from_millis(300 + 137 * number as u64 % 1_000)).await;
        let mut killed = processes.remove(0);
        let at = now_ns();
        killed.child.kill().await?;
        fill(server, KEYS).await?;
        let last = server.namespace.horizon().await?.horizon;
        until_at(server, "rebalance", last).await?;
        let ms = now_ns().saturating_sub(at) as f64 / 1e6;
        eprintln!("kill {}: {ms:.0} ms", number + 1);
        times.push(ms);
        let mut process =
            Process::start(server, &contender, "rebalance", &format!("rebalance-again-{number}"), None).await?;
        process.go().await?;
        processes.push(process);
    }
    for mut process in processes {
        process.child.kill().await?;
    }
    Ok(median(times))
}

struct Process {
    child: Child,
}

impl Process {
    async fn start(
        server: &BenchServer,
        contender: &Contender,
        subscriber: &str,
        node: &str,
        after: Option<u64>,
    ) -> anyhow::Result<Self> {
        let mut command = Command::new(env::current_exe()?);
        command.args(["groups-child", "--url", &server.url, "--subscriber", subscriber, "--node", node]);
        command.args(["--sleep-ms", &contender.sleep_ms.to_string()]);
        if let Some(partitions) = contender.partitions {
            command.args(["--partitions", &partitions.to_string()]);
        }
        if let Some(after) = after {
            command.args(["--after", &after.to_string()]);
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let mut lines = BufReader::new(child.stdout.take().context("it has an output")?).lines();
        timeout(PATIENCE, lines.next_line()).await.context("a process is not ready")??.context("a process ended")?;
        Ok(Process { child })
    }

    async fn go(&mut self) -> anyhow::Result<()> {
        let stdin = self.child.stdin.as_mut().context("it has an input")?;
        stdin.write_all(b"go\n").await?;
        Ok(stdin.flush().await?)
    }
}

/// Options of `groups-child`.
#[derive(Debug, Args)]
pub(crate) struct ChildOptions {
    #[arg(long)]
    url: String,
    #[arg(long)]
    subscriber: String,
    #[arg(long)]
    node: String,
    #[arg(long)]
    partitions: Option<u32>,
    #[arg(long)]
    after: Option<u64>,
    #[arg(long)]
    sleep_ms: u64,
}

/// Takes the given time for each event, once it may begin.
struct Worker {
    subscriber: String,
    go: watch::Receiver<bool>,
    takes: Duration,
}

impl EventObserver for Worker {
    fn subscriber_id(&self) -> &str {
        &self.subscriber
    }

    async fn on_event(&self, _: Delivery) -> Result<(), HandlerError> {
        if !*self.go.borrow() {
            _ = self.go.clone().wait_for(|go| *go).await;
        }
        if !self.takes.is_zero() {
            sleep(self.takes).await;
        }
        Ok(())
    }
}

/// Handles events until stdin ends.
pub(crate) async fn run_child(options: ChildOptions) -> anyhow::Result<()> {
    let headwater = Headwater::connect(&options.url).await?;
    let namespace = headwater.namespace(NAMESPACE).await?;
    let (go, told) = watch::channel(false);
    let takes = Duration::from_millis(options.sleep_ms);
    let worker = Worker { subscriber: options.subscriber.clone(), go: told, takes };
    let config = ReliableDeliveryConfig {
        checkpoint_mode: CheckpointMode::Batched { batch_size: 100, max_delay_ms: 50 },
        start_from: options.after.map_or(StartFrom::Now, StartFrom::After),
        ..ReliableDeliveryConfig::default()
    };
    let subscription = Subscription::of(worker).config(config);
    let subscription = match options.partitions {
        Some(partitions) => subscription.partitions(partitions),
        None => subscription,
    };
    let _node = namespace.node(&options.node).run(subscription).start().await?;
    println!("ready");
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while lines.next_line().await?.is_some() {
        go.send_replace(true);
    }
    Ok(())
}
