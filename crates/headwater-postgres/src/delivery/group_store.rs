//! The calls by which nodes learn about groups and take their share.

use std::time::Duration;

use async_trait::async_trait;
use headwater_core::{
    Checkpoint, GroupStore, GroupView, Instance, LeaseReply, LeaseRequest, PartitionId, Report, SubscriberConfig,
};

use super::call::{SCAN_TIMEOUT, calling};
use super::{PgSubscribers, Result, checkpoint, groups, manage};

#[async_trait]
impl GroupStore for PgSubscribers {
    async fn register(&self, config: &SubscriberConfig) -> Result<()> {
        calling!(self.inner.database, SCAN_TIMEOUT, conn => manage::register(conn, self.namespace(), config))
    }

    async fn keep(&self, instance: &Instance, requests: &[LeaseRequest], lease: Duration) -> Result<Vec<LeaseReply>> {
        self.keep_leases(instance, requests, lease).await
    }

    async fn release(&self, instance: &Instance, partitions: &[PartitionId]) -> Result<()> {
        self.release_leases(instance, partitions).await
    }

    async fn join(&self, instance: &Instance, groups: &[String], lease: Duration) -> Result<Vec<GroupView>> {
        self.join_groups(instance, groups, lease).await
    }

    async fn leave(&self, instance: &Instance, groups: &[String]) -> Result<()> {
        calling!(self.inner.database, conn => groups::leave(conn, self.namespace(), instance, groups))
    }

    async fn position(&self, subscriber_id: &str) -> Result<Checkpoint> {
        calling!(self.inner.database, conn => checkpoint::position(conn, self.id(), subscriber_id))
    }

    async fn attend_queues(
        &self,
        instance: &Instance,
        queues: &[(String, f64)],
        lease: Duration,
    ) -> Result<Vec<String>> {
        calling!(self.inner.database, conn => manage::attend_queues(conn, self.id(), instance, queues, lease))
    }

    async fn attend_alone(&self, subscribers: &[(String, Report)], lease: Duration) -> Result<()> {
        calling!(self.inner.database, conn => manage::attend_alone(conn, self.namespace(), subscribers, lease))
    }
}
