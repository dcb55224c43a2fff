//! Checkpoints: reading and moving them.

use headwater_core::{Advance, ChangedChunks, Checkpoint, Chunk, Fence, Gaps, History, SubscriberError};
use sqlx::postgres::{PgArguments, PgRow, Postgres};
use sqlx::query::Query;
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use super::{Result, missing, refused};
use crate::database::error::subscriber_error;
use crate::database::number::{bigint, bigints, bound, count, int, sequence, sequence_or_null, sequences};
use crate::sql;

pub(super) async fn load(conn: &mut PgConnection, namespace_id: i32, fence: &Fence) -> Result<Checkpoint> {
    let statement = sqlx::query(sql::delivery::LOAD_SUBSCRIBER)
        .bind(namespace_id)
        .bind(&fence.subscriber_id)
        .bind(int(fence.partition))
        .bind(fence.history.map(History::id));
    let row = statement.fetch_optional(conn).await.map_err(subscriber_error)?.ok_or_else(|| missing(fence))?;
    check(&row, fence)?;
    let buried = sequences(&row, "buried_sequences").map_err(subscriber_error)?.into_iter();
    let buried = buried.zip(row.get::<Vec<Option<Uuid>>, _>("buried_ids")).collect();
    let repairs = sequence(&row, "repairs").map_err(subscriber_error)?;
    let history = fence.history;
    let loaded = loaded(&row)?;
    let pending_gaps = whole_ledger(&row, loaded.pending_gaps).map_err(subscriber_error)?;
    Ok(Checkpoint { parked_keys: row.get("parked_keys"), history, buried, repairs, pending_gaps, ..loaded })
}

/// The lowest position of the subscriber's partitions, and everything in their ledgers.
pub(super) async fn position(conn: &mut PgConnection, namespace_id: i32, subscriber_id: &str) -> Result<Checkpoint> {
    let rows = positions(conn, namespace_id, subscriber_id, None, None).await?;
    let partitions = rows.iter().map(|row| Ok(Checkpoint { history: history(row), ..loaded(row)? }));
    let whole = partitions.collect::<Result<Vec<_>>>()?.into_iter().reduce(|mut one, other| {
        one.position = one.position.min(other.position);
        other.pending_gaps.iter().for_each(|(first, last)| one.pending_gaps.insert(first, last));
        one
    });
    whole.ok_or_else(|| SubscriberError::NotFound(subscriber_id.to_owned()))
}

async fn positions(
    conn: &mut PgConnection,
    namespace_id: i32,
    subscriber_id: &str,
    partition: Option<u32>,
    history: Option<History>,
) -> Result<Vec<PgRow>> {
    let statement = sqlx::query(sql::delivery::SUBSCRIBER_POSITION)
        .bind(namespace_id)
        .bind(subscriber_id)
        .bind(partition.map(int))
        .bind(history.map(History::id));
    statement.fetch_all(conn).await.map_err(subscriber_error)
}

/// Checks that the row's term is the fence's.
pub(super) fn check(row: &PgRow, fence: &Fence) -> Result<()> {
    match fence.term {
        Some(term) if sequence(row, "term").map_err(subscriber_error)? != term => {
            Err(SubscriberError::Fenced(fence.subscriber_id.clone()))
        }
        _ => Ok(()),
    }
}

/// The history that a row was read in.
pub(super) fn history(row: &PgRow) -> Option<History> {
    row.get::<Option<Uuid>, _>("history").map(History::new)
}

/// Checks that the fence's term and history are still the present ones.
pub(super) async fn check_fence(conn: &mut PgConnection, namespace_id: i32, fence: &Fence) -> Result<()> {
    let rows = positions(conn, namespace_id, &fence.subscriber_id, Some(fence.partition), fence.history).await?;
    check(rows.first().ok_or_else(|| missing(fence))?, fence)
}

fn loaded(row: &PgRow) -> Result<Checkpoint> {
    let read = || {
        Ok(Checkpoint {
            position: sequence(row, "position")?,
            pending_gaps: pairs(row)?.into_iter().collect::<Gaps>(),
            paused: row.try_get("paused")?,
            term: sequence(row, "term")?,
            partitions: count(row, "partitions")?,
            barrier: sequence_or_null(row, "barrier")?,
            ..Checkpoint::default()
        })
    };
    read().map_err(subscriber_error)
}

/// The ledger, stored as first, last, first, last, …
pub(super) fn pairs(row: &PgRow) -> std::result::Result<Vec<(u64, u64)>, sqlx::Error> {
    let flat = sequences(row, "pending_gaps")?;
    Ok(flat.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect())
}

/// The ledger with its chunks. The chunks stay as they are stored, so that only those that change
/// are written.
fn whole_ledger(row: &PgRow, end: Gaps) -> std::result::Result<Gaps, sqlx::Error> {
    let keys = sequences(row, "chunk_keys")?;
    if keys.is_empty() {
        return Ok(end);
    }
    let lengths: Vec<i32> = row.try_get("chunk_lengths")?;
    let numbers = sequences(row, "chunk_ranges")?;
    let mut rest = numbers.as_slice();
    let mut chunks = Vec::with_capacity(keys.len() + 1);
    for (key, length) in keys.into_iter().zip(lengths) {
        let (of_it, others) = rest.split_at(usize::try_from(length).unwrap_or_default().min(rest.len()));
        chunks.push(Chunk { key, ranges: of_it.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect() });
        rest = others;
    }
    chunks.extend(end.first().map(|key| Chunk { key, ranges: end.ranges() }));
    Ok(Gaps::from_chunks(chunks))
}

