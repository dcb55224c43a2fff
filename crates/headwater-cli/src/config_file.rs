//! `consume --config`: options from a file, as if they had been typed.
//!
//! Options on the command line and in environment variables take precedence over the file.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory};
use toml::{Table, Value};

use crate::cli::Cli;
use crate::failure::Failure;

const COMMAND: &str = "consume";
/// The option that names the file.
const CONFIG: &str = "config";
/// Options that must not be in the file.
const NOT_IN_FILES: [&str; 3] = [CONFIG, "help", "version"];

/// Returns the command line, followed by the options from its file.
pub(crate) fn with_file(typed: Vec<OsString>) -> Result<Vec<OsString>, Failure> {
    // Required options may be missing here: they may be in the file.
    let lenient = Cli::command().ignore_errors(true).try_get_matches_from(&typed);
    let Some(matches) = lenient.as_ref().ok().and_then(|matches| matches.subcommand_matches(COMMAND)) else {
        return Ok(typed);
    };
    let Ok(Some(path)) = matches.try_get_one::<PathBuf>(CONFIG) else { return Ok(typed) };
    let from_file = read(path, matches)?;
    Ok(typed.into_iter().chain(from_file.into_iter().map(OsString::from)).collect())
}

fn read(path: &Path, typed: &ArgMatches) -> Result<Vec<String>, Failure> {
    let name = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::invalid(format!("failed to read the configuration {name}: {error}")))?;
    let table: Table = text.parse().map_err(|error| {
        Failure::invalid(format!("{name} is not valid TOML: {error}"))
            .help("write each option by its name, for example lease = \"10s\"")
    })?;
    let mut command = Cli::command();
    command.build();
    let options = command.find_subcommand(COMMAND).expect("consume is one of our commands");
    let mut words = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for (key, value) in &table {
        let wrong = |what: String| Failure::invalid(format!("{name}: {what}"));
        let option = option(options, key).ok_or_else(|| {
            let known = options.get_arguments().filter_map(may_be_in_file).collect::<Vec<_>>().join(", ");
            wrong(format!("there is no key {key:?}")).help(format!("keys are {known}"))
        })?;
        let long = may_be_in_file(option).expect("the option was found by its name");
        if seen.contains(&long) {
            return Err(wrong(format!("key {key:?} is given twice")));
        }
        seen.push(long);
        let said =
            said(option, value).map_err(|expected| wrong(format!("invalid value of key {key:?}: {expected}")))?;
        check(&said).map_err(|error| wrong(format!("invalid value of key {key:?}: {error}")))?;
        let source = typed.value_source(option.get_id().as_str());
        if !matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable)) {
            words.extend(said);
        }
    }
    Ok(words)
}

/// Returns an option's name if the option may be in a file.
fn may_be_in_file(option: &Arg) -> Option<&str> {
    option.get_long().filter(|long| !NOT_IN_FILES.contains(long))
}

/// Returns the option that a key names. A key may be written with - or _.
fn option<'c>(options: &'c Command, key: &str) -> Option<&'c Arg> {
    let name = key.replace('_', "-");
    options.get_arguments().find(|option| may_be_in_file(option) == Some(name.as_str()))
}

/// Returns the words that set this value on the command line.
fn said(option: &Arg, value: &Value) -> Result<Vec<String>, &'static str> {
    let long = option.get_long().unwrap_or_default();
    let with = |value: &Value| -> Result<String, &'static str> {
        match value {
            Value::String(text) => Ok(format!("--{long}={text}")),
            Value::Integer(number) => Ok(format!("--{long}={number}")),
            Value::Float(number) => Ok(format!("--{long}={number}")),
            Value::Datetime(time) => Ok(format!("--{long}={time}")),
            Value::Boolean(_) | Value::Array(_) | Value::Table(_) => Err("it is a text or a number"),
        }
    };
    match (option.get_action(), value) {
        (ArgAction::SetTrue, Value::Boolean(true)) => Ok(vec![format!("--{long}")]),
        (ArgAction::SetTrue, Value::Boolean(false)) => Ok(Vec::new()),
        (ArgAction::SetTrue, _) => Err("it is true or false"),
        (ArgAction::Append, Value::Array(values)) => values.iter().map(with).collect(),
        (_, value) => Ok(vec![with(value)?]),
    }
}

/// Checks the values of one option. Whether options conflict is checked later, with all of them.
fn check(said: &[String]) -> Result<(), String> {
    let required = ["headwater", COMMAND, "--namespace=n", "--subscriber=s"].map(String::from);
    let others = required.into_iter().filter(|word| !said.iter().any(|said| same_option(said, word)));
    let parsed = Cli::command().try_get_matches_from(others.chain(said.iter().cloned()));
    match parsed {
        Err(error) if matches!(error.kind(), ErrorKind::InvalidValue | ErrorKind::ValueValidation) => {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            Err(first.strip_prefix("error: ").unwrap_or(first).to_owned())
        }
        _ => Ok(()),
    }
}

fn same_option(one: &str, other: &str) -> bool {
    let name = |word: &str| word.split('=').next().map(str::to_owned);
    name(one) == name(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the words that this file adds to the command line.
    fn with(typed: &[&str], file: &str) -> Result<Vec<String>, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("headwater.toml");
        std::fs::write(&path, file).unwrap();
        let config = format!("--config={}", path.display());
        let words = ["headwater", "consume"].into_iter().chain(typed.iter().copied()).chain([config.as_str()]);
        let before = typed.len() + 3;
        match with_file(words.map(OsString::from).collect()) {
            Ok(words) => Ok(words.into_iter().skip(before).map(|word| word.into_string().unwrap()).collect()),
            Err(failure) => Err(failure.message().replace(&path.display().to_string(), "headwater.toml")),
        }
    }

    #[test]
    fn options_are_as_if_they_were_typed() {
        let file = r#"
            namespace = "shop"
            batch_size = 50
            shared = true
            until-caught-up = false
            event-type = ["A", "B"]
            rate = 2.5
            "#;
        let mut words = with(&["-s", "m"], file).unwrap();
        words.sort();
        assert_eq!(
            words,
            ["--batch-size=50", "--event-type=A", "--event-type=B", "--namespace=shop", "--rate=2.5", "--shared"]
        );
        assert_eq!(
            with(&["-n", "bank", "--rate", "1"], "namespace = \"shop\"\nrate = 2").unwrap(),
            [""; 0],
            "what is typed wins"
        );
        assert_eq!(with(&[], "from = 2026-01-01T00:00:00Z").unwrap(), ["--from=2026-01-01T00:00:00Z"]);
    }

    #[test]
    fn mistakes_name_their_key() {
        let cases = [
            ("leese = '10s'", "headwater.toml: there is no key \"leese\""),
            ("config = 'x'", "there is no key \"config\""),
            ("[consume]\nlease = '10s'", "there is no key \"consume\""),
            ("lease = 'soon'", "invalid value of key \"lease\": invalid value 'soon' for '--lease <DURATION>'"),
            ("lease = ['1s', '2s']", "invalid value of key \"lease\": it is a text or a number"),
            ("shared = 'yes'", "invalid value of key \"shared\": it is true or false"),
            ("namespace = true", "invalid value of key \"namespace\": it is a text or a number"),
            ("live = 'sometimes'", "invalid value of key \"live\""),
            ("batch-size = 1\nbatch_size = 2", "key \"batch_size\" is given twice"),
            ("lease = ", "headwater.toml is not valid TOML"),
        ];
        for (file, expected) in cases {
            let said = with(&[], file).unwrap_err();
            assert!(said.contains(expected), "{file}: {said}");
        }
    }
}
