//! Producers: emits; streams with exact versions; and the producers' own transactions, which wait,
//! roll back, use savepoints or are prepared.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use headwater::log::{Append, AppendError};
use headwater::{Event, ExpectedVersion, Json, Namespace};
use headwater_core::headers;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions, Connection};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use super::line::now_ns;
use super::{EVENT_TYPE, NAMESPACE};

const KEYS: u32 = 12;
/// Time limit of a producer's own transaction. On a connection that loses answers it would never
/// end.
const TRANSACTION: Duration = Duration::from_secs(15);

/// What a producer knows of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The event must be in the log.
    Committed,
    /// The event must not be in the log.
    RolledBack,
    /// The answer was lost.
    Unknown,
}

/// What a producer learned of an event, and when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Told {
    pub(crate) id: Uuid,
    pub(crate) fate: Fate,
    pub(crate) ns: u64,
}

/// What the producers know.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) events: Vec<Told>,
    /// Prepared transactions that were committed or rolled back.
    pub(crate) ended: HashSet<String>,
    /// Whether a server may have lost what it acknowledged.
    pub(crate) lossy: bool,
    /// Whether producers prepare no transactions for now. Each would make all commits before it
    /// durable.
    pub(crate) unprepared: bool,
    /// Events that must not happen.
    pub(crate) violations: Vec<String>,
    pub(crate) transactions: u64,
    pub(crate) rollbacks: u64,
    pub(crate) savepoints: u64,
    pub(crate) prepared: u64,
}

impl Known {
    pub(crate) fn note(&mut self, ids: &[Uuid], fate: Fate) {
        let ns = now_ns();
        self.events.extend(ids.iter().map(|id| Told { id: *id, fate, ns }));
    }
}

