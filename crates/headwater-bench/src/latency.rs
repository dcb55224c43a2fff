//! `headwater-bench latency`: from the commit in this process to the handler in another process.
//! Also how long a failover takes when that process dies.
//!
//! Both processes read the same clock (the machine's). The baselines are the simplest that do the
//! same: NOTIFY after the commit, with LISTEN and one SELECT; and a poller that looks every 100 ms.

use std::collections::{BTreeMap, HashMap};
use std::env;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use clap::{Args, ValueEnum};
use headwater::cdc::{CdcMode, CdcOptions, Live, LiveState};
use headwater::delivery::{OperatorStore, StartFrom};
use headwater::{Delivery, EventObserver, HandlerError, Headwater, Subscription};
use sqlx::postgres::{PgConnectOptions, PgListener};
use sqlx::{ConnectOptions, PgConnection};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use crate::payload::{EVENT_TYPE, Payloads};
use crate::report::{Figure, Report, Target};
use crate::server::{BenchServer, NAMESPACE};
use crate::stats::{Sample, median};
use crate::torture::now_ns;

const CHANNEL: &str = "bench_latency";
const POLL: Duration = Duration::from_millis(100);
/// Appended events are handled within this time, or something is wrong.
const PATIENCE: Duration = Duration::from_secs(30);
const SUBSCRIBER: &str = "latency";

/// Options of `latency`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Prints one JSON object to stdout
    #[arg(long)]
    json: bool,
    /// Events per second
    #[arg(long, default_value_t = 200.0, value_name = "N")]
    rate: f64,
    /// Seconds for which each contender is measured per round
    #[arg(long, default_value_t = 5.0, value_name = "S")]
    seconds_per_round: f64,
    /// Number of rounds
    #[arg(long, default_value_t = 5, value_name = "N")]
    rounds: usize,
    /// How often the owner is killed
    #[arg(long, default_value_t = 7, value_name = "N")]
    kills: usize,
    /// Runs only the contenders whose names contain one of these texts (headwater, notify, poller,
    /// failover)
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    only: Vec<String>,
}

/// What waits for events in the other process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// A node.
    Headwater,
    /// A node that follows the WAL.
    Direct,
    /// A node that takes its events from an inbox.
    Inbox,
    /// LISTEN, then one SELECT.
    Notify,
    /// A SELECT every 100 ms.
    Poller,
}

impl Mode {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Mode::Headwater => "headwater",
            Mode::Direct => "direct",
            Mode::Inbox => "inbox",
            Mode::Notify => "notify",
            Mode::Poller => "poller",
        }
    }
}

pub(crate) async fn run(options: Options) -> anyhow::Result<()> {
    let wanted = |name: &str| options.only.is_empty() || options.only.iter().any(|part| name.contains(part.as_str()));
    let server = BenchServer::start().await?;
    let mut conn = server.connect().await?;
    sqlx::raw_sql(include_str!("../sql/latency_table.sql")).execute(&mut conn).await?;
    let modes: Vec<Mode> =
        [Mode::Headwater, Mode::Notify, Mode::Poller].into_iter().filter(|mode| wanted(mode.name())).collect();
    let mut samples: BTreeMap<&'static str, Vec<Sample>> = BTreeMap::new();
    for round in 0..options.rounds {
        let (front, back) = modes.split_at(round % modes.len().max(1));
        for mode in back.iter().chain(front) {
            let sample = measure(&server, &mut conn, *mode, options.rate, options.seconds_per_round).await?;
            let (median, p99) = (sample.latency(0.5).unwrap_or_default(), sample.latency(0.99).unwrap_or_default());
            eprintln!("round {} {:<12} median {median:>8.3} ms, p99 {p99:>8.3} ms", round + 1, mode.name());
            samples.entry(mode.name()).or_default().push(sample);
        }
    }
    let failover = if wanted("failover") { failover(&server, options.kills).await? } else { None };

    let figures = samples.iter().map(|(name, samples)| (*name, Figure::of(samples)));
    let mut report = Report::new(server.settings.clone(), figures);
    let figure = |mode: Mode| report.figure(mode.name());
    let medians = |mode| figure(mode).and_then(|figure| figure.median_ms);
    let p99s = |mode| figure(mode).and_then(|figure| figure.p99_ms);
    let over = |value: Option<f64>, base: Option<f64>| Some(value? / base?);
    let ratios = [
        ("latency_vs_notify", over(medians(Mode::Headwater), medians(Mode::Notify)), Target::AtMost(2.5)),
        ("latency_p99_ms", p99s(Mode::Headwater), Target::AtMost(25.0)),
        ("latency_p99_vs_poller", over(p99s(Mode::Headwater), p99s(Mode::Poller)), Target::AtMost(0.25)),
        ("failover_ms", failover, Target::AtMost(2_000.0)),
    ];
    ratios.into_iter().for_each(|(name, value, target)| report.ratio(name, value, target));
    server.headwater.shutdown().await;
    report.print(options.json)
}

