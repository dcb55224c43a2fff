-- What the baselines write to and read from.
CREATE SCHEMA IF NOT EXISTS bench;
CREATE TABLE bench.latency (
    id         bigserial PRIMARY KEY,
    event_id   uuid NOT NULL,
    event_type text NOT NULL,
    data       jsonb NOT NULL
);
