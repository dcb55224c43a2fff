//! The log of one namespace in PostgreSQL.

pub(crate) mod batch;
mod coalescer;
pub(crate) mod month_bounds;
mod notifier;
pub(crate) mod poison;
pub(crate) mod read;
pub(crate) mod row;
mod wake_ups;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use headwater_core::{
    AdminError, Append, AppendError, Appended, Event, EventLog, Gaps, History, Horizon, LogPage, LogQuery,
    LongTransactions, Look, LookAhead, NamespaceInfo, PassedOver, ReadError, RecordedEvent, StreamQuery,
};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::database::error::read_error;
use crate::log::batch::{BatchOptions, append_one};
use crate::log::coalescer::Coalescer;
use crate::log::month_bounds::Months;
use crate::log::read::Of;
use crate::schedules::due;
use crate::{Database, Due, DueEvent, Fired};

pub use self::poison::{PoisonEvent, Redelivered, SubscriptionReset};
pub use self::wake_ups::WakeUps;

/// How a log appends.
#[derive(Debug, Clone, PartialEq)]
pub struct LogOptions {
    /// How many connections write at once.
    pub flushers: usize,
    /// Most bytes of events that wait to be written. Callers beyond that wait.
    pub max_queued_bytes: u32,
    /// How long appends are tried again while the database cannot be reached.
    pub retry_for: Duration,
}

impl Default for LogOptions {
    fn default() -> Self {
        LogOptions { flushers: 2, max_queued_bytes: 64 * 1024 * 1024, retry_for: Duration::from_secs(30) }
    }
}

impl LogOptions {
    pub(crate) fn validate(&self) -> Result<(), AdminError> {
        let invalid = |message: String| Err(AdminError::InvalidInput(message));
        if !(1..=64).contains(&self.flushers) {
            return invalid(format!("invalid flushers {}: it is 1 to 64", self.flushers));
        }
        if self.max_queued_bytes < 64 * 1024 {
            return invalid(format!("invalid max_queued_bytes {}: it is at least 65536", self.max_queued_bytes));
        }
        if !(Duration::from_millis(100)..=Duration::from_secs(86_400)).contains(&self.retry_for) {
            return invalid(format!("invalid retry_for {:?}: it is 100 ms to 1 day", self.retry_for));
        }
        Ok(())
    }
}

/// The log of one namespace. Clones share one queue of appends.
#[derive(Debug, Clone)]
pub struct PgLog {
    inner: Arc<Inner>,
    /// If set, reads from a server with another history fail. `None`: any history will do.
    under: Option<History>,
}

#[derive(Debug)]
struct Inner {
    database: Database,
    info: NamespaceInfo,
    coalescer: Coalescer,
    retry_for: Duration,
    /// Everything at or below this is settled: proved once, and true while the history lasts.
    settled: std::sync::Mutex<Settled>,
    /// What is known about sealed months, and since when.
    months: std::sync::Mutex<(Arc<Months>, tokio::time::Instant)>,
}

/// Up to where everything is settled, and in which history that was proved.
#[derive(Debug, Clone, Copy, Default)]
struct Settled {
    history: Option<History>,
    up_to: u64,
}

/// How old the knowledge about sealed months may become. Missing knowledge costs time, nothing
/// else.
const MONTHS_FOR: Duration = Duration::from_secs(60);
/// A page that takes longer has failed.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Runs a read on a pool connection. A connection that turns out to be dead is dropped, and the
/// read is tried on the next one: after a restart of the server, all connections of the pool are
/// dead. (It is a macro because the future of an async closure is not `Send`.)
macro_rules! reading {
    ($log:expr, $conn:ident => $read:expr) => {{
        let database = &$log.inner.database;
        let mut tries = database.pool.size();
        let deadline = tokio::time::Instant::now() + READ_TIMEOUT;
        loop {
            let timed_out = || read_error(sqlx::Error::Io(std::io::Error::from(std::io::ErrorKind::TimedOut)));
            let pinned = tokio::time::timeout_at(deadline, database.pin()).await;
            let Ok(pinned) = pinned else { break Err(timed_out()) };
            let mut pinned = pinned.map_err(read_error)?;
            let $conn: &mut PgConnection = &mut pinned;
            match tokio::time::timeout_at(deadline, $read).await {
                Ok(Err(error)) if error.is_retryable() && tries > 0 => pinned.discard(),
                // The connection may lead to a server that was replaced and still runs.
                Ok(Err(error)) if error.is_other_history() => {
                    pinned.discard();
                    break Err(error);
                }
                Ok(result) => break pinned.end(result, read_error).await,
                // The connection may be half open: nobody else must get it.
                Err(_) => {
                    pinned.discard();
                    break Err(timed_out());
                }
            }
            tries -= 1;
        }
    }};
}

