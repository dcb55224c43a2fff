//! A run: servers, consumers and producers, from the first start to the verdict.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use headwater::admin::NamespaceConfig;
use headwater::delivery::{OperatorStore, SubscriberInfo};
use headwater::{Event, Headwater, Json, Namespace};
use headwater_embedded::{Server, ServerBuilder};
use rand::{RngExt, SeedableRng};
use sqlx::ConnectOptions;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::check::Violations;
use super::faults::{self, Faults};
use super::hostile::Enemies;
use super::live::Source;
use super::losses::Losses;
use super::mode::Mode;
use super::outcome::Outcome;
use super::processes::{self, SharedPlace};
use super::producers::{self, Known};
use super::subscribers::{ALL, Subscriber};
use super::{NAMESPACE, Options, crash, failover};

/// After the faults, everything must be handled within this time.
pub(crate) const DRAIN: Duration = Duration::from_secs(120);
/// Transactions that are open when the producers are told to stop end within this time.
const PRODUCERS_END: Duration = Duration::from_secs(60);
/// Consumers register their subscribers within this time.
const START: Duration = Duration::from_secs(60);

pub(crate) type SharedServer = Arc<Mutex<Server>>;

/// The servers of a run.
enum Stage {
    Alone(SharedServer),
    Pair(Box<failover::Pair>),
    Hostile(Box<Enemies>),
}

pub(crate) struct Arena {
    pub(crate) seed: u64,
    pub(crate) seconds: u64,
    /// Whether servers must never lose what they acknowledged.
    pub(crate) safe: bool,
    pub(crate) mode: Mode,
    pub(crate) folder: PathBuf,
    pub(crate) places: Vec<SharedPlace>,
    /// How producers connect.
    clients: PgConnectOptions,
    /// How the code that makes and repairs faults connects: directly, so that the network loses
    /// nothing.
    pub(crate) control: PgConnectOptions,
    headwater: Headwater,
    pub(crate) namespace: Namespace,
    pub(crate) known: Arc<Mutex<Known>>,
    pub(crate) faults: Arc<Faults>,
    pub(crate) losses: Arc<Losses>,
    stage: Option<Stage>,
}

/// The settings that all servers of a run have.
pub(crate) fn configured(builder: ServerBuilder) -> ServerBuilder {
    builder.setting("track_commit_timestamp", "on").setting("max_prepared_transactions", "16")
}

impl Arena {
    pub(crate) async fn prepare(seed: u64, mode: Mode, folder: PathBuf, options: &Options) -> anyhow::Result<Self> {
        let live = options.live;
        let builder = configured(Server::builder());
        let (stage, url, control) = match mode {
            Mode::Plain => {
                let needs_wal = live.is_some_and(|live| live != Source::Notify);
                let builder = builder.setting("wal_level", if needs_wal { "logical" } else { "replica" });
                let server = builder.fsync(true).start().context("failed to start a server")?;
                let url = server.url("headwater");
                (Stage::Alone(Arc::new(Mutex::new(server))), url.clone(), url)
            }
            Mode::Crash => {
                let server = crash::configured(builder).start().context("failed to start a server")?;
                let url = server.url("headwater");
                (Stage::Alone(Arc::new(Mutex::new(server))), url.clone(), url)
            }
            Mode::Failover => {
                let pair = failover::Pair::start(builder).await?;
                let url = pair.url();
                (Stage::Pair(Box::new(pair)), url.clone(), url)
            }
            Mode::Hostile => {
                let enemies = Enemies::start(builder, &options.only).await?;
                let (url, control) = (enemies.url(), enemies.control_url());
                (Stage::Hostile(Box::new(enemies)), url, control)
            }
        };
        let connect = |url: &str| anyhow::Ok(url.parse::<PgConnectOptions>()?.disable_statement_logging());
        let (clients, control) = (connect(&url)?, connect(&control)?);
        let headwater = Headwater::builder().application_name("torture-producer").connect(&url).await?;
        headwater.migrate().await?;
        headwater.create_namespace(NamespaceConfig::new(NAMESPACE)).await?;
        let mut conn = control.connect().await?;
        sqlx::raw_sql(include_str!("../../sql/torture_tables.sql")).execute(&mut conn).await?;
        if let Stage::Hostile(enemies) = &stage {
            enemies.invade(&headwater, &mut conn).await?;
        }
        let namespace = headwater.namespace(NAMESPACE).await?;
        let places = processes::places(&url, &folder, mode, live);
        let (known, faults, losses) = (Arc::default(), Arc::default(), Arc::default());
        let stage = Some(stage);
        Ok(Arena {
            seed,
            seconds: options.seconds,
            safe: options.safe,
            mode,
            folder,
            places,
            clients,
            control,
            headwater,
            namespace,
            known,
            faults,
            losses,
            stage,
        })
    }

