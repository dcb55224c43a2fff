//! Benchmarks of Headwater against baselines, which run in the same process, on the same server, in turn.
//!
//! `headwater-bench append` and `headwater-bench read` each start a durable server of their own in a temporary folder,
//! print tables to stderr and, with `--json`, one JSON object to stdout. A missed target is printed, not an error:
//! ratios are for people, and machines are noisy.

mod append;
mod contenders;
mod cpu;
mod drive;
mod memory;
mod payload;
mod read;
mod report;
mod server;
mod stats;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "headwater-bench", about, version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Appends, against pgmq, a NOTIFY trigger, a counter row and bare INSERTs
    Append(append::Options),
    /// Reads of the log, against a bare SELECT
    Read(read::Options),
    /// Reads the log once and says how much memory that took
    #[command(hide = true)]
    ReadChild(memory::Options),
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Append(options) => append::run(options).await,
        Command::Read(options) => read::run(options).await,
        Command::ReadChild(options) => memory::run(options).await,
    }
}
