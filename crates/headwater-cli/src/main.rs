//! The `headwater` command.

mod cli;
mod commands;
mod config_file;
mod confirm;
mod connection;
#[cfg(feature = "up")]
mod data_dir;
mod duration;
mod event_args;
mod failure;
mod held;
mod live_args;
mod logging;
mod output;
mod progress;
mod signals;
mod start;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::Cli;
use crate::failure::Failure;

fn main() -> ExitCode {
    let ran = config_file::with_file(std::env::args_os().collect()).and_then(|words| run(Cli::parse_from(words)));
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run(cli: Cli) -> Result<(), Failure> {
    logging::init(&cli.log)?;
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|error| Failure::unexpected(format!("failed to start the async runtime: {error}")))?;
    let outcome = runtime.block_on(commands::run(cli));
    // Do not wait for work that was abandoned by an interruption.
    runtime.shutdown_background();
    outcome
}
