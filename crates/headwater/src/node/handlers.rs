//! Handlers by event type: those of a node, in memory, and how events come to them.
//!
//! All handlers of a namespace are workers of one shared subscriber, [`HANDLERS`]: nodes compete for its events, each for the types that it has
//! handlers for. What a node has claimed and has no handler for any more is handed back untouched. Broadcasts go to a subscriber of each node.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use futures::future::BoxFuture;
use headwater_core::{Event, EventEnvelope, EventPattern, HandlerError, InvalidName, Json, headers};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use super::handler::InTransaction;
use super::lent::{HandlerTransaction, Lent};

/// The shared subscriber whose events the handlers of all nodes are given.
pub const HANDLERS: &str = "handlers";

/// An event as a handler is given it: the [`Event`], and what is known of its delivery.
#[derive(Debug, Clone)]
pub struct HandledEvent {
    event: Arc<Event>,
    namespace: Arc<str>,
    redelivery_count: u32,
}

impl HandledEvent {
    pub(super) fn new(event: Arc<Event>, namespace: Arc<str>, redelivery_count: u32) -> Self {
        HandledEvent { event, namespace, redelivery_count }
    }

    /// How often it was delivered before: 0 the first time.
    pub fn redelivery_count(&self) -> u32 {
        self.redelivery_count
    }

    /// Its place in the log: its `global_sequence`.
    pub fn message_id(&self) -> u64 {
        self.event.global_sequence.unwrap_or_default()
    }

    /// Its data as a type of the handler's. Data that is not of this type will not be later: that is a permanent error.
    pub fn payload<T: DeserializeOwned>(&self) -> Result<T, HandlerError> {
        self.event.data.clone().unwrap_or_else(Json::null).decode().map_err(HandlerError::permanent)
    }

    /// As consumers of a message bus take it.
    pub fn envelope(&self) -> EventEnvelope {
        EventEnvelope::of(&*self.namespace, &self.event, Some(self.redelivery_count))
    }
}

impl Deref for HandledEvent {
    type Target = Event;

    fn deref(&self) -> &Event {
        &self.event
    }
}

type Handler =
    Arc<dyn Fn(HandledEvent, HandlerTransaction) -> BoxFuture<'static, Result<(), HandlerError>> + Send + Sync>;

#[derive(Clone)]
pub(super) struct Entry {
    id: u64,
    pattern: EventPattern,
    handler: Handler,
}

/// Which events of the log are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Audience {
    /// For one of the nodes that handle the type.
    One,
    /// For every node.
    All,
}

/// The handlers of a node for events, or for broadcasts.
pub(super) struct Handlers {
    audience: Audience,
    namespace: Arc<str>,
    entries: watch::Sender<Arc<[Entry]>>,
    last_id: AtomicU64,
}

impl Handlers {
    pub(super) fn new(audience: Audience, namespace: &str) -> Self {
        Handlers {
            audience,
            namespace: namespace.into(),
            entries: watch::Sender::new(Arc::new([])),
            last_id: AtomicU64::new(0),
        }
    }

    pub(super) fn add<F, R>(self: &Arc<Self>, pattern: &str, handler: F) -> Result<EventHandler, InvalidName>
    where
        F: Fn(HandledEvent, HandlerTransaction) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        let pattern = EventPattern::new(pattern)?;
        let id = self.last_id.fetch_add(1, Ordering::Relaxed);
        let handler: Handler = Arc::new(move |event, tx| Box::pin(handler(event, tx)));
        let entry = Entry { id, pattern, handler };
        self.entries.send_modify(|entries| *entries = entries.iter().cloned().chain([entry]).collect());
        Ok(EventHandler { id, handlers: Arc::downgrade(self) })
    }

    /// Returns how many there were.
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

    pub(super) fn remove_all_of(&self, pattern: &str) -> usize {
        self.remove(|entry| entry.pattern.as_str() == pattern)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.borrow().is_empty()
    }

    /// Changes with every handler that is added or removed.
    pub(super) fn changes(&self) -> watch::Receiver<Arc<[Entry]>> {
        self.entries.subscribe()
    }

    /// The types that are handled.
    pub(super) fn patterns(&self) -> Vec<String> {
        let entries = self.entries.borrow();
        let mut patterns: Vec<_> = entries.iter().map(|entry| entry.pattern.as_str().to_owned()).collect();
        patterns.sort_unstable();
        patterns.dedup();
        patterns
    }

    /// In the order in which they were added.
    fn of_type(&self, event_type: &str) -> Vec<Handler> {
        let entries = self.entries.borrow();
        let of_type = entries.iter().filter(|entry| entry.pattern.matches(event_type));
        of_type.map(|entry| entry.handler.clone()).collect()
    }

    /// Whether an event is theirs. Of those that one node handles, all that this one has claimed are: what it has no handler for any more
    /// is not settled, but handed back.
    pub(super) fn wants(&self, event: &Event) -> bool {
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
impl InTransaction for Handlers {
    async fn handle(&self, event: &Arc<Event>, tx: &mut Lent) -> Result<(), HandlerError> {
        let is_broadcast = event.headers.contains_key(headers::BROADCAST);
        if is_broadcast != (self.audience == Audience::All) {
            return Ok(());
        }
        let handlers = self.of_type(&event.event_type);
        if handlers.is_empty() && self.audience == Audience::One {
            return Err(HandlerError::not_handled(format!("no handler for event {} here any more", event.event_type)));
        }
        let redelivery_count = tx.redelivery_count;
        for handler in handlers {
            let event = HandledEvent::new(event.clone(), self.namespace.clone(), redelivery_count);
            tx.lend(|tx| handler(event, tx)).await?;
        }
        Ok(())
    }
}

/// A handler that was added to a node. Dropping this changes nothing: the handler stays.
#[derive(Debug, Clone)]
pub struct EventHandler {
    id: u64,
    handlers: Weak<Handlers>,
}

impl EventHandler {
    /// Takes the handler away: it is given no more events. One that it has at hand, it finishes. Returns whether it was there.
    pub fn remove(&self) -> bool {
        self.handlers.upgrade().is_some_and(|handlers| handlers.remove(|entry| entry.id == self.id) > 0)
    }
}

impl std::fmt::Debug for Handlers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handlers").field("patterns", &self.patterns()).finish_non_exhaustive()
    }
}
