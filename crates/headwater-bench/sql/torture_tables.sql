-- Where transactional subscribers leave their effects.
CREATE SCHEMA torture;
CREATE TABLE torture.effects (
    subscriber      text NOT NULL,
    global_sequence bigint NOT NULL,
    event_id        uuid NOT NULL,
    instance        text NOT NULL,
    at              timestamptz NOT NULL DEFAULT clock_timestamp()
);
