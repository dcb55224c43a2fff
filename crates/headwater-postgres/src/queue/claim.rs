//! Claims.

use std::collections::BTreeMap;

use futures::TryStreamExt;
use headwater_core::{Claim, ClaimRequest, ClaimedRange};
use sqlx::postgres::{PgArguments, PgRow, Postgres};
use sqlx::query::Query;
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use super::{Inner, Result, Transaction, settle};
use crate::error::subscriber_error;
use crate::number::{PgSequence, bound, count, int, sequence};
use crate::poison::Poisoned;
use crate::row::event as event_of;
use crate::sql;

/// The columns behind those of the event.
const CLAIM_ID: usize = 15;
const REDELIVERY_COUNT: usize = 16;

/// So many are read after their claim is committed: others claim meanwhile, which is worth a second round trip.
const READ_APART: u32 = 32;

/// What the event types of a request are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Types {
    Names,
    Patterns,
}

/// Claims. What is no event is noted and acked, so that it does not come again; where there was nothing else, what follows is claimed.
pub(super) async fn claim(
    conn: &mut PgConnection,
    queue: &Inner,
    request: &ClaimRequest,
    types: Types,
    transaction: Transaction,
) -> Result<Vec<Claim>> {
    let mut claimed = take(conn, queue, request, types, transaction).await?;
    while !claimed.poison.is_empty() {
        claimed.poison.note(conn, &queue.info).await?;
        for (claim_id, sequences) in claimed.poisoned {
            let rest = claimed.claims.iter().any(|claim| claim.claim_id == claim_id);
            settle::ack(conn, queue, claim_id, rest.then_some(&sequences[..]), transaction).await?;
        }
        if !claimed.claims.is_empty() {
            break;
        }
        // Its acks are done.
        let again = ClaimRequest { acks: Vec::new(), ..request.clone() };
        claimed = take(conn, queue, &again, types, transaction).await?;
    }
    Ok(claimed.claims)
}

async fn take(
    conn: &mut PgConnection,
    queue: &Inner,
    request: &ClaimRequest,
    types: Types,
    transaction: Transaction,
) -> Result<Claimed> {
    let per_claim = request.per_claim.map(int);
    let mut claimed = Claimed::default();
    let statement = match types {
        Types::Patterns => matching(queue, request, transaction),
        Types::Names if transaction == Transaction::Own && request.max_events >= READ_APART && per_claim.is_none() => {
            for range in claim_ranges(conn, queue, request, transaction).await? {
                let (claim_id, redelivery_count) = (range.claim_id, range.redelivery_count);
                let mut rows = events_of(queue, range).fetch(&mut *conn);
                while let Some(row) = rows.try_next().await.map_err(subscriber_error)? {
                    claimed.add(&row, claim_id, redelivery_count)?;
                }
            }
            return Ok(claimed);
        }
        Types::Names => statement(sql::CLAIM_EVENTS, queue, request, transaction),
    };
    // A claim's events come one after the other.
    for row in &fetch(conn, statement.bind(per_claim)).await? {
        let claim_id = row.try_get(CLAIM_ID).map_err(subscriber_error)?;
        let redelivery_count = count(row, REDELIVERY_COUNT).map_err(subscriber_error)?;
        claimed.add(row, claim_id, redelivery_count)?;
    }
    Ok(claimed)
}

fn matching<'q>(
    queue: &'q Inner,
    request: &'q ClaimRequest,
    transaction: Transaction,
) -> Query<'q, Postgres, PgArguments> {
    sqlx::query(sql::CLAIM_MATCHING)
        .bind(transaction == Transaction::Own)
        .bind(&queue.info.name)
        .bind(&queue.subscriber_id)
        .bind(int(request.max_events))
        .bind(request.visibility.as_secs_f64())
        .bind(&request.event_types)
        .bind((!request.worker.is_empty()).then_some(&request.worker))
        .bind(int(request.max_attempts))
        .bind((!request.acks.is_empty()).then_some(&request.acks))
}

fn events_of(queue: &Inner, range: ClaimedRange) -> Query<'static, Postgres, PgArguments> {
    let sequences: Option<Vec<i64>> = range.sequences.map(|sequences| sequences.into_iter().map(bound).collect());
    sqlx::query(sql::CLAIMED_EVENTS)
        .bind(i32::from(queue.info.id))
        .bind(bound(range.first))
        .bind(bound(range.last))
        .bind(range.event_types)
        .bind(sequences)
}

/// What a claim brought.
#[derive(Default)]
struct Claimed {
    /// Those that have events.
    claims: Vec<Claim>,
    poison: Poisoned,
    /// The poison of each claim.
    poisoned: BTreeMap<Uuid, Vec<u64>>,
}

impl Claimed {
    fn add(&mut self, row: &PgRow, claim_id: Uuid, redelivery_count: u32) -> Result<()> {
        let event = match event_of(row) {
            Ok(event) => event,
            Err(error) => {
                let sequence = self.poison.add(row, &error)?;
                self.poisoned.entry(claim_id).or_default().push(sequence);
                return Ok(());
            }
        };
        match self.claims.last_mut() {
            Some(claim) if claim.claim_id == claim_id => claim.events.push(event),
            _ => self.claims.push(Claim { claim_id, redelivery_count, events: vec![event] }),
        }
        Ok(())
    }
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
    let sequences: Option<Vec<PgSequence>> = row.try_get(4)?;
    Ok(ClaimedRange {
        claim_id: row.try_get(0)?,
        redelivery_count: count(row, 1)?,
        first: sequence(row, 2)?,
        last: sequence(row, 3)?,
        sequences: sequences.map(|sequences| sequences.into_iter().map(|sequence| sequence.0).collect()),
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
        .bind(int(request.max_events))
        .bind(request.visibility.as_secs_f64())
        .bind((!request.event_types.is_empty()).then_some(&request.event_types))
        .bind((!request.worker.is_empty()).then_some(&request.worker))
        .bind(int(request.max_attempts))
        .bind(request.settled.map(bound))
        .bind((!request.acks.is_empty()).then_some(&request.acks))
}

async fn fetch(conn: &mut PgConnection, statement: Query<'_, Postgres, PgArguments>) -> Result<Vec<PgRow>> {
    statement.fetch_all(conn).await.map_err(subscriber_error)
}
