//! `headwater-bench schedules`: how late schedules fire when all are due at the same time.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use chrono::{DateTime, DurationRound, TimeDelta, Timelike, Utc};
use clap::Args;
use headwater::{Delivery, EventObserver, HandlerError, Headwater, Json, RecordedEvent, Subscription, Task};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::handlers::Idle;
use crate::report::{Report, Target};
use crate::server::{BenchServer, NAMESPACE};
use crate::stats::{Sample, median};

/// Time from making the first schedule until all are due.
const LEAD: TimeDelta = TimeDelta::seconds(20);
/// An event that takes longer will not come.
const PATIENCE: Duration = Duration::from_secs(60);

/// Options of `schedules`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Prints one JSON object to stdout
    #[arg(long)]
    json: bool,
    /// Schedules that are due at the same time
    #[arg(long, default_value_t = 200, value_name = "N")]
    schedules: u32,
    /// Nodes that can fire the schedules
    #[arg(long, default_value_t = 2, value_name = "N")]
    nodes: u32,
    /// Number of rounds
    #[arg(long, default_value_t = 3, value_name = "N")]
    rounds: u32,
}

/// How late the events of one round were.
#[derive(Debug, Clone)]
struct Jitter {
    /// From the due time until the event was appended, by the server's clock.
    recorded: Sample,
    /// From the due time until the commit, if the server records commit times
    /// (`track_commit_timestamp`).
    committed: Option<Sample>,
    /// From the due time until a handler got the event, by this machine's clock. The handler gets
    /// one event after the other, with a checkpoint after each.
    handled: Sample,
}

pub(crate) async fn run(options: Options) -> anyhow::Result<()> {
    let (server, p99) = measure(options.schedules, options.nodes, options.rounds).await?;
    let mut report = Report::new(server.settings.clone(), []);
    report.ratio("schedule_jitter_ms", p99, Target::AtMost(500.0));
    report.print(options.json)
}

/// Returns the median over the rounds of the p99 from the due time to the commit, in ms. Also
/// returns the server on which it was measured.
pub(crate) async fn measure(schedules: u32, nodes: u32, rounds: u32) -> anyhow::Result<(BenchServer, Option<f64>)> {
    let server = BenchServer::start_with(&[("track_commit_timestamp", "on")]).await?;
    let mut measured = Vec::new();
    for round in 1..=rounds {
        let jitter = schedule_jitter(&server, schedules, nodes).await?;
        let of = |sample: &Sample| [0.5, 0.99, 1.0].map(|quantile| sample.latency(quantile).unwrap_or_default());
        let committed = jitter.committed.as_ref().map(of).context("the server notes when transactions commit")?;
        let ([_, recorded, _], [median, p99, worst], [_, handled, _]) =
            (of(&jitter.recorded), committed, of(&jitter.handled));
        eprintln!(
            "round {round}: committed {median:.1} ms after the due time in the median, p99 {p99:.1} ms, at most {worst:.1} ms; recorded p99 {recorded:.1} ms, handled p99 {handled:.1} ms"
        );
        measured.push(jitter);
    }
    let p99 = median(measured.iter().filter_map(|round| round.committed.as_ref()?.latency(0.99)));
    Ok((server, p99))
}

/// Makes `schedules` schedules due at the same time, runs `nodes` nodes to fire them, and returns
/// how late each event was.
async fn schedule_jitter(server: &BenchServer, schedules: u32, nodes: u32) -> anyhow::Result<Jitter> {
    let namespace = &server.namespace;
    let due = (Utc::now() + LEAD).duration_round(TimeDelta::seconds(1))?;
    let cron = format!("{} {} * * * *", due.second(), due.minute());
    let name = |number: u32| format!("jitter-{number}");
    for number in 0..schedules {
        let task = Task::cron(name(number), &cron).emits("Scheduled", Json::null());
        let made = namespace.schedule_task(task).await?;
        ensure!(made.next_due_at.is_some_and(|next| next.to_utc() == due), "the schedules took too long to make");
    }
    let (arrived, mut arrivals) = mpsc::unbounded_channel();
    let mut running = vec![namespace.node("jitter").run(Subscription::of(Arrivals(arrived))).start().await?];
    let mut elsewhere = Vec::new();
    for number in 1..nodes {
        // A node with its own connections, as in another process.
        let headwater = Headwater::connect(&server.url).await?;
        let node = headwater.namespace(NAMESPACE).await?.node(format!("jitter-{number}"));
        running.push(node.run(Subscription::of(Idle(format!("jitter-{number}")))).start().await?);
        elsewhere.push(headwater);
    }

    let (mut recorded, mut handled) = (Vec::new(), Vec::new());
    while recorded.len() < schedules as usize {
        let wait = LEAD.to_std()? + PATIENCE;
        let arrival = timeout(wait, arrivals.recv()).await.context("a schedule was not fired")?;
        let Some((event, at)) = arrival else { bail!("the node has stopped") };
        let of: DateTime<Utc> = event.headers.get("scheduled_at").context("it says when it was due")?.parse()?;
        ensure!(of == due, "an event of {of}, not of {due}");
        recorded.push((event.recorded_at.context("it is stored")? - due).to_std().context("it came early")?);
        handled.push((at - due).to_std().unwrap_or_default());
    }
    let mut monitor = server.connect().await?;
    let committed: Vec<Option<i64>> = sqlx::query_scalar(include_str!("../sql/schedule_commits.sql"))
        .bind(server.namespace_id())
        .bind(due)
        .fetch_all(&mut monitor)
        .await?;
    for node in running {
        node.shutdown().await?;
    }
    for headwater in elsewhere {
        headwater.shutdown().await;
    }
    for number in 0..schedules {
        namespace.delete_schedule(&name(number)).await?;
    }
    let sample = |latencies: Vec<Duration>| {
        let longest = latencies.iter().max().copied().unwrap_or_default();
        Sample::new(schedules.into(), longest, latencies)
    };
    let committed: Option<Vec<_>> =
        committed.into_iter().map(|late| late.map(|late| Duration::from_micros(late.unsigned_abs()))).collect();
    Ok(Jitter { recorded: sample(recorded), committed: committed.map(sample), handled: sample(handled) })
}

/// Reports which event came, and when.
struct Arrivals(mpsc::UnboundedSender<(RecordedEvent, DateTime<Utc>)>);

impl EventObserver for Arrivals {
    fn subscriber_id(&self) -> &str {
        "jitter"
    }

    async fn on_event(&self, event: Delivery) -> Result<(), HandlerError> {
        let told = self.0.send((RecordedEvent::clone(&event), Utc::now()));
        told.map_err(|_| HandlerError::message("nobody measures any more"))
    }
}
