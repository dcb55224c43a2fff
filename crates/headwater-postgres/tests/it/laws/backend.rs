//! PostgreSQL as a backend for the laws.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use headwater_conformance::{Backend, Handles, SubscriberBackend, SubscriberHandles};
use headwater_core::{AdminError, NamespaceConfig, Ordering, Storage};
use headwater_postgres::{LogOptions, PgSubscribers, SubscribersOptions};
use headwater_testing::TestDatabase;

/// A database of its own, whose namespaces number and store their events in one way.
pub(crate) struct PostgresBackend {
    database: TestDatabase,
    ordering: Ordering,
    storage: Storage,
}

impl PostgresBackend {
    /// In a new database.
    pub(crate) async fn start(ordering: Ordering) -> Self {
        PostgresBackend { database: TestDatabase::create().await, ordering, storage: Storage::Shared }
    }

    /// In a new database, whose namespaces have months of their own.
    pub(crate) async fn start_own() -> Self {
        PostgresBackend { storage: Storage::Own, ..Self::start(Ordering::Sequence).await }
    }
}

#[async_trait]
impl Backend for PostgresBackend {
    async fn create(&self, config: NamespaceConfig) -> Result<Handles, AdminError> {
        let database = &self.database.database;
        let config = config.ordering(self.ordering).storage(self.storage);
        database.create_namespace(&config).await?;
        // Two queues of appends, so that transactions meet which no coalescer could bring together.
        let first = database.open_log(&config.name, LogOptions::default()).await?;
        let second = database.open_log(&config.name, LogOptions::default()).await?;
        Ok([Arc::new(first), Arc::new(second)])
    }
}

#[async_trait]
impl SubscriberBackend for PostgresBackend {
    async fn create(&self, config: NamespaceConfig) -> Result<SubscriberHandles, AdminError> {
        let database = &self.database.database;
        let config = config.ordering(self.ordering).storage(self.storage);
        database.create_namespace(&config).await?;
        let log = database.open_log(&config.name, LogOptions::default()).await?;
        let open = || {
            let options = SubscribersOptions { session_locks: true };
            Arc::new(PgSubscribers::new(database.clone(), log.info().clone(), options))
        };
        Ok(SubscriberHandles { stores: [open(), open()], log: Arc::new(log) })
    }

    async fn pass(&self, namespace: &str, by: Duration) {
        self.database.pass(namespace, by).await;
    }

    async fn hand_out(&self, namespace: &str, up_to: u64) {
        self.database.hand_out(namespace, up_to).await;
    }
}
