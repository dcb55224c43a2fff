//! The log of one namespace in PostgreSQL.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use headwater_core::{
    AdminError, Append, AppendError, Appended, Event, EventLog, Gaps, Horizon, LogPage, LogQuery, LookAhead,
    NamespaceInfo, ReadError, StreamQuery,
};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::batch::{Manner, append_one};
use crate::coalescer::Coalescer;
use crate::error::read_error;
use crate::{Database, read};

/// How a log appends.
#[derive(Debug, Clone, PartialEq)]
pub struct LogOptions {
    /// Connections that write at once.
    pub flushers: usize,
    /// Most bytes of events that wait to be written; callers beyond that wait.
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
}

#[derive(Debug)]
struct Inner {
    database: Database,
    info: NamespaceInfo,
    coalescer: Coalescer,
    /// At or below, everything is settled: proved once, true for ever.
    settled: AtomicU64,
    /// The server's, when it was last asked.
    epoch: std::sync::Mutex<String>,
}

impl PgLog {
    pub(crate) fn start(database: Database, info: NamespaceInfo, options: LogOptions) -> Self {
        let coalescer = Coalescer::start(&database, &info, &options);
        PgLog {
            inner: Arc::new(Inner { database, info, coalescer, settled: AtomicU64::new(0), epoch: Default::default() }),
        }
    }

    /// The namespace's settings as they were when the log was opened.
    pub fn info(&self) -> &NamespaceInfo {
        &self.inner.info
    }

    /// The database that the log is in.
    pub fn database(&self) -> &Database {
        &self.inner.database
    }

    /// Appends in a transaction of the caller's: the events are there if and when it commits. A conflict leaves the
    /// transaction usable; other errors abort it, as errors of PostgreSQL do.
    pub async fn append_in(&self, conn: &mut PgConnection, append: &Append) -> Result<Appended, AppendError> {
        append.validate(self.max_payload_bytes())?;
        append_one(conn, self.namespace(), append, Manner { notify: true, patience_ms: None, short_way: false }).await
    }

    /// A page of a stream as a transaction of the caller's sees it, its own appends included.
    pub async fn stream_page_in(&self, conn: &mut PgConnection, query: &StreamQuery) -> Result<Vec<Event>, ReadError> {
        query.validate()?;
        read::stream_page(conn, self.id(), query).await
    }

    /// A page of the log, read in a transaction of the caller's, which must be READ COMMITTED: what is committed, up to the horizon.
    /// The caller's own appends lie beyond it.
    pub async fn log_page_in(&self, conn: &mut PgConnection, query: &LogQuery) -> Result<LogPage, ReadError> {
        query.validate()?;
        let horizon = read::horizon(conn, &self.inner.info).await?;
        read::log_page(conn, &self.inner.info, query, horizon.horizon).await.map(|(page, _)| page)
    }

    /// Changes after every commit of this process to the log: wakes readers at once, without a round trip.
    pub fn commits(&self) -> tokio::sync::watch::Receiver<u64> {
        self.inner.coalescer.commits()
    }

    /// Takes no more appends, and returns when those that are queued are answered.
    pub async fn close(&self) {
        self.inner.coalescer.close().await;
    }

    fn id(&self) -> i32 {
        self.inner.info.id.into()
    }

    fn max_payload_bytes(&self) -> usize {
        self.inner.info.max_payload_bytes as usize
    }
}

/// A page that takes longer has failed.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Runs a read on a connection of the pool. One that turns out to be dead is dropped, and the read tried on the next: after
/// a restart of the server, all that the pool has are dead. (A macro, since the future of an async closure is not `Send`.)
macro_rules! reading {
    ($log:expr, $conn:ident => $read:expr) => {{
        let database = &$log.inner.database;
        let mut tries = database.pool.size();
        let deadline = tokio::time::Instant::now() + READ_TIMEOUT;
        loop {
            let mut pinned = database.pin().await.map_err(read_error)?;
            let $conn: &mut PgConnection = &mut pinned;
            match tokio::time::timeout_at(deadline, $read).await {
                Ok(Err(error)) if error.is_retryable() && tries > 0 => pinned.discard(),
                Ok(result) => break pinned.end(result, read_error).await,
                // It may be half open: nobody else shall get it.
                Err(_) => {
                    pinned.discard();
                    let timed_out = sqlx::Error::Io(std::io::Error::from(std::io::ErrorKind::TimedOut));
                    break Err(read_error(timed_out));
                }
            }
            tries -= 1;
        }
    }};
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

    async fn stream_page(&self, query: &StreamQuery) -> Result<Vec<Event>, ReadError> {
        query.validate()?;
        reading!(self, conn => read::stream_page(conn, self.id(), query))
    }

    async fn log_page(&self, query: &LogQuery) -> Result<LogPage, ReadError> {
        query.validate()?;
        let settled = self.inner.settled.load(Ordering::Acquire);
        let (page, proved) = reading!(self, conn => read::log_page(conn, &self.inner.info, query, settled))?;
        self.inner.settled.fetch_max(proved, Ordering::AcqRel);
        Ok(page)
    }

    async fn event(&self, id: Uuid) -> Result<Option<Event>, ReadError> {
        reading!(self, conn => read::event(conn, self.id(), id))
    }

    async fn correlated(&self, correlation_id: Uuid, after: u64, limit: u32) -> Result<Vec<Event>, ReadError> {
        reading!(self, conn => read::correlated(conn, self.id(), correlation_id, after, limit))
    }

    async fn causation_chain(&self, id: Uuid, limit: u32) -> Result<Vec<Event>, ReadError> {
        reading!(self, conn => read::causation_chain(conn, self.id(), id, limit))
    }

    async fn horizon(&self) -> Result<Horizon, ReadError> {
        reading!(self, conn => read::horizon(conn, &self.inner.info))
    }

    async fn settled_page(&self, after: u64, settled: u64, limit: u32) -> Result<LogPage, ReadError> {
        let query = LogQuery::after(after).up_to(settled).page_size(limit);
        query.validate()?;
        reading!(self, conn => read::settled_page(conn, &self.inner.info, &query, settled))
    }

    async fn epoch(&self) -> Result<String, ReadError> {
        let epoch = reading!(self, conn => read::epoch(conn))?;
        let mut known = self.inner.epoch.lock().expect("no holder of this lock panics");
        if !known.is_empty() && *known != epoch {
            self.inner.settled.store(0, Ordering::Release);
        }
        known.clone_from(&epoch);
        Ok(epoch)
    }

    async fn look_ahead(&self, after: u64, gaps: &Gaps, limit: u32) -> Result<LookAhead, ReadError> {
        reading!(self, conn => read::look_ahead(conn, &self.inner.info, after, gaps, limit))
    }
}
