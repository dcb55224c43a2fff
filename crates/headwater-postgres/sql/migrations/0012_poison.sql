-- Poison: rows of the log that cannot be turned into events.
-- Frozen once shipped.

CREATE TABLE headwater.poison_events (
    namespace_id    int NOT NULL,
    global_sequence bigint NOT NULL,
    -- whoever was past it has been, or will be, told of it after all
    redelivered     boolean NOT NULL DEFAULT false,
    -- why it is no event
    error           text NOT NULL,
    found_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    redelivered_at  timestamptz,
    PRIMARY KEY (namespace_id, global_sequence)
);

ALTER TABLE headwater.poison_events ENABLE ROW LEVEL SECURITY;
CREATE POLICY consumers ON headwater.poison_events USING (namespace_id = ANY ((SELECT headwater.granted('consumer'))::int[]));
