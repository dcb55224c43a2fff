//! The laws for PostgreSQL, where the log has no gaps.

use headwater_conformance::log_laws;
use headwater_core::Ordering;

use super::backend::PostgresBackend;

log_laws! { mod laws => PostgresBackend::start(Ordering::Gapless) }
