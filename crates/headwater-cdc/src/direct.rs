//! Each node its own stream: a temporary slot, a feed.
//!
//! Who has authority: the log. A stream only brings sooner what a read of the log would show, so it may break at any time. States:
//! starting (the first try), streaming, polling (it failed: a pause, which grows), recovering (the next try). Whatever fails ends
//! the stream, empties the feed, has the tail read the log, and is said once in the log and for as long as it lasts in the status. The slot goes
//! with the connection: nothing is left behind that could retain WAL.
//!
//! The server sends a transaction once its commit is on disk, which is before others can see it. So the feed gets it only after a snapshot has
//! shown that it has ended ([`Database::have_ended`]): what comes from the WAL can be read, like all that the tail hands on.

use std::sync::Arc;
use std::time::Duration;

use headwater_core::{NamespaceInfo, jittered};
use headwater_postgres::Database;
use tokio::time::{Instant, sleep};

use crate::pgoutput::Pgoutput;
use crate::replication::{Message, Replication};
use crate::transactions::{Change, Transactions};
use crate::{CdcError, CdcOptions, Endpoint, Feed, LiveState, Plugin, SlotKind, Transaction, pgoutput, wal2json};

/// Between tries, doubling from the one to the other.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// A stream that lived for so long was well: the pauses begin anew.
const WELL: Duration = Duration::from_secs(10);
/// Between looks whether a transaction can be seen by now.
const FIRST_LOOK: Duration = Duration::from_micros(200);
const LONGEST_LOOK: Duration = Duration::from_millis(20);
/// Most transactions, and bytes, that are taken together.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// Streams a namespace's new events into a feed.
#[derive(Debug)]
pub struct Direct {
    database: Database,
    info: NamespaceInfo,
    node: String,
    options: CdcOptions,
    feed: Arc<Feed>,
}

impl Direct {
    /// For a node of this name.
    pub fn new(database: Database, info: NamespaceInfo, node: &str, options: CdcOptions, feed: Arc<Feed>) -> Self {
        Direct { database, info, node: node.to_owned(), options, feed }
    }

    /// Streams until it is dropped.
    pub async fn run(self) {
        let mut pause = FIRST_PAUSE;
        let mut said = None;
        self.feed.enter(LiveState::Starting, None, None);
        loop {
            let begun = Instant::now();
            let error = match self.stream(&mut said).await {
                Ok(never) => match never {},
                Err(error) => error,
            };
            if begun.elapsed() >= WELL {
                pause = FIRST_PAUSE;
            }
            let reason = error.to_string();
            if said.as_ref() != Some(&reason) {
                tracing::warn!(
                    namespace = self.info.name,
                    error = reason,
                    "no events from the WAL: polling the log until it works"
                );
            }
            self.feed.enter(LiveState::Polling, None, Some(reason.clone()));
            said = Some(reason);
            if error.needs_operator() {
                pause = LONGEST_PAUSE;
            }
            sleep(jittered(pause, 0.5, rand::random())).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
            self.feed.enter(LiveState::Recovering, None, None);
        }
    }

    async fn stream(&self, said: &mut Option<String>) -> Result<std::convert::Infallible, CdcError> {
        let endpoint = match &self.options.url {
            Some(url) => Endpoint::parse(url)?,
            None if self.database.is_behind_pooler() => {
                let reason = "the pool goes through a pooler: name the server itself in CdcOptions::url";
                return Err(CdcError::InvalidInput(reason.into()));
            }
            None => Endpoint::of(&self.database.pool().connect_options())?,
        };
        let endpoint = endpoint.application_name(format!("headwater-cdc {} {}", self.info.name, self.node));
        let plugin = self.options.plugin;
        let options = match plugin {
            Plugin::Pgoutput => pgoutput::options(&self.publish().await?),
            Plugin::Wal2json => wal2json::options(),
        };
        let slot = format!("headwater_n{}_{:016x}", self.info.id, rand::random::<u64>());
        let mut replication = Replication::start(&endpoint, &slot, SlotKind::Temporary, plugin, &options).await?;
        self.feed.enter(LiveState::Streaming, Some(&slot), None);
        match said.take() {
            Some(_) => tracing::info!(namespace = self.info.name, slot, "events come from the WAL again"),
            None => tracing::debug!(namespace = self.info.name, slot, "events come from the WAL"),
        }
        let mut decoder = Decoder::new(plugin);
        let mut transactions = Transactions::of(self.info.id);
        let mut batch: Vec<Transaction> = Vec::new();
        loop {
            let bytes: usize = batch.iter().map(|transaction| transaction.bytes).sum();
            // Together what has come together; never waiting for more.
            if !batch.is_empty() && (!replication.has_more() || batch.len() >= BATCH || bytes >= BATCH_BYTES) {
                let end = batch.last().map_or(0, |transaction| transaction.end_lsn);
                let ours: Vec<_> = batch.drain(..).filter(|transaction| !transaction.is_empty()).collect();
                if !ours.is_empty() {
                    replication.while_waiting(self.seen_by_all(&ours)).await?;
                    self.feed.add(ours);
                }
                replication.acknowledge(end);
                replication.speak_if_due().await?;
            }
            let idle = batch.is_empty() && !transactions.is_open();
            let Some(message) = replication.next(idle).await? else { continue };
            batch.extend(transactions.take(decoder.decode(&message)?));
        }
    }

    async fn publish(&self) -> Result<String, CdcError> {
        self.database.publish_namespace(&self.info.name).await.map_err(|error| match &error {
            headwater_core::AdminError::Unavailable(fault) if !fault.retryable => {
                CdcError::NotAllowed(format!("failed to publish the namespace: {}", fault.message))
            }
            _ => CdcError::Connection(format!("failed to publish the namespace: {error}")),
        })
    }

    /// Returns when everybody who looks now sees these.
    async fn seen_by_all(&self, transactions: &[Transaction]) -> Result<(), CdcError> {
        let xids: Vec<u32> = transactions.iter().map(|transaction| transaction.xid).collect();
        let mut pause = FIRST_LOOK;
        while !self.database.have_ended(&xids).await? {
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_LOOK);
        }
        Ok(())
    }
}

/// A plugin's messages, understood.
pub(crate) enum Decoder {
    Pgoutput(Pgoutput),
    Wal2json,
}

impl Decoder {
    pub(crate) fn new(plugin: Plugin) -> Self {
        match plugin {
            Plugin::Pgoutput => Decoder::Pgoutput(Pgoutput::default()),
            Plugin::Wal2json => Decoder::Wal2json,
        }
    }

    pub(crate) fn decode(&mut self, message: &Message) -> Result<Change, CdcError> {
        match self {
            Decoder::Pgoutput(pgoutput) => pgoutput.decode(message.data.clone()),
            Decoder::Wal2json => wal2json::decode(&message.data),
        }
    }
}
