-- The log: namespaces, streams, events.
-- Frozen once shipped. The schema `headwater` and the table `headwater.migrations` are made before the first migration.

CREATE TABLE headwater.namespaces (
    -- 16 bits of an advisory lock key (see functions/enter_log.sql)
    namespace_id      int GENERATED ALWAYS AS IDENTITY (MAXVALUE 65535) PRIMARY KEY,
    namespace         text NOT NULL UNIQUE,
    ordering          text NOT NULL CHECK (ordering IN ('sequence', 'gapless')),
    notify            boolean NOT NULL,
    retention         interval CHECK (retention > interval '0'),
    max_payload_bytes int NOT NULL CHECK (max_payload_bytes BETWEEN 1 AND 268435456),
    metadata          jsonb NOT NULL,
    created_at        timestamptz NOT NULL DEFAULT now(),
    -- NULL in a gapless namespace, which counts in headwater.counters
    sequence          regclass,
    -- leaf partitions exist up to here
    leaves_until      timestamptz NOT NULL,
    -- events recorded before this can no longer appear, and none has an id above sealed_max_id
    sealed_before     timestamptz NOT NULL,
    sealed_max_id     uuid
);

-- The counter row of a gapless namespace: locked by each append until its transaction ends.
CREATE TABLE headwater.counters (
    namespace_id  int PRIMARY KEY REFERENCES headwater.namespaces,
    last_sequence bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 10);

-- One row a stream: where optimistic concurrency lives. Version 0 is a stream that does not exist.
CREATE TABLE headwater.streams (
    namespace_id int NOT NULL,
    stream_id    text COLLATE "C" NOT NULL CHECK (octet_length(stream_id) BETWEEN 1 AND 512),
    version      bigint NOT NULL,
    PRIMARY KEY (namespace_id, stream_id)
) WITH (fillfactor = 70);

-- Columns in order of alignment, so that no row is padded.
-- Indexes stand on the leaves (functions/create_leaf.sql): no unique index can span partitions.
CREATE TABLE headwater.events (
    global_sequence bigint NOT NULL,
    stream_version  bigint,
    transaction_id  bigint NOT NULL,
    created_at      timestamptz NOT NULL,
    recorded_at     timestamptz NOT NULL,
    namespace_id    int NOT NULL,
    schema_version  int NOT NULL DEFAULT 1,
    event_id        uuid NOT NULL,
    correlation_id  uuid,
    causation_id    uuid,
    event_type      text COLLATE "C" NOT NULL,
    stream_id       text COLLATE "C",
    key             text COLLATE "C",
    actor_id        text COLLATE "C",
    headers         jsonb,
    data            jsonb NOT NULL,
    -- One check, since each is parsed anew by every statement.
    CHECK (schema_version > 0 AND octet_length(event_type) BETWEEN 1 AND 255
           AND (key IS NULL OR octet_length(key) BETWEEN 1 AND 512)
           AND (actor_id IS NULL OR octet_length(actor_id) BETWEEN 1 AND 512)
           AND (stream_id IS NULL) = (stream_version IS NULL))
) PARTITION BY LIST (namespace_id);
