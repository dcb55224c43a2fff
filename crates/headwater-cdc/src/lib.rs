//! The log from the WAL: PostgreSQL's logical replication as a live source.
//!
//! [`Direct`] streams a namespace's new events from a temporary slot into a [`Feed`]. A node's tail
//! takes them from the feed instead of reading the log. [`Inbox`] does the same through a table,
//! which one node fills for all nodes. The tail reads what is not in the feed. So a stream that
//! breaks, at any time and for any reason, costs speed and never an event. CDC accelerates, polling
//! guarantees, gaps heal.
//!
//! Without the feature `replication` there is only the feed, which nobody fills. A node then
//! compiles neither the protocol nor a second use of TLS.

// What turns messages into a feed is used by the protocol alone.
#![cfg_attr(not(feature = "replication"), allow(dead_code))]

#[cfg(feature = "replication")]
mod connection;
#[cfg(feature = "replication")]
mod direct;
#[cfg(feature = "replication")]
mod endpoint;
mod error;
mod feed;
mod fields;
#[cfg(feature = "replication")]
mod inbox;
#[cfg(feature = "replication")]
mod lag;
mod options;
#[cfg(feature = "replication")]
mod orphans;
#[cfg(feature = "replication")]
mod pgoutput;
#[cfg(feature = "replication")]
mod pump;
#[cfg(feature = "replication")]
mod replication;
#[cfg(feature = "replication")]
mod slot_watch;
mod status;
#[cfg(feature = "replication")]
mod tls;
mod transactions;
#[cfg(feature = "replication")]
mod wal2json;

#[cfg(feature = "replication")]
pub use direct::Direct;
#[cfg(feature = "replication")]
pub use endpoint::Endpoint;
pub use error::CdcError;
pub use feed::{Feed, Reach, Rest, Taken};
#[cfg(feature = "replication")]
pub use inbox::Inbox;
pub use options::{CdcMode, CdcOptions, Plugin};
#[cfg(feature = "replication")]
pub use replication::{Replication, SlotKind};
pub use status::{LiveState, LiveStatus};
pub use transactions::{Poison, Transaction};
