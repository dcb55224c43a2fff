//! All integration tests of `headwater-embedded`, as one binary: it is linked once, and nextest
//! runs each test in its own process.

mod common;
mod disposable;
mod durable;
mod owner_dies;
mod standby;
