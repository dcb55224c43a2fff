//! The kinds of torture, and in what they differ.

use std::time::Duration;

use super::live::Source;
use super::processes::ConsumerOptions;

/// Short, so that stops that outlive it are short, too; long enough for a keeper on a busy machine.
const SHORT_LEASE: Duration = Duration::from_secs(4);
const LONG_LEASE: Duration = Duration::from_secs(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Consumers are killed, stopped and cut off; the server is restarted.
    Plain,
    /// The primary is killed, and its standby takes its place.
    Failover,
    /// Backends and the postmaster are killed, with `synchronous_commit` on and off.
    Crash,
    /// Strangers, tenants, the clock and the network do their worst.
    Hostile,
}

impl Mode {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Mode::Plain => "plain",
            Mode::Failover => "failover",
            Mode::Crash => "crash",
            Mode::Hostile => "hostile",
        }
    }

    /// Of the four places. Plain ones are alike; else there is one of each kind.
    pub(crate) fn manners(self) -> [ConsumerOptions; 4] {
        let manner = |live, lease, slow| ConsumerOptions { live, lease, slow };
        match self {
            Mode::Plain => [manner(Source::Notify, SHORT_LEASE, false); 4],
            _ => [
                manner(Source::Notify, SHORT_LEASE, false),
                manner(Source::CdcDirect, LONG_LEASE, true),
                manner(Source::CdcInbox, SHORT_LEASE, false),
                manner(Source::Notify, LONG_LEASE, true),
            ],
        }
    }

    /// Partitions at first.
    pub(crate) fn partitions(self) -> u32 {
        match self {
            Mode::Hostile => 4,
            _ => 6,
        }
    }

    /// How often handlers fail that do so by chance. A failure is written down safely, and everything before it with it: where a
    /// crash is to find something to lose, failures are rare.
    pub(crate) fn failures(self) -> f64 {
        match self {
            Mode::Plain | Mode::Hostile => 0.1,
            Mode::Failover | Mode::Crash => 0.01,
        }
    }

    /// Whether months begin and end, so that nodes look after them often.
    pub(crate) fn maintains(self) -> bool {
        self == Mode::Hostile
    }

    /// Between events of one producer, on average.
    pub(crate) fn pause(self) -> Duration {
        match self {
            Mode::Plain => Duration::from_millis(40),
            // Slow handlers are to keep up.
            Mode::Failover | Mode::Crash | Mode::Hostile => Duration::from_millis(200),
        }
    }
}
