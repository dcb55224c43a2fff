//! What a store of subscribers must offer to be held to the laws.

use std::sync::Arc;

use async_trait::async_trait;
use headwater_core::{AdminError, EventLog, Instance, NamespaceConfig, SubscriberStore};

use super::support::Process;

/// A log, and the store of its subscribers, opened twice as if by two processes.
pub struct SubscriberHandles {
    /// The log.
    pub log: Arc<dyn EventLog>,
    /// The store.
    pub stores: [Arc<dyn SubscriberStore>; 2],
}

/// Makes namespaces for tests.
#[async_trait]
pub trait SubscriberBackend: Send + Sync {
    /// Makes a namespace, and opens its log and the store of its subscribers.
    async fn create(&self, config: NamespaceConfig) -> Result<SubscriberHandles, AdminError>;

    /// Hands out sequences up to this one without events, as appends do that are rolled back. A backend that refuses positions beyond the head of
    /// its log must do so; others need not.
    async fn hand_out(&self, namespace: &str, up_to: u64) {
        _ = (namespace, up_to);
    }
}

/// The store that a law is tried on: empty, as its log, and nobody else's.
pub struct TestSubscribers {
    backend: Arc<dyn SubscriberBackend>,
    namespace: String,
    /// The log.
    pub log: Arc<dyn EventLog>,
    processes: [Process; 2],
}

impl TestSubscribers {
    /// The store of a new namespace with default settings.
    pub async fn new(backend: impl SubscriberBackend + 'static) -> Self {
        Self::named(Arc::new(backend), "law").await
    }

    /// That of another namespace beside it.
    pub(crate) async fn beside(&self, namespace: &str) -> Self {
        Self::named(self.backend.clone(), namespace).await
    }

    async fn named(backend: Arc<dyn SubscriberBackend>, namespace: &str) -> Self {
        let created = backend.create(NamespaceConfig::new(namespace)).await;
        let SubscriberHandles { log, stores: [first, second] } = created.expect("failed to create a namespace");
        let processes = [
            Process { store: first, instance: Instance::new("first") },
            Process { store: second, instance: Instance::new("second") },
        ];
        TestSubscribers { backend, namespace: namespace.to_owned(), log, processes }
    }

    /// Lets positions up to this one be written.
    pub(crate) async fn hand_out(&self, up_to: u64) {
        self.backend.hand_out(&self.namespace, up_to).await;
    }

    /// One process.
    pub(crate) fn first(&self) -> &Process {
        &self.processes[0]
    }

    /// The other.
    pub(crate) fn second(&self) -> &Process {
        &self.processes[1]
    }
}
