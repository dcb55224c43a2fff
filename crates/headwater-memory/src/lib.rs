//! The log in memory: Headwater's reference model, and the backend for tests of programs that use
//! Headwater.
//!
//! ```
//! use headwater_core::{Append, Event, EventLog, ExpectedVersion, StreamQuery};
//! use headwater_memory::MemoryLog;
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let log = MemoryLog::new("orders");
//! let placed = Event::raw("OrderPlaced", json!({ "total": 5 }));
//! log.append(Append::to_stream("order-1", ExpectedVersion::NoStream, [placed])).await?;
//! let stored = log.stream_page(&StreamQuery::new("order-1")).await?;
//! assert_eq!(stored[0].stream_version, Some(1));
//! # Ok(())
//! # }
//! ```
//!
//! It behaves like PostgreSQL with a gapless namespace. `headwater-conformance` tests both against
//! the same laws and compares them command by command. The differences:
//!
//! - Nothing is durable, and nothing is ever trimmed: [`NamespaceConfig::retention`] and the other
//!   settings that speak of a database are checked, and then mean nothing.
//! - There are no transactions that outlive a call, so there are no gaps and no writers: the
//!   horizon is the head.
//! - Data stays the text that was appended. PostgreSQL's jsonb keeps its meaning, but orders keys,
//!   spaces, and drops all but the last of equal keys: compare data decoded, not as text.
//!
//! [`MemorySubscribers`] keeps the subscribers of such a log in the same way: leases, checkpoints
//! and dead letters, the members and partitions of groups, and the claims of queues. So a node runs
//! every kind of subscription on it that needs no SQL transaction. There are no sessions: a lease
//! ends by its time or by its release. The store's clock is tokio's, which tests can pause, and
//! [`MemorySubscribers::advance_clock`] moves it forward.
//!
//! [`NamespaceConfig::retention`]: headwater_core::NamespaceConfig::retention

mod clock;
mod log;
mod read;
mod state;
mod subscribers;

pub use log::MemoryLog;
pub use subscribers::MemorySubscribers;
