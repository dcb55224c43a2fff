//! Handlers with their data types erased, as the executor runs them.

use std::sync::Arc;

use async_trait::async_trait;
use headwater_core::{Bundle, HandlerError, RecordedEvent};

use crate::node::delivery::open_transaction::OpenTransaction;

/// How a subscriber's events are handled.
#[derive(Clone)]
pub(in crate::node) enum Work {
    /// One event at a time, or one event per key at a time.
    Each(Arc<dyn Handle>),
    /// Many events at a time.
    Batch(Arc<dyn Handle>),
    /// In a transaction with the checkpoint or the ack.
    Transaction { handler: Arc<dyn HandleInTransaction>, per: TransactionScope, takes: Takes },
}

/// What one transaction of a transactional handler holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::node) enum TransactionScope {
    /// One event.
    Event,
    /// As many events as are there, up to the batch size. If one fails, each gets a transaction of
    /// its own.
    Batch,
    /// A bundle: the events that one transaction appended for a key, and the other events of that
    /// key that are there. Its effects all commit, or none do.
    Bundle(Bundle),
}

impl TransactionScope {
    /// The property that keeps the events of a transaction together, if there is one.
    pub(in crate::node) fn bundle(self) -> Option<Bundle> {
        match self {
            TransactionScope::Event | TransactionScope::Batch => None,
            TransactionScope::Bundle(bundle) => Some(bundle),
        }
    }
}

/// How many of a transaction's events one call of its handler gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::node) enum Takes {
    One,
    Many,
}

/// A handler without a transaction. A handler for single events gets slices of one event.
#[async_trait]
pub(in crate::node) trait Handle: Send + Sync {
    /// Handles the events. `redeliveries` says how often each event was delivered before, as far as
    /// that is known. Empty: none of them was.
    async fn handle(&self, events: &[Arc<RecordedEvent>], redeliveries: &[u32]) -> Result<(), HandlerError>;
}

/// A handler whose effects commit with the checkpoint or the ack.
#[async_trait]
pub(in crate::node) trait HandleInTransaction: Send + Sync {
    /// See [`Handle::handle`].
    async fn handle(
        &self,
        events: &[Arc<RecordedEvent>],
        redeliveries: &[u32],
        tx: &mut OpenTransaction,
    ) -> Result<(), HandlerError>;
}
