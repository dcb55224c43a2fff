//! All integration tests of `headwater-core`, as one binary: it is linked once, and nextest runs
//! each test in its own process.

mod event;
mod gate_model;
mod json;
mod pages;
mod states;
