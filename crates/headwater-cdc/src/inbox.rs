//! One stream for all nodes: a durable slot, an inbox.
//!
//! Who has authority: the server, which lets one session at a time read a slot (55006), so one node at a time receives; the others stand by and try
//! again. What it received is stored, then acknowledged: a node that dies in between leaves what the next one receives again, and the inbox has it once
//! (slot, end of the commit, place in the transaction). Each node dispatches for itself, from a cursor of its own, into its feed; the log stays the truth, so a
//! cursor is kept nowhere, and begins at the inbox's end.
//!
//! States of a node: streaming while somebody reads the slot, and the inbox can be read; else polling. A slot that is lost (dropped, or invalidated
//! because it retained too much) is made anew: what was missed is read from the log. If the server is another than before (promoted, restored), what
//! is in the inbox is of another history, and goes.
//!
//! A row that cannot be turned into an event is read from the table; if that cannot be either, it is POISON in the inbox, with the error, and a
//! permanent gap in the log.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use headwater_core::{NamespaceInfo, jittered};
use headwater_postgres::{Database, InboxRow, PgInbox, WakeUps};
use tokio::time::{sleep, timeout};

use crate::pump::{Sink, endpoint, plugin_options, pump, seen_by_all};
use crate::replication::Replication;
use crate::{CdcError, CdcMode, CdcOptions, Feed, LiveState, SlotKind, Transaction};

/// Between tries to have the slot.
const STAND_BY: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How often to ask whether somebody reads the slot, and to tidy.
const ASK: Duration = Duration::from_secs(1);
/// While nobody does.
const ASK_AGAIN: Duration = Duration::from_millis(100);
/// Rows that are read at once.
const PAGE: u32 = 1_000;

/// Brings a namespace's new events into a feed, by way of the inbox.
#[derive(Debug)]
pub struct Inbox {
    database: Database,
    info: NamespaceInfo,
    inbox: PgInbox,
    node: String,
    options: CdcOptions,
    feed: Arc<Feed>,
    /// Whether this node has the slot.
    receiving: AtomicBool,
    /// How far this node has dispatched.
    dispatched: AtomicI64,
    /// Why this node does not receive.
    error: Mutex<Option<String>>,
}

impl Inbox {
    /// For a node of this name.
    pub fn new(database: Database, info: NamespaceInfo, node: &str, options: CdcOptions, feed: Arc<Feed>) -> Self {
        let inbox = PgInbox::new(database.clone(), info.clone());
        Inbox {
            database,
            info,
            inbox,
            node: node.to_owned(),
            options,
            feed,
            receiving: AtomicBool::new(false),
            dispatched: AtomicI64::new(0),
            error: Mutex::default(),
        }
    }

    /// Receives, or stands by, and dispatches, until it is dropped.
    pub async fn run(self) {
        self.feed.enter(LiveState::Starting, None, None);
        tokio::join!(self.receive_for_ever(), self.dispatch_for_ever());
    }

    async fn receive_for_ever(&self) {
        let mut said = None;
        loop {
            let error = match self.receive().await {
                Ok(never) => match never {},
                Err(error) => error,
            };
            let received = self.receiving.swap(false, Ordering::AcqRel);
            let reason = error.to_string();
            let pause = match &error {
                // Another node has it, as it should be.
                CdcError::SlotBusy { .. } => STAND_BY,
                CdcError::SlotLost { slot, .. } => {
                    tracing::warn!(
                        namespace = self.info.name,
                        error = reason,
                        "the slot is made anew: what was missed is read from the log"
                    );
                    if let Err(error) = self.database.drop_replication_slot(slot).await {
                        tracing::warn!(namespace = self.info.name, %error, "failed to drop the slot");
                    }
                    self.feed.clear();
                    Duration::from_millis(50)
                }
                _ if received => STAND_BY,
                _ => LONGEST_PAUSE,
            };
            if !matches!(error, CdcError::SlotBusy { .. }) {
                if said.as_ref() != Some(&reason) {
                    tracing::warn!(
                        namespace = self.info.name,
                        error = reason,
                        "this node does not receive from the WAL"
                    );
                }
                said = Some(reason.clone());
                *self.error.lock().expect("no holder of this lock panics") = Some(reason);
            }
            sleep(jittered(pause, 0.5, rand::random())).await;
        }
    }

    async fn receive(&self) -> Result<Infallible, CdcError> {
        let endpoint = endpoint(&self.database, &self.info, &self.node, &self.options)?;
        let plugin = self.options.plugin;
        let options = plugin_options(&self.database, &self.info, plugin).await?;
        let slot = self.inbox.slot().await?;
        let mut replication = Replication::start(&endpoint, slot, SlotKind::Durable, plugin, &options).await?;
        let (system, timeline) = replication.system();
        if !self.inbox.begin(system, timeline, &self.node).await? {
            tracing::warn!(namespace = self.info.name, "the server is another than before: the inbox begins anew");
            self.feed.clear();
        }
        self.receiving.store(true, Ordering::Release);
        *self.error.lock().expect("no holder of this lock panics") = None;
        tracing::info!(namespace = self.info.name, slot, "this node receives from the WAL, for all");
        pump(&mut replication, plugin, self.info.id, self).await
    }

