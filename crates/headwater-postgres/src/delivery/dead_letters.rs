//! Dead letters: keeping, listing, redriving and discarding them.

use headwater_core::{Attempt, DeadLetter, DeadLetterQuery, Fence, History, Json};
use sqlx::postgres::{PgArguments, PgRow, Postgres};
use sqlx::query::Query;
use sqlx::{PgConnection, Row};

use super::call::calling;
use super::{Result, checkpoint, decode_error, missing, not_json, refused, storable};
use crate::database::error::subscriber_error;
use crate::database::number::{bigint, bound, int, sequence};
use crate::log::row::PgJson;
use crate::{Database, sql};

/// Letters in a list when the query sets no limit. A query can ask for at most [`MAX_LETTERS`].
const DEFAULT_LETTERS: u32 = 1_000;
const MAX_LETTERS: u32 = 10_000;

pub(super) async fn bury(
    conn: &mut PgConnection,
    namespace_id: i32,
    fence: &Fence,
    letters: &[DeadLetter],
) -> Result<()> {
    if letters.is_empty() {
        return Ok(());
    }
    let each = || letters.iter();
    let attempts = |letter: &DeadLetter| text(&letter.attempts.iter().map(storable_attempt).collect::<Vec<_>>());
    let node = |letter: &DeadLetter| letter.attempts.last().map_or(String::new(), |attempt| storable(&attempt.node));
    let fenced: i64 = sqlx::query_scalar(sql::delivery::BURY)
        .bind(namespace_id)
        .bind(&fence.subscriber_id)
        .bind(fence.term.map(bound))
        .bind(each().map(|letter| i64::from(letter.event.sequence())).collect::<Vec<_>>())
        .bind(each().map(|letter| letter.event.id).collect::<Vec<_>>())
        .bind(each().map(|letter| letter.event.event_type.as_str()).collect::<Vec<_>>())
        .bind(each().map(|letter| letter.order_key.as_str()).collect::<Vec<_>>())
        .bind(each().map(|letter| letter.state.name()).collect::<Vec<_>>())
        .bind(each().map(|letter| letter.parks_key).collect::<Vec<_>>())
        .bind(each().map(|letter| storable(letter.error())).collect::<Vec<_>>())
        .bind(each().map(node).collect::<Vec<_>>())
        .bind(each().map(attempts).collect::<Result<Vec<_>>>()?)
        .bind(each().map(|letter| text(&letter.event)).collect::<Result<Vec<_>>>()?)
        .bind(int(fence.partition))
        .bind(fence.history.map(History::id))
        .fetch_one(&mut *conn)
        .await
        .map_err(subscriber_error)?;
    written(conn, namespace_id, fence, fenced).await
}

/// Returns whether the letter was still open. If it was not, nothing is written.
pub(super) async fn redriven(
    conn: &mut PgConnection,
    namespace_id: i32,
    fence: &Fence,
    global_sequence: u64,
    failure: Option<&Attempt>,
    of_handler: bool,
) -> Result<bool> {
    let failure = failure.map(storable_attempt);
    let error = failure.as_ref().map(|attempt| attempt.errors.first().cloned().unwrap_or_default());
    let row = sqlx::query(sql::delivery::REDRIVEN)
        .bind(namespace_id)
        .bind(&fence.subscriber_id)
        .bind(fence.term.map(bound))
        .bind(bigint(global_sequence)?)
        .bind(failure.as_ref().map(text).transpose()?)
        .bind(error)
        .bind(failure.as_ref().map(|attempt| attempt.node.as_str()))
        .bind(int(fence.partition))
        .bind(fence.history.map(History::id))
        .bind(of_handler)
        .fetch_optional(&mut *conn)
        .await
        .map_err(subscriber_error)?;
    let Some(row) = row else { return Ok(false) };
    written(conn, namespace_id, fence, row.get("fenced")).await?;
    Ok(row.get::<i64, _>("tried") > 0)
}

async fn written(conn: &mut PgConnection, namespace_id: i32, fence: &Fence, fenced: i64) -> Result<()> {
    match fenced {
        0 => Err(refused(conn, namespace_id, fence).await),
        _ => Ok(()),
    }
}

fn text<T: serde::Serialize>(value: &T) -> Result<String> {
    Json::encode(value).map(Json::into_string).map_err(not_json)
}

fn storable_attempt(attempt: &Attempt) -> Attempt {
    let errors = attempt.errors.iter().map(|error| storable(error)).collect();
    Attempt { at: attempt.at, node: storable(&attempt.node), errors }
}

pub(super) async fn redrives(
    conn: &mut PgConnection,
    namespace_id: i32,
    fence: &Fence,
    limit: u32,
) -> Result<Vec<DeadLetter>> {
    // An owner that was replaced learns it here, before it delivers.
    checkpoint::check_fence(conn, namespace_id, fence).await?;
    let statement = sqlx::query(sql::delivery::LETTERS_TO_REDRIVE)
        .bind(namespace_id)
        .bind(&fence.subscriber_id)
        .bind(int(limit.min(MAX_LETTERS)))
        .bind(int(fence.partition))
        .bind(fence.history.map(History::id));
    letters(conn, statement).await
}

