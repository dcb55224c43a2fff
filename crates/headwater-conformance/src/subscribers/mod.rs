//! The laws of a store of subscribers.

mod backend;
#[macro_use]
mod laws;
mod support;

mod audit;
mod checkpoints;
mod dead_letters;
mod fences;
mod gaps;
mod leases;
mod management;
mod redrives;
mod registration;

pub use backend::{SubscriberBackend, SubscriberHandles, TestSubscribers};
#[doc(hidden)]
pub use laws::laws_by_topic;
