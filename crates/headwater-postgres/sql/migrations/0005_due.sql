-- Events that are due later: they wait here, and are appended to the log when it is time.
-- Frozen once shipped.

CREATE TABLE headwater.due_events (
    -- the order of emission
    due_id         bigint GENERATED ALWAYS AS IDENTITY,
    due_at         timestamptz NOT NULL,
    -- when it is tried: due_at, and after a failure later
    fire_at        timestamptz NOT NULL,
    created_at     timestamptz NOT NULL,
    namespace_id   int NOT NULL REFERENCES headwater.namespaces,
    schema_version int NOT NULL CHECK (schema_version > 0),
    -- of the data, as text: what is appended at once is bounded
    bytes          int NOT NULL,
    failures       int NOT NULL DEFAULT 0,
    event_id       uuid NOT NULL,
    correlation_id uuid,
    causation_id   uuid,
    event_type     text COLLATE "C" NOT NULL CHECK (octet_length(event_type) BETWEEN 1 AND 255),
    stream_id      text COLLATE "C" CHECK (octet_length(stream_id) BETWEEN 1 AND 512),
    key            text COLLATE "C" CHECK (octet_length(key) BETWEEN 1 AND 512),
    actor_id       text COLLATE "C" CHECK (octet_length(actor_id) BETWEEN 1 AND 512),
    -- of the last failure
    error          text,
    headers        jsonb NOT NULL,
    data           jsonb NOT NULL,
    PRIMARY KEY (namespace_id, event_id)
);
CREATE INDEX due_events_next ON headwater.due_events (namespace_id, fire_at, due_id);
