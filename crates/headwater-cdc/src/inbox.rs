//! One stream for all nodes: a durable slot and an inbox.
//!
//! Who has authority: the slot's row in the database (`headwater_private.cdc_slots`), by the
//! database's clock. It names the owner, which alone receives, until when, and in which term; each
//! stream has its own term. An owner keeps its lease. The others stand by, and take the slot when
//! its lease is over, or as soon as nobody reads the slot although its owner had begun to. Every
//! write of an owner carries its term. An owner that was replaced without knowing it (paused, cut
//! off) stores nothing, and so acknowledges nothing. A new owner ends the session that still reads
//! the slot, because the server lets only one session read it at a time (55006). A role that may
//! not do that waits until the server does it, after wal_sender_timeout, and says so.
//!
//! What was received is stored, then acknowledged. If an owner dies in between, the next one
//! receives it again, and the inbox has it once (slot, end of the commit, place in the
//! transaction). Each node dispatches for itself, from its own cursor, into its feed. The log stays
//! the truth, so the cursor is stored nowhere, and begins at the end of the inbox.
//!
//! States of a node: streaming while the owner reads the slot and has caught up; recovering while
//! the owner works on a backlog (left by the previous owner, or because the owner stores more
//! slowly than others append), for then what commits now lies behind the backlog; otherwise
//! degraded. While it is recovering or degraded, the log is read. A slot that is lost (dropped, or
//! invalidated because it retained too much) is created again: what was missed is read from the
//! log. If the server is another one than before (promoted, restored), the inbox belongs to another
//! history, and is emptied.
//!
//! A row that cannot be turned into an event is read from the table. If that cannot be either, it
//! is POISON in the inbox, with the error, and a permanent gap in the log.

use std::convert::Infallible;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use headwater_core::{History, Instance, NamespaceInfo, jittered};
use headwater_postgres::{Database, InboxRow, PgInbox, Servers, WakeUps};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

use crate::lag::Lag;
use crate::pump::{Sink, endpoint, plugin_options, pump, seen_by_all};
use crate::replication::{Opened, Replication};
use crate::slot_watch::warnings;
use crate::{CdcError, CdcMode, CdcOptions, Feed, LiveState, SlotKind, Transaction, orphans};

/// The pause between checks whether the slot can be taken.
const STAND_BY: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How often an owner renews its lease, checks how far it is behind, and tidies.
const KEEP: Duration = Duration::from_secs(1);
/// The pause between tries to take a slot that a former owner's session reads.
const EVICT: Duration = Duration::from_millis(50);
const EVICT_AGAIN: Duration = Duration::from_secs(1);
/// How often to check the state of the slot.
const ASK: Duration = Duration::from_secs(1);
/// The pause between tries while the inbox cannot be used.
const ASK_AGAIN: Duration = Duration::from_millis(100);
/// How often to check how much WAL the slot retains.
const WATCH: Duration = Duration::from_secs(5);
/// Rows per read.
const PAGE: u32 = 1_000;

/// Brings a namespace's new events into a feed, through the inbox.
#[derive(Debug)]
pub struct Inbox {
    database: Database,
    info: NamespaceInfo,
    inbox: PgInbox,
    instance: Instance,
    options: CdcOptions,
    feed: Arc<Feed>,
    /// How far this node has dispatched.
    dispatched: AtomicI64,
    /// Why this node does not receive.
    error: Mutex<Option<String>>,
}

/// Why the inbox cannot be dispatched from.
type Unread = (LiveState, String);

impl Inbox {
    /// Creates the inbox for one incarnation of a node.
    pub fn new(
        database: Database,
        info: NamespaceInfo,
        instance: Instance,
        options: CdcOptions,
        feed: Arc<Feed>,
    ) -> Self {
        let inbox = PgInbox::new(database.clone(), info.clone());
        let (dispatched, error) = (AtomicI64::new(0), Mutex::default());
        Inbox { database, info, inbox, instance, options, feed, dispatched, error }
    }

