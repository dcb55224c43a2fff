//! pgmq: a message queue in SQL, whose `send` is one INSERT.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::{PgConnection, PgPool};

use super::{Contender, Turn};
use crate::drive::{Caller, drive};
use crate::payload::Payloads;
use crate::stats::Sample;

/// Installs pgmq's SQL and makes the queue `bench`.
pub(crate) async fn install(pool: &PgPool) -> anyhow::Result<()> {
    pgmq::install::install_sql_from_embedded(pool).await?;
    sqlx::query(include_str!("../../sql/pgmq_create.sql")).execute(pool).await?;
    Ok(())
}

/// Callers of `pgmq.send`, each on its own connection.
#[derive(Debug)]
pub(crate) struct PgmqSend {
    pub(crate) callers: usize,
}

struct Sender {
    conn: PgConnection,
    payloads: Arc<Payloads>,
    next: u64,
}

impl Caller for Sender {
    async fn call(&mut self) -> anyhow::Result<u64> {
        let payload = self.payloads.jsonb(self.next);
        self.next += 1;
        sqlx::query(include_str!("../../sql/pgmq_send.sql")).bind(payload).fetch_one(&mut self.conn).await?;
        Ok(1)
    }
}

#[async_trait]
impl Contender for PgmqSend {
    fn name(&self) -> &'static str {
        "pgmq_send_64"
    }

    async fn run(&self, mut turn: Turn<'_>) -> anyhow::Result<Sample> {
        let connections = turn.server.connections(self.callers).await?;
        let senders = connections.into_iter().zip(0..).map(|(conn, number)| Sender {
            conn,
            payloads: turn.payloads.clone(),
            next: number * 7,
        });
        drive(senders.collect(), &mut turn).await
    }
}
