//! An event store, event bus, work queue and scheduler on the PostgreSQL you already run.
