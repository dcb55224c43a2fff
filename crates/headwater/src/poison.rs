//! Notifiers of poison: rows of the log that cannot be turned into events.

use async_trait::async_trait;
use headwater_core::AdminError;
use headwater_postgres::{Database, SubscriptionReset};

use crate::Namespace;

/// Learns about all poison that anybody finds after the first start of a node with this notifier:
/// at the end of the log, in gaps, while subscribers catch up, in claims or in any other read. By
/// then the database has recorded the poison with its error, as a permanent gap. So it holds nobody
/// up, whatever the notifier does.
///
/// Each poison is told at least once, by one of the nodes that have a notifier of this
/// [name](CdcPoisonNotifier::name). Poison that is found while no such node runs is told by the
/// next one that starts. If the notifier returns an error, the error is logged, and the notifier is
/// told again later.
#[async_trait]
pub trait CdcPoisonNotifier: Send + Sync + 'static {
    /// The notifier's name in the database: 1 to 255 bytes. Notifiers with the same name stand in
    /// for each other. If each node must be told, give each node's notifier its own name. Default:
    /// the name of the type.
    fn name(&self) -> &str {
        let name = std::any::type_name::<Self>();
        &name[..name.floor_char_boundary(255)]
    }

    /// Called with the sequences of poison, in order.
    async fn on_poison(&self, sequences: &[u64]) -> Result<(), AdminError>;
}

/// Moves active subscribers that are past poison back to just before the first of it, once for each
/// poison, whichever node finds it. They begin a new term there, step over the poison, and go on;
/// all later events are delivered again. Without this notifier they go on where they are, which
/// loses nothing either. Choose it for handlers that want to see the events after such a gap again,
/// and know about the gap.
///
/// A subscriber is active if a node handles events for it at that time, in any mode. Subscribers
/// that are paused, shared (their events are claimed) or transactional (their effects happen once)
/// do not move. No subscriber ever moves forward. The new position is written at once, fenced by
/// the subscriber's term.
///
/// ```no_run
/// # use headwater::cdc::SubscriptionResetOnPoisonNotifier;
/// # use headwater::{EventObserver, Namespace, Subscription};
/// # async fn run(shop: Namespace, totals: impl EventObserver + 'static) -> Result<(), Box<dyn std::error::Error>> {
/// let notifier = SubscriptionResetOnPoisonNotifier::new(&shop);
/// let node = shop.node("shop-1").on_poison(notifier).run(Subscription::of(totals)).start().await?;
/// # node.shutdown().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct SubscriptionResetOnPoisonNotifier {
    database: Database,
    namespace: String,
}

impl SubscriptionResetOnPoisonNotifier {
    /// Resets subscribers of this namespace.
    pub fn new(namespace: &Namespace) -> Self {
        SubscriptionResetOnPoisonNotifier {
            database: namespace.log().database().clone(),
            namespace: namespace.info().name.clone(),
        }
    }

    /// Moves the subscribers back, and returns those that moved: none, if this poison has moved
    /// them before.
    pub async fn reset(&self, sequences: &[u64]) -> Result<Vec<SubscriptionReset>, AdminError> {
        self.database.reset_on_poison(&self.namespace, sequences).await
    }
}

#[async_trait]
impl CdcPoisonNotifier for SubscriptionResetOnPoisonNotifier {
    fn name(&self) -> &str {
        "reset subscriptions"
    }

    async fn on_poison(&self, sequences: &[u64]) -> Result<(), AdminError> {
        for SubscriptionReset { subscriber_id, partition, was_at, stands_at } in self.reset(sequences).await? {
            tracing::warn!(subscriber_id, partition, was_at, stands_at, "moved back, to before poison");
        }
        Ok(())
    }
}
