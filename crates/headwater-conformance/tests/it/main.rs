//! All integration tests of `headwater-conformance`, as one binary: it is linked once, and nextest runs each test in a process of its own.

mod memory;
mod model;
mod postgres;
mod postgres_gapless;
mod postgres_roles;
mod subscribers_memory;
mod subscribers_postgres;
