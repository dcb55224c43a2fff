//! Subscribers in memory: the public store, which is a lock and a clock around the model.

mod audit;
mod dead_letters;
mod group;
mod group_store;
mod operator_store;
mod partition;
mod progress_store;
mod queue;
mod queue_store;
mod registry;
mod subscriber;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use chrono::{DateTime, Utc};
use headwater_core::{History, ReadError, SubscriberError};

use self::registry::Registry;
use crate::MemoryLog;
use crate::clock::Clock;

type Result<T> = std::result::Result<T, SubscriberError>;

/// The subscribers of a log in memory, in every mode. Clones share them.
///
/// ```
/// use headwater_core::{Event, EventLog, GroupStore, OperatorStore, StartFrom, SubscriberConfig, SubscriberMode};
/// use headwater_memory::{MemoryLog, MemorySubscribers};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let log = MemoryLog::new("orders");
/// let subscribers = MemorySubscribers::new(log.clone());
/// log.append(Event::raw("OrderPlaced", serde_json::json!({})).into()).await?;
/// let config = SubscriberConfig::new("totals", StartFrom::Beginning, SubscriberMode::Exclusive);
/// subscribers.register(&config).await?;
/// assert_eq!(subscribers.subscriber("totals").await?.lag_events, 1);
/// # Ok(())
/// # }
/// ```
///
/// Events of a shared subscriber are claimed from its [queue](headwater_core::Queues::queue):
///
/// ```
/// use std::time::Duration;
///
/// use headwater_core::{ClaimRequest, Event, EventLog, GroupStore, Queues, StartFrom,
/// SubscriberConfig, SubscriberMode};
/// use headwater_memory::{MemoryLog, MemorySubscribers};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let log = MemoryLog::new("orders");
/// # let subscribers = MemorySubscribers::new(log.clone());
/// # log.append(Event::raw("OrderPlaced", serde_json::json!({})).into()).await?;
/// let config = SubscriberConfig::new("invoices", StartFrom::Beginning, SubscriberMode::Shared);
/// subscribers.register(&config).await?;
/// let queue = subscribers.queue("invoices");
/// let lost = queue.claim(&ClaimRequest::new("first")).await?;
/// assert_eq!(lost[0].redelivery_count, 0);
/// // The worker dies. Tests need not wait for its claim to expire.
/// subscribers.advance_clock(Duration::from_secs(31));
/// let again = queue.claim(&ClaimRequest::new("second")).await?;
/// assert_eq!((again[0].redelivery_count, &again[0].events), (1, &lost[0].events));
/// queue.ack(again[0].claim_id, None).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct MemorySubscribers {
    log: MemoryLog,
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    registry: Mutex<Registry>,
    clock: Clock,
}

impl MemorySubscribers {
    /// A store without subscribers.
    pub fn new(log: MemoryLog) -> Self {
        MemorySubscribers { log, inner: Arc::default() }
    }

    /// Moves the store's clock forward, for tests that do not sleep: leases and claims end, and
    /// delayed deliveries become due. Otherwise the clock follows tokio's, which tests can pause.
    pub fn advance_clock(&self, by: Duration) {
        self.inner.clock.advance(by);
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.inner.registry.lock().expect("the model does not panic")
    }

    fn now(&self) -> DateTime<Utc> {
        self.inner.clock.now()
    }
}

/// The store in memory has one history.
fn check_history(history: Option<History>) -> Result<()> {
    match history {
        Some(other) if other != History::default() => {
            let message = "subscribers in memory have one history, and this is another".into();
            Err(SubscriberError::Read(ReadError::OtherHistory(message)))
        }
        _ => Ok(()),
    }
}