pub(crate) async fn measure(
    server: &BenchServer,
    conn: &mut PgConnection,
    mode: Mode,
    rate: f64,
    seconds: f64,
) -> anyhow::Result<Sample> {
    let payloads = Payloads::new();
    let mut other = Other::start(server, mode, "latency-1", &format!("{SUBSCRIBER}-{}", now_ns())).await?;
    let events = (rate * seconds).max(1.0) as u64;
    let mut committed = HashMap::new();
    let mut tick = tokio::time::interval(Duration::from_secs_f64(1.0 / rate));
    let started = Instant::now();
    for number in 0..events {
        tick.tick().await;
        let sequence = match mode {
            Mode::Headwater | Mode::Direct | Mode::Inbox => {
                let appended = server.namespace.emit(payloads.event(number)).await?;
                (appended.global_sequence(), now_ns())
            }
            Mode::Notify | Mode::Poller => {
                let id: i64 = sqlx::query_scalar(include_str!("../sql/latency_insert.sql"))
                    .bind(Uuid::now_v7())
                    .bind(EVENT_TYPE)
                    .bind(payloads.jsonb(number))
                    .fetch_one(&mut *conn)
                    .await?;
                let at = now_ns();
                if mode == Mode::Notify {
                    sqlx::query("SELECT pg_notify($1, '')").bind(CHANNEL).execute(&mut *conn).await?;
                }
                (id as u64, at)
            }
        };
        committed.insert(sequence.0, sequence.1);
    }
    let elapsed = started.elapsed();
    let mut latencies = Vec::new();
    while latencies.len() < committed.len() {
        let handled = timeout(PATIENCE, other.handled.recv()).await.context("events were not handled")?;
        let (sequence, at) = handled.context("the other process ended")?;
        if let Some(before) = committed.get(&sequence) {
            // A handler can finish before the answer arrives here. That latency counts as zero.
            latencies.push(Duration::from_nanos(at.saturating_sub(*before)));
        }
    }
    other.child.kill().await?;
    Ok(Sample::new(events, elapsed, latencies))
}

/// Returns the median time in milliseconds from the kill of the owner until another process handles
/// the next event.
async fn failover(server: &BenchServer, kills: usize) -> anyhow::Result<Option<f64>> {
    let start = async |name: &str| Other::start(server, Mode::Headwater, name, "failover").await;
    let mut nodes =
        HashMap::from([("failover-1", start("failover-1").await?), ("failover-2", start("failover-2").await?)]);
    let payloads = Payloads::new();
    let store = server.namespace.subscribers();
    let mut times = Vec::new();
    for number in 0..kills {
        let owner = loop {
            let owner = store.subscriber("failover").await?.owner.map(|owner| owner.node);
            if let Some(name) = owner.and_then(|owner| nodes.keys().copied().find(|name| *name == owner)) {
                break name;
            }
            sleep(Duration::from_millis(20)).await;
        };
        // Wait until the owner handles events, and then for a time that matches no timer of the
        // nodes.
        let first = server.namespace.emit(payloads.event(0)).await?.global_sequence();
        let handling = nodes.get_mut(owner).context("the owner is one of ours")?;
        handling.until(first).await?;
        sleep(Duration::from_millis(300 + 137 * number as u64 % 1_000)).await;

        let mut killed = nodes.remove(owner).context("the owner is one of ours")?;
        let at = now_ns();
        killed.child.kill().await?;
        let sequence = server.namespace.emit(payloads.event(1)).await?.global_sequence();
        let (_, survivor) = nodes.iter_mut().next().context("one survives")?;
        let handled = survivor.until(sequence).await?;
        let ms = handled.saturating_sub(at) as f64 / 1e6;
        eprintln!("kill {} {owner}: {ms:.0} ms", number + 1);
        times.push(ms);
        nodes.insert(owner, start(owner).await?);
    }
    for (_, mut node) in nodes {
        node.child.kill().await?;
    }
    Ok(median(times))
}

/// The process that waits for events.
pub(crate) struct Other {
    pub(crate) child: Child,
    /// The sequence and the time of each event that it handled.
    handled: mpsc::UnboundedReceiver<(u64, u64)>,
}

