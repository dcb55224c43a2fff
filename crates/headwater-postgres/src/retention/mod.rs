//! The months of a namespace's log: which months exist, and their maintenance.
//!
//! Who has authority: the database. A month is sealed, then trimmed, each in one transaction. From
//! then on its events are no longer part of the log. Its leaf goes afterwards, in steps that cannot
//! be part of a transaction: it is detached without locking anybody out, dropped, and noted. A
//! crash between two steps leaves a state from which [`Database::maintain`] continues, here or in
//! another process. A lease keeps two processes from doing the same work. It only saves work: each
//! step is correct by itself. A step that does not get its lock in time is tried again, then left
//! to the next call.

mod storage;

use std::time::Duration;

use chrono::{DateTime, Utc};
use headwater_core::AdminError;
use serde::Serialize;
use sqlx::postgres::{PgArguments, PgRow, Postgres};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};

use crate::database::error::{admin_error, sqlstate};
use crate::database::number::{count, sequence, sequence_or_null};
use crate::database::transaction_pooler;
use crate::{Database, sql};

pub use self::storage::StorageStep;

/// How many times a step is tried whose lock is not available in time.
const TRIES: u32 = 3;
/// The pause between two tries, in which those who wait behind us get through.
const PAUSE: Duration = Duration::from_millis(200);

/// A month of a namespace's log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MonthInfo {
    /// Its first moment.
    pub starts_at: DateTime<Utc>,
    /// The first moment after it.
    pub ends_at: DateTime<Utc>,
    /// The table that holds it, or held it.
    pub leaf: String,
    /// How many events it has: counted if it was trimmed, otherwise estimated; `None`: unknown.
    pub events: Option<u64>,
    /// The size of its table with indexes; `None`: the table is gone.
    pub bytes: Option<u64>,
    /// The first sequence of a sealed month; `None`: it is not sealed, or has no events.
    pub first_sequence: Option<u64>,
    /// The last sequence of a sealed month.
    pub last_sequence: Option<u64>,
    /// When it was sealed: nothing can be added to it since then.
    pub sealed_at: Option<DateTime<Utc>>,
    /// When it was trimmed: its events are no longer part of the log since then.
    pub trimmed_at: Option<DateTime<Utc>>,
    /// When its table was found to be gone.
    pub dropped_at: Option<DateTime<Utc>>,
    /// When it becomes older than the namespace keeps events; `None`: never.
    pub due_at: Option<DateTime<Utc>>,
    /// Whether it should be trimmed now.
    pub due: bool,
    /// If it is due: the subscribers that still need it, and why.
    pub held_by: Vec<String>,
}

/// A month that was trimmed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trimmed {
    /// The table that holds it.
    pub leaf: String,
    /// How many events it had.
    pub events: u64,
    /// The subscribers that had not handled all of its events: see [`Database::losses`].
    pub losers: Vec<String>,
}

/// What a subscriber had not handled when it was trimmed all the same.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Loss {
    /// The subscriber.
    pub subscriber_id: String,
    /// Its partition.
    pub partition: u32,
    /// The first sequence that it lost.
    pub first_sequence: u64,
    /// The last sequence that it lost.
    pub last_sequence: u64,
    /// An upper bound for the number of events: it includes events of other partitions, and of
    /// types that the subscriber does not handle.
    pub events: u64,
    /// When they were lost.
    pub lost_at: DateTime<Utc>,
}

/// What [`Database::maintain`] did.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Maintained {
    /// Whether somebody else maintains the namespace at this moment. Then nothing was done.
    pub busy: bool,
    /// How many months were sealed.
    pub sealed: u32,
    /// Months that were trimmed.
    pub trimmed: Vec<Trimmed>,
    /// The month that is due and held, and by whom. Later months wait behind it.
    pub held: Option<(String, Vec<String>)>,
    /// Tables that were dropped.
    pub dropped: Vec<String>,
    /// Tables of trimmed months that somebody still uses or blocks, and why. The next call
    /// continues with them.
    pub left: Vec<(String, String)>,
}

impl Database {
    /// Lists the months of a namespace's log, oldest first.
    pub async fn months(&self, namespace: &str) -> Result<Vec<MonthInfo>, AdminError> {
        self.require_migrated().await?;
        let mut conn = self.pin().await.map_err(admin_error)?;
        let rows = sqlx::query(sql::retention::MONTHS).bind(namespace).fetch_all(&mut *conn).await.map_err(admin_error);
        month_infos(&conn.end(rows, admin_error).await?)
    }

    /// Lists what was trimmed before a namespace's subscribers, or one of them, had handled it,
    /// newest first.
    pub async fn losses(&self, namespace: &str, subscriber_id: Option<&str>) -> Result<Vec<Loss>, AdminError> {
        self.require_migrated().await?;
        let mut conn = self.pin().await.map_err(admin_error)?;
        let query = sqlx::query(sql::retention::LOSSES).bind(namespace).bind(subscriber_id);
        let rows = query.fetch_all(&mut *conn).await.map_err(admin_error);
        let loss = |row: &PgRow| {
            Ok(Loss {
                subscriber_id: row.get("subscriber_id"),
                partition: count(row, "partition")?,
                first_sequence: sequence(row, "first_sequence")?,
                last_sequence: sequence(row, "last_sequence")?,
                events: sequence(row, "events")?,
                lost_at: row.get("lost_at"),
            })
        };
        conn.end(rows, admin_error).await?.iter().map(loss).collect::<Result<_, _>>().map_err(admin_error)
    }

