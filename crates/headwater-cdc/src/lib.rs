//! The log from the WAL: PostgreSQL's logical replication as a live source.
//!
//! [`Direct`] streams a namespace's new events from a temporary slot into a [`Feed`], from which a node's tail takes them instead of
//! reading the log; [`Inbox`] does so by way of a table, which one node fills for all. What is not in the feed, the tail reads: so a stream that breaks, at any time and for whatever reason, costs
//! speed and never an event. CDC accelerates, polling guarantees, gaps heal.

mod connection;
mod direct;
mod endpoint;
mod error;
mod feed;
mod fields;
mod inbox;
mod lag;
mod options;
mod orphans;
mod pgoutput;
mod pump;
mod replication;
mod slot_watch;
mod status;
mod transactions;
mod wal2json;

pub use direct::Direct;
pub use endpoint::Endpoint;
pub use error::CdcError;
pub use feed::{Feed, Reach, Rest, Taken};
pub use inbox::Inbox;
pub use options::{CdcMode, CdcOptions, Plugin};
pub use replication::{Replication, SlotKind};
pub use status::{LiveState, LiveStatus};
pub use transactions::{Poison, Transaction};
