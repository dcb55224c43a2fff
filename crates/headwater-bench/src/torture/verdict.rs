//! The verdict: what the processes left behind, what the log holds, and what the audit finds.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use chrono::{DateTime, Utc};
use headwater::delivery::{DeadLetterQuery, OperatorStore};
use sqlx::Row;
use sqlx::postgres::PgConnection;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::arena::{Arena, DRAIN};
use super::check::{self, Evidence, Log, Logged, Violations};
use super::live::Source;
use super::mode::Mode;
use super::outcome::Outcome;
use super::producers::Fate;
use super::subscribers::{ALL, Subscriber};
use super::{NAMESPACE, faults, line};

/// The server needs some time to notice that a client has gone.
const SESSIONS_END: Duration = Duration::from_secs(10);

impl Arena {
    /// Checks that nothing is left in the server when all processes have ended.
    pub(crate) async fn check_rest(&self, violations: &mut Violations) -> anyhow::Result<()> {
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

    /// Checks that after the faults all consumers follow the WAL again.
    pub(crate) async fn check_live(&self, violations: &mut Violations) -> anyhow::Result<()> {
        let mut sources = Vec::new();
        for place in &self.places {
            sources.push(place.lock().await.manner.live);
        }
        let wanted = Source::slots(&sources);
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

    /// Returns the number of slots that are read, and the number of temporary slots.
    async fn slots(&self, conn: &mut PgConnection) -> anyhow::Result<(i64, i64)> {
        Ok(sqlx::query_as(include_str!("../../sql/torture_slots.sql")).fetch_one(conn).await?)
    }

    pub(crate) async fn check(&self, mut violations: Violations) -> anyhow::Result<Outcome> {
        let mut conn = self.connect().await?;
        let log = read_log(&mut conn).await?;
        let books = line::read_all(&self.folder)?;
        let faults = self.faults.all();
        let store = self.namespace.subscribers();

        let known = self.known.lock().expect("no holder of this lock panics").events.clone();
        let told: HashMap<Uuid, Fate> = known.iter().map(|told| (told.id, told.fate)).collect();
        let mut nodes = Vec::new();
        for place in &self.places {
            nodes.push(place.lock().await.node.clone());
        }
        let of_all = ALL.into_iter().map(|subscriber| (subscriber, None, subscriber.id().to_owned()));
        let of_nodes =
            nodes.iter().map(|node| (Subscriber::Broadcast, Some(node.as_str()), format!("broadcast:{node}")));
        let subscribers: Vec<_> = of_all.chain(of_nodes).collect();
        let mut tallies = BTreeMap::new();
        for (subscriber, node, id) in &subscribers {
            let query = DeadLetterQuery { subscriber_id: Some(id.clone()), limit: 10_000, ..Default::default() };
            let dead: HashSet<Uuid> = store.dead_letters(&query).await?.iter().map(|letter| letter.event.id).collect();
            let effects = sqlx::query_as::<_, (Uuid, i64)>(include_str!("../../sql/torture_effects.sql"));
            let effects = effects.bind(id).fetch_all(&mut conn).await?;
            let effects: HashMap<Uuid, u64> = effects.into_iter().map(|(event, n)| (event, n as u64)).collect();
            let evidence = Evidence {
                subscriber: *subscriber,
                node: *node,
                log: &log,
                books: &books,
                dead: &dead,
                effects: subscriber.is_transactional().then_some(&effects),
                told: &told,
                faults: &faults,
                losses: &self.losses,
                one_clock: self.mode != Mode::Hostile,
            };
            tallies.insert(id.clone(), evidence.check(&mut violations));
        }
        let audit = store.audit(&[]).await?;
        for finding in &audit.findings {
            violations.add("AUDIT", format!("{finding:?}"));
        }
        let infos = store.subscribers().await?;
        let partitions: u64 = infos.iter().map(|info| u64::from(info.mode.partitions())).sum();
        let last = log.last_key_value().map_or(0, |(sequence, _)| *sequence);
        for info in infos.iter().filter(|info| info.position > last) {
            let detail = format!("{} is at {}, and the log ends at {last}", info.subscriber_id, info.position);
            violations.add("BEYOND THE HEAD", detail);
        }
        if infos.len() != subscribers.len() || audit.subscribers != partitions {
            let detail = format!("{} of {} partitions, {} subscribers", audit.subscribers, partitions, infos.len());
            violations.add("AUDIT", format!("not all were audited: {detail}"));
        }
        let known = self.known.lock().expect("no holder of this lock panics");
        let lost_by_the_server = check::check_log(&log, &known.events, &self.losses, &mut violations);
        known.violations.iter().for_each(|violation| violations.add("PRODUCERS", violation.clone()));
        if !violations.is_empty() {
            let tell = |fault: &faults::Fault| format!("{} {} {}\n", fault.from_ns, fault.kind.name(), fault.target);
            std::fs::write(self.folder.join("faults.txt"), faults.iter().map(tell).collect::<String>())?;
        }
        Ok(Outcome {
            seed: self.seed,
            mode: self.mode.name(),
            seconds: self.seconds,
            events: log.len() as u64,
            lost_by_the_server,
            unknown_outcomes: known.events.iter().filter(|told| told.fate == Fate::Unknown).count() as u64,
            transactions: known.transactions,
            rollbacks: known.rollbacks,
            savepoints: known.savepoints,
            prepared: known.prepared,
            permanent_gaps: audit.permanent_gaps,
            processes_started: 0,
            resizes: 0,
            drained_in_seconds: 0.0,
            rounds: 0,
            subscribers: tallies,
            faults: self.faults.counts(),
            violations: violations.lines(),
        })
    }
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
            broadcast: row.get::<Option<bool>, _>("broadcast").unwrap_or_default(),
            recorded_ns: ns(recorded),
            committed_ns: ns(row.get::<Option<DateTime<Utc>>, _>("committed_at").unwrap_or(recorded)),
        };
        (row.get::<i64, _>("global_sequence") as u64, event)
    };
    Ok(rows.iter().map(logged).collect())
}
