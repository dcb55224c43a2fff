//! The log in memory: Headwater's reference model, and the backend for tests of what you build on it.
