//! Handlers that do nothing, or too little.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use headwater::{Event, EventObserver, HandlerError, Json, NodeBuilder};

/// Does nothing.
pub(crate) struct Idle(pub(crate) String);

#[async_trait]
impl EventObserver for Idle {
    fn subscriber_id(&self) -> &str {
        &self.0
    }

    async fn on_event(&self, _: Arc<Event>) -> Result<(), HandlerError> {
        Ok(())
    }
}

/// Never succeeds.
pub(crate) struct AlwaysFails(pub(crate) String);

#[async_trait]
impl EventObserver for AlwaysFails {
    fn subscriber_id(&self) -> &str {
        &self.0
    }

    async fn on_event(&self, _: Arc<Event>) -> Result<(), HandlerError> {
        Err(HandlerError::message("it always fails"))
    }
}

/// Takes a second for each event.
pub(crate) struct Sleeps(pub(crate) String);

#[async_trait]
impl EventObserver for Sleeps {
    fn subscriber_id(&self) -> &str {
        &self.0
    }

    async fn on_event(&self, _: Arc<Event>) -> Result<(), HandlerError> {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok(())
    }
}

/// A subscriber that takes batches and does nothing with them.
pub(crate) fn idle_batches(node: NodeBuilder, subscriber_id: String) -> NodeBuilder {
    node.subscribe_batch(subscriber_id, |_: Vec<Arc<Event<Json>>>| async { Ok(()) })
}
