//! An event store, event bus, work queue and scheduler on the PostgreSQL you already run.
//!
//! ```no_run
//! use futures::TryStreamExt;
//! use headwater::{EventData, ExpectedVersion, Headwater, NamespaceConfig};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Debug, Clone, Serialize, Deserialize, EventData)]
//! enum OrderEvent {
//!     Placed { total: u32 },
//!     Shipped,
//! }
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let headwater = Headwater::connect("postgres://localhost/app").await?;
//! headwater.migrate().await?;
//! headwater.create_namespace(NamespaceConfig::new("shop")).await?;
//! let shop = headwater.namespace("shop").await?;
//!
//! shop.append("order-1", ExpectedVersion::NoStream, [OrderEvent::Placed { total: 120 }]).await?;
//! shop.append("order-1", ExpectedVersion::Exact(1), [OrderEvent::Shipped]).await?;
//!
//! let events: Vec<_> = shop.read_stream_as::<OrderEvent>("order-1").try_collect().await?;
//! assert_eq!(events.len(), 2);
//! # Ok(())
//! # }
//! ```
//!
//! Start with [`Headwater`]; [`Namespace`] appends and reads; [`Event`] is what is appended and read.

mod connect;
mod live;
mod namespace;
mod node;
mod poison;
mod schedules;
mod system;

pub use connect::{Connect, ConnectNamespace};
pub use live::Live;
pub use namespace::Namespace;
pub use node::{
    EventHandler, HANDLERS, HandledEvent, HandlerTransaction, Node, NodeBuilder, NodeStatus, SubscriberStatus,
    TransactionScope, WakeUpSource,
};
pub use poison::{CdcPoisonNotifier, SubscriptionResetOnPoisonNotifier};
pub use system::{Headwater, HeadwaterBuilder};

pub use headwater_cdc::{CdcError, CdcMode, CdcOptions, LiveState, LiveStatus, Plugin};
#[doc(hidden)]
pub use headwater_core::__private;
pub use headwater_core::{
    AdminError, Append, AppendError, Appended, CloudEvent, DecodeError, Direction, Event, EventBuilder,
    EventBuilderError, EventData, EventEnvelope, EventLog, EventPattern, ExpectedVersion, Fault, Gap, GapState,
    Horizon, Index, IndexState, IntoEvent, InvalidName, Json, JsonError, LogPage, LogQuery, NamespaceConfig,
    NamespaceInfo, NodeInfo, NodeOptions, NotInSubset, Ordering, Partitions, Placed, ReadError, Registration, Storage,
    StreamId, StreamQuery, Writer, headers,
};
// Delivery.
pub use headwater_core::{
    Attempt, AuditFinding, AuditReport, CheckpointMode, Claim, ClaimRequest, DeadLetter, DeadLetterQuery,
    DeadLetterState, EventApplicator, EventObserver, GroupInfo, HandlerError, Instance, InstanceMode, MemoryStateStore,
    Observed, OnExhaustion, OnGroupFailure, PartitionInfo, Projection, ReliableDeliveryConfig, Report, RunnerState,
    Saga, SagaActions, StartFrom, StateChange, StateStore, SubscriberConfig, SubscriberError, SubscriberId,
    SubscriberInfo, SubscriberMode, SubscriberStore, partition_of,
};
// Schedules.
pub use headwater_core::{MissedRuns, RunOutcome, Schedule, ScheduleError, ScheduleRun, ScheduleState, Task};
pub use headwater_derive::{EventData, SubscriberId, subset_enum};
pub use headwater_postgres::{
    DatabaseOptions, DoctorOptions, Due, DueEvent, Finding, Fired, Grant, GrantKind, Holder, ImportCheckpoints,
    ImportDeadLetters, ImportError, ImportField, ImportFollow, ImportOptions, ImportProgress, ImportSource,
    ImportStage, Imported, ImportedSubscriber, LiveNode, LogOptions, Loss, Maintained, Migrated, MonthInfo,
    NamespaceChanges, NamespaceStatus, OrphanedSlot, PgLog, PgNodes, PgQueue, PgStateStore, PgSubscribers, PoisonEvent,
    QueueConnection, QueueInfo, Redelivered, ReplicationSettings, ReplicationSlot, ServerStatus, Severity, SlotDropped,
    StorageStep, SubscriptionReset, TransferError, Transferred, Trimmed,
};
