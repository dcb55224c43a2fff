//! What runners report about themselves.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use headwater_core::{Gaps, Report, RunnerState};
use tokio::sync::watch;

/// The state of a runner, for its keeper and for callers that ask the node.
#[derive(Debug)]
pub(in crate::node) struct Status {
    report: Mutex<Report>,
    handled: AtomicU64,
    /// Whether the runner knows that it must give up its partition, and has stopped all work for
    /// it.
    pub(in crate::node) yielded: AtomicBool,
    /// How far this instance has handled events, whether or not that is written yet. `None`: it is
    /// not the owner.
    pub(in crate::node) reached: watch::Sender<Option<(u64, Gaps)>>,
}

impl Status {
    pub(in crate::node) fn new(transactional: bool) -> Self {
        Status {
            report: Mutex::new(Report { transactional, ..Report::default() }),
            handled: AtomicU64::new(0),
            yielded: AtomicBool::new(false),
            reached: watch::Sender::new(None),
        }
    }

    pub(in crate::node) fn set(&self, state: RunnerState, detail: Option<String>) {
        let mut report = self.report.lock().expect("no holder of this lock panics");
        if report.state != state || report.detail != detail {
            report.state = state;
            report.detail = detail;
        }
    }

    pub(in crate::node) fn count(&self, events: u64) {
        self.handled.fetch_add(events, Ordering::Relaxed);
    }

    /// Events handled since the node started.
    pub(in crate::node) fn handled(&self) -> u64 {
        self.handled.load(Ordering::Relaxed)
    }

    pub(in crate::node) fn set_rate(&self, rate: f64) {
        self.report.lock().expect("no holder of this lock panics").rate = rate;
    }

    pub(in crate::node) fn report(&self) -> Report {
        self.report.lock().expect("no holder of this lock panics").clone()
    }
}
