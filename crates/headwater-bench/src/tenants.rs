//! `headwater-bench tenants`: a namespace among ten thousand against the only one of a database, or
//! a log with many past months against a log with two. Each has its own server; they run in turn.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Args;
use futures::future::try_join_all;
use headwater::log::{Append, EventLog, LogQuery};
use headwater::{Event, Json, Namespace};
use sqlx::{AssertSqlSafe, PgConnection, Row};

use crate::partitions;
use crate::report::{Figure, Report, Target};
use crate::server::{BenchServer, NAMESPACE};
use crate::stats::{Sample, median};

const QUEUE: &str = "workers";
/// Events per claim and per page.
const BATCH: u32 = 100;
const PRODUCERS: usize = 16;
/// Connections that create namespaces.
const MAKERS: usize = 4;

/// Options of `tenants`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Prints one JSON object to stdout
    #[arg(long)]
    json: bool,
    /// Namespaces of the database with many namespaces
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    namespaces: usize,
    /// Past months of the log with many months; compares months instead of namespaces
    #[arg(long, value_name = "N", conflicts_with = "namespaces")]
    months: Option<i32>,
    /// Seconds for each kind of work per round
    #[arg(long, default_value_t = 2.0, value_name = "N")]
    seconds: f64,
    /// Number of rounds
    #[arg(long, default_value_t = 5, value_name = "N")]
    rounds: usize,
}

/// A database whose namespace is measured.
struct Side {
    name: &'static str,
    server: BenchServer,
    namespace: Namespace,
    worker: PgConnection,
}

/// The kinds of work in each round.
const KINDS: [&str; 3] = ["append", "claim", "tail"];

pub(crate) async fn run(options: Options) -> anyhow::Result<()> {
    let mut sides = match options.months {
        Some(months) => [of_months("many", months).await?, of_months("few", 2).await?],
        None => [of_namespaces("many", options.namespaces).await?, of_namespaces("one", 1).await?],
    };
    let mut samples: [[Vec<Sample>; 3]; 2] = Default::default();
    // The first round of each database warms up and is not counted.
    for round in 0..=options.rounds {
        for turn in 0..2 {
            let at = (round + turn) % 2;
            for (kind, name) in KINDS.iter().enumerate() {
                let sample = sides[at].work(name, Duration::from_secs_f64(options.seconds)).await?;
                eprintln!("round {round} {:<6} {name:<8} {:>9.0} events/s", sides[at].name, sample.rate());
                if round > 0 {
                    samples[at][kind].push(sample);
                }
            }
        }
    }
    let named = |(at, kind): (usize, usize)| {
        (name_of(format!("{}_{}", KINDS[kind], sides[at].name)), Figure::of(&samples[at][kind]))
    };
    let figures = (0..2).flat_map(|at| (0..3).map(move |kind| (at, kind))).map(named);
    let mut report = Report::new(sides[0].server.settings.clone(), figures);
    let (suffix, target) = match options.months {
        Some(months) => (format!("{months}_months_vs_2"), Target::AtLeast(0.9)),
        None => (format!("{}_vs_1", options.namespaces), Target::AtLeast(0.85)),
    };
    for kind in KINDS {
        let rate = |side: &str| report.figure(&format!("{kind}_{side}")).map(|figure| figure.events_per_second);
        let ratio = rate(sides[0].name).zip(rate(sides[1].name)).map(|(many, few)| many / few);
        report.ratio(name_of(format!("{kind}_{suffix}")), ratio, target);
    }
    let [many, _] = &mut sides;
    report.ratio("locks_per_claim", Some(many.locks_of_a_claim().await?), Target::AtMost(30.0));
    if options.months.is_none() {
        report.ratio(
            "status_ms",
            many.milliseconds("SELECT count(*) FROM headwater.namespace_status()").await?,
            Target::AtMost(100.0),
        );
        report.ratio(
            "lag_ms",
            many.milliseconds("SELECT count(*) FROM headwater.subscriber_lag").await?,
            Target::AtMost(100.0),
        );
        report.ratio(
            "queues_ms",
            many.milliseconds("SELECT count(*) FROM headwater.queue_metrics").await?,
            Target::AtMost(100.0),
        );
    }
    report.print(options.json)
}

/// Makes a name that lives as long as the program, as figures need it.
fn name_of(name: String) -> &'static str {
    name.leak()
}

/// Makes a database with `namespaces` namespaces. Each of the others has events, a subscriber, a
/// queue and a schedule. The namespace that was made first is measured.
async fn of_namespaces(name: &'static str, namespaces: usize) -> anyhow::Result<Side> {
    let server = BenchServer::start().await?;
    let started = Instant::now();
    // The measured namespace exists already.
    let others: Vec<usize> = (1..namespaces).collect();
    let connections = server.connections(MAKERS).await?;
    let lots = others.chunks(others.len().div_ceil(MAKERS).max(1)).map(<[usize]>::to_vec);
    try_join_all(connections.into_iter().zip(lots).map(|(conn, lot)| make(conn, lot))).await?;
    eprintln!("made {namespaces} namespaces in {:.0} s", started.elapsed().as_secs_f64());
    Side::new(name, server).await
}

async fn make(mut conn: PgConnection, numbers: Vec<usize>) -> anyhow::Result<()> {
    for lot in numbers.chunks(50) {
        let script: String = lot
            .iter()
            .map(|number| {
                let name = format!("tenant-{number}");
                format!(
                    "SELECT headwater.create_namespace('{name}');
                     SELECT headwater.append('{name}', 'order-1', (SELECT jsonb_agg(jsonb_build_object('type', 'OrderPlaced', 'data', n)) FROM generate_series(1, 20) n));
                     SELECT headwater.register_subscriber('{name}', 'mailer');
                     SELECT headwater.register_subscriber('{name}', '{QUEUE}', mode => 'shared');
                     SELECT headwater.claim('{name}', '{QUEUE}', 5);
                     SELECT headwater.schedule('{name}', 'nightly', 'night', '0 3 * * *');\n"
                )
            })
            .collect();
        sqlx::raw_sql(AssertSqlSafe(format!("BEGIN; {script} COMMIT"))).execute(&mut conn).await?;
    }
    Ok(())
}

