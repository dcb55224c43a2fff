//! The interface of a backend whose store of subscribers is tested.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use headwater_core::{AdminError, EventLog, Instance, NamespaceConfig, SubscriberStore};

use super::support::Process;

/// A log, and the store of its subscribers, opened twice as if by two processes.
pub struct SubscriberHandles {
    /// The log of the namespace.
    pub log: Arc<dyn EventLog>,
    /// The two handles of the store of its subscribers.
    pub stores: [Arc<dyn SubscriberStore>; 2],
}

/// Creates namespaces for tests.
#[async_trait]
pub trait SubscriberBackend: Send + Sync {
    /// Creates a namespace, and opens its log and the store of its subscribers.
    async fn create(&self, config: NamespaceConfig) -> Result<SubscriberHandles, AdminError>;

    /// Lets time pass on the store's clock: leases and claims end, and retries become due. The laws
    /// let many minutes pass, so a backend that cannot move its clock must move its stored times.
    async fn pass(&self, namespace: &str, by: Duration);

    /// Hands out sequences up to this one without events, like appends that are rolled back. Only a
    /// backend that refuses positions beyond the head of its log must implement this.
    async fn hand_out(&self, namespace: &str, up_to: u64) {
        _ = (namespace, up_to);
    }
}

/// The store that a law tests. The store and its log are empty, and nobody else uses them.
pub struct TestSubscribers {
    backend: Arc<dyn SubscriberBackend>,
    namespace: String,
    /// The log of the namespace.
    pub log: Arc<dyn EventLog>,
    processes: [Process; 2],
}

impl TestSubscribers {
    /// The store of a new namespace with default settings.
    pub async fn new(backend: impl SubscriberBackend + 'static) -> Self {
        Self::named(Arc::new(backend), "law").await
    }

    /// The store of another namespace beside it.
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

    /// Makes positions up to this one valid to write.
    pub(crate) async fn hand_out(&self, up_to: u64) {
        self.backend.hand_out(&self.namespace, up_to).await;
    }

    /// Lets time pass.
    pub(crate) async fn pass(&self, by: Duration) {
        self.backend.pass(&self.namespace, by).await;
    }

    /// The first process.
    pub(crate) fn first(&self) -> &Process {
        &self.processes[0]
    }

    /// The second process.
    pub(crate) fn second(&self) -> &Process {
        &self.processes[1]
    }
}
