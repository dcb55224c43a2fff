//! The laws of a Headwater log as one test suite, run against every backend.

mod test_database;

pub use test_database::TestDatabase;
