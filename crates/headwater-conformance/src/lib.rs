//! The laws of a Headwater log as one test suite, run against every backend.
