//! The vocabulary of Headwater: events, streams, queries, errors and pure decisions. No I/O.

#[doc(hidden)]
pub mod __private;
mod append;
mod backoff;
mod delivery;
mod envelope;
mod error;
mod event;
mod event_builder;
mod event_data;
mod expected_version;
mod gap;
pub mod headers;
mod history;
mod into_event;
mod json;
mod jsonb;
mod log;
pub mod names;
mod namespace;
mod node;
mod patterns;
mod query;
mod recorded_event;
mod schedule;
mod sequence;
mod stream_id;

pub use append::{Append, Appended, Placed, Write};
pub use backoff::Backoff;
pub use delivery::{
    Admitted, Advance, Attempt, AuditFinding, AuditReport, Bundle, BundleBatch, Bundles, ChangedChunks, Checkpoint,
    CheckpointMode, Chunk, Claim, ClaimRequest, DeadLetter, DeadLetterQuery, DeadLetterState, Delivery,
    EventApplicator, EventObserver, Fence, Gaps, Gate, GroupInfo, GroupStore, GroupView, HandlerError, Hold, Instance,
    InstanceMode, LONG_SPAN, LastTurn, Late, LeaseReply, LeaseRequest, MAX_PASSED, MemoryStateStore, Observed,
    OnBundleFailure, OnExhaustion, OperatorStore, PartitionId, PartitionInfo, PassedOver, Progress, ProgressStore,
    Projection, QueueStore, Queues, ReliableDeliveryConfig, Report, RunnerState, Saga, SagaActions, Segment, SpanScan,
    Spans, StartFrom, StateChange, StateError, StateStore, SubscriberConfig, SubscriberError, SubscriberId,
    SubscriberInfo, SubscriberMode, SubscriberStore, TokenBucket, TooManySpans, WaitingTransaction, jittered,
    order_hash, order_key, partition_of, retry_delay, share_of,
};
pub use envelope::{CloudEvent, EventEnvelope};
pub use error::{AdminError, AppendError, Fault, ReadError};
pub use event::Event;
pub use event_builder::{EventBuilder, EventBuilderError};
pub use event_data::{DecodeError, EventData, NotInSubset};
pub use expected_version::ExpectedVersion;
pub use gap::{Gap, GapState, Horizon, Writer, changed_above, missing_runs};
pub use history::History;
pub use into_event::IntoEvent;
pub use json::{Json, JsonError};
pub use log::EventLog;
pub use names::InvalidName;
pub use namespace::{
    DEFAULT_MAX_PAYLOAD_BYTES, Index, IndexState, LARGEST_MAX_PAYLOAD_BYTES, LONGEST_RETENTION, MonthsMadeBy,
    NamespaceConfig, NamespaceInfo, Ordering, SHORTEST_RETENTION, Storage, check_retention,
};
pub use node::{NodeInfo, NodeOptions, Registration};
pub use patterns::{EventPattern, matches_pattern};
pub use query::{
    DEFAULT_PAGE_SIZE, Direction, LogPage, LogQuery, LongTransactions, Look, LookAhead, MAX_PAGE_SIZE, StreamQuery,
};
pub use recorded_event::{NotRecorded, RecordedEvent};
pub use schedule::{MissedRuns, RunOutcome, Schedule, ScheduleError, ScheduleRun, ScheduleState, Task};
pub use sequence::{InvalidSequence, Sequence};
pub use stream_id::StreamId;
