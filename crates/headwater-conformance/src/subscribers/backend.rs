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
}

/// The store that a law is tried on: empty, as its log, and nobody else's.
pub struct TestSubscribers {
    backend: Arc<dyn SubscriberBackend>,
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
        TestSubscribers { backend, log, processes }
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