    /// Creates a namespace's coming months, seals past ones, trims months that are older than it
    /// keeps events, and drops their tables. No month goes that a subscriber still needs, unless
    /// `allow_loss` is set: then what the subscriber had not handled is lost to it, and recorded.
    /// Nodes call this once an hour, without loss.
    pub async fn maintain(&self, namespace: &str, allow_loss: bool) -> Result<Maintained, AdminError> {
        let info = self.namespace(namespace).await?;
        let connected = self.session().await;
        let mut work =
            Maintenance { conn: connected.map_err(admin_error)?, pooler: self.pooler, namespace: namespace.to_owned() };
        let done = work.run(info.id, allow_loss).await;
        if !matches!(done, Ok(Maintained { busy: true, .. })) {
            // If this fails, the lease ends by itself.
            _ = work.one(sqlx::query(sql::retention::END_MAINTENANCE).bind(info.id)).await;
        }
        _ = work.conn.close().await;
        done
    }
}

/// A session that maintains a namespace.
struct Maintenance {
    conn: PgConnection,
    pooler: bool,
    namespace: String,
}

impl Maintenance {
    async fn run(&mut self, namespace_id: i32, allow_loss: bool) -> Result<Maintained, AdminError> {
        let mut done = Maintained::default();
        if !self.pooler {
            sqlx::raw_sql(sql::session::BEGIN_MAINTENANCE).execute(&mut self.conn).await.map_err(admin_error)?;
        }
        if !self.one(sqlx::query(sql::retention::TAKE_MAINTENANCE).bind(namespace_id)).await?.get::<bool, _>(0) {
            return Ok(Maintained { busy: true, ..done });
        }
        // Do each part whether or not an earlier one failed: a session that blocks one namespace
        // must not keep the others from being maintained. Report the first error at the end.
        let sealed = self.seal(&mut done).await;
        let settled = match self.settle_untaken().await {
            Err(AdminError::NotGranted(_)) => Ok(()),
            settled => settled,
        };
        let trimmed = self.trim(allow_loss, &mut done).await;
        // Only the owner of the tables does the rest. For all other roles this is the end.
        if matches!(trimmed, Err(AdminError::NotGranted(_))) && !allow_loss {
            return sealed.and(settled).map(|()| done);
        }
        let shared = self.maintain_shared().await;
        if matches!(shared, Err(AdminError::NotGranted(_))) {
            return sealed.and(settled).and(trimmed).map(|()| done);
        }
        let dropped = match self.drop_leaves(&mut done).await {
            Err(AdminError::NotGranted(_)) if !allow_loss => Ok(()),
            dropped => dropped,
        };
        sealed.and(settled).and(trimmed).and(shared).and(dropped).map(|()| done)
    }

    /// Creates coming months, seals past ones, and works on the type index.
    async fn seal(&mut self, done: &mut Maintained) -> Result<(), AdminError> {
        let namespace = self.namespace.clone();
        self.one(sqlx::query(sql::retention::MAINTAIN_NAMESPACE).bind(&namespace)).await?;
        let sealed = self.one(sqlx::query(sql::retention::SEAL_MONTHS).bind(&namespace)).await?;
        done.sealed = count(&sealed, 0).map_err(admin_error)?;
        while self.one(sqlx::query(sql::log::MAINTAIN_INDEX).bind(&namespace)).await?.get::<i64, _>(0) > 0 {}
        Ok(())
    }

    /// Settles what queues do not take, so that it holds no month back. It goes in steps, because
    /// nobody can claim from a queue during a step.
    async fn settle_untaken(&mut self) -> Result<(), AdminError> {
        let namespace = self.namespace.clone();
        loop {
            let rows = self.all(sqlx::query(sql::queue::SETTLE_UNTAKEN).bind(&namespace)).await?;
            if !rows.iter().any(|row| row.get("more")) {
                return Ok(());
            }
        }
    }

    /// Seals past months of the namespaces that share theirs, and deletes what dropped namespaces
    /// left behind. Without this, a namespace without nodes would keep a month in the table of
    /// current months.
    async fn maintain_shared(&mut self) -> Result<(), AdminError> {
        let mut after = Some(0);
        while let Some(namespace_id) = after {
            after = self
                .one(sqlx::query(sql::retention::MAINTAIN_SHARED).bind(namespace_id))
                .await?
                .get::<Option<i32>, _>(0);
        }
        while self.one(sqlx::query(sql::retention::PURGE_DROPPED)).await?.get::<i64, _>(0) > 0 {}
        // Work on the indexes of all namespaces, including those of months that were just trimmed.
        while self.one(sqlx::query(sql::log::MAINTAIN_INDEX).bind(None::<&str>)).await?.get::<i64, _>(0) > 0 {}
        Ok(())
    }

