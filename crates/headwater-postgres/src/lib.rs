//! The log in PostgreSQL: all of Headwater's SQL and the code that runs it.
//!
//! [`Database`] connects, migrates and manages namespaces; [`PgLog`] is the log of one namespace.

mod batch;
mod coalescer;
mod database;
mod error;
mod log;
mod migrate;
mod namespaces;
mod notifier;
mod read;
mod row;
mod sql;

pub use database::{Database, DatabaseOptions, ServerStatus};
pub use log::{LogOptions, PgLog};
pub use migrate::Migrated;
pub use namespaces::NamespaceChanges;
