//! What following the WAL needs from the database: slots, the inbox, and what nodes report about
//! their live sources.

mod ended_transactions;
mod inbox;
mod live_nodes;
mod replication;

pub use inbox::{InboxHead, InboxPage, InboxRow, PgInbox, Received, SlotHealth};
pub use live_nodes::{LiveNode, LiveReport};
pub use replication::{OrphanedSlot, ReplicationSettings, ReplicationSlot, SlotDropped};
