//! `headwater-bench torture`: runs producers, consumers in their own processes, and random faults.
//! Then it checks that everything adds up.
//!
//! The seed decides which faults happen and when, and what producers do. The machine decides the
//! rest, so a seed repeats a kind of run, not an exact run. When the time is over, faults and
//! producers stop, and consumers must handle everything within a time limit. Then `check` compares
//! the consumers' records with the log. Everything runs on the loopback interface. Only processes
//! that this program started are ended, by their ids.
//!
//! Faults by kind: `faults` (consumers, sessions, restarts), `failover`, `crash`, and `hostile`
//! with a file for each enemy.

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
/// The type of all events except the last.
const EVENT_TYPE: &str = "Tortured";

/// Options of `torture`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Prints one JSON object to stdout
    #[arg(long)]
    json: bool,
    /// Seconds for which events are produced and faults are made
    #[arg(long, default_value_t = 60, value_name = "N")]
    seconds: u64,
    /// Seed of the faults and of what producers do; a random one by default
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Keeps the consumers' records and logs in this folder; by default they are kept only after a
    /// violation or an error
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
    /// Makes no faults
    #[arg(long)]
    no_faults: bool,
    /// Source of the consumers' new events; by default wake-ups, and with --failover, --crash or
    /// --hostile one of each
    #[arg(long, value_enum)]
    live: Option<Source>,
    /// Kills the primary again and again, and lets its standby take over; synchronous and
    /// asynchronous replication in turn
    #[arg(long, group = "mode")]
    failover: bool,
    /// Kills backends and the postmaster with -9; synchronous_commit on and off in turn
    #[arg(long, group = "mode")]
    crash: bool,
    /// Attacks with strangers' locks, tenants that lock tables, clock steps, ends of months,
    /// prepared transactions over restarts, resizes with a held gap, and lost answers
    #[arg(long, group = "mode")]
    hostile: bool,
    /// Uses only synchronous replication, or synchronous_commit on: no acknowledged event may be
    /// lost
    #[arg(long)]
    safe: bool,
    /// Runs only these enemies; by default all
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
        // All is printed, and all processes are gone. Returning an error would only print it twice.
        std::process::exit(1);
    }
    Ok(())
}
