//! The subscriber that an event is being delivered to. What the handler writes needs it. Only the
//! task that runs the handler knows it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use headwater_core::Fence;

use crate::PgSubscribers;

tokio::task_local! {
    static DELIVERY: StateGuard;
}

/// What entitles a node to deliver events to a handler.
#[derive(Debug, Clone)]
pub struct StateGuard(Arc<Right>);

#[derive(Debug)]
struct Right {
    namespace_id: i32,
    fence: Fence,
    notes: Arc<AtomicBool>,
}

impl StateGuard {
    /// Runs a handler as the owner of the subscriber: states that it writes are fenced.
    pub async fn scope<T>(self, handling: impl Future<Output = T>) -> T {
        DELIVERY.scope(self, handling).await
    }

    /// The owner's fence.
    pub fn fence(&self) -> &Fence {
        &self.0.fence
    }

    /// Notes that an event that changes a state is about to be recorded.
    pub(crate) fn note(&self) {
        self.0.notes.store(true, Ordering::Release);
    }
}

/// Returns the guard of the delivery that the present task makes to this subscriber.
pub(crate) fn delivery_to(namespace_id: i32, subscriber_id: &str) -> Option<StateGuard> {
    let is_for = |delivery: &StateGuard| {
        delivery.0.namespace_id == namespace_id && delivery.fence().subscriber_id == subscriber_id
    };
    DELIVERY.try_with(|delivery| is_for(delivery).then(|| delivery.clone())).ok().flatten()
}

impl PgSubscribers {
    /// Returns the right of a subscriber's owner to deliver to its handler. `notes` becomes true
    /// when the delivery records events that have changed states. Once the checkpoint has passed
    /// these events, [`forget_applied`](PgSubscribers::forget_applied) deletes the records.
    pub fn delivery(&self, fence: &Fence, notes: &Arc<AtomicBool>) -> StateGuard {
        let right = Right { namespace_id: self.info().id, fence: fence.clone(), notes: notes.clone() };
        StateGuard(Arc::new(right))
    }
}
