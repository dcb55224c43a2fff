//! Who is told of poison: rows of the log that cannot be turned into events.

use async_trait::async_trait;
use headwater_core::AdminError;
use headwater_postgres::{Database, SubscriptionReset};

use crate::Namespace;

/// Told of poison that anybody finds, from the first start of a node that has such a notifier: at the end of the log, in gaps, while subscribers catch up, by
/// claims or by any other read. By then it is noted, with the error, and a permanent gap: it holds nobody up, whatever happens here.
///
/// Each poison is told at least once, by one of the nodes that have a notifier of this [name](CdcPoisonNotifier::name). What is found while no such node runs is told by the next that
/// starts. An error is logged, and the same is told again later.
#[async_trait]
pub trait CdcPoisonNotifier: Send + Sync + 'static {
    /// Which notifier it is, in the database: 1 to 255 bytes. Notifiers of the same name stand for each other; if each node is to be told by itself, give each
    /// another name. Default: the name of the type.
    fn name(&self) -> &str {
        let name = std::any::type_name::<Self>();
        &name[..name.floor_char_boundary(255)]
    }

    /// There is poison at these places of the log, in order.
    async fn on_poison(&self, sequences: &[u64]) -> Result<(), AdminError>;
}

/// Moves active subscribers that are past poison back to just before the first of it, once for each poison, whichever node finds it: they begin a new term there, step
/// over it, and go on; what follows is delivered again. Without it they go on where they are, which loses nothing either: choose it for handlers that want to see what comes
/// after such a gap again, knowing that it is one.
///
/// Active are subscribers that a node handles events for at that time, whichever its mode; not those that are paused, shared (their events are claimed), or transactional (their
/// effects happen once). None is ever moved forwards, and where it stands is written at once, fenced by its term.
///
/// ```no_run
/// # use std::sync::Arc;
/// # use headwater::{Event, EventObserver, HandlerError, Namespace, SubscriptionResetOnPoisonNotifier};
/// # async fn run(shop: Namespace, totals: impl EventObserver + 'static) -> Result<(), Box<dyn std::error::Error>> {
/// let node = shop.node("shop-1").on_poison(SubscriptionResetOnPoisonNotifier::new(&shop)).subscribe(totals).start().await?;
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
    /// For subscribers of this namespace.
    pub fn new(namespace: &Namespace) -> Self {
        SubscriptionResetOnPoisonNotifier {
            database: namespace.log().database().clone(),
            namespace: namespace.info().name.clone(),
        }
    }

    /// Moves them, and answers which: none, if this poison has moved them before.
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
