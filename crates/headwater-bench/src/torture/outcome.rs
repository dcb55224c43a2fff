//! The result of a run, for people and as JSON.

use std::collections::BTreeMap;

use serde::Serialize;

use super::check::Tally;

/// The result of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Outcome {
    pub(crate) seed: u64,
    pub(crate) mode: &'static str,
    pub(crate) seconds: u64,
    pub(crate) events: u64,
    /// Acknowledged events that were lost by a server that was allowed to lose them.
    pub(crate) lost_by_the_server: u64,
    pub(crate) unknown_outcomes: u64,
    pub(crate) transactions: u64,
    pub(crate) rollbacks: u64,
    pub(crate) savepoints: u64,
    pub(crate) prepared: u64,
    pub(crate) permanent_gaps: u64,
    pub(crate) processes_started: u32,
    pub(crate) resizes: u64,
    pub(crate) drained_in_seconds: f64,
    /// Servers that were lost or crashed, or rounds of what this kind of torture repeats.
    pub(crate) rounds: u64,
    pub(crate) subscribers: BTreeMap<String, Tally>,
    pub(crate) faults: BTreeMap<&'static str, u64>,
    pub(crate) violations: Vec<String>,
}

impl Outcome {
    pub(crate) fn print(&self) {
        eprintln!(
            "\n{} events ({} more lost by the server, {} of unknown outcome), {} transactions, {} rollbacks, {} savepoints, {} prepared; {} permanent gaps",
            self.events,
            self.lost_by_the_server,
            self.unknown_outcomes,
            self.transactions,
            self.rollbacks,
            self.savepoints,
            self.prepared,
            self.permanent_gaps
        );
        eprintln!(
            "{} rounds, {} processes, {} changes of the number of partitions, drained in {:.1} s",
            self.rounds, self.processes_started, self.resizes, self.drained_in_seconds
        );
        eprintln!(
            "\n{:<20} {:>8} {:>10} {:>9} {:>12} {:>6} {:>20} {:>18}",
            "subscriber",
            "handled",
            "duplicates",
            "failures",
            "dead letters",
            "late",
            "passed in ignorance",
            "lost by the server"
        );
        for (id, tally) in &self.subscribers {
            eprintln!(
                "{id:<20} {:>8} {:>10} {:>9} {:>12} {:>6} {:>20} {:>18}",
                tally.handled,
                tally.duplicates,
                tally.failures,
                tally.dead_letters,
                tally.late,
                tally.passed_in_ignorance,
                tally.lost_by_the_server
            );
        }
        eprintln!("\nfaults: {:?}", self.faults);
        eprintln!(
            "seed {}, {}: {}",
            self.seed,
            self.mode,
            if self.violations.is_empty() { "no violations" } else { "VIOLATIONS" }
        );
        self.violations.iter().for_each(|violation| eprintln!("  {violation}"));
    }
}
