//! All integration tests of `headwater-derive`, as one binary: it is linked once, and nextest runs each test in a process of its own.

// Generated code names the crate `headwater` unless it is told otherwise; here that is the core, as in the facade.
extern crate headwater_core as headwater;

mod event_data;
mod subscriber_id;
mod subset;
mod ui;
