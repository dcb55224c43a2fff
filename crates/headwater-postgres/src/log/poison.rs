//! Poison: rows of the log that cannot be turned into events.
//!
//! They hold nobody up: a reader of the log notes them, with the error, and passes over them as
//! over a permanent gap. After the row was repaired, an operator can have it delivered late to
//! subscribers that are past it.

use chrono::{DateTime, Utc};
use headwater_core::{AdminError, NamespaceInfo, ReadError, RecordedEvent};
use serde::Serialize;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use crate::admin::namespaces::of_read;
use crate::database::acquire::within;
use crate::database::error::{admin_error, read_error};
use crate::database::number::{PgCount, PgSequence, bigint, bigints, count, int, sequence};
use crate::log::month_bounds::Months;
use crate::{Database, sql};

/// A row of the log that cannot be turned into an event.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PoisonEvent {
    /// Its place in the log.
    pub global_sequence: u64,
    /// Why it cannot be turned into an event.
    pub error: String,
    /// When it was found.
    pub found_at: DateTime<Utc>,
    /// When it was redelivered.
    pub redelivered_at: Option<DateTime<Utc>>,
}

/// A subscriber that was moved back to just before poison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SubscriptionReset {
    /// The subscriber.
    pub subscriber_id: String,
    /// Its partition.
    pub partition: u32,
    /// Where it was.
    pub was_at: u64,
    /// Where it stands now: what comes after is delivered again.
    pub stands_at: u64,
}

/// The result of a redelivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Redelivered {
    /// How many partitions were moved back, and get the event in order.
    pub moved: u32,
    /// How many partitions get the event late.
    pub late: u32,
}

/// The poison in a page.
#[derive(Debug, Default)]
pub(crate) struct Poisoned {
    sequences: Vec<u64>,
    errors: Vec<String>,
}

impl Poisoned {
    /// Notes a row. Fails if not even its place is readable.
    pub(crate) fn add(&mut self, row: &PgRow, error: &ReadError) -> Result<u64, ReadError> {
        let sequence = sequence(row, 0).map_err(read_error)?;
        self.sequences.push(sequence);
        self.errors.push(error.to_string());
        Ok(sequence)
    }

    /// Takes the events out of rows, and notes the rest.
    pub(crate) fn sort_out(&mut self, rows: &[PgRow], events: &mut Vec<RecordedEvent>) -> Result<(), ReadError> {
        for row in rows {
            match crate::log::row::event(row) {
                Ok(event) => events.push(event),
                Err(error) => _ = self.add(row, &error)?,
            }
        }
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sequences.is_empty()
    }

    /// Returns the places of the noted rows.
    pub(crate) fn sequences(&self) -> Vec<u64> {
        self.sequences.clone()
    }

    /// Logs what was passed over without being noted: in a transaction that may not write, or for a
    /// caller who may not.
    pub(crate) fn say(&self, info: &NamespaceInfo) {
        if !self.is_empty() {
            tracing::warn!(namespace = info.name, sequences = ?self.sequences, errors = ?self.errors, "stepped over rows of the log that are no events");
        }
    }

    /// Writes the poison down. Nobody passes over it before that has worked.
    pub(crate) async fn note(&self, conn: &mut PgConnection, info: &NamespaceInfo) -> Result<(), ReadError> {
        if self.is_empty() {
            return Ok(());
        }
        let new: i32 = sqlx::query_scalar(sql::log::NOTE_POISON)
            .bind(&info.name)
            .bind(bigints(self.sequences.iter().copied())?)
            .bind(&self.errors)
            .fetch_one(conn)
            .await
            .map_err(read_error)?;
        if new > 0 {
            tracing::error!(namespace = info.name, sequences = ?self.sequences, errors = ?self.errors, "the log has rows that are no events: they are stepped over");
        }
        Ok(())
    }
}

impl Database {
    /// Lists the poison of a namespace, in log order, including what was redelivered, if
    /// `redelivered` is set.
    pub async fn poison(&self, namespace: &str, redelivered: bool, limit: u32) -> Result<Vec<PoisonEvent>, AdminError> {
        let info = self.namespace(namespace).await?;
        let mut conn = self.pin().await.map_err(admin_error)?;
        let rows = within(
            self.call_timeout,
            sqlx::query(sql::log::POISON).bind(info.id).bind(redelivered).bind(i64::from(limit)).fetch_all(&mut *conn),
        )
        .await
        .map_err(admin_error);
        let poison = |row: &PgRow| {
            Ok(PoisonEvent {
                global_sequence: sequence(row, "global_sequence")?,
                error: row.get("error"),
                found_at: row.get("found_at"),
                redelivered_at: row.get("redelivered_at"),
            })
        };
        conn.end(rows, admin_error).await?.iter().map(poison).collect::<Result<_, _>>().map_err(admin_error)
    }

    /// Delivers a repaired poison event to every subscriber that is past it: late, and in a new
    /// term. Returns how many partitions will get it.
    pub async fn redeliver_poison(&self, namespace: &str, global_sequence: u64) -> Result<u32, AdminError> {
        let info = self.namespace(namespace).await?;
        let mut conn = self.pin().await.map_err(admin_error)?;
        let readable = self.is_readable(&mut conn, &info, global_sequence).await;
        let told = match readable {
            Ok(sequence) => {
                let statement = sqlx::query_scalar(sql::log::REDELIVER_POISON).bind(namespace).bind(sequence);
                within(self.call_timeout, statement.fetch_one(&mut *conn)).await.map_err(admin_error)
            }
            Err(error) => Err(error),
        };
        conn.end(told, admin_error).await.map(|PgCount(told)| told)
    }

