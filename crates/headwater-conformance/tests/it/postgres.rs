//! The laws for PostgreSQL, where writers do not wait for each other.

use headwater_conformance::{PostgresBackend, log_laws};
use headwater_core::Ordering;

log_laws! { mod postgres => PostgresBackend::start(Ordering::Sequence) }
log_laws! { mod postgres_own => PostgresBackend::start_own() }
