//! Targets, tables for people (stderr) and JSON for programs (stdout).

use std::collections::BTreeMap;

use serde::Serialize;

use crate::server::ServerSettings;
use crate::stats::{Sample, median};

/// The value that a ratio must reach.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Target {
    AtLeast(f64),
    AtMost(f64),
}

impl Target {
    fn is_met_by(self, value: f64) -> bool {
        match self {
            Target::AtLeast(least) => value >= least,
            Target::AtMost(most) => value <= most,
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Target::AtLeast(least) => write!(f, ">= {least}"),
            Target::AtMost(most) => write!(f, "<= {most}"),
        }
    }
}

/// One contender's medians over all rounds.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Figure {
    pub(crate) events_per_second: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) median_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) p99_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) wal_bytes_per_event: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) events_per_commit: Option<f64>,
    /// CPU time of the server per event, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) server_cpu_us_per_event: Option<f64>,
    /// CPU time of this program per event, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client_cpu_us_per_event: Option<f64>,
    /// Rows that the server read from the log's tables, per event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rows_read_per_event: Option<f64>,
    /// Events per second, round by round.
    pub(crate) rounds: Vec<f64>,
}

impl Figure {
    pub(crate) fn of(samples: &[Sample]) -> Self {
        let over = |value: &dyn Fn(&Sample) -> Option<f64>| median(samples.iter().filter_map(value));
        Figure {
            events_per_second: over(&|sample| Some(sample.rate())).unwrap_or_default(),
            median_ms: over(&|sample| sample.latency(0.5)),
            p99_ms: over(&|sample| sample.latency(0.99)),
            wal_bytes_per_event: over(&|sample| sample.wal_bytes_per_event()),
            events_per_commit: over(&|sample| sample.events_per_commit),
            server_cpu_us_per_event: over(&|sample| sample.cpu_us_per_event(|cpu| cpu.server)),
            client_cpu_us_per_event: over(&|sample| sample.cpu_us_per_event(|cpu| cpu.client)),
            rows_read_per_event: over(&|sample| sample.rows_read_per_event()),
            rounds: samples.iter().map(Sample::rate).collect(),
        }
    }
}

/// The results of one run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    ratios: BTreeMap<&'static str, f64>,
    figures: BTreeMap<&'static str, Figure>,
    targets: BTreeMap<&'static str, Target>,
    server: ServerSettings,
    /// The order of the ratios in the table.
    #[serde(skip)]
    order: Vec<&'static str>,
}

impl Report {
    pub(crate) fn new(server: ServerSettings, figures: impl IntoIterator<Item = (&'static str, Figure)>) -> Self {
        Report {
            ratios: BTreeMap::new(),
            figures: figures.into_iter().collect(),
            targets: BTreeMap::new(),
            server,
            order: Vec::new(),
        }
    }

    /// Returns the figure of a contender, if the contender ran.
    pub(crate) fn figure(&self, name: &str) -> Option<&Figure> {
        self.figures.get(name)
    }

    /// Adds a ratio. `None` means that a contender it needs did not run.
    pub(crate) fn ratio(&mut self, name: &'static str, value: Option<f64>, target: Target) {
        if let Some(value) = value {
            self.ratios.insert(name, value);
            self.targets.insert(name, target);
            self.order.push(name);
        }
    }

    /// Prints tables to stderr and, with `json`, the report to stdout.
    pub(crate) fn print(&self, json: bool) -> anyhow::Result<()> {
        self.print_figures();
        self.print_ratios();
        if json {
            println!("{}", serde_json::to_string(self)?);
        }
        Ok(())
    }

    fn print_figures(&self) {
        eprintln!(
            "\n{:<30} {:>10} {:>10} {:>10} {:>11} {:>13} {:>15} {:>15} {:>10}",
            "medians of all rounds",
            "events/s",
            "median ms",
            "p99 ms",
            "WAL B/event",
            "events/commit",
            "server us/event",
            "client us/event",
            "rows/event"
        );
        for (name, figure) in &self.figures {
            let or_dash = |value: Option<f64>, digits: usize| match value {
                Some(value) => format!("{value:.digits$}"),
                None => "-".into(),
            };
            eprintln!(
                "{name:<30} {:>10.0} {:>10} {:>10} {:>11} {:>13} {:>15} {:>15} {:>10}",
                figure.events_per_second,
                or_dash(figure.median_ms, 3),
                or_dash(figure.p99_ms, 3),
                or_dash(figure.wal_bytes_per_event, 0),
                or_dash(figure.events_per_commit, 1),
                or_dash(figure.server_cpu_us_per_event, 1),
                or_dash(figure.client_cpu_us_per_event, 1),
                or_dash(figure.rows_read_per_event, 2),
            );
        }
    }

    fn print_ratios(&self) {
        eprintln!("\n{:<34} {:>8} {:>9}", "ratio", "reached", "target");
        for name in &self.order {
            let (value, target) = (self.ratios[name], self.targets[name]);
            let verdict = if target.is_met_by(value) { "ok" } else { "MISS" };
            eprintln!("{name:<34} {value:>8.2} {:>9}  {verdict}", target.to_string());
        }
    }
}
