//! A connection that has just ended a call is kept for the next one, for a moment.
//!
//! Whoever writes checkpoints or acks makes one call after the other. Through the pool, each of them has its connection asked when it comes
//! back, whether it was left in a transaction: as much work for the server as the call. One that a call of ours has just ended is in none. It
//! goes back to the pool as soon as it rests, and once a second in any case, so that the pool learns what has become of it and of its server.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use sqlx::Postgres;
use sqlx::pool::PoolConnection;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

/// How long it may rest.
const REST: Duration = Duration::from_millis(20);
/// How long it is kept at the longest.
const LONGEST: Duration = Duration::from_secs(1);

/// A place for one connection.
#[derive(Debug, Default, Clone)]
pub(crate) struct Kept(Arc<Mutex<Place>>);

#[derive(Debug, Default)]
struct Place {
    conn: Option<KeptConnection>,
    /// Whether somebody looks after it.
    watched: bool,
}

/// A connection, and since when it has not been in the pool.
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

    /// Keeps a connection that is in no transaction, if there is a place for it; else it goes back to the pool.
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

    /// Gives the connection back once it rests. One that is in use comes with a watch of its own.
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
        // It is given back by a task; where there are none any more, it is closed.
        if Handle::try_current().is_err() {
            drop(self.conn.take().map(PoolConnection::detach));
        }
    }
}