impl Other {
    /// Starts the process and waits until it is ready.
    pub(crate) async fn start(server: &BenchServer, mode: Mode, node: &str, subscriber: &str) -> anyhow::Result<Self> {
        let mut child = Command::new(env::current_exe()?)
            .args(["latency-child", "--url", &server.url, "--mode", mode.name(), "--node", node])
            .args(["--subscriber", subscriber])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut lines = BufReader::new(child.stdout.take().context("it has an output")?).lines();
        let ready = timeout(PATIENCE, lines.next_line()).await.context("the other process is not ready")??;
        ensure!(ready.as_deref() == Some("ready"), "the other process said {ready:?}");
        let (told, handled) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                let numbers = line.split_once(' ').and_then(|(one, two)| Some((one.parse().ok()?, two.parse().ok()?)));
                if numbers.is_none_or(|numbers| told.send(numbers).is_err()) {
                    return;
                }
            }
        });
        Ok(Other { child, handled })
    }

    /// Waits until the process has handled this event, and returns when that was.
    pub(crate) async fn until(&mut self, sequence: u64) -> anyhow::Result<u64> {
        loop {
            match timeout(PATIENCE, self.handled.recv()).await.context("the event was not handled")? {
                Some((handled, at)) if handled == sequence => return Ok(at),
                Some(_) => {}
                None => bail!("the other process ended"),
            }
        }
    }
}

/// Options of `latency-child`.
#[derive(Debug, Args)]
pub(crate) struct ChildOptions {
    #[arg(long)]
    url: String,
    #[arg(long)]
    mode: Mode,
    #[arg(long)]
    node: String,
    #[arg(long)]
    subscriber: String,
}

/// Prints to stdout which event was handled when. Ends with stdin.
pub(crate) async fn run_child(options: ChildOptions) -> anyhow::Result<()> {
    let work = async {
        match options.mode {
            Mode::Headwater | Mode::Direct | Mode::Inbox => follow(&options).await,
            Mode::Notify | Mode::Poller => select(&options).await,
        }
    };
    let parent_gone = async { _ = tokio::io::stdin().read(&mut [0]).await };
    tokio::select! {
        ended = work => ended,
        () = parent_gone => Ok(()),
    }
}

struct Reporter(String);

impl EventObserver for Reporter {
    fn subscriber_id(&self) -> &str {
        &self.0
    }

    async fn on_event(&self, event: Delivery) -> Result<(), HandlerError> {
        println!("{} {}", event.global_sequence.unwrap_or_default(), now_ns());
        Ok(())
    }
}

async fn follow(options: &ChildOptions) -> anyhow::Result<()> {
    let headwater = Headwater::connect(&options.url).await?;
    let namespace = headwater.namespace(NAMESPACE).await?;
    let reporter = Reporter(options.subscriber.clone());
    let live = match options.mode {
        Mode::Direct => Live::Cdc(CdcOptions::default()),
        Mode::Inbox => Live::Cdc(CdcOptions { mode: CdcMode::inbox(), ..CdcOptions::default() }),
        _ => Live::Wake,
    };
    let builder = namespace.node(&options.node).run(Subscription::of(reporter).start_from(StartFrom::Now)).live(live);
    let node = builder.start().await?;
    let alone = options.subscriber.starts_with(SUBSCRIBER);
    loop {
        let status = node.status();
        let streams = status.live.is_none_or(|live| live.state == LiveState::Streaming);
        if status.listening && streams && (!alone || status.subscribers[0].owned) {
            break;
        }
        sleep(Duration::from_millis(10)).await;
    }
    println!("ready");
    std::future::pending().await
}

async fn select(options: &ChildOptions) -> anyhow::Result<()> {
    let connect: PgConnectOptions = options.url.parse::<PgConnectOptions>()?.disable_statement_logging();
    let mut conn = connect.connect().await?;
    let mut listener = PgListener::connect(&options.url).await?;
    if options.mode == Mode::Notify {
        listener.listen(CHANNEL).await?;
    }
    let mut after: i64 =
        sqlx::query_scalar("SELECT coalesce(max(id), 0) FROM bench.latency").fetch_one(&mut conn).await?;
    println!("ready");
    loop {
        if options.mode == Mode::Notify {
            listener.recv().await?;
        } else {
            sleep(POLL).await;
        }
        let rows: Vec<(i64, Uuid, String, serde_json::Value)> =
            sqlx::query_as(include_str!("../sql/latency_select.sql")).bind(after).fetch_all(&mut conn).await?;
        for (id, ..) in rows {
            println!("{id} {}", now_ns());
            after = id;
        }
    }
}
