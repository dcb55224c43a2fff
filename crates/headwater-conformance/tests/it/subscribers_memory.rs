//! The laws for subscribers in memory.

use std::sync::Arc;

use async_trait::async_trait;
use headwater_conformance::{SubscriberBackend, SubscriberHandles, subscriber_laws};
use headwater_core::{AdminError, NamespaceConfig};
use headwater_memory::{MemoryLog, MemorySubscribers};

struct Memory;

#[async_trait]
impl SubscriberBackend for Memory {
    async fn create(&self, config: NamespaceConfig) -> Result<SubscriberHandles, AdminError> {
        let log = MemoryLog::with_config(config)?;
        let store = MemorySubscribers::new(log.clone());
        Ok(SubscriberHandles { log: Arc::new(log), stores: [Arc::new(store.clone()), Arc::new(store)] })
    }
}

subscriber_laws! { mod memory => async { Memory } }