/// The part of a ledger that the partition's row holds: the last chunk.
fn end_of(gaps: &Gaps) -> Result<Vec<i64>> {
    let last = gaps.chunks().last().into_iter().flat_map(|chunk| &chunk.ranges);
    Ok(bigints(last.flat_map(|(first, last)| [*first, *last]))?)
}

/// Binds the parameters that both forms of a move have.
fn movement<'q>(
    text: &'static str,
    namespace_id: i32,
    fence: &'q Fence,
    advance: &Advance,
) -> Result<Query<'q, Postgres, PgArguments>> {
    Ok(sqlx::query(text)
        .bind(namespace_id)
        .bind(&fence.subscriber_id)
        .bind(fence.term.map(bound))
        .bind(bigint(advance.position)?)
        .bind(advance.last_event_id)
        .bind(end_of(&advance.pending_gaps)?)
        .bind(bigint(advance.events)?)
        .bind(advance.sequence_sum.to_string())
        .bind(bigint(advance.late_events)?)
        .bind(advance.late_sequence_sum.to_string()))
}

/// A move that changes chunks of a long ledger. `None`: this move changes at most the ledger's end,
/// which is in the row.
fn chunked<'q>(
    namespace_id: i32,
    fence: &'q Fence,
    advance: &Advance,
    once: bool,
) -> Result<Option<Query<'q, Postgres, PgArguments>>> {
    let changed = advance.pending_gaps.changed_chunks(&advance.from_gaps, true);
    if changed == ChangedChunks::default() {
        return Ok(None);
    }
    let numbers = changed.written.iter().flat_map(|chunk| &chunk.ranges).flat_map(|(first, last)| [*first, *last]);
    let lengths: Vec<i32> = changed.written.iter().map(|chunk| int(chunk.ranges.len() * 2)).collect();
    let statement = movement(sql::delivery::ADVANCE_CHUNKS, namespace_id, fence, advance)?
        .bind(int(fence.partition))
        .bind(fence.history.map(History::id))
        .bind(bigint(advance.from_position)?)
        .bind(bigint(advance.from_gaps.size())?)
        .bind(bigint(advance.pending_gaps.size())?)
        .bind(bigints(changed.written.iter().map(|chunk| chunk.key))?)
        .bind(lengths)
        .bind(bigints(numbers)?)
        .bind(bigints(changed.removed.iter().copied())?)
        .bind(once);
    Ok(Some(statement))
}

pub(super) async fn advance(
    conn: &mut PgConnection,
    namespace_id: i32,
    fence: &Fence,
    advance: &Advance,
) -> Result<()> {
    let statement = match chunked(namespace_id, fence, advance, false)? {
        Some(statement) => statement,
        None => movement(sql::delivery::ADVANCE, namespace_id, fence, advance)?
            .bind(int(fence.partition))
            .bind(fence.history.map(History::id)),
    };
    moved(conn, namespace_id, fence, statement).await
}

pub(super) async fn advance_in(
    conn: &mut PgConnection,
    namespace_id: i32,
    fence: &Fence,
    advance: &Advance,
) -> Result<()> {
    let statement = match chunked(namespace_id, fence, advance, true)? {
        Some(statement) => statement,
        None => movement(sql::delivery::ADVANCE_IN, namespace_id, fence, advance)?
            .bind(bigint(advance.from_position)?)
            .bind(end_of(&advance.from_gaps)?)
            .bind(int(fence.partition))
            .bind(fence.history.map(History::id)),
    };
    moved(conn, namespace_id, fence, statement).await
}

pub(super) async fn settle_ahead_in(
    conn: &mut PgConnection,
    namespace_id: i32,
    fence: &Fence,
    from: (u64, &Gaps),
    sequences: &[u64],
) -> Result<()> {
    let statement = sqlx::query(sql::delivery::SETTLE_AHEAD_IN)
        .bind(namespace_id)
        .bind(&fence.subscriber_id)
        .bind(int(fence.partition))
        .bind(fence.term.map(bound))
        .bind(bigints(sequences.iter().copied())?)
        .bind(bigint(from.0)?)
        .bind(end_of(from.1)?)
        .bind(fence.history.map(History::id));
    moved(conn, namespace_id, fence, statement).await
}

pub(super) async fn forget_ahead(conn: &mut PgConnection, namespace_id: i32, fence: &Fence) -> Result<()> {
    let statement = sqlx::query(sql::delivery::FORGET_AHEAD)
        .bind(namespace_id)
        .bind(&fence.subscriber_id)
        .bind(int(fence.partition));
    statement.execute(conn).await.map(drop).map_err(subscriber_error)
}

pub(super) async fn forget_applied(conn: &mut PgConnection, namespace_id: i32, subscriber_id: &str) -> Result<()> {
    let statement = sqlx::query(sql::delivery::FORGET_APPLIED).bind(namespace_id).bind(subscriber_id);
    statement.execute(conn).await.map(drop).map_err(subscriber_error)
}

async fn moved(
    conn: &mut PgConnection,
    namespace_id: i32,
    fence: &Fence,
    statement: Query<'_, Postgres, PgArguments>,
) -> Result<()> {
    match statement.execute(&mut *conn).await.map_err(subscriber_error)?.rows_affected() {
        0 => Err(refused(conn, namespace_id, fence).await),
        _ => Ok(()),
    }
}
