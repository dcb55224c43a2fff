//! All integration tests of `headwater-cli`, as one binary: it is linked once, and nextest runs
//! each test in its own process.

mod admin;
mod audit;
mod bulk;
mod cdc;
mod common;
mod consume;
mod consume_config;
mod consume_exec;
mod consume_group;
mod consume_pool;
mod consume_shared;
mod dead_letters;
mod doctor;
mod doctor_faults;
mod due;
mod events;
mod follow;
mod groups;
mod holders;
mod import;
mod lists;
mod months;
mod nodes;
mod roles;
mod schedules;
mod subscribers;
mod transfer;
mod up;
