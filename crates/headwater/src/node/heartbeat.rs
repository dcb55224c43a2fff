//! The heartbeat of a node: says that it lives, and which event types it handles, with one statement whatever the number of its subscribers.
//!
//! Who has authority: the node's row. A heartbeat is refused when another process is registered under the node's id by now. What this one owned was released
//! then, and what it still writes there is fenced by its term; it goes on as another instance of its subscribers' pools, so that it takes over what the other leaves. Once the
//! other is not alive, this process registers again and is the node. A heartbeat that fails is made again, sooner; while none gets through, the node goes
//! on: whatever it writes is fenced, and others may count it as dead.
//!
//! With its heartbeats a node also looks for messages that nobody handles, and now and then forgets nodes that were not heard of for long.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use headwater_core::{NodeOptions, Registration, SubscriberError, jittered};
use headwater_postgres::PgNodes;
use tokio::sync::{Notify, watch};
use tokio::time::sleep;

use super::handlers::{HANDLERS, Handlers};

/// Heartbeats between looks for nodes to forget.
const FORGET_EVERY: u64 = 100;
/// After a heartbeat that failed.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

pub(super) struct Heartbeat {
    pub(super) nodes: PgNodes,
    registration: Mutex<Registration>,
    /// Whether another process is the node at present.
    replaced: watch::Sender<bool>,
    doubted: Notify,
    pub(super) options: NodeOptions,
    pub(super) handlers: Arc<Handlers>,
    /// Event types that subscribers of the node name.
    pub(super) subscribed: Vec<String>,
}

impl Heartbeat {
    pub(super) fn new(
        nodes: PgNodes,
        registration: Registration,
        options: NodeOptions,
        handlers: Arc<Handlers>,
        subscribed: Vec<String>,
    ) -> Self {
        let (registration, replaced) = (Mutex::new(registration), watch::Sender::new(false));
        Heartbeat { nodes, registration, replaced, doubted: Notify::new(), options, handlers, subscribed }
    }

    /// Beats until it is dropped.
    pub(super) async fn run(&self) {
        let mut changes = self.handlers.changes();
        let every = self.options.heartbeat;
        for beat in 0_u64.. {
            changes.borrow_and_update();
            if let Err(error) = self.beat().await
                && !self.return_if_gone().await
            {
                self.say_replaced(&error);
            }
            if !self.is_replaced() && !self.handlers.is_empty() {
                self.reap().await;
            }
            if beat % FORGET_EVERY == 0
                && let Err(error) = self.nodes.forget(self.options.retention, None).await
            {
                tracing::warn!(node = self.registration().node_id, %error, "failed to forget nodes that are gone");
            }
            tokio::select! {
                () = sleep(jittered(every, 0.1, rand::random())) => {}
                () = self.doubted.notified() => {}
                _ = changes.changed() => {}
            }
        }
    }

    /// Beats at once: somebody has seen that this process is not the node.
    pub(super) fn doubt(&self) {
        self.doubted.notify_one();
    }

    /// What this process is registered as.
    pub(super) fn registration(&self) -> Registration {
        self.registration.lock().expect("no holder of this lock panics").clone()
    }

    /// Whether another process is the node at present.
    pub(super) fn is_replaced(&self) -> bool {
        *self.replaced.borrow()
    }

    fn say_replaced(&self, error: &SubscriberError) {
        if !self.replaced.send_replace(true) {
            let node = self.registration().node_id;
            tracing::error!(
                node,
                %error,
                "another process is this node by now: this one stands by for it. Give each process an id of its own"
            );
        }
    }

    /// Becomes the node again if the process that replaced this one is not alive, or came before it: then a server that lost the end of its log has lost the
    /// registration of this one. Returns whether it did.
    async fn return_if_gone(&self) -> bool {
        let Registration { node_id: node, incarnation, .. } = self.registration();
        let gone = match self.nodes.list(Some(&node)).await {
            Ok(there) => there.iter().all(|there| !there.alive || there.incarnation < incarnation),
            Err(_) => false,
        };
        if !gone {
            return false;
        }
        let options = NodeOptions { node_id: Some(node.clone()), ..self.options.clone() };
        match self.nodes.register(&options, &self.event_types()).await {
            Ok(registration) => {
                *self.registration.lock().expect("no holder of this lock panics") = registration;
                self.replaced.send_replace(false);
                tracing::warn!(node, "the process that was this node is gone: this one is the node again");
                true
            }
            Err(error) => {
                tracing::warn!(node, %error, "failed to become the node again, trying again");
                false
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
        let registration = self.registration();
        let (node, mut pause) = (&registration.node_id, FIRST_PAUSE);
        let mut said = false;
        loop {
            match self.nodes.heartbeat_of(&registration, &self.event_types(), &self.handlers.patterns()).await {
                Ok(()) => return Ok(()),
                Err(error @ SubscriberError::NodeReplaced(_)) => return Err(error),
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
