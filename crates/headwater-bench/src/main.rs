//! Benchmarks of Headwater against baselines, which run in the same process, on the same server, in
//! turn.
//!
//! Each command starts its own durable server in a temporary folder. `append`, `read`, `catch-up`,
//! `latency`, `cdc`, `fanout`, `groups`, `queue`, `nodes`, `schedules`, `idle`, `partitions`, `sql`
//! and `tenants` print tables to stderr and, with `--json`, one JSON object to stdout. A missed
//! target is printed and is not an error: ratios are for people, and machines are noisy. `torture`
//! measures nothing: it fails if a law is broken.

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
    /// Measures appends against pgmq, a NOTIFY trigger, a counter row and bare INSERTs
    Append(append::Options),
    /// Measures reads of the log against a bare SELECT
    Read(read::Options),
    /// Measures subscribers with a backlog against a bare SELECT and pgmq
    CatchUp(catch_up::Options),
    /// Measures the time from a commit to a handler in another process, against NOTIFY and a
    /// poller; and failover
    Latency(latency::Options),
    /// Measures events from the WAL against NOTIFY and a poller
    Cdc(cdc::Options),
    /// Measures what many subscribers of a node read, against one subscriber
    Fanout(fanout::Options),
    /// Measures a partitioned subscriber over several processes against an exclusive one; and
    /// rebalancing
    Groups(groups::Options),
    /// Measures workers that share a queue, against pgmq
    Queue(queue::Options),
    /// Measures messages from emit to a handler by event type, against a loop on pgmq
    Nodes(nodes::Options),
    /// Measures how late schedules fire when all are due at the same time
    Schedules(schedules::Options),
    /// Measures what an idle node asks the server
    Idle(idle::Options),
    /// Measures the tail of a log with 60 months against a log with one
    Partitions(partitions::Options),
    /// Measures a namespace among ten thousand, or with 60 past months, against a namespace alone,
    /// or with two past months
    Tenants(tenants::Options),
    /// Measures appends, large transactions and ordered consuming by SQL, against a plain INSERT,
    /// small transactions and Rust
    Sql(sql::Options),
    /// Runs producers, consumers and random faults; then checks that nothing was lost, reordered or
    /// duplicated
    Torture(torture::Options),
    /// Runs one consumer of the torture
    #[command(hide = true)]
    TortureConsumer(torture::consumer::Options),
    /// Catches up and prints how much memory that took
    #[command(hide = true)]
    CatchUpChild(catch_up::ChildOptions),
    /// Waits for events and prints when each event came
    #[command(hide = true)]
    LatencyChild(latency::ChildOptions),
    /// Handles events of a group
    #[command(hide = true)]
    GroupsChild(groups::ChildOptions),
    /// Reads the log once and prints how much memory that took
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