impl PgLog {
    pub(crate) fn start(database: Database, info: NamespaceInfo, months: Months, options: LogOptions) -> Self {
        let coalescer = Coalescer::start(&database, &info, &options);
        PgLog {
            inner: Arc::new(Inner {
                database,
                info,
                coalescer,
                retry_for: options.retry_for,
                settled: Default::default(),
                months: (Arc::new(months), tokio::time::Instant::now()).into(),
            }),
            under: None,
        }
    }

    /// Returns the namespace's settings as they were when the log was opened.
    pub fn info(&self) -> &NamespaceInfo {
        &self.inner.info
    }

    /// Returns the database that holds the log.
    pub fn database(&self) -> &Database {
        &self.inner.database
    }

    /// Appends in the caller's transaction: the events are there if and when it commits. A conflict
    /// leaves the transaction usable. Other errors abort it, as PostgreSQL's errors do.
    pub async fn append_in(&self, conn: &mut PgConnection, append: &Append) -> Result<Appended, AppendError> {
        append.validate(self.max_payload_bytes())?;
        append_one(conn, self.namespace(), append, BatchOptions { notify: true, patience_ms: None, short_way: false })
            .await
    }

    /// Returns a page of a stream as the caller's transaction sees it, its own appends included.
    pub async fn stream_page_in(
        &self,
        conn: &mut PgConnection,
        query: &StreamQuery,
    ) -> Result<Vec<RecordedEvent>, ReadError> {
        query.validate()?;
        let (events, poison) = read::stream_page(conn, &self.inner.info, &self.known_months(), query).await?;
        poison.say(&self.inner.info);
        Ok(events)
    }

    /// Returns a page of the log, read in the caller's transaction, which must be READ COMMITTED:
    /// what is committed, up to the horizon. The caller's own appends lie beyond it.
    pub async fn log_page_in(&self, conn: &mut PgConnection, query: &LogQuery) -> Result<LogPage, ReadError> {
        query.validate()?;
        let (horizon, _) = read::horizon(conn, &self.inner.info, self.under).await?;
        read::log_page(conn, self.of(&self.known_months()), query, horizon.horizon).await.map(|(page, _)| page)
    }

    /// Changes after every commit of this process to the log. It wakes readers at once, without a
    /// round trip.
    pub fn commits(&self) -> tokio::sync::watch::Receiver<u64> {
        self.inner.coalescer.notifier().poked()
    }

    /// Stores an event now, to be appended and delivered no earlier than it is due by the
    /// database's clock. An event that is due already is appended at once. An event that names a
    /// stream goes there, whatever its version is then; its header `due_at` says when it was due.
    /// Returns the event's id, with which it can be [cancelled](PgLog::cancel_due).
    pub async fn emit_at(&self, due: impl Into<Due>, event: Event) -> Result<Uuid, AppendError> {
        let (id, request) = (event.id, Append::from(event));
        request.validate(self.max_payload_bytes())?;
        let inner = &self.inner;
        let stored = due::store(&inner.database, inner.retry_for, self.namespace(), due.into(), &request).await?;
        if stored.appended {
            inner.coalescer.notifier().poke(1);
        } else if stored.soon {
            inner.coalescer.notifier().poke_due();
        }
        Ok(id)
    }

    /// [`emit_at`](PgLog::emit_at) in the caller's transaction: the event is there if and when it
    /// commits.
    pub async fn emit_at_in(
        &self,
        conn: &mut PgConnection,
        due: impl Into<Due>,
        event: Event,
    ) -> Result<Uuid, AppendError> {
        let (id, request) = (event.id, Append::from(event));
        request.validate(self.max_payload_bytes())?;
        due::store_in(conn, self.namespace(), due.into(), &request).await?;
        Ok(id)
    }

    /// Cancels an event that is not due yet. Returns whether it did: then the event is never
    /// delivered. If not, it was appended already, or there is no event with this id.
    pub async fn cancel_due(&self, event_id: Uuid) -> Result<bool, AppendError> {
        due::cancel(&self.inner.database, self.inner.retry_for, self.namespace(), event_id).await
    }

    /// [`cancel_due`](PgLog::cancel_due) in the caller's transaction.
    pub async fn cancel_due_in(&self, conn: &mut PgConnection, event_id: Uuid) -> Result<bool, AppendError> {
        due::cancel_in(conn, self.namespace(), event_id).await
    }

    /// Lists events that are not due yet, the next one first, at most `limit`.
    pub async fn due_events(&self, limit: u32) -> Result<Vec<DueEvent>, ReadError> {
        reading!(self, conn => due::list(conn, self.id(), false, limit))
    }

