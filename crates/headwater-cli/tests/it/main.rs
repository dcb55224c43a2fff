//! All integration tests of `headwater-cli`, as one binary: it is linked once, and nextest runs each test in a process of its own.

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
mod groups;
mod holders;
mod import;
mod nodes;
mod partitions;
mod roles;
mod schedules;
mod subscribers;
mod transfer;
mod up;
