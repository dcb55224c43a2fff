//! Tables that applications make themselves: one with a trigger that calls NOTIFY, one with numbers
//! from a counter row.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::PgConnection;
use uuid::Uuid;

use super::{Contender, Turn};
use crate::drive::{Caller, drive};
use crate::payload::{EVENT_TYPE, Payloads};
use crate::stats::Sample;

/// Writers of one row per call, each on its own connection.
#[derive(Debug)]
pub(crate) struct PlainInsert {
    name: &'static str,
    statement: &'static str,
    writers: usize,
}

impl PlainInsert {
    /// A statement-level trigger calls NOTIFY. Nobody listens, which favours this contender.
    pub(crate) fn trigger_notify(writers: usize) -> Self {
        PlainInsert { name: "trigger_notify_64", statement: include_str!("../../sql/trigger_notify.sql"), writers }
    }

    /// The numbers come from one row: no gaps, and one writer at a time.
    pub(crate) fn log_counter(writers: usize) -> Self {
        PlainInsert { name: "log_counter_64", statement: include_str!("../../sql/log_counter.sql"), writers }
    }
}

struct Writer {
    conn: PgConnection,
    statement: &'static str,
    payloads: Arc<Payloads>,
    next: u64,
}

impl Caller for Writer {
    async fn call(&mut self) -> anyhow::Result<u64> {
        let payload = self.payloads.jsonb(self.next);
        self.next += 1;
        sqlx::query(self.statement)
            .bind(Uuid::now_v7())
            .bind(EVENT_TYPE)
            .bind(payload)
            .fetch_one(&mut self.conn)
            .await?;
        Ok(1)
    }
}

#[async_trait]
impl Contender for PlainInsert {
    fn name(&self) -> &'static str {
        self.name
    }

    async fn run(&self, mut turn: Turn<'_>) -> anyhow::Result<Sample> {
        let connections = turn.server.connections(self.writers).await?;
        let writers = connections.into_iter().zip(0..).map(|(conn, number)| Writer {
            conn,
            statement: self.statement,
            payloads: turn.payloads.clone(),
            next: number * 7,
        });
        drive(writers.collect(), &mut turn).await
    }
}
