-- The inbox: events from one durable slot of a namespace, for all nodes.
-- Frozen once shipped.

-- Whose history a namespace's slot is of: what came from a server that was replaced, or restored, is not trusted.
CREATE TABLE headwater.cdc_slots (
    namespace_id      int PRIMARY KEY REFERENCES headwater.namespaces,
    timeline          int NOT NULL,
    slot              text NOT NULL UNIQUE,
    system_identifier text NOT NULL,
    -- who reads it, or did so last; the server lets nobody else
    owner_node        text NOT NULL,
    begun_at          timestamptz NOT NULL
);

-- One writer a namespace, whoever has its slot: so numbers ascend in the order of commits. Each node reads with a cursor of its own.
CREATE TABLE headwater.cdc_inbox (
    inbox_id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    global_sequence bigint,
    received_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    commit_lsn      pg_lsn NOT NULL,
    namespace_id    int NOT NULL,
    -- in the transaction: several rows share a place in the WAL
    nth             int NOT NULL,
    slot            text NOT NULL,
    status          text COLLATE "C" NOT NULL CHECK (status IN ('RECEIVED', 'DISPATCHED', 'POISON')),
    error           text,
    -- as it came; NULL: it is poison, or too large to be here, and is read from the log
    event           json,
    UNIQUE (slot, commit_lsn, nth)
);
CREATE INDEX cdc_inbox_by_namespace ON headwater.cdc_inbox (namespace_id, inbox_id);

-- Who reads the log may have it from the inbox, and fill it.
ALTER TABLE headwater.cdc_slots ENABLE ROW LEVEL SECURITY;
CREATE POLICY consumers ON headwater.cdc_slots USING (namespace_id = ANY ((SELECT headwater.granted('consumer'))::int[]));
ALTER TABLE headwater.cdc_inbox ENABLE ROW LEVEL SECURITY;
CREATE POLICY consumers ON headwater.cdc_inbox USING (namespace_id = ANY ((SELECT headwater.granted('consumer'))::int[]));
