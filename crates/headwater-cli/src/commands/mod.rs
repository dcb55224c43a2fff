//! The commands: one file or folder each.

pub(crate) mod append;
pub(crate) mod audit;
pub(crate) mod cdc;
pub(crate) mod consume;
pub(crate) mod dead_letters;
pub(crate) mod doctor;
pub(crate) mod due;
pub(crate) mod emit;
pub(crate) mod grant;
pub(crate) mod grants;
pub(crate) mod groups;
pub(crate) mod import;
pub(crate) mod lag;
pub(crate) mod migrate;
pub(crate) mod months;
pub(crate) mod namespace;
pub(crate) mod nodes;
pub(crate) mod queue;
pub(crate) mod read;
pub(crate) mod revoke;
pub(crate) mod schedules;
pub(crate) mod states;
pub(crate) mod status;
pub(crate) mod subscribers;
#[cfg(feature = "up")]
pub(crate) mod up;

use crate::cli::{Cli, Command};
use crate::failure::Failure;

/// Runs the command that was typed.
pub(crate) async fn run(cli: Cli) -> Result<(), Failure> {
    let connection = cli.connection;
    match cli.command {
        // These commands have work to finish when they are interrupted.
        #[cfg(feature = "up")]
        Command::Up(up) => up.run(&connection).await,
        Command::Append(append) => append.run(&connection).await,
        Command::Consume(consume) => consume.run(&connection).await,
        Command::Read(read) if read.follow => read.follow(&connection).await,
        Command::Migrate(migrate) => interruptible(migrate.run(&connection)).await,
        Command::Status(status) => interruptible(status.run(&connection)).await,
        Command::Namespace(namespace) => interruptible(namespace.run(&connection)).await,
        Command::Emit(emit) => interruptible(emit.run(&connection)).await,
        Command::Due(due) => interruptible(due.run(&connection)).await,
        Command::Schedules(schedules) => interruptible(schedules.run(&connection)).await,
        Command::Import(import) => interruptible(import.run(&connection)).await,
        Command::Read(read) => interruptible(read.run(&connection)).await,
        Command::Subscribers(subscribers) => interruptible(subscribers.run(&connection)).await,
        Command::Groups(groups) => interruptible(groups.run(&connection)).await,
        Command::Queue(queue) => interruptible(queue.run(&connection)).await,
        Command::Nodes(nodes) => interruptible(nodes.run(&connection)).await,
        Command::Lag(lag) => interruptible(lag.run(&connection)).await,
        Command::DeadLetters(letters) => interruptible(letters.run(&connection)).await,
        Command::Months(months) => interruptible(months.run(&connection)).await,
        Command::States(states) => interruptible(states.run(&connection)).await,
        Command::Doctor(doctor) => interruptible(doctor.run(&connection)).await,
        Command::Audit(audit) => interruptible(audit.run(&connection)).await,
        Command::Cdc(cdc) => interruptible(cdc.run(&connection)).await,
        Command::Grant(grant) => interruptible(grant.run(&connection)).await,
        Command::Revoke(revoke) => interruptible(revoke.run(&connection)).await,
        Command::Grants(grants) => interruptible(grants.run(&connection)).await,
    }
}

/// Runs a command. Ctrl-C ends it at once, with the exit code for an interruption.
async fn interruptible(command: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    tokio::select! {
        outcome = command => outcome,
        _ = tokio::signal::ctrl_c() => Err(Failure::interrupted()),
    }
}
