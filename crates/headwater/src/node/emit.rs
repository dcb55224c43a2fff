//! What a node emits: events that say which node they come from.

use std::sync::Arc;

use headwater_core::{AppendError, Event, EventLog, Json, headers};

use super::Node;

impl Node {
    /// Emits a message for every node that [listens](Node::on_broadcast) to broadcasts of its type,
    /// instead of one of those that handle it. Returns its message id.
    pub async fn broadcast(&self, event_type: impl Into<String>, payload: impl Into<Json>) -> Result<u64, AppendError> {
        let mut event = self.signed(Event::raw(event_type, payload));
        event.headers.insert(headers::BROADCAST.into(), "true".into());
        Ok(self.log.append(event.into()).await?.global_sequence())
    }

    /// The event, with the node's id on it.
    pub(crate) fn signed(&self, mut event: Event) -> Event {
        event.headers.insert(headers::PRODUCER_NODE_ID.into(), self.instance.node.clone());
        event
    }

    pub(crate) fn log(&self) -> &Arc<dyn EventLog> {
        &self.log
    }
}
