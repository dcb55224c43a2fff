//! Wake-ups after the commit, off the write path.
//!
//! There is one task per log, with a connection of its own while there is work. Writers poke it
//! after their commit and go on. It sends one NOTIFY for all pokes since the last one: the first at
//! once, and the next after a pause. A NOTIFY that fails is dropped: a wake-up is a hint, and
//! readers poll behind it. When the log is closed, the last poke is still sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use sqlx::PgConnection;
use tokio::sync::{Mutex, Notify, watch};
use tokio::task::JoinHandle;

use crate::database::transaction_pooler;
use crate::{Database, sql};

/// The pause between wake-ups, which cost the server a commit each, by how many events came since
/// the last one. A single event is announced at once. The more events there are, the busier readers
/// are anyway.
const PAUSES: [(usize, Duration); 3] =
    [(32, Duration::from_millis(10)), (2, Duration::from_millis(4)), (0, Duration::from_millis(1))];
/// A wake-up that takes longer is given up: the connection may be half open.
const PATIENCE: Duration = Duration::from_secs(2);
/// The connection is given back after this long without a wake-up.
const IDLE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Notifier {
    shared: Arc<Shared>,
    task: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Shared {
    changed: Notify,
    /// How many events were committed since the last wake-up.
    events: AtomicUsize,
    /// Whether an event was stored that is due soon.
    due: AtomicBool,
    closing: AtomicBool,
    /// Changes with every poke: wakes readers in this process at once.
    poked: watch::Sender<u64>,
    /// Changes when an event was stored that is due soon: wakes firing tasks in this process at
    /// once.
    due_poked: watch::Sender<u64>,
}

impl Notifier {
    pub(crate) fn start(database: Database, namespace: String) -> Self {
        let shared = Arc::<Shared>::default();
        let task = tokio::spawn(shared.clone().run(database, namespace));
        Notifier { shared, task: Mutex::new(Some(task)) }
    }

    /// Reports how many events have been committed.
    pub(crate) fn poke(&self, events: usize) {
        self.shared.events.fetch_add(events, Ordering::AcqRel);
        self.shared.changed.notify_one();
        self.shared.poked.send_modify(|pokes| *pokes += 1);
    }

    /// Reports that an event was stored that is due soon.
    pub(crate) fn poke_due(&self) {
        self.shared.due.store(true, Ordering::Release);
        self.shared.changed.notify_one();
        self.shared.due_poked.send_modify(|pokes| *pokes += 1);
    }

    pub(crate) fn due_poked(&self) -> watch::Receiver<u64> {
        self.shared.due_poked.subscribe()
    }

    pub(crate) fn poked(&self) -> watch::Receiver<u64> {
        self.shared.poked.subscribe()
    }

    /// Returns when the last poke has been passed on.
    pub(crate) async fn close(&self) {
        self.shared.close();
        if let Some(task) = self.task.lock().await.take() {
            // The task ends by itself. Its runtime has reported any panic in it.
            _ = task.await;
        }
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl Shared {
    fn close(&self) {
        self.closing.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    async fn run(self: Arc<Self>, database: Database, namespace: String) {
        let mut conn = None;
        loop {
            if tokio::time::timeout(IDLE, self.changed.notified()).await.is_err() {
                conn = None;
                continue;
            }
            // Read this before the events, so that a poke before the close is not missed.
            let closing = self.closing.load(Ordering::Acquire);
            let events = self.events.swap(0, Ordering::AcqRel);
            let due = self.due.swap(false, Ordering::AcqRel);
            for statement in
                [(events > 0).then_some(sql::log::WAKE), due.then_some(sql::schedules::WAKE_DUE)].into_iter().flatten()
            {
                let waking = wake(&mut conn, &database, statement, &namespace);
                if !matches!(tokio::time::timeout(PATIENCE, waking).await, Ok(Ok(()))) {
                    conn = None;
                    tracing::debug!(namespace, "failed to wake readers: they will poll");
                }
            }
            if closing {
                return;
            }
            let pause = PAUSES.iter().find(|(least, _)| events >= *least).map_or(Duration::ZERO, |(_, pause)| *pause);
            tokio::time::sleep(pause).await;
        }
    }
}

async fn wake(
    conn: &mut Option<PgConnection>,
    database: &Database,
    statement: &'static str,
    namespace: &str,
) -> Result<(), sqlx::Error> {
    let held = match conn {
        Some(held) => held,
        None => conn.insert(database.session().await?),
    };
    transaction_pooler::begin(held, database.pooler).await?;
    sqlx::query(statement).bind(namespace).execute(&mut *held).await?;
    transaction_pooler::end(held, database.pooler, true).await
}
