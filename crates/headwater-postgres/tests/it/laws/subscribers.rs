//! The laws for subscribers in PostgreSQL.

use headwater_conformance::subscriber_laws;
use headwater_core::Ordering;

use super::backend::PostgresBackend;

subscriber_laws! { mod laws => PostgresBackend::start(Ordering::Sequence) }
