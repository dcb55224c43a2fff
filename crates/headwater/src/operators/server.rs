//! The whole server: its state, what is wrong with it, its replication slots.

use std::time::Duration;

use headwater_core::{AdminError, AppendError};
use headwater_postgres::{
    DoctorOptions, Finding, Fired, Holder, LiveNode, NamespaceStatus, OrphanedSlot, ReplicationSettings,
    ReplicationSlot, ServerStatus, SlotDropped,
};

use super::Admin;

impl Admin {
    /// The present state of the server.
    pub async fn status(&self) -> Result<ServerStatus, AdminError> {
        self.headwater.database.server_status().await
    }

    /// The state of all namespaces, by name, in one statement for any number of namespaces.
    pub async fn namespace_statuses(&self) -> Result<Vec<NamespaceStatus>, AdminError> {
        self.headwater.database.namespace_statuses().await
    }

    /// What is wrong with the server, or will be. The worst come first.
    pub async fn diagnose(&self, options: &DoctorOptions) -> Result<Vec<Finding>, AdminError> {
        self.headwater.database.diagnose(options).await
    }

    /// Who holds back appends or deliveries of a namespace, the oldest first. `None`: what affects
    /// all namespaces, which is locks on tables and commits that wait.
    pub async fn holders(&self, namespace: Option<&str>) -> Result<Vec<Holder>, AdminError> {
        self.headwater.database.holders(namespace).await
    }

    /// Runs `work`. If it takes seconds, and somebody holds a lock on a table for which sessions
    /// wait, it gives up and returns who that is. For commands and monitors that only read: they
    /// name what blocks everybody instead of hanging too.
    pub async fn unless_locked<T>(&self, work: impl Future<Output = T>) -> Result<T, Holder> {
        self.headwater.database.unless_locked(work).await
    }

    /// Appends the due events of all namespaces, at most `max_events` in each, and those of their
    /// schedules, and says when to call again.
    pub async fn fire_due(&self, max_events: u32) -> Result<Fired, AppendError> {
        self.headwater.database.fire_all_due(max_events).await
    }

    /// What following the WAL ([`Live::Cdc`](crate::cdc::Live::Cdc)) needs from the server and the
    /// role, and whether they have it now.
    pub async fn replication_settings(&self) -> Result<ReplicationSettings, AdminError> {
        self.headwater.database.replication_settings().await
    }

    /// Headwater's slots in this database: who reads them, and how much they retain.
    pub async fn replication_slots(&self) -> Result<Vec<ReplicationSlot>, AdminError> {
        self.headwater.database.replication_slots().await
    }

    /// The nodes of all processes that follow the WAL or were asked to, with what each has reported
    /// about its live source.
    pub async fn live_nodes(&self) -> Result<Vec<LiveNode>, AdminError> {
        self.headwater.database.live_nodes().await
    }

    /// Durable slots that nobody reads and nobody will. Either their namespace is gone, or no live
    /// node of it wants an inbox and nobody has owned the slot for `unread_for`. Nodes that follow
    /// the WAL drop such slots after an hour.
    pub async fn orphaned_slots(&self, unread_for: Duration) -> Result<Vec<OrphanedSlot>, AdminError> {
        self.headwater.database.orphaned_slots(unread_for).await
    }

    /// Drops one of Headwater's slots that nobody reads.
    pub async fn drop_replication_slot(&self, slot: &str) -> Result<SlotDropped, AdminError> {
        self.headwater.database.drop_replication_slot(slot).await
    }
}
