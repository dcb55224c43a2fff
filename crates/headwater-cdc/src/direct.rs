//! Each node has its own stream: a temporary slot and a feed.
//!
//! Who has authority: the log. A stream only brings sooner what a read of the log would show, so it
//! may break at any time. States: starting (the first try), streaming, degraded (it failed: a
//! pause, which grows), recovering (the next try). Every failure ends the stream, empties the feed,
//! and makes the tail read the log. It is logged once, and stays in the status while it lasts. The
//! slot goes with the connection: nothing is left behind that could retain WAL.
//!
//! The server sends a transaction once its commit is on disk, which is before others can see it. So
//! the feed gets the transaction only after a snapshot has shown that it has ended
//! ([`seen_by_all`]): what comes from the WAL can then be read, like everything that the tail hands
//! on.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use headwater_core::{Backoff, History, NamespaceInfo};
use headwater_postgres::Database;
use tokio::time::{Instant, sleep};

use crate::pump::{Sink, endpoint, plugin_options, pump, seen_by_all};
use crate::replication::Replication;
use crate::{CdcError, CdcOptions, Feed, LiveState, SlotKind, Transaction, orphans};

/// A stream that lived this long was healthy: the pauses start from the first again.
const WELL: Duration = Duration::from_secs(10);

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
    /// Creates the stream for a node of this name.
    pub fn new(database: Database, info: NamespaceInfo, node: &str, options: CdcOptions, feed: Arc<Feed>) -> Self {
        Direct { database, info, node: node.to_owned(), options, feed }
    }

    /// Streams until it is dropped.
    pub async fn run(self) {
        tokio::join!(self.stream_for_ever(), orphans::drop_for_ever(&self.database));
    }

    async fn stream_for_ever(&self) {
        let mut pauses = Backoff::for_database();
        let mut said = None;
        self.feed.enter(LiveState::Starting, None, None);
        loop {
            let begun = Instant::now();
            let error = match self.stream(&mut said).await {
                Ok(never) => match never {},
                Err(error) => error,
            };
            if begun.elapsed() >= WELL {
                pauses.reset();
            }
            let reason = error.to_string();
            if said.as_ref() != Some(&reason) {
                tracing::warn!(
                    namespace = self.info.name,
                    error = reason,
                    "no events from the WAL: polling the log until it works"
                );
            }
            self.feed.enter(LiveState::Degraded, None, Some(reason.clone()));
            said = Some(reason);
            if error.needs_operator() {
                pauses.give_time();
            }
            sleep(pauses.jittered(rand::random())).await;
            self.feed.enter(LiveState::Recovering, None, None);
        }
    }

    async fn stream(&self, said: &mut Option<String>) -> Result<Infallible, CdcError> {
        let endpoint = endpoint(&self.database, &self.info, &self.node, &self.options).await?;
        let plugin = self.options.plugin;
        // Read the history before the stream begins. If the server is replaced in between, what
        // comes counts as older than it is, and nobody takes it.
        let history = self.database.history().await?;
        let options = plugin_options(&self.database, &self.info, plugin).await?;
        let slot = format!("headwater_n{}_{:016x}", self.info.id, rand::random::<u64>());
        let mut replication = Replication::start(&endpoint, &slot, SlotKind::Temporary, plugin, &options).await?;
        self.feed.stream(&slot, history);
        match said.take() {
            Some(_) => tracing::info!(namespace = self.info.name, slot, "events come from the WAL again"),
            None => tracing::debug!(namespace = self.info.name, slot, "events come from the WAL"),
        }
        pump(&mut replication, plugin, self.info.id, &Stream { direct: self, history }).await
    }
}

/// A stream, in one history.
struct Stream<'a> {
    direct: &'a Direct,
    history: History,
}

#[async_trait]
impl Sink for Stream<'_> {
    async fn take(&self, transactions: Vec<Transaction>) -> Result<(), CdcError> {
        seen_by_all(&self.direct.database, self.history, &transactions).await?;
        self.direct.feed.add(transactions);
        Ok(())
    }

    fn lag(&self, bytes: u64) {
        self.direct.feed.lag(bytes);
    }
}