    /// Receives, or stands by, and dispatches, until it is dropped.
    pub async fn run(self) {
        self.feed.enter(LiveState::Starting, None, None);
        tokio::join!(
            self.receive_for_ever(),
            self.dispatch_for_ever(),
            self.watch_for_ever(),
            orphans::drop_for_ever(&self.database)
        );
    }

    async fn receive_for_ever(&self) {
        let mut said = None;
        loop {
            let begun = Instant::now();
            let error = match self.receive().await {
                Ok(never) => match never {},
                Err(error) => error,
            };
            let reason = error.to_string();
            let pause = match &error {
                // Another node owns it, as it should be.
                CdcError::NotOwner { .. } => {
                    said = None;
                    *self.error() = None;
                    STAND_BY
                }
                CdcError::SlotLost { slot, .. } => {
                    tracing::warn!(
                        namespace = self.info.name,
                        error = reason,
                        "the slot is made anew: what was missed is read from the log"
                    );
                    // As the role that replicates: the pool's role may not be allowed to.
                    if let Err(error) = self.drop_slot(slot).await {
                        tracing::warn!(namespace = self.info.name, %error, "failed to drop the slot");
                    }
                    Duration::from_millis(50)
                }
                // It worked for a while, so the cause may be over.
                error if begun.elapsed() > LONGEST_PAUSE && !error.needs_operator() => STAND_BY,
                CdcError::Connection(_) | CdcError::Read(_) => STAND_BY,
                _ => LONGEST_PAUSE,
            };
            if !matches!(error, CdcError::NotOwner { .. }) {
                if said.as_ref() != Some(&reason) {
                    tracing::warn!(
                        namespace = self.info.name,
                        error = reason,
                        "this node does not receive from the WAL"
                    );
                }
                said = Some(reason.clone());
                *self.error() = Some(reason);
            }
            sleep(jittered(pause, 0.5, rand::random())).await;
        }
    }

    async fn drop_slot(&self, slot: &str) -> Result<(), CdcError> {
        let endpoint = endpoint(&self.database, &self.info, &self.instance.node, &self.options).await?;
        Opened::open(&endpoint, slot, self.options.plugin).await?.drop_slot().await
    }

    async fn receive(&self) -> Result<Infallible, CdcError> {
        let slot = self.inbox.slot().await?;
        let head = self.inbox.head(&self.instance).await?;
        let not_owner = || CdcError::NotOwner {
            slot: slot.to_owned(),
            owner: head.owner_node.clone().unwrap_or_else(|| "nobody".into()),
        };
        if !head.is_takeable {
            return Err(not_owner());
        }
        // Check that we can replicate before we take the slot from its owner.
        let endpoint = endpoint(&self.database, &self.info, &self.instance.node, &self.options).await?;
        let plugin = self.options.plugin;
        // Read the history before the stream begins. If the server is replaced in between, it
        // refuses what comes.
        let history = self.database.history().await?;
        let options = plugin_options(&self.database, &self.info, plugin).await?;
        let opened = Opened::open(&endpoint, slot, plugin).await?;
        let (term, _) = self.inbox.own(&self.instance, None, self.options.lease).await?;
        let Some(term) = term else { return Err(not_owner()) };
        let owner = Owner { inbox: self, term, history, lag: Mutex::default(), said: tokio::sync::Mutex::new(false) };
        let ended = tokio::select! {
            received = owner.receive(opened, &options) => received,
            lost = owner.keep() => lost,
            never = owner.tidy_for_ever() => match never {},
        };
        // Another node may be able to do what this one could not. If the release fails, the lease
        // will end.
        _ = self.inbox.release(term).await;
        ended
    }

