//! All integration tests of `headwater-cdc`, as one binary: it is linked once, and nextest runs
//! each test in its own process.

mod common;
mod connections;
mod decoders;
mod visibility;
