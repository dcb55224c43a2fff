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

/// So many are read after their claim is committed: others claim meanwhile, which is worth a second round trip.
const READ_APART: u32 = 32;

pub(super) async fn claim(
    conn: &mut PgConnection,
    queue: &Inner,
    request: &ClaimRequest,
    transaction: Transaction,
) -> Result<Vec<Claim>> {
    if transaction == Transaction::Own && request.max_events >= READ_APART && request.per_claim.is_none() {
        let mut claims = Vec::new();
        for range in claim_ranges(conn, queue, request, transaction).await? {
            claims.push(read(conn, queue, range).await?);
        }
        return Ok(claims);
    }
    let statement = statement(sql::CLAIM_EVENTS, queue, request, transaction).bind(per_claim(request));
    claims_of(&fetch(conn, statement).await?)
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
        .bind((!request.acks.is_empty()).then_some(&request.acks))
        .bind(per_claim(request));
    claims_of(&fetch(conn, statement).await?)
}

fn per_claim(request: &ClaimRequest) -> Option<i32> {
    request.per_claim.map(|events| i32::try_from(events).unwrap_or(i32::MAX))
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

async fn read(conn: &mut PgConnection, queue: &Inner, range: ClaimedRange) -> Result<Claim> {
    let sequences: Option<Vec<i64>> = range.sequences.map(|sequences| sequences.into_iter().map(bigint).collect());
    let statement = sqlx::query(sql::CLAIMED_EVENTS)
        .bind(i32::from(queue.info.id))
        .bind(bigint(range.first))
        .bind(bigint(range.last))
        .bind(range.event_types)
        .bind(sequences);
    let rows = fetch(conn, statement).await?;
    let events = rows.iter().map(event_of).collect::<std::result::Result<_, _>>()?;
    Ok(Claim { claim_id: range.claim_id, redelivery_count: range.redelivery_count, events })
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
