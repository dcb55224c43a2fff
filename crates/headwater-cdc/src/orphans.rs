//! Durable slots that nobody reads and nobody will. Every node that follows the WAL drops them, in
//! either mode, because each makes the server keep WAL.

use std::time::Duration;

use headwater_postgres::{Database, SlotDropped};
use tokio::time::sleep;

/// A slot is dropped when no node of its namespace has wanted it for this long.
const UNREAD_FOR: Duration = Duration::from_secs(3600);
/// The pause between checks.
const LOOK_EVERY: Duration = Duration::from_secs(600);

/// Checks for such slots, now and regularly.
pub(crate) async fn drop_for_ever(database: &Database) {
    loop {
        match database.orphaned_slots(UNREAD_FOR).await {
            Ok(orphans) => {
                for orphan in orphans {
                    match database.drop_replication_slot(&orphan.slot).await {
                        Ok(SlotDropped::Dropped) => {
                            tracing::warn!(
                                slot = orphan.slot,
                                reason = orphan.reason,
                                "dropped a slot that nobody reads"
                            )
                        }
                        // Somebody uses it, or dropped it first.
                        Ok(SlotDropped::InUse | SlotDropped::NotFound) => {}
                        Err(error) => {
                            tracing::warn!(slot = orphan.slot, reason = orphan.reason, %error, "failed to drop a slot that nobody reads")
                        }
                    }
                }
            }
            Err(error) => tracing::debug!(%error, "failed to look for slots that nobody reads"),
        }
        sleep(LOOK_EVERY).await;
    }
}
