//! The coalescer: concurrent appends of one process become one statement and one commit.
//!
//! Callers queue their appends. A few flushers each take what is queued, send it as one batch, and
//! answer after the commit. A batch is what queued while the last one was written. A caller that
//! finds nothing queued and nothing in flight sends its append itself. A second flusher joins only
//! when that is worth a commit of its own: see [`JOIN_EVENTS`].
//!
//! Who has authority: the database. A caller is answered only with what the server said after the
//! commit. What failing calls do:
//! - A conflict is part of the server's answer, and fails only its own caller.
//! - Any other error of a batch (a bad payload, events stored already, a stream whose row another
//!   transaction holds) sends each of its appends alone, on connections of the pool, so that the
//!   flusher continues with the others.
//! - A lost connection leaves the outcome unknown. The batch is sent again, with the same event
//!   ids, which makes that safe, until [`LogOptions::retry_for`] has passed. Then callers get an
//!   error that says so.
//! - If a caller goes away before its append is sent, the append is left out. If it goes away
//!   later, its append stands.
//!
//! Bounds: the queue holds [`LogOptions::max_queued_bytes`]. Callers beyond that wait.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::time::Duration;

use headwater_core::{Append, AppendError, Appended, Backoff, ExpectedVersion, Fault, NamespaceInfo, StreamId};
use sqlx::PgConnection;
use tokio::sync::{Mutex, Notify, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::database::error::{append_error, is_disconnect, is_retryable};
use crate::database::transaction_pooler;
use crate::log::batch::{Answer, BatchOptions, append_batch};
use crate::log::notifier::Notifier;
use crate::{Database, LogOptions};

/// Most events per statement. A larger batch gains nothing and holds its locks for longer.
const MAX_BATCH_EVENTS: usize = 2_000;
/// Most bytes per statement.
const MAX_BATCH_BYTES: usize = 8 * 1024 * 1024;
/// How long a batch waits for a stream that another transaction holds, before each append goes
/// alone.
const BATCH_PATIENCE_MS: i32 = 200;
/// How many appends are sent alone at once, and how many more may wait for locks.
const LONERS: usize = 4;
/// The pauses between tries.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(10), Duration::from_secs(1));
/// While a batch is being written, the next one grows until it has this many events, or has waited
/// for [`JOIN_AFTER`]. Then it is sent beside the other. Smaller ones cost more in commits than
/// they gain in time.
const JOIN_EVENTS: usize = 32;
const JOIN_AFTER: Duration = Duration::from_millis(2);
/// A flusher that has had nothing to do for this long gives its connection back.
const IDLE: Duration = Duration::from_secs(10);

type Outcome = Result<Appended, AppendError>;

#[derive(Debug)]
struct Job {
    append: Append,
    reply: oneshot::Sender<Outcome>,
    _room: OwnedSemaphorePermit,
}

/// The queue's front end.
#[derive(Debug)]
pub(crate) struct Coalescer {
    queue: std::sync::Mutex<Option<mpsc::UnboundedSender<Job>>>,
    room: Arc<Semaphore>,
    max_queued_bytes: u32,
    flushers: Mutex<JoinSet<()>>,
    flusher: Arc<Flusher>,
}

impl Coalescer {
    pub(crate) fn start(database: &Database, namespace: &NamespaceInfo, options: &LogOptions) -> Self {
        let (queue, jobs) = mpsc::unbounded_channel();
        let flusher = Arc::new(Flusher {
            notifier: Notifier::start(database.clone(), namespace.name.clone()),
            database: database.clone(),
            namespace: namespace.name.clone(),
            // With a pooler this runs in a transaction, and the long way could not follow a failure
            // there.
            short_way: namespace.ordering == headwater_core::Ordering::Sequence
                && namespace.index == headwater_core::Index::None
                && !database.pooler,
            jobs: Mutex::new(jobs),
            retry_for: options.retry_for,
            loners: Semaphore::new(LONERS),
            waiters: Semaphore::new(LONERS),
            direct: Mutex::default(),
            queued: AtomicUsize::new(0),
            under_way: AtomicUsize::new(0),
            landed: Notify::new(),
        });
        let mut flushers = JoinSet::new();
        for _ in 0..options.flushers {
            flushers.spawn(flusher.clone().run());
        }
        Coalescer {
            queue: std::sync::Mutex::new(Some(queue)),
            room: Arc::new(Semaphore::new(options.max_queued_bytes as usize)),
            max_queued_bytes: options.max_queued_bytes,
            flushers: Mutex::new(flushers),
            flusher,
        }
    }

    pub(crate) async fn append(&self, append: Append) -> Outcome {
        // An append that is larger than the queue goes alone through an empty one.
        let weight = u32::try_from(append.weight()).unwrap_or(u32::MAX).min(self.max_queued_bytes);
        let room = self.room.clone().acquire_many_owned(weight).await.map_err(|_| AppendError::ShuttingDown)?;
        let (reply, outcome) = oneshot::channel();
        if let Some(job) = self.flusher.flush_directly(Job { append, reply, _room: room }).await {
            self.enqueue(job)?;
        }
        outcome.await.unwrap_or(Err(AppendError::ShuttingDown))
    }

    /// Returns the notifier that tells readers of commits.
    pub(crate) fn notifier(&self) -> &Notifier {
        &self.flusher.notifier
    }

    fn enqueue(&self, job: Job) -> Result<(), AppendError> {
        let queue = self.queue.lock().expect("the queue's lock is never poisoned");
        let queue = queue.as_ref().ok_or(AppendError::ShuttingDown)?;
        self.flusher.queued.fetch_add(1, AcqRel);
        queue.send(job).map_err(|_| AppendError::ShuttingDown)
    }

    /// Takes no more appends, and returns when all queued appends are answered.
    pub(crate) async fn close(&self) {
        self.room.close();
        drop(self.queue.lock().expect("the queue's lock is never poisoned").take());
        let mut flushers = self.flushers.lock().await;
        while flushers.join_next().await.is_some() {}
        self.flusher.rest();
        self.flusher.notifier.close().await;
    }
}

impl Drop for Coalescer {
    fn drop(&mut self) {
        // Queued appends are still written: without senders, the flushers end when the queue is
        // empty.
        self.flushers.get_mut().detach_all();
    }
}

#[derive(Debug)]
struct Flusher {
    database: Database,
    namespace: String,
    short_way: bool,
    jobs: Mutex<mpsc::UnboundedReceiver<Job>>,
    notifier: Notifier,
    retry_for: Duration,
    loners: Semaphore,
    waiters: Semaphore,
    direct: Mutex<Direct>,
    /// How many jobs no flusher has taken yet.
    queued: AtomicUsize,
    /// How many batches are being written.
    under_way: AtomicUsize,
    /// Notified when a batch has been written.
    landed: Notify,
}

/// The connection of callers that send their append themselves.
#[derive(Debug, Default)]
struct Direct {
    conn: Option<PgConnection>,
    used: bool,
}

/// A batch that is being written, from before it is sent until its callers have been answered.
struct BatchInFlight<'a>(&'a Flusher);

