//! The followers of one log in this process: they share one tail, so a thousand of them cost about
//! the reads of one.
//!
//! Who has authority: the log. The shared tail begins with the first follower and ends with the
//! last. A follower keeps its own position, and nothing here writes to the database. States of the
//! shared reader: absent, reading, and closed for good.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use headwater_core::{AdminError, EventLog, ReadError, jittered};
use headwater_postgres::{PgLog, WakeUps};
use tokio::sync::{Mutex as AsyncMutex, watch};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::follower::Following;
use super::tail::Tail;
use crate::follow::{FollowQuery, Follower};

/// How often the reader looks at the log without a wake-up.
const POLL: Duration = Duration::from_secs(1);
/// Pause between questions whether the namespace is still there. The owner of Headwater's tables
/// cannot tell that from reads, which use the namespace's number.
const ASK_NAMESPACE: Duration = Duration::from_secs(10);

/// The followers of one log in this process. Clones are the same followers.
///
/// [`Namespace::follow`](crate::Namespace::follow) uses them for a log in PostgreSQL. Use this type
/// for other logs, such as the log of `headwater-memory` in tests.
#[derive(Clone)]
pub struct Followers {
    shared: Arc<Shared>,
}

struct Shared {
    log: Arc<dyn EventLog>,
    /// The log, if it is in PostgreSQL: wake-ups then come from there.
    postgres: Option<PgLog>,
    poll: Duration,
    reader: Mutex<Weak<Reader>>,
    closed: watch::Sender<bool>,
}

/// Reads the log for all followers, as long as there is one.
pub(in crate::node) struct Reader {
    pub(in crate::node) tail: Arc<Tail>,
    /// The last place that was looked up for a new follower. Many followers begin at the same
    /// place.
    pub(in crate::node) looked_up: AsyncMutex<Option<LookedUp>>,
    _tasks: JoinSet<()>,
    _listening: Option<WakeUps>,
}

/// An event's place and its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::node) struct Anchor {
    pub(in crate::node) sequence: u64,
    pub(in crate::node) id: Uuid,
}

/// The last event at or below a place, as one generation of the tail has it.
#[derive(Debug, Clone, Copy)]
pub(in crate::node) struct LookedUp {
    pub(in crate::node) generation: u64,
    pub(in crate::node) up_to: u64,
    pub(in crate::node) anchor: Option<Anchor>,
}

impl Followers {
    /// The followers of any log. New events are found by polling.
    pub fn new(log: Arc<dyn EventLog>, poll: Duration) -> Self {
        Followers::of(log, None, poll, watch::Sender::new(false))
    }

    /// All followers, including later ones, end when `closed` says so.
    pub(crate) fn on_postgres(log: PgLog, closed: watch::Sender<bool>) -> Self {
        Followers::of(Arc::new(log.clone()), Some(log), POLL, closed)
    }

    fn of(log: Arc<dyn EventLog>, postgres: Option<PgLog>, poll: Duration, closed: watch::Sender<bool>) -> Self {
        let reader = Mutex::default();
        Followers { shared: Arc::new(Shared { log, postgres, poll, reader, closed }) }
    }

    /// Follows the log: see [`Namespace::follow`](crate::Namespace::follow).
    pub fn follow(&self, query: impl Into<FollowQuery>) -> Follower {
        Following::begin(self.clone(), query.into())
    }

    pub(in crate::node) fn closed(&self) -> watch::Receiver<bool> {
        self.shared.closed.subscribe()
    }

    /// Returns the shared reader, and starts it if there is none.
    pub(in crate::node) fn reader(&self) -> Arc<Reader> {
        let mut reader = self.shared.reader.lock().expect("no holder of this lock panics");
        reader.upgrade().unwrap_or_else(|| {
            let new = Arc::new(self.shared.read());
            *reader = Arc::downgrade(&new);
            new
        })
    }
}

impl std::fmt::Debug for Followers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Followers").field("namespace", &self.shared.log.namespace()).finish_non_exhaustive()
    }
}

impl Shared {
    fn read(&self) -> Reader {
        let tail = Arc::new(Tail::reader(self.log.clone(), self.poll));
        let mut tasks = JoinSet::new();
        let mut hints = Vec::new();
        let mut listening = None;
        if let Some(log) = &self.postgres {
            let database = log.database();
            // Behind a pooler in transaction mode, no session can listen.
            listening = (!database.is_behind_pooler()).then(|| WakeUps::start(database.servers(), log.info()));
            hints.extend(listening.as_ref().map(WakeUps::count));
            hints.push(log.commits());
            tasks.spawn(watch_namespace(log.clone(), tail.clone()));
        }
        let (following, complete) = (tail.clone(), listening.as_ref().map(WakeUps::complete));
        tasks.spawn(async move { following.follow(hints, complete).await });
        Reader { tail, looked_up: AsyncMutex::default(), _tasks: tasks, _listening: listening }
    }
}

/// Tells the followers when their namespace is dropped, or another one has its name.
async fn watch_namespace(log: PgLog, tail: Arc<Tail>) {
    let info = log.info();
    loop {
        tokio::time::sleep(jittered(ASK_NAMESPACE, 0.2, rand::random())).await;
        let is_gone = match log.database().namespace(&info.name).await {
            Ok(there) => there.id != info.id,
            Err(AdminError::NamespaceNotFound(_)) => true,
            // The answer is unknown: ask again later.
            Err(_) => false,
        };
        if is_gone {
            return tail.refuse(ReadError::NamespaceNotFound(info.name.clone()));
        }
    }
}
