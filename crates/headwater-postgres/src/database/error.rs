//! Converts the driver's errors to ours, by SQLSTATE and the JSON in DETAIL, never by the message
//! text.

use headwater_core::{AdminError, AppendError, Fault, ReadError, ScheduleError, SubscriberError};
use serde::Deserialize;
use sqlx::postgres::PgDatabaseError;

/// What the JSON in DETAIL may hold (see `sql/`).
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Detail {
    namespace: String,
    subscriber_id: String,
    schedule: String,
    bytes: u64,
    limit: u64,
    event_id: uuid::Uuid,
}

/// Returns the SQLSTATE of an error, if the server raised it.
pub(crate) fn sqlstate(error: &sqlx::Error) -> Option<&str> {
    database_error(error).map(PgDatabaseError::code)
}

fn database_error(error: &sqlx::Error) -> Option<&PgDatabaseError> {
    error.as_database_error().and_then(|e| e.try_downcast_ref())
}

/// Returns whether the connection or the server went away. The same call may succeed on another
/// connection.
pub(crate) fn is_disconnect(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::WorkerCrashed => true,
        // 08: connection exceptions; 57P: shutdown, crash, starting up; 53300: too many
        // connections.
        error => {
            sqlstate(error).is_some_and(|code| code.starts_with("08") || code.starts_with("57P") || code == "53300")
        }
    }
}

/// Returns whether the same call may succeed later: after a lost connection, a serialization
/// failure, a deadlock, or a lock that was not available in time.
pub(crate) fn is_retryable(error: &sqlx::Error) -> bool {
    is_disconnect(error)
        // 42P01: the table of a month was replaced between the lookup and the read. The next lookup
        // finds the new one.
        || matches!(sqlstate(error), Some("40001" | "40P01" | "42P01" | "55P03" | "53100" | "53200" | "WH035" | "WH036"))
}

pub(crate) fn fault(error: sqlx::Error) -> Fault {
    let message = behind_pooler(&error).unwrap_or_else(|| error.to_string());
    Fault { message, retryable: is_retryable(&error), source: Some(Box::new(error)) }
}

/// If only a pooler causes this error, returns what is wrong and what to do.
pub(crate) fn behind_pooler(error: &sqlx::Error) -> Option<String> {
    let raised = database_error(error)?;
    let message = raised.message();
    // The driver gives each prepared statement its own name in its session. So a name that is
    // taken, or gone, belongs to another session.
    let reason = match raised.code() {
        // Check the text too: PgBouncer uses this one code for everything that it refuses. The
        // server itself never says so.
        "08P01" if message.contains("startup parameter") => "this is a pooler, as PgBouncer, and not the server",
        "42P05" | "26000" => "a pooler in transaction mode, as PgBouncer, is between this program and the server",
        _ => return None,
    };
    Some(format!(
        "{message}: {reason}. Say so with --transaction-pooler (in Rust: transaction_pooler(true)), or connect to the server itself; \
         a pooler in session mode needs ignore_startup_parameters = extra_float_digits"
    ))
}