impl Drop for BatchInFlight<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, AcqRel);
        self.0.landed.notify_one();
    }
}

impl Flusher {
    async fn run(self: Arc<Self>) {
        let mut conn = None;
        let mut taken = Vec::new();
        let mut alone = JoinSet::new();
        loop {
            let turn = match tokio::time::timeout(IDLE, self.take_jobs(&mut taken)).await {
                Ok(Some(turn)) => turn,
                Ok(None) => break,
                Err(_) => {
                    conn = None;
                    self.rest();
                    continue;
                }
            };
            let mut waiting = std::mem::take(&mut taken);
            while !waiting.is_empty() {
                waiting.retain(|job| !job.reply.is_closed());
                let (batch, rest) = split_batch(waiting);
                waiting = rest;
                let mut apart = self.flush(&mut conn, batch).await;
                if !apart.is_empty() {
                    // What is left waits for the same streams: it must not hold up this flusher
                    // batch by batch.
                    apart.append(&mut waiting);
                }
                for job in apart {
                    let flusher = self.clone();
                    alone.spawn(async move { flusher.flush_alone(job).await });
                }
            }
            while alone.try_join_next().is_some() {}
            // The callers just answered come back with their next appends before anybody takes what
            // is queued.
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
            drop(turn);
        }
        while alone.join_next().await.is_some() {}
    }

