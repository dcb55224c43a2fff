-- The tables of the baselines that have one of their own.
CREATE SCHEMA bench;

-- What many applications start with: a table, and a trigger that wakes its readers.
CREATE TABLE bench.notified (
    id         bigserial PRIMARY KEY,
    event_id   uuid NOT NULL,
    event_type text NOT NULL,
    data       jsonb NOT NULL
);
CREATE FUNCTION bench.wake() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('bench_notified', '');
    RETURN NULL;
END
$$;
CREATE TRIGGER wake AFTER INSERT ON bench.notified FOR EACH STATEMENT EXECUTE FUNCTION bench.wake();

-- A log without gaps: every insert takes the next number from one row. The row is updated in place
-- (HOT).
CREATE TABLE bench.log_counter (
    id            int PRIMARY KEY,
    last_sequence bigint NOT NULL
) WITH (fillfactor = 10);
INSERT INTO bench.log_counter VALUES (1, 0);
CREATE TABLE bench.counted (
    sequence   bigint PRIMARY KEY,
    event_id   uuid NOT NULL,
    event_type text NOT NULL,
    data       jsonb NOT NULL
);
