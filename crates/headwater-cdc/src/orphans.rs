//! Durable slots that nobody reads and nobody will: nodes that follow the WAL drop them, whichever mode they have, since each makes the server keep WAL.

use std::time::Duration;

use headwater_postgres::{Database, SlotDropped};
use tokio::time::sleep;

/// No node of its namespace has wanted it for so long.
const UNREAD_FOR: Duration = Duration::from_secs(3600);
/// Between looks.
const LOOK_EVERY: Duration = Duration::from_secs(600);

/// Looks for them, now and again and again.
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
                        // Somebody has it, or was sooner.
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