    async fn trim(&mut self, allow_loss: bool, done: &mut Maintained) -> Result<(), AdminError> {
        let namespace = self.namespace.clone();
        let rows = self.all(sqlx::query(sql::retention::MONTHS).bind(&namespace)).await?;
        for month in month_infos(&rows)?.into_iter().filter(|month| month.due) {
            if !month.held_by.is_empty() && !allow_loss {
                done.held = Some((month.leaf, month.held_by));
                return Ok(());
            }
            // Count in a separate transaction: the next one keeps subscribers waiting.
            self.one(sqlx::query(sql::retention::COUNT_MONTH).bind(&namespace).bind(month.starts_at)).await?;
            let trim = sqlx::query(sql::retention::TRIM_MONTH).bind(&namespace).bind(month.starts_at).bind(allow_loss);
            match self.one(trim).await {
                Ok(row) => done.trimmed.push(Trimmed {
                    leaf: month.leaf,
                    events: sequence(&row, "events").map_err(admin_error)?,
                    losers: row.get("losers"),
                }),
                // Somebody moved a subscriber back in the meantime.
                Err(AdminError::MonthHeld(message)) => {
                    done.held = Some((month.leaf, vec![message]));
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn drop_leaves(&mut self, done: &mut Maintained) -> Result<(), AdminError> {
        let namespace = self.namespace.clone();
        loop {
            let steps = self.all(sqlx::query(sql::retention::DROP_STEPS).bind(&namespace)).await?;
            let next = steps.iter().find(|step| done.left.iter().all(|(leaf, _)| leaf != step.get::<&str, _>("leaf")));
            let Some(next) = next else { return Ok(()) };
            let (leaf, step) = (next.get::<String, _>("leaf"), next.get::<&str, _>("step"));
            let Some(statement) = next.get::<Option<String>, _>("statement") else {
                self.one(sqlx::query(sql::retention::NOTE_DROPPED).bind(&namespace)).await?;
                continue;
            };
            match self.patiently(&statement).await {
                Ok(()) if step == "drop" || step == "partman" => done.dropped.push(leaf),
                Ok(()) => {}
                Err(error) if sqlstate(&error).is_some() => done.left.push((leaf, error.to_string())),
                Err(error) => return Err(admin_error(error)),
            }
        }
    }

    /// Runs a statement outside of a transaction, and runs it again if its lock was not available.
    async fn patiently(&mut self, statement: &str) -> Result<(), sqlx::Error> {
        for _ in 1..TRIES {
            match sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(&mut self.conn).await {
                Err(error) if sqlstate(&error) == Some("55P03") => {
                    // A detachment that has begun is ended in another way.
                    if statement.ends_with("CONCURRENTLY") {
                        return Err(error);
                    }
                    tokio::time::sleep(PAUSE).await;
                }
                done => return done.map(drop),
            }
        }
        sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(&mut self.conn).await.map(drop)
    }

    /// Begins a transaction, if there is a pooler. It waits for locks as briefly as the session
    /// does without one.
    async fn begin(&mut self) -> Result<(), sqlx::Error> {
        transaction_pooler::begin(&mut self.conn, self.pooler).await?;
        if self.pooler {
            sqlx::raw_sql(sql::session::BEGIN_MAINTENANCE_LOCAL).execute(&mut self.conn).await?;
        }
        Ok(())
    }

    async fn one(&mut self, query: Query<'_, Postgres, PgArguments>) -> Result<PgRow, AdminError> {
        self.begin().await.map_err(admin_error)?;
        let row = query.fetch_one(&mut self.conn).await;
        transaction_pooler::end(&mut self.conn, self.pooler, row.is_ok()).await.map_err(admin_error)?;
        row.map_err(admin_error)
    }

    async fn all(&mut self, query: Query<'_, Postgres, PgArguments>) -> Result<Vec<PgRow>, AdminError> {
        self.begin().await.map_err(admin_error)?;
        let rows = query.fetch_all(&mut self.conn).await;
        transaction_pooler::end(&mut self.conn, self.pooler, rows.is_ok()).await.map_err(admin_error)?;
        rows.map_err(admin_error)
    }
}

fn month_infos(rows: &[PgRow]) -> Result<Vec<MonthInfo>, AdminError> {
    rows.iter().map(month_info).collect::<Result<_, _>>().map_err(admin_error)
}

fn month_info(row: &PgRow) -> Result<MonthInfo, sqlx::Error> {
    Ok(MonthInfo {
        starts_at: row.get("starts_at"),
        ends_at: row.get("ends_at"),
        leaf: row.get("leaf"),
        events: sequence_or_null(row, "events")?,
        bytes: sequence_or_null(row, "bytes")?,
        first_sequence: sequence_or_null(row, "first_sequence")?,
        last_sequence: sequence_or_null(row, "last_sequence")?,
        sealed_at: row.get("sealed_at"),
        trimmed_at: row.get("trimmed_at"),
        dropped_at: row.get("dropped_at"),
        due_at: row.get("due_at"),
        due: row.get::<Option<bool>, _>("due").unwrap_or(false),
        held_by: row.get("held_by"),
    })
}
