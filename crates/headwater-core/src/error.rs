//! One error type per family of operations. The driver's own errors stay inside [`Fault`].

use std::error::Error as StdError;

use uuid::Uuid;

use crate::{DecodeError, ExpectedVersion, InvalidName, InvalidSequence, JsonError, StreamId};

/// A failure of the backend, such as a lost connection, a full disk or a bug.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// What failed, and what to do.
    pub message: String,
    /// Whether the same call may succeed later.
    pub retryable: bool,
    /// The driver's error.
    #[source]
    pub source: Option<Box<dyn StdError + Send + Sync>>,
}

/// Why an append failed. None of its events is stored, unless [`AppendError::outcome_unknown`] says
/// so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// The stream is not as expected (WH007). Read it again, decide again and append again.
    #[error("stream {stream_id:?} is at version {actual}, expected {expected}")]
    Conflict {
        /// The stream.
        stream_id: StreamId,
        /// The expected version of the stream.
        expected: ExpectedVersion,
        /// The stream's version. 0: the stream does not exist.
        actual: u64,
    },
    /// Some of the event ids were stored by a different append (WH005).
    #[error("event id {event_id} was used before for something else: a new event needs a new id")]
    IdReused {
        /// The first id that was stored before.
        event_id: Uuid,
    },
    /// A payload is larger than the namespace allows (WH004).
    #[error("payload of {bytes} bytes is larger than the {limit} that the namespace allows")]
    PayloadTooLarge {
        /// The payload's size.
        bytes: u64,
        /// The namespace's `max_payload_bytes`.
        limit: u64,
    },
    /// A name, size or value is invalid (WH002).
    #[error("{0}")]
    InvalidInput(String),
    /// The namespace does not exist (WH001).
    #[error("namespace {0:?} does not exist: create it first")]
    NamespaceNotFound(String),
    /// The database's role has no grant for this (WH015).
    #[error("{0}")]
    NotGranted(String),
    /// The log is shutting down and accepts no more appends.
    #[error("the log is shutting down")]
    ShuttingDown,
    /// The database could not be reached, or it failed. The append may have been stored: retry it
    /// with the same events.
    #[error("failed to append: {0}")]
    Unavailable(#[source] Fault),
}

impl AppendError {
    /// Whether the same append, with the same event ids, may succeed later.
    pub fn is_retryable(&self) -> bool {
        matches!(self, AppendError::Unavailable(fault) if fault.retryable)
    }

    /// Whether the stream was not as expected.
    pub fn is_conflict(&self) -> bool {
        matches!(self, AppendError::Conflict { .. })
    }

    /// Whether the events may have been stored anyway. A retry with the same event ids finds out
    /// and does no harm.
    pub fn outcome_unknown(&self) -> bool {
        matches!(self, AppendError::Unavailable(_))
    }

    /// The code of the error's page in `docs/errors/`.
    pub fn code(&self) -> Option<&'static str> {
        match self {
            AppendError::NamespaceNotFound(_) => Some("WH001"),
            AppendError::NotGranted(_) => Some("WH015"),
            AppendError::InvalidInput(_) => Some("WH002"),
            AppendError::PayloadTooLarge { .. } => Some("WH004"),
            AppendError::IdReused { .. } => Some("WH005"),
            AppendError::Conflict { .. } => Some("WH007"),
            AppendError::ShuttingDown | AppendError::Unavailable(_) => None,
        }
    }
}

impl From<InvalidName> for AppendError {
    fn from(name: InvalidName) -> Self {
        AppendError::InvalidInput(name.to_string())
    }
}

impl From<JsonError> for AppendError {
    fn from(error: JsonError) -> Self {
        AppendError::InvalidInput(error.to_string())
    }
}

/// Why a read failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The namespace does not exist (WH001).
    #[error("namespace {0:?} does not exist: create it first")]
    NamespaceNotFound(String),
    /// A name, size or value is invalid (WH002).
    #[error("{0}")]
    InvalidInput(String),
    /// The database's role has no grant for this (WH015).
    #[error("{0}")]
    NotGranted(String),
    /// The log is read in a place that can prove nothing about it (WH006): in a transaction that
    /// keeps one snapshot, or on a standby.
    #[error("{0}")]
    NoProof(String),
    /// The server has another history than the one that was read (WH050). Earlier reads are no
    /// longer valid.
    #[error("{0}")]
    OtherHistory(String),
    /// An event's data is not what the caller's type expects.
    #[error("failed to decode event {global_sequence}: {source}")]
    Decode {
        /// The event's place in the log.
        global_sequence: u64,
        /// Why the data could not be decoded.
        #[source]
        source: DecodeError,
    },
    /// The database could not be reached, or it failed.
    #[error("failed to read: {0}")]
    Unavailable(#[source] Fault),
}

