//! What runners tell of themselves.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use headwater_core::{Gaps, Report, RunnerState};
use tokio::sync::watch;

/// What a runner does, for its keeper and for whoever asks the node.
#[derive(Debug)]
pub(super) struct Status {
    report: Mutex<Report>,
    handled: AtomicU64,
    /// The runner has seen that it shall give its partition up, and does nothing for it any more.
    pub(super) yielded: AtomicBool,
    /// How far this instance has handled events, written or not; `None`: it is not the owner.
    pub(super) reached: watch::Sender<Option<(u64, Gaps)>>,
}

impl Status {
    pub(super) fn new(transactional: bool) -> Self {
        Status {
            report: Mutex::new(Report { transactional, ..Report::default() }),
            handled: AtomicU64::new(0),
            yielded: AtomicBool::new(false),
            reached: watch::Sender::new(None),
        }
    }

    pub(super) fn set(&self, state: RunnerState, detail: Option<String>) {
        let mut report = self.report.lock().expect("no holder of this lock panics");
        if report.state != state || report.detail != detail {
            report.state = state;
            report.detail = detail;
        }
    }

    pub(super) fn count(&self, events: u64) {
        self.handled.fetch_add(events, Ordering::Relaxed);
    }

    /// Events handled since the node started.
    pub(super) fn handled(&self) -> u64 {
        self.handled.load(Ordering::Relaxed)
    }

    pub(super) fn set_rate(&self, rate: f64) {
        self.report.lock().expect("no holder of this lock panics").rate = rate;
    }

    pub(super) fn report(&self) -> Report {
        self.report.lock().expect("no holder of this lock panics").clone()
    }
}
