//! Rows of the log that cannot be turned into events.
//!
//! They hold nobody up: whoever reads the log notes them, with the error, and steps over them as over a permanent gap. Whoever repairs the row has it
//! delivered late to those that are past it.

use chrono::{DateTime, Utc};
use headwater_core::{AdminError, Event, NamespaceInfo, ReadError};
use serde::Serialize;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use crate::error::{admin_error, read_error};
use crate::months::Months;
use crate::namespaces::of_read;
use crate::number::{PgCount, PgSequence, bigint, bigints, count, int, sequence};
use crate::pooled::within;
use crate::{Database, sql};

/// A row of the log that cannot be turned into an event.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PoisonEvent {
    /// Its place in the log.
    pub global_sequence: u64,
    /// Why it is no event.
    pub error: String,
    /// When it was found.
    pub found_at: DateTime<Utc>,
    /// When it was given to be delivered after all.
    pub redelivered_at: Option<DateTime<Utc>>,
}

/// A subscriber that was moved back, to just before poison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SubscriptionReset {
    /// The subscriber.
    pub subscriber_id: String,
    /// Its partition.
    pub partition: u32,
    /// Where it was.
    pub was_at: u64,
    /// Where it is: what comes after is delivered again.
    pub stands_at: u64,
}

/// What became of a redelivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Redelivered {
    /// Partitions of subscribers that were moved back, and are given it in order.
    pub moved: u32,
    /// Those that are given it late.
    pub late: u32,
}

/// What a page holds that is no event.
#[derive(Debug, Default)]
pub(crate) struct Poisoned {
    sequences: Vec<u64>,
    errors: Vec<String>,
}

impl Poisoned {
    /// Notes a row; fails if not even its place can be told.
    pub(crate) fn add(&mut self, row: &PgRow, error: &ReadError) -> Result<u64, ReadError> {
        let sequence = sequence(row, 0).map_err(read_error)?;
        self.sequences.push(sequence);
        self.errors.push(error.to_string());
        Ok(sequence)
    }

    /// Takes the events out of rows, and notes the rest.
    pub(crate) fn sort_out(&mut self, rows: &[PgRow], events: &mut Vec<Event>) -> Result<(), ReadError> {
        for row in rows {
            match crate::row::event(row) {
                Ok(event) => events.push(event),
                Err(error) => _ = self.add(row, &error)?,
            }
        }
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sequences.is_empty()
    }

    /// Their places.
    pub(crate) fn sequences(&self) -> Vec<u64> {
        self.sequences.clone()
    }

    /// Says what was stepped over without being noted, in a transaction that may not write, or of somebody who may not.
    pub(crate) fn say(&self, info: &NamespaceInfo) {
        if !self.is_empty() {
            tracing::warn!(namespace = info.name, sequences = ?self.sequences, errors = ?self.errors, "stepped over rows of the log that are no events");
        }
    }

