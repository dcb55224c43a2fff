//! Ownership: which instance handles which partition, and the heartbeat of the node.

pub(in crate::node) mod heartbeat;
pub(in crate::node) mod keeper;
pub(in crate::node) mod runners;

#[cfg(test)]
mod tests;