    pub(crate) async fn go(mut self, with_faults: bool) -> anyhow::Result<Outcome> {
        let mut violations = Violations::default();
        // The servers are dropped last, when all others have ended.
        let Some(mut stage) = self.stage.take() else { anyhow::bail!("an arena is used once") };
        for place in &self.places {
            place.lock().await.start()?;
        }
        self.wait_for_registration().await?;
        let end = Instant::now() + Duration::from_secs(self.seconds);
        let (stop, stopped) = watch::channel(false);
        let mut producers =
            producers::start(&self.namespace, &self.clients, self.mode.pause(), self.seed, &self.known, &stopped);
        let resizes = match self.mode {
            // The hostile mode makes its own resizes.
            Mode::Hostile => None,
            _ => Some(tokio::spawn(resize(self.namespace.clone(), self.seed, stopped.clone()))),
        };
        let (mut rounds, mut resized) = (0, 0);
        if with_faults {
            let made = match &mut stage {
                Stage::Alone(server) if self.mode == Mode::Crash => crash::run(&self, server, end).await,
                Stage::Alone(server) => faults::run(&self, server, end).await.map(|()| 0),
                Stage::Pair(pair) => failover::run(&self, pair, end).await,
                Stage::Hostile(enemies) => enemies.run(&self, end, &mut violations).await.map(|(rounds, sizes)| {
                    resized = sizes;
                    rounds
                }),
            };
            rounds = made.context("failed to make faults")?;
        }
        tokio::time::sleep_until(end).await;
        stop.send_replace(true);
        let ended = async { while producers.join_next().await.is_some() {} };
        if tokio::time::timeout(PRODUCERS_END, ended).await.is_err() {
            violations.add("STALL", format!("producers did not end within {PRODUCERS_END:?}"));
        }
        if let Some(resizes) = resizes {
            resized += resizes.await?;
        }
        self.end_prepared(|_| true).await?;

        let drain = Instant::now();
        self.drain(&mut violations).await?;
        let drained_in_seconds = drain.elapsed().as_secs_f64();
        self.check_live(&mut violations).await?;
        let leaving = self.places.iter().map(|place| async move {
            let mut place = place.lock().await;
            (place.run, place.leave().await)
        });
        let mut processes_started = 0;
        for (started, left) in futures::future::join_all(leaving).await {
            processes_started += started;
            if let Err(error) = left {
                violations.add("PROCESSES", format!("{error:#}"));
            }
        }
        self.check_rest(&mut violations).await?;
        let mut outcome = self.check(violations).await?;
        (outcome.drained_in_seconds, outcome.processes_started) = (drained_in_seconds, processes_started);
        (outcome.resizes, outcome.rounds) = (resized, rounds);
        self.headwater.shutdown().await;
        Ok(outcome)
    }

    /// Opens a session for making faults. The server may be starting, so this tries again.
    pub(crate) async fn connect(&self) -> anyhow::Result<PgConnection> {
        let deadline = Instant::now() + START;
        loop {
            match self.control.connect().await {
                Err(error) if Instant::now() < deadline => {
                    eprintln!("failed to connect, trying again: {error}");
                    sleep(Duration::from_millis(200)).await;
                }
                connected => return Ok(connected?),
            }
        }
    }

    /// Checks that no consumer has ended without being told to.
    pub(crate) async fn check_alive(&self) -> anyhow::Result<()> {
        for place in &self.places {
            place.lock().await.check_alive()?;
        }
        Ok(())
    }

