//! Which subscriber an event is being delivered to, for what its handler writes: known to the task that runs the handler, and to nobody else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use headwater_core::Fence;

use crate::PgSubscribers;

tokio::task_local! {
    static DELIVERY: Delivery;
}

/// By what right a node delivers events to a handler.
#[derive(Debug, Clone)]
pub struct Delivery(Arc<Right>);

#[derive(Debug)]
struct Right {
    namespace_id: i32,
    fence: Fence,
    notes: Arc<AtomicBool>,
}

impl Delivery {
    /// Runs a handler as the owner of the subscriber: states that it writes are fenced.
    pub async fn scope<T>(self, handling: impl Future<Output = T>) -> T {
        DELIVERY.scope(self, handling).await
    }

    /// The owner's fence.
    pub fn fence(&self) -> &Fence {
        &self.0.fence
    }

    /// A note is about to be made of an event that changes a state.
    pub(crate) fn note(&self) {
        self.0.notes.store(true, Ordering::Release);
    }
}

/// What is being delivered to this subscriber by the present task.
pub(crate) fn delivery_to(namespace_id: i32, subscriber_id: &str) -> Option<Delivery> {
    let is_for = |delivery: &Delivery| {
        delivery.0.namespace_id == namespace_id && delivery.fence().subscriber_id == subscriber_id
    };
    DELIVERY.try_with(|delivery| is_for(delivery).then(|| delivery.clone())).ok().flatten()
}

impl PgSubscribers {
    /// The right of the owner of a subscriber to deliver to its handler. `notes` becomes true when that makes notes of events that have changed
    /// states: once the checkpoint has passed them, [`forget_applied`](PgSubscribers::forget_applied) deletes them.
    pub fn delivery(&self, fence: &Fence, notes: &Arc<AtomicBool>) -> Delivery {
        let right = Right { namespace_id: self.info().id, fence: fence.clone(), notes: notes.clone() };
        Delivery(Arc::new(right))
    }
}
