//! The calls by which operators look at subscribers and change them.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use headwater_core::{
    AuditReport, DeadLetter, DeadLetterQuery, GroupInfo, OperatorStore, SubscriberError, SubscriberInfo,
};

use super::call::{SCAN_TIMEOUT, calling};
use super::{PgSubscribers, Result, audit, dead_letters, groups, manage};

#[async_trait]
impl OperatorStore for PgSubscribers {
    async fn subscribers(&self) -> Result<Vec<SubscriberInfo>> {
        calling!(self.inner.database, conn => manage::status(conn, self.namespace(), None))
    }

    async fn subscriber(&self, subscriber_id: &str) -> Result<SubscriberInfo> {
        let found = calling!(self.inner.database, conn => manage::status(conn, self.namespace(), Some(subscriber_id)))?;
        found.into_iter().next().ok_or_else(|| SubscriberError::NotFound(subscriber_id.to_owned()))
    }

    async fn group(&self, subscriber_id: &str) -> Result<GroupInfo> {
        calling!(self.inner.database, conn => groups::group(conn, self.namespace(), self.id(), subscriber_id))
    }

    async fn resize(&self, subscriber_id: &str, partitions: u32) -> Result<()> {
        calling!(self.inner.database, conn => groups::resize(conn, self.namespace(), subscriber_id, partitions))
    }

    async fn set_event_types(&self, subscriber_id: &str, event_types: &[String]) -> Result<Option<Vec<String>>> {
        calling!(self.inner.database, conn => manage::set_event_types(conn, self.namespace(), subscriber_id, event_types))
    }

    async fn set_paused(&self, subscriber_id: &str, paused: bool) -> Result<()> {
        calling!(self.inner.database, conn => manage::set_paused(conn, self.namespace(), subscriber_id, paused))
    }

    async fn reset(&self, subscriber_id: &str, position: u64) -> Result<()> {
        calling!(self.inner.database, SCAN_TIMEOUT, conn => manage::reset(conn, self.namespace(), subscriber_id, position))
    }

    async fn remove(&self, subscriber_id: &str, force: bool) -> Result<()> {
        calling!(self.inner.database, SCAN_TIMEOUT, conn => manage::remove(conn, self.namespace(), subscriber_id, force))
    }

    async fn position_at(&self, time: DateTime<Utc>) -> Result<u64> {
        calling!(self.inner.database, SCAN_TIMEOUT, conn => manage::position_at(conn, self.namespace(), time))
    }

    async fn dead_letters(&self, query: &DeadLetterQuery) -> Result<Vec<DeadLetter>> {
        calling!(self.inner.database, conn => dead_letters::list(conn, self.id(), query))
    }

    async fn redrive(&self, query: &DeadLetterQuery) -> Result<u64> {
        calling!(self.inner.database, SCAN_TIMEOUT, conn => dead_letters::redrive(conn, self.namespace(), query))
    }

    async fn discard(&self, query: &DeadLetterQuery, reason: &str) -> Result<u64> {
        calling!(self.inner.database, SCAN_TIMEOUT, conn => dead_letters::discard(conn, self.namespace(), query, reason))
    }

    async fn audit(&self, subscriber_ids: &[String]) -> Result<AuditReport> {
        calling!(self.inner.database, SCAN_TIMEOUT, conn => audit::audit(conn, &self.inner.info, subscriber_ids))
    }
}
