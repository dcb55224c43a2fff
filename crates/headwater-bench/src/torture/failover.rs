//! Failover: the primary is killed with -9. Its standby takes over behind the same address, and
//! gets its own standby.
//!
//! Rounds use synchronous and asynchronous replication in turn. With synchronous replication,
//! nothing that was acknowledged may be lost. With asynchronous replication, the link to the
//! standby stalls first, so that the standby lacks the end of the log. All that the new primary has
//! must then be delivered, although sequences are handed out again.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use headwater::{Event, Json};
use headwater_embedded::{Server, ServerBuilder};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use sqlx::ConnectOptions;
use sqlx::postgres::PgConnectOptions;
use tokio::time::{Instant, sleep};

use super::EVENT_TYPE;
use super::arena::{Arena, configured};
use super::faults::{Kind, harass};
use super::line::now_ns;
use super::losses::Window;
use super::producers::{self, Fate};
use super::proxy::Proxy;

/// A standby catches up within this time.
const CATCH_UP: Duration = Duration::from_secs(30);
const SYNCHRONOUS: &str = "ALTER SYSTEM SET synchronous_standby_names = 'headwater_standby'";
const ASYNCHRONOUS: &str = "ALTER SYSTEM SET synchronous_standby_names = ''";

/// A primary, its standby, and the proxies between them. The fields are dropped in this order,
/// because a primary waits for its standby when it ends.
pub(crate) struct Pair {
    standby: Arc<Mutex<Server>>,
    primary: Arc<Mutex<Server>>,
    /// From clients to the primary.
    address: Proxy,
    /// From the standby to the primary.
    link: Proxy,
}

impl Pair {
    pub(crate) async fn start(builder: ServerBuilder) -> anyhow::Result<Self> {
        let primary = blocking(move || builder.start()).await?.context("failed to start a primary")?;
        let address = Proxy::start(primary.port()).await?;
        let link = Proxy::start(primary.port()).await?;
        let primary = Arc::new(Mutex::new(primary));
        let standby = standby_of(&primary, link.port()).await?;
        Ok(Pair { standby, primary, address, link })
    }

    /// The address for clients, whichever server is the primary.
    pub(crate) fn url(&self) -> String {
        let port = |port: u16| format!("127.0.0.1:{port}/");
        let server = self.primary.lock().expect("no holder of this lock panics");
        server.url("headwater").replace(&port(server.port()), &port(self.address.port()))
    }

    /// Kills the primary and promotes the standby. This closes all connections.
    async fn fail_over(&mut self) -> anyhow::Result<()> {
        let (primary, standby) = (self.primary.clone(), self.standby.clone());
        let killed = blocking(move || primary.lock().expect("no holder of this lock panics").kill()).await?;
        killed.context("failed to kill the primary")?;
        // Data that is still in the link never arrives.
        self.link.switch(0);
        let promoted = blocking(move || standby.lock().expect("no holder of this lock panics").promote()).await?;
        promoted.context("failed to promote the standby")?;
        std::mem::swap(&mut self.primary, &mut self.standby);
        let port = self.primary.lock().expect("no holder of this lock panics").port();
        self.address.switch(port);
        self.link.switch(port);
        Ok(())
    }

    /// Starts a standby in the place of the server that was killed.
    async fn replace_standby(&mut self) -> anyhow::Result<()> {
        self.standby = standby_of(&self.primary, self.link.port()).await?;
        Ok(())
    }
}

