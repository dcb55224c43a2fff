//! `headwater-bench idle`: what a node asks the server while nothing happens.

use std::time::Duration;

use clap::Args;
use headwater::{Headwater, Namespace, Subscription};
use sqlx::PgConnection;

use crate::handlers::Idle;
use crate::report::{Report, Target};
use crate::server::{BenchServer, NAMESPACE};

/// Wait before counting, so that every subscriber has its lease and has read the log.
const SETTLE: Duration = Duration::from_secs(5);

/// Options of `idle`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Prints one JSON object to stdout
    #[arg(long)]
    json: bool,
    /// Subscribers of the node
    #[arg(long, default_value_t = 20, value_name = "N")]
    subscribers: u32,
    /// How long statements are counted
    #[arg(long, default_value_t = 30.0, value_name = "S")]
    seconds: f64,
}

pub(crate) async fn run(options: Options) -> anyhow::Result<()> {
    let loaded = [("shared_preload_libraries", "pg_stat_statements"), ("pg_stat_statements.track_utility", "on")];
    let (server, by_statement) = match BenchServer::start_with(&loaded).await {
        Ok(server) => (server, true),
        Err(error) => {
            eprintln!("without pg_stat_statements, transactions are counted: {error:#}");
            (BenchServer::start().await?, false)
        }
    };
    let mut monitor = server.connect().await?;
    if by_statement {
        sqlx::raw_sql("CREATE EXTENSION pg_stat_statements").execute(&mut monitor).await?;
    }
    // Append some events, as any log has.
    let namespace: &Namespace = &server.namespace;
    for number in 0..100 {
        namespace.emit(crate::payload::Payloads::new().event(number)).await?;
    }
    server.headwater.shutdown().await;

    let headwater = Headwater::connect(&server.url).await?;
    let namespace = headwater.namespace(NAMESPACE).await?;
    let ids = (0..options.subscribers).map(|number| format!("idle-{number}"));
    let node = ids.fold(namespace.node("idle"), |node, id| node.run(Subscription::of(Idle(id)))).start().await?;
    tokio::time::sleep(SETTLE).await;
    let (per_second, of_each) = match by_statement {
        true => statements(&mut monitor, options.seconds).await?,
        false => (transactions(&mut monitor, options.seconds).await?, Vec::new()),
    };
    for (query, calls) in of_each {
        let start: String =
            query.split_whitespace().filter(|word| *word != "--").take(12).collect::<Vec<_>>().join(" ");
        eprintln!("{:>8.2} a second  {start}", calls as f64 / options.seconds);
    }
    node.shutdown().await?;
    headwater.shutdown().await;
    let mut report = Report::new(server.settings.clone(), []);
    report.ratio("idle_queries_per_s", Some(per_second), Target::AtMost(3.0));
    report.print(options.json)
}

/// Returns the rate of all statements except this program's own, and the calls of each statement.
async fn statements(monitor: &mut PgConnection, seconds: f64) -> anyhow::Result<(f64, Vec<(String, i64)>)> {
    sqlx::query("SELECT pg_stat_statements_reset()").execute(&mut *monitor).await?;
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    let of_each: Vec<(String, i64)> =
        sqlx::query_as(include_str!("../sql/idle_statements.sql")).fetch_all(monitor).await?;
    let calls: i64 = of_each.iter().map(|(_, calls)| calls).sum();
    Ok((calls as f64 / seconds, of_each))
}

/// Returns the rate of transactions. The server counts a session's transactions when the session
/// has been idle for a second.
async fn transactions(monitor: &mut PgConnection, seconds: f64) -> anyhow::Result<f64> {
    let count = include_str!("../sql/idle_transactions.sql");
    let before: i64 = sqlx::query_scalar(count).fetch_one(&mut *monitor).await?;
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    let after: i64 = sqlx::query_scalar(count).fetch_one(monitor).await?;
    // The first count is itself one transaction.
    Ok((after - before - 1).max(0) as f64 / seconds)
}