    /// Lists events that were due and could not be appended, at most `limit`.
    pub async fn failed_due_events(&self, limit: u32) -> Result<Vec<DueEvent>, ReadError> {
        reading!(self, conn => due::list(conn, self.id(), true, limit))
    }

    /// Appends the due events and the due events of schedules, at most `max_events`, and says when
    /// to call again. Nodes do this by themselves.
    pub async fn fire_due(&self, max_events: u32) -> Result<Fired, AppendError> {
        let fired = due::fire(&self.inner.database, self.namespace(), max_events).await?;
        if fired.fired > 0 {
            self.inner.coalescer.notifier().poke(fired.fired as usize);
        }
        Ok(fired)
    }

    /// Changes when this process has stored an event that is due soon. It wakes firing tasks at
    /// once, without a round trip.
    pub fn due_changes(&self) -> tokio::sync::watch::Receiver<u64> {
        self.inner.coalescer.notifier().due_poked()
    }

    /// Takes no more appends, and returns when all queued appends are answered.
    pub async fn close(&self) {
        self.inner.coalescer.close().await;
    }

    /// How long calls are tried again while the database cannot be reached.
    pub(crate) fn retry_for(&self) -> Duration {
        self.inner.retry_for
    }

    /// Wakes readers: this many events were appended.
    pub(crate) fn poke_appended(&self, events: usize) {
        self.inner.coalescer.notifier().poke(events);
    }

    /// Wakes firing tasks: what is due next has changed.
    pub(crate) fn poke_due(&self) {
        self.inner.coalescer.notifier().poke_due();
    }

    /// Returns up to where everything is trimmed, as far as is known: see
    /// [`look_up_months`](PgLog::look_up_months).
    pub fn trimmed_to(&self) -> u64 {
        self.known_months().trimmed_to
    }

    fn known_months(&self) -> Arc<Months> {
        self.inner.months.lock().expect("no holder of this lock panics").0.clone()
    }

    /// Returns what is known about sealed months. If that is old, it is looked up again.
    async fn months(&self) -> Arc<Months> {
        let old = {
            let mut known = self.inner.months.lock().expect("no holder of this lock panics");
            // Others who come in the meantime use the old knowledge.
            let old = known.1.elapsed() >= MONTHS_FOR;
            if old {
                known.1 = tokio::time::Instant::now();
            }
            old
        };
        if old && let Err(error) = self.look_up_months().await {
            tracing::debug!(namespace = self.inner.info.name, %error, "failed to look up sealed months");
        }
        self.known_months()
    }

    /// Looks up which months are sealed and trimmed, as reads do once a minute.
    pub async fn look_up_months(&self) -> Result<(), ReadError> {
        let months = Arc::new(reading!(self, conn => Months::load(conn, self.id()))?);
        *self.inner.months.lock().expect("no holder of this lock panics") = (months, tokio::time::Instant::now());
        Ok(())
    }

    fn settled(&self) -> Settled {
        *self.inner.settled.lock().expect("no holder of this lock panics")
    }

    fn note_settled(&self, proved: Settled) {
        let mut known = self.inner.settled.lock().expect("no holder of this lock panics");
        *known = match known.history == proved.history {
            true => Settled { up_to: known.up_to.max(proved.up_to), ..proved },
            false => proved,
        };
    }

    /// Forgets what was proved and looked up in a history that is over.
    fn forget(&self, history: Option<History>) {
        let mut known = self.inner.settled.lock().expect("no holder of this lock panics");
        if known.history == history {
            *known = Settled::default();
            *self.inner.months.lock().expect("no holder of this lock panics") =
                (Arc::default(), tokio::time::Instant::now() - MONTHS_FOR);
        }
    }

    /// Describes what to read, and in which history.
    fn of<'a>(&'a self, months: &'a Months) -> Of<'a> {
        Of { info: &self.inner.info, months, history: self.under }
    }

    fn id(&self) -> i32 {
        self.inner.info.id
    }

    fn max_payload_bytes(&self) -> usize {
        self.inner.info.max_payload_bytes as usize
    }
}

#[async_trait]
impl EventLog for PgLog {
    fn namespace(&self) -> &str {
        &self.inner.info.name
    }

    async fn append(&self, append: Append) -> Result<Appended, AppendError> {
        append.validate(self.max_payload_bytes())?;
        self.inner.coalescer.append(append).await
    }

    async fn stream_page(&self, query: &StreamQuery) -> Result<Vec<RecordedEvent>, ReadError> {
        query.validate()?;
        let months = self.months().await;
        let (events, poison) = reading!(self, conn => read::stream_page(conn, &self.inner.info, &months, query))?;
        self.inner.database.note_poison(&self.inner.info, &poison).await;
        Ok(events)
    }

