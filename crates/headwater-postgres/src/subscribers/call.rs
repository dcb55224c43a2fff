//! Calls to the database: with an end to the waiting, and again on another connection when one is dead.

use std::time::Duration;

use headwater_core::{Fault, SubscriberError};

use crate::Database;

/// Instead of the database's `call_timeout`, for calls of operators that go through many events or letters.
pub(super) const SCAN_TIMEOUT: Duration = Duration::from_secs(600);

pub(crate) fn no_answer(within: Duration) -> SubscriberError {
    let message = format!("failed to reach the database: no answer within {within:?}");
    SubscriberError::Unavailable(Fault { message, retryable: true, source: None })
}

/// Runs a call on a connection of the caller's, which is for the caller to give up.
pub(crate) async fn in_time<T>(
    database: &Database,
    call: impl Future<Output = Result<T, SubscriberError>>,
) -> Result<T, SubscriberError> {
    let timeout = database.call_timeout;
    tokio::time::timeout(timeout, call).await.unwrap_or_else(|_| Err(no_answer(timeout)))
}

/// Runs a call on a connection of the pool, and again on the next if that one turns out to be dead: after a restart of the server, all
/// that the pool has are. (A macro, since the future of an async closure is not `Send`.)
macro_rules! calling {
    ($database:expr, $conn:ident => $call:expr) => {
        $crate::subscribers::call::calling!($database, $database.call_timeout, $conn => $call)
    };
    ($database:expr, $timeout:expr, $conn:ident => $call:expr) => {{
        let deadline = tokio::time::Instant::now() + $timeout;
        let mut tries = $database.pool.size();
        loop {
            let acquired = tokio::time::timeout_at(deadline, $database.pin()).await;
            let Ok(acquired) = acquired else { break Err($crate::subscribers::call::no_answer($timeout)) };
            let mut pinned = acquired.map_err($crate::error::subscriber_error)?;
            let $conn: &mut sqlx::PgConnection = &mut pinned;
            match tokio::time::timeout_at(deadline, $call).await {
                Ok(Err(error)) if error.is_retryable() && tries > 0 => pinned.discard(),
                // It may lead to a server that was replaced, and lives on.
                Ok(Err(error)) if error.is_other_history() => {
                    pinned.discard();
                    break Err(error);
                }
                Ok(result) => break pinned.end(result, $crate::error::subscriber_error).await,
                // It may be half open: nobody else shall get it.
                Err(_) => {
                    pinned.discard();
                    break Err($crate::subscribers::call::no_answer($timeout));
                }
            }
            tries -= 1;
        }
    }};
}
pub(crate) use calling;
