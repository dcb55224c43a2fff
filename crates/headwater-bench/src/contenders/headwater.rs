//! Headwater with default options. All producers share one [`Namespace`], as in one process of an
//! application.

use std::sync::Arc;

use async_trait::async_trait;
use headwater::{ExpectedVersion, Namespace};
use uuid::Uuid;

use super::{Contender, Turn};
use crate::drive::{Caller, drive};
use crate::payload::Payloads;
use crate::stats::Sample;

/// Producers that emit one event per call.
#[derive(Debug)]
pub(crate) struct Emit {
    pub(crate) name: &'static str,
    pub(crate) producers: usize,
}

struct Emitter {
    namespace: Namespace,
    payloads: Arc<Payloads>,
    next: u64,
}

impl Caller for Emitter {
    async fn call(&mut self) -> anyhow::Result<u64> {
        let event = self.payloads.event(self.next);
        self.next += 1;
        self.namespace.emit(event).await?;
        Ok(1)
    }
}

#[async_trait]
impl Contender for Emit {
    fn name(&self) -> &'static str {
        self.name
    }

    async fn run(&self, mut turn: Turn<'_>) -> anyhow::Result<Sample> {
        let emitter = |number| Emitter {
            namespace: turn.server.namespace.clone(),
            payloads: turn.payloads.clone(),
            next: number as u64 * 7,
        };
        let head = turn.server.head().await?;
        let sample = drive((0..self.producers).map(emitter).collect(), &mut turn).await?;
        with_events_per_commit(sample, head, turn).await
    }
}

/// Producers that each append to their own stream with the expected version.
#[derive(Debug)]
pub(crate) struct AppendToStreams {
    pub(crate) producers: usize,
}

struct StreamWriter {
    namespace: Namespace,
    payloads: Arc<Payloads>,
    stream_id: String,
    version: u64,
}

impl Caller for StreamWriter {
    async fn call(&mut self) -> anyhow::Result<u64> {
        let expected = ExpectedVersion::Exact(self.version);
        let event = self.payloads.event(self.version);
        let appended = self.namespace.append(self.stream_id.as_str(), expected, [event]).await?;
        self.version = appended.stream_version().unwrap_or_default();
        Ok(1)
    }
}

#[async_trait]
impl Contender for AppendToStreams {
    fn name(&self) -> &'static str {
        "headwater_append_64_streams"
    }

    async fn run(&self, mut turn: Turn<'_>) -> anyhow::Result<Sample> {
        let writer = |_| StreamWriter {
            namespace: turn.server.namespace.clone(),
            payloads: turn.payloads.clone(),
            stream_id: format!("order-{}", Uuid::new_v4()),
            version: 0,
        };
        let head = turn.server.head().await?;
        let sample = drive((0..self.producers).map(writer).collect(), &mut turn).await?;
        with_events_per_commit(sample, head, turn).await
    }
}

async fn with_events_per_commit(mut sample: Sample, after: i64, turn: Turn<'_>) -> anyhow::Result<Sample> {
    let per_commit = sqlx::query_scalar(include_str!("../../sql/events_per_commit.sql"))
        .bind(turn.server.namespace_id())
        .bind(after)
        .fetch_one(turn.monitor)
        .await?;
    sample.events_per_commit = Some(per_commit);
    Ok(sample)
}
