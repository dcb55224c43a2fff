//! All integration tests of `headwater-derive`, as one binary: it is linked once, and nextest runs
//! each test in its own process.

// Generated code names the crate `headwater` unless an attribute names another. Here that name is
// the core crate, as in the facade.
extern crate headwater_core as headwater;

mod event_data;
mod subscriber_id;
mod subset;
mod ui;
