//! Delivery: who is told about events, how often it is tried, and what is kept of it.

mod config;
mod dead_letter;
mod gaps;
mod gate;
mod groups;
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
mod state_store;
mod store;
mod subscriber;

pub use config::{CheckpointMode, InstanceMode, OnExhaustion, OnGroupFailure, ReliableDeliveryConfig, StartFrom};
pub use dead_letter::{Attempt, DeadLetter, DeadLetterQuery, DeadLetterState};
pub use gaps::{ChangedChunks, Chunk, Gaps};
pub use gate::{Admitted, Gate, Hold, Late, MAX_PASSED, Segment};
pub use groups::{GroupBatch, GroupBy, Groups, LONG_SPAN, Part};
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
pub use state_store::{MemoryStateStore, StateChange, StateStore};
pub use store::SubscriberStore;
pub use subscriber::{
    Ask, AuditFinding, AuditReport, Fence, GroupInfo, GroupView, Held, Instance, LastTurn, Loaded, PartitionInfo,
    Report, RunnerState, SubscriberConfig, SubscriberError, SubscriberInfo, SubscriberMode,
};