/// Emits `count` events, one after the other, as fast as possible. Stops at the first error.
pub(crate) async fn burst(namespace: &Namespace, known: &Mutex<Known>, count: u32) {
    for number in 0..count {
        let event = Event { key: Some(format!("key-{}", number % KEYS)), ..Event::raw(EVENT_TYPE, Json::null()) };
        let id = event.id;
        let fate = match namespace.emit(event).await {
            Ok(_) => Fate::Committed,
            Err(_) => Fate::Unknown,
        };
        known.lock().expect("no holder of this lock panics").note(&[id], fate);
        if fate == Fate::Unknown {
            return;
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Emits,
    Streams,
    Transactions,
    Prepared,
}

/// Starts all producers. They end when told to stop.
pub(crate) fn start(
    namespace: &Namespace,
    connect: &PgConnectOptions,
    pause: Duration,
    seed: u64,
    known: &Arc<Mutex<Known>>,
    stop: &watch::Receiver<bool>,
) -> JoinSet<()> {
    use Kind::*;
    let kinds = [Emits, Emits, Streams, Streams, Transactions, Transactions, Transactions, Prepared];
    let mut tasks = JoinSet::new();
    for (number, kind) in kinds.into_iter().enumerate() {
        let producer = Producer {
            number,
            namespace: namespace.clone(),
            pause,
            connect: connect.clone().application_name("torture-writer").disable_statement_logging(),
            dice: StdRng::seed_from_u64(seed.wrapping_mul(1_000).wrapping_add(number as u64)),
            known: known.clone(),
            stop: stop.clone(),
        };
        tasks.spawn(producer.run(kind));
    }
    tasks
}

struct Producer {
    number: usize,
    namespace: Namespace,
    pause: Duration,
    connect: PgConnectOptions,
    dice: StdRng,
    known: Arc<Mutex<Known>>,
    stop: watch::Receiver<bool>,
}

impl Producer {
    async fn run(mut self, kind: Kind) {
        let mut versions = [0; 4];
        while !*self.stop.borrow() {
            let pause = self.pause.mul_f64(self.dice.random_range(0.0..2.0));
            match kind {
                Kind::Emits => self.emit().await,
                Kind::Streams => self.append(&mut versions).await,
                Kind::Transactions => self.transaction().await,
                Kind::Prepared if self.ask(|known| known.unprepared) => {}
                Kind::Prepared => self.prepare().await,
            }
            // If the wait ends early, the loop ends.
            _ = timeout(pause, self.stop.wait_for(|stop| *stop)).await;
        }
    }

    fn event(&mut self) -> Event {
        let mut event = Event::raw(EVENT_TYPE, Json::null());
        if self.dice.random_bool(0.3) {
            event.headers.insert(headers::BROADCAST.into(), "true".into());
        }
        if !self.dice.random_bool(0.7) {
            return event;
        }
        Event { key: Some(format!("key-{}", self.dice.random_range(0..KEYS))), ..event }
    }

    fn note(&self, ids: &[Uuid], fate: Fate) {
        self.count(|known| known.note(ids, fate));
    }

    fn ask(&self, question: impl Fn(&Known) -> bool) -> bool {
        question(&self.known.lock().expect("no holder of this lock panics"))
    }

    fn count(&self, count: impl Fn(&mut Known)) {
        count(&mut self.known.lock().expect("no holder of this lock panics"));
    }

    async fn emit(&mut self) {
        let several = if self.dice.random_bool(0.05) { self.dice.random_range(2..40) } else { 1 };
        let append = (0..several).fold(Append::new(), |append, _| append.event(self.event()));
        let ids: Vec<Uuid> = append.events().iter().map(|event| event.id).collect();
        let fate = match self.namespace.append_all(append).await {
            Ok(_) => Fate::Committed,
            Err(error) if error.outcome_unknown() => Fate::Unknown,
            Err(error) => return self.count(|known| known.violations.push(format!("an emit failed: {error}"))),
        };
        self.note(&ids, fate);
    }

    /// Appends to a stream that only this producer writes, so that it knows the version.
    async fn append(&mut self, versions: &mut [u64; 4]) {
        let at = self.dice.random_range(0..versions.len());
        let stream = format!("own-{}-{at}", self.number);
        let event = Event::raw(EVENT_TYPE, Json::null());
        let id = event.id;
        match self.namespace.append(stream.as_str(), ExpectedVersion::Exact(versions[at]), [event]).await {
            Ok(appended) => {
                versions[at] = appended.stream_version().unwrap_or_default();
                self.note(&[id], Fate::Committed);
            }
            Err(error) if error.outcome_unknown() => {
                self.note(&[id], Fate::Unknown);
                loop {
                    match self.namespace.last_event(stream.as_str()).await {
                        Ok(last) => {
                            break versions[at] = last.and_then(|event| event.stream_version).unwrap_or_default();
                        }
                        Err(_) => sleep(Duration::from_millis(200)).await,
                    }
                }
            }
            Err(error) => {
                // A server that lost the end of the stream knows a lower version.
                let lost = |known: &Known| known.lossy && matches!(error, AppendError::Conflict { .. });
                if !self.ask(lost) {
                    self.count(|known| {
                        known.violations.push(format!("an append to {stream} by its only writer failed: {error}"))
                    });
                }
                if let AppendError::Conflict { actual, .. } = error {
                    versions[at] = actual;
                }
            }
        }
    }

    /// Returns how long a transaction stays open. Most times are short. Some are longer than every
    /// `hold_for` except the longest.
    fn dawdle(&mut self) -> Duration {
        let seconds = match self.dice.random_range(0..20) {
            0..10 => self.dice.random_range(0.0..0.05),
            10..17 => self.dice.random_range(0.05..0.9),
            17..19 => self.dice.random_range(0.9..3.0),
            _ => self.dice.random_range(3.0..7.0),
        };
        Duration::from_secs_f64(seconds)
    }

    /// Runs a transaction that writes to the producer's own streams, or without a stream.
    async fn transaction(&mut self) {
        self.count(|known| known.transactions += 1);
        let stream = self.dice.random_bool(0.7).then(|| format!("tx-{}-{}", self.number, self.dice.random_range(0..3)));
        let (mut kept, mut taken_back) = (Vec::new(), Vec::new());
        let commit = self.dice.random_bool(0.75);
        let mut committing = false;
        let work = self.try_transaction(stream.as_deref(), commit, &mut committing, &mut kept, &mut taken_back);
        // After the timeout the work is dropped. That closes its connection, and the transaction is
        // rolled back unless the commit was sent.
        let outcome = timeout(TRANSACTION, work).await.unwrap_or(Err(sqlx::Error::PoolTimedOut));
        self.note(&taken_back, Fate::RolledBack);
        match outcome {
            Ok(()) if commit => {
                self.note(&kept, Fate::Committed);
                // The stream's next event could overtake the last one, if a reader allowed it.
                if let Some(stream) = stream {
                    self.follow(&stream).await;
                }
            }
            Ok(()) => {
                self.count(|known| known.rollbacks += 1);
                self.note(&kept, Fate::RolledBack);
            }
            Err(_) => self.note(&kept, if committing { Fate::Unknown } else { Fate::RolledBack }),
        }
    }

    async fn follow(&mut self, stream: &str) {
        let event = Event::raw(EVENT_TYPE, Json::null());
        let id = event.id;
        let fate = match self.namespace.append(stream, ExpectedVersion::Any, [event]).await {
            Ok(_) => Fate::Committed,
            Err(_) => Fate::Unknown,
        };
        self.note(&[id], fate);
    }

    /// Runs the transaction. Sets `committing` just before it sends the commit.
    async fn try_transaction(
        &mut self,
        stream: Option<&str>,
        commit: bool,
        committing: &mut bool,
        kept: &mut Vec<Uuid>,
        taken_back: &mut Vec<Uuid>,
    ) -> Result<(), sqlx::Error> {
        let failed = |error: AppendError| sqlx::Error::Protocol(error.to_string());
        let mut conn = self.connect().await;
        let mut tx = conn.begin().await?;
        for _ in 0..self.dice.random_range(1..4) {
            let id = self.append_in(&mut tx, stream).await.map_err(failed)?;
            kept.push(id);
            if self.dice.random_bool(0.3) {
                self.count(|known| known.savepoints += 1);
                let mut savepoint = tx.begin().await?;
                let id = self.append_in(&mut savepoint, stream).await.map_err(failed)?;
                if self.dice.random_bool(0.5) {
                    savepoint.rollback().await?;
                    taken_back.push(id);
                } else {
                    savepoint.commit().await?;
                    kept.push(id);
                }
            }
        }
        sleep(self.dawdle()).await;
        if !commit {
            // If the rollback fails, the transaction is rolled back anyway.
            return tx.rollback().await;
        }
        *committing = true;
        tx.commit().await
    }

    async fn append_in(&mut self, conn: &mut PgConnection, stream: Option<&str>) -> Result<Uuid, AppendError> {
        let event = match stream {
            Some(_) => Event::raw(EVENT_TYPE, Json::null()),
            None => self.event(),
        };
        let id = event.id;
        match stream {
            Some(stream) => self.namespace.append_in(conn, stream, ExpectedVersion::Any, [event]).await?,
            None => self.namespace.emit_in(conn, event).await?,
        };
        Ok(id)
    }

    async fn connect(&self) -> PgConnection {
        loop {
            match timeout(Duration::from_secs(5), self.connect.connect()).await {
                Ok(Ok(conn)) => return conn,
                _ => sleep(Duration::from_millis(100)).await,
            }
        }
    }

    /// Prepares a transaction, which then outlives its session and the server.
    async fn prepare(&mut self) {
        let (id, key) = (Uuid::now_v7(), format!("key-{}", self.dice.random_range(0..KEYS)));
        let name = format!("torture-{id}");
        let mut conn = self.connect().await;
        let prepare = async {
            let mut tx = conn.begin().await?;
            sqlx::query(include_str!("../../sql/torture_append.sql"))
                .bind(NAMESPACE)
                .bind(id)
                .bind(key)
                .execute(&mut *tx)
                .await?;
            sqlx::raw_sql(sqlx::AssertSqlSafe(format!("PREPARE TRANSACTION '{name}'"))).execute(&mut *tx).await?;
            // For the driver the transaction is still open. A ROLLBACK outside of a transaction is
            // only a warning.
            tx.rollback().await
        };
        let prepared = timeout(TRANSACTION, prepare).await.is_ok_and(|prepared| prepared.is_ok());
        sleep(self.dawdle()).await;
        let commit = self.dice.random_bool(0.7);
        let verb = if commit { "COMMIT" } else { "ROLLBACK" };
        let mut fate = if commit { Fate::Committed } else { Fate::RolledBack };
        self.count(|known| known.prepared += 1);
        let mut sure = prepared;
        loop {
            let mut conn = self.connect().await;
            let end = sqlx::AssertSqlSafe(format!("{verb} PREPARED '{name}'"));
            let end = timeout(TRANSACTION, sqlx::raw_sql(end).execute(&mut conn)).await;
            match end.unwrap_or(Err(sqlx::Error::PoolTimedOut)) {
                Ok(_) => break,
                // It was never prepared, or an earlier try succeeded.
                Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some("42704") => {
                    if !sure || self.ask(|known| known.lossy) {
                        fate = Fate::Unknown;
                    } else {
                        self.count(|known| known.violations.push(format!("prepared transaction {name} is gone")));
                    }
                    break;
                }
                Err(_) => {
                    sure = false;
                    sleep(Duration::from_millis(100)).await;
                }
            }
        }
        self.count(|known| _ = known.ended.insert(name.clone()));
        self.note(&[id], fate);
        sleep(Duration::from_millis(self.dice.random_range(50..800))).await;
    }
}
