//! The laws of `headwater-conformance`, for PostgreSQL.

mod as_roles;
mod backend;
mod gapless;
mod sequence;
mod subscribers;
