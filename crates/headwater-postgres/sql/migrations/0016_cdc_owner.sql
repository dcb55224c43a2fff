-- Who owns a namespace's durable slot, by a lease and a term; and what nodes say of their live sources.
-- Frozen once shipped.

-- A row may be there before the slot was read for the first time.
ALTER TABLE headwater.cdc_slots
    ALTER COLUMN timeline DROP NOT NULL,
    ALTER COLUMN system_identifier DROP NOT NULL,
    ALTER COLUMN owner_node DROP NOT NULL,
    ALTER COLUMN begun_at DROP NOT NULL,
    -- a new one for each stream: what an earlier owner still writes is refused
    ADD COLUMN term bigint NOT NULL DEFAULT 0,
    ADD COLUMN owner_instance uuid,
    ADD COLUMN lease_until timestamptz,
    -- the owner reads the slot: if nobody does any more, it is gone, whatever its lease says
    ADD COLUMN reading boolean NOT NULL DEFAULT false,
    -- what commits comes into the inbox at once; else there is a backlog, and nodes read the log
    ADD COLUMN caught_up boolean NOT NULL DEFAULT false,
    -- all up to here is stored, in the history that system_identifier and timeline name
    ADD COLUMN received_lsn pg_lsn;

-- Each row is marked once: its new version finds room beside the old one, and no index is written.
ALTER TABLE headwater.cdc_inbox SET (fillfactor = 50);

-- What a node's live source does: written when that changes, and with heartbeats.
CREATE TABLE headwater.cdc_nodes (
    namespace_id int NOT NULL,
    node_id      text COLLATE "C" NOT NULL,
    instance_id  uuid NOT NULL,
    mode         text COLLATE "C" NOT NULL CHECK (mode IN ('direct', 'inbox')),
    state        text COLLATE "C" NOT NULL CHECK (state IN ('starting', 'streaming', 'degraded', 'recovering')),
    since        timestamptz NOT NULL,
    reported_at  timestamptz NOT NULL,
    received     bigint NOT NULL,
    taken        bigint NOT NULL,
    slot         text,
    error        text,
    warnings     text[] NOT NULL,
    PRIMARY KEY (namespace_id, node_id),
    FOREIGN KEY (namespace_id, node_id) REFERENCES headwater.nodes ON DELETE CASCADE
) WITH (fillfactor = 40);
ALTER TABLE headwater.cdc_nodes ENABLE ROW LEVEL SECURITY;
CREATE POLICY consumers ON headwater.cdc_nodes USING (namespace_id = ANY ((SELECT headwater.granted('consumer'))::int[]));

DROP FUNCTION IF EXISTS headwater.cdc_begin(text, text, text, int, text);
DROP FUNCTION IF EXISTS headwater.cdc_receive(text, text, pg_lsn[], int[], bigint[], text[], text[]);
DROP FUNCTION IF EXISTS headwater.cdc_tidy(text, bigint, interval);
