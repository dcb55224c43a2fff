//! Calls to the database: each has a time limit, and is sent again on another connection if its own
//! is dead.

use std::time::Duration;

use headwater_core::{Fault, SubscriberError};

use crate::Database;

/// The limit, instead of the database's `call_timeout`, for operators' calls that read many events
/// or letters.
pub(super) const SCAN_TIMEOUT: Duration = Duration::from_secs(600);

pub(crate) fn no_answer(within: Duration) -> SubscriberError {
    let message = format!("failed to reach the database: no answer within {within:?}");
    SubscriberError::Unavailable(Fault { message, retryable: true, source: None })
}

/// Runs a call on a connection of the caller. After a failure, the caller has to discard that
/// connection.
pub(crate) async fn in_time<T>(
    database: &Database,
    call: impl Future<Output = Result<T, SubscriberError>>,
) -> Result<T, SubscriberError> {
    let timeout = database.call_timeout;
    tokio::time::timeout(timeout, call).await.unwrap_or_else(|_| Err(no_answer(timeout)))
}

/// Runs a call on a connection of the pool. If that connection turns out to be dead, runs it again
/// on the next: after a restart of the server, all of the pool's connections are dead. (A macro,
/// since the future of an async closure is not `Send`.)
macro_rules! calling {
    ($database:expr, $conn:ident => $call:expr) => {
        $crate::delivery::call::calling!($database, $database.call_timeout, $conn => $call)
    };
    ($database:expr, $timeout:expr, $conn:ident => $call:expr) => {{
        let deadline = tokio::time::Instant::now() + $timeout;
        let mut tries = $database.pool.size();
        loop {
            let acquired = tokio::time::timeout_at(deadline, $database.pin()).await;
            let Ok(acquired) = acquired else { break Err($crate::delivery::call::no_answer($timeout)) };
            let mut pinned = acquired.map_err($crate::database::error::subscriber_error)?;
            let $conn: &mut sqlx::PgConnection = &mut pinned;
            match tokio::time::timeout_at(deadline, $call).await {
                Ok(Err(error)) if error.is_retryable() && tries > 0 => pinned.discard(),
                // The connection may lead to a server that was replaced and still lives.
                Ok(Err(error)) if error.is_other_history() => {
                    pinned.discard();
                    break Err(error);
                }
                Ok(result) => break pinned.end(result, $crate::database::error::subscriber_error).await,
                // The connection may be half open: nobody else may get it.
                Err(_) => {
                    pinned.discard();
                    break Err($crate::delivery::call::no_answer($timeout));
                }
            }
            tries -= 1;
        }
    }};
}
pub(crate) use calling;
