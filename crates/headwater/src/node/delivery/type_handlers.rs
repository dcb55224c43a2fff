//! Handlers by event type: a node's handlers in memory, and how events reach them.
//!
//! All handlers of a namespace are workers of one shared subscriber, [`HANDLERS`]. Nodes compete
//! for its events, each for the types that it has handlers for. If a node no longer has a handler
//! for an event that it claimed, it hands the event back untouched. Broadcasts go to a separate
//! subscriber per node.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use headwater_core::{Delivery, EventPattern, HandlerError, InvalidName, Observed, RecordedEvent, headers};
use tokio::sync::watch;

use crate::node::delivery::adapters::{Each, Typed};
use crate::node::delivery::handler::HandleInTransaction;
use crate::node::delivery::open_transaction::{OpenTransaction, Transaction};

/// The shared subscriber whose events the handlers of all nodes get.
pub const HANDLERS: &str = "handlers";

type Handler = Arc<dyn HandleInTransaction>;

#[derive(Clone)]
pub(in crate::node) struct Entry {
    id: u64,
    pattern: EventPattern,
    handler: Handler,
}

/// The events of the log that the handlers are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::node) enum Audience {
    /// For one of the nodes that handle the type.
    One,
    /// For every node.
    All,
}

/// The handlers of a node for events, or for broadcasts.
pub(in crate::node) struct TypeHandlers {
    audience: Audience,
    namespace: Arc<str>,
    entries: watch::Sender<Arc<[Entry]>>,
    last_id: AtomicU64,
}

impl TypeHandlers {
    pub(in crate::node) fn new(audience: Audience, namespace: &str) -> Self {
        TypeHandlers {
            audience,
            namespace: namespace.into(),
            entries: watch::Sender::new(Arc::new([])),
            last_id: AtomicU64::new(0),
        }
    }

    pub(in crate::node) fn add<D, F, R>(
        self: &Arc<Self>,
        pattern: &str,
        handler: F,
    ) -> Result<EventHandler, InvalidName>
    where
        D: Observed,
        F: Fn(Delivery<D>, Transaction) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        let pattern = EventPattern::new(pattern)?;
        let id = self.last_id.fetch_add(1, Ordering::Relaxed);
        let handler: Handler = Arc::new(Typed::<D, _>::new(Each(handler), &self.namespace));
        let entry = Entry { id, pattern, handler };
        self.entries.send_modify(|entries| *entries = entries.iter().cloned().chain([entry]).collect());
        Ok(EventHandler { id, handlers: Arc::downgrade(self) })
    }

    /// Removes the handlers for which `gone` is true. Returns how many there were.
    fn remove(&self, gone: impl Fn(&Entry) -> bool) -> usize {
        let mut removed = 0;
        self.entries.send_if_modified(|entries| {
            let left: Arc<[Entry]> = entries.iter().filter(|entry| !gone(entry)).cloned().collect();
            removed = entries.len() - left.len();
            *entries = left;
            removed > 0
        });
        removed
    }

    pub(in crate::node) fn remove_all_of(&self, pattern: &str) -> usize {
        self.remove(|entry| entry.pattern.as_str() == pattern)
    }

    pub(in crate::node) fn is_empty(&self) -> bool {
        self.entries.borrow().is_empty()
    }

    /// Changes with every handler that is added or removed.
    pub(in crate::node) fn changes(&self) -> watch::Receiver<Arc<[Entry]>> {
        self.entries.subscribe()
    }

    /// The types that are handled.
    pub(in crate::node) fn patterns(&self) -> Vec<String> {
        let entries = self.entries.borrow();
        let mut patterns: Vec<_> = entries.iter().map(|entry| entry.pattern.as_str().to_owned()).collect();
        patterns.sort_unstable();
        patterns.dedup();
        patterns
    }

    /// The handlers of a type, in the order in which they were added.
    fn of_type(&self, event_type: &str) -> Vec<Handler> {
        let entries = self.entries.borrow();
        let of_type = entries.iter().filter(|entry| entry.pattern.matches(event_type));
        of_type.map(|entry| entry.handler.clone()).collect()
    }

    /// Whether an event is for these handlers. Every event that this node has claimed counts as
    /// such: an event without a handler here is handed back, not settled.
    pub(in crate::node) fn wants(&self, event: &RecordedEvent) -> bool {
        match self.audience {
            Audience::One => true,
            Audience::All => {
                event.headers.contains_key(headers::BROADCAST)
                    && self.entries.borrow().iter().any(|entry| entry.pattern.matches(&event.event_type))
            }
        }
    }
}

#[async_trait]
impl HandleInTransaction for TypeHandlers {
    async fn handle(
        &self,
        events: &[Arc<RecordedEvent>],
        redeliveries: &[u32],
        tx: &mut OpenTransaction,
    ) -> Result<(), HandlerError> {
        let Some(event) = events.first() else { return Ok(()) };
        let is_broadcast = event.headers.contains_key(headers::BROADCAST);
        if is_broadcast != (self.audience == Audience::All) {
            return Ok(());
        }
        let handlers = self.of_type(&event.event_type);
        if handlers.is_empty() && self.audience == Audience::One {
            return Err(HandlerError::not_handled(format!("no handler for event {} here any more", event.event_type)));
        }
        for handler in handlers {
            handler.handle(events, redeliveries, tx).await?;
        }
        Ok(())
    }
}

/// A handler that was added to a node. Dropping this changes nothing: the handler stays.
#[derive(Debug, Clone)]
pub struct EventHandler {
    id: u64,
    handlers: Weak<TypeHandlers>,
}

impl EventHandler {
    /// Removes the handler: it gets no more events, but finishes the event that it is handling.
    /// Returns whether it was there.
    pub fn remove(&self) -> bool {
        self.handlers.upgrade().is_some_and(|handlers| handlers.remove(|entry| entry.id == self.id) > 0)
    }
}

impl std::fmt::Debug for TypeHandlers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TypeHandlers").field("patterns", &self.patterns()).finish_non_exhaustive()
    }
}