    /// Waits until all consumers have registered. A node gets broadcasts only from its first start
    /// on, so nothing is produced before all have started.
    async fn wait_for_registration(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + START;
        while self.namespace.subscribers().subscribers().await?.len() < ALL.len() + self.places.len() {
            anyhow::ensure!(Instant::now() < deadline, "the consumers did not start within {START:?}; see their logs");
            sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// Whether the producer of a prepared transaction is done with it.
    pub(crate) fn has_ended(&self, name: &str) -> bool {
        self.known.lock().expect("no holder of this lock panics").ended.contains(name)
    }

    /// Rolls back the prepared transactions that `which` names, because their producers will not
    /// end them. A server that lost the end of its log can have a prepared transaction again that
    /// had already ended.
    pub(crate) async fn end_prepared(&self, which: impl Fn(&str) -> bool) -> anyhow::Result<()> {
        let mut conn = self.connect().await?;
        let names: Vec<String> = sqlx::query_scalar("SELECT gid FROM pg_prepared_xacts").fetch_all(&mut conn).await?;
        for name in names.iter().filter(|name| which(name)) {
            let end = sqlx::AssertSqlSafe(format!("ROLLBACK PREPARED '{name}'"));
            // Its producer may have ended it in the meantime.
            if let Err(error) = sqlx::raw_sql(end).execute(&mut conn).await {
                eprintln!("prepared transaction {name} was not rolled back: {error}");
            }
        }
        Ok(())
    }

    /// Waits until every subscriber has settled a last event and everything before it.
    async fn drain(&self, violations: &mut Violations) -> anyhow::Result<()> {
        let deadline = Instant::now() + DRAIN;
        let event = Event::raw("Last", Json::null());
        let last = loop {
            match self.namespace.emit(event.clone()).await {
                Ok(last) => break last.global_sequence(),
                Err(error) if error.outcome_unknown() && Instant::now() < deadline => {
                    sleep(Duration::from_millis(200)).await;
                }
                Err(error) => return Err(error).context("failed to emit the last event"),
            }
        };
        let subscribers = self.namespace.subscribers();
        // Slow is not stuck: as long as subscribers make progress, the deadline moves.
        let (mut stood, mut deadline) = (Vec::new(), deadline);
        loop {
            let infos = subscribers.subscribers().await;
            let behind: Vec<SubscriberInfo> = match infos {
                Ok(infos) => {
                    infos.into_iter().filter(|info| info.position < last || !info.pending_gaps.is_empty()).collect()
                }
                Err(error) => {
                    eprintln!("failed to look at the subscribers: {error}");
                    anyhow::ensure!(Instant::now() < deadline, "the server gave no answer within {DRAIN:?}");
                    sleep(Duration::from_millis(200)).await;
                    continue;
                }
            };
            if behind.is_empty() {
                return Ok(());
            }
            let stand: Vec<_> = behind.iter().map(|info| (info.position, info.pending_gaps.clone())).collect();
            if stand != stood {
                (stood, deadline) = (stand, Instant::now() + DRAIN);
            }
            if Instant::now() > deadline {
                for info in behind {
                    violations.add("STALL", format!("not at {last}, and no further for {DRAIN:?}: {info:?}"));
                }
                return Ok(());
            }
            sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Changes the number of partitions of the groups again and again, as soon as the last change is
/// done.
async fn resize(namespace: Namespace, seed: u64, mut stopped: watch::Receiver<bool>) -> u64 {
    let mut dice = rand::rngs::StdRng::seed_from_u64(seed);
    let store = namespace.subscribers();
    let mut resizes = 0;
    while !*stopped.borrow_and_update() {
        for subscriber in [Subscriber::Partitioned, Subscriber::PerKey] {
            // If it fails, the group is not yet registered, is still being changed, or the server
            // is down. The next round tries again.
            resizes += u64::from(store.resize(subscriber.id(), dice.random_range(1..=9)).await.is_ok());
        }
        _ = tokio::time::timeout(Duration::from_secs(3), stopped.changed()).await;
    }
    resizes
}
