//! What a server may lose: transactions that it acknowledged shortly before its end, but that were
//! not yet durable.
//!
//! A standby with asynchronous replication lacks the end of the log when it takes over. A server
//! with `synchronous_commit` off lacks it after a crash. Outside of these windows, nothing that was
//! acknowledged may be missing.

use std::sync::Mutex;
use std::time::Duration;

/// A producer records an answer a moment after it came.
const SLACK: Duration = Duration::from_secs(2);
/// For this long after the loss, consumers may still handle events that they have in memory and
/// that the server lost.
const MEMORY: Duration = Duration::from_secs(12);

/// A time in which acknowledged transactions may be lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) from_ns: u64,
    /// When the server that lost them accepted writes again.
    pub(crate) until_ns: u64,
}

/// All windows so far.
#[derive(Debug, Default)]
pub(crate) struct Losses(Mutex<Vec<Window>>);

impl Losses {
    pub(crate) fn add(&self, window: Window) {
        self.0.lock().expect("no holder of this lock panics").push(window);
    }

    fn any(&self, test: impl Fn(&Window) -> bool) -> bool {
        self.0.lock().expect("no holder of this lock panics").iter().any(test)
    }

    /// Whether an event may be missing whose commit a producer learned of at this time.
    pub(crate) fn may_lack(&self, told_ns: u64) -> bool {
        self.any(|window| (window.from_ns..=window.until_ns + ns(SLACK)).contains(&told_ns))
    }

    /// Whether a consumer may have handled an event at this time that the log now lacks.
    pub(crate) fn may_be_handled(&self, handled_ns: u64) -> bool {
        self.any(|window| (window.from_ns..=window.until_ns + ns(MEMORY)).contains(&handled_ns))
    }

    /// Whether anything at all may be lost.
    pub(crate) fn is_empty(&self) -> bool {
        !self.any(|_| true)
    }
}

fn ns(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_told_in_a_window_may_be_missing() {
        let losses = Losses::default();
        assert!(losses.is_empty() && !losses.may_lack(5));
        losses.add(Window { from_ns: 100, until_ns: 200 });
        assert!(!losses.may_lack(99) && losses.may_lack(100));
        assert!(losses.may_lack(200 + ns(SLACK)) && !losses.may_lack(201 + ns(SLACK)));
        assert!(losses.may_be_handled(200 + ns(MEMORY)) && !losses.may_be_handled(201 + ns(MEMORY)));
    }
}
