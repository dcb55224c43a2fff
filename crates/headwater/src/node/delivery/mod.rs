//! Delivery: from the events that were read to handlers, and from handlers to checkpoints.

pub(in crate::node) mod adapters;
pub(in crate::node) mod allowance;
pub(in crate::node) mod executor;
pub(in crate::node) mod handler;
pub(in crate::node) mod key_hashes;
pub(in crate::node) mod limiter;
pub(in crate::node) mod open_transaction;
pub(in crate::node) mod owner;
pub(in crate::node) mod plan;
pub(in crate::node) mod projection;
pub(in crate::node) mod runner;
pub(in crate::node) mod saga;
pub(in crate::node) mod shared_segments;
pub(in crate::node) mod status;
#[cfg(test)]
pub(in crate::node) mod test_events;
pub(in crate::node) mod turn;
pub(in crate::node) mod type_handlers;
