//! Which subscriber an event is being delivered to, for what its handler writes: known to the task that runs the handler, and to nobody else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use headwater_core::Fence;

use crate::PgSubscribers;

tokio::task_local! {
    static DELIVERY: Delivery;
}

/// An event on its way to a handler.
#[derive(Debug, Clone)]
pub(crate) struct Delivery {
    namespace_id: i32,
    /// By what right its node delivers it.
    pub(crate) fence: Fence,
    notes: Arc<AtomicBool>,
}

impl Delivery {
    /// A note is about to be made of an event that changes a state.
    pub(crate) fn note(&self) {
        self.notes.store(true, Ordering::Release);
    }
}

/// What is being delivered to this subscriber by the present task.
pub(crate) fn delivery_to(namespace_id: i32, subscriber_id: &str) -> Option<Delivery> {
    let is_for =
        |delivery: &Delivery| delivery.namespace_id == namespace_id && delivery.fence.subscriber_id == subscriber_id;
    DELIVERY.try_with(|delivery| is_for(delivery).then(|| delivery.clone())).ok().flatten()
}

impl PgSubscribers {
    /// Runs a handler as the owner of a subscriber: states that it writes are fenced. `notes` becomes true when it makes notes of events that
    /// have changed states: once the checkpoint has passed them, [`forget_applied`](PgSubscribers::forget_applied) deletes them.
    pub async fn delivering<T>(&self, fence: &Fence, notes: &Arc<AtomicBool>, handling: impl Future<Output = T>) -> T {
        let delivery = Delivery { namespace_id: self.info().id.into(), fence: fence.clone(), notes: notes.clone() };
        DELIVERY.scope(delivery, handling).await
    }
}
