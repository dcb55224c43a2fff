//! What identifies a server's past.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// What identifies a server's past: another one after whatever may take back sequences that were handed out, as a crash, or the promotion of a standby. What was read in
/// one history means nothing in another: there, other events may have the same sequences. So all that is written of it names the history.
///
/// A backend that never loses anything has one history, the default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct History(Uuid);

impl History {
    /// As the backend names it.
    pub fn new(id: Uuid) -> Self {
        History(id)
    }

    /// As the backend names it.
    pub fn id(self) -> Uuid {
        self.0
    }
}
