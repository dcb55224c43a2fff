//! All integration tests of `headwater`, as one binary: it is linked once, and nextest runs each
//! test in its own process.

// Numbers in tests are small.
#![allow(clippy::cast_possible_wrap, clippy::cast_sign_loss)]

mod at_most;
mod both_engines;
mod care;
mod cdc;
mod cdc_holes;
mod cdc_inbox;
mod cdc_inbox_behind;
mod cdc_inbox_owner;
mod cdc_slot_safety;
mod common;
mod delivery;
mod due;
mod ended_transactions;
mod failover;
mod failures;
mod follow;
mod gaps;
mod groups;
mod groups_ahead;
mod histories;
mod holes;
mod late_in_order;
mod maintenance;
mod managed_owner;
mod memory_node;
mod never_split;
mod nodes;
mod ordered_sql;
mod ownership;
mod pg_cron;
mod pgbouncer;
mod poison;
mod projections;
mod queue_taken;
mod rate_limit;
mod readme;
mod reconnect;
mod replaced_nodes;
mod roles;
mod root;
mod running;
mod schedules;
mod shared;
mod shared_batch;
mod shared_transactional;
mod spans;
mod states;
mod storage_moves;
mod transaction_per_key;
mod transactional;
mod type_index;
mod ui;
