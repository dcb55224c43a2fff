//! The log in PostgreSQL: all of Headwater's SQL and the code that runs it.
//!
//! [`Database`] connects, migrates and manages namespaces. [`PgLog`] is the log of one namespace.
//! [`PgSubscribers`] stores the progress of subscribers, [`PgQueue`] hands out claims, and
//! [`PgStateStore`] keeps the states of projections and sagas.

mod admin;
mod cdc;
mod database;
mod delivery;
mod import;
mod log;
mod nodes;
mod queue;
mod retention;
mod roles;
mod schedules;
mod sql;

pub use admin::{
    DoctorOptions, Finding, Holder, NamespaceChanges, NamespaceStatus, Severity, TransferError, Transferred,
};
pub use cdc::{
    InboxHead, InboxPage, InboxRow, LiveNode, LiveReport, OrphanedSlot, PgInbox, Received, ReplicationSettings,
    ReplicationSlot, SlotDropped, SlotHealth,
};
pub use database::{Database, DatabaseOptions, Migrated, ServerStatus, Servers};
pub use delivery::{GroupSummary, PgStateStore, PgSubscribers, StateGuard, StoredState, SubscribersOptions};
pub use import::{
    ImportCheckpoints, ImportDeadLetters, ImportError, ImportField, ImportFollow, ImportOptions, ImportProgress,
    ImportSource, ImportStage, Imported, ImportedSubscriber,
};
pub use log::{LogOptions, PgLog, PoisonEvent, Redelivered, SubscriptionReset, WakeUps};
pub use nodes::PgNodes;
pub use queue::{PgQueue, QueueConnection, QueueInfo};
pub use retention::{Loss, Maintained, MonthInfo, StorageStep, Trimmed};
pub use roles::{Grant, GrantKind};
pub use schedules::{Due, DueEvent, Fired};
