//! The laws for subscribers in PostgreSQL.

use headwater_conformance::{PostgresBackend, subscriber_laws};
use headwater_core::Ordering;

subscriber_laws! { mod postgres => PostgresBackend::start(Ordering::Sequence) }
