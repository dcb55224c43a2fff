#![doc = include_str!("../README.md")]

mod database;
mod past_months;
mod role;
mod server;

pub use database::TestDatabase;
pub use role::TestRole;
