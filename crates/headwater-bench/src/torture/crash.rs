//! Crashes: backends and the postmaster are killed with -9, in turn with `synchronous_commit` on
//! and off.
//!
//! When a backend is killed, the postmaster ends all other backends and recovers in place. Its
//! start time and the timeline stay the same. With `synchronous_commit` off, the crash loses what
//! was acknowledged since the last WAL write, and the sequences are handed out again.

use std::time::Duration;

use anyhow::Context;
use headwater_embedded::{ServerBuilder, Shutdown};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rustix::process::{Pid, Signal, kill_process};
use sqlx::postgres::PgConnection;
use sqlx::{ConnectOptions, Connection};
use tokio::time::{Instant, sleep, timeout};

use super::arena::{Arena, SharedServer};
use super::faults::{Kind, harass};
use super::line::now_ns;
use super::losses::Window;
use super::producers;

/// The WAL of asynchronous commits is written within three times this delay.
const WAL_WRITER_DELAY: Duration = Duration::from_secs(2);
/// The server accepts connections again within this time.
const RECOVERY: Duration = Duration::from_secs(60);

/// Makes the time longer in which asynchronous commits can be lost, so that there is something to
/// lose.
pub(crate) fn configured(builder: ServerBuilder) -> ServerBuilder {
    builder
        .setting("wal_writer_delay", format!("{}ms", WAL_WRITER_DELAY.as_millis()))
        .setting("wal_writer_flush_after", "1GB")
}

/// Crashes the server until `end`. Returns the number of crashes.
pub(crate) async fn run(arena: &Arena, server: &SharedServer, end: Instant) -> anyhow::Result<u64> {
    let mut dice = StdRng::seed_from_u64(arena.seed);
    let mut rounds = 0;
    loop {
        let synchronous = arena.safe || rounds % 2 == 1;
        if !arena.safe {
            commit_safely(arena, synchronous).await?;
        }
        let calm = Instant::now() + Duration::from_secs_f64(dice.random_range(1.5..3.5));
        harass(arena, &mut dice, calm.min(end)).await?;
        if Instant::now() >= end {
            break;
        }
        let from_ns = now_ns().saturating_sub((3 * WAL_WRITER_DELAY + Duration::from_secs(1)).as_nanos() as u64);
        // While the WAL writer is stopped, only sessions that wait for the WAL write it. So there
        // is something to lose.
        let writer = if synchronous { None } else { Some(stop_wal_writer(arena).await?) };
        producers::burst(&arena.namespace, &arena.known, dice.random_range(20..200)).await;
        // Let consumers handle some of the events first.
        sleep(Duration::from_millis(dice.random_range(0..400))).await;
        if dice.random_bool(0.7) {
            kill_backend(arena, &mut dice, writer).await?;
        } else {
            kill_postmaster(arena, server, writer).await?;
        }
        wait_until_up(arena).await?;
        if !synchronous {
            arena.losses.add(Window { from_ns, until_ns: now_ns() });
        }
        rounds += 1;
        arena.end_prepared(|name| arena.has_ended(name)).await?;
        // These new events get the lost sequences again.
        producers::burst(&arena.namespace, &arena.known, 40).await;
    }
    commit_safely(arena, true).await?;
    Ok(rounds)
}

/// Sets `synchronous_commit` for all sessions. Ends the sessions that are open.
async fn commit_safely(arena: &Arena, on: bool) -> anyhow::Result<()> {
    {
        let mut known = arena.known.lock().expect("no holder of this lock panics");
        (known.lossy, known.unprepared) = (known.lossy || !on, !on);
    }
    let mut conn = arena.connect().await?;
    arena.faults.begin(Kind::TerminateBackends, "all sessions".into(), Duration::ZERO);
    let set = include_str!("../../sql/torture_commit_safely.sql").replace("$1", if on { "on" } else { "off" });
    sqlx::raw_sql(sqlx::AssertSqlSafe(set)).execute(&mut conn).await?;
    Ok(())
}

/// Returns the processes of the server, with the type of each.
async fn server_processes(conn: &mut PgConnection) -> anyhow::Result<Vec<(Pid, String)>> {
    let query = sqlx::query_as::<_, (i32, String)>(include_str!("../../sql/torture_processes.sql"));
    let processes = query.fetch_all(conn).await?.into_iter();
    processes.map(|(pid, name)| Ok((Pid::from_raw(pid).context("a process has an id")?, name))).collect()
}

async fn stop_wal_writer(arena: &Arena) -> anyhow::Result<Pid> {
    let processes = server_processes(&mut arena.connect().await?).await?;
    let writer = processes.iter().find(|(_, name)| name == "walwriter");
    let pid = writer.context("a server has a process that writes WAL")?.0;
    kill_process(pid, Signal::STOP)?;
    Ok(pid)
}

/// Kills a random process of the server. A stopped WAL writer is killed, too, before it writes
/// anything.
async fn kill_backend(arena: &Arena, dice: &mut StdRng, writer: Option<Pid>) -> anyhow::Result<()> {
    let mut conn = arena.connect().await?;
    let processes = server_processes(&mut conn).await?;
    let (pid, name) = &processes[dice.random_range(0..processes.len())];
    arena.faults.begin(Kind::CrashBackend, format!("{name} (pid {pid:?})"), Duration::from_secs(3));
    for pid in [Some(*pid), writer].into_iter().flatten() {
        // The process may already have ended; then nothing crashes.
        _ = kill_process(pid, Signal::KILL);
    }
    // The crash ends this session with all others. Only then has the crash begun.
    _ = timeout(Duration::from_secs(2), sqlx::query("SELECT pg_sleep(10)").execute(&mut conn)).await;
    Ok(())
}

async fn kill_postmaster(arena: &Arena, server: &SharedServer, writer: Option<Pid>) -> anyhow::Result<()> {
    arena.faults.begin(Kind::CrashPostmaster, "the server".into(), Duration::from_secs(5));
    let server = server.clone();
    let restarted = tokio::task::spawn_blocking(move || {
        let mut server = server.lock().expect("no holder of this lock panics");
        let pid = Pid::from_raw(server.pid() as i32);
        // Kill the postmaster first, or it would recover. A stopped WAL writer would not notice its
        // end.
        for pid in [pid, writer].into_iter().flatten() {
            _ = kill_process(pid, Signal::KILL);
        }
        server.kill()?;
        server.restart(Shutdown::Fast)
    });
    Ok(restarted.await??)
}

async fn wait_until_up(arena: &Arena) -> anyhow::Result<()> {
    let deadline = Instant::now() + RECOVERY;
    loop {
        match timeout(Duration::from_secs(5), arena.control.connect()).await {
            Ok(Ok(conn)) => return Ok(_ = conn.close().await),
            _ => anyhow::ensure!(Instant::now() < deadline, "the server did not come back within {RECOVERY:?}"),
        }
        sleep(Duration::from_millis(20)).await;
    }
}
