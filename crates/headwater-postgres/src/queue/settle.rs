//! What becomes of claims: acked, handed back, extended.

use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::postgres::{PgArguments, Postgres};
use sqlx::query::Query;
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use super::{Inner, Result, Transaction, bigint};
use crate::error::subscriber_error;
use crate::sql;
use crate::subscribers::storable;

pub(super) async fn ack(
    conn: &mut PgConnection,
    queue: &Inner,
    claim_id: Uuid,
    sequences: Option<&[u64]>,
    transaction: Transaction,
) -> Result<()> {
    run(conn, statement(sql::ACK_CLAIM, queue, claim_id, transaction).bind(bigints(sequences))).await
}

/// In a transaction of the caller's: what was settled before is an error.
pub(super) async fn ack_once(
    conn: &mut PgConnection,
    queue: &Inner,
    claim_id: Uuid,
    sequences: Option<&[u64]>,
) -> Result<()> {
    run(conn, of_claim(sqlx::query(sql::ACK_ONCE), queue, claim_id).bind(bigints(sequences))).await
}

/// Why events are handed back.
#[derive(Debug, Clone, Copy)]
pub(super) enum HandedBack<'e> {
    /// They failed: again, after a pause.
    Failed { delay: Duration, error: &'e str },
    /// They will never succeed.
    Hopeless { error: &'e str },
    /// They were not tried.
    Untouched,
}

pub(super) async fn nack(
    conn: &mut PgConnection,
    queue: &Inner,
    claim_id: Uuid,
    sequences: Option<&[u64]>,
    why: HandedBack<'_>,
) -> Result<()> {
    let (delay, error) = match why {
        HandedBack::Failed { delay, error } => (delay, error),
        HandedBack::Hopeless { error } => (Duration::ZERO, error),
        HandedBack::Untouched => (Duration::ZERO, "handed back untouched"),
    };
    let statement = of_claim(sqlx::query(sql::NACK_CLAIM), queue, claim_id)
        .bind(bigints(sequences))
        .bind(delay.as_secs_f64())
        .bind(storable(error))
        .bind(matches!(why, HandedBack::Hopeless { .. }))
        .bind(!matches!(why, HandedBack::Untouched));
    run(conn, statement).await
}

pub(super) async fn extend(
    conn: &mut PgConnection,
    queue: &Inner,
    claim_id: Uuid,
    visibility: Duration,
    transaction: Transaction,
) -> Result<DateTime<Utc>> {
    let statement = statement(sql::EXTEND_CLAIM, queue, claim_id, transaction).bind(visibility.as_secs_f64());
    statement.fetch_one(conn).await.map(|row| row.get("visible_at")).map_err(subscriber_error)
}

/// One that does not wait for the disk in a transaction of its own.
fn statement<'q>(
    text: &'static str,
    queue: &'q Inner,
    claim_id: Uuid,
    transaction: Transaction,
) -> Query<'q, Postgres, PgArguments> {
    of_claim(sqlx::query(text).bind(transaction == Transaction::Own), queue, claim_id)
}

/// The parameters that all of them have.
fn of_claim<'q>(
    statement: Query<'q, Postgres, PgArguments>,
    queue: &'q Inner,
    claim_id: Uuid,
) -> Query<'q, Postgres, PgArguments> {
    statement.bind(&queue.info.name).bind(&queue.subscriber_id).bind(claim_id)
}

fn bigints(sequences: Option<&[u64]>) -> Option<Vec<i64>> {
    sequences.map(|sequences| sequences.iter().copied().map(bigint).collect())
}

async fn run(conn: &mut PgConnection, statement: Query<'_, Postgres, PgArguments>) -> Result<()> {
    statement.execute(conn).await.map(drop).map_err(subscriber_error)
}
