//! The subscribers under torture: one of each kind.

use std::time::Duration;

use headwater::delivery::{CheckpointMode, ReliableDeliveryConfig};

/// A subscriber under torture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Subscriber {
    /// Plain, with a checkpoint after each event.
    Synchronous,
    /// Plain, with a checkpoint now and then.
    Batched,
    /// In strict order.
    Strict,
    /// Passes every gap at once.
    Eager,
    /// Eight keys at once.
    Keyed,
    /// Writes its effects in the transaction that also writes the checkpoint.
    Transactional,
    /// Fails at random, and always fails for some events.
    Failing,
    /// Has partitions, whose number changes now and then.
    Partitioned,
    /// Has partitions, and handles the events of a key in one transaction.
    PerKey,
    /// A queue with workers that fail now and then.
    Shared,
    /// Gets every broadcast in every node: each node has its own subscriber.
    Broadcast,
}

/// The subscribers that consumers are told to run.
pub(crate) const ALL: [Subscriber; 10] = [
    Subscriber::Synchronous,
    Subscriber::Batched,
    Subscriber::Strict,
    Subscriber::Eager,
    Subscriber::Keyed,
    Subscriber::Transactional,
    Subscriber::Failing,
    Subscriber::Partitioned,
    Subscriber::PerKey,
    Subscriber::Shared,
];

impl Subscriber {
    pub(crate) fn id(self) -> &'static str {
        match self {
            Subscriber::Synchronous => "synchronous",
            Subscriber::Batched => "batched",
            Subscriber::Strict => "strict",
            Subscriber::Eager => "eager",
            Subscriber::Keyed => "keyed",
            Subscriber::Transactional => "transactional",
            Subscriber::Failing => "failing",
            Subscriber::Partitioned => "partitioned",
            Subscriber::PerKey => "per-key",
            Subscriber::Shared => "shared",
            Subscriber::Broadcast => "broadcast",
        }
    }

    pub(crate) fn named(id: &str) -> anyhow::Result<Self> {
        let found = ALL.into_iter().find(|subscriber| subscriber.id() == id);
        found.ok_or_else(|| anyhow::anyhow!("there is no subscriber {id:?}"))
    }

    pub(crate) fn config(self) -> ReliableDeliveryConfig {
        // Retries are quick, so that they happen often in a short run.
        let common = ReliableDeliveryConfig {
            initial_retry_delay: Duration::from_millis(10),
            max_retry_delay: Duration::from_millis(100),
            hold_for: self.hold_for(),
            ..ReliableDeliveryConfig::default()
        };
        let batched = |batch_size, max_delay_ms| CheckpointMode::Batched { batch_size, max_delay_ms };
        match self {
            Subscriber::Synchronous | Subscriber::Eager | Subscriber::Failing | Subscriber::Keyed => common,
            // These handlers fail when the database does. Enough retries to outlive a restart of
            // the server.
            Subscriber::Transactional | Subscriber::PerKey | Subscriber::Broadcast => {
                ReliableDeliveryConfig { max_retries: 200, ..common }
            }
            // Each fault uses up attempts of the events that it interrupts.
            Subscriber::Shared => ReliableDeliveryConfig { max_retries: 200, ..common },
            Subscriber::Batched | Subscriber::Partitioned => {
                ReliableDeliveryConfig { checkpoint_mode: batched(100, 200), ..common }
            }
            Subscriber::Strict => ReliableDeliveryConfig { checkpoint_mode: batched(20, 100), ..common },
        }
    }

    /// How long the subscriber waits for a gap.
    pub(crate) fn hold_for(self) -> Duration {
        match self {
            Subscriber::Strict => Duration::MAX,
            Subscriber::Eager => Duration::ZERO,
            Subscriber::Batched => Duration::from_millis(300),
            Subscriber::Transactional | Subscriber::Failing | Subscriber::PerKey => Duration::from_secs(1),
            Subscriber::Synchronous
            | Subscriber::Keyed
            | Subscriber::Partitioned
            | Subscriber::Shared
            | Subscriber::Broadcast => Duration::from_secs(5),
        }
    }

    /// Whether only events of the same key have an order.
    pub(crate) fn is_by_key(self) -> bool {
        matches!(self, Subscriber::Keyed | Subscriber::Partitioned | Subscriber::PerKey)
    }

    /// Whether its effects are in the transaction that writes its checkpoint.
    pub(crate) fn is_transactional(self) -> bool {
        matches!(self, Subscriber::Transactional | Subscriber::PerKey)
    }

    /// Whether its events have no order.
    pub(crate) fn is_unordered(self) -> bool {
        self == Subscriber::Shared
    }

    /// Whether a dead letter may be an accident, because the handlers fail when the database does.
    pub(crate) fn fails_with_the_database(self) -> bool {
        self.is_transactional() || self == Subscriber::Broadcast
    }

    /// Whether the handler always fails for this event.
    pub(crate) fn always_fails(self, sequence: u64) -> bool {
        self == Subscriber::Failing && sequence.is_multiple_of(31)
    }
}
