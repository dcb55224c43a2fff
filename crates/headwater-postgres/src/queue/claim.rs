//! Claims.

use headwater_core::{Claim, ClaimRequest, ClaimedRange};
use sqlx::postgres::{PgArguments, PgRow, Postgres};
use sqlx::query::Query;
use sqlx::{PgConnection, Row};

use super::{Inner, Result, Transaction, bigint};
use crate::error::subscriber_error;
use crate::row::event as event_of;
use crate::sql;

/// The columns behind those of the event.
const CLAIM_ID: usize = 15;
const REDELIVERY_COUNT: usize = 16;

pub(super) async fn claim(
    conn: &mut PgConnection,
    queue: &Inner,
    request: &ClaimRequest,
    transaction: Transaction,
) -> Result<Vec<Claim>> {
    let rows = fetch(conn, statement(sql::CLAIM_EVENTS, queue, request, transaction)).await?;
    claims_of(&rows)
}

/// As [`claim`]; the event types are patterns.
pub(super) async fn claim_matching(
    conn: &mut PgConnection,
    queue: &Inner,
    request: &ClaimRequest,
    transaction: Transaction,
) -> Result<Vec<Claim>> {
    let statement = sqlx::query(sql::CLAIM_MATCHING)
        .bind(transaction == Transaction::Own)
        .bind(&queue.info.name)
        .bind(&queue.subscriber_id)
        .bind(i32::try_from(request.max_events).unwrap_or(i32::MAX))
        .bind(request.visibility.as_secs_f64())
        .bind(&request.event_types)
        .bind((!request.worker.is_empty()).then_some(&request.worker))
        .bind(i32::try_from(request.max_attempts).unwrap_or(i32::MAX))
        .bind((!request.acks.is_empty()).then_some(&request.acks));
    claims_of(&fetch(conn, statement).await?)
}

fn claims_of(rows: &[PgRow]) -> Result<Vec<Claim>> {
    let mut claims: Vec<Claim> = Vec::new();
    // A claim's events come one after the other.
    for row in rows {
        let claim_id = row.try_get(CLAIM_ID).map_err(subscriber_error)?;
        let event = event_of(row)?;
        match claims.last_mut() {
            Some(claim) if claim.claim_id == claim_id => claim.events.push(event),
            _ => {
                let redelivery_count = row.try_get::<i32, _>(REDELIVERY_COUNT).map_err(subscriber_error)? as u32;
                let mut events = Vec::with_capacity(rows.len());
                events.push(event);
                claims.push(Claim { claim_id, redelivery_count, events });
            }
        }
    }
    Ok(claims)
}

pub(super) async fn claim_ranges(
    conn: &mut PgConnection,
    queue: &Inner,
    request: &ClaimRequest,
    transaction: Transaction,
) -> Result<Vec<ClaimedRange>> {
    let rows = fetch(conn, statement(sql::CLAIM_RANGES, queue, request, transaction)).await?;
    rows.iter().map(|row| range(row).map_err(subscriber_error)).collect()
}

fn range(row: &PgRow) -> std::result::Result<ClaimedRange, sqlx::Error> {
    let sequences: Option<Vec<i64>> = row.try_get(4)?;
    Ok(ClaimedRange {
        claim_id: row.try_get(0)?,
        redelivery_count: row.try_get::<i32, _>(1)? as u32,
        first: row.try_get::<i64, _>(2)? as u64,
        last: row.try_get::<i64, _>(3)? as u64,
        sequences: sequences.map(|sequences| sequences.into_iter().map(|sequence| sequence as u64).collect()),
        event_types: row.try_get(5)?,
        visible_at: row.try_get(6)?,
    })
}

/// The parameters that both forms of a claim have.
fn statement<'q>(
    text: &'static str,
    queue: &'q Inner,
    request: &'q ClaimRequest,
    transaction: Transaction,
) -> Query<'q, Postgres, PgArguments> {
    sqlx::query(text)
        .bind(transaction == Transaction::Own)
        .bind(&queue.info.name)
        .bind(&queue.subscriber_id)
        .bind(i32::try_from(request.max_events).unwrap_or(i32::MAX))
        .bind(request.visibility.as_secs_f64())
        .bind((!request.event_types.is_empty()).then_some(&request.event_types))
        .bind((!request.worker.is_empty()).then_some(&request.worker))
        .bind(i32::try_from(request.max_attempts).unwrap_or(i32::MAX))
        .bind(request.settled.map(bigint))
        .bind((!request.acks.is_empty()).then_some(&request.acks))
}

async fn fetch(conn: &mut PgConnection, statement: Query<'_, Postgres, PgArguments>) -> Result<Vec<PgRow>> {
    statement.fetch_all(conn).await.map_err(subscriber_error)
}