async fn standby_of(primary: &Arc<Mutex<Server>>, link: u16) -> anyhow::Result<Arc<Mutex<Server>>> {
    let builder = ServerBuilder::standby_of(&primary.lock().expect("no holder of this lock panics"));
    let standby = blocking(move || configured(builder.streaming_from(link)).start()).await?;
    Ok(Arc::new(Mutex::new(standby.context("failed to start a standby")?)))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> anyhow::Result<T> {
    Ok(tokio::task::spawn_blocking(work).await?)
}

/// Replaces the primary until `end`. Returns the number of rounds.
pub(crate) async fn run(arena: &Arena, pair: &mut Pair, end: Instant) -> anyhow::Result<u64> {
    let mut dice = StdRng::seed_from_u64(arena.seed);
    let mut rounds = 0;
    // What was acknowledged after this time may be missing on the standby.
    let mut unsafe_since = now_ns();
    while Instant::now() < end {
        let synchronous = arena.safe || rounds % 2 == 1;
        replicate(arena, pair, if synchronous { SYNCHRONOUS } else { ASYNCHRONOUS }).await?;
        if synchronous {
            prove_synchronous(arena, pair).await?;
        }
        let calm = Instant::now() + Duration::from_secs_f64(dice.random_range(1.5..4.0));
        harass(arena, &mut dice, calm.min(end)).await?;
        if Instant::now() >= end {
            break;
        }
        if !synchronous {
            arena.known.lock().expect("no holder of this lock panics").lossy = true;
            pair.link.stall();
        }
        producers::burst(&arena.namespace, &arena.known, dice.random_range(50..300)).await;
        // Let consumers handle some of the events first.
        sleep(Duration::from_millis(dice.random_range(0..800))).await;
        let kind = if synchronous { Kind::FailOverSynchronous } else { Kind::FailOverAsynchronous };
        arena.faults.begin(kind, format!("round {rounds}"), Duration::from_secs(8));
        let killed = Instant::now();
        pair.fail_over().await?;
        let promoted = killed.elapsed();
        replicate(arena, pair, ASYNCHRONOUS).await?;
        let until_ns = now_ns();
        if !synchronous {
            arena.losses.add(Window { from_ns: unsafe_since, until_ns });
        }
        unsafe_since = until_ns;
        rounds += 1;
        arena.end_prepared(|name| arena.has_ended(name)).await?;
        // These new events get the lost sequences again.
        producers::burst(&arena.namespace, &arena.known, 100).await;
        let copying = Instant::now();
        pair.replace_standby().await?;
        eprintln!(
            "round {rounds}: {}, a new primary after {:.1} s, its standby after {:.1} s",
            if synchronous { "synchronous" } else { "asynchronous" },
            promoted.as_secs_f64(),
            copying.elapsed().as_secs_f64()
        );
    }
    replicate(arena, pair, ASYNCHRONOUS).await?;
    Ok(rounds)
}

/// Changes the replication setting. It connects to the server directly: through the proxy, no one
/// may get an answer while commits wait for a standby.
async fn replicate(arena: &Arena, pair: &Pair, setting: &'static str) -> anyhow::Result<()> {
    let mut conn = direct(arena, pair).connect().await.context("failed to connect to the primary")?;
    // The commit of this change must not wait for a standby.
    sqlx::raw_sql("SET synchronous_commit = local").execute(&mut conn).await?;
    sqlx::raw_sql(setting).execute(&mut conn).await?;
    sqlx::raw_sql("SELECT pg_reload_conf()").execute(&mut conn).await?;
    Ok(())
}

fn direct(arena: &Arena, pair: &Pair) -> PgConnectOptions {
    let port = pair.primary.lock().expect("no holder of this lock panics").port();
    arena.control.clone().port(port)
}

/// Waits until the standby confirms commits, and until a confirmed event shows that the standby has
/// everything before it.
async fn prove_synchronous(arena: &Arena, pair: &Pair) -> anyhow::Result<()> {
    let mut conn = direct(arena, pair).connect().await?;
    let deadline = Instant::now() + CATCH_UP;
    let query = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync' AND state = 'streaming'";
    while sqlx::query_scalar::<_, i64>(query).fetch_one(&mut conn).await? == 0 {
        anyhow::ensure!(Instant::now() < deadline, "the standby did not catch up within {CATCH_UP:?}");
        sleep(Duration::from_millis(20)).await;
    }
    loop {
        let event = Event::raw(EVENT_TYPE, Json::null());
        let id = event.id;
        let fate = arena.namespace.emit(event).await.map_or(Fate::Unknown, |_| Fate::Committed);
        arena.known.lock().expect("no holder of this lock panics").note(&[id], fate);
        if fate == Fate::Committed {
            return Ok(());
        }
        anyhow::ensure!(Instant::now() < deadline, "no event was confirmed within {CATCH_UP:?}");
        sleep(Duration::from_millis(100)).await;
    }
}
