//! From a stream to its sink: transactions, in the batches in which they arrived.

use async_trait::async_trait;
use headwater_core::{AdminError, Backoff, History, NamespaceInfo};
use headwater_postgres::{Database, Servers};
use tokio::time::sleep;

use std::convert::Infallible;
use std::time::Duration;

use crate::pgoutput::Pgoutput;
use crate::replication::{Message, Replication};
use crate::transactions::{Change, Transactions};
use crate::{CdcError, CdcOptions, Endpoint, Plugin, Transaction, pgoutput, wal2json};

/// The pause between checks whether a transaction is visible by now.
const FIRST_LOOK: Duration = Duration::from_micros(200);
const LONGEST_LOOK: Duration = Duration::from_millis(20);
/// Most transactions and bytes per batch.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// Takes transactions that have something of the namespace. When it returns, they are safe, and are
/// acknowledged.
#[async_trait]
pub(crate) trait Sink: Sync {
    async fn take(&self, transactions: Vec<Transaction>) -> Result<(), CdcError>;

    /// Everything that the WAL has up to here was taken, or does not belong to the namespace.
    async fn passed(&self, _lsn: u64) -> Result<(), CdcError> {
        Ok(())
    }
    /// This many bytes of WAL are sent and not safe yet.
    fn lag(&self, bytes: u64);
}

/// Passes transactions on until the stream ends. A transaction without anything of the namespace is
/// acknowledged and goes no further: writing something for it would create WAL again, and so on
/// forever.
pub(crate) async fn pump(
    replication: &mut Replication,
    plugin: Plugin,
    namespace_id: i32,
    sink: &dyn Sink,
) -> Result<Infallible, CdcError> {
    let mut decoder = Decoder::new(plugin);
    let mut transactions = Transactions::of(namespace_id);
    let mut batch: Vec<Transaction> = Vec::new();
    let mut passed = 0;
    loop {
        let bytes: usize = batch.iter().map(|transaction| transaction.bytes).sum();
        // Take together what has arrived together, and never wait for more.
        if !batch.is_empty() && (!replication.has_more() || batch.len() >= BATCH || bytes >= BATCH_BYTES) {
            let end = batch.last().map_or(0, |transaction| transaction.end_lsn);
            let ours: Vec<_> = batch.drain(..).filter(|transaction| !transaction.is_empty()).collect();
            if !ours.is_empty() {
                replication.while_waiting(sink.take(ours)).await?;
            }
            replication.acknowledge(end);
            sink.lag(replication.lag());
            replication.speak_if_due().await?;
        }
        if replication.acknowledged() > passed {
            passed = replication.acknowledged();
            replication.while_waiting(sink.passed(passed)).await?;
        }
        let idle = batch.is_empty() && !transactions.is_open();
        let Some(message) = replication.next(idle).await? else {
            sink.lag(replication.lag());
            continue;
        };
        batch.extend(transactions.take(decoder.decode(&message)?));
    }
}

/// Returns where to replicate from.
pub(crate) async fn endpoint(
    database: &Database,
    info: &NamespaceInfo,
    node: &str,
    options: &CdcOptions,
) -> Result<Endpoint, CdcError> {
    let endpoint = match &options.url {
        Some(url) => {
            let servers: Servers =
                url.parse().map_err(|error: AdminError| CdcError::InvalidInput(error.to_string()))?;
            Endpoint::of(&servers.resolve().await.map_err(unreachable)?)?
        }
        None if database.is_behind_pooler() => {
            let reason = "the pool goes through a pooler: name the server itself in CdcOptions::url";
            return Err(CdcError::InvalidInput(reason.into()));
        }
        None => Endpoint::of(&database.servers().resolve().await.map_err(unreachable)?)?,
    };
    Ok(endpoint.application_name(format!("headwater-cdc {} {node}", info.name)))
}

fn unreachable(error: impl std::fmt::Display) -> CdcError {
    CdcError::Connection(error.to_string())
}

/// Returns the options to start the plugin with, after creating its publication.
pub(crate) async fn plugin_options(
    database: &Database,
    info: &NamespaceInfo,
    plugin: Plugin,
) -> Result<Vec<(&'static str, String)>, CdcError> {
    if plugin == Plugin::Wal2json {
        return Ok(wal2json::options());
    }
    let publication = database.publish_namespace(&info.name).await.map_err(|error| match &error {
        AdminError::Unavailable(fault) if !fault.retryable => {
            CdcError::NotAllowed(format!("failed to publish the namespace: {}", fault.message))
        }
        AdminError::NotGranted(_) => CdcError::NotAllowed(format!("failed to publish the namespace: {error}")),
        _ => CdcError::Connection(format!("failed to publish the namespace: {error}")),
    })?;
    Ok(pgoutput::options(&publication))
}

/// Returns when every new snapshot sees these transactions. The server sends a transaction once its
/// commit is on disk, which is before others can see it.
pub(crate) async fn seen_by_all(
    database: &Database,
    history: History,
    transactions: &[Transaction],
) -> Result<(), CdcError> {
    let xids: Vec<u32> = transactions.iter().map(|transaction| transaction.xid).collect();
    let mut looks = Backoff::new(FIRST_LOOK, LONGEST_LOOK);
    while !database.have_ended(Some(history), &xids).await? {
        sleep(looks.pause()).await;
    }
    Ok(())
}

/// Decodes the messages of a plugin.
enum Decoder {
    Pgoutput(Pgoutput),
    Wal2json,
}

impl Decoder {
    fn new(plugin: Plugin) -> Self {
        match plugin {
            Plugin::Pgoutput => Decoder::Pgoutput(Pgoutput::default()),
            Plugin::Wal2json => Decoder::Wal2json,
        }
    }

    fn decode(&mut self, message: &Message) -> Result<Change, CdcError> {
        match self {
            Decoder::Pgoutput(pgoutput) => pgoutput.decode(message.data.clone()),
            Decoder::Wal2json => wal2json::decode(&message.data),
        }
    }
}
