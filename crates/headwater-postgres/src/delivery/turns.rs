//! Turns: what an owner leaves behind for its successor, in case it dies.

use headwater_core::{Fence, History, LastTurn};
use sqlx::postgres::{PgArguments, Postgres};
use sqlx::query::Query;
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use super::{Result, refused};
use crate::database::error::subscriber_error;
use crate::database::number::{bound, count, int};
use crate::sql;

fn fenced<'q>(text: &'static str, namespace_id: i32, fence: &'q Fence) -> Query<'q, Postgres, PgArguments> {
    sqlx::query(text)
        .bind(namespace_id)
        .bind(&fence.subscriber_id)
        .bind(fence.term.map(bound))
        .bind(int(fence.partition))
        .bind(fence.history.map(History::id))
}

pub(super) async fn begin(conn: &mut PgConnection, namespace_id: i32, fence: &Fence, lives: bool) -> Result<LastTurn> {
    let statement = fenced(sql::delivery::BEGIN_TURN, namespace_id, fence).bind(lives);
    let Some(row) = statement.fetch_optional(&mut *conn).await.map_err(subscriber_error)? else {
        return Err(refused(conn, namespace_id, fence).await);
    };
    let died = row.get("died");
    let times = count(&row, "begun_times").map_err(subscriber_error)?;
    let begun = row.get::<Option<Uuid>, _>("begun_event").filter(|_| died).map(|event_id| (event_id, times));
    Ok(LastTurn { died, begun })
}

pub(super) async fn begin_event(
    conn: &mut PgConnection,
    namespace_id: i32,
    fence: &Fence,
    event_id: Uuid,
) -> Result<u32> {
    let statement = fenced(sql::delivery::BEGIN_EVENT, namespace_id, fence).bind(event_id);
    match statement.fetch_optional(&mut *conn).await.map_err(subscriber_error)? {
        Some(row) => count(&row, 0).map_err(subscriber_error),
        None => Err(refused(conn, namespace_id, fence).await),
    }
}

pub(super) async fn end(conn: &mut PgConnection, namespace_id: i32, fence: &Fence) -> Result<()> {
    match fenced(sql::delivery::END_TURN, namespace_id, fence)
        .execute(&mut *conn)
        .await
        .map_err(subscriber_error)?
        .rows_affected()
    {
        0 => Err(refused(conn, namespace_id, fence).await),
        _ => Ok(()),
    }
}
