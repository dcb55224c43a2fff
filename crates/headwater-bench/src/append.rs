//! `headwater-bench append`: runs every contender in every round, in a rotated order. Then it
//! prints medians and ratios.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use crate::contenders::{
    AppendToStreams, BulkImport, Contender, Emit, PgmqSend, PlainInsert, RawBatch, RawSingle, Turn, install_pgmq,
};
use crate::drive::Window;
use crate::payload::Payloads;
use crate::report::{Figure, Report, Target};
use crate::server::{BenchServer, Role};
use crate::stats::Sample;

/// How long each contender runs before each measurement.
const WARM_UP: Duration = Duration::from_millis(700);

/// Options of `append`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Prints one JSON object to stdout
    #[arg(long)]
    json: bool,
    /// Seconds for which each contender is measured per round
    #[arg(long, default_value_t = 3.0, value_name = "S")]
    seconds_per_round: f64,
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
    let payloads = Arc::new(Payloads::new());
    let contenders = contenders(&payloads, &options.only).await?;
    let server = BenchServer::start_as(options.role, &[]).await?;
    let mut monitor = server.connect().await?;
    install_pgmq(server.owner.pool()).await?;
    sqlx::raw_sql(include_str!("../sql/baseline_tables.sql")).execute(&mut monitor).await?;

    let window = Window { warm_up: WARM_UP, measure: Duration::from_secs_f64(options.seconds_per_round) };
    let mut samples: BTreeMap<&'static str, Vec<Sample>> = BTreeMap::new();
    for round in 0..options.rounds {
        sqlx::query(include_str!("../sql/empty_tables.sql")).execute(&mut monitor).await?;
        let (front, back) = contenders.split_at(round % contenders.len().max(1));
        for contender in back.iter().chain(front) {
            sqlx::query(include_str!("../sql/checkpoint.sql")).execute(&mut monitor).await?;
            let turn = Turn { server: &server, payloads: &payloads, window, monitor: &mut monitor };
            let sample = contender.run(turn).await?;
            eprintln!("round {} {:<30} {:>8.0} events/s", round + 1, contender.name(), sample.rate());
            samples.entry(contender.name()).or_default().push(sample);
        }
    }
    server.headwater.shutdown().await;
    let figures = samples.iter().map(|(name, samples)| (*name, Figure::of(samples)));
    let mut report = Report::new(server.settings.clone(), figures);
    add_ratios(&mut report);
    report.print(options.json)
}

async fn contenders(payloads: &Payloads, only: &[String]) -> anyhow::Result<Vec<Box<dyn Contender>>> {
    let wanted = |name: &str| only.is_empty() || only.iter().any(|part| name.contains(part.as_str()));
    let mut all: Vec<Box<dyn Contender>> = vec![
        Box::new(Emit { name: "headwater_emit_64", producers: 64 }),
        Box::new(PgmqSend { callers: 64 }),
        Box::new(PlainInsert::trigger_notify(64)),
        Box::new(PlainInsert::log_counter(64)),
        Box::new(RawBatch { name: "raw_batch_1_writer", writers: 1 }),
        Box::new(Emit { name: "headwater_emit_256", producers: 256 }),
        Box::new(RawBatch { name: "raw_batch_2_writers", writers: 2 }),
        Box::new(AppendToStreams { producers: 64 }),
        Box::new(RawSingle { name: "raw_single_64_streams", writers: 64, in_streams: true }),
        Box::new(Emit { name: "headwater_emit_1", producers: 1 }),
        Box::new(RawSingle { name: "raw_single_1", writers: 1, in_streams: false }),
    ];
    if wanted("headwater_bulk_import") {
        all.push(Box::new(BulkImport::prepare(payloads).await?));
    }
    all.retain(|contender| wanted(contender.name()));
    Ok(all)
}

fn add_ratios(report: &mut Report) {
    let rate = |name: &str| report.figure(name).map(|figure| figure.events_per_second);
    let median = |name: &str| report.figure(name).and_then(|figure| figure.median_ms);
    let wal = |name: &str| report.figure(name).and_then(|figure| figure.wal_bytes_per_event);
    // The most that one writer gets into the table. The figure of two writers, which use two idle
    // cores, is beside it in the table.
    let limit = rate("raw_batch_1_writer");
    let over = |value: Option<f64>, base: Option<f64>| Some(value? / base?);

    let emit_64 = rate("headwater_emit_64");
    let ratios = [
        ("emit_64_vs_pgmq_send", over(emit_64, rate("pgmq_send_64")), Target::AtLeast(5.0)),
        ("emit_64_vs_trigger_notify", over(emit_64, rate("trigger_notify_64")), Target::AtLeast(10.0)),
        ("emit_64_vs_log_counter", over(emit_64, rate("log_counter_64")), Target::AtLeast(18.0)),
        ("emit_256_vs_raw_batch", over(rate("headwater_emit_256"), limit), Target::AtLeast(0.6)),
        (
            "append_64_streams_vs_raw_single",
            over(rate("headwater_append_64_streams"), rate("raw_single_64_streams")),
            Target::AtLeast(2.0),
        ),
        ("append_1_latency_vs_raw", over(median("headwater_emit_1"), median("raw_single_1")), Target::AtMost(1.4)),
        ("bulk_import_vs_raw_batch", over(rate("headwater_bulk_import"), limit), Target::AtLeast(0.6)),
        ("wal_bytes_per_event_vs_raw", over(wal("headwater_emit_64"), wal("raw_batch_1_writer")), Target::AtMost(1.5)),
    ];
    for (name, value, target) in ratios {
        report.ratio(name, value, target);
    }
}