/// Makes a database whose namespace has `months` past months.
async fn of_months(name: &'static str, months: i32) -> anyhow::Result<Side> {
    let server = BenchServer::start().await?;
    let mut conn = server.connect().await?;
    partitions::fill_months(&server, &mut conn, NAMESPACE, months, 2_000, 2_000).await?;
    Side::new(name, server).await
}

impl Side {
    async fn new(name: &'static str, server: BenchServer) -> anyhow::Result<Self> {
        let mut worker = server.connect().await?;
        sqlx::query(include_str!("../sql/settle_tables.sql")).execute(&mut worker).await?;
        sqlx::raw_sql(AssertSqlSafe(format!(
            "SELECT headwater.register_subscriber('{NAMESPACE}', '{QUEUE}', 'now', mode => 'shared')"
        )))
        .execute(&mut worker)
        .await?;
        let namespace = server.headwater.namespace(NAMESPACE).await?;
        Ok(Side { name, server, namespace, worker })
    }

    async fn work(&mut self, kind: &str, time: Duration) -> anyhow::Result<Sample> {
        match kind {
            "append" => self.append(time).await,
            "claim" => self.claim(time).await,
            _ => self.tail(time).await,
        }
    }

    /// Runs producers that each append one event after the other.
    async fn append(&self, time: Duration) -> anyhow::Result<Sample> {
        let started = Instant::now();
        let producers = (0..PRODUCERS).map(|_| async {
            let mut appended = 0;
            while started.elapsed() < time {
                let event = Event::raw("OrderPlaced", Json::null());
                self.namespace.log().append(Append::from(event)).await?;
                appended += 1;
            }
            anyhow::Ok(appended)
        });
        let appended: u64 = try_join_all(producers).await?.into_iter().sum();
        Ok(Sample::new(appended, started.elapsed(), Vec::new()))
    }

    /// Runs one worker that claims, and acks the claim before.
    async fn claim(&mut self, time: Duration) -> anyhow::Result<Sample> {
        let claim = "SELECT claim_id, global_sequence FROM headwater.claim($1, $2, $3, '30 s', acks => $4)";
        let (mut acks, mut claimed) = (Vec::<uuid::Uuid>::new(), 0);
        let started = Instant::now();
        while started.elapsed() < time {
            let query = sqlx::query(claim).bind(NAMESPACE).bind(QUEUE).bind(BATCH as i32).bind(&acks);
            let rows = query.fetch_all(&mut self.worker).await?;
            if rows.len() < BATCH as usize {
                self.refill().await?;
            }
            acks = rows.iter().map(|row| row.get("claim_id")).collect();
            acks.dedup();
            claimed += rows.len() as u64;
        }
        let elapsed = started.elapsed();
        let done = "SELECT headwater.ack($1, $2, a) FROM unnest($3::uuid[]) a";
        sqlx::query(done).bind(NAMESPACE).bind(QUEUE).bind(&acks).execute(&mut self.worker).await?;
        Ok(Sample::new(claimed, elapsed, Vec::new()))
    }

    async fn refill(&self) -> anyhow::Result<()> {
        let append = (0..20_000).fold(Append::new(), |append, _| append.event(Event::raw("OrderPlaced", Json::null())));
        self.namespace.log().append(append).await?;
        Ok(())
    }

    /// Reads the last page again and again, like a follower of the log.
    async fn tail(&self, time: Duration) -> anyhow::Result<Sample> {
        let end = self.server.headwater.admin().log_end(NAMESPACE).await?;
        let query = LogQuery::after(end.saturating_sub(u64::from(BATCH))).page_size(BATCH);
        let (started, mut read) = (Instant::now(), 0);
        while started.elapsed() < time {
            let page = self.namespace.log().log_page(&query).await?;
            ensure!(page.events.len() == BATCH as usize, "a page of {} events", page.events.len());
            read += page.events.len() as u64;
        }
        Ok(Sample::new(read, started.elapsed(), Vec::new()))
    }

    async fn locks_of_a_claim(&mut self) -> anyhow::Result<f64> {
        self.refill().await?;
        let mut conn = self.server.connect().await?;
        sqlx::raw_sql("BEGIN").execute(&mut conn).await?;
        let claim = "SELECT count(*) FROM headwater.claim($1, $2, $3)";
        let claimed: i64 =
            sqlx::query_scalar(claim).bind(NAMESPACE).bind(QUEUE).bind(BATCH as i32).fetch_one(&mut conn).await?;
        ensure!(claimed == i64::from(BATCH), "a claim of {claimed} events");
        let locks: i64 = sqlx::query_scalar("SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid()")
            .fetch_one(&mut conn)
            .await?;
        sqlx::raw_sql("ROLLBACK").execute(&mut conn).await?;
        Ok(locks as f64)
    }

    /// Returns the median time of a query.
    async fn milliseconds(&mut self, query: &'static str) -> anyhow::Result<Option<f64>> {
        let mut times = Vec::new();
        for _ in 0..9 {
            let started = Instant::now();
            sqlx::query_scalar::<_, i64>(query).fetch_one(&mut self.worker).await.context(query)?;
            times.push(started.elapsed().as_secs_f64() * 1000.0);
        }
        Ok(median(times))
    }
}
