//! The command line: what can be typed.

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
    4  not found: the namespace, the event, the subscriber, the dead letter, the node, the schedule
    5  conflict: the stream is not at the version expected; the subscriber is in use, or no group; the node is alive
    6  the database's schema is not migrated, or too new
    7  the audit or the doctor found something, a dead letter failed again, or a due event could not be appended
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

    /// What stands in blocks of shell in the README and in the guides can be typed.
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
            // A file has what is required.
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

    /// The words of a command, as a shell takes them, up to where something else begins.
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
