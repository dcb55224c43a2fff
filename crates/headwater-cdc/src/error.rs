//! What can go wrong between the WAL and us, split by what to do about it.

use headwater_core::ReadError;
#[cfg(feature = "replication")]
use pgwire_replication::{PgWireError, protocol::ErrorFields};

/// Why events do not come from the WAL. None of these errors stops delivery: in the meantime the
/// log is polled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CdcError {
    /// The server writes too little into its WAL.
    #[error("the server's wal_level is {0}: set wal_level = logical and restart it")]
    WalLevel(String),
    /// The role may not do it.
    #[error("{0}: the role needs LOGIN and REPLICATION, and must own Headwater's tables to publish them")]
    NotAllowed(String),
    /// Another process reads the slot.
    #[error("slot {slot} is in use: {message}")]
    SlotBusy {
        /// The slot.
        slot: String,
        /// What the server said.
        message: String,
    },
    /// Another node owns the slot.
    #[error("slot {slot} is owned by {owner}")]
    NotOwner {
        /// The slot.
        slot: String,
        /// The node that owns it, or owned it last.
        owner: String,
    },
    /// The slot is gone, or the WAL that it needs.
    #[error("slot {slot} is lost: {message}")]
    SlotLost {
        /// The slot.
        slot: String,
        /// What the server said.
        message: String,
    },
    /// All slots, or all senders, are taken.
    #[error("{0}: raise max_replication_slots and max_wal_senders, or drop what is not used (`headwater cdc status`)")]
    Exhausted(String),
    /// The server does not have the output plugin, or does not allow it.
    #[error("output plugin {plugin} cannot be used: {message}")]
    Plugin {
        /// The plugin.
        plugin: &'static str,
        /// What the server said.
        message: String,
    },
    /// Any other error that the server raised.
    #[error("the server refused: {message} (SQLSTATE {code})")]
    Server {
        /// The SQLSTATE.
        code: String,
        /// What the server said.
        message: String,
    },
    /// The url, or what it asks for, cannot be used for replication.
    #[error("invalid connection for replication: {0}")]
    InvalidInput(String),
    /// The connection could not be made, or broke.
    #[error("failed to replicate: {0}")]
    Connection(String),
    /// A message from the server that is not valid.
    #[error("unexpected message from the server: {0}")]
    Protocol(String),
    /// A query of the database failed.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// What was being done when the server refused.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Doing<'a> {
    pub(crate) slot: &'a str,
    pub(crate) plugin: &'static str,
}

impl CdcError {
    /// Converts an ErrorResponse, by SQLSTATE.
    #[cfg(feature = "replication")]
    pub(crate) fn from_server(payload: &[u8], doing: Doing<'_>) -> Self {
        let fields = ErrorFields::parse(payload);
        let (code, message) = (fields.code.unwrap_or_default(), fields.message.unwrap_or_default());
        let slot = doing.slot.to_owned();
        match &*code {
            "42501" | "28000" | "28P01" => CdcError::NotAllowed(message),
            "55006" => CdcError::SlotBusy { slot, message },
            // 55000: it was invalidated (wal_level was checked before); 42704: there is no such
            // slot, or no such publication.
            "55000" | "42704" => CdcError::SlotLost { slot, message },
            "53400" | "53300" => CdcError::Exhausted(message),
            // 58P01: there is no such library; 22023: an option that the plugin does not know.
            "58P01" | "22023" => CdcError::Plugin { plugin: doing.plugin, message },
            _ => CdcError::Server { code, message },
        }
    }

    /// Returns whether only an operator can fix it, so that trying often is useless.
    pub fn needs_operator(&self) -> bool {
        matches!(
            self,
            CdcError::WalLevel(_) | CdcError::NotAllowed(_) | CdcError::Plugin { .. } | CdcError::InvalidInput(_)
        )
    }
}

#[cfg(feature = "replication")]
impl From<PgWireError> for CdcError {
    fn from(error: PgWireError) -> Self {
        match error {
            PgWireError::Protocol(message) => CdcError::Protocol(message),
            PgWireError::Auth(message) => CdcError::NotAllowed(message),
            other => CdcError::Connection(other.to_string()),
        }
    }
}

impl From<std::io::Error> for CdcError {
    fn from(error: std::io::Error) -> Self {
        CdcError::Connection(error.to_string())
    }
}