    /// Delivers repaired poison again. Active subscribers that are past the first of these events
    /// are moved back to just before it, and get them and everything that follows again, in order.
    /// Transactional subscribers are not moved, because their effects happen once. They, and all
    /// others that are past an event, get it late, as with
    /// [`redeliver_poison`](Database::redeliver_poison).
    pub async fn redeliver_in_order(&self, namespace: &str, sequences: &[u64]) -> Result<Redelivered, AdminError> {
        let info = self.namespace(namespace).await?;
        let mut conn = self.pin().await.map_err(admin_error)?;
        let redelivered = async {
            let mut readable = Vec::with_capacity(sequences.len());
            for sequence in sequences {
                readable.push(self.is_readable(&mut conn, &info, *sequence).await?);
            }
            let statement = sqlx::query(sql::log::REDELIVER_IN_ORDER).bind(namespace).bind(readable);
            let row = within(self.call_timeout, statement.fetch_one(&mut *conn)).await.map_err(admin_error)?;
            let read = || Ok(Redelivered { moved: count(&row, "moved")?, late: count(&row, "late")? });
            read().map_err(admin_error)
        };
        let redelivered = redelivered.await;
        conn.end(redelivered, admin_error).await
    }

    /// Moves active subscribers that are past poison back to just before the first of it, except
    /// transactional ones. They pass over it, and continue from there. Each poison row does this
    /// once. Returns which subscribers were moved.
    pub async fn reset_on_poison(
        &self,
        namespace: &str,
        sequences: &[u64],
    ) -> Result<Vec<SubscriptionReset>, AdminError> {
        let sequences = bigints(sequences.iter().copied())?;
        let mut conn = self.pin().await.map_err(admin_error)?;
        let statement = sqlx::query(sql::delivery::RESET_ON_POISON).bind(namespace).bind(sequences);
        let rows = within(self.call_timeout, statement.fetch_all(&mut *conn)).await.map_err(admin_error);
        let reset = |row: &PgRow| {
            Ok(SubscriptionReset {
                subscriber_id: row.get("subscriber_id"),
                partition: count(row, "partition")?,
                was_at: sequence(row, "was_at")?,
                stands_at: sequence(row, "stands_at")?,
            })
        };
        conn.end(rows, admin_error).await?.iter().map(reset).collect::<Result<_, _>>().map_err(admin_error)
    }

    /// Registers a kind of notifier: poison that is found from now on is reported to it at least
    /// once, by one of the processes that have it.
    pub async fn add_poison_notifier(&self, namespace: &str, notifier: &str) -> Result<(), AdminError> {
        let mut conn = self.pin().await.map_err(admin_error)?;
        let added = sqlx::query(sql::log::ADD_POISON_NOTIFIER).bind(namespace).bind(notifier);
        let added = within(self.call_timeout, added.execute(&mut *conn)).await.map(drop).map_err(admin_error);
        conn.end(added, admin_error).await
    }

    /// Lists poison that a notifier has not reported yet, in log order.
    pub async fn poison_to_tell(&self, namespace: &str, notifier: &str, limit: u32) -> Result<Vec<u64>, AdminError> {
        let mut conn = self.pin().await.map_err(admin_error)?;
        let untold = sqlx::query_scalar(sql::log::POISON_TO_TELL).bind(namespace).bind(notifier);
        let untold = untold.bind(int(limit));
        let untold = within(self.call_timeout, untold.fetch_all(&mut *conn)).await.map_err(admin_error);
        Ok(conn.end(untold, admin_error).await?.into_iter().map(|PgSequence(sequence)| sequence).collect())
    }

    /// Records that a notifier has reported poison.
    pub async fn poison_told(&self, namespace: &str, notifier: &str, sequences: &[u64]) -> Result<(), AdminError> {
        let sequences = bigints(sequences.iter().copied())?;
        let mut conn = self.pin().await.map_err(admin_error)?;
        let told = sqlx::query(sql::log::POISON_TOLD).bind(namespace).bind(notifier).bind(sequences);
        let told = within(self.call_timeout, told.execute(&mut *conn)).await.map(drop).map_err(admin_error);
        conn.end(told, admin_error).await
    }

    /// Notes poison in passing. A caller who only reads is not refused because it may not write.
    pub(crate) async fn note_poison(&self, info: &NamespaceInfo, poison: &Poisoned) {
        if poison.is_empty() {
            return;
        }
        let noted = async {
            let mut conn = self.pin().await.map_err(read_error)?;
            let noted = poison.note(&mut conn, info).await;
            conn.end(noted, read_error).await
        };
        if let Err(error) = noted.await {
            poison.say(info);
            tracing::debug!(namespace = info.name, %error, "failed to note poison");
        }
    }

    /// Fails unless the row can be turned into an event by now. Returns its place, as it is stored.
    async fn is_readable(
        &self,
        conn: &mut PgConnection,
        info: &NamespaceInfo,
        sequence: u64,
    ) -> Result<i64, AdminError> {
        let stored = bigint(sequence)?;
        // A trimmed event is no longer in the log, even if its month's table still exists.
        let months = Months::load(&mut *conn, info.id).await.map_err(of_read)?;
        let bounds = months.forwards(sequence.saturating_sub(1), Some(sequence), None);
        let row = sqlx::query(sql::log::GAP_EVENTS)
            .bind(info.id)
            .bind(vec![stored])
            .bind(vec![stored])
            .bind(1)
            .bind(bounds.from)
            .bind(bounds.until)
            .bind(None::<uuid::Uuid>)
            .fetch_optional(conn)
            .await
            .map_err(admin_error)?;
        let row = row.ok_or_else(|| AdminError::InvalidInput(format!("there is no event {sequence}")))?;
        crate::log::row::event(&row)
            .map(|_| stored)
            .map_err(|error| AdminError::InvalidInput(format!("event {sequence} is not repaired: {error}")))
    }
}
