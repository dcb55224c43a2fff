//! Claims events of a queue, and reads them.

use std::collections::BTreeMap;

use futures::TryStreamExt;
use headwater_core::{Claim, ClaimRequest};
use sqlx::postgres::{PgArguments, PgRow, Postgres};
use sqlx::query::Query;
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use super::{Inner, Result, Transaction, settle};
use crate::database::error::subscriber_error;
use crate::database::number::{count, int};
use crate::log::poison::Poisoned;
use crate::log::row::event as event_of;
use crate::sql;

/// The columns that follow the event's columns.
const CLAIM_ID: usize = 15;
const REDELIVERY_COUNT: usize = 16;

/// The most events that one call searches for wanted ones. How far it came is kept, even if the
/// next call fails.
const MAX_SCAN: i64 = 1_000_000;

/// Claims of at least this size are committed first and read afterwards. Other workers can claim
/// meanwhile, which is worth a second round trip: reading and sending the events takes longer than
/// the claim itself, and the claim would hold the lock of the queue for that time.
const READ_APART: u32 = 32;

/// Claims events. Rows that are poison are recorded and acked, so that they do not come again. If a
/// claim had nothing else, the next events are claimed.
pub(super) async fn claim(
    conn: &mut PgConnection,
    queue: &Inner,
    request: &ClaimRequest,
    transaction: Transaction,
) -> Result<Vec<Claim>> {
    let mut claimed = take(conn, queue, request, transaction).await?;
    while claimed.more || !claimed.poison.is_empty() {
        claimed.poison.note(conn, &queue.info).await?;
        for (claim_id, sequences) in claimed.poisoned {
            let rest = claimed.claims.iter().any(|claim| claim.claim_id == claim_id);
            settle::ack(conn, queue, claim_id, rest.then_some(&sequences[..]), transaction).await?;
        }
        if !claimed.claims.is_empty() {
            break;
        }
        // The request's acks are done.
        let again = ClaimRequest { acks: Vec::new(), ..request.clone() };
        claimed = take(conn, queue, &again, transaction).await?;
    }
    Ok(claimed.claims)
}

async fn take(
    conn: &mut PgConnection,
    queue: &Inner,
    request: &ClaimRequest,
    transaction: Transaction,
) -> Result<Claimed> {
    let mut claimed = Claimed::default();
    // Behind a pooler, all of a call is one transaction.
    let committed = transaction == Transaction::Own && !queue.database.pooler;
    let apart = committed && request.max_events >= READ_APART && request.per_claim.is_none();
    if !apart {
        let rows = claim_events(queue, request, transaction, true).fetch_all(conn).await.map_err(subscriber_error)?;
        rows.iter().try_for_each(|row| claimed.add(row))?;
        return Ok(claimed);
    }
    let rows =
        claim_events(queue, request, transaction, false).fetch_all(&mut *conn).await.map_err(subscriber_error)?;
    let claim_ids: Vec<Option<Uuid>> = rows
        .iter()
        .map(|row| row.try_get(CLAIM_ID))
        .collect::<std::result::Result<_, _>>()
        .map_err(subscriber_error)?;
    claimed.more = claim_ids.contains(&None);
    let claim_ids: Vec<Uuid> = claim_ids.into_iter().flatten().collect();
    if !claim_ids.is_empty() {
        let read =
            sqlx::query(sql::queue::READ_CLAIMS).bind(&queue.info.name).bind(&queue.subscriber_id).bind(&claim_ids);
        let mut rows = read.fetch(conn);
        while let Some(row) = rows.try_next().await.map_err(subscriber_error)? {
            claimed.add(&row)?;
        }
    }
    Ok(claimed)
}

fn claim_events<'q>(
    queue: &'q Inner,
    request: &'q ClaimRequest,
    transaction: Transaction,
    with_events: bool,
) -> Query<'q, Postgres, PgArguments> {
    sqlx::query(sql::queue::CLAIM_EVENTS)
        .bind(transaction == Transaction::Own)
        .bind(&queue.info.name)
        .bind(&queue.subscriber_id)
        .bind(int(request.max_events))
        .bind(request.visibility.as_secs_f64())
        .bind((!request.event_types.is_empty()).then_some(&request.event_types))
        .bind((!request.worker.is_empty()).then_some(&request.worker))
        .bind(int(request.max_attempts))
        .bind((!request.acks.is_empty()).then_some(&request.acks))
        .bind(request.per_claim.map(int))
        .bind(MAX_SCAN)
        .bind(with_events)
}

/// The result of a claim.
#[derive(Default)]
struct Claimed {
    /// The claims that have events.
    claims: Vec<Claim>,
    poison: Poisoned,
    /// The poison in each claim.
    poisoned: BTreeMap<Uuid, Vec<u64>>,
    /// Nothing wanted was found yet, and the end of the log is not reached.
    more: bool,
}

impl Claimed {
    /// Adds a row. The rows of a claim follow each other.
    fn add(&mut self, row: &PgRow) -> Result<()> {
        let Some(claim_id) = row.try_get(CLAIM_ID).map_err(subscriber_error)? else {
            self.more = true;
            return Ok(());
        };
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
            _ => {
                let redelivery_count = count(row, REDELIVERY_COUNT).map_err(subscriber_error)?;
                self.claims.push(Claim { claim_id, redelivery_count, events: vec![event] });
            }
        }
        Ok(())
    }
}
