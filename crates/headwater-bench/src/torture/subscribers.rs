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
    /// Writes its effects in the transaction of the checkpoint.
    Transactional,
    /// Fails at random, and for some events always.
    Failing,
    /// Over partitions, whose number changes now and then.
    Partitioned,
    /// Over partitions, with a transaction for the events of a key.
    PerKey,
    /// Claimed by workers, which fail now and then.
    Shared,
    /// Given every broadcast, in each node: one subscriber a node, which every consumer has.
    Broadcast,
}

/// Those that consumers are told to have.
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
            // Handlers fail with the database: long enough to outlive a restart of it.
            Subscriber::Transactional | Subscriber::PerKey | Subscriber::Broadcast => {
                ReliableDeliveryConfig { max_retries: 200, ..common }
            }
            // Each fault costs attempts of what it interrupts.
            Subscriber::Shared => ReliableDeliveryConfig { max_retries: 200, ..common },
            Subscriber::Batched | Subscriber::Partitioned => {
                ReliableDeliveryConfig { checkpoint_mode: batched(100, 200), ..common }
            }
            Subscriber::Strict => ReliableDeliveryConfig { checkpoint_mode: batched(20, 100), ..common },
        }
    }

    /// How long it waits for a gap.
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

    /// Whether events of different keys stand in no order.
    pub(crate) fn is_by_key(self) -> bool {
        matches!(self, Subscriber::Keyed | Subscriber::Partitioned | Subscriber::PerKey)
    }

    /// Whether its effects are in the transaction of its checkpoint.
    pub(crate) fn is_transactional(self) -> bool {
        matches!(self, Subscriber::Transactional | Subscriber::PerKey)
    }

    /// Whether events come to it in no order.
    pub(crate) fn is_unordered(self) -> bool {
        self == Subscriber::Shared
    }

    /// Whether a dead letter of it may be an accident: its handlers fail with the database.
    pub(crate) fn fails_with_the_database(self) -> bool {
        self.is_transactional() || self == Subscriber::Broadcast
    }

    /// Whether the handler never succeeds with this event.
    pub(crate) fn always_fails(self, sequence: u64) -> bool {
        self == Subscriber::Failing && sequence.is_multiple_of(31)
    }
}
