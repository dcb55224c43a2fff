//! Faults: the seed chooses and times them. Each fault is recorded with its start and its end.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use headwater_embedded::Shutdown;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rustix::process::Signal;
use sqlx::ConnectOptions;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use super::arena::{Arena, SharedServer};
use super::line::now_ns;
use super::processes::SharedPlace;

/// How long the consequences of a fault last after it has ended: a lease expires, a lease keeper
/// asks again, a call times out.
const AFTERMATH: Duration = Duration::from_secs(12);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Kill,
    StopShortly,
    StopBeyondTheLease,
    TerminateBackends,
    ExhaustPool,
    RestartFast,
    RestartImmediately,
    FailOverSynchronous,
    FailOverAsynchronous,
    CrashBackend,
    CrashPostmaster,
    StrangersLock,
    TenantsLock,
    TenantsTransaction,
    ClockForward,
    ClockBack,
    MonthEnds,
    PreparedOverRestart,
    ResizeBehindGap,
    LoseAnswers,
    LoseCommits,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Kill => "kill",
            Kind::StopShortly => "stop_shortly",
            Kind::StopBeyondTheLease => "stop_beyond_the_lease",
            Kind::TerminateBackends => "terminate_backends",
            Kind::ExhaustPool => "exhaust_pool",
            Kind::RestartFast => "restart_fast",
            Kind::RestartImmediately => "restart_immediately",
            Kind::FailOverSynchronous => "fail_over_synchronous",
            Kind::FailOverAsynchronous => "fail_over_asynchronous",
            Kind::CrashBackend => "crash_backend",
            Kind::CrashPostmaster => "crash_postmaster",
            Kind::StrangersLock => "strangers_lock",
            Kind::TenantsLock => "tenants_lock",
            Kind::TenantsTransaction => "tenants_transaction",
            Kind::ClockForward => "clock_forward",
            Kind::ClockBack => "clock_back",
            Kind::MonthEnds => "month_ends",
            Kind::PreparedOverRestart => "prepared_over_restart",
            Kind::ResizeBehindGap => "resize_behind_gap",
            Kind::LoseAnswers => "lose_answers",
            Kind::LoseCommits => "lose_commits",
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    /// What the fault hits.
    pub(crate) target: String,
    pub(crate) from_ns: u64,
    /// The end of the fault, including its aftermath.
    pub(crate) until_ns: u64,
}

/// All faults so far.
#[derive(Debug, Default)]
pub(crate) struct Faults(Mutex<Vec<Fault>>);

impl Faults {
    pub(crate) fn begin(&self, kind: Kind, target: String, lasts: Duration) {
        let from_ns = now_ns();
        let until_ns = from_ns + (lasts + AFTERMATH).as_nanos() as u64;
        self.0.lock().expect("no holder of this lock panics").push(Fault { kind, target, from_ns, until_ns });
    }

    pub(crate) fn all(&self) -> Vec<Fault> {
        self.0.lock().expect("no holder of this lock panics").clone()
    }

    pub(crate) fn counts(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = BTreeMap::new();
        self.all().iter().for_each(|fault| *counts.entry(fault.kind.name()).or_default() += 1);
        counts
    }
}

/// Makes faults until `end`, then repairs everything: no process stays stopped or missing.
pub(crate) async fn run(arena: &Arena, server: &SharedServer, end: Instant) -> anyhow::Result<()> {
    let mut dice = StdRng::seed_from_u64(arena.seed);
    let faults = &arena.faults;
    let mut mending = JoinSet::new();
    loop {
        // Some pauses are long enough for a quiet time in which nothing may be delivered twice.
        let pause = if dice.random_bool(0.1) { dice.random_range(5.0..9.0) } else { dice.random_range(0.2..2.0) };
        let until = Instant::now() + Duration::from_secs_f64(pause);
        if until >= end {
            break;
        }
        tokio::time::sleep_until(until).await;
        arena.check_alive().await?;
        let kind = match dice.random_range(0..100) {
            0..24 => Kind::Kill,
            24..40 => Kind::StopShortly,
            40..52 => Kind::StopBeyondTheLease,
            52..76 => Kind::TerminateBackends,
            76..86 => Kind::ExhaustPool,
            86..93 => Kind::RestartFast,
            _ => Kind::RestartImmediately,
        };
        let place = arena.places[dice.random_range(0..arena.places.len())].clone();
        let random: f64 = dice.random();
        match kind {
            Kind::Kill => kill(faults, place, random, &mut mending).await?,
            Kind::StopShortly => {
                let pause = Duration::from_secs_f64(0.1 + 1.5 * random);
                stop(faults, kind, place, pause, &mut mending).await?;
            }
            Kind::StopBeyondTheLease => {
                let pause = place.lock().await.manner.lease + Duration::from_secs_f64(0.5 + 3.0 * random);
                stop(faults, kind, place, pause, &mut mending).await?;
            }
            Kind::TerminateBackends => terminate(arena, &mut dice).await,
            Kind::ExhaustPool => {
                let place = place.lock().await;
                if place.knows_signals() {
                    faults.begin(kind, place.node.clone(), Duration::from_secs(6));
                    place.signal(Signal::USR1)?;
                }
            }
            _ => restart(faults, server, kind).await?,
        }
    }
    while let Some(mended) = mending.join_next().await {
        mended??;
    }
    Ok(())
}

