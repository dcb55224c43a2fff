//! Runs the real binary.

mod consumer;

use std::io::Write;
use std::process::{Child, Command, Output, Stdio};

pub(crate) use consumer::Consumer;
use headwater_testing::TestDatabase;
use serde_json::Value;

pub(crate) const HEADWATER: &str = env!("CARGO_BIN_EXE_headwater");

/// The command, with nothing of the tester's own settings.
pub(crate) fn command() -> Command {
    let mut command = Command::new(HEADWATER);
    for name in ["DATABASE_URL", "RUST_LOG", "HEADWATER_DATA"] {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

/// What a run of the command said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert_eq!(self.code, Some(0), "{self:#?}");
        self
    }

    /// Checks the exit code and that stderr holds what it should.
    #[track_caller]
    pub(crate) fn fails(self, code: i32, saying: &str) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        assert!(self.err.starts_with("error: ") || self.err.contains("\nerror: "), "{self:#?}");
        assert!(self.err.contains(saying), "expected {saying:?} in {self:#?}");
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }

    #[track_caller]
    pub(crate) fn json_lines(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        Said {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// A database of the test's own, and the command that works on it.
pub(crate) struct Cli {
    pub(crate) db: TestDatabase,
}

impl Cli {
    pub(crate) async fn new() -> Self {
        Cli { db: TestDatabase::create().await }
    }

    /// With the namespace `shop`.
    pub(crate) async fn with_shop() -> Self {
        let cli = Cli::new().await;
        cli.run(["namespace", "create", "shop"]).ok();
        cli
    }

    pub(crate) fn command<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = command();
        command.env("DATABASE_URL", &self.db.url).args(args);
        command
    }

    pub(crate) fn run<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Said {
        self.command(args).output().unwrap().into()
    }

    /// Runs with standard input.
    pub(crate) fn feed<'a>(&self, args: impl IntoIterator<Item = &'a str>, input: &str) -> Said {
        let mut child = self.spawn(args);
        // A command that fails early does not read it all.
        _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        child.wait_with_output().unwrap().into()
    }

    pub(crate) fn spawn<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Child {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// The log of `shop`, as types and data.
    #[track_caller]
    pub(crate) fn shop(&self) -> Vec<(String, Value)> {
        let lines = self.run(["read", "-n", "shop", "--json"]).ok().json_lines();
        lines.into_iter().map(|line| (line["event_type"].as_str().unwrap().into(), line["data"].clone())).collect()
    }

    /// Appends so many events to `shop`, with their sequences as data.
    #[track_caller]
    pub(crate) fn emit(&self, sequences: std::ops::RangeInclusive<u64>) {
        let lines: String = sequences.map(|n| format!("{{\"type\": \"A\", \"data\": {n}}}\n")).collect();
        self.feed(["append", "-n", "shop", "--file", "-"], &lines).ok();
    }

    /// Appends so many more events to `shop`, of keys in turn.
    #[track_caller]
    pub(crate) fn emit_keyed(&self, events: u64, keys: u64) {
        let line = |n: u64| format!("{{\"type\": \"A\", \"key\": \"key-{}\", \"data\": {n}}}\n", n % keys);
        let lines: String = (0..events).map(line).collect();
        self.feed(["append", "-n", "shop", "--file", "-"], &lines).ok();
    }

    /// A running `consume` of `shop`.
    pub(crate) fn consume(&self, subscriber: &str, args: &[&str]) -> Consumer {
        let all = ["consume", "-n", "shop", "-s", subscriber].into_iter().chain(args.iter().copied());
        Consumer::start(self.command(all))
    }

    /// A `consume` of `shop` that ends by itself.
    pub(crate) fn consume_all(&self, subscriber: &str, args: &[&str]) -> Said {
        let all =
            ["consume", "-n", "shop", "-s", subscriber, "--until-caught-up"].into_iter().chain(args.iter().copied());
        self.run(all)
    }

    /// A subscriber of `shop`.
    #[track_caller]
    pub(crate) fn show(&self, subscriber: &str) -> Value {
        self.run(["subscribers", "show", "-n", "shop", subscriber, "--json"]).ok().json()
    }

    /// Shows a subscriber again and again, until it is there and as expected.
    #[track_caller]
    pub(crate) fn show_until(&self, subscriber: &str, as_expected: impl Fn(&Value) -> bool) -> Value {
        let begin = std::time::Instant::now();
        loop {
            let said = self.run(["subscribers", "show", "-n", "shop", subscriber, "--json"]);
            if said.code == Some(0) && as_expected(&said.json()) {
                return said.json();
            }
            assert!(begin.elapsed().as_secs() < 30, "{said:#?}");
        }
    }

    /// Shows a group again and again, until it is there and as expected.
    #[track_caller]
    pub(crate) fn group_until(&self, subscriber: &str, as_expected: impl Fn(&Value) -> bool) -> Value {
        let begin = std::time::Instant::now();
        loop {
            let said = self.run(["groups", "show", "-n", "shop", subscriber, "--json"]);
            if said.code == Some(0) && as_expected(&said.json()) {
                return said.json();
            }
            assert!(begin.elapsed().as_secs() < 30, "{said:#?}");
        }
    }

    /// The open dead letters of `shop`.
    #[track_caller]
    pub(crate) fn letters(&self) -> Vec<Value> {
        self.run(["dead-letters", "list", "-n", "shop", "--json"]).ok().json_lines()
    }
}
