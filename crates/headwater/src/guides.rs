//! The guides, so that every block of Rust in them is compiled as a test of documentation.

#[doc = include_str!("../../../README.md")]
mod readme {}

macro_rules! guides {
    ($($name:ident $file:literal,)*) => { $(
        #[doc = include_str!(concat!("../../../docs/", $file))]
        mod $name {}
    )* };
}

guides! {
    cdc "guides/cdc.md",
    choosing_a_mode "guides/choosing-a-mode.md",
    dead_letters "guides/dead-letters.md",
    due_times "guides/due-times.md",
    failover "guides/failover.md",
    filtering_by_type "guides/filtering-by-type.md",
    first_projection "guides/first-projection.md",
    following "guides/following.md",
    from_kafka "guides/from-kafka.md",
    from_pgmq "guides/from-pgmq.md",
    idempotent_handlers "guides/idempotent-handlers.md",
    import "guides/import.md",
    in_production "guides/in-production.md",
    nodes_and_handlers "guides/nodes-and-handlers.md",
    retention "guides/retention.md",
    roles "guides/roles.md",
    schedules "guides/schedules.md",
    several_instances "guides/several-instances.md",
    testing "guides/testing.md",
    transactional_handlers "guides/transactional-handlers.md",
    wh018 "errors/WH018.md",
}
