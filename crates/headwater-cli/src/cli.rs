//! The command line: its commands and global options.

use clap::{Parser, Subcommand};

use crate::commands::{
    append, audit, cdc, consume, dead_letters, doctor, due, emit, grant, grants, groups, import, lag, migrate, months,
    namespace, nodes, queue, read, revoke, schedules, states, status, subscribers,
};
use crate::connection::{ConnectionArgs, GLOBAL};
use crate::logging;

const AFTER_HELP: &str = "\
Exit codes:
    0  done
    1  unexpected failure
    2  usage or invalid input
    3  the database cannot be reached
    4  not found: a namespace, event, subscriber, dead letter, node or schedule
    5  conflict: the stream has another version; the subscriber is in use or has another mode;
       the node is alive; somebody else holds what the command needs
    6  the database's schema is not migrated, or is too new
    7  the audit or the doctor found something, a dead letter failed again, or a due event could
       not be appended
  130  interrupted

First steps:
  headwater up                                         starts a PostgreSQL in this terminal
  headwater namespace create shop                      in a second terminal: creates a namespace
  headwater emit --namespace shop OrderPlaced '{\"total\": 5}'
  headwater read --namespace shop
  headwater consume --namespace shop --subscriber mailer";

/// An event store, event bus, work queue and scheduler on the PostgreSQL you already run.
#[derive(Debug, Parser)]
#[command(name = "headwater", version, after_help = AFTER_HELP, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,

    /// What to log on stderr: error, warn, info, debug, trace, or a filter such as
    /// headwater_postgres=debug
    #[arg(long, global = true, env = "RUST_LOG", default_value = logging::DEFAULT, value_name = "FILTER")]
    #[arg(help_heading = GLOBAL, hide_env_values = true)]
    pub(crate) log: String,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[cfg(feature = "up")]
    Up(crate::commands::up::Up),
    Migrate(migrate::Migrate),
    Status(status::Status),
    #[command(subcommand)]
    Namespace(namespace::Namespace),
    Emit(emit::Emit),
    #[command(subcommand)]
    Due(due::Due),
    #[command(subcommand)]
    Schedules(schedules::Schedules),
    Append(append::Append),
    Import(Box<import::Import>),
    Read(read::Read),
    Consume(Box<consume::Consume>),
    #[command(subcommand)]
    Subscribers(subscribers::Subscribers),
    #[command(subcommand)]
    Groups(groups::Groups),
    Queue(queue::Queue),
    #[command(subcommand)]
    Nodes(nodes::Nodes),
    Lag(lag::Lag),
    #[command(subcommand)]
    DeadLetters(dead_letters::DeadLetters),
    #[command(subcommand)]
    States(states::States),
    #[command(subcommand)]
    Months(months::Months),
    Audit(audit::Audit),
    #[command(subcommand)]
    Cdc(cdc::Cdc),
    Doctor(doctor::Doctor),
    Grant(grant::Grant),
    Revoke(revoke::Revoke),
    Grants(grants::Grants),
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use clap::{CommandFactory, Parser};

    use super::Cli;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// Every command in a shell block of the README, the guides and the error pages is valid.
    #[test]
    fn documented_commands_are_understood() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut pages = vec![root.join("README.md")];
        for folder in ["docs/guides", "docs/errors"] {
            let entries = std::fs::read_dir(root.join(folder)).unwrap();
            pages.extend(entries.map(|entry| entry.unwrap().path()));
        }
        let commands: Vec<_> = pages.iter().flat_map(commands_of).collect();
        assert!(commands.len() > 20, "{commands:#?}");
        for (page, command) in commands {
            let mut words = words(&command);
            // The required options may be in the file.
            if words.iter().any(|word| word == "--config") {
                words.extend(["--namespace=shop", "--subscriber=mailer"].map(String::from));
            }
            if let Err(error) = Cli::try_parse_from(words) {
                panic!("{}: {command}\n{error}", page.display());
            }
        }
    }

    fn commands_of(page: &PathBuf) -> Vec<(PathBuf, String)> {
        let text = std::fs::read_to_string(page).unwrap().replace("\\\n", " ");
        let blocks = text.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
        let lines = blocks.flat_map(str::lines).filter(|line| line.starts_with("headwater "));
        lines.map(|line| (page.clone(), line.to_owned())).collect()
    }

    /// Splits a command into words as a shell does, up to a comment, a pipe or a redirection.
    fn words(line: &str) -> Vec<String> {
        let mut words = vec![String::new()];
        let mut quote = None;
        for c in line.chars() {
            let word = words.last_mut().expect("there is always one");
            match quote {
                Some(open) if c == open => quote = None,
                Some(_) => word.push(c),
                None if c == '\'' || c == '"' => quote = Some(c),
                None if c == ' ' && !word.is_empty() => words.push(String::new()),
                None if c == ' ' => {}
                None if "#|;>&".contains(c) && word.is_empty() => break,
                None => word.push(c),
            }
        }
        words.retain(|word| !word.is_empty());
        words
    }
}
