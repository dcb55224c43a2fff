//! The contenders that append: Headwater in several ways, and its baselines.

pub(crate) mod bare_select;
mod bulk_import;
mod headwater;
mod pgmq;
mod plain_insert;
mod raw_batch;
mod raw_single;

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::PgConnection;

pub(crate) use self::bulk_import::BulkImport;
pub(crate) use self::headwater::{AppendToStreams, Emit};
pub(crate) use self::pgmq::{PgmqSend, install as install_pgmq};
pub(crate) use self::plain_insert::PlainInsert;
pub(crate) use self::raw_batch::RawBatch;
pub(crate) use self::raw_single::RawSingle;
use crate::drive::Window;
use crate::payload::Payloads;
use crate::server::BenchServer;
use crate::stats::Sample;

/// Where and for how long a contender runs.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    pub(crate) server: &'a BenchServer,
    pub(crate) payloads: &'a Arc<Payloads>,
    pub(crate) window: Window,
    pub(crate) monitor: &'a mut PgConnection,
}

/// A way to append.
#[async_trait]
pub(crate) trait Contender: Send + Sync {
    /// The name in the figures.
    fn name(&self) -> &'static str;

    /// Runs one turn.
    async fn run(&self, turn: Turn<'_>) -> anyhow::Result<Sample>;
}
