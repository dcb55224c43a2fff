-- The table that handlers write to, and the event log of the loop on pgmq, with indexes on
-- namespace and type.
CREATE TABLE handled (message_id bigint NOT NULL, payload jsonb NOT NULL);
CREATE TABLE event_log (
    event_id         bigserial PRIMARY KEY,
    namespace        text NOT NULL,
    event_type       text NOT NULL,
    payload          jsonb NOT NULL,
    emitted_at       timestamptz NOT NULL DEFAULT now(),
    producer_node_id text NOT NULL,
    metadata         jsonb
);
CREATE INDEX ON event_log (namespace);
CREATE INDEX ON event_log (event_type);
