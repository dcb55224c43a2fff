//! The laws for PostgreSQL, where writers do not wait for each other.

use headwater_conformance::log_laws;
use headwater_core::Ordering;

use super::backend::PostgresBackend;

log_laws! { mod shared => PostgresBackend::start(Ordering::Sequence) }
log_laws! { mod own => PostgresBackend::start_own() }
