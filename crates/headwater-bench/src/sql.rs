//! `headwater-bench sql`: what SQL callers pay. It compares appends of arrays with a plain INSERT
//! of the same rows, emits in one large transaction with emits in a small one, and ordered
//! consuming by SQL with Rust.

use std::time::{Duration, Instant};

use clap::Args;
use headwater::admin::{NamespaceConfig, Ordering};
use sqlx::{Connection, PgConnection};

use crate::report::{Figure, Report, Target};
use crate::server::BenchServer;
use crate::sql_ordered;
use crate::stats::Sample;

/// Options of `sql`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Prints one JSON object to stdout
    #[arg(long)]
    json: bool,
    /// Events in the array of small events
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    events: i32,
    /// Events in the array of 10 kB events
    #[arg(long, default_value_t = 1_000, value_name = "N")]
    large_events: i32,
    /// Emits in the large transaction
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    emits: i32,
    /// Emits in the small transaction
    #[arg(long, default_value_t = 1_000, value_name = "N")]
    few_emits: i32,
    /// Events to consume in order
    #[arg(long, default_value_t = 20_000, value_name = "N")]
    ordered_events: u64,
    /// Number of rounds
    #[arg(long, default_value_t = 5, value_name = "N")]
    rounds: usize,
}

/// Contenders: the name of each, and its samples of all rounds.
struct Figures(Vec<(&'static str, Vec<Sample>)>);

impl Figures {
    fn add(&mut self, name: &'static str, round: usize, events: i32, took: Duration) {
        let sample = Sample::new(events as u64, took, Vec::new());
        eprintln!("round {round} {name:<30} {:>8.0} events/s", sample.rate());
        // The first round warms up and is not counted.
        if round == 0 {
            return;
        }
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, samples)) => samples.push(sample),
            None => self.0.push((name, vec![sample])),
        }
    }
}

pub(crate) async fn run(options: Options) -> anyhow::Result<()> {
    // Check this before minutes of work, not after them.
    let python = sql_ordered::python().await?;
    let server = BenchServer::start().await?;
    let mut conn = server.connect().await?;
    server.headwater.create_namespace(NamespaceConfig::new("shop")).await?;
    let ledger = NamespaceConfig { ordering: Some(Ordering::Gapless), ..NamespaceConfig::new("ledger") };
    server.headwater.create_namespace(ledger).await?;
    sqlx::raw_sql(include_str!("../sql/plain_events.sql")).execute(&mut conn).await?;
    for (name, events, bytes) in [("small", options.events, 32), ("large", options.large_events, 10_240)] {
        let make = sqlx::query(include_str!("../sql/sql_events.sql"));
        make.bind(name).bind(events).bind(bytes).execute(&mut conn).await?;
    }

    let mut figures = Figures(Vec::new());
    for round in 0..=options.rounds {
        for (given, events, ours, plain) in [
            ("small", options.events, "sql_append", "plain_insert"),
            ("large", options.large_events, "sql_append_10kb", "plain_insert_10kb"),
        ] {
            let append = include_str!("../sql/sql_append.sql");
            let insert = include_str!("../sql/sql_insert.sql");
            let mut turns = [(ours, append), (plain, insert)];
            turns.rotate_left(round % 2);
            for (name, statement) in turns {
                figures.add(name, round, events, timed(&mut conn, statement, given).await?);
            }
        }
        for (namespace, many, few) in [
            ("shop", "sequence_emits_large_tx", "sequence_emits_small_tx"),
            ("ledger", "gapless_emits_large_tx", "gapless_emits_small_tx"),
        ] {
            // Small transactions run one after the other, at most 20 of them.
            let transactions = (options.emits / options.few_emits).clamp(1, 20);
            let started = Instant::now();
            for _ in 0..transactions {
                emit(&mut conn, namespace, options.few_emits).await?;
            }
            figures.add(few, round, transactions * options.few_emits, started.elapsed());
            let started = Instant::now();
            emit(&mut conn, namespace, options.emits).await?;
            figures.add(many, round, options.emits, started.elapsed());
        }
    }

    figures.0.extend(sql_ordered::measure(&server, &python, options.ordered_events, options.rounds).await?);
    let mut report =
        Report::new(server.settings.clone(), figures.0.iter().map(|(name, samples)| (*name, Figure::of(samples))));
    let rate = |name: &str| report.figure(name).map(|figure| figure.events_per_second);
    // The time of the first divided by the time of the second.
    let time = |ours: &str, other: &str| rate(other).zip(rate(ours)).map(|(other, ours)| other / ours);
    let ratios = [
        ("sql_append_10000_vs_insert", time("sql_append", "plain_insert"), 3.0),
        ("sql_append_10kb_vs_insert", time("sql_append_10kb", "plain_insert_10kb"), 3.0),
        ("gapless_emit_tx_linear", time("gapless_emits_large_tx", "gapless_emits_small_tx"), 1.3),
        ("sequence_emit_tx_linear", time("sequence_emits_large_tx", "sequence_emits_small_tx"), 1.3),
    ];
    for (name, value, most) in ratios {
        report.ratio(name, value, Target::AtMost(most));
    }
    sql_ordered::add_ratio(&mut report);
    report.print(options.json)
}

async fn timed(conn: &mut PgConnection, statement: &'static str, given: &str) -> anyhow::Result<Duration> {
    let started = Instant::now();
    sqlx::query(statement).bind(given).execute(conn).await?;
    Ok(started.elapsed())
}

/// Emits events one by one, with a statement each, in one transaction, as a program in the database
/// does.
async fn emit(conn: &mut PgConnection, namespace: &str, events: i32) -> anyhow::Result<()> {
    let mut transaction = conn.begin().await?;
    let statement = sqlx::query(include_str!("../sql/sql_emits.sql"));
    statement.bind(namespace).bind(events).execute(&mut *transaction).await?;
    Ok(transaction.commit().await?)
}
