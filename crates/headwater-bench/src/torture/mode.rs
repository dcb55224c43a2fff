//! The kinds of torture, and how they differ.

use std::time::Duration;

use super::live::Source;
use super::processes::ConsumerOptions;

/// Short, so that pauses that outlive a lease are also short. Long enough for a lease keeper on a
/// busy machine.
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
    /// Strangers, tenants, the clock and the network attack.
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

    /// The options of the four consumers. In plain mode they are the same; in other modes they
    /// differ.
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

    /// Initial number of partitions.
    pub(crate) fn partitions(self) -> u32 {
        match self {
            Mode::Hostile => 4,
            _ => 6,
        }
    }

    /// Probability of chance failures, for handlers that have them. Writing a failure makes
    /// everything before it durable. So failures are rare in modes in which a crash should find
    /// something to lose.
    pub(crate) fn failures(self) -> f64 {
        match self {
            Mode::Plain | Mode::Hostile => 0.1,
            Mode::Failover | Mode::Crash => 0.01,
        }
    }

    /// Whether months begin and end, so that nodes must maintain them often.
    pub(crate) fn maintains(self) -> bool {
        self == Mode::Hostile
    }

    /// Average pause between the events of one producer.
    pub(crate) fn pause(self) -> Duration {
        match self {
            Mode::Plain => Duration::from_millis(40),
            // Slow handlers must keep up.
            Mode::Failover | Mode::Crash | Mode::Hostile => Duration::from_millis(200),
        }
    }
}
