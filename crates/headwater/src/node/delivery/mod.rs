//! Delivery: from the events that were read to handlers, and from handlers to checkpoints.

pub(in crate::node) mod adapters;
pub(in crate::node) mod allowance;
pub(in crate::node) mod executor;
pub(in crate::node) mod handler;
pub(in crate::node) mod handlers;
pub(in crate::node) mod key_hashes;
pub(in crate::node) mod limiter;
pub(in crate::node) mod open_transaction;
pub(in crate::node) mod owner;
pub(in crate::node) mod projected;
pub(in crate::node) mod runner;
pub(in crate::node) mod saga;
pub(in crate::node) mod shared_runs;
pub(in crate::node) mod status;
pub(in crate::node) mod subscription;
#[cfg(test)]
pub(in crate::node) mod test_events;
pub(in crate::node) mod turn;