    /// Writes it down. Until that has worked, nobody steps over them.
    pub(crate) async fn note(&self, conn: &mut PgConnection, info: &NamespaceInfo) -> Result<(), ReadError> {
        if self.is_empty() {
            return Ok(());
        }
        let new: i32 = sqlx::query_scalar(sql::NOTE_POISON)
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
    /// Rows of a namespace's log that cannot be turned into events, the first one first; with those that were redelivered, if asked for.
    pub async fn poison(&self, namespace: &str, redelivered: bool, limit: u32) -> Result<Vec<PoisonEvent>, AdminError> {
        let info = self.namespace(namespace).await?;
        let mut conn = self.pin().await.map_err(admin_error)?;
        let rows = within(
            self.call_timeout,
            sqlx::query(sql::POISON).bind(info.id).bind(redelivered).bind(i64::from(limit)).fetch_all(&mut *conn),
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

    /// Has an event delivered that was poison and has been repaired, to whoever is past it: late, and in a new term. Answers how many will be told.
    pub async fn redeliver_poison(&self, namespace: &str, global_sequence: u64) -> Result<u32, AdminError> {
        let info = self.namespace(namespace).await?;
        let mut conn = self.pin().await.map_err(admin_error)?;
        let readable = self.is_readable(&mut conn, &info, global_sequence).await;
        let told = match readable {
            Ok(sequence) => {
                let statement = sqlx::query_scalar(sql::REDELIVER_POISON).bind(namespace).bind(sequence);
                within(self.call_timeout, statement.fetch_one(&mut *conn)).await.map_err(admin_error)
            }
            Err(error) => Err(error),
        };
        conn.end(told, admin_error).await.map(|PgCount(told)| told)
    }

    /// Has events delivered that were poison and have been repaired. Active subscribers that are past the first of them are moved back to just before it,
    /// and are given them and all that follows, again and in order; but for transactional ones, whose effects happen once. These and all others that are past one are given it
    /// late, as by [`redeliver_poison`](Database::redeliver_poison).
    pub async fn redeliver_in_order(&self, namespace: &str, sequences: &[u64]) -> Result<Redelivered, AdminError> {
        let info = self.namespace(namespace).await?;
        let mut conn = self.pin().await.map_err(admin_error)?;
        let redelivered = async {
            let mut readable = Vec::with_capacity(sequences.len());
            for sequence in sequences {
                readable.push(self.is_readable(&mut conn, &info, *sequence).await?);
            }
            let statement = sqlx::query(sql::REDELIVER_IN_ORDER).bind(namespace).bind(readable);
            let row = within(self.call_timeout, statement.fetch_one(&mut *conn)).await.map_err(admin_error)?;
            let read = || Ok(Redelivered { moved: count(&row, "moved")?, late: count(&row, "late")? });
            read().map_err(admin_error)
        };
        let redelivered = redelivered.await;
        conn.end(redelivered, admin_error).await
    }

    /// Moves active subscribers that are past poison back to just before the first of it, but for transactional ones: they step over it, and go on from there. Each
    /// poison does so once. Answers which were moved.
    pub async fn reset_on_poison(
        &self,
        namespace: &str,
        sequences: &[u64],
    ) -> Result<Vec<SubscriptionReset>, AdminError> {
        let sequences = bigints(sequences.iter().copied())?;
        let mut conn = self.pin().await.map_err(admin_error)?;
        let statement = sqlx::query(sql::RESET_ON_POISON).bind(namespace).bind(sequences);
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

    /// Makes a kind of notifier known: poison that is found from now on is told to it at least once, by one of the processes that have it.
    pub async fn add_poison_notifier(&self, namespace: &str, notifier: &str) -> Result<(), AdminError> {
        let mut conn = self.pin().await.map_err(admin_error)?;
        let added = sqlx::query(sql::ADD_POISON_NOTIFIER).bind(namespace).bind(notifier);
        let added = within(self.call_timeout, added.execute(&mut *conn)).await.map(drop).map_err(admin_error);
        conn.end(added, admin_error).await
    }

    /// Poison that a notifier was not told of yet, the first one first.
    pub async fn poison_to_tell(&self, namespace: &str, notifier: &str, limit: u32) -> Result<Vec<u64>, AdminError> {
        let mut conn = self.pin().await.map_err(admin_error)?;
        let untold = sqlx::query_scalar(sql::POISON_TO_TELL).bind(namespace).bind(notifier);
        let untold = untold.bind(int(limit));
        let untold = within(self.call_timeout, untold.fetch_all(&mut *conn)).await.map_err(admin_error);
        Ok(conn.end(untold, admin_error).await?.into_iter().map(|PgSequence(sequence)| sequence).collect())
    }

    /// Notes that a notifier was told of poison.
    pub async fn poison_told(&self, namespace: &str, notifier: &str, sequences: &[u64]) -> Result<(), AdminError> {
        let sequences = bigints(sequences.iter().copied())?;
        let mut conn = self.pin().await.map_err(admin_error)?;
        let told = sqlx::query(sql::POISON_TOLD).bind(namespace).bind(notifier).bind(sequences);
        let told = within(self.call_timeout, told.execute(&mut *conn)).await.map(drop).map_err(admin_error);
        conn.end(told, admin_error).await
    }

    /// Notes poison by the way. Who only looks at it is not kept from that because it may not write.
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

    /// Fails unless the row is an event by now. Answers with its place, as it is stored.
    async fn is_readable(
        &self,
        conn: &mut PgConnection,
        info: &NamespaceInfo,
        sequence: u64,
    ) -> Result<i64, AdminError> {
        let stored = bigint(sequence)?;
        // What is trimmed is no event any more, though its month may still be there.
        let months = Months::load(&mut *conn, info.id).await.map_err(of_read)?;
        let bounds = months.forwards(sequence.saturating_sub(1), Some(sequence), None);
        let row = sqlx::query(sql::GAP_EVENTS)
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
        crate::row::event(&row)
            .map(|_| stored)
            .map_err(|error| AdminError::InvalidInput(format!("event {sequence} is not repaired: {error}")))
    }
}
