//! `headwater-bench partitions`: the tail of a log with many months against the tail of a log with
//! one, in turn.

use std::time::Instant;

use anyhow::ensure;
use clap::Args;
use headwater::Namespace;
use headwater::admin::NamespaceConfig;
use headwater::log::{EventLog, LogQuery};
use sqlx::{PgConnection, Row};

use crate::payload::Payloads;
use crate::report::{Figure, Report, Target};
use crate::server::BenchServer;
use crate::stats::Sample;

const MANY: &str = "tail_of_60_months";
const ONE: &str = "tail_of_1_month";

/// Options of `partitions`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Prints one JSON object to stdout
    #[arg(long)]
    json: bool,
    /// Past months of the log with many months
    #[arg(long, default_value_t = 60, value_name = "N")]
    months: i32,
    /// Events per past month
    #[arg(long, default_value_t = 2_000, value_name = "N")]
    events_each: i64,
    /// Events of the current month, in both logs
    #[arg(long, default_value_t = 50_000, value_name = "N")]
    events: i64,
    /// Reads per round
    #[arg(long, default_value_t = 500, value_name = "N")]
    reads: u64,
    /// Events per read
    #[arg(long, default_value_t = 100, value_name = "N")]
    page: u32,
    /// Number of rounds
    #[arg(long, default_value_t = 9, value_name = "N")]
    rounds: usize,
}

pub(crate) async fn run(options: Options) -> anyhow::Result<()> {
    let server = BenchServer::start().await?;
    let mut conn = server.connect().await?;
    let many = fill(&server, &mut conn, "many", options.months, &options).await?;
    let one = fill(&server, &mut conn, "one", 0, &options).await?;
    sqlx::query(include_str!("../sql/settle_tables.sql")).execute(&mut conn).await?;
    sqlx::query(include_str!("../sql/checkpoint.sql")).execute(&mut conn).await?;

    let (mut of_many, mut of_one) = (Vec::new(), Vec::new());
    // The first round of each log warms up and is not counted.
    for round in 0..=options.rounds {
        for turn in 0..2 {
            let (name, log, samples) =
                if (round + turn) % 2 == 0 { (MANY, &many, &mut of_many) } else { (ONE, &one, &mut of_one) };
            let sample = tail(log, &options).await?;
            eprintln!("round {round} {name:<30} {:>8.0} events/s", sample.rate());
            if round > 0 {
                samples.push(sample);
            }
        }
    }
    let mut report = Report::new(server.settings.clone(), [(MANY, Figure::of(&of_many)), (ONE, Figure::of(&of_one))]);
    let rate = |name: &str| report.figure(name).map(|figure| figure.events_per_second);
    let ratio = rate(MANY).zip(rate(ONE)).map(|(many, one)| many / one);
    report.ratio("tail_read_60_partitions_vs_1", ratio, Target::AtLeast(0.85));
    report.print(options.json)
}

/// Makes a namespace with `months` sealed past months. All namespaces get equally many events in
/// the current month.
async fn fill(
    server: &BenchServer,
    conn: &mut PgConnection,
    name: &str,
    months: i32,
    options: &Options,
) -> anyhow::Result<Namespace> {
    fill_months(server, conn, name, months, options.events_each, options.events).await?;
    Ok(server.headwater.namespace(name).await?)
}

/// Fills a new namespace: `events_each` events in each past month, and `events` in the current
/// month.
pub(crate) async fn fill_months(
    server: &BenchServer,
    conn: &mut PgConnection,
    name: &str,
    months: i32,
    events_each: i64,
    events: i64,
) -> anyhow::Result<()> {
    let info = server.headwater.create_namespace(NamespaceConfig::new(name)).await?;
    let row = sqlx::query(include_str!("../sql/sequence.sql")).bind(name).fetch_one(&mut *conn).await?;
    let (sequence, payloads) = (row.get::<sqlx::postgres::types::Oid, _>("oid"), Payloads::new());
    for months_ago in (0..=months).rev() {
        let id = info.id;
        sqlx::query(include_str!("../sql/create_month.sql")).bind(id).bind(months_ago).execute(&mut *conn).await?;
        sqlx::query(include_str!("../sql/load_month.sql"))
            .bind(sequence)
            .bind(id)
            .bind(months_ago)
            .bind(if months_ago == 0 { events } else { events_each })
            .bind(payloads.texts())
            .execute(&mut *conn)
            .await?;
    }
    let done = server.headwater.admin().maintain(name, false).await?;
    ensure!(done.sealed == months as u32, "{} of {months} months were sealed", done.sealed);
    Ok(())
}

/// Reads from near the end, again and again, like a follower of the log.
async fn tail(namespace: &Namespace, options: &Options) -> anyhow::Result<Sample> {
    let head = namespace.horizon().await?.head;
    let query = LogQuery::after(head - u64::from(options.page)).page_size(options.page);
    let started = Instant::now();
    for _ in 0..options.reads {
        let page = namespace.log().log_page(&query).await?;
        ensure!(page.events.len() == options.page as usize, "a page of {} events", page.events.len());
    }
    Ok(Sample::new(options.reads * u64::from(options.page), started.elapsed(), Vec::new()))
}
