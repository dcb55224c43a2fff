//! Calls that may be sent again on another connection while connections are lost, until the time is
//! over.

use std::time::Duration;

use headwater_core::{Backoff, Fault};
use sqlx::postgres::{PgArguments, PgRow, Postgres};
use sqlx::query::Query;
use tokio::time::{Instant, sleep, timeout_at};

use crate::Database;
use crate::database::error::is_disconnect;

/// The pauses between tries.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(10), Duration::from_secs(1));

/// Returns the rows of a statement. Runs it again while connections are lost, until `retry_for` has
/// passed.
pub(crate) async fn rows<'q, E>(
    database: &Database,
    retry_for: Duration,
    statement: impl Fn() -> Query<'q, Postgres, PgArguments>,
    error_of: fn(sqlx::Error) -> E,
    no_answer: fn(Fault) -> E,
) -> Result<Vec<PgRow>, E> {
    let deadline = Instant::now() + retry_for;
    let mut pauses = PAUSES;
    loop {
        let no_answer = || {
            let message = format!("failed to reach the database: no answer within {retry_for:?}");
            no_answer(Fault { message, retryable: true, source: None })
        };
        let Ok(pinned) = timeout_at(deadline, database.pin()).await else { return Err(no_answer()) };
        let error = match pinned {
            Ok(mut pinned) => match timeout_at(deadline, statement().fetch_all(&mut *pinned)).await {
                Ok(Err(error)) if is_disconnect(&error) => {
                    pinned.discard();
                    error
                }
                Ok(rows) => return pinned.end(rows.map_err(error_of), error_of).await,
                // The connection may be half open: nobody else must get it.
                Err(_) => {
                    pinned.discard();
                    return Err(no_answer());
                }
            },
            Err(error) => error,
        };
        if !is_disconnect(&error) || Instant::now() + pauses.next_pause() > deadline {
            return Err(error_of(error));
        }
        sleep(pauses.pause()).await;
    }
}
