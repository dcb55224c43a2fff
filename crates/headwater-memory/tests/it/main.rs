//! All integration tests of `headwater-memory`, as one binary: it is linked once, and nextest runs
//! each test in a process of its own.

mod log;
mod subscribers;