pub(super) async fn is_parked(
    conn: &mut PgConnection,
    namespace_id: i32,
    fence: &Fence,
    order_key: &str,
) -> Result<bool> {
    let statement = sqlx::query(sql::delivery::IS_PARKED)
        .bind(namespace_id)
        .bind(&fence.subscriber_id)
        .bind(order_key)
        .bind(int(fence.partition))
        .bind(fence.history.map(History::id));
    let row = statement.fetch_optional(conn).await.map_err(subscriber_error)?;
    let row = row.ok_or_else(|| missing(fence))?;
    checkpoint::check(&row, fence)?;
    Ok(row.get("is_parked"))
}

pub(super) async fn list(
    conn: &mut PgConnection,
    namespace_id: i32,
    query: &DeadLetterQuery,
) -> Result<Vec<DeadLetter>> {
    let limit = if query.limit == 0 { DEFAULT_LETTERS } else { query.limit.min(MAX_LETTERS) };
    let statement = filters(sqlx::query(sql::delivery::DEAD_LETTERS).bind(namespace_id), query).bind(i64::from(limit));
    letters(conn, statement).await
}

impl Database {
    /// Returns a page of the dead letters of all namespaces in which the caller may consume, each
    /// with the name of its namespace, in the order of namespace, subscriber and sequence. The next
    /// page begins after the last letter: `after` is its namespace, subscriber and sequence.
    pub async fn dead_letters_of_all(
        &self,
        query: &DeadLetterQuery,
        after: Option<(&str, &str, u64)>,
    ) -> Result<Vec<(String, DeadLetter)>> {
        calling!(self, conn => list_of_all(conn, query, after))
    }
}

async fn list_of_all(
    conn: &mut PgConnection,
    query: &DeadLetterQuery,
    after: Option<(&str, &str, u64)>,
) -> Result<Vec<(String, DeadLetter)>> {
    let limit = if query.limit == 0 { DEFAULT_LETTERS } else { query.limit.min(MAX_LETTERS) };
    let states: Vec<_> = query.states.iter().map(|state| state.name()).collect();
    let statement = sqlx::query(sql::delivery::ALL_DEAD_LETTERS)
        .bind(after.map(|(namespace, ..)| namespace))
        .bind(after.map(|(_, subscriber_id, _)| subscriber_id))
        .bind(after.map(|(.., sequence)| bound(sequence)))
        .bind((!states.is_empty()).then_some(states))
        .bind(query.subscriber_id.as_deref())
        .bind(query.event_type.as_deref())
        .bind(query.order_key.as_deref())
        .bind(query.error_contains.as_deref())
        .bind(int(limit));
    let rows = statement.fetch_all(conn).await.map_err(subscriber_error)?;
    rows.iter().map(|row| Ok((row.get("namespace"), letter(row)?))).collect()
}

pub(super) async fn redrive(conn: &mut PgConnection, namespace: &str, query: &DeadLetterQuery) -> Result<u64> {
    count(conn, filters(sqlx::query(sql::delivery::REDRIVE).bind(namespace), query)).await
}

pub(super) async fn discard(
    conn: &mut PgConnection,
    namespace: &str,
    query: &DeadLetterQuery,
    reason: &str,
) -> Result<u64> {
    count(conn, filters(sqlx::query(sql::delivery::DISCARD).bind(namespace).bind(storable(reason)), query)).await
}

async fn count(conn: &mut PgConnection, statement: Query<'_, Postgres, PgArguments>) -> Result<u64> {
    statement.fetch_one(conn).await.and_then(|row| sequence(&row, 0)).map_err(subscriber_error)
}

fn filters<'q>(
    statement: Query<'q, Postgres, PgArguments>,
    query: &'q DeadLetterQuery,
) -> Query<'q, Postgres, PgArguments> {
    let states: Vec<_> = query.states.iter().map(|state| state.name()).collect();
    statement
        .bind(query.subscriber_id.as_deref())
        .bind((!states.is_empty()).then_some(states))
        .bind(query.global_sequence.map(bound))
        .bind(query.event_type.as_deref())
        .bind(query.order_key.as_deref())
        .bind(query.error_contains.as_deref())
        .bind(bound(query.after))
}

async fn letters(conn: &mut PgConnection, statement: Query<'_, Postgres, PgArguments>) -> Result<Vec<DeadLetter>> {
    statement.fetch_all(conn).await.map_err(subscriber_error)?.iter().map(letter).collect()
}

fn letter(row: &PgRow) -> Result<DeadLetter> {
    let decode = |error: Box<dyn std::error::Error + Send + Sync>| subscriber_error(sqlx::Error::Decode(error));
    let (PgJson(event), PgJson(attempts)) = (row.get("event"), row.get("attempts"));
    let state: &str = row.get("state");
    Ok(DeadLetter {
        subscriber_id: row.get("subscriber_id"),
        event: event.decode().map_err(decode_error)?,
        order_key: row.get("order_key"),
        state: state.parse().map_err(|unknown: String| decode(unknown.into()))?,
        parks_key: row.get("parks_key"),
        attempts: attempts.decode().map_err(decode_error)?,
        created_at: row.get("created_at"),
        updated_at: row.get("updated_at"),
        reason: row.get("reason"),
    })
}
