//! The laws of a store of subscribers.

mod backend;
#[macro_use]
mod laws;
mod support;

mod audit;
mod changes;
mod checkpoints;
mod claims;
mod dead_letters;
mod fences;
mod gaps;
mod groups;
mod leases;
mod management;
mod redrives;
mod registration;
mod retries;
mod types;

pub use backend::{SubscriberBackend, SubscriberHandles, TestSubscribers};
#[doc(hidden)]
pub use laws::laws_by_topic;
