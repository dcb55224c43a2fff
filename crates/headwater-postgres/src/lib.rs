//! The log in PostgreSQL: all of Headwater's SQL and the code that runs it.
//!
//! [`Database`] connects, migrates and manages namespaces; [`PgLog`] is the log of one namespace, [`PgSubscribers`] who reads it,
//! [`PgQueue`] who claims its events, and [`PgStateStore`] what projections and sagas make of it.

mod batch;
mod coalescer;
mod database;
mod delivery;
mod doctor;
mod due;
mod error;
mod grants;
mod holders;
mod import;
mod inbox;
mod kept;
mod live_nodes;
mod log;
mod migrate;
mod months;
mod namespaces;
mod nodes;
mod notifier;
mod number;
mod partitions;
mod poison;
mod pooled;
mod pooler;
mod queue;
mod queues;
mod read;
mod replication;
mod retry;
mod row;
mod schedules;
mod servers;
mod snapshot;
mod sql;
mod state_store;
mod storage;
mod subscribers;
mod transfer;
mod wake_ups;

pub use database::{Database, DatabaseOptions, ServerStatus};
pub use delivery::Delivery;
pub use doctor::{DoctorOptions, Finding, Severity};
pub use due::{Due, DueEvent, Fired};
pub use grants::{Grant, GrantKind};
pub use holders::Holder;
pub use import::{
    ImportCheckpoints, ImportDeadLetters, ImportError, ImportField, ImportFollow, ImportOptions, ImportProgress,
    ImportSource, ImportStage, Imported, ImportedSubscriber,
};
pub use inbox::{InboxHead, InboxPage, InboxRow, PgInbox, Received, SlotHealth};
pub use live_nodes::{LiveNode, LiveReport};
pub use log::{LogOptions, PgLog};
pub use migrate::Migrated;
pub use namespaces::{NamespaceChanges, NamespaceStatus};
pub use nodes::PgNodes;
pub use partitions::{Loss, Maintained, MonthInfo, Trimmed};
pub use poison::{PoisonEvent, Redelivered, SubscriptionReset};
pub use queue::{PgQueue, QueueConnection};
pub use queues::QueueInfo;
pub use replication::{OrphanedSlot, ReplicationSettings, ReplicationSlot, SlotDropped};
pub use servers::Servers;
pub use state_store::PgStateStore;
pub use storage::StorageStep;
pub use subscribers::{PgSubscribers, SubscribersOptions};
pub use transfer::{TransferError, Transferred};
pub use wake_ups::WakeUps;