    async fn log_page(&self, query: &LogQuery) -> Result<LogPage, ReadError> {
        query.validate()?;
        loop {
            let known = self.settled();
            // A proof is true only in its history.
            let under = self.under.or(known.history.filter(|_| known.up_to > 0));
            let months = self.months().await;
            let of = Of { info: &self.inner.info, months: &months, history: under };
            match reading!(self, conn => read::log_page(conn, of, query, known.up_to)) {
                Ok((page, proved)) => {
                    match proved {
                        Some((up_to, Some(history))) => {
                            self.note_settled(Settled { history: Some(history), up_to });
                        }
                        // Begin a history for the next read. Where none can begin, the horizon is
                        // proved again.
                        Some((_, None)) => _ = self.history().await,
                        None => {}
                    }
                    return Ok(page);
                }
                Err(error) if error.is_other_history() && self.under.is_none() => self.forget(under),
                Err(error) => return Err(error),
            }
        }
    }

    async fn event(&self, id: Uuid) -> Result<Option<RecordedEvent>, ReadError> {
        reading!(self, conn => read::event(conn, self.id(), id))
    }

    async fn correlated(&self, correlation_id: Uuid, after: u64, limit: u32) -> Result<Vec<RecordedEvent>, ReadError> {
        let (events, poison) = reading!(self, conn => read::correlated(conn, self.id(), correlation_id, after, limit))?;
        self.inner.database.note_poison(&self.inner.info, &poison).await;
        Ok(events)
    }

    async fn causation_chain(&self, id: Uuid, limit: u32) -> Result<Vec<RecordedEvent>, ReadError> {
        let (events, poison) = reading!(self, conn => read::causation_chain(conn, self.id(), id, limit))?;
        self.inner.database.note_poison(&self.inner.info, &poison).await;
        Ok(events)
    }

    async fn horizon(&self) -> Result<Horizon, ReadError> {
        let (horizon, _) = reading!(self, conn => read::horizon(conn, &self.inner.info, self.under))?;
        Ok(horizon)
    }

    async fn settled_up_to(&self, seen: u64) -> Result<Horizon, ReadError> {
        reading!(self, conn => read::settled_up_to(conn, &self.inner.info, self.under, seen))
    }

    async fn settled_page(&self, after: u64, settled: u64, limit: u32) -> Result<LogPage, ReadError> {
        let query = LogQuery::after(after).up_to(settled).page_size(limit);
        query.validate()?;
        let months = self.months().await;
        reading!(self, conn => read::settled_page(conn, self.of(&months), &query, settled))
    }

    async fn pass_types(
        &self,
        after: u64,
        settled: u64,
        event_types: &[String],
    ) -> Result<Option<PassedOver>, ReadError> {
        reading!(self, conn => read::pass_types(conn, &self.inner.info, self.under, (after, settled), event_types))
    }

    async fn history(&self) -> Result<History, ReadError> {
        let history = reading!(self, conn => read::history(conn))?;
        let known = self.settled().history;
        if known.is_some_and(|known| known != history) {
            self.forget(known);
        }
        self.note_settled(Settled { history: Some(history), up_to: 0 });
        Ok(history)
    }

    fn under(&self, history: History) -> Arc<dyn EventLog> {
        Arc::new(PgLog { inner: self.inner.clone(), under: Some(history) })
    }

    async fn look_ahead(&self, after: u64, gaps: &Gaps, limit: u32) -> Result<LookAhead, ReadError> {
        self.look_again(Look { after, limit, gaps, looked_to: 0, writers: &[], kept_after: 0 }).await
    }

    async fn look_again(&self, look: Look<'_>) -> Result<LookAhead, ReadError> {
        let months = self.months().await;
        reading!(self, conn => read::look_again(conn, self.of(&months), look))
    }

    async fn in_gaps(&self, gaps: &Gaps, limit: u32) -> Result<LookAhead, ReadError> {
        let months = self.months().await;
        reading!(self, conn => read::late_events(conn, self.of(&months), gaps, limit))
    }

    async fn visible_page(&self, after: u64, up_to: u64, limit: u32) -> Result<LogPage, ReadError> {
        let months = self.months().await;
        reading!(self, conn => read::visible_page(conn, self.of(&months), after, up_to, limit))
    }

    async fn long_transactions(
        &self,
        part: (u64, u64),
        newest: u64,
        span: u64,
        limit: u32,
    ) -> Result<LongTransactions, ReadError> {
        let months = self.months().await;
        reading!(self, conn => read::long_transactions(conn, self.of(&months), part, newest, span, limit))
    }
}