    async fn dispatch_for_ever(&self) {
        let connect = match &self.options.url {
            Some(url) => url.parse().ok(),
            None => Some((*self.database.pool().connect_options()).clone()),
        };
        let woken = connect.map(|connect| WakeUps::start(connect, &self.info));
        let mut wake_ups = woken.as_ref().map(WakeUps::count);
        loop {
            match self.inbox.head().await {
                Ok((head, true)) => {
                    let slot = self.inbox.slot().await.ok();
                    self.dispatched.store(head, Ordering::Release);
                    self.feed.enter(LiveState::Streaming, slot, None);
                    let reason = match self.dispatch(wake_ups.as_mut()).await {
                        Ok(()) => self.reason(),
                        Err(error) => error.to_string(),
                    };
                    self.feed.enter(LiveState::Polling, None, Some(reason));
                }
                Ok((_, false)) => {
                    let reason = self.reason();
                    let status = self.feed.status();
                    if status.state != LiveState::Polling || status.error.as_ref() != Some(&reason) {
                        self.feed.enter(LiveState::Polling, None, Some(reason));
                    }
                }
                Err(error) => self.feed.enter(LiveState::Polling, None, Some(error.to_string())),
            }
            sleep(jittered(ASK_AGAIN, 0.5, rand::random())).await;
        }
    }

    fn reason(&self) -> String {
        let error = self.error.lock().expect("no holder of this lock panics").clone();
        error.unwrap_or_else(|| "nobody reads the namespace's slot".into())
    }

    /// Dispatches for as long as somebody reads the slot.
    async fn dispatch(&self, mut wake_ups: Option<&mut tokio::sync::watch::Receiver<u64>>) -> Result<(), CdcError> {
        loop {
            let after = self.dispatched.load(Ordering::Acquire);
            let page = self.inbox.page(after, PAGE).await?;
            if let Some(last) = page.last() {
                let (last, full) = (last.inbox_id, page.len() == PAGE as usize);
                let mut all = Transaction::default();
                for received in page {
                    match received.event {
                        Some(event) => all.events.push(event),
                        // Poison, or more than was kept: the log knows.
                        None => all.left_out += 1,
                    }
                }
                self.feed.add(vec![all]);
                self.dispatched.store(last, Ordering::Release);
                if full {
                    continue;
                }
            }
            let woken = async {
                if let Some(wake_ups) = wake_ups.as_mut()
                    && wake_ups.changed().await.is_ok()
                {
                    return;
                }
                std::future::pending().await
            };
            if timeout(jittered(ASK, 0.2, rand::random()), woken).await.is_err() {
                self.tidy().await?;
                if !self.inbox.head().await?.1 {
                    return Ok(());
                }
            }
        }
    }

    async fn tidy(&self) -> Result<(), CdcError> {
        if let (true, CdcMode::Inbox { keep_for }) = (self.receiving.load(Ordering::Acquire), self.options.mode) {
            self.inbox.tidy(self.dispatched.load(Ordering::Acquire), keep_for).await?;
        }
        Ok(())
    }

    async fn row(&self, place: (u64, u32), poison: crate::Poison) -> Result<InboxRow, CdcError> {
        let unread = InboxRow { place, global_sequence: poison.global_sequence, event: None, error: None };
        let Some(sequence) = poison.global_sequence else {
            return Ok(InboxRow { error: Some(poison.error), ..unread });
        };
        Ok(match self.inbox.from_the_table(sequence).await? {
            Ok(event) => InboxRow { event, ..unread },
            Err(error) => InboxRow { error: Some(error), ..unread },
        })
    }
}

#[async_trait]
impl Sink for Inbox {
    async fn take(&self, transactions: Vec<Transaction>) -> Result<(), CdcError> {
        seen_by_all(&self.database, &transactions).await?;
        let mut rows = Vec::new();
        for transaction in transactions {
            let mut nth = 0;
            let mut place = || {
                nth += 1;
                (transaction.end_lsn, nth)
            };
            for event in transaction.events {
                let global_sequence = event.global_sequence;
                rows.push(InboxRow { place: place(), global_sequence, event: Some(event), error: None });
            }
            for poison in transaction.poison {
                rows.push(self.row(place(), poison).await?);
            }
            if transaction.left_out > 0 {
                rows.push(InboxRow { place: place(), global_sequence: None, event: None, error: None });
            }
        }
        self.inbox.receive(&rows).await?;
        Ok(())
    }

    fn lag(&self, bytes: u64) {
        self.feed.lag(bytes);
    }
}
