//! The state that a turn reports while it waits.

use headwater_core::{Hold, MAX_PASSED, RunnerState, Writer};

use super::Turn;
use crate::node::reading::ring::MAX_HOLES;

impl Turn {
    /// Reports what the turn waits for. Whatever holds delivery back is named.
    pub(super) fn note_state(&self, hold: Option<&Hold>) {
        let runner = &self.owner.runner;
        let (state, detail) = match hold {
            Some(Hold { first, last, ledger_is_full: true, .. }) => {
                let names = self.names_of(u64::MAX);
                let detail = format!(
                    "global_sequence {first} to {last} is missing, and {MAX_PASSED} gaps were passed already: waits until one of {names} ends"
                );
                (RunnerState::Held, Some(detail))
            }
            Some(Hold { first, last, .. }) => {
                let names = self.names_of(*last);
                let detail = format!("global_sequence {first} to {last} may still be committed by {names}");
                (RunnerState::Held, Some(detail))
            }
            None if !runner.tail.is_connected() => (RunnerState::Disconnected, None),
            None if runner.tail.is_full() => {
                let names = self.names_of(u64::MAX);
                let detail = format!(
                    "more than {MAX_HOLES} events may still be committed: the log is read on when one of {names} ends"
                );
                (RunnerState::Held, Some(detail))
            }
            None if !self.keyed.running.is_empty() => return,
            None if self.is_live() => (RunnerState::Live, None),
            None => (RunnerState::CatchingUp, None),
        };
        runner.status.set(state, detail);
    }

    /// The names of the writers that may still commit something below a sequence.
    fn names_of(&self, below: u64) -> String {
        let writers = self.owner.runner.tail.writers();
        let names: Vec<_> = writers.iter().filter(|writer| writer.above_sequence < below).map(name_of).collect();
        if names.is_empty() { "a transaction that has just ended".into() } else { names.join(", ") }
    }
}

fn name_of(writer: &Writer) -> String {
    let who = writer.application_name.as_deref().filter(|name| !name.is_empty()).unwrap_or("unknown");
    // The start, not the age: on a quiet log, the age would be the one at the last look.
    let since = writer.started_at.map(|at| format!(", since {}", at.format("%F %T UTC"))).unwrap_or_default();
    match writer.pid {
        Some(pid) => format!("pid {pid} ({who}{since})"),
        None => format!("{who}{since}"),
    }
}
