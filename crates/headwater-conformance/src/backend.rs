//! The interface of a backend whose log is tested.

use std::ops::Deref;
use std::sync::Arc;

use async_trait::async_trait;
use headwater_core::{AdminError, EventLog, NamespaceConfig};

/// One log, opened twice as if by two processes.
pub type Handles = [Arc<dyn EventLog>; 2];

/// Creates namespaces for tests.
#[async_trait]
pub trait Backend: Send + Sync {
    /// Creates a namespace and opens its log.
    async fn create(&self, config: NamespaceConfig) -> Result<Handles, AdminError>;
}

/// The log that a law tests. It is empty, and nobody else uses it.
pub struct TestLog {
    backend: Box<dyn Backend>,
    handles: Handles,
}

impl TestLog {
    /// The log of a new namespace with default settings.
    pub async fn new(backend: impl Backend + 'static) -> Self {
        let handles = backend.create(NamespaceConfig::new("law")).await.expect("failed to create a namespace");
        TestLog { backend: Box::new(backend), handles }
    }

    /// Creates another namespace beside it.
    pub async fn create(&self, config: NamespaceConfig) -> Result<Arc<dyn EventLog>, AdminError> {
        let [log, _] = self.backend.create(config).await?;
        Ok(log)
    }

    /// One of the two handles, in turn, as if another process had opened the log.
    pub fn handle(&self, number: usize) -> Arc<dyn EventLog> {
        self.handles[number % self.handles.len()].clone()
    }
}

impl Deref for TestLog {
    type Target = dyn EventLog;

    fn deref(&self) -> &Self::Target {
        &*self.handles[0]
    }
}

/// Runs the future of a law in a test.
pub fn check(law: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("failed to start a runtime").block_on(law);
}
