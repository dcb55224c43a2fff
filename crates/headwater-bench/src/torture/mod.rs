//! `headwater-bench torture`: producers, consumers in processes of their own, faults at random; then everything must add up.
//!
//! The seed decides what the faults are, when they come and what producers do; the machine decides the rest, so a seed repeats a kind of run,
//! not a run. After the time, faults and producers stop, everything must drain within a bound, and `check` compares what the consumers wrote
//! down with the log. Everything is on the loopback; only processes that this program started are ended, by their ids.

mod check;
pub(crate) mod consumer;
mod faults;
mod line;
mod live;
mod processes;
mod producers;
mod subscribers;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use chrono::{DateTime, Utc};
use clap::Args;
use headwater::{DeadLetterQuery, Event, Headwater, Json, Namespace, NamespaceConfig, SubscriberInfo, SubscriberStore};
use headwater_embedded::Server;
use rand::{RngExt, SeedableRng};
use serde::Serialize;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions, Row};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use self::check::{Evidence, Log, Logged, Tally, Violations};
use self::faults::{Faults, Victims};
pub(crate) use self::line::now_ns;
use self::live::Source;
use self::processes::SharedPlace;
use self::producers::{Fate, Known};
use self::subscribers::{ALL, Subscriber};

const NAMESPACE: &str = "torture";
/// Short, so that stops that outlive it are short, too; long enough for a keeper on a busy machine.
const LEASE: Duration = Duration::from_secs(4);
/// After the faults, everything must be handled within this.
const DRAIN: Duration = Duration::from_secs(90);
/// What is open when the producers are told to stop ends within this.
const PRODUCERS_END: Duration = Duration::from_secs(60);

/// The server needs a moment to see that a client has gone.
const SESSIONS_END: Duration = Duration::from_secs(10);

/// Options of `torture`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Prints one JSON object to stdout
    #[arg(long)]
    json: bool,
    /// How long events are produced and faults are made
    #[arg(long, default_value_t = 60, value_name = "N")]
    seconds: u64,
    /// What decides the faults
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Keeps the consumers' lines and logs here; without it they are kept only if something is wrong
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
    /// Makes no faults
    #[arg(long)]
    no_faults: bool,
    /// Where the consumers' new events come from
    #[arg(long, value_enum, default_value_t)]
    live: Source,
}

/// What happened.
#[derive(Debug, Serialize)]
struct Outcome {
    seed: u64,
    live: &'static str,
    seconds: u64,
    events: u64,
    unknown_outcomes: u64,
    transactions: u64,
    rollbacks: u64,
    savepoints: u64,
    prepared: u64,
    permanent_gaps: u64,
    processes_started: u32,
    resizes: u64,
    drained_in_seconds: f64,
    subscribers: BTreeMap<&'static str, Tally>,
    faults: BTreeMap<&'static str, u64>,
    violations: Vec<String>,
}

pub(crate) async fn run(options: Options) -> anyhow::Result<()> {
    let seed = options.seed.unwrap_or_else(rand::random);
    eprintln!("seed {seed}, {} seconds, live {}", options.seconds, options.live.name());
    let temporary = tempfile::Builder::new().prefix("headwater-torture-").tempdir()?;
    let folder = match &options.keep {
        Some(folder) => folder.clone(),
        None => temporary.path().to_owned(),
    };
    std::fs::create_dir_all(&folder)?;

    let run = Run::prepare(seed, options.seconds, folder.clone(), options.live).await?;
    let outcome = run.go(!options.no_faults).await;
    if (outcome.is_err() || outcome.as_ref().is_ok_and(|outcome| !outcome.violations.is_empty()))
        && options.keep.is_none()
    {
        eprintln!("lines and logs of the consumers are kept in {}", temporary.keep().display());
    }
    let outcome = outcome?;
    outcome.print();
    if options.json {
        println!("{}", serde_json::to_string(&outcome)?);
    }
    if !outcome.violations.is_empty() {
        // Everything is told, and what was started is gone: no error to tell once more.
        std::process::exit(1);
    }
    Ok(())
}

struct Run {
    seed: u64,
    seconds: u64,
    live: Source,
    folder: PathBuf,
    victims: Victims,
    headwater: Headwater,
    namespace: Namespace,
    known: Arc<Mutex<Known>>,
    faults: Arc<Faults>,
}

