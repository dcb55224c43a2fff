//! Handlers that do nothing, always fail or take too long.

use std::time::Duration;

use headwater::delivery::Batch;
use headwater::{Delivery, EventObserver, HandlerError, Subscription};

/// Does nothing.
pub(crate) struct Idle(pub(crate) String);

impl EventObserver for Idle {
    fn subscriber_id(&self) -> &str {
        &self.0
    }

    async fn on_event(&self, _: Delivery) -> Result<(), HandlerError> {
        Ok(())
    }
}

/// Never succeeds.
pub(crate) struct AlwaysFails(pub(crate) String);

impl EventObserver for AlwaysFails {
    fn subscriber_id(&self) -> &str {
        &self.0
    }

    async fn on_event(&self, _: Delivery) -> Result<(), HandlerError> {
        Err(HandlerError::message("it always fails"))
    }
}

/// Takes one second per event.
pub(crate) struct Sleeps(pub(crate) String);

impl EventObserver for Sleeps {
    fn subscriber_id(&self) -> &str {
        &self.0
    }

    async fn on_event(&self, _: Delivery) -> Result<(), HandlerError> {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok(())
    }
}

/// A subscription that takes batches and does nothing with them.
pub(crate) fn idle_batches(subscriber_id: &str) -> Subscription<Batch> {
    Subscription::new(subscriber_id).batch(|_: Vec<Delivery>| async { Ok(()) })
}
