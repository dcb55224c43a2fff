//! `headwater-bench torture`: producers, consumers in processes of their own, faults at random; then everything must add up.
//!
//! The seed decides what the faults are, when they come and what producers do; the machine decides the rest, so a seed repeats a kind of run,
//! not a run. After the time, faults and producers stop, everything must drain within a bound, and `check` compares what the consumers wrote
//! down with the log. Everything is on the loopback; only processes that this program started are ended, by their ids.
//!
//! Faults by kind: `faults` (consumers, sessions, restarts), `failover`, `crash`, and `hostile` with a file for each enemy.

mod arena;
mod check;
pub(crate) mod consumer;
mod crash;
mod failover;
mod faults;
mod hostile;
mod line;
mod live;
mod losses;
mod mode;
mod outcome;
mod processes;
mod producers;
mod proxy;
mod subscribers;
mod verdict;

use std::path::PathBuf;

use clap::Args;

use self::arena::Arena;
use self::hostile::Enemy;
pub(crate) use self::line::now_ns;
use self::live::Source;
use self::mode::Mode;

const NAMESPACE: &str = "torture";
/// The type of all events but the last.
const EVENT_TYPE: &str = "Tortured";

/// Options of `torture`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Prints one JSON object to stdout
    #[arg(long)]
    json: bool,
    /// How long events are produced and faults are made
    #[arg(long, default_value_t = 60, value_name = "N")]
    seconds: u64,
    /// What decides the faults
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Keeps the consumers' lines and logs here; without it they are kept only if something is wrong
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
    /// Makes no faults
    #[arg(long)]
    no_faults: bool,
    /// Where the consumers' new events come from; without it wake-ups, and with --failover, --crash or --hostile one of each
    #[arg(long, value_enum)]
    live: Option<Source>,
    /// Kills the primary again and again, and lets its standby take over: in turn with synchronous and with asynchronous replication
    #[arg(long, group = "mode")]
    failover: bool,
    /// Kills backends and the postmaster with -9: in turn with synchronous_commit on and off
    #[arg(long, group = "mode")]
    crash: bool,
    /// Strangers' locks, tenants that lock tables, clock steps, months that end, prepared transactions over restarts, resizes with a
    /// held gap, lost answers
    #[arg(long, group = "mode")]
    hostile: bool,
    /// Only with synchronous replication, or synchronous_commit on: nothing that was acknowledged is lost
    #[arg(long)]
    safe: bool,
    /// Only these enemies; without it, all
    #[arg(long, value_enum, value_delimiter = ',', requires = "hostile", value_name = "ENEMY")]
    only: Vec<Enemy>,
}

impl Options {
    fn mode(&self) -> Mode {
        match (self.failover, self.crash, self.hostile) {
            (true, ..) => Mode::Failover,
            (_, true, _) => Mode::Crash,
            (.., true) => Mode::Hostile,
            _ => Mode::Plain,
        }
    }
}

pub(crate) async fn run(options: Options) -> anyhow::Result<()> {
    let (seed, mode) = (options.seed.unwrap_or_else(rand::random), options.mode());
    eprintln!("seed {seed}, {} seconds, {}", options.seconds, mode.name());
    let temporary = tempfile::Builder::new().prefix("headwater-torture-").tempdir()?;
    let folder = match &options.keep {
        Some(folder) => folder.clone(),
        None => temporary.path().to_owned(),
    };
    std::fs::create_dir_all(&folder)?;

    let arena = Arena::prepare(seed, mode, folder.clone(), &options).await?;
    let outcome = arena.go(!options.no_faults).await;
    if (outcome.is_err() || outcome.as_ref().is_ok_and(|outcome| !outcome.violations.is_empty()))
        && options.keep.is_none()
    {
        eprintln!("lines and logs of the consumers are kept in {}", temporary.keep().display());
    }
    let outcome = outcome?;
    outcome.print();
    if options.json {
        println!("{}", serde_json::to_string(&outcome)?);
    }
    if !outcome.violations.is_empty() {
        // Everything is told, and what was started is gone: no error to tell once more.
        std::process::exit(1);
    }
    Ok(())
}
