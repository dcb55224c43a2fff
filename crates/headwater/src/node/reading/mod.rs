//! Reading: the log as a node's runners see it, read once for all of them.

pub(in crate::node) mod follower;
pub(crate) mod followers;
pub(in crate::node) mod gap_records;
pub(in crate::node) mod hole_proof;
#[cfg(feature = "cdc")]
pub(in crate::node) mod live_report;
pub(in crate::node) mod pages;
pub(in crate::node) mod poison;
pub(in crate::node) mod ring;
pub(in crate::node) mod tail;
