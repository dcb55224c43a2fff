//! The `headwater` command.

mod cli;
mod commands;
mod connection;
mod duration;
mod event_args;
mod failure;
mod output;

use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;

use crate::cli::Cli;
use crate::failure::Failure;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run(cli: Cli) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(&cli.log)
        .map_err(|error| Failure::invalid(format!("invalid log filter {:?}: {error}", cli.log)))?;
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|error| Failure::unexpected(format!("failed to start the async runtime: {error}")))?;
    let outcome = runtime.block_on(commands::run(cli));
    // Without waiting for work that was given up when we were interrupted.
    runtime.shutdown_background();
    outcome
}