    async fn dispatch_for_ever(&self) {
        let servers = match &self.options.url {
            Some(url) => url.parse::<Servers>().ok(),
            None => Some(self.database.servers()),
        };
        let woken = servers.map(|servers| WakeUps::start(servers, &self.info));
        let mut wake_ups = woken.as_ref().map(WakeUps::count);
        loop {
            let (state, reason) = match self.dispatch(wake_ups.as_mut()).await {
                // The term has changed: dispatch again at once.
                Ok(None) => continue,
                Ok(Some(unread)) => unread,
                Err(error) => (LiveState::Degraded, error.to_string()),
            };
            let status = self.feed.status();
            if status.state != state || status.error.as_ref() != Some(&reason) {
                self.feed.enter(state, None, Some(reason));
            }
            wait_until(Instant::now() + jittered(ASK_AGAIN, 0.5, rand::random()), wake_ups.as_mut()).await;
        }
    }

    /// Dispatches while the owner reads the slot and has caught up. Returns why it stopped, or
    /// `None` if the term has changed.
    async fn dispatch(&self, mut wake_ups: Option<&mut watch::Receiver<u64>>) -> Result<Option<Unread>, CdcError> {
        let history = self.database.history().await?;
        let head = self.inbox.head(&self.instance).await?;
        if !head.is_read {
            let error = self.error().clone();
            return Ok(Some((
                LiveState::Degraded,
                error.unwrap_or_else(|| "nobody reads the namespace's slot".into()),
            )));
        }
        let behind = || {
            let owner = head.owner_node.as_deref().unwrap_or("nobody");
            Ok(Some((LiveState::Recovering, format!("the inbox has a backlog, which node {owner} stores"))))
        };
        if !head.caught_up {
            return behind();
        }
        self.dispatched.store(head.head, Ordering::Release);
        self.feed.stream(self.inbox.slot().await?, history);
        let mut ask_at = Instant::now() + jittered(ASK, 0.2, rand::random());
        loop {
            let after = self.dispatched.load(Ordering::Acquire);
            let page = self.inbox.page(Some(history), after, PAGE).await?;
            if page.term != Some(head.term) {
                // The slot may have been created again: nobody stored what came in between.
                return Ok(None);
            }
            let full = page.more;
            if let Some(last) = page.rows.last().map(|last| last.inbox_id) {
                let mut all = Transaction::default();
                for received in page.rows {
                    match received.event {
                        Some(event) => all.events.push(event),
                        // Poison, or more than was kept: the log has it.
                        None => all.left_out += 1,
                    }
                }
                self.feed.add(vec![all]);
                self.dispatched.store(last, Ordering::Release);
            }
            if !page.caught_up {
                return behind();
            }
            if !full && !wait_until(ask_at, wake_ups.as_deref_mut()).await || Instant::now() >= ask_at {
                ask_at = Instant::now() + jittered(ASK, 0.2, rand::random());
                if !self.inbox.head(&self.instance).await?.is_read {
                    return Ok(None);
                }
            }
        }
    }

    /// Logs what may happen to the slot, no matter which node owns it.
    async fn watch_for_ever(&self) {
        let mut said = Vec::new();
        loop {
            let health = async { Ok::<_, CdcError>((self.inbox.slot().await?, self.inbox.health().await?)) };
            match health.await {
                Ok((slot, health)) => {
                    let found = health
                        .map(|health| warnings(slot, &health, self.options.warn_retained_bytes))
                        .unwrap_or_default();
                    // The retained amount changes all the time. So warn again only when the kinds
                    // of warnings change.
                    let kinds: Vec<_> = found.iter().map(|warning| kind(warning)).collect();
                    if said != kinds {
                        for warning in found.iter().filter(|warning| !said.contains(&kind(warning))) {
                            tracing::warn!(namespace = self.info.name, slot, "{warning}");
                        }
                        said = kinds;
                        self.feed.warn(found);
                    }
                }
                Err(error) => tracing::debug!(namespace = self.info.name, %error, "failed to look at the slot"),
            }
            sleep(jittered(WATCH, 0.2, rand::random())).await;
        }
    }

    async fn row(&self, history: History, place: (u64, u32), poison: crate::Poison) -> Result<InboxRow, CdcError> {
        let unread = InboxRow { place, global_sequence: poison.global_sequence, event: None, error: None };
        let Some(sequence) = poison.global_sequence else {
            return Ok(InboxRow { error: Some(poison.error), ..unread });
        };
        Ok(match self.inbox.from_the_table(Some(history), sequence).await? {
            Ok(event) => InboxRow { event, ..unread },
            Err(error) => InboxRow { error: Some(error), ..unread },
        })
    }

