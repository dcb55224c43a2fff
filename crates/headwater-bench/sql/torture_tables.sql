-- Where the transactional subscriber leaves its effects.
CREATE SCHEMA torture;
CREATE TABLE torture.effects (
    global_sequence bigint NOT NULL,
    instance        text NOT NULL,
    at              timestamptz NOT NULL DEFAULT clock_timestamp()
);
