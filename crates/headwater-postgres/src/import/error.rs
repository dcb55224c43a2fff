//! Why an import failed.

use headwater_core::{AdminError, AppendError};

use crate::database::error::admin_error;

/// Why an import failed. What was imported before stays, and a run with the same name continues
/// from there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// A name or value that is not valid (WH002).
    #[error("{0}")]
    Invalid(String),
    /// The source could not be reached, or read.
    #[error("failed to read the source: {0}")]
    Source(#[source] AdminError),
    /// A row of the source cannot be turned into an event.
    #[error("row {id:?} of the source cannot be imported: {reason}")]
    Row {
        /// Its id.
        id: String,
        /// Why it cannot be turned into an event.
        reason: String,
    },
    /// A batch could not be appended.
    #[error("failed to append the batch that begins with row {first:?} of the source: {source}")]
    Append {
        /// The id of its first row.
        first: String,
        /// Why it could not be appended.
        #[source]
        source: AppendError,
    },
    /// An import of this name was begun, from another source or with other columns.
    #[error("import {0:?} was begun with another source or other columns: ask for the same, or choose another name")]
    Differs(String),
    /// Another run of this import is at work.
    #[error("another run of import {0:?} is at work: wait for its end, and run this one again")]
    Busy(String),
    /// The import follows its source, and this call asked not to follow.
    #[error("import {0:?} follows its table: go on following it, finish that, or stop following")]
    Followed(String),
    /// The import followed its source, and no longer does.
    #[error("import {0:?} does not follow its table any more: what was added since is not noted; choose another name")]
    FollowEnded(String),
    /// The role may not create the trigger that notes new rows.
    #[error(
        "failed to follow table {table}: {reason}; the role needs TRIGGER on the table and CREATE on schema {schema}"
    )]
    MayNotFollow {
        /// The table.
        table: String,
        /// Its schema.
        schema: String,
        /// What the server said.
        reason: String,
    },
    /// The trigger that noted new rows is gone or switched off, so rows may have been missed.
    #[error(
        "the trigger {trigger:?} of table {table} is gone or off: rows may have been missed; stop following, and import the table anew, under another name, into a new namespace"
    )]
    TriggerGone {
        /// The table.
        table: String,
        /// The trigger.
        trigger: String,
    },
    /// What was imported is not what the source has now.
    #[error(
        "import {name:?} is not what the source has: {imported} events were imported, it has {in_source} rows; rows were added behind those that were read, changed or deleted meanwhile"
    )]
    Mismatch {
        /// The import.
        name: String,
        /// How many rows the source has.
        in_source: u64,
        /// How many events were imported.
        imported: u64,
    },
    /// The database with the namespace failed.
    #[error(transparent)]
    Target(AdminError),
}

impl ImportError {
    pub(super) fn source(error: sqlx::Error) -> Self {
        ImportError::Source(admin_error(error))
    }

    pub(super) fn target(error: sqlx::Error) -> Self {
        ImportError::Target(admin_error(error))
    }
}
