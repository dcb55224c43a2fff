//! The laws for subscribers in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use headwater_conformance::{SubscriberBackend, SubscriberHandles, subscriber_laws};
use headwater_core::{AdminError, EventLog, NamespaceConfig};
use headwater_memory::{MemoryLog, MemorySubscribers};

/// The stores that were made, by namespace.
#[derive(Default)]
struct Memory(Mutex<BTreeMap<String, MemorySubscribers>>);

#[async_trait]
impl SubscriberBackend for Memory {
    async fn create(&self, config: NamespaceConfig) -> Result<SubscriberHandles, AdminError> {
        let log = MemoryLog::with_config(config)?;
        let store = MemorySubscribers::new(log.clone());
        self.0.lock().unwrap().insert(log.namespace().to_owned(), store.clone());
        Ok(SubscriberHandles { log: Arc::new(log), stores: [Arc::new(store.clone()), Arc::new(store)] })
    }

    async fn pass(&self, namespace: &str, by: Duration) {
        self.0.lock().unwrap()[namespace].advance_clock(by);
    }
}

subscriber_laws! { mod memory => async { Memory::default() } }
