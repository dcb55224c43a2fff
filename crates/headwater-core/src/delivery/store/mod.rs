//! What delivery keeps in a backend, split by who needs it: runners write progress, nodes share out
//! subscribers, operators look and repair, and workers claim from queues.

mod groups;
mod operators;
mod progress;
mod queues;

pub use self::groups::GroupStore;
pub use self::operators::OperatorStore;
pub use self::progress::ProgressStore;
pub use self::queues::{QueueStore, Queues};
use super::SubscriberError;

type Result<T> = std::result::Result<T, SubscriberError>;

/// All that a namespace keeps of its subscribers. Every type that implements the four parts
/// implements it.
///
/// The laws that all parts share:
///
/// - The store's clock alone decides when a lease, a claim or a delay ends.
/// - A write with a [`Fence`](crate::Fence) of another term than the present one changes nothing
///   and fails with [`SubscriberError::Fenced`].
/// - A write with another history than the present one changes nothing and fails with
///   [`ReadError::OtherHistory`](crate::ReadError::OtherHistory). So does a read with a
///   [`Fence`](crate::Fence).
/// - A position that is not a [`Sequence`](crate::Sequence) is [`SubscriberError::InvalidInput`].
/// - A subscriber that does not exist is [`SubscriberError::NotFound`]. A caller that names a term
///   gets [`SubscriberError::Fenced`] instead: its term may be over because the subscriber was
///   removed.
pub trait SubscriberStore: ProgressStore + GroupStore + OperatorStore + Queues {}

impl<S: ProgressStore + GroupStore + OperatorStore + Queues + ?Sized> SubscriberStore for S {}
