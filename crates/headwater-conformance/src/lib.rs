//! The laws of a Headwater log as one test suite, run against every backend.
//!
//! A law is an async function. It gets a log that is empty at first, and panics if the log breaks
//! the law. The files of this crate hold the laws by topic, and [`log_laws!`] makes a test from
//! each law for one backend. The tests of `headwater-memory` and `headwater-postgres` use it. Do
//! the same for your own backend:
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
//! The laws of a store of subscribers are functions of [`TestSubscribers`], in `subscribers/`.
//! [`subscriber_laws!`] makes tests from them.
//!
//! To add a law, write it into the file of its topic and add it to the list in the `laws.rs` beside
//! that file. The compiler warns about a law that is in no list.

mod backend;
#[macro_use]
mod laws;
mod pages;
mod support;

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
#[doc(hidden)]
pub use subscribers::laws_by_topic as subscriber_laws_by_topic;
pub use subscribers::{SubscriberBackend, SubscriberHandles, TestSubscribers};
pub use support::{Opened, same_meaning};
