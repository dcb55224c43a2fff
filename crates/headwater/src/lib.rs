//! An event store, event bus, work queue and scheduler on the PostgreSQL you already run.
//!
//! ```no_run
//! use futures::TryStreamExt;
//! use headwater::admin::NamespaceConfig;
//! use headwater::{EventData, ExpectedVersion, Headwater};
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
//! Start with [`Headwater`]. [`Namespace`] appends and reads. [`Event`] is what is appended and
//! read.

mod aliases;
mod connect;
mod follow;
#[cfg(doctest)]
mod guides;
mod live;
mod namespace;
pub mod node;
mod operators;
mod poison;
mod schedules;
mod system;

pub use self::namespace::Namespace;
pub use self::node::Node;
pub use self::node::subscription::{Queue, Subscription};
pub use self::system::Headwater;
pub use headwater_core::{
    Bundle, Delivery, Event, EventObserver, ExpectedVersion, HandlerError, Json, Projection, RecordedEvent, Saga, Task,
};
// Each is a trait and its derive macro.
pub use headwater_core::{EventData, SubscriberId};
pub use headwater_derive::{EventData, SubscriberId};

pub use self::node::Transaction;

/// What is appended and read: streams, the log, queries, errors.
pub mod log {
    pub use crate::follow::{FollowError, FollowQuery, Followed, Follower};
    pub use crate::node::reading::followers::Followers;
    pub use headwater_core::{
        Append, AppendError, Appended, CloudEvent, DecodeError, Direction, EventBuilder, EventBuilderError,
        EventEnvelope, EventLog, EventPattern, Fault, Gap, GapState, Horizon, IntoEvent, InvalidName, JsonError,
        LogPage, LogQuery, NotInSubset, NotRecorded, Placed, ReadError, Sequence, StreamId, StreamQuery, Writer,
        headers,
    };
    pub use headwater_derive::subset_enum;
    pub use headwater_postgres::{Due, DueEvent, LogOptions, PgLog};
}

/// How events reach handlers: settings, subscribers, dead letters, states.
pub mod delivery {
    pub use crate::node::subscription::{
        Batch, Bundled, Each, NoHandler, Parallel, Partitions, Runnable, Transactional,
    };
    pub use headwater_core::{
        Attempt, AuditFinding, AuditReport, CheckpointMode, DeadLetter, DeadLetterQuery, DeadLetterState,
        EventApplicator, GroupInfo, GroupStore, Instance, InstanceMode, MemoryStateStore, Observed, OnBundleFailure,
        OnExhaustion, OperatorStore, PartitionInfo, ProgressStore, ReliableDeliveryConfig, Report, RunnerState,
        SagaActions, StartFrom, StateChange, StateError, StateStore, SubscriberConfig, SubscriberError, SubscriberInfo,
        SubscriberMode, SubscriberStore, partition_of,
    };
    pub use headwater_postgres::{GroupSummary, PgStateStore, PgSubscribers, StoredState};
}

/// Work queues beside [`Queue`]: claims by hand.
pub mod queue {
    pub use headwater_core::{Claim, ClaimRequest, QueueStore, Queues};
    pub use headwater_postgres::{PgQueue, QueueConnection, QueueInfo};
}

/// Schedules: what is due when, and what became of it.
pub mod schedule {
    pub use headwater_core::{MissedRuns, RunOutcome, Schedule, ScheduleError, ScheduleRun, ScheduleState};
}

/// What operators do, behind [`Headwater::admin`]: namespaces, months, roles, imports, diagnosis.
pub mod admin {
    pub use crate::connect::{Connect, ConnectNamespace};
    pub use crate::operators::Admin;
    pub use crate::system::HeadwaterBuilder;
    pub use headwater_core::{
        AdminError, Index, IndexState, MonthsMadeBy, NamespaceConfig, NamespaceInfo, Ordering, Storage,
    };
    pub use headwater_postgres::{
        DatabaseOptions, DoctorOptions, Finding, Fired, Grant, GrantKind, Holder, ImportCheckpoints, ImportDeadLetters,
        ImportError, ImportField, ImportFollow, ImportOptions, ImportProgress, ImportSource, ImportStage, Imported,
        ImportedSubscriber, Loss, Maintained, Migrated, MonthInfo, NamespaceChanges, NamespaceStatus, ServerStatus,
        Severity, StorageStep, TransferError, Transferred, Trimmed,
    };
}

/// New events from the WAL, and rows that cannot be read.
pub mod cdc {
    pub use crate::live::Live;
    pub use crate::poison::{CdcPoisonNotifier, SubscriptionResetOnPoisonNotifier};
    #[cfg(feature = "cdc")]
    pub use headwater_cdc::{CdcError, CdcMode, CdcOptions, Plugin};
    pub use headwater_cdc::{LiveState, LiveStatus};
    pub use headwater_postgres::{
        LiveNode, OrphanedSlot, PoisonEvent, Redelivered, ReplicationSettings, ReplicationSlot, SlotDropped,
        SubscriptionReset,
    };
}

#[doc(hidden)]
pub use headwater_core::__private;
/// The driver whose pools and transactions this crate takes.
pub use sqlx;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
