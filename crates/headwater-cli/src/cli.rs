//! The command line: what can be typed.

use clap::{Parser, Subcommand};

use crate::commands::{
    append, audit, consume, dead_letters, emit, groups, lag, migrate, namespace, read, status, subscribers, up,
};
use crate::connection::{ConnectionArgs, GLOBAL};
use crate::logging;

const AFTER_HELP: &str = "\
Exit codes:
    0  done
    1  unexpected failure
    2  usage or invalid input
    3  the database cannot be reached
    4  not found: the namespace, the event, the subscriber, the dead letter
    5  conflict: the stream is not at the version expected; the subscriber is in use, or no group
    6  the database's schema is not migrated, or too new
    7  the audit found something, or a dead letter failed again
  130  interrupted

First steps:
  headwater up                                         a PostgreSQL of your own, in this terminal
  headwater namespace create shop                      in another one: a namespace, then
  headwater emit --namespace shop OrderPlaced '{\"total\": 5}'
  headwater read --namespace shop
  headwater consume --namespace shop --subscriber mailer";

/// An event store, event bus, work queue and scheduler on the PostgreSQL you already run.
#[derive(Debug, Parser)]
#[command(name = "headwater", version, after_help = AFTER_HELP, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,

    /// What to log on stderr: error, warn, info, debug, trace, or a filter as headwater_postgres=debug
    #[arg(long, global = true, env = "RUST_LOG", default_value = logging::DEFAULT, value_name = "FILTER")]
    #[arg(help_heading = GLOBAL, hide_env_values = true)]
    pub(crate) log: String,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Up(up::Up),
    Migrate(migrate::Migrate),
    Status(status::Status),
    #[command(subcommand)]
    Namespace(namespace::Namespace),
    Emit(emit::Emit),
    Append(append::Append),
    Read(read::Read),
    Consume(consume::Consume),
    #[command(subcommand)]
    Subscribers(subscribers::Subscribers),
    #[command(subcommand)]
    Groups(groups::Groups),
    Lag(lag::Lag),
    #[command(subcommand)]
    DeadLetters(dead_letters::DeadLetters),
    Audit(audit::Audit),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
