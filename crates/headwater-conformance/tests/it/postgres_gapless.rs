//! The laws for PostgreSQL, where the log has no gaps.

use headwater_conformance::{PostgresBackend, log_laws};
use headwater_core::Ordering;

log_laws! { mod postgres_gapless => PostgresBackend::start(Ordering::Gapless) }
