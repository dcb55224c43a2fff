//! Bare INSERTs into Headwater's own table, many rows per statement: the most that the server can
//! take.

use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use sqlx::postgres::types::Oid;
use uuid::Uuid;

use super::{Contender, Turn};
use crate::drive::{Caller, drive};
use crate::payload::{EVENT_TYPE, Payloads};
use crate::stats::Sample;

const ROWS: u64 = 1_000;

/// Writers, each on its own connection.
#[derive(Debug)]
pub(crate) struct RawBatch {
    pub(crate) name: &'static str,
    pub(crate) writers: usize,
}

struct Writer {
    conn: PgConnection,
    sequence: Oid,
    namespace_id: i32,
    payloads: Arc<Payloads>,
    next: u64,
}

impl Caller for Writer {
    async fn call(&mut self) -> anyhow::Result<u64> {
        let times: Vec<DateTime<Utc>> = (0..ROWS).map(|_| Utc::now()).collect();
        let ids: Vec<Uuid> = (0..ROWS).map(|_| Uuid::now_v7()).collect();
        let data: Vec<&str> = (self.next..self.next + ROWS).map(|number| self.payloads.text(number)).collect();
        self.next += ROWS;
        let done = sqlx::query(include_str!("../../sql/raw_batch.sql"))
            .bind(self.sequence)
            .bind(self.namespace_id)
            .bind(times)
            .bind(ids)
            .bind(vec![EVENT_TYPE; ROWS as usize])
            .bind(data)
            .execute(&mut self.conn)
            .await?;
        Ok(done.rows_affected())
    }
}

#[async_trait]
impl Contender for RawBatch {
    fn name(&self) -> &'static str {
        self.name
    }

    async fn run(&self, mut turn: Turn<'_>) -> anyhow::Result<Sample> {
        let connections = turn.server.connections(self.writers).await?;
        let writers = connections.into_iter().zip(0..).map(|(conn, number)| Writer {
            conn,
            sequence: turn.server.sequence,
            namespace_id: turn.server.namespace_id(),
            payloads: turn.payloads.clone(),
            next: number * 7,
        });
        drive(writers.collect(), &mut turn).await
    }
}
