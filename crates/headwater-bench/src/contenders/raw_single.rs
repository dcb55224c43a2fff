//! Bare single-row INSERTs into Headwater's own table: a prepared statement on connections that
//! stay open.

use std::sync::Arc;

use async_trait::async_trait;
use chrono::Utc;
use sqlx::PgConnection;
use sqlx::postgres::types::Oid;
use uuid::Uuid;

use super::{Contender, Turn};
use crate::drive::{Caller, drive};
use crate::payload::{EVENT_TYPE, Payloads};
use crate::stats::Sample;

/// Writers, each on its own connection.
#[derive(Debug)]
pub(crate) struct RawSingle {
    pub(crate) name: &'static str,
    pub(crate) writers: usize,
    /// Whether each writer writes to its own stream. The writer counts the versions itself.
    pub(crate) in_streams: bool,
}

struct Writer {
    conn: PgConnection,
    sequence: Oid,
    namespace_id: i32,
    payloads: Arc<Payloads>,
    stream_id: Option<String>,
    version: u64,
}

impl Caller for Writer {
    async fn call(&mut self) -> anyhow::Result<u64> {
        self.version += 1;
        sqlx::query(include_str!("../../sql/raw_single.sql"))
            .bind(self.sequence)
            .bind(Utc::now())
            .bind(self.namespace_id)
            .bind(Uuid::now_v7())
            .bind(EVENT_TYPE)
            .bind(self.stream_id.as_deref())
            .bind(self.stream_id.is_some().then_some(self.version as i64))
            .bind(self.payloads.jsonb(self.version))
            .fetch_one(&mut self.conn)
            .await?;
        Ok(1)
    }
}

#[async_trait]
impl Contender for RawSingle {
    fn name(&self) -> &'static str {
        self.name
    }

    async fn run(&self, mut turn: Turn<'_>) -> anyhow::Result<Sample> {
        let connections = turn.server.connections(self.writers).await?;
        let writers = connections.into_iter().map(|conn| Writer {
            conn,
            sequence: turn.server.sequence,
            namespace_id: turn.server.namespace_id(),
            payloads: turn.payloads.clone(),
            stream_id: self.in_streams.then(|| format!("order-{}", Uuid::new_v4())),
            version: 0,
        });
        drive(writers.collect(), &mut turn).await
    }
}