impl Run {
    async fn prepare(seed: u64, seconds: u64, folder: PathBuf, live: Source) -> anyhow::Result<Self> {
        let server = Server::builder()
            .fsync(true)
            .setting("wal_level", live.wal_level())
            .setting("track_commit_timestamp", "on")
            .setting("max_prepared_transactions", "16")
            .start()
            .context("failed to start a server")?;
        let url = server.url("headwater");
        let connect = url.parse::<PgConnectOptions>()?.disable_statement_logging();
        let headwater = Headwater::builder().application_name("torture-producer").connect(&url).await?;
        headwater.migrate().await?;
        headwater.create_namespace(NamespaceConfig::new(NAMESPACE)).await?;
        let namespace = headwater.namespace(NAMESPACE).await?;
        let mut conn = connect.connect().await?;
        sqlx::raw_sql(include_str!("../../sql/torture_tables.sql")).execute(&mut conn).await?;
        let places = processes::places(&url, &folder, live);
        let victims = Victims { places, server: Arc::new(Mutex::new(server)), connect };
        let (known, faults) = (Arc::default(), Arc::default());
        Ok(Run { seed, seconds, live, folder, victims, headwater, namespace, known, faults })
    }

    async fn go(self, with_faults: bool) -> anyhow::Result<Outcome> {
        let mut violations = Violations::default();
        let end = Instant::now() + Duration::from_secs(self.seconds);
        for place in &self.victims.places {
            place.lock().await.start()?;
        }
        let (stop, stopped) = watch::channel(false);
        let mut producers = producers::start(&self.namespace, &self.victims.connect, self.seed, &self.known, &stopped);
        let resizes = tokio::spawn(resize(self.namespace.clone(), self.seed, stopped.clone()));
        if with_faults && let Err(error) = faults::run(&self.victims, &self.faults, self.seed, end).await {
            violations.add("PROCESSES", format!("{error:#}"));
        }
        tokio::time::sleep_until(end).await;
        stop.send_replace(true);
        let ended = async { while producers.join_next().await.is_some() {} };
        if tokio::time::timeout(PRODUCERS_END, ended).await.is_err() {
            violations.add("STALL", format!("producers did not end within {PRODUCERS_END:?}"));
        }

        let resizes = resizes.await?;
        let drain = Instant::now();
        self.drain(&mut violations).await?;
        let drained_in_seconds = drain.elapsed().as_secs_f64();
        self.check_live(&mut violations).await?;
        let places: &[SharedPlace] = &self.victims.places;
        let mut processes_started = 0;
        for place in places {
            let mut place = place.lock().await;
            processes_started += place.run;
            if let Err(error) = place.leave().await {
                violations.add("PROCESSES", format!("{error:#}"));
            }
        }
        self.check_rest(&mut violations).await?;
        let mut outcome = self.check(violations).await?;
        (outcome.drained_in_seconds, outcome.processes_started) = (drained_in_seconds, processes_started);
        outcome.resizes = resizes;
        self.headwater.shutdown().await;
        Ok(outcome)
    }

