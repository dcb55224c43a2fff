//! What identifies a server's past.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// What identifies a server's past. A server gets another history after anything that may take back
/// sequences that were handed out, such as a crash or the promotion of a standby. Another history
/// may have other events at the same sequences, so nothing that was read in one history is valid in
/// another. Every write that depends on such a read names the history.
///
/// A backend that never loses anything has one history, the default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct History(Uuid);

impl History {
    /// The history with the backend's id.
    pub fn new(id: Uuid) -> Self {
        History(id)
    }

    /// The backend's id of the history.
    pub fn id(self) -> Uuid {
        self.0
    }
}
