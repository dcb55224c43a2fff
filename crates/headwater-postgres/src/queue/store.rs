//! The queue that workers use, whatever backend keeps it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use headwater_core::{Claim, ClaimRequest, QueueStore, Queues};
use uuid::Uuid;

use super::{PgQueue, Result};
use crate::PgSubscribers;

impl Queues for PgSubscribers {
    fn queue(&self, subscriber_id: &str) -> Arc<dyn QueueStore> {
        Arc::new(PgQueue::new(self.database().clone(), self.info().clone(), subscriber_id))
    }
}

#[async_trait]
impl QueueStore for PgQueue {
    fn subscriber_id(&self) -> &str {
        self.subscriber_id()
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Vec<Claim>> {
        self.claim(request).await
    }

    async fn ack(&self, claim_id: Uuid, sequences: Option<&[u64]>) -> Result<()> {
        self.ack(claim_id, sequences).await
    }

    async fn nack(&self, claim_id: Uuid, sequences: Option<&[u64]>, delay: Duration, error: &str) -> Result<()> {
        self.nack(claim_id, sequences, delay, error).await
    }

    async fn reject(&self, claim_id: Uuid, sequences: Option<&[u64]>, error: &str) -> Result<()> {
        self.reject(claim_id, sequences, error).await
    }

    async fn release(&self, claim_id: Uuid, sequences: Option<&[u64]>) -> Result<()> {
        self.release(claim_id, sequences).await
    }

    async fn extend(&self, claim_id: Uuid, visibility: Duration) -> Result<DateTime<Utc>> {
        self.extend(claim_id, visibility).await
    }
}