    /// Waits for jobs and takes what is queued, when it is time. `None`: the queue is closed and
    /// empty.
    async fn take_jobs(&self, taken: &mut Vec<Job>) -> Option<BatchInFlight<'_>> {
        let mut jobs = self.jobs.lock().await;
        if taken.is_empty() && jobs.recv_many(taken, MAX_BATCH_EVENTS).await == 0 {
            return None;
        }
        let join = tokio::time::sleep(JOIN_AFTER);
        tokio::pin!(join);
        while self.under_way.load(Acquire) > 0 && taken.len() < JOIN_EVENTS && !jobs.is_closed() {
            tokio::select! {
                _ = jobs.recv_many(taken, MAX_BATCH_EVENTS) => {}
                () = self.landed.notified() => {}
                () = &mut join => break,
            }
        }
        self.queued.fetch_sub(taken.len(), AcqRel);
        self.under_way.fetch_add(1, AcqRel);
        Some(BatchInFlight(self))
    }

    /// Sends an append from its caller, if nothing is queued and nothing is in flight. Otherwise,
    /// or if the job must go another way, it returns the job.
    async fn flush_directly(&self, job: Job) -> Option<Job> {
        let Ok(mut direct) = self.direct.try_lock() else { return Some(job) };
        if self.queued.load(Acquire) > 0 || self.under_way.compare_exchange(0, 1, AcqRel, Acquire).is_err() {
            return Some(job);
        }
        let _in_flight = BatchInFlight(self);
        direct.used = true;
        self.flush(&mut direct.conn, vec![job]).await.pop()
    }

    /// Gives the connection of direct appends back, if there were none since the last rest.
    fn rest(&self) {
        // If it is locked, a caller's future uses it, and we must not wait for that.
        if let Ok(mut direct) = self.direct.try_lock()
            && !std::mem::take(&mut direct.used)
        {
            direct.conn = None;
        }
    }

    /// Sends a batch and answers its callers. Returns the jobs that must be sent alone.
    async fn flush(&self, conn: &mut Option<PgConnection>, batch: Vec<Job>) -> Vec<Job> {
        if batch.is_empty() {
            return batch;
        }
        let options = self.batch_options(BATCH_PATIENCE_MS);
        let appends: Vec<&Append> = batch.iter().map(|job| &job.append).collect();
        match self.send(conn, &appends, options, is_disconnect).await {
            Ok(answers) => {
                self.notifier.poke(appends.iter().map(|append| append.events().len()).sum());
                let mut alone = Vec::new();
                for (job, answer) in batch.into_iter().zip(answers) {
                    match answer {
                        Answer::Done(outcome) => _ = job.reply.send(outcome),
                        Answer::SendAlone => alone.push(job),
                    }
                }
                alone
            }
            Err(error) if is_disconnect(&error) => {
                for job in batch {
                    let fault = Fault { message: error.to_string(), retryable: true, source: None };
                    _ = job.reply.send(Err(AppendError::Unavailable(fault)));
                }
                Vec::new()
            }
            Err(error) if batch.len() == 1 && !is_retryable(&error) => {
                if let Some(job) = batch.into_iter().next() {
                    _ = job.reply.send(Err(append_error(error)));
                }
                Vec::new()
            }
            Err(error) => {
                tracing::debug!(namespace = self.namespace, %error, appends = batch.len(), "a batch failed: sending each alone");
                batch
            }
        }
    }

    fn batch_options(&self, patience_ms: i32) -> BatchOptions {
        BatchOptions { notify: false, patience_ms: Some(patience_ms), short_way: self.short_way }
    }

    /// Sends one append by itself, on its own connection. Appends that wait for a lock use a
    /// separate limit from the others, so that they hold up nobody.
    async fn flush_alone(&self, job: Job) {
        let outcome = match self.send_alone(&job, &self.loners, BATCH_PATIENCE_MS, is_disconnect).await {
            Err(error) if is_retryable(&error) && !is_disconnect(&error) => {
                let patience_ms = i32::try_from(self.retry_for.as_millis()).unwrap_or(i32::MAX);
                self.send_alone(&job, &self.waiters, patience_ms, is_retryable).await
            }
            outcome => outcome,
        };
        let outcome = match outcome.map(|mut answers| answers.pop()) {
            Ok(Some(Answer::Done(outcome))) => outcome,
            Ok(answer) => unreachable!("one append has one answer of its own, not {answer:?}"),
            Err(error) => Err(append_error(error)),
        };
        self.notifier.poke(job.append.events().len());
        _ = job.reply.send(outcome);
    }

    async fn send_alone(
        &self,
        job: &Job,
        places: &Semaphore,
        patience_ms: i32,
        may_pass: fn(&sqlx::Error) -> bool,
    ) -> Result<Vec<Answer>, sqlx::Error> {
        let _place = places.acquire().await.expect("this semaphore is never closed");
        let options = self.batch_options(patience_ms);
        self.send(&mut None, &[&job.append], options, may_pass).await
    }

    /// Runs a batch until the server answers, or `retry_for` has passed with errors that
    /// `may_pass`.
    async fn send(
        &self,
        conn: &mut Option<PgConnection>,
        appends: &[&Append],
        options: BatchOptions,
        may_pass: fn(&sqlx::Error) -> bool,
    ) -> Result<Vec<Answer>, sqlx::Error> {
        let deadline = Instant::now() + self.retry_for;
        let mut pauses = PAUSES;
        loop {
            let error = match self.try_send(conn, appends, options, deadline).await {
                Ok(answers) => return Ok(answers),
                Err(error) => error,
            };
            if !may_pass(&error) || Instant::now() + pauses.next_pause() > deadline {
                return Err(error);
            }
            tracing::warn!(namespace = self.namespace, %error, "failed to append, trying again");
            tokio::time::sleep(pauses.pause()).await;
        }
    }

    async fn try_send(
        &self,
        conn: &mut Option<PgConnection>,
        appends: &[&Append],
        options: BatchOptions,
        deadline: Instant,
    ) -> Result<Vec<Answer>, sqlx::Error> {
        // Take the connection out while it is used: a connection abandoned half-way, by an error or
        // by the deadline, is not used again.
        let attempt = async {
            let mut held = match conn.take() {
                Some(held) => held,
                None => self.database.session().await?,
            };
            let pooler = self.database.pooler;
            transaction_pooler::begin(&mut held, pooler).await?;
            let mut answers = append_batch(&mut held, &self.namespace, appends, options).await;
            if !answers.as_ref().is_err_and(is_disconnect)
                && let Err(error) = transaction_pooler::end(&mut held, pooler, answers.is_ok()).await
            {
                answers = Err(error);
            }
            if answers.as_ref().is_err_and(|error| !is_disconnect(error)) {
                // The server reports an error before it has rolled back. Until it has, its lock
                // holds the horizon.
                sqlx::Connection::ping(&mut held).await?;
            }
            Ok::<_, sqlx::Error>((held, answers))
        };
        let timed_out = |_| sqlx::Error::Io(std::io::Error::from(std::io::ErrorKind::TimedOut));
        let (held, answers) = tokio::time::timeout_at(deadline, attempt).await.map_err(timed_out)??;
        if !answers.as_ref().is_err_and(is_disconnect) {
            *conn = Some(held);
        }
        answers
    }
}

/// Splits jobs into those that can go together, and the rest, in order. A stream that two jobs
/// write to must not decide between them, so both must expect any version of it, and nothing else.
fn split_batch(jobs: Vec<Job>) -> (Vec<Job>, Vec<Job>) {
    let (mut batch, mut rest) = (Vec::with_capacity(jobs.len()), Vec::new());
    let mut streams: HashMap<StreamId, bool> = HashMap::new();
    let (mut events, mut bytes) = (0, 0);
    for job in jobs {
        let writes = job.append.writes();
        let easy = matches!(writes[..], [write] if write.expected == ExpectedVersion::Any);
        let fits = batch.is_empty()
            || events + job.append.events().len() <= MAX_BATCH_EVENTS && bytes + job.append.weight() <= MAX_BATCH_BYTES;
        if fits && writes.iter().all(|write| streams.get(write.stream_id).is_none_or(|there| *there && easy)) {
            streams.extend(writes.iter().map(|write| (write.stream_id.clone(), easy)));
            events += job.append.events().len();
            bytes += job.append.weight();
            batch.push(job);
        } else {
            rest.push(job);
        }
    }
    (batch, rest)
}
