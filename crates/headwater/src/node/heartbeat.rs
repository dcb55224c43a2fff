//! The heartbeat of a node: says that it lives, and which event types it handles, with one statement whatever the number of its subscribers.
//!
//! Who has authority: the node's row. A heartbeat that is refused, since another process is registered under the node's id by now, ends this one's
//! work: what it owned is another's already, by its term. A heartbeat that fails is made again, sooner; while none gets through, the node goes on: whatever
//! it writes is fenced, and others may count it as dead.
//!
//! With its heartbeats a node also looks for messages that nobody handles, and now and then forgets nodes that were not heard of for long.

use std::sync::Arc;
use std::time::Duration;

use headwater_core::{NodeOptions, Registration, SubscriberError, jittered};
use headwater_postgres::PgNodes;
use tokio::time::sleep;

use super::handlers::{HANDLERS, Handlers};

/// Heartbeats between looks for nodes to forget.
const FORGET_EVERY: u64 = 100;
/// After a heartbeat that failed.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

pub(super) struct Heartbeat {
    pub(super) nodes: PgNodes,
    pub(super) registration: Registration,
    pub(super) options: NodeOptions,
    pub(super) handlers: Arc<Handlers>,
    /// Event types that subscribers of the node name.
    pub(super) subscribed: Vec<String>,
}

impl Heartbeat {
    /// Beats until the node is another process. Whoever shuts it down drops this.
    pub(super) async fn run(&self) {
        let mut changes = self.handlers.changes();
        let every = self.options.heartbeat;
        for beat in 0_u64.. {
            changes.borrow_and_update();
            if self.beat().await.is_err() {
                return;
            }
            if !self.handlers.is_empty() {
                self.reap().await;
            }
            if beat % FORGET_EVERY == 0
                && let Err(error) = self.nodes.forget(self.options.retention, None).await
            {
                tracing::warn!(node = self.registration.node_id, %error, "failed to forget nodes that are gone");
            }
            tokio::select! {
                () = sleep(jittered(every, 0.1, rand::random())) => {}
                _ = changes.changed() => {}
            }
        }
    }

    /// Event types that this node handles.
    pub(super) fn event_types(&self) -> Vec<String> {
        let mut types = self.handlers.patterns();
        types.extend(self.subscribed.iter().cloned());
        types.sort_unstable();
        types.dedup();
        types
    }

    /// Until one is heard. Fails if the node is another process by now.
    async fn beat(&self) -> Result<(), SubscriberError> {
        let (node, mut pause) = (&self.registration.node_id, FIRST_PAUSE);
        let mut said = false;
        loop {
            match self.nodes.heartbeat_of(&self.registration, &self.event_types(), &self.handlers.patterns()).await {
                Ok(()) => return Ok(()),
                Err(error @ SubscriberError::NodeReplaced(_)) => {
                    tracing::error!(node, %error, "this node is another process by now: it ends");
                    return Err(error);
                }
                Err(error) => {
                    if !std::mem::replace(&mut said, true) {
                        tracing::warn!(node, %error, "failed to say that the node lives, trying again");
                    }
                    sleep(jittered(pause, 0.5, rand::random())).await;
                    pause = (pause * 2).min(self.options.heartbeat);
                }
            }
        }
    }

    async fn reap(&self) {
        let Some(grace) = self.options.unhandled_grace else { return };
        match self.nodes.reap_unhandled(HANDLERS, grace).await {
            Ok(0) => {}
            Ok(events) => {
                tracing::warn!(events, "nobody handles these messages: see `headwater dead-letters list`");
            }
            Err(error) => tracing::warn!(%error, "failed to look for messages that nobody handles"),
        }
    }
}
