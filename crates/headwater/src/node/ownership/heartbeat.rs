//! The heartbeat of a node: it shows that the node lives, and which event types it handles. One
//! statement does that for any number of subscribers.
//!
//! Who has authority: the node's row. A heartbeat is refused once another process is registered
//! under the node's id. At that time, everything that this process owned was released, and whatever
//! it still writes there is fenced by its term. It goes on as another instance of its subscribers'
//! pools, and takes over what the other process leaves. Once the other process is not alive, this
//! process registers again and is the node. A heartbeat that fails is sent again, sooner. While
//! none gets through, the node goes on: everything it writes is fenced, and others may count it as
//! dead.
//!
//! With its heartbeats, a node also looks for messages that nobody handles. Now and then it forgets
//! nodes that have long been silent.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use headwater_core::{Backoff, NodeOptions, Registration, SubscriberError, jittered};
use headwater_postgres::PgNodes;
use tokio::sync::{Notify, watch};
use tokio::time::sleep;

use crate::node::delivery::plan::SubscriptionPlan;
use crate::node::delivery::type_handlers::{HANDLERS, TypeHandlers};

/// Heartbeats between searches for nodes to forget.
const FORGET_EVERY: u64 = 100;
/// The first pause after a failed heartbeat.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

pub(in crate::node) struct Heartbeat {
    pub(in crate::node) nodes: PgNodes,
    registration: Mutex<Registration>,
    /// Whether another process is the node at present.
    replaced: watch::Sender<bool>,
    doubted: Notify,
    pub(in crate::node) options: NodeOptions,
    pub(in crate::node) handlers: Arc<TypeHandlers>,
    /// Event types that the node's subscribers name: what runs decides.
    subscribed: watch::Sender<Vec<String>>,
}

/// The event types that subscribers name. A subscriber of all types names none.
pub(in crate::node) fn named_types<'p>(plans: impl IntoIterator<Item = &'p SubscriptionPlan>) -> Vec<String> {
    plans.into_iter().flat_map(|plan| plan.filter.event_types.iter().cloned()).collect()
}

impl Heartbeat {
    pub(in crate::node) fn new(
        nodes: PgNodes,
        registration: Registration,
        options: NodeOptions,
        handlers: Arc<TypeHandlers>,
        subscribed: Vec<String>,
    ) -> Self {
        let subscribed = watch::Sender::new(subscribed);
        let (registration, replaced) = (Mutex::new(registration), watch::Sender::new(false));
        Heartbeat { nodes, registration, replaced, doubted: Notify::new(), options, handlers, subscribed }
    }

    /// Sends heartbeats until this future is dropped.
    pub(in crate::node) async fn run(&self) {
        let mut changes = self.handlers.changes();
        let mut subscribed = self.subscribed.subscribe();
        let every = self.options.heartbeat;
        for beat in 0_u64.. {
            changes.borrow_and_update();
            subscribed.borrow_and_update();
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
                _ = subscribed.changed() => {}
            }
        }
    }

    /// Sends a heartbeat at once: somebody has seen that this process is not the node.
    pub(in crate::node) fn doubt(&self) {
        self.doubted.notify_one();
    }

    /// Says which subscribers the node has from now on. If the event types that they name have
    /// changed, the next heartbeat is sent at once.
    pub(in crate::node) fn advertise<'p>(&self, plans: impl IntoIterator<Item = &'p SubscriptionPlan>) {
        let named = named_types(plans);
        self.subscribed.send_if_modified(|present| std::mem::replace(present, named) != *present);
    }

    /// The registration of this process.
    pub(in crate::node) fn registration(&self) -> Registration {
        self.registration.lock().expect("no holder of this lock panics").clone()
    }

    /// Whether another process is the node at present.
    pub(in crate::node) fn is_replaced(&self) -> bool {
        *self.replaced.borrow()
    }

    /// Waits until another process is the node.
    pub(in crate::node) async fn until_replaced(&self) {
        // The sender is part of this value.
        _ = self.replaced.subscribe().wait_for(|replaced| *replaced).await;
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

    /// Becomes the node again if the process that replaced this one is not alive. Also if that
    /// process came before this one: then a server that lost the end of its log has lost the
    /// registration of this process. Returns whether this process became the node.
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

    /// The event types that this node handles.
    pub(in crate::node) fn event_types(&self) -> Vec<String> {
        let mut types = self.handlers.patterns();
        types.extend(self.subscribed.borrow().iter().cloned());
        types.sort_unstable();
        types.dedup();
        types
    }

    /// Sends heartbeats until one is answered. Fails if another process is the node by now.
    async fn beat(&self) -> Result<(), SubscriberError> {
        let registration = self.registration();
        let node = &registration.node_id;
        let mut pauses = Backoff::new(FIRST_PAUSE, self.options.heartbeat);
        let mut said = false;
        loop {
            match self.nodes.heartbeat_of(&registration, &self.event_types(), &self.handlers.patterns()).await {
                Ok(()) => return Ok(()),
                Err(error @ SubscriberError::NodeReplaced(_)) => return Err(error),
                Err(error) => {
                    if !std::mem::replace(&mut said, true) {
                        tracing::warn!(node, %error, "failed to say that the node lives, trying again");
                    }
                    sleep(pauses.jittered(rand::random())).await;
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
