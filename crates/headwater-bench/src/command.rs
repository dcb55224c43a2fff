//! The `headwater` program as its users run it: `headwater read` and `headwater consume`, into a
//! file.

use std::env;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, ensure};
use tokio::process::Command;

use crate::server::NAMESPACE;
use crate::stats::Sample;

pub(crate) const READ: &str = "command_read";

/// The arguments of `consume` in each mode that prints.
pub(crate) const MODES: [(&str, &[&str]); 5] = [
    ("command_consume", &[]),
    ("command_consume_partitions", &["--partitions", "8"]),
    ("command_consume_shared", &["--shared"]),
    ("command_consume_envelopes", &["--format", "envelope"]),
    ("command_consume_checkpoints", &["--checkpoint", "1000/200ms"]),
];

/// Builds the program from this workspace, with the profile of this program.
pub(crate) async fn build() -> anyhow::Result<PathBuf> {
    let here = env::current_exe()?;
    let folder = here.parent().context("this program is in no folder")?;
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--package", "headwater-cli", "--manifest-path"]);
    cargo.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    if let Some(target) = folder.parent() {
        cargo.arg("--target-dir").arg(target);
    }
    ensure!(cargo.status().await.context("failed to run cargo")?.success(), "failed to build the command");
    Ok(folder.join("headwater"))
}

/// Reads the last events of the log. With `consume`, consumes them instead: with a new subscriber,
/// in the given mode.
pub(crate) async fn run(
    command: &PathBuf,
    url: &str,
    head: u64,
    events: u64,
    consume: Option<(&str, &[&str])>,
) -> anyhow::Result<Sample> {
    let after = (head - events).to_string();
    let mut file = tempfile::tempfile()?;
    let mut command = Command::new(command);
    command.env("DATABASE_URL", url).env("RUST_LOG", "warn").stdout(file.try_clone()?).kill_on_drop(true);
    match consume {
        None => command.args(["read", "--namespace", NAMESPACE, "--json", "--after", &after]),
        Some((subscriber, mode)) => command
            .args(["consume", "--namespace", NAMESPACE, "--subscriber", subscriber, "--from", &after])
            .arg("--until-caught-up")
            .args(mode),
    };
    let started = Instant::now();
    ensure!(command.status().await?.success(), "the command failed");
    let elapsed = started.elapsed();
    ensure!(lines(&mut file)? == events, "{} of {events} events were written", lines(&mut file)?);
    Ok(Sample::new(events, elapsed, Vec::new()))
}

fn lines(file: &mut File) -> anyhow::Result<u64> {
    file.rewind()?;
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let mut lines = 0;
    loop {
        let chunk = reader.fill_buf()?;
        if chunk.is_empty() {
            return Ok(lines);
        }
        lines += chunk.iter().filter(|byte| **byte == b'\n').count() as u64;
        let read = chunk.len();
        reader.consume(read);
    }
}
