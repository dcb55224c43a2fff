//! The laws of a Headwater log as one test suite, run against every backend.
//!
//! A law is a function of a log that is empty when it begins; it panics where the log breaks it. The files here hold them by
//! topic, [`log_laws!`] makes a test of each for one backend, and `tests/` does so for ours. A backend of your own is
//! held to them in the same way:
//!
//! ```
//! use std::sync::Arc;
//!
//! use headwater_conformance::{Backend, Handles};
//! use headwater_core::{AdminError, NamespaceConfig};
//! use headwater_memory::MemoryLog;
//!
//! struct Memory;
//!
//! #[async_trait::async_trait]
//! impl Backend for Memory {
//!     async fn create(&self, config: NamespaceConfig) -> Result<Handles, AdminError> {
//!         let log = MemoryLog::with_config(config)?;
//!         Ok([Arc::new(log.clone()), Arc::new(log)])
//!     }
//! }
//!
//! headwater_conformance::log_laws! { mod memory => async { Memory } }
//! ```
//!
//! The laws of a store of subscribers are functions of [`TestSubscribers`], in `subscribers/`; [`subscriber_laws!`] makes tests of them.
//!
//! To add a law: write it into the file of its topic, then add it to the list in `laws.rs` beside it; the compiler complains of a law that
//! is in no list.

mod backend;
#[macro_use]
mod laws;
mod pages;
mod past_months;
mod postgres_backend;
mod support;
mod test_database;
mod test_role;

mod append;
mod concurrency;
mod data;
mod expected_versions;
mod fields;
mod limits;
mod lineage;
mod namespaces;
mod read_log;
mod read_log_pages;
mod read_stream;
mod retry;
mod streams;

#[macro_use]
mod subscribers;

pub use backend::{Backend, Handles, TestLog, check};
#[doc(hidden)]
pub use laws::by_topic;
pub use pages::read_by_pages;
pub use postgres_backend::PostgresBackend;
#[doc(hidden)]
pub use subscribers::laws_by_topic as subscriber_laws_by_topic;
pub use subscribers::{SubscriberBackend, SubscriberHandles, TestSubscribers};
pub use support::{Opened, same_meaning};
pub use test_database::TestDatabase;
pub use test_role::TestRole;
