//! Delivery: who gets events, how often an event is tried, and what is stored about it.

mod bundles;
mod config;
mod dead_letter;
mod delivered;
mod gaps;
mod gate;
mod handler_error;
mod observer;
mod partition;
mod progress;
mod projection;
mod queue;
mod rate;
mod retry;
mod saga;
mod spans;
mod state_error;
mod state_store;
mod store;
mod subscriber;

pub use bundles::{Bundle, BundleBatch, Bundles, LONG_SPAN, WaitingTransaction};
pub use config::{CheckpointMode, InstanceMode, OnBundleFailure, OnExhaustion, ReliableDeliveryConfig, StartFrom};
pub use dead_letter::{Attempt, DeadLetter, DeadLetterQuery, DeadLetterState};
pub use delivered::Delivery;
pub use gaps::{ChangedChunks, Chunk, Gaps};
pub use gate::{Admitted, Gate, Hold, Late, MAX_PASSED, Segment};
pub use handler_error::HandlerError;
pub use observer::{EventObserver, Observed, SubscriberId};
pub use partition::{PartitionId, order_hash, order_key, partition_of, share_of};
pub use progress::{Advance, PassedOver, Progress};
pub use projection::{EventApplicator, Projection};
pub use queue::{Claim, ClaimRequest};
pub use rate::TokenBucket;
pub use retry::{jittered, retry_delay};
pub use saga::{Saga, SagaActions};
pub use spans::{SpanScan, Spans, TooManySpans};
pub use state_error::StateError;
pub use state_store::{MemoryStateStore, StateChange, StateStore};
pub use store::{GroupStore, OperatorStore, ProgressStore, QueueStore, Queues, SubscriberStore};
pub use subscriber::{
    AuditFinding, AuditReport, Checkpoint, Fence, GroupInfo, GroupView, Instance, LastTurn, LeaseReply, LeaseRequest,
    PartitionInfo, Report, RunnerState, SubscriberConfig, SubscriberError, SubscriberInfo, SubscriberMode,
};