    /// Waits until every subscriber has settled a last event and everything before it.
    async fn drain(&self, violations: &mut Violations) -> anyhow::Result<()> {
        let last =
            self.namespace.emit(Event::raw("Last", Json::null())).await.context("failed to emit the last event")?;
        let last = last.global_sequence();
        let deadline = Instant::now() + DRAIN;
        let subscribers = self.namespace.subscribers();
        loop {
            let infos = subscribers.subscribers().await;
            let behind: Vec<SubscriberInfo> = match infos {
                Ok(infos) => {
                    infos.into_iter().filter(|info| info.position < last || !info.pending_gaps.is_empty()).collect()
                }
                Err(error) => {
                    eprintln!("failed to look at the subscribers: {error}");
                    sleep(Duration::from_millis(200)).await;
                    continue;
                }
            };
            if behind.is_empty() {
                return Ok(());
            }
            if Instant::now() > deadline {
                for info in behind {
                    violations.add("STALL", format!("not at {last} within {DRAIN:?}: {info:?}"));
                }
                return Ok(());
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// What is left in the server when everybody has gone.
    async fn check_rest(&self, violations: &mut Violations) -> anyhow::Result<()> {
        for info in self.namespace.subscribers().subscribers().await? {
            if let Some(owner) = &info.owner {
                let detail = format!("{} still belongs to {owner:?}, term {}", info.subscriber_id, info.term);
                violations.add("LEASES", detail);
            }
        }
        let mut conn = self.connect().await?;
        let deadline = Instant::now() + SESSIONS_END;
        loop {
            let mut sessions: Vec<(i32, String)> =
                sqlx::query_as(include_str!("../../sql/torture_backends.sql")).fetch_all(&mut conn).await?;
            sessions.retain(|(_, name)| name.as_str() != "torture-producer");
            if sessions.is_empty() {
                break;
            }
            if Instant::now() > deadline {
                for (pid, name) in sessions {
                    violations.add("PROCESSES", format!("session {pid} of {name} was left behind"));
                }
                break;
            }
            sleep(Duration::from_millis(50)).await;
        }
        let (_, temporary) = self.slots(&mut conn).await?;
        if temporary > 0 {
            violations.add("PROCESSES", format!("{temporary} temporary slots were left behind"));
        }
        let prepared: i64 = sqlx::query_scalar("SELECT count(*) FROM pg_prepared_xacts").fetch_one(&mut conn).await?;
        if prepared > 0 {
            violations.add("PROCESSES", format!("{prepared} prepared transactions were left behind"));
        }
        Ok(())
    }

    /// After the faults, everybody follows the WAL again.
    async fn check_live(&self, violations: &mut Violations) -> anyhow::Result<()> {
        let wanted = self.live.slots(self.victims.places.len());
        let mut conn = self.connect().await?;
        let deadline = Instant::now() + DRAIN;
        loop {
            let (active, _) = self.slots(&mut conn).await?;
            if active == wanted {
                return Ok(());
            }
            if Instant::now() > deadline {
                violations.add("LIVE", format!("{active} slots are read, not {wanted}"));
                return Ok(());
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// How many somebody reads, and how many are temporary.
    async fn slots(&self, conn: &mut PgConnection) -> anyhow::Result<(i64, i64)> {
        Ok(sqlx::query_as(include_str!("../../sql/torture_slots.sql")).fetch_one(conn).await?)
    }

    async fn connect(&self) -> anyhow::Result<PgConnection> {
        Ok(self.victims.connect.connect().await?)
    }

    async fn check(&self, mut violations: Violations) -> anyhow::Result<Outcome> {
        let mut conn = self.connect().await?;
        let log = read_log(&mut conn).await?;
        let books = line::read_all(&self.folder)?;
        let faults = self.faults.all();
        let store = self.namespace.subscribers();

        let mut tallies = BTreeMap::new();
        for subscriber in ALL {
            let query =
                DeadLetterQuery { subscriber_id: Some(subscriber.id().into()), limit: 10_000, ..Default::default() };
            let dead: BTreeSet<u64> =
                store.dead_letters(&query).await?.iter().map(headwater::DeadLetter::global_sequence).collect();
            let effects = sqlx::query_as::<_, (i64, i64)>(include_str!("../../sql/torture_effects.sql"));
            let effects: HashMap<u64, u64> = effects
                .bind(subscriber.id())
                .fetch_all(&mut conn)
                .await?
                .into_iter()
                .map(|(sequence, count)| (sequence as u64, count as u64))
                .collect();
            let evidence = Evidence {
                subscriber,
                log: &log,
                books: &books,
                dead: &dead,
                effects: subscriber.is_transactional().then_some(&effects),
                faults: &faults,
            };
            tallies.insert(subscriber.id(), evidence.check(&mut violations));
        }
        let audit = store.audit(&[]).await?;
        for finding in &audit.findings {
            violations.add("AUDIT", format!("{finding:?}"));
        }
        let infos = store.subscribers().await?;
        let partitions: u64 = infos.iter().map(|info| u64::from(info.mode.partitions())).sum();
        if infos.len() != ALL.len() || audit.subscribers != partitions {
            let detail = format!("{} of {} partitions, {} subscribers", audit.subscribers, partitions, infos.len());
            violations.add("AUDIT", format!("not all were audited: {detail}"));
        }
        let known = self.known.lock().expect("no holder of this lock panics");
        check::check_log(&log, &known.events, &mut violations);
        known.violations.iter().for_each(|violation| violations.add("PRODUCERS", violation.clone()));
        if !violations.is_empty() {
            let tell = |fault: &faults::Fault| format!("{} {} {}\n", fault.from_ns, fault.kind.name(), fault.target);
            std::fs::write(self.folder.join("faults.txt"), faults.iter().map(tell).collect::<String>())?;
        }
        Ok(Outcome {
            seed: self.seed,
            live: self.live.name(),
            seconds: self.seconds,
            events: log.len() as u64,
            unknown_outcomes: known.events.iter().filter(|(_, fate)| *fate == Fate::Unknown).count() as u64,
            transactions: known.transactions,
            rollbacks: known.rollbacks,
            savepoints: known.savepoints,
            prepared: known.prepared,
            permanent_gaps: audit.permanent_gaps,
            processes_started: 0,
            resizes: 0,
            drained_in_seconds: 0.0,
            subscribers: tallies,
            faults: self.faults.counts(),
            violations: violations.lines(),
        })
    }
}

/// Changes the number of partitions of the groups, again and again, as soon as the last change is done.
async fn resize(namespace: Namespace, seed: u64, mut stopped: watch::Receiver<bool>) -> u64 {
    let mut dice = rand::rngs::StdRng::seed_from_u64(seed);
    let store = namespace.subscribers();
    let mut resizes = 0;
    while !*stopped.borrow_and_update() {
        for subscriber in [Subscriber::Partitioned, Subscriber::PerKey] {
            // Not yet registered, or still being changed, or the server is away: the next time.
            resizes += u64::from(store.resize(subscriber.id(), dice.random_range(1..=9)).await.is_ok());
        }
        _ = tokio::time::timeout(Duration::from_secs(3), stopped.changed()).await;
    }
    resizes
}

async fn read_log(conn: &mut PgConnection) -> anyhow::Result<Log> {
    let ns = |time: DateTime<Utc>| time.timestamp_nanos_opt().unwrap_or_default() as u64;
    let rows = sqlx::query(include_str!("../../sql/torture_log.sql")).bind(NAMESPACE).fetch_all(conn).await?;
    let logged = |row: &sqlx::postgres::PgRow| {
        let recorded: DateTime<Utc> = row.get("recorded_at");
        let event = Logged {
            id: row.get("event_id"),
            stream: row.get("stream_id"),
            version: row.get::<Option<i64>, _>("stream_version").map(|version| version as u64),
            key: row.get("key"),
            recorded_ns: ns(recorded),
            committed_ns: ns(row.get::<Option<DateTime<Utc>>, _>("committed_at").unwrap_or(recorded)),
        };
        (row.get::<i64, _>("global_sequence") as u64, event)
    };
    Ok(rows.iter().map(logged).collect())
}

impl Outcome {
    fn print(&self) {
        eprintln!(
            "\n{} events ({} of unknown outcome), {} transactions, {} rollbacks, {} savepoints, {} prepared; {} permanent gaps",
            self.events,
            self.unknown_outcomes,
            self.transactions,
            self.rollbacks,
            self.savepoints,
            self.prepared,
            self.permanent_gaps
        );
        eprintln!(
            "{} processes, {} changes of the number of partitions, drained in {:.1} s",
            self.processes_started, self.resizes, self.drained_in_seconds
        );
        eprintln!(
            "\n{:<16} {:>8} {:>10} {:>9} {:>12} {:>6} {:>20}",
            "subscriber", "handled", "duplicates", "failures", "dead letters", "late", "passed in ignorance"
        );
        for (id, tally) in &self.subscribers {
            eprintln!(
                "{id:<16} {:>8} {:>10} {:>9} {:>12} {:>6} {:>20}",
                tally.handled,
                tally.duplicates,
                tally.failures,
                tally.dead_letters,
                tally.late,
                tally.passed_in_ignorance
            );
        }
        eprintln!("\nfaults: {:?}", self.faults);
        eprintln!(
            "seed {}, live {}: {}",
            self.seed,
            self.live,
            if self.violations.is_empty() { "no violations" } else { "VIOLATIONS" }
        );
        self.violations.iter().for_each(|violation| eprintln!("  {violation}"));
    }
}