    fn error(&self) -> MutexGuard<'_, Option<String>> {
        self.error.lock().expect("no holder of this lock panics")
    }
}

/// Returns what a warning is about, without its figures.
fn kind(warning: &str) -> String {
    warning.chars().filter(|c| !c.is_ascii_digit()).collect()
}

/// Waits until then, or for a wake-up. Returns whether there was a wake-up.
async fn wait_until(until: Instant, wake_ups: Option<&mut watch::Receiver<u64>>) -> bool {
    let woken = async {
        if let Some(wake_ups) = wake_ups
            && wake_ups.changed().await.is_ok()
        {
            return;
        }
        std::future::pending().await
    };
    timeout_at(until, woken).await.is_ok()
}

/// A node that owns the slot, in one term.
struct Owner<'a> {
    inbox: &'a Inbox,
    term: i64,
    /// The history in which the stream began.
    history: History,
    /// How far the stream has come, once it has begun.
    lag: Mutex<Option<Lag>>,
    /// Whether the owner last reported that it has caught up. Only one task reports at a time, so
    /// that the last report is true.
    said: tokio::sync::Mutex<bool>,
}

impl Owner<'_> {
    async fn receive(&self, opened: Opened, options: &[(&'static str, String)]) -> Result<Infallible, CdcError> {
        let Inbox { inbox, info, feed, .. } = self.inbox;
        let mut replication = self.start(opened, options).await?;
        let (system, timeline) = replication.system();
        let (kept, wal_end) = inbox.begin(self.term, Some(self.history), system, timeline).await?;
        if !kept {
            tracing::warn!(namespace = info.name, "the server is another than before: the inbox begins anew");
            feed.clear();
        }
        *self.lag() = Some(Lag::starting_at(wal_end));
        *self.inbox.error() = None;
        let slot = inbox.slot().await?;
        tracing::info!(namespace = info.name, slot, term = self.term, "this node receives from the WAL, for all");
        replication.ask().await?;
        pump(&mut replication, self.inbox.options.plugin, info.id, self).await
    }

    /// Starts to read the slot, and ends the session that reads it without owning it. A slot that
    /// was created with another plugin cannot be read with this one, and is created again.
    async fn start(&self, mut opened: Opened, options: &[(&'static str, String)]) -> Result<Replication, CdcError> {
        let mut told = false;
        loop {
            let dropped = match self.plugin_of_slot().await? {
                Some(plugin) if plugin != self.inbox.options.plugin.name() => {
                    let dropped = opened.drop_slot().await;
                    if dropped.is_ok() {
                        tracing::warn!(
                            namespace = self.inbox.info.name,
                            made_with = plugin,
                            plugin = self.inbox.options.plugin.name(),
                            "the slot was made with another plugin: it is made anew, and what was missed is read from the log"
                        );
                    }
                    dropped
                }
                _ => Ok(()),
            };
            let busy;
            (busy, opened) = match dropped {
                Err(busy @ CdcError::SlotBusy { .. }) => (busy, opened),
                Err(error) => return Err(error),
                Ok(()) => match opened.start(SlotKind::Durable, options).await {
                    Ok(replication) => return Ok(replication),
                    Err((busy @ CdcError::SlotBusy { .. }, opened)) => (busy, opened),
                    Err((error, _)) => return Err(error),
                },
            };
            let evicted = self.inbox.inbox.evict(self.term).await?;
            if !evicted && !told {
                told = true;
                tracing::warn!(
                    namespace = self.inbox.info.name,
                    error = %busy,
                    "a former owner's session reads the slot, and this role may not end it: waiting until the server does, after wal_sender_timeout"
                );
                *self.inbox.error() =
                    Some(format!("{busy}: waiting for wal_sender_timeout to end a former owner's session"));
            }
            sleep(if evicted { EVICT } else { EVICT_AGAIN }).await;
        }
    }

    /// Returns the plugin of the slot; `None`: there is no slot.
    async fn plugin_of_slot(&self) -> Result<Option<String>, CdcError> {
        Ok(self.inbox.inbox.health().await?.and_then(|health| health.plugin))
    }

    /// Keeps the lease, and checks how far the stream is behind, until another node owns the slot.
    async fn keep(&self) -> Result<Infallible, CdcError> {
        let Inbox { inbox, instance, options, info, .. } = self.inbox;
        loop {
            sleep(KEEP.min(options.lease / 4)).await;
            match inbox.own(instance, Some(self.term), options.lease).await {
                Ok((Some(_), wal_end)) => {
                    if self.lag().as_mut().is_some_and(|lag| lag.look(wal_end)) {
                        tracing::warn!(
                            namespace = info.name,
                            "the inbox has fallen behind: nodes read the log until it has caught up"
                        );
                        self.say().await?;
                    }
                }
                Ok((None, _)) => {
                    tracing::warn!(namespace = info.name, term = self.term, "another node owns the slot by now");
                    return Err(CdcError::NotOwner {
                        slot: inbox.slot().await?.to_owned(),
                        owner: "another node".into(),
                    });
                }
                // What is written in the meantime is fenced. If the database is gone, so is the
                // stream.
                Err(error) => tracing::debug!(namespace = info.name, %error, "failed to keep the slot's lease"),
            }
        }
    }

    /// Reports whether it has caught up, if that has changed.
    async fn say(&self) -> Result<(), CdcError> {
        let mut said = self.said.lock().await;
        let caught_up = self.lag().as_ref().is_some_and(Lag::caught_up);
        if *said != caught_up {
            self.inbox.inbox.set_caught_up(self.term, caught_up).await?;
            *said = caught_up;
        }
        Ok(())
    }

    async fn tidy_for_ever(&self) -> Infallible {
        let CdcMode::Inbox { keep_for } = self.inbox.options.mode else { std::future::pending().await };
        let mut marked = 0;
        loop {
            sleep(jittered(KEEP, 0.2, rand::random())).await;
            let up_to = self.inbox.dispatched.load(Ordering::Acquire);
            loop {
                match self.inbox.inbox.tidy(self.term, marked, up_to, keep_for).await {
                    Ok(0) => {
                        marked = up_to;
                        break;
                    }
                    Ok(_) => {}
                    Err(error) => {
                        tracing::debug!(namespace = self.inbox.info.name, %error, "failed to tidy the inbox");
                        break;
                    }
                }
            }
        }
    }

    fn lag(&self) -> MutexGuard<'_, Option<Lag>> {
        self.lag.lock().expect("no holder of this lock panics")
    }
}

#[async_trait]
impl Sink for Owner<'_> {
    async fn take(&self, transactions: Vec<Transaction>) -> Result<(), CdcError> {
        seen_by_all(&self.inbox.database, self.history, &transactions).await?;
        let mut rows = Vec::new();
        for transaction in transactions {
            let mut nth = 0;
            let mut place = || {
                nth += 1;
                (transaction.end_lsn, nth)
            };
            for event in transaction.events {
                let global_sequence = Some(event.sequence().get());
                rows.push(InboxRow { place: place(), global_sequence, event: Some(event), error: None });
            }
            for poison in transaction.poison {
                rows.push(self.inbox.row(self.history, place(), poison).await?);
            }
            if transaction.left_out > 0 {
                rows.push(InboxRow { place: place(), global_sequence: None, event: None, error: None });
            }
        }
        self.inbox.inbox.receive(self.term, Some(self.history), &rows).await?;
        Ok(())
    }

    async fn passed(&self, lsn: u64) -> Result<(), CdcError> {
        if self.lag().as_mut().is_some_and(|lag| lag.pass(lsn)) {
            self.say().await?;
        }
        Ok(())
    }

    fn lag(&self, bytes: u64) {
        self.inbox.feed.lag(bytes);
    }
}
