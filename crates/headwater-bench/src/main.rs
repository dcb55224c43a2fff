//! Benchmarks of Headwater against baselines, which run in the same process, on the same server, in turn.
//!
//! Each command starts a durable server of its own in a temporary folder. `append`, `read`, `catch-up`, `latency`, `cdc`, `fanout`, `groups`, `queue`, `nodes`, `schedules`, `idle`, `partitions`, `sql` and `tenants`
//! print tables to stderr and, with `--json`, one JSON object to stdout. A missed target is printed, not an error:
//! ratios are for people, and machines are noisy. `torture` measures nothing: it fails if a law is broken.

// Numbers in benchmarks are small.
#![allow(clippy::cast_possible_wrap, clippy::cast_sign_loss)]

mod append;
mod catch_up;
mod cdc;
mod command;
mod contenders;
mod cpu;
mod drive;
mod fanout;
mod groups;
mod handlers;
mod holes;
mod idle;
mod latency;
mod memory;
mod nodes;
mod partitions;
mod payload;
mod queue;
mod read;
mod report;
mod rollbacks;
mod schedules;
mod server;
mod sql;
mod sql_ordered;
mod stats;
mod tenants;
mod torture;

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
    /// Subscribers with a backlog, against a bare SELECT and pgmq
    CatchUp(catch_up::Options),
    /// From a commit to a handler in another process, against NOTIFY and a poller; and failover
    Latency(latency::Options),
    /// Events from the WAL, against NOTIFY and a poller
    Cdc(cdc::Options),
    /// What many subscribers of a node read, against one
    Fanout(fanout::Options),
    /// A partitioned subscriber over several processes, against an exclusive one; and rebalancing
    Groups(groups::Options),
    /// Workers that share a queue, against pgmq
    Queue(queue::Options),
    /// Messages from emit to a handler by event type, against a loop on pgmq
    Nodes(nodes::Options),
    /// How late schedules are fired that are all due at once
    Schedules(schedules::Options),
    /// What an idle node asks of the server
    Idle(idle::Options),
    /// The tail of a log with 60 months, against one with one
    Partitions(partitions::Options),
    /// A namespace among ten thousand, and one with 60 months, against one that is alone
    Tenants(tenants::Options),
    /// Appends, large transactions and ordered consuming by SQL, against a plain INSERT, small ones and Rust
    Sql(sql::Options),
    /// Producers, consumers and faults at random; then everything must add up
    Torture(torture::Options),
    /// A consumer of the torture
    #[command(hide = true)]
    TortureConsumer(torture::consumer::Options),
    /// Catches up and says how much memory that took
    #[command(hide = true)]
    CatchUpChild(catch_up::ChildOptions),
    /// Waits for events and says when each came
    #[command(hide = true)]
    LatencyChild(latency::ChildOptions),
    /// Handles events of a group
    #[command(hide = true)]
    GroupsChild(groups::ChildOptions),
    /// Reads the log once and says how much memory that took
    #[command(hide = true)]
    ReadChild(memory::Options),
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Append(options) => append::run(options).await,
        Command::Read(options) => read::run(options).await,
        Command::CatchUp(options) => catch_up::run(options).await,
        Command::CatchUpChild(options) => catch_up::run_child(options).await,
        Command::Latency(options) => latency::run(options).await,
        Command::LatencyChild(options) => latency::run_child(options).await,
        Command::Cdc(options) => cdc::run(options).await,
        Command::Fanout(options) => fanout::run(options).await,
        Command::Groups(options) => groups::run(options).await,
        Command::GroupsChild(options) => groups::run_child(options).await,
        Command::Queue(options) => queue::run(options).await,
        Command::Nodes(options) => nodes::run(options).await,
        Command::Schedules(options) => schedules::run(options).await,
        Command::Idle(options) => idle::run(options).await,
        Command::Partitions(options) => partitions::run(options).await,
        Command::Tenants(options) => tenants::run(options).await,
        Command::Sql(options) => sql::run(options).await,
        Command::Torture(options) => torture::run(options).await,
        Command::TortureConsumer(options) => torture::consumer::run(options).await,
        Command::ReadChild(options) => memory::run(options).await,
    }
}
