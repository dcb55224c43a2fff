-- A table like the table of events, with one partition and the same indexes. And the events to
-- append.
CREATE SCHEMA IF NOT EXISTS bench;
CREATE TABLE bench.plain_events (LIKE headwater_private.events) PARTITION BY RANGE (recorded_at);
CREATE TABLE bench.plain_events_all PARTITION OF bench.plain_events FOR VALUES FROM (MINVALUE) TO (MAXVALUE);
CREATE UNIQUE INDEX ON bench.plain_events_all (global_sequence);
CREATE UNIQUE INDEX ON bench.plain_events_all (event_id);
CREATE UNIQUE INDEX ON bench.plain_events_all (stream_id, stream_version) WHERE stream_id IS NOT NULL;
CREATE INDEX ON bench.plain_events_all (correlation_id, global_sequence) WHERE correlation_id IS NOT NULL;
CREATE INDEX ON bench.plain_events_all (causation_id, global_sequence) WHERE causation_id IS NOT NULL;
CREATE SEQUENCE bench.plain_sequence;
CREATE TABLE bench.sql_events (name text PRIMARY KEY, events jsonb NOT NULL);
