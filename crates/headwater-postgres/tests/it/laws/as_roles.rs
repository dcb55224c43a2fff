//! The laws for PostgreSQL, as roles that own nothing: an admin of the namespace appends and reads,
//! a consumer has the subscribers. The roles stay until the server ends.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use headwater_conformance::{Backend, Handles, SubscriberBackend, SubscriberHandles, log_laws, subscriber_laws};
use headwater_core::{AdminError, NamespaceConfig};
use headwater_postgres::{Database, GrantKind, LogOptions, PgSubscribers, SubscribersOptions};
use headwater_testing::TestDatabase;

/// A database of its own, and two roles.
struct Roles {
    owner: TestDatabase,
    admin: (String, Database),
    consumer: (String, Database),
}

impl Roles {
    async fn start() -> Self {
        let owner = TestDatabase::create().await;
        let (admin, consumer) = (owner.role().await, owner.role().await);
        // In another namespace first, so that both have what it takes to connect, and it is the
        // grant of the law's that counts.
        owner.log("of-the-roles").await;
        owner.database.grant("of-the-roles", &admin.name, GrantKind::Admin).await.expect("failed to grant");
        owner.database.grant("of-the-roles", &consumer.name, GrantKind::Consumer).await.expect("failed to grant");
        let (as_admin, as_consumer) = (admin.database().await, consumer.database().await);
        Roles { owner, admin: (admin.name, as_admin), consumer: (consumer.name, as_consumer) }
    }

    /// A namespace made by the owner and granted to the roles.
    async fn namespace(&self, config: &NamespaceConfig) -> Result<(), AdminError> {
        let owner = &self.owner.database;
        owner.create_namespace(config).await?;
        owner.grant(&config.name, &self.admin.0, GrantKind::Admin).await?;
        owner.grant(&config.name, &self.consumer.0, GrantKind::Consumer).await
    }
}

#[async_trait]
impl Backend for Roles {
    async fn create(&self, config: NamespaceConfig) -> Result<Handles, AdminError> {
        self.namespace(&config).await?;
        let first = self.admin.1.open_log(&config.name, LogOptions::default()).await?;
        let second = self.admin.1.open_log(&config.name, LogOptions::default()).await?;
        Ok([Arc::new(first), Arc::new(second)])
    }
}

#[async_trait]
impl SubscriberBackend for Roles {
    async fn create(&self, config: NamespaceConfig) -> Result<SubscriberHandles, AdminError> {
        self.namespace(&config).await?;
        let log = self.admin.1.open_log(&config.name, LogOptions::default()).await?;
        let open = || {
            let options = SubscribersOptions { session_locks: true };
            Arc::new(PgSubscribers::new(self.consumer.1.clone(), log.info().clone(), options))
        };
        Ok(SubscriberHandles { stores: [open(), open()], log: Arc::new(log) })
    }

    async fn pass(&self, namespace: &str, by: Duration) {
        self.owner.pass(namespace, by).await;
    }

    async fn hand_out(&self, namespace: &str, up_to: u64) {
        self.owner.hand_out(namespace, up_to).await;
    }
}

log_laws! { mod log => Roles::start() }
subscriber_laws! { mod subscribers => Roles::start() }