fn detail(error: &PgDatabaseError) -> Detail {
    error.detail().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

fn message(error: &PgDatabaseError) -> String {
    match error.hint() {
        Some(hint) => format!("{}: {hint}", error.message()),
        None => error.message().to_owned(),
    }
}

/// PostgreSQL's own refusals say what was refused, but not what to do.
fn not_granted(error: &PgDatabaseError) -> String {
    match error.hint() {
        Some(_) => message(error),
        None => format!("{}: have the owner of the schema grant it, with `headwater grant`", error.message()),
    }
}

pub(crate) fn append_error(error: sqlx::Error) -> AppendError {
    let Some(raised) = database_error(&error) else { return AppendError::Unavailable(fault(error)) };
    let detail = detail(raised);
    match raised.code() {
        "WH001" => AppendError::NamespaceNotFound(detail.namespace),
        "WH002" => AppendError::InvalidInput(message(raised)),
        "WH015" | "42501" => AppendError::NotGranted(not_granted(raised)),
        "WH004" => AppendError::PayloadTooLarge { bytes: detail.bytes, limit: detail.limit },
        "WH005" => AppendError::IdReused { event_id: detail.event_id },
        // 22: data that PostgreSQL cannot hold, such as a number too large for jsonb; 23514: a
        // check of the table.
        code if code.starts_with("22") || code == "23514" => AppendError::InvalidInput(message(raised)),
        // The data is nested deeper than the server's stack allows.
        "54001" => AppendError::InvalidInput(message(raised)),
        _ => AppendError::Unavailable(fault(error)),
    }
}

pub(crate) fn read_error(error: sqlx::Error) -> ReadError {
    let Some(raised) = database_error(&error) else { return ReadError::Unavailable(fault(error)) };
    match raised.code() {
        "WH001" => ReadError::NamespaceNotFound(detail(raised).namespace),
        "WH002" => ReadError::InvalidInput(message(raised)),
        "WH015" | "42501" => ReadError::NotGranted(not_granted(raised)),
        code if code.starts_with("22") => ReadError::InvalidInput(message(raised)),
        "WH006" => ReadError::NoProof(message(raised)),
        "WH050" => ReadError::OtherHistory(message(raised)),
        _ => ReadError::Unavailable(fault(error)),
    }
}

pub(crate) fn admin_error(error: sqlx::Error) -> AdminError {
    let Some(raised) = database_error(&error) else { return AdminError::Unavailable(fault(error)) };
    match raised.code() {
        "WH001" => AdminError::NamespaceNotFound(detail(raised).namespace),
        "WH002" => AdminError::InvalidInput(message(raised)),
        "WH015" | "42501" => AdminError::NotGranted(not_granted(raised)),
        "WH003" => AdminError::NamespaceDiffers(detail(raised).namespace),
        "WH032" => AdminError::MonthHeld(message(raised)),
        "WH034" => AdminError::NoPartman(message(raised)),
        "WH037" => AdminError::NamespaceInUse(message(raised)),
        "WH038" => AdminError::NamespaceHeld(message(raised)),
        _ => AdminError::Unavailable(fault(error)),
    }
}

pub(crate) fn subscriber_error(error: sqlx::Error) -> SubscriberError {
    let Some(raised) = database_error(&error) else { return SubscriberError::Unavailable(fault(error)) };
    match raised.code() {
        "WH001" => SubscriberError::NamespaceNotFound(detail(raised).namespace),
        "WH002" | "WH016" => SubscriberError::InvalidInput(message(raised)),
        "WH015" | "42501" => SubscriberError::NotGranted(not_granted(raised)),
        "WH006" | "WH050" => SubscriberError::Read(read_error(error)),
        "WH011" => SubscriberError::Fenced(detail(raised).subscriber_id),
        "WH012" => SubscriberError::NotFound(detail(raised).subscriber_id),
        "WH013" => SubscriberError::InUse(message(raised)),
        "WH033" => SubscriberError::InvalidInput(message(raised)),
        "WH014" => SubscriberError::ClaimLost(message(raised)),
        "WH018" => SubscriberError::NodeReplaced(message(raised)),
        code if code.starts_with("22") || code == "23514" => SubscriberError::InvalidInput(message(raised)),
        _ => SubscriberError::Unavailable(fault(error)),
    }
}

pub(crate) fn schedule_error(error: sqlx::Error) -> ScheduleError {
    let Some(raised) = database_error(&error) else { return ScheduleError::Unavailable(fault(error)) };
    let detail = detail(raised);
    match raised.code() {
        "WH001" => ScheduleError::NamespaceNotFound(detail.namespace),
        "WH002" => ScheduleError::InvalidInput(message(raised)),
        "WH004" => ScheduleError::PayloadTooLarge { bytes: detail.bytes, limit: detail.limit },
        "WH015" | "42501" => ScheduleError::NotGranted(not_granted(raised)),
        "WH030" => ScheduleError::NotFound(detail.schedule),
        "WH031" => ScheduleError::PgCronUnavailable(message(raised)),
        code if code.starts_with("22") => ScheduleError::InvalidInput(message(raised)),
        _ => ScheduleError::Unavailable(fault(error)),
    }
}
