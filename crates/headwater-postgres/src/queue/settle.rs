//! Settles claims: acks and extends them.

use std::time::Duration;

use chrono::{DateTime, Utc};
use headwater_core::SubscriberError;
use sqlx::postgres::{PgArguments, Postgres};
use sqlx::query::Query;
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use super::{Inner, Result, Transaction, some_of};
use crate::database::error::subscriber_error;
use crate::sql;

pub(super) async fn ack(
    conn: &mut PgConnection,
    queue: &Inner,
    claim_id: Uuid,
    sequences: Option<&[u64]>,
    transaction: Transaction,
) -> Result<()> {
    run(conn, statement(sql::queue::ACK_CLAIM, queue, claim_id, transaction).bind(some_of(sequences)?)).await
}

/// Acks in a transaction of the caller, or of a handler. An event that was settled before is an
/// error, and so is an ack of a handler that has ended its transaction.
pub(super) async fn ack_once(
    conn: &mut PgConnection,
    queue: &Inner,
    claim_id: Uuid,
    sequences: Option<&[u64]>,
    of_handler: bool,
) -> Result<()> {
    let statement = of_claim(sqlx::query(sql::queue::ACK_ONCE), queue, claim_id).bind(some_of(sequences)?);
    match statement.bind(of_handler).execute(conn).await.map_err(subscriber_error)?.rows_affected() {
        0 => Err(SubscriberError::ClaimLost(format!("claim {claim_id}: its handler ended the transaction"))),
        _ => Ok(()),
    }
}

pub(super) async fn extend(
    conn: &mut PgConnection,
    queue: &Inner,
    claim_id: Uuid,
    visibility: Duration,
    transaction: Transaction,
) -> Result<DateTime<Utc>> {
    let statement = statement(sql::queue::EXTEND_CLAIM, queue, claim_id, transaction).bind(visibility.as_secs_f64());
    statement.fetch_one(conn).await.map(|row| row.get("visible_at")).map_err(subscriber_error)
}

/// A statement that does not wait for the disk if it has a transaction of its own.
fn statement<'q>(
    text: &'static str,
    queue: &'q Inner,
    claim_id: Uuid,
    transaction: Transaction,
) -> Query<'q, Postgres, PgArguments> {
    of_claim(sqlx::query(text).bind(transaction == Transaction::Own), queue, claim_id)
}

/// Binds the parameters that all of these statements have.
fn of_claim<'q>(
    statement: Query<'q, Postgres, PgArguments>,
    queue: &'q Inner,
    claim_id: Uuid,
) -> Query<'q, Postgres, PgArguments> {
    statement.bind(&queue.info.name).bind(&queue.subscriber_id).bind(claim_id)
}

async fn run(conn: &mut PgConnection, statement: Query<'_, Postgres, PgArguments>) -> Result<()> {
    statement.execute(conn).await.map(drop).map_err(subscriber_error)
}