impl ReadError {
    /// Whether the same read may succeed later.
    pub fn is_retryable(&self) -> bool {
        matches!(self, ReadError::Unavailable(fault) if fault.retryable)
    }

    /// Whether the server has another history than the one that was read.
    pub fn is_other_history(&self) -> bool {
        matches!(self, ReadError::OtherHistory(_))
    }

    /// The code of the error's page in `docs/errors/`.
    pub fn code(&self) -> Option<&'static str> {
        match self {
            ReadError::NamespaceNotFound(_) => Some("WH001"),
            ReadError::NotGranted(_) => Some("WH015"),
            ReadError::InvalidInput(_) => Some("WH002"),
            ReadError::NoProof(_) => Some("WH006"),
            ReadError::OtherHistory(_) => Some("WH050"),
            ReadError::Decode { .. } | ReadError::Unavailable(_) => None,
        }
    }
}

impl From<InvalidName> for ReadError {
    fn from(name: InvalidName) -> Self {
        ReadError::InvalidInput(name.to_string())
    }
}

impl From<InvalidSequence> for ReadError {
    fn from(sequence: InvalidSequence) -> Self {
        ReadError::InvalidInput(sequence.to_string())
    }
}

/// Why connecting, migrating or managing namespaces failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// The namespace does not exist (WH001).
    #[error("namespace {0:?} does not exist: create it first")]
    NamespaceNotFound(String),
    /// A name, size or value is invalid (WH002).
    #[error("{0}")]
    InvalidInput(String),
    /// The database's role has no grant for this (WH015).
    #[error("{0}")]
    NotGranted(String),
    /// The namespace exists with other settings (WH003).
    #[error("namespace {0:?} exists with other settings: leave them out to use it as it is, or alter it")]
    NamespaceDiffers(String),
    /// The database was migrated by a newer Headwater (WH008).
    #[error("the database is at schema version {database}, this Headwater knows up to {known}: use a newer one")]
    DatabaseTooNew {
        /// The database's schema version.
        database: i64,
        /// The highest schema version that this build knows.
        known: i64,
    },
    /// A migration was changed after it was applied (WH009).
    #[error(
        "migration {version} is not the one that the database was migrated with: the build or the database was tampered with"
    )]
    MigrationChanged {
        /// The migration's version.
        version: i64,
    },
    /// The database has not been migrated, or not far enough (WH010).
    #[error("the database is at schema version {database}, this Headwater needs {needed}: run `headwater migrate`")]
    NotMigrated {
        /// The database's schema version; 0: Headwater's schema is missing.
        database: i64,
        /// The schema version that this build needs.
        needed: i64,
    },
    /// A subscriber still needs a month that was to be trimmed (WH032).
    #[error("{0}")]
    MonthHeld(String),
    /// pg_partman manages the namespace's months, but it is not installed in the database (WH034).
    #[error("{0}")]
    NoPartman(String),
    /// Programs are using the namespace that was to be dropped or renamed (WH037).
    #[error("{0}")]
    NamespaceInUse(String),
    /// The namespace cannot be moved to other storage at this moment (WH038).
    #[error("{0}")]
    NamespaceHeld(String),
    /// The database could not be reached, or it failed.
    #[error("{0}")]
    Unavailable(#[source] Fault),
}

impl AdminError {
    /// Whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        matches!(self, AdminError::Unavailable(fault) if fault.retryable)
    }

    /// The code of the error's page in `docs/errors/`.
    pub fn code(&self) -> Option<&'static str> {
        match self {
            AdminError::NamespaceNotFound(_) => Some("WH001"),
            AdminError::NotGranted(_) => Some("WH015"),
            AdminError::InvalidInput(_) => Some("WH002"),
            AdminError::NamespaceDiffers(_) => Some("WH003"),
            AdminError::DatabaseTooNew { .. } => Some("WH008"),
            AdminError::MigrationChanged { .. } => Some("WH009"),
            AdminError::NotMigrated { .. } => Some("WH010"),
            AdminError::MonthHeld(_) => Some("WH032"),
            AdminError::NoPartman(_) => Some("WH034"),
            AdminError::NamespaceInUse(_) => Some("WH037"),
            AdminError::NamespaceHeld(_) => Some("WH038"),
            AdminError::Unavailable(_) => None,
        }
    }
}

impl From<InvalidName> for AdminError {
    fn from(name: InvalidName) -> Self {
        AdminError::InvalidInput(name.to_string())
    }
}

impl From<InvalidSequence> for AdminError {
    fn from(sequence: InvalidSequence) -> Self {
        AdminError::InvalidInput(sequence.to_string())
    }
}
