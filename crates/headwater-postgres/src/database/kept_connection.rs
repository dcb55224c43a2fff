//! Keeps a connection that has just ended a call for the next call, for a moment.
//!
//! Checkpoints and acks come as one call after the other. When a connection returns to the pool,
//! the pool checks whether it was left in a transaction, which costs the server as much as the
//! call. A connection that has just ended a call of ours is in no transaction. So it is kept
//! instead. It goes back to the pool as soon as it rests, and once a second in any case, so that
//! the pool learns what happened to it and to its server.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use sqlx::Postgres;
use sqlx::pool::PoolConnection;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

/// How long a kept connection may rest.
const REST: Duration = Duration::from_millis(20);
/// How long a connection is kept at most.
const LONGEST: Duration = Duration::from_secs(1);

/// A place for one connection.
#[derive(Debug, Default, Clone)]
pub(crate) struct Kept(Arc<Mutex<Place>>);

#[derive(Debug, Default)]
struct Place {
    conn: Option<KeptConnection>,
    /// Whether a task watches it.
    watched: bool,
}

/// A connection, and since when it has been out of the pool.
#[derive(Debug)]
pub(crate) struct KeptConnection {
    pub(crate) conn: Option<PoolConnection<Postgres>>,
    pub(crate) since: Instant,
    used: Instant,
}

impl Kept {
    pub(crate) fn take(&self) -> Option<KeptConnection> {
        self.0.lock().expect("no holder of this lock panics").conn.take()
    }

    /// Keeps a connection that is in no transaction, if the place is free. Otherwise it goes back
    /// to the pool.
    pub(crate) fn keep(&self, conn: PoolConnection<Postgres>, since: Instant) {
        let used = Instant::now();
        let kept = KeptConnection { conn: Some(conn), since, used };
        let mut place = self.0.lock().expect("no holder of this lock panics");
        if place.conn.is_some() || used.duration_since(since) > LONGEST {
            drop(place);
            return drop(kept);
        }
        place.conn = Some(kept);
        if !std::mem::replace(&mut place.watched, true) {
            tokio::spawn(self.clone().watch());
        }
    }

    /// Gives the connection back once it rests. A connection that is in use comes back with its own
    /// watch.
    async fn watch(self) {
        loop {
            sleep(REST).await;
            let mut place = self.0.lock().expect("no holder of this lock panics");
            let rests = place.conn.as_ref().is_none_or(|kept| kept.used.elapsed() >= REST);
            if rests {
                place.watched = false;
                let kept = place.conn.take();
                drop(place);
                return drop(kept);
            }
        }
    }
}

impl Drop for KeptConnection {
    fn drop(&mut self) {
        // Giving it back takes a task. Without a runtime, it is closed.
        if Handle::try_current().is_err() {
            drop(self.conn.take().map(PoolConnection::detach));
        }
    }
}
