//! The laws for the log in memory.

use std::sync::Arc;

use async_trait::async_trait;
use headwater_conformance::{Backend, Handles, log_laws};
use headwater_core::{AdminError, NamespaceConfig};
use headwater_memory::MemoryLog;

struct Memory;

#[async_trait]
impl Backend for Memory {
    async fn create(&self, config: NamespaceConfig) -> Result<Handles, AdminError> {
        let log = MemoryLog::with_config(config)?;
        Ok([Arc::new(log.clone()), Arc::new(log)])
    }
}

log_laws! { mod memory => async { Memory } }