pub(crate) async fn kill(
    faults: &Faults,
    place: SharedPlace,
    random: f64,
    mending: &mut JoinSet<anyhow::Result<()>>,
) -> anyhow::Result<()> {
    let away = Duration::from_secs_f64(2.0 * random);
    let mut held = place.lock().await;
    if !held.runs() {
        return Ok(());
    }
    faults.begin(Kind::Kill, format!("{}.{}", held.node, held.run), away);
    held.kill().await?;
    drop(held);
    mending.spawn(async move {
        sleep(away).await;
        place.lock().await.start()
    });
    Ok(())
}

pub(crate) async fn stop(
    faults: &Faults,
    kind: Kind,
    place: SharedPlace,
    pause: Duration,
    mending: &mut JoinSet<anyhow::Result<()>>,
) -> anyhow::Result<()> {
    let held = place.lock().await;
    if !held.runs() {
        return Ok(());
    }
    let run = held.run;
    faults.begin(kind, format!("{}.{run}", held.node), pause);
    held.signal(Signal::STOP)?;
    drop(held);
    mending.spawn(async move {
        sleep(pause).await;
        let held = place.lock().await;
        // The process may have been killed in the meantime.
        if held.runs() && held.run == run { held.signal(Signal::CONT) } else { Ok(()) }
    });
    Ok(())
}

/// Kills, stops or cuts off a consumer now and then until `end`, while other code attacks the
/// server.
pub(crate) async fn harass(arena: &Arena, dice: &mut StdRng, end: Instant) -> anyhow::Result<()> {
    let mut mending = JoinSet::new();
    loop {
        let until = Instant::now() + Duration::from_secs_f64(dice.random_range(0.3..1.5));
        if until >= end {
            break;
        }
        tokio::time::sleep_until(until).await;
        arena.check_alive().await?;
        let place = arena.places[dice.random_range(0..arena.places.len())].clone();
        let random: f64 = dice.random();
        match dice.random_range(0..10) {
            0..4 => kill(&arena.faults, place, random, &mut mending).await?,
            4..8 => {
                let pause = Duration::from_secs_f64(0.1 + random);
                stop(&arena.faults, Kind::StopShortly, place, pause, &mut mending).await?;
            }
            _ => terminate(arena, dice).await,
        }
    }
    tokio::time::sleep_until(end).await;
    while let Some(mended) = mending.join_next().await {
        mended??;
    }
    Ok(())
}

/// Ends a few sessions of consumers and producers. While the server restarts there are no sessions
/// to end.
async fn terminate(arena: &Arena, dice: &mut StdRng) {
    let deadline = Instant::now() + Duration::from_secs(3);
    let work = async {
        let mut conn = arena.control.connect().await?;
        let pids: Vec<(i32, String)> =
            sqlx::query_as(include_str!("../../sql/torture_backends.sql")).fetch_all(&mut conn).await?;
        for _ in 0..dice.random_range(1..6) {
            if pids.is_empty() {
                break;
            }
            let (pid, name) = &pids[dice.random_range(0..pids.len())];
            arena.faults.begin(Kind::TerminateBackends, format!("{name} (pid {pid})"), Duration::ZERO);
            sqlx::query("SELECT pg_terminate_backend($1)").bind(pid).execute(&mut conn).await?;
        }
        Ok::<_, sqlx::Error>(())
    };
    if let Ok(Err(error)) = timeout_at(deadline, work).await {
        eprintln!("no sessions were ended: {error}");
    }
}

pub(crate) async fn restart(faults: &Faults, server: &SharedServer, kind: Kind) -> anyhow::Result<()> {
    let mode = if kind == Kind::RestartFast { Shutdown::Fast } else { Shutdown::Immediate };
    faults.begin(kind, "the server".into(), Duration::from_secs(5));
    let server = server.clone();
    let restarted =
        tokio::task::spawn_blocking(move || server.lock().expect("no holder of this lock panics").restart(mode));
    Ok(restarted.await??)
}
